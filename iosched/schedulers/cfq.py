"""CFQ, as of Linux 4.19 (and, by one switch, the group rule of kernels before 4.6).

Source of every rule: spec block-layer section 1, whose paragraph is named at each function ("1.8" = section 1.8); the
kernel's own rows in `data/kernel/` hold the result to account. The functions follow the way a request takes: which
queue it belongs to, insertion, preemption, dispatch, completion and idling, expiry, and the choice of group, workload
and queue that comes next.

One row of `s.cfq` a device, `s.cfq_groups` a (device, cgroup), `s.cfq_trees` seven a group, `s.cfq_queues` a queue,
`s.cfq_contexts` a (device, task), which is what the kernel calls cic. Times are ns, places sectors.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.account import idle_begin, idle_end
from ..engine.clock import arm, armed, cancel
from ..engine.codes import (
    END_ARRIVAL,
    END_EXPIRED,
    END_FIRED,
    END_PREEMPTED,
    F_IDLE,
    F_PRIO,
    F_SYNC,
    IDLE_GROUP,
    IDLE_SLICE,
    IDLE_TREE,
    MSEC,
    NONE,
    PAGE_SECTORS,
    SEC,
    T_DONE,
    T_IDLE,
    TR_ACTIVE,
    TR_EXPIRE,
    TR_PREEMPT,
    WRITE,
)
from ..engine.columns import columns
from ..engine.jit import jit
from ..engine.lists import insert_sorted, push_back, push_front, remove
from ..engine.requests import is_sync
from ..engine.trace import record
from ..errors import ScenarioError
from ..knobs import check, knob

# priority classes, workload types, and the seven service trees of a group: [BE, RT] x [ASYNC, SYNC_NOIDLE, SYNC], IDLE
BE, RT, IDLE = 0, 1, 2
ASYNC, SYNC_NOIDLE, SYNC = 0, 1, 2
TREES = 7
IDLE_TREE_INDEX = 6

SERVICE_SHIFT = 12  # vdisktime and vfraction: 1.0 is 4096
GROUP_ADD_DELAY = 200_000_000  # vdisktime units behind the last group, slice mode
IDLE_CLASS_DELAY = 200 * MSEC
SEEK_THRESHOLD = 800  # sectors
CLOSE_THRESHOLD = 8192  # sectors
SMALL_NONROTATIONAL = 64  # sectors
HW_QUEUE_MIN = 5
HW_SAMPLES = 50
THINK_VALID = 80  # samples are fixed point: the third one reaches 84
HISTORY_BITS = 0xFFFFFFFF

THINK = "last_end ttime_samples ttime_total ttime_mean"
DEVICE_COLUMNS = columns(
    "quantum fifo_expire_sync fifo_expire_async back_seek_max back_seek_penalty slice_sync slice_async slice_async_rq "
    "slice_idle group_idle low_latency target_latency ancestor_preempts jiffy group_list active active_task "
    "serving_group serving_class serving_type workload_expires busy_queues busy_sync rq_queued in_driver in_flight_sync "
    "in_flight_async hw_tag est_depth hw_samples last_position last_delayed_sync min_vdisktime"
)
GROUP_COLUMNS = columns(
    "parent weight leaf_weight nr_active children_weight vfraction vdisktime on_tree nr_queues busy_avg_be busy_avg_rt "
    "busy_avg_idle saved_slice saved_type saved_class dispatched " + THINK
)
TREE_COLUMNS = columns("list " + THINK)
CONTEXT_COLUMNS = columns("queue " + THINK)
QUEUE_COLUMNS = columns(
    "used dev group sync task ioprio ioclass sorted fifo next_rq queued_sync queued_async dispatched dispatch_start "
    "slice_start slice_end allocated_slice slice_resid slice_dispatch seek_history last_request_pos tree merge_into refs "
    "prio_pending on_rr wait_request must_dispatch must_alloc_slice fifo_expire idle_window slice_new coop split_coop "
    "deep wait_busy"
)
ASYNC_COLUMNS = columns("queue")  # seventeen a group: [BE, RT] x 8 levels, and the idle class
ASYNC_SLOTS = 17


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
    group_idle: float | None = knob(None, "keep the device idle for a group's last queue; counts when slice_idle does not",
                                    "ms", 0, 1e6, optional=True, sysfs="group_idle", slider=(0, 16, "linear"))  # fmt: skip
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
    ancestor_preempts: bool | None = knob(None, "an ancestor cgroup may preempt its descendants (kernels since 4.6)", "",
                                          0, 1, optional=True)  # fmt: skip

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
# estimators


@jit
def update_think_time(record_, now, idle):
    """Fold one think time into a record (1.5): weight 1/8, a sample counts at most twice the idle parameter."""
    elapsed = min(now - record_.last_end, 2 * idle)
    record_.ttime_samples = (7 * record_.ttime_samples + 256) // 8
    record_.ttime_total = (7 * record_.ttime_total + 256 * elapsed) // 8
    record_.ttime_mean = (record_.ttime_total + 128) // record_.ttime_samples


@jit
def think_time_big(record_, limit):
    """The mean is valid (three samples) and larger than `limit` ns (1.5)."""
    return record_.ttime_samples > THINK_VALID and record_.ttime_mean > limit


@jit
def seeky(q):
    """More than 4 of the last 32 requests were far from the one before (1.6)."""
    bits = q.seek_history & HISTORY_BITS
    count = 0
    while bits != 0:
        bits &= bits - 1
        count += 1
    return count > 4


@jit
def update_seek_history(s, q, r):
    """Shift one bit into the queue's seek history (1.6)."""
    dev = s.devices[q.dev]
    far = False
    if dev.rotational != 0:
        distance = 0
        if q.last_request_pos != 0:
            distance = abs(r.sector - q.last_request_pos)
        far = distance > SEEK_THRESHOLD
    else:
        far = r.nr < SMALL_NONROTATIONAL
    q.seek_history = (q.seek_history << 1) & HISTORY_BITS
    if far:
        q.seek_history |= 1


@jit
def update_idle_window(s, d, q, task):
    """Decide whether this queue is one to wait for (1.7). A noidle write (fsync data, jbd2) never is."""
    if q.sync == 0 or q.ioclass == IDLE:
        return
    c = s.cfq[d]
    context = s.cfq_contexts[d * s.sim[0].n_tasks + task]
    if q.queued_sync + q.queued_async >= 4:
        q.deep = 1
    if q.next_rq != NONE and is_noidle_write(s.requests[q.next_rq]):
        q.idle_window = 0
    elif s.tasks[task].state == T_DONE or c.slice_idle == 0 or (q.deep == 0 and seeky(q)):
        q.idle_window = 0
    elif context.ttime_samples > THINK_VALID:
        q.idle_window = 1 if context.ttime_mean <= c.slice_idle else 0


@jit
def update_hw_tag(s, d):
    """Does the device take five requests at once? Asked at each completion (1.16); -1, "not known yet", counts as yes."""
    c = s.cfq[d]
    if c.in_driver > c.est_depth:
        c.est_depth = c.in_driver
    if c.hw_tag == 1:
        return
    if c.rq_queued <= HW_QUEUE_MIN and c.in_driver <= HW_QUEUE_MIN:
        return
    if c.active != NONE:
        q = s.cfq_queues[c.active]
        if (
            q.idle_window != 0
            and q.dispatched + q.queued_sync + q.queued_async < HW_QUEUE_MIN
            and c.in_driver < HW_QUEUE_MIN
        ):
            return
    c.hw_samples += 1
    if c.hw_samples < HW_SAMPLES:
        return
    c.hw_tag = 1 if c.est_depth >= HW_QUEUE_MIN else 0


# ---------------------------------------------------------------------------------------------------------------------
# which queue a request belongs to


@jit
def is_noidle_write(r):
    """SYNC without IDLE on a write: fsync data and jbd2 in 4.19, not O_DIRECT (section 0)."""
    return r.op == WRITE and (r.cmd_flags & F_SYNC) != 0 and (r.cmd_flags & F_IDLE) == 0


@jit
def new_queue(s, d, group, task, sync, ioprio, ioclass):
    """Take a free queue record and initialise it (1.3)."""
    i = 0
    while s.cfq_queues[i].used != 0:
        i += 1
    q = s.cfq_queues[i]
    q.used = 1
    q.dev = d
    q.group = group
    q.task = task
    q.sync = sync
    q.ioprio = ioprio
    q.ioclass = ioclass
    q.next_rq = NONE
    q.queued_sync = 0
    q.queued_async = 0
    q.dispatched = 0
    q.slice_resid = 0
    q.slice_dispatch = 0
    q.slice_end = 0
    q.slice_start = 0
    q.seek_history = 0
    q.last_request_pos = 0
    q.tree = NONE
    q.merge_into = NONE
    q.refs = 0
    q.prio_pending = 0
    q.on_rr = 0
    q.wait_request = 0
    q.must_dispatch = 0
    q.must_alloc_slice = 0
    q.fifo_expire = 0
    q.idle_window = 1 if sync != 0 and ioclass != IDLE else 0
    q.slice_new = 0
    q.coop = 0
    q.split_coop = 0
    q.deep = 0
    q.wait_busy = 0
    return i


@jit
def release_queue(s, i):
    """Give the record back once no process and no request needs it."""
    q = s.cfq_queues[i]
    if q.sync != 0 and q.refs == 0 and q.on_rr == 0 and q.dispatched == 0 and s.cfq[q.dev].active != i:
        q.used = 0


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
    context = s.cfq_contexts[d * s.sim[0].n_tasks + task]
    if context.queue == NONE:
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
        queue = s.cfq_contexts[d * s.sim[0].n_tasks + task].queue
        return NONE if queue == NONE else s.cfq_queues[queue].sorted
    return s.cfq_queues[queue_for(s, d, task, op, flags)].sorted


@jit
def may_queue(s, d, task):
    """A task whose queue is being waited for gets one request per slice beyond a full pool (1.17)."""
    queue = s.cfq_contexts[d * s.sim[0].n_tasks + task].queue
    if queue == NONE:
        return False
    q = s.cfq_queues[queue]
    if q.wait_request == 0 or q.must_alloc_slice != 0:
        return False
    q.must_alloc_slice = 1
    return True


# ---------------------------------------------------------------------------------------------------------------------
# insertion (1.4)


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
    q.next_rq = ri if q.next_rq == NONE else better_request(s, d, q.next_rq, ri, c.last_position)
    c.rq_queued += 1
    if r.cmd_flags & F_PRIO:
        q.prio_pending += 1
    if q.sync != 0:
        update_think_time(s.cfq_contexts[d * s.sim[0].n_tasks + r.task], now, c.slice_idle)
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
def better_request(s, d, a, b, last):
    """Which of two requests to serve next, seen from head position `last` (1.9)."""
    c = s.cfq[d]
    ra = s.requests[a]
    rb = s.requests[b]
    sync_a = is_sync(ra.op, ra.cmd_flags)
    if sync_a != is_sync(rb.op, rb.cmd_flags):
        return a if sync_a else b
    prio_a = (ra.cmd_flags & F_PRIO) != 0
    if prio_a != ((rb.cmd_flags & F_PRIO) != 0):
        return a if prio_a else b
    da, wrap_a = head_distance(ra.sector, last, c)
    db, wrap_b = head_distance(rb.sector, last, c)
    if wrap_a != wrap_b:
        return b if wrap_a else a
    if wrap_a:
        return a if ra.sector <= rb.sector else b
    if da != db:
        return a if da < db else b
    return a if ra.sector >= rb.sector else b


@jit
def head_distance(sector, last, c):
    """(distance in sectors, wraps?): backwards costs `back_seek_penalty` times, and too far back counts as wrapped."""
    if sector >= last:
        return sector - last, False
    if sector + c.back_seek_max >= last:
        return (last - sector) * c.back_seek_penalty, False
    return 0, True


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
    position = s.requests[ri].sector + s.requests[ri].nr
    if after == NONE:
        return NONE if before == NONE else before // 2
    if before == NONE:
        return after // 2
    return better_request(s, d, after // 2, before // 2, position)


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
            q.next_rq = better_request(s, r.dev, q.next_rq, ri, s.cfq[r.dev].last_position)


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
        if first != NONE and s.sim[0].now >= s.requests[first // 2].fifo_time:
            ri = first // 2
            q.must_dispatch = 1
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
def slice_used(s, q):
    """The slice has begun (a completion was seen) and is over."""
    return q.slice_new == 0 and s.sim[0].now >= q.slice_end


@jit
def slice_used_soon(s, c, q):
    """So many requests are out that the slice will be over when they return (1.10)."""
    return q.slice_new != 0 or s.sim[0].now + c.slice_idle * q.dispatched > q.slice_end


# ---------------------------------------------------------------------------------------------------------------------
# completion and idling (1.11)


@jit
def should_idle(s, d, q):
    """Is it worth keeping the device for this queue (1.10)? The last clause waits for the last queue of a tree."""
    c = s.cfq[d]
    if c.slice_idle == 0 or q.ioclass == IDLE:
        return False
    if q.idle_window != 0 and not (s.devices[d].rotational == 0 and c.hw_tag != 0):
        return True
    tree = s.cfq_trees[q.tree]
    return s.lists[tree.list].count == 1 and q.sync != 0 and not think_time_big(tree, c.slice_idle)


@jit
def completed(s, ri):
    """A request of CFQ came back (1.11). True asks for a dispatch by kblockd."""
    r = s.requests[ri]
    d = r.dev
    c = s.cfq[d]
    now = s.sim[0].now
    q = s.cfq_queues[r.queue]
    sync = is_sync(r.op, r.cmd_flags)
    update_hw_tag(s, d)
    c.in_driver -= 1
    q.dispatched -= 1
    group = s.cfq_groups[q.group]
    group.dispatched -= 1
    if sync:
        c.in_flight_sync -= 1
        s.cfq_contexts[d * s.sim[0].n_tasks + r.task].last_end = now
        tree = q.tree if q.on_rr != 0 else q.group * TREES + tree_index(q)
        s.cfq_trees[tree].last_end = now
        if now - r.start >= c.fifo_expire_sync:
            c.last_delayed_sync = now
    else:
        c.in_flight_async -= 1
    group.last_end = now
    if c.active == r.queue:
        if q.slice_new != 0:
            set_slice(s, d, q)
            q.slice_new = 0
        if should_wait_busy(s, d, q):
            q.slice_end = now + (c.slice_idle if c.slice_idle > 0 else c.group_idle)
            q.wait_busy = 1
        if slice_used(s, q) or q.ioclass == IDLE:
            idle_end(s, d, END_EXPIRED)
            expire(s, d, True)
        elif sync and q.next_rq == NONE and close_cooperator(s, d, c.active) == NONE:
            arm_idle_timer(s, d, q)
    else:
        release_queue(s, r.queue)
    # kblockd would find nothing while nothing is pending: the run is left out
    return c.in_driver == 0 and c.rq_queued > 0


@jit
def should_wait_busy(s, d, q):
    """Let the last queue of a group keep its turn a little beyond its slice (1.11)."""
    c = s.cfq[d]
    group = s.cfq_groups[q.group]
    if q.next_rq != NONE or group.nr_queues > 1 or think_time_big(group, c.group_idle):
        return False
    if slice_used(s, q):
        return True
    left = q.slice_end - s.sim[0].now
    if c.active_task != NONE:
        context = s.cfq_contexts[d * s.sim[0].n_tasks + c.active_task]
        if context.ttime_samples > THINK_VALID and left < context.ttime_mean:
            return True
    return left <= c.jiffy


@jit
def arm_idle_timer(s, d, q):
    """Wait for the active, now empty, queue's next request (1.11). slice_idle comes first, group_idle only without."""
    c = s.cfq[d]
    if s.devices[d].rotational == 0 and c.hw_tag != 0 and c.group_idle == 0:
        return
    if should_idle(s, d, q):
        length = c.slice_idle
        reason = IDLE_SLICE if q.idle_window != 0 else IDLE_TREE
    elif c.group_idle > 0:
        length = c.group_idle
        reason = IDLE_GROUP
    else:
        return
    if q.dispatched > 0 or c.active_task == NONE or s.tasks[c.active_task].state == T_DONE:
        return
    now = s.sim[0].now
    context = s.cfq_contexts[d * s.sim[0].n_tasks + c.active_task]
    if context.ttime_samples > THINK_VALID and q.slice_end - now < context.ttime_mean:
        return
    if reason == IDLE_GROUP and (
        s.cfq_groups[q.group].nr_queues > 1 or think_time_big(s.cfq_trees[q.tree], c.group_idle)
    ):
        return
    q.wait_request = 1
    idle_end(s, d, END_EXPIRED)
    idle_begin(s, d, q.task, reason, now + length)
    arm(s, d, T_IDLE, now + length)


@jit
def timer_fired(s, d):
    """The idle timer ran out (1.11). kblockd dispatches afterwards."""
    c = s.cfq[d]
    if c.active == NONE:
        return
    q = s.cfq_queues[c.active]
    if q.must_dispatch != 0:
        return
    if not slice_used(s, q):
        if c.busy_queues == 0 or q.next_rq != NONE:
            return
        q.deep = 0
    idle_end(s, d, END_FIRED)
    expire(s, d, False)


# ---------------------------------------------------------------------------------------------------------------------
# expiry and the service trees (1.12)


@jit
def expire(s, d, timed_out):
    """End the active queue's turn (1.12): only a queue that was cut short (`timed_out`) banks the rest of its slice."""
    c = s.cfq[d]
    i = c.active
    if i == NONE:
        return
    q = s.cfq_queues[i]
    now = s.sim[0].now
    record(s, TR_EXPIRE, q.task, NONE, 0, 1 if timed_out else 0, 0, d)
    if q.wait_request != 0:
        cancel(s, d, T_IDLE)
    q.wait_request = 0
    q.wait_busy = 0
    if q.coop != 0 and seeky(q):
        q.split_coop = 1
    if timed_out:
        q.slice_resid = scaled_slice(s, d, q) if q.slice_new != 0 else q.slice_end - now
    charge_group(s, d, q)
    if q.next_rq == NONE:
        remove_from_rr(s, d, i)
    else:
        tree_insert(s, d, i, False)
    c.active = NONE
    c.active_task = NONE
    if q.next_rq == NONE:
        release_queue(s, i)


@jit
def queue_node(s, i):
    """The list node of queue `i`: behind the two of every request."""
    return 2 * s.sim[0].n_requests + i


@jit
def group_node(s, g):
    """The list node of group `g`."""
    return 2 * s.sim[0].n_requests + s.sim[0].n_cfq_queues + g


@jit
def workload_type(q):
    """ASYNC, SYNC_NOIDLE or SYNC (1.7)."""
    if q.sync == 0:
        return ASYNC
    return SYNC if q.idle_window != 0 else SYNC_NOIDLE


@jit
def tree_index(q):
    """Which of its group's seven trees the queue belongs in now."""
    if q.ioclass == IDLE:
        return IDLE_TREE_INDEX
    return q.ioclass * 3 + workload_type(q)


@jit
def add_to_rr(s, d, i):
    """An empty queue got a request: it becomes busy, with the idle_window flag it had before (1.4 step 2)."""
    c = s.cfq[d]
    q = s.cfq_queues[i]
    q.on_rr = 1
    c.busy_queues += 1
    if q.sync != 0:
        c.busy_sync += 1
    group = s.cfq_groups[q.group]
    group.nr_queues += 1
    tree_insert(s, d, i, False)
    if group.on_tree == 0:
        group_enters(s, d, q.group)


@jit
def remove_from_rr(s, d, i):
    """An expired queue without requests stops being busy (1.12)."""
    c = s.cfq[d]
    q = s.cfq_queues[i]
    remove(s, queue_node(s, i))
    q.on_rr = 0
    c.busy_queues -= 1
    if q.sync != 0:
        c.busy_sync -= 1
    group = s.cfq_groups[q.group]
    group.nr_queues -= 1
    if group.nr_queues == 0:
        group_leaves(s, q.group)
        group.saved_slice = 0


@jit
def tree_insert(s, d, i, front):
    """Place a queue in its service tree (1.12); the key is in ns."""
    c = s.cfq[d]
    q = s.cfq_queues[i]
    now = s.sim[0].now
    node = queue_node(s, i)
    remove(s, node)
    q.tree = q.group * TREES + tree_index(q)
    lst = s.cfq_trees[q.tree].list
    if q.ioclass == IDLE:
        tail = s.lists[lst].tail
        key = (s.nodes[tail].key if tail != NONE else now) + IDLE_CLASS_DELAY
    elif front:
        head = s.lists[lst].head
        s.nodes[node].key = (s.nodes[head].key if head != NONE else now) - SEC
        push_front(s, lst, node)
        return
    else:
        others = s.cfq_groups[q.group].nr_queues - 1
        key = now + others * (prio_slice(c, 1, 0) - prio_slice(c, q.sync, q.ioprio)) - q.slice_resid
        q.slice_resid = 0
    insert_sorted(s, lst, node, key)


@jit
def prio_slice(c, sync, ioprio):
    """Base slice of a priority: 180 ms at level 0, 100 at 4, 40 at 7 for sync queues (1.12)."""
    base = c.slice_sync if sync != 0 else c.slice_async
    return base + base // 5 * (4 - ioprio)


@jit
def scaled_slice(s, d, q):
    """Length of the queue's slice, shortened so that a round fits `target_latency` (1.14)."""
    c = s.cfq[d]
    length = prio_slice(c, q.sync, q.ioprio)
    if c.low_latency == 0:
        return length
    group = s.cfq_groups[q.group]
    queues = averaged_busy_queues(s, group, q.group, q.ioclass)
    expected = c.slice_sync * queues
    group_slice = c.target_latency * group.vfraction >> SERVICE_SHIFT
    if expected > group_slice:
        low = min(length, 2 * c.slice_idle * length // c.slice_sync)
        length = max(length * group_slice // expected, low)
    return length


@jit
def set_slice(s, d, q):
    """The slice starts now, at the first completion (1.11 step 3)."""
    length = scaled_slice(s, d, q)
    q.slice_start = s.sim[0].now
    q.slice_end = q.slice_start + length
    q.allocated_slice = length


@jit
def busy_in_class(s, g, ioclass):
    """Busy queues of one class in a group."""
    if ioclass == IDLE:
        return s.lists[s.cfq_trees[g * TREES + IDLE_TREE_INDEX].list].count
    first = g * TREES + ioclass * 3
    return (
        s.lists[s.cfq_trees[first].list].count
        + s.lists[s.cfq_trees[first + 1].list].count
        + s.lists[s.cfq_trees[first + 2].list].count
    )


@jit
def busy_average(group, ioclass):
    """The group's smoothed count of busy queues of a class."""
    if ioclass == BE:
        return group.busy_avg_be
    if ioclass == RT:
        return group.busy_avg_rt
    return group.busy_avg_idle


@jit
def averaged_busy_queues(s, group, g, ioclass):
    """Smooth the number of busy queues, quick to rise and slow to fall (1.14)."""
    busy = busy_in_class(s, g, ioclass)
    old = busy_average(group, ioclass)
    new = (3 * max(old, busy) + min(old, busy) + 2) // 4
    if ioclass == BE:
        group.busy_avg_be = new
    elif ioclass == RT:
        group.busy_avg_rt = new
    else:
        group.busy_avg_idle = new
    return new


# ---------------------------------------------------------------------------------------------------------------------
# groups (1.13)


@jit
def iops_mode(c):
    """Groups are charged requests instead of time (1.13)."""
    return c.slice_idle == 0 and c.hw_tag != 0


@jit
def group_enters(s, d, g):
    """A group becomes busy: behind all others, and its share of the device is computed (1.13)."""
    c = s.cfq[d]
    group = s.cfq_groups[g]
    tail = s.lists[c.group_list].tail
    if tail != NONE:
        delay = IDLE_CLASS_DELAY // c.jiffy if iops_mode(c) else GROUP_ADD_DELAY
        group.vdisktime = s.nodes[tail].key + delay
    else:
        group.vdisktime = c.min_vdisktime
    activate_group(s, g)
    insert_sorted(s, c.group_list, group_node(s, g), group.vdisktime)
    group.on_tree = 1


@jit
def activate_group(s, g):
    """Count the group as active up the tree and compute vfraction, its share in 1/4096 (1.13)."""
    group = s.cfq_groups[g]
    newly = group.nr_active == 0
    group.nr_active += 1
    group.children_weight += group.leaf_weight
    fraction = (1 << SERVICE_SHIFT) * group.leaf_weight // group.children_weight
    child = g
    while s.cfq_groups[child].parent != NONE:
        parent = s.cfq_groups[s.cfq_groups[child].parent]
        if newly:
            newly = parent.nr_active == 0
            parent.nr_active += 1
            parent.children_weight += s.cfq_groups[child].weight
        fraction = fraction * s.cfq_groups[child].weight // parent.children_weight
        child = s.cfq_groups[child].parent
    group.vfraction = max(fraction, 1)


@jit
def group_leaves(s, g):
    """The group has no busy queue left; its place in line is forgotten (1.13)."""
    group = s.cfq_groups[g]
    remove(s, group_node(s, g))
    group.on_tree = 0
    group.nr_active -= 1
    gone = group.nr_active == 0
    group.children_weight -= group.leaf_weight
    child = g
    while gone and s.cfq_groups[child].parent != NONE:
        parent = s.cfq_groups[s.cfq_groups[child].parent]
        parent.nr_active -= 1
        gone = parent.nr_active == 0
        parent.children_weight -= s.cfq_groups[child].weight
        child = s.cfq_groups[child].parent


@jit
def charge_group(s, d, q):
    """Charge the slice that ends to the group's vdisktime and save what is left of its workload's turn (1.13)."""
    c = s.cfq[d]
    now = s.sim[0].now
    group = s.cfq_groups[q.group]
    if q.slice_start == 0 or q.slice_start == now:
        used = max(now - q.dispatch_start, c.jiffy)
    else:
        used = min(now - q.slice_start, q.allocated_slice)
    charge = used
    if iops_mode(c):
        charge = q.slice_dispatch
    elif q.sync == 0 and sync_queues(s, q.group) == 0:
        charge = q.allocated_slice
    group.vdisktime += (charge << (2 * SERVICE_SHIFT)) // group.vfraction
    if group.on_tree != 0:
        node = group_node(s, q.group)
        remove(s, node)
        insert_sorted(s, c.group_list, node, group.vdisktime)
    left = c.workload_expires - now
    group.saved_slice = left if left > 0 else 0
    group.saved_type = c.serving_type
    group.saved_class = c.serving_class


@jit
def sync_queues(s, g):
    """Busy sync queues of a group, all classes but IDLE."""
    n = 0
    for ioclass in range(2):
        for kind in range(1, 3):
            n += s.lists[s.cfq_trees[g * TREES + ioclass * 3 + kind].list].count
    return n


@jit
def choose_group(s, d):
    """Smallest vdisktime is served next and resumes the workload it was at (1.13)."""
    c = s.cfq[d]
    now = s.sim[0].now
    g = s.lists[c.group_list].head - group_node(s, 0)
    group = s.cfq_groups[g]
    c.min_vdisktime = max(c.min_vdisktime, group.vdisktime)
    c.serving_group = g
    if group.saved_slice > 0:
        c.workload_expires = now + group.saved_slice
        c.serving_type = group.saved_type
        c.serving_class = group.saved_class
    else:
        c.workload_expires = now - 1


@jit
def serving_tree(c):
    """Row of the tree that is being served."""
    if c.serving_class == IDLE:
        return c.serving_group * TREES + IDLE_TREE_INDEX
    return c.serving_group * TREES + c.serving_class * 3 + c.serving_type


@jit
def choose_workload(s, d):
    """Class by priority, type by the smallest key, and how long this workload may stay (1.14)."""
    c = s.cfq[d]
    now = s.sim[0].now
    g = c.serving_group
    before = c.serving_class
    if busy_in_class(s, g, RT) > 0:
        c.serving_class = RT
    elif busy_in_class(s, g, BE) > 0:
        c.serving_class = BE
    else:
        c.serving_class = IDLE
        c.workload_expires = now + c.jiffy
        return
    if c.serving_class == before and s.lists[s.cfq_trees[serving_tree(c)].list].count > 0 and now <= c.workload_expires:
        return
    best = NONE
    best_key = 0
    for kind in range(3):
        head = s.lists[s.cfq_trees[g * TREES + c.serving_class * 3 + kind].list].head
        if head != NONE and (best == NONE or s.nodes[head].key < best_key):
            best = kind
            best_key = s.nodes[head].key
    c.serving_type = best
    group = s.cfq_groups[g]
    group_slice = c.target_latency * group.vfraction >> SERVICE_SHIFT
    count = s.lists[s.cfq_trees[serving_tree(c)].list].count
    busy = max(busy_average(group, c.serving_class), busy_in_class(s, g, c.serving_class))
    length = group_slice * count // busy
    if best == ASYNC:
        async_queues = s.lists[s.cfq_trees[g * TREES].list].count + s.lists[s.cfq_trees[g * TREES + 3].list].count
        length = min(length, c.target_latency * async_queues // c.busy_queues)
        length = length * c.slice_async // c.slice_sync
    else:
        length = max(length, 2 * c.slice_idle)
    c.workload_expires = now + max(length, 2 * c.jiffy)


# ---------------------------------------------------------------------------------------------------------------------
# cooperating queues (1.15)


@jit
def close_cooperator(s, d, i):
    """Another queue of the group whose next request is where the head is, or NONE (1.15)."""
    c = s.cfq[d]
    a = s.cfq_queues[i]
    if a.ioclass == IDLE or a.sync == 0 or s.cfq_groups[a.group].nr_queues == 1 or seeky(a):
        return NONE
    best = NONE
    best_distance = CLOSE_THRESHOLD + 1
    for j in range(s.sim[0].n_cfq_queues):
        q = s.cfq_queues[j]
        if j == i or q.used == 0 or q.on_rr == 0 or q.dev != d or q.next_rq == NONE or q.ioprio != a.ioprio:
            continue
        distance = abs(s.requests[q.next_rq].sector - c.last_position)
        if distance < best_distance:
            best = j
            best_distance = distance
    if best == NONE:
        return NONE
    q = s.cfq_queues[best]
    if q.group != a.group or q.sync == 0 or seeky(q) or (q.ioclass == RT) != (a.ioclass == RT):
        return NONE
    return best


@jit
def setup_merge(s, i, j):
    """Redirect the queue with fewer processes to the other; it takes effect at their next request (1.15)."""
    target = j
    while s.cfq_queues[target].merge_into != NONE:
        if s.cfq_queues[target].merge_into == i:
            return
        target = s.cfq_queues[target].merge_into
    a = s.cfq_queues[i]
    b = s.cfq_queues[target]
    if a.refs == 0 or b.refs == 0 or target == i:
        return
    if b.refs >= a.refs:
        a.merge_into = target
    else:
        b.merge_into = i
