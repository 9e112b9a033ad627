"""CFQ, as of Linux 4.19 (and, by one switch, the group rule of kernels before 4.6).

Source of every rule: spec block-layer section 1, whose paragraph is named at each function ("1.8" = section 1.8); the
kernel's own rows in `data/kernel/` hold the result to account. The tunables open the file; the functions follow the way
a request takes: which queue it belongs to, insertion, preemption, dispatch. Beside it: `cfq_idling` (completion, and
who is waited for), `cfq_cooperators` (queues that read side by side), `cfq_state` (tables and estimators) and
`cfq_service` (expiry, trees, groups, slices).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.account import idle_end
from ..engine.clock import armed, cancel
from ..engine.codes import (
    END_ARRIVAL,
    END_EXPIRED,
    END_PREEMPTED,
    F_PRIO,
    MSEC,
    NONE,
    PAGE_SECTORS,
    SEC,
    T_DONE,
    T_IDLE,
    TR_ACTIVE,
    TR_PREEMPT,
)
from ..engine.jit import jit
from ..engine.lists import insert_sorted, push_back, remove
from ..engine.requests import is_sync
from ..engine.trace import record
from ..errors import ScenarioError
from ..knobs import check, knob, named
from .cfq_cooperators import close_cooperator, setup_merge
from .cfq_service import add_to_rr, choose_group, choose_workload, expire, serving_tree, tree_insert
from .cfq_state import (
    ASYNC_SLOTS,
    CLOSE_THRESHOLD,
    IDLE,
    RT,
    SYNC_NOIDLE,
    THINK_VALID,
    TREES,
    is_noidle_write,
    new_queue,
    queue_node,
    release_queue,
    seeky,
    should_idle,
    slice_used,
    think_time_big,
    update_seek_history,
    update_think_time,
    workload_type,
)
from .nearest import better_request


@named
@dataclass(frozen=True)
class CFQ:
    """CFQ's tunables, with the names and units of `/sys/block/DEV/queue/iosched/` (1.18).

    None stands for the kernel's default: slice_idle is 8 ms on a rotational device and 0 on any other. The `_us` files
    are the same tunables in microseconds; give one of the two. `ancestor_preempts` is the group rule of 4.6 and later
    (None: by kernel version).

    >>> CFQ(slice_idle=0, group_idle=8).slice_idle
    0
    """

    slice_idle: float | None = knob(None, "keep the device idle for a queue", "ms", 0, 1e6, optional=True,
                                    sysfs="slice_idle", slider=(0, 16, "linear"))  # fmt: skip
    group_idle: float | None = knob(None, "keep the device idle for a group's last queue, when slice_idle does not",
                                    "ms", 0, 1e6, optional=True,
                                    sysfs="group_idle", slider=(0, 16, "linear"))  # fmt: skip
    quantum: int = knob(8, "requests in flight of one queue", "requests", 1, integer=True, sysfs="quantum")
    fifo_expire_sync: float = knob(
        125, "age at which a sync request jumps its queue", "ms", 1, sysfs="fifo_expire_sync"
    )
    fifo_expire_async: float = knob(250, "the same for async", "ms", 1, sysfs="fifo_expire_async")
    back_seek_max: int = knob(16384, "largest backward step considered", "KiB", 0, 2**31, integer=True,
                              sysfs="back_seek_max")  # fmt: skip
    back_seek_penalty: int = knob(2, "a backward step costs so many times", "", 1, 2**20, integer=True,
                                  sysfs="back_seek_penalty")  # fmt: skip
    slice_sync: float | None = knob(None, "base slice of a sync queue (100)", "ms", 1, 1e6, optional=True,
                                    sysfs="slice_sync")  # fmt: skip
    slice_async: float | None = knob(None, "base slice of an async queue (40)", "ms", 1, 1e6, optional=True,
                                     sysfs="slice_async")  # fmt: skip
    slice_async_rq: int = knob(2, "async requests a slice, times 2(8 - priority)", "requests", 1, 2**20, integer=True,
                               sysfs="slice_async_rq")  # fmt: skip
    low_latency: bool = knob(True, "shrink slices towards target_latency", sysfs="low_latency")
    target_latency: float | None = knob(None, "desired time of a round (300)", "ms", 1, 1e6, optional=True,
                                        sysfs="target_latency")  # fmt: skip
    slice_idle_us: float | None = knob(None, "slice_idle in us", "us", 0, 1e9, optional=True, sysfs="slice_idle_us")
    group_idle_us: float | None = knob(None, "group_idle in us", "us", 0, 1e9, optional=True, sysfs="group_idle_us")
    slice_sync_us: float | None = knob(None, "slice_sync in us", "us", 1, 1e9, optional=True, sysfs="slice_sync_us")
    slice_async_us: float | None = knob(None, "slice_async in us", "us", 1, 1e9, optional=True, sysfs="slice_async_us")
    target_latency_us: float | None = knob(None, "target_latency in us", "us", 1, 1e9, optional=True,
                                           sysfs="target_latency_us")  # fmt: skip
    ancestor_preempts: bool | None = knob(None, "an ancestor cgroup may preempt its descendants (since 4.6)",
                                          choices=(True, False), optional=True)  # fmt: skip

    def __post_init__(self) -> None:
        check(self, "scheduler.")
        for name in ("slice_idle", "group_idle", "slice_sync", "slice_async", "target_latency"):
            ms, us = getattr(self, name), getattr(self, name + "_us")
            if ms is not None and us is not None and ms * 1000 != us:
                raise ScenarioError(f"scheduler.{name}: {ms} ms and {name}_us={us} differ; give one of the two.")

    def nanoseconds(self, name: str, default_ms: float) -> int:
        """A tunable in the engine's unit, whichever of its two files was given."""
        ms, us = getattr(self, name), getattr(self, name + "_us")
        if us is not None:
            return round(us * 1000)
        return round((default_ms if ms is None else ms) * 1_000_000)

    def idle_defaults(self, rotational: bool) -> tuple[int, int]:
        """(slice_idle, group_idle) in ns; slice_idle starts at 0 on a device that does not rotate (1.1)."""
        return self.nanoseconds("slice_idle", 8 if rotational else 0), self.nanoseconds("group_idle", 8)

    def group_rule(self, kernel_since_4_6: bool) -> bool:
        """May an ancestor preempt? The explicit setting, else by version."""
        return kernel_since_4_6 if self.ancestor_preempts is None else bool(self.ancestor_preempts)

    def fill(self, s, d: int, rotational: bool, kernel_since_4_6: bool, hz: int) -> None:
        """Write the tunables of device `d` into the engine's tables."""
        c = s.cfq[d]
        c.slice_idle, c.group_idle = self.idle_defaults(rotational)
        c.slice_sync = self.nanoseconds("slice_sync", 100)
        c.slice_async = self.nanoseconds("slice_async", 40)
        c.target_latency = self.nanoseconds("target_latency", 300)
        c.fifo_expire_sync = round(self.fifo_expire_sync * MSEC)
        c.fifo_expire_async = round(self.fifo_expire_async * MSEC)
        c.quantum = self.quantum
        c.back_seek_max = 2 * self.back_seek_max
        c.back_seek_penalty = self.back_seek_penalty
        c.slice_async_rq = self.slice_async_rq
        c.low_latency = int(self.low_latency)
        c.ancestor_preempts = int(self.group_rule(kernel_since_4_6))
        c.jiffy = SEC // hz
        c.last_delayed_sync = -SEC
        c.workload_expires = -1


# ---------------------------------------------------------------------------------------------------------------------
# which queue a request belongs to (1.3)


@jit
def queue_for(s, d, task, op, flags):
    """The queue that a request of this task goes to (1.3), after merging or splitting where that is due (1.15)."""
    t = s.tasks[task]
    g = d * s.sim[0].n_groups + t.group
    if not is_sync(op, flags):
        slot = s.cfq_async[g * ASYNC_SLOTS + (16 if t.ioclass == IDLE else t.ioclass * 8 + t.ioprio)]
        if slot.queue == NONE:
            slot.queue = new_queue(s, d, g, NONE, 0, t.ioprio, t.ioclass)
        return slot.queue
    context = s.cfq_contexts[d * s.sim[0].n_tasks + s.tasks[task].ioc]
    if context.queue == NONE:
        context.last_end = s.sim[0].now
        context.queue = new_queue(s, d, g, task, 1, t.ioprio, t.ioclass)
        s.cfq_queues[context.queue].refs = 1
        return context.queue
    q = s.cfq_queues[context.queue]
    if q.merge_into != NONE:
        old = context.queue
        target = q.merge_into
        while s.cfq_queues[target].merge_into != NONE:
            target = s.cfq_queues[target].merge_into
        q.refs -= 1
        context.queue = target
        s.cfq_queues[target].refs += 1
        s.cfq_queues[target].coop = 1
        release_queue(s, old)
    elif q.coop != 0 and q.split_coop != 0:
        if q.refs == 1:
            q.coop = 0
            q.split_coop = 0
            q.task = task
        else:
            q.refs -= 1
            context.queue = new_queue(s, d, g, task, 1, t.ioprio, t.ioclass)
            s.cfq_queues[context.queue].refs = 1
    return context.queue


@jit
def merge_list(s, d, task, op, flags):
    """Sorted list in which a new bio may find a request to join: its own queue, never another's (1.17)."""
    if is_sync(op, flags):
        queue = s.cfq_contexts[d * s.sim[0].n_tasks + s.tasks[task].ioc].queue
        return NONE if queue == NONE else s.cfq_queues[queue].sorted
    return s.cfq_queues[queue_for(s, d, task, op, flags)].sorted


@jit
def may_queue(s, d, task):
    """A task whose queue is being waited for gets one request per slice beyond a full pool (1.17)."""
    queue = s.cfq_contexts[d * s.sim[0].n_tasks + s.tasks[task].ioc].queue
    if queue == NONE:
        return False
    q = s.cfq_queues[queue]
    if q.wait_request == 0 or q.must_alloc_slice != 0:
        return False
    q.must_alloc_slice = 1
    return True


# ---------------------------------------------------------------------------------------------------------------------
# insertion and preemption (1.4, 1.7, 1.8)


@jit
def insert(s, ri):
    """A request enters CFQ (1.4). The caller runs the queue afterwards."""
    r = s.requests[ri]
    d = r.dev
    c = s.cfq[d]
    now = s.sim[0].now
    i = queue_for(s, d, r.task, r.op, r.cmd_flags)
    r.queue = i
    q = s.cfq_queues[i]
    sync = is_sync(r.op, r.cmd_flags)
    r.fifo_time = now + (c.fifo_expire_sync if sync else c.fifo_expire_async)
    push_back(s, q.fifo, 2 * ri + 1)
    insert_sorted(s, q.sorted, 2 * ri, r.sector)
    if sync:
        q.queued_sync += 1
    else:
        q.queued_async += 1
    if q.on_rr == 0:
        add_to_rr(s, d, i)
    q.next_rq = ri if q.next_rq == NONE else better_request(s, c, q.next_rq, ri, c.last_position, F_PRIO)
    c.rq_queued += 1
    if r.cmd_flags & F_PRIO:
        q.prio_pending += 1
    if q.sync != 0:
        update_think_time(s.cfq_contexts[d * s.sim[0].n_tasks + s.tasks[r.task].ioc], now, c.slice_idle)
        update_think_time(s.cfq_trees[q.tree], now, c.slice_idle)
    update_think_time(s.cfq_groups[q.group], now, c.group_idle)
    update_seek_history(s, q, r)
    update_idle_window(s, d, q, r.task)
    q.last_request_pos = r.sector + r.nr
    if i == c.active:
        if q.wait_request != 0:
            idle_end(s, d, END_ARRIVAL)
            if r.nr > PAGE_SECTORS or c.busy_queues > 1:
                cancel(s, d, T_IDLE)
                q.wait_request = 0
            else:
                q.must_dispatch = 1
    elif should_preempt(s, d, i, ri):
        preempt(s, d, i)


@jit
def update_idle_window(s, d, q, task):
    """Decide whether this queue is one to wait for (1.7). A noidle write (fsync data, jbd2) never is."""
    if q.sync == 0 or q.ioclass == IDLE:
        return
    c = s.cfq[d]
    context = s.cfq_contexts[d * s.sim[0].n_tasks + s.tasks[task].ioc]
    if q.queued_sync + q.queued_async >= 4:
        q.deep = 1
    if q.next_rq != NONE and is_noidle_write(s.requests[q.next_rq]):
        q.idle_window = 0
    elif s.tasks[task].state == T_DONE or c.slice_idle == 0 or (q.deep == 0 and seeky(q)):
        q.idle_window = 0
    elif context.ttime_samples > THINK_VALID:
        q.idle_window = 1 if context.ttime_mean <= c.slice_idle else 0


@jit
def should_preempt(s, d, i, ri):
    """May queue `i` with its new request take the device from the active queue (1.8)? The first rule that matches
    decides."""
    c = s.cfq[d]
    if c.active == NONE:
        return False
    n = s.cfq_queues[i]
    a = s.cfq_queues[c.active]
    r = s.requests[ri]
    if n.ioclass == IDLE:
        return False
    if a.ioclass == IDLE:
        return True
    if a.ioclass == RT and n.ioclass != RT:
        return False
    if is_sync(r.op, r.cmd_flags) and a.sync == 0 and a.must_dispatch == 0:
        return True
    if not group_may_preempt(s, c, n.group, a.group):
        return False
    if slice_used(s, a):
        return True
    if n.ioclass == RT and a.ioclass != RT:
        return True
    if c.serving_type == SYNC_NOIDLE and workload_type(n) == SYNC_NOIDLE and a.next_rq == NONE:
        return True
    if (r.cmd_flags & F_PRIO) != 0 and a.prio_pending == 0:
        return True
    if a.next_rq == NONE and not should_idle(s, d, a):
        return True
    if c.active_task == NONE or a.wait_request == 0:
        return False
    return abs(r.sector - c.last_position) <= CLOSE_THRESHOLD


@jit
def group_may_preempt(s, c, newcomer, active):
    """Groups isolate (1.8 rule 6): since 4.6 an ancestor may preempt its descendants, before only the same group.

    This asymmetry alone makes thread 0 one idle a write and not two: jbd2 in the root preempts dd, dd never jbd2.
    """
    g = active
    while g != NONE:
        if g == newcomer:
            return True
        if c.ancestor_preempts == 0:
            return False
        g = s.cfq_groups[g].parent
    return False


@jit
def preempt(s, d, i):
    """Expire the active queue and put queue `i` at the front of its tree (1.8, preempt action)."""
    c = s.cfq[d]
    n = s.cfq_queues[i]
    old_type = workload_type(s.cfq_queues[c.active])
    record(s, TR_PREEMPT, n.task, NONE, 0, 0, 0, d)
    idle_end(s, d, END_PREEMPTED)
    expire(s, d, True)
    if old_type != workload_type(n):
        s.cfq_groups[n.group].saved_slice = 0
    tree_insert(s, d, i, True)
    n.slice_end = 0
    n.slice_new = 1


# ---------------------------------------------------------------------------------------------------------------------
# dispatch (1.9, 1.10)


@jit
def following_request(s, d, ri):
    """The next_rq after `ri` leaves its queue: the better of its neighbours by sector (1.9)."""
    node = s.nodes[2 * ri]
    q = s.cfq_queues[s.requests[ri].queue]
    after = node.next
    if after == NONE:
        head = s.lists[q.sorted].head
        after = head if head != 2 * ri else NONE
    before = node.prev
    position = s.requests[ri].sector
    if after == NONE:
        return NONE if before == NONE else before >> 1
    if before == NONE:
        return after >> 1
    return better_request(s, s.cfq[d], after >> 1, before >> 1, position, F_PRIO)


@jit
def withdraw(s, ri):
    """Take a pending request out of its queue (dispatched, or merged into another)."""
    r = s.requests[ri]
    q = s.cfq_queues[r.queue]
    c = s.cfq[r.dev]
    if q.next_rq == ri:
        q.next_rq = following_request(s, r.dev, ri)
    remove(s, 2 * ri)
    remove(s, 2 * ri + 1)
    if is_sync(r.op, r.cmd_flags):
        q.queued_sync -= 1
    else:
        q.queued_async -= 1
    c.rq_queued -= 1
    if r.cmd_flags & F_PRIO:
        q.prio_pending -= 1


@jit
def request_grew(s, ri, front):
    """A bio joined the request: after a front merge its place has changed."""
    if front:
        r = s.requests[ri]
        q = s.cfq_queues[r.queue]
        remove(s, 2 * ri)
        insert_sorted(s, q.sorted, 2 * ri, r.sector)
        if q.next_rq != NONE:
            c = s.cfq[r.dev]
            q.next_rq = better_request(s, c, q.next_rq, ri, c.last_position, F_PRIO)


@jit
def dispatch(s, d):
    """The request to issue now, or NONE (1.10): one a call."""
    c = s.cfq[d]
    if c.busy_queues == 0:
        return NONE
    i = select_queue(s, d)
    if i == NONE:
        return NONE
    q = s.cfq_queues[i]
    if not may_dispatch(s, d, q):
        return NONE
    ri = q.next_rq
    if q.fifo_expire == 0:
        q.fifo_expire = 1
        first = s.lists[q.fifo].head
        if first != NONE and s.sim[0].now >= s.requests[first >> 1].fifo_time:
            ri = first >> 1
            q.must_dispatch = 1
    q.next_rq = ri  # so that the fifo's choice too is followed by its neighbour
    withdraw(s, ri)
    r = s.requests[ri]
    q.dispatched += 1
    q.slice_dispatch += 1
    s.cfq_groups[q.group].dispatched += 1
    if is_sync(r.op, r.cmd_flags):
        c.in_flight_sync += 1
    else:
        c.in_flight_async += 1
    c.in_driver += 1
    c.last_position = r.sector + r.nr
    q.must_dispatch = 0
    if c.active_task == NONE:
        c.active_task = r.task
    if c.busy_queues > 1 and (
        (q.sync == 0 and q.slice_dispatch >= 2 * c.slice_async_rq * (8 - q.ioprio)) or q.ioclass == IDLE
    ):
        idle_end(s, d, END_EXPIRED)
        expire(s, d, False)
    return ri


@jit
def select_queue(s, d):
    """Keep the active queue, wait for it, or choose another (1.10, steps 1 to 12)."""
    c = s.cfq[d]
    if c.active != NONE:
        if c.rq_queued == 0:
            return NONE
        a = s.cfq_queues[c.active]
        group = s.cfq_groups[a.group]
        if a.wait_busy == 0 or a.next_rq == NONE:
            if slice_used(s, a) and a.must_dispatch == 0:
                if group.nr_queues == 1 and a.next_rq == NONE and a.dispatched > 0 and should_idle(s, d, a):
                    return NONE
            else:
                if a.next_rq != NONE:
                    return c.active
                cooperator = close_cooperator(s, d, c.active)
                if cooperator != NONE:
                    if a.merge_into == NONE:
                        setup_merge(s, c.active, cooperator)
                    idle_end(s, d, END_EXPIRED)
                    expire(s, d, False)
                    set_active(s, d, cooperator)
                    return cooperator
                if armed(s, d, T_IDLE):
                    return NONE
                if (
                    seeky(a)
                    and a.idle_window != 0
                    and (a.slice_new != 0 or a.slice_end - s.sim[0].now > s.sim[0].now - a.slice_start)
                ):
                    a.deep = 0
                    a.idle_window = 0
                if a.dispatched > 0 and should_idle(s, d, a):
                    return NONE
            if (
                c.group_idle > 0
                and group.nr_queues == 1
                and group.dispatched > 0
                and not think_time_big(group, c.group_idle)
            ):
                return NONE
        idle_end(s, d, END_EXPIRED)
        expire(s, d, False)
    if s.lists[c.group_list].count == 0:
        return NONE
    choose_group(s, d)
    choose_workload(s, d)
    tree = s.cfq_trees[serving_tree(c)]
    i = s.lists[tree.list].head
    if i == NONE:
        return NONE
    i = i - queue_node(s, 0)
    set_active(s, d, i)
    return i


@jit
def set_active(s, d, i):
    """Queue `i` starts a new slice; its time only starts at its first completion (1.10 step 12, 1.11)."""
    c = s.cfq[d]
    q = s.cfq_queues[i]
    c.active = i
    q.dispatch_start = s.sim[0].now
    q.slice_start = 0
    q.slice_end = 0
    q.allocated_slice = 0
    q.slice_dispatch = 0
    q.wait_request = 0
    q.must_dispatch = 0
    q.must_alloc_slice = 0
    q.fifo_expire = 0
    q.slice_new = 1
    cancel(s, d, T_IDLE)
    record(s, TR_ACTIVE, q.task, NONE, 0, q.tree % TREES, 0, d)


@jit
def may_dispatch(s, d, q):
    """In-flight limits of the chosen queue (1.10)."""
    c = s.cfq[d]
    if q.must_dispatch != 0:
        return True
    if should_idle(s, d, q) and c.in_flight_async > 0:
        return False
    if q.sync == 0 and c.in_flight_sync > 0:
        return False
    limit = max(c.quantum // 2, 1)
    if q.ioclass == IDLE:
        limit = 1
    if q.dispatched >= limit:
        if q.ioclass == IDLE:
            return False
        promote = q.sync != 0 and c.busy_sync == 1
        if c.busy_queues > 1 and slice_used_soon(s, c, q) and not promote:
            return False
        limit = 1 << 40 if c.busy_queues == 1 or promote else c.quantum
    if q.sync == 0 and c.low_latency != 0:
        depth = (s.sim[0].now - c.last_delayed_sync) // c.slice_sync
        if depth == 0 and q.dispatched == 0:
            depth = 1
        limit = min(limit, depth)
    return q.dispatched < limit


@jit
def slice_used_soon(s, c, q):
    """So many requests are out that the slice will be over when they return (1.10)."""
    return q.slice_new != 0 or s.sim[0].now + c.slice_idle * q.dispatched > q.slice_end
