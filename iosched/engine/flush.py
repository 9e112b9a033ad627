"""Cache flushes and FUA: the sequence [preflush] data [postflush] of blk-flush (spec block-layer section 8).

These requests never see the scheduler: all their parts go to the device's dispatch list. Flushes are shared through two
pending lists: one flush runs at a time, and it serves every sequence that was waiting when it was issued.
"""

from .account import account
from .codes import (
    E_FLUSH_ORDER,
    F_FUA,
    F_PREFLUSH,
    FLUSH,
    NONE,
    R_DISPATCHED,
    R_FLUSHING,
    SEC,
    STEP_DATA,
    STEP_POST,
    STEP_PRE,
)
from .jit import jit
from .lists import pop_front, push_back
from .pool import get_request

PENDING_TIMEOUT = 5 * SEC


@jit
def begin(s, ri):
    """Decide which steps the request needs and start the first. POSTFLUSH stands in for FUA on a device without it."""
    r = s.requests[ri]
    dev = s.devices[r.dev]
    r.steps = 0
    if r.op == FLUSH or (r.cmd_flags & F_PREFLUSH) != 0:
        r.steps |= STEP_PRE
    if r.op != FLUSH:
        r.steps |= STEP_DATA
        if (r.cmd_flags & F_FUA) != 0 and dev.fua == 0:
            r.steps |= STEP_POST
    r.elevator = 0
    r.shares_flush = 1 if r.steps & (STEP_PRE | STEP_POST) else 0  # a FUA write that needs no flush concerns none
    next_step(s, ri)


@jit
def next_step(s, ri):
    """Queue the request for the first step that is left. False when its sequence is over."""
    r = s.requests[ri]
    dev = s.devices[r.dev]
    if r.steps & STEP_PRE:
        r.state = R_FLUSHING
        wait_for_flush(s, dev, ri)
    elif r.steps & STEP_DATA:
        r.state = R_DISPATCHED
        if r.shares_flush != 0:
            dev.flush_data += 1
        push_back(s, dev.dispatch_list, 2 * ri)
    elif r.steps & STEP_POST:
        r.state = R_FLUSHING
        wait_for_flush(s, dev, ri)
    else:
        return False
    kick(s, r.dev)
    return True


@jit
def wait_for_flush(s, dev, ri):
    """Into the pending list that the next flush will serve."""
    lst = dev.flush_pending0 if dev.flush_pending_index == 0 else dev.flush_pending1
    if s.lists[lst].count == 0:
        dev.flush_pending_since = s.sim[0].now
    push_back(s, lst, 2 * ri)


@jit
def kick(s, d):
    """Issue a flush if one is wanted and may start: one at a time (C1), and not while a sequence is in its data step so
    that later ones can share it (C2; not on the blk-mq path of 4.19 with a scheduler), unless the oldest has waited
    five seconds (C3)."""
    dev = s.devices[d]
    lst = dev.flush_pending0 if dev.flush_pending_index == 0 else dev.flush_pending1
    if dev.flush_running != NONE or s.lists[lst].count == 0:
        return
    if dev.flush_data > 0 and dev.flush_at_once == 0 and s.sim[0].now - dev.flush_pending_since < PENDING_TIMEOUT:
        return
    first = s.requests[s.lists[lst].head >> 1]
    account(s, d)
    fi = get_request(s, d, first.task, FLUSH, 0, 0, 0)
    f = s.requests[fi]
    f.elevator = 0
    f.state = R_DISPATCHED
    dev.flush_running = fi
    dev.flush_pending_index ^= 1
    push_back(s, dev.dispatch_list, 2 * fi)


@jit
def flush_done(s, d):
    """The flush is back: every sequence that it served goes on. Their order is the order of arrival."""
    dev = s.devices[d]
    dev.flush_running = NONE
    lst = dev.flush_pending1 if dev.flush_pending_index == 0 else dev.flush_pending0
    n = pop_front(s, lst)
    while n != NONE:
        push_back(s, dev.flush_served, n)
        n = pop_front(s, lst)


@jit
def step_done(s, ri, flush_issued):
    """One step of the sequence is over. A flush must have been issued after what it makes durable: that is checked."""
    r = s.requests[ri]
    dev = s.devices[r.dev]
    if r.steps & STEP_PRE:
        if flush_issued < r.start:
            s.sim[0].error = E_FLUSH_ORDER
        r.steps &= ~STEP_PRE
    elif r.steps & STEP_DATA:
        if r.shares_flush != 0:
            dev.flush_data -= 1
        r.data_done = s.sim[0].now
        r.steps &= ~STEP_DATA
    else:
        if flush_issued < r.data_done:
            s.sim[0].error = E_FLUSH_ORDER
        r.steps &= ~STEP_POST
