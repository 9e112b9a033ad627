"""CFQ of Linux 2.6.24 to 2.6.32: ticks for a clock, one service tree, no cgroups.

Source: spec block-layer 2.1 and 2.3, whose words "[M]" (recalled) hold for what is said of 2.6.27 and of the first
cooperator patch. What is the same as in 4.19 is called from `cfq` and `cfq_state`. Tables are CFQ's; lengths of time
are ticks here, and the only tree is the first of the root's (classes one behind the other). Writes are refused on these
kernels, so that only sync queues exist. The splitting of merged queues (2.6.33) is left out.
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
    F_META,
    F_PRIO,
    IDLE_SEEKY,
    IDLE_SLICE,
    NONE,
    SEC,
    T_DONE,
    T_IDLE,
    TR_ACTIVE,
    TR_EXPIRE,
    TR_PREEMPT,
)
from ..engine.jit import jit
from ..engine.lists import insert_sorted, pop_front, push_back, remove
from ..engine.trace import record
from ..kernels import Kernel
from ..knobs import check, knob, named
from . import cfq
from .cfq_service import prio_slice
from .cfq_state import (
    CLOSE_THRESHOLD,
    HW_QUEUE_MIN,
    HW_SAMPLES,
    IDLE,
    RT,
    THINK_VALID,
    TREES,
    queue_node,
    release_queue,
    update_think_time,
)
from .estimators import fold_seek, ticks
from .nearest import better_request

ALONE, FIRST, CLOSE, MERGE = range(4)
COOPERATORS = ("none", "first", "close", "merge")
CLASS_KEY = 1 << 50  # the tree is ordered by class first
SEEK_CLIPS = 2 << 20, 2 << 16  # sectors beyond four means that a seek may count, for young records and for others
YOUNG = 60  # samples
SEEKY = 8192  # sectors


@named
@dataclass(frozen=True)
class OldCFQ:
    """The tunables of 2.6.24 to 2.6.32, as in `/sys/block/DEV/queue/iosched/`; the kernel rounds them to ticks.

    `slice_idle` None is HZ/125 ticks and at least one: 10 ms at HZ=100, 8 ms at 250 and 1000. `cooperators` is what it
    does about another queue whose next request is where the head is: "none" (until 2.6.29), "first" (the patch of
    thread 4: it is served instead of idling), "close" (2.6.30, 2.6.31: but not again before it has had a turn of its
    own) or "merge" (2.6.32: the two become one queue); None: by version. The spec has the restriction of "close", from
    memory, for the first patch too; thread 4's 84 MB/s rule that out, as the model then gives 49.

    >>> OldCFQ(cooperators="first").quantum
    4
    """

    slice_idle: float | None = knob(None, "keep the device idle for a queue", "ms", 0, 1e6, optional=True,
                                    sysfs="slice_idle", slider=(0, 16, "linear"))  # fmt: skip
    quantum: int = knob(4, "requests in flight of one queue beside others", "requests", 1, integer=True,
                        sysfs="quantum")  # fmt: skip
    fifo_expire_sync: float = knob(
        125, "age at which a sync request jumps its queue", "ms", 1, sysfs="fifo_expire_sync"
    )
    back_seek_max: int = knob(16384, "largest backward step considered", "KiB", 0, 2**31, integer=True,
                              sysfs="back_seek_max")  # fmt: skip
    back_seek_penalty: int = knob(2, "a backward step costs so many times", "", 1, 2**20, integer=True,
                                  sysfs="back_seek_penalty")  # fmt: skip
    slice_sync: float = knob(100, "base slice of a sync queue", "ms", 1, 1e6, sysfs="slice_sync")
    cooperators: str | None = knob(None, "queues that read in turns", choices=(*COOPERATORS, None), optional=True)

    def __post_init__(self) -> None:
        check(self, "scheduler.")

    def slice_idle_ticks(self, hz: int) -> int:
        """slice_idle in ticks.

        >>> [OldCFQ().slice_idle_ticks(hz) for hz in (100, 250, 1000)], OldCFQ(slice_idle=8).slice_idle_ticks(100)
        ([1, 2, 8], 1)
        """
        return max(hz // 125, 1) if self.slice_idle is None else _ticks(self.slice_idle, hz)

    def rule(self, kernel: Kernel) -> str:
        """What it does about cooperators: the explicit setting, else by version."""
        if self.cooperators is not None:
            return self.cooperators
        return "none" if kernel < "2.6.30" else "close" if kernel < "2.6.32" else "merge"

    def fill(self, s, d: int, kernel: Kernel, hz: int) -> None:
        """Write the tunables of device `d` into the engine's tables."""
        c = s.cfq[d]
        c.jiffy = SEC // hz
        c.slice_idle = self.slice_idle_ticks(hz)
        c.slice_sync = c.slice_async = _ticks(self.slice_sync, hz)
        c.fifo_expire_sync = _ticks(self.fifo_expire_sync, hz)
        c.quantum = self.quantum
        c.back_seek_max = 2 * self.back_seek_max
        c.back_seek_penalty = self.back_seek_penalty
        c.cooperators = COOPERATORS.index(self.rule(kernel))
        c.since_28 = int(kernel >= "2.6.28")
        c.hw_tag = c.since_28
        c.least_idle = _ticks(2, hz)


def _ticks(ms: float, hz: int) -> int:
    """Milliseconds in ticks, rounded up as the kernel does."""
    return -(-round(ms * hz) // 1000)


@jit
def context_of(s, d, task):
    """The record of the task's io_context on the device."""
    return s.cfq_contexts[d * s.sim[0].n_tasks + s.tasks[task].ioc]


@jit
def tree_of(s, d):
    """The service tree."""
    return s.cfq_trees[d * s.sim[0].n_groups * TREES].list


# ---------------------------------------------------------------------------------------------------------------------
# insertion and preemption


@jit
def insert(s, ri):
    """A request enters CFQ; `kicked` says that the queue is to be run at once."""
    r = s.requests[ri]
    d = r.dev
    c = s.cfq[d]
    context = context_of(s, d, r.task)
    fresh = context.queue == NONE
    i = cfq.queue_for(s, d, r.task, r.op, r.cmd_flags)
    if fresh:
        context.last_end = ticks(s, c)
    r.queue = i
    q = s.cfq_queues[i]
    r.fifo_time = ticks(s, c) + c.fifo_expire_sync
    push_back(s, q.fifo, 2 * ri + 1)
    insert_sorted(s, q.sorted, 2 * ri, r.sector)
    q.queued_sync += 1
    c.rq_queued += 1
    if r.cmd_flags & F_META:
        q.meta_pending += 1
    q.next_rq = ri if q.next_rq == NONE else better_request(s, c, q.next_rq, ri, c.last_position, F_PRIO)
    if q.on_rr == 0:
        q.on_rr = 1
        c.busy_queues += 1
        tree_insert(s, d, i, False)
    update_think_time(context, ticks(s, c), c.slice_idle)
    update_seek_mean(context, r)
    update_idle_window(s, c, q, context, r.task)
    context.last_request_pos = r.sector + r.nr
    if i == c.active:
        if q.wait_request != 0:
            idle_end(s, d, END_ARRIVAL)
            cancel(s, d, T_IDLE)
            q.wait_request = 0
            s.devices[d].kicked = 1
    elif should_preempt(s, d, q, r):
        preempt(s, d, i)
        s.devices[d].kicked = 1


@jit
def update_seek_mean(context, r):
    """Fold a distance into the context's mean; a young record takes larger ones."""
    distance = abs(r.sector - context.last_request_pos)
    distance = min(
        distance, 4 * context.seek_mean + (SEEK_CLIPS[0] if context.seek_samples <= YOUNG else SEEK_CLIPS[1])
    )
    fold_seek(context, distance)


@jit
def update_idle_window(s, c, q, context, task):
    """Is the queue one to wait for?"""
    if q.ioclass == IDLE:
        return
    if s.tasks[task].state == T_DONE or c.slice_idle == 0 or (c.hw_tag != 0 and context.seek_mean > SEEKY):
        q.idle_window = 0
    elif context.ttime_samples > THINK_VALID:
        q.idle_window = 1 if context.ttime_mean <= c.slice_idle else 0


@jit
def should_preempt(s, d, n, r):
    """May queue `n` with its new request take the device from the active queue? The first rule that matches decides.

    The last one lets cooperating tasks through, but only while CFQ idles: a request that is there already when the
    active queue's last one completes is not looked at again. This is thread 4's loss.
    """
    c = s.cfq[d]
    if c.active == NONE:
        return False
    a = s.cfq_queues[c.active]
    if slice_used(s, c, a):
        return True
    if n.ioclass == IDLE:
        return False
    if a.ioclass == IDLE:
        return True
    if (r.cmd_flags & F_META) != 0 and a.meta_pending == 0:
        return True
    if n.ioclass == RT and a.ioclass != RT:
        return True
    return a.wait_request != 0 and is_close(s, d, r.sector, False)


@jit
def is_close(s, d, sector, benefit):
    """Is the sector as near the head as the active context's seeks are? `benefit`: what is said while they are unknown,
    within the usual distance."""
    c = s.cfq[d]
    limit = CLOSE_THRESHOLD
    if c.active_task != NONE:
        context = context_of(s, d, c.active_task)
        if context.seek_samples > THINK_VALID:
            limit = context.seek_mean
        elif not benefit:
            return False
    elif not benefit:
        return False
    return abs(sector - c.last_position) <= limit


@jit
def preempt(s, d, i):
    """The active queue banks what is left of its slice, and queue `i` is first in the tree."""
    n = s.cfq_queues[i]
    record(s, TR_PREEMPT, n.task, NONE, 0, 0, 0, d)
    idle_end(s, d, END_PREEMPTED)
    expire(s, d, True)
    tree_insert(s, d, i, True)
    n.slice_end = 0
    n.slice_new = 1


# ---------------------------------------------------------------------------------------------------------------------
# the tree, and slices


@jit
def tree_insert(s, d, i, front):
    """Place a busy queue in the tree. What it banked puts it back, not forward: so it was until 2.6.29."""
    c = s.cfq[d]
    q = s.cfq_queues[i]
    node = queue_node(s, i)
    remove(s, node)
    key = 0
    if not front:
        key = ticks(s, c) + (c.busy_queues - 1) * (prio_slice(c, 1, 0) - prio_slice(c, 1, q.ioprio)) + q.slice_resid
        q.slice_resid = 0
    if q.ioclass == RT:
        key -= CLASS_KEY
    elif q.ioclass == IDLE:
        key += CLASS_KEY
    insert_sorted(s, tree_of(s, d), node, key)


@jit
def slice_used(s, c, q):
    """The slice has begun (a completion was seen) and is over."""
    return q.slice_new == 0 and ticks(s, c) >= q.slice_end


@jit
def expire(s, d, timed_out):
    """End the active queue's turn."""
    c = s.cfq[d]
    i = c.active
    if i == NONE:
        return
    q = s.cfq_queues[i]
    record(s, TR_EXPIRE, q.task, NONE, 0, 1 if timed_out else 0, 0, d)
    if q.wait_request != 0:
        cancel(s, d, T_IDLE)
    q.wait_request = 0
    if timed_out and q.slice_new == 0:
        q.slice_resid = q.slice_end - ticks(s, c)
    if q.on_rr != 0:
        tree_insert(s, d, i, False)
    c.active = NONE
    c.active_task = NONE
    release_queue(s, i)


# ---------------------------------------------------------------------------------------------------------------------
# dispatch


@jit
def dispatch(s, d):
    """The next request of the round that was chosen; a new round when it is empty."""
    c = s.cfq[d]
    if s.lists[c.chosen].count == 0:
        fill_round(s, d)
    n = pop_front(s, c.chosen)
    if n == NONE:
        return NONE
    r = s.requests[n >> 1]
    c.in_driver += 1
    if c.since_28 == 0 and c.in_driver > HW_QUEUE_MIN - 1:
        c.hw_tag = 1
    c.last_position = r.sector + r.nr
    return n >> 1


@jit
def fill_round(s, d):
    """Move requests of the chosen queues to the dispatch list, up to `quantum` at a time."""
    c = s.cfq[d]
    while c.busy_queues > 0:
        i = select_queue(s, d)
        if i == NONE:
            return
        q = s.cfq_queues[i]
        most = 1 if q.ioclass == IDLE else c.quantum
        if q.dispatched >= most and (c.busy_queues > 1 or (c.since_28 == 0 and q.dispatched >= 4 * most)):
            return
        if q.wait_request != 0:
            q.wait_request = 0
            cancel(s, d, T_IDLE)
            idle_end(s, d, END_EXPIRED)
        moved = 0
        while q.next_rq != NONE and moved < most:
            move(s, d, i)
            moved += 1
        if c.busy_queues > 1 and q.ioclass == IDLE:
            expire(s, d, False)


@jit
def move(s, d, i):
    """One request of the queue to the dispatch list, which is in order of sectors. With its last one the queue leaves
    the tree."""
    c = s.cfq[d]
    q = s.cfq_queues[i]
    ri = q.next_rq
    if q.fifo_expire == 0:
        q.fifo_expire = 1
        first = s.lists[q.fifo].head
        if first != NONE and ticks(s, c) >= s.requests[first >> 1].fifo_time:
            ri = first >> 1
            q.next_rq = ri
    withdraw(s, ri)
    q.dispatched += 1
    if c.active_task == NONE:
        c.active_task = s.requests[ri].task
    insert_sorted(s, c.chosen, 2 * ri, s.requests[ri].sector)


@jit
def withdraw(s, ri):
    """Take a pending request out of its queue."""
    r = s.requests[ri]
    q = s.cfq_queues[r.queue]
    cfq.withdraw(s, ri)
    if r.cmd_flags & F_META:
        q.meta_pending -= 1
    if q.next_rq == NONE:
        remove(s, queue_node(s, r.queue))
        q.on_rr = 0
        s.cfq[r.dev].busy_queues -= 1


@jit
def select_queue(s, d):
    """Keep the active queue, wait for it, or choose another."""
    c = s.cfq[d]
    if c.active != NONE:
        a = s.cfq_queues[c.active]
        if not slice_used(s, c, a):
            if a.next_rq != NONE:
                return c.active
            j = cooperator(s, d)
            if j != NONE:
                if c.cooperators == MERGE:
                    if a.merge_into == NONE:
                        cfq.setup_merge(s, c.active, j)
                elif c.cooperators == CLOSE:
                    s.cfq_queues[j].coop = 1
                idle_end(s, d, END_EXPIRED)
                expire(s, d, False)
                set_active(s, d, j)
                return j
            if armed(s, d, T_IDLE) or (a.dispatched > 0 and a.idle_window != 0):
                return NONE
        idle_end(s, d, END_EXPIRED)
        expire(s, d, False)
    head = s.lists[tree_of(s, d)].head
    if head == NONE:
        return NONE
    i = head - queue_node(s, 0)
    if c.cooperators == CLOSE:
        s.cfq_queues[i].coop = 0
    set_active(s, d, i)
    return i


@jit
def set_active(s, d, i):
    """The queue's turn begins; its slice at the first completion."""
    c = s.cfq[d]
    q = s.cfq_queues[i]
    c.active = i
    q.slice_end = 0
    q.slice_new = 1
    q.must_alloc_slice = 0
    q.fifo_expire = 0
    q.wait_request = 0
    cancel(s, d, T_IDLE)
    record(s, TR_ACTIVE, q.task, NONE, 0, 0, 0, d)


@jit
def cooperator(s, d):
    """A busy queue of the active one's priority whose next request is where the head is, or NONE (2.3)."""
    c = s.cfq[d]
    a = s.cfq_queues[c.active]
    if c.cooperators == ALONE or a.ioclass == IDLE:
        return NONE
    best = NONE
    least = 0
    for j in range(s.sim[0].n_cfq_queues):
        q = s.cfq_queues[j]
        if j == c.active or q.used == 0 or q.dev != d or q.on_rr == 0 or q.ioprio != a.ioprio or q.ioclass == IDLE:
            continue
        distance = abs(s.requests[q.next_rq].sector - c.last_position)
        if best == NONE or distance < least:
            best = j
            least = distance
    if best == NONE or not is_close(s, d, s.requests[s.cfq_queues[best].next_rq].sector, c.cooperators != FIRST):
        return NONE
    if c.cooperators == CLOSE and s.cfq_queues[best].coop != 0:
        return NONE
    return best


# ---------------------------------------------------------------------------------------------------------------------
# completion and idling


@jit
def completed(s, ri):
    """A request of CFQ came back. True asks for a dispatch by kblockd."""
    r = s.requests[ri]
    d = r.dev
    c = s.cfq[d]
    q = s.cfq_queues[r.queue]
    if c.since_28 != 0:
        update_hw_tag(c)
    c.in_driver -= 1
    q.dispatched -= 1
    context_of(s, d, r.task).last_end = ticks(s, c)
    if c.active == r.queue:
        if q.slice_new != 0:
            q.slice_end = ticks(s, c) + prio_slice(c, 1, q.ioprio)
            q.slice_new = 0
        if slice_used(s, c, q) or q.ioclass == IDLE:
            idle_end(s, d, END_EXPIRED)
            expire(s, d, True)
        elif q.next_rq == NONE:
            arm_idle_timer(s, d, q)
    else:
        release_queue(s, r.queue)
    return c.in_driver == 0 and c.rq_queued > 0


@jit
def update_hw_tag(c):
    """Since 2.6.28: does the device take five requests at once? Asked anew every 50 completions under load."""
    if c.in_driver > c.est_depth:
        c.est_depth = c.in_driver
    if c.rq_queued <= HW_QUEUE_MIN and c.in_driver <= HW_QUEUE_MIN:
        return
    c.hw_samples += 1
    if c.hw_samples >= HW_SAMPLES:
        c.hw_tag = 1 if c.est_depth >= HW_QUEUE_MIN else 0
        c.hw_samples = c.est_depth = 0


@jit
def arm_idle_timer(s, d, q):
    """Wait for the active, now empty, queue's next request, until a tick. Nobody asks whether another queue's request
    is waiting next to it, unless there are cooperators."""
    c = s.cfq[d]
    if c.slice_idle == 0 or q.idle_window == 0 or c.active_task == NONE or s.tasks[c.active_task].state == T_DONE:
        return
    if c.since_28 != 0 and (c.in_driver > 0 or (s.devices[d].rotational == 0 and c.hw_tag != 0)):
        return
    context = context_of(s, d, c.active_task)
    if cooperator(s, d) != NONE and (
        c.cooperators != CLOSE or (context.ttime_samples > THINK_VALID and context.ttime_mean > 2)
    ):
        return
    length = c.slice_idle
    reason = IDLE_SLICE
    if context.seek_samples > THINK_VALID and context.seek_mean > SEEKY and c.least_idle < length:
        length = c.least_idle
        reason = IDLE_SEEKY
    q.wait_request = 1
    at = (ticks(s, c) + length) * c.jiffy
    idle_end(s, d, END_EXPIRED)
    idle_begin(s, d, q.task, reason, at)
    arm(s, d, T_IDLE, at)


@jit
def timer_fired(s, d):
    """The idle timer ran out; kblockd dispatches afterwards. With nobody else waiting the queue stays active."""
    c = s.cfq[d]
    if c.active == NONE:
        return
    q = s.cfq_queues[c.active]
    idle_end(s, d, END_FIRED)
    if not slice_used(s, c, q) and (c.busy_queues == 0 or q.next_rq != NONE):
        return
    expire(s, d, False)
