"""A request comes back: does the device take several at once, and is the active queue waited for (1.11, 1.16)?"""

from ..engine.account import idle_begin, idle_end
from ..engine.clock import arm
from ..engine.codes import END_EXPIRED, END_FIRED, IDLE_GROUP, IDLE_SLICE, IDLE_TREE, NONE, T_DONE, T_IDLE
from ..engine.jit import jit
from ..engine.requests import is_sync
from .cfq_cooperators import close_cooperator
from .cfq_service import expire, set_slice
from .cfq_state import (
    HW_QUEUE_MIN,
    HW_SAMPLES,
    IDLE,
    THINK_VALID,
    TREES,
    release_queue,
    should_idle,
    slice_used,
    think_time_big,
    tree_index,
)


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
        s.cfq_contexts[d * s.sim[0].n_tasks + s.tasks[r.task].ioc].last_end = now
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
def update_hw_tag(s, d):
    """Does the device take five requests at once? Asked at each completion (1.16); -1, "not known", counts as yes."""
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
        context = s.cfq_contexts[d * s.sim[0].n_tasks + s.tasks[c.active_task].ioc]
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
    context = s.cfq_contexts[d * s.sim[0].n_tasks + s.tasks[c.active_task].ioc]
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
