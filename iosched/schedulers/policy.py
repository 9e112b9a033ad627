"""The five moments at which the block layer asks the scheduler, as one `if/elif` on the scheduler's number.

Numba caches plain functions only, so the choice is made here and not through captured functions. A policy is
`insert(request)`, `dispatch() -> request or NONE`, `completed(request) -> run kblockd?`, `timer_fired()` and
`merge_list(...)` (where a new bio may find a request to join), with `withdraw` and `request_grew` as the two halves of
a merge.
"""

from ..engine.codes import ANTICIPATORY, BFQ, CFQ, DEADLINE, KYBER, MQ_DEADLINE, NO_SCHEDULER, NOOP, OLD_CFQ
from ..engine.jit import jit
from . import anticipatory, bfq, cfq, cfq_idling, cfq_old, deadline, fifo, kyber


@jit
def insert(s, ri):
    """A request enters the scheduler."""
    kind = s.devices[s.requests[ri].dev].scheduler
    if kind == CFQ:
        cfq.insert(s, ri)
    elif kind == BFQ:
        bfq.insert(s, ri)
    elif kind == DEADLINE or kind == MQ_DEADLINE:
        deadline.insert(s, ri)
    elif kind == KYBER:
        kyber.insert(s, ri)
    elif kind == OLD_CFQ:
        cfq_old.insert(s, ri)
    elif kind == ANTICIPATORY:
        anticipatory.insert(s, ri)
    else:
        fifo.insert(s, ri)


@jit
def dispatch(s, d):
    """The driver can take a request: which one? NONE to send nothing now."""
    kind = s.devices[d].scheduler
    if kind == CFQ:
        return cfq.dispatch(s, d)
    if kind == BFQ:
        return bfq.dispatch(s, d)
    if kind == DEADLINE or kind == MQ_DEADLINE:
        return deadline.dispatch(s, d)
    if kind == KYBER:
        return kyber.dispatch(s, d)
    if kind == OLD_CFQ:
        return cfq_old.dispatch(s, d)
    if kind == ANTICIPATORY:
        return anticipatory.dispatch(s, d)
    return fifo.dispatch(s, d)


@jit
def completed(s, ri):
    """A request that came from the scheduler is done. True asks for a dispatch by kblockd."""
    kind = s.devices[s.requests[ri].dev].scheduler
    if kind == CFQ:
        return cfq_idling.completed(s, ri)
    if kind == BFQ:
        return bfq.completed(s, ri)
    if kind == DEADLINE or kind == MQ_DEADLINE:
        return deadline.completed(s, ri)
    if kind == KYBER:
        return kyber.completed(s, ri)
    if kind == OLD_CFQ:
        return cfq_old.completed(s, ri)
    if kind == ANTICIPATORY:
        return anticipatory.completed(s, ri)
    return False


@jit
def timer_fired(s, d):
    """The scheduler's idle timer of device `d` ran out; kblockd dispatches afterwards."""
    kind = s.devices[d].scheduler
    if kind == CFQ:
        cfq_idling.timer_fired(s, d)
    elif kind == BFQ:
        bfq.timer_fired(s, d)
    elif kind == KYBER:
        kyber.timer_fired(s, d)
    elif kind == OLD_CFQ:
        cfq_old.timer_fired(s, d)
    elif kind == ANTICIPATORY:
        anticipatory.timer_fired(s, d)


@jit
def merge_list(s, d, task, op, flags):
    """List of pending requests that a new bio of this task may join, or NONE."""
    kind = s.devices[d].scheduler
    if kind == CFQ or kind == OLD_CFQ:
        return cfq.merge_list(s, d, task, op, flags)
    if kind == BFQ:
        return bfq.merge_list(s, d, task, op, flags)
    if kind == DEADLINE or kind == MQ_DEADLINE:
        return deadline.merge_list(s, d, task, op)
    if kind == KYBER:
        return kyber.merge_list(s, d, op)
    if kind == ANTICIPATORY:
        return anticipatory.merge_list(s, d)
    return s.devices[d].fifo


@jit
def withdraw(s, ri):
    """Take a pending request out because it was merged into its neighbour."""
    kind = s.devices[s.requests[ri].dev].scheduler
    if kind == CFQ:
        cfq.withdraw(s, ri)
    elif kind == BFQ:
        bfq.withdraw(s, ri)
    elif kind == DEADLINE or kind == MQ_DEADLINE:
        deadline.withdraw(s, ri)
        deadline.merged_away(s, ri)
    elif kind == KYBER:
        kyber.withdraw(s, ri)
    elif kind == OLD_CFQ:
        cfq_old.withdraw(s, ri)
    elif kind == ANTICIPATORY:
        anticipatory.withdraw(s, ri)
    else:
        fifo.withdraw(s, ri)


@jit
def request_grew(s, ri, front):
    """A bio or a neighbour joined the pending request, at its front or at its back."""
    kind = s.devices[s.requests[ri].dev].scheduler
    if kind == CFQ or kind == OLD_CFQ:
        cfq.request_grew(s, ri, front)
    elif kind == BFQ:
        bfq.request_grew(s, ri, front)
    elif kind == DEADLINE or kind == MQ_DEADLINE:
        deadline.request_grew(s, ri, front)
    elif kind == ANTICIPATORY:
        anticipatory.request_grew(s, ri, front)


@jit
def may_queue(s, d, task):
    """May the task have a request although its pool is full?"""
    if s.devices[d].scheduler == CFQ or s.devices[d].scheduler == OLD_CFQ:
        return cfq.may_queue(s, d, task)
    return False


@jit
def front_merges(s, d):
    """Does this scheduler look for front merges?"""
    kind = s.devices[d].scheduler
    if kind == CFQ or kind == BFQ or kind == OLD_CFQ or kind == ANTICIPATORY:
        return True
    return (kind == DEADLINE or kind == MQ_DEADLINE) and s.deadline[d].front_merges != 0


@jit
def keeps_sector_order(s, d):
    """Is the merge list sorted by sector?"""
    kind = s.devices[d].scheduler
    return kind != NOOP and kind != NO_SCHEDULER and kind != KYBER


@jit
def polled_empty(s, d):
    """The block layer asks for more although nothing is queued; a scheduler may use the moment."""
    if s.devices[d].scheduler == BFQ:
        bfq.polled_empty(s, d)


@jit
def tag_limit(s, d, op, flags):
    """Requests that may be allocated before one of this kind has to wait (blk-mq)."""
    if s.devices[d].scheduler == BFQ:
        return bfq.tag_limit(s, d, op, flags)
    if s.devices[d].scheduler == KYBER:
        return kyber.tag_limit(s, d, op, flags)
    return s.devices[d].nr_requests
