"""What BFQ knows of dd and of the log's writer in the closed form: think time, wakers, I/O-boundness, the injection
limit, weight raising and the device's peak rate (spec bfq 1.1, 1.4, 1.6, 1.11, 1.13 and 2)."""

from __future__ import annotations

from ..engine.codes import MSEC, NONE, SEC
from ..engine.jit import jit
from ..schedulers.bfq_tables import (
    BUDGETS_ASSIGNED_ENOUGH,
    DEFAULT_BUDGET,
    LONG_AGO,
    MIN_BUDGET_SHARE,
    RAISE,
    RAISE_SOFT_RT,
    RATE_BUSY_GAP,
    RATE_GAP,
    RATE_LIMIT,
    RATE_MIN_WINDOW,
    RATE_SAMPLES,
    RATE_SHIFT,
    RATE_WINDOW,
    REFERENCE_RATE_FLASH,
    REFERENCE_RATE_ROTATIONAL,
    REFERENCE_TIME_FLASH,
    REFERENCE_TIME_ROTATIONAL,
    SOFT_RT_PERIOD,
    SOFT_RT_RATE,
    THINK_VALID,
)
from .bfq_state import (
    tick,
)


@jit
def device_budget(p, c):
    """Most sectors of a slot."""
    if p.user_max_budget > 0:
        return p.user_max_budget
    return DEFAULT_BUDGET if c.budgets_assigned < BUDGETS_ASSIGNED_ENOUGH else c.max_budget


@jit
def begin_queue(p, c, i, now):
    """A process sends its first request (1.1)."""
    b = c.q[i]
    b.used = 1
    b.plain = p.weight0 if i == 0 else p.weight1
    b.child = p.child0 if i == 0 else p.child1
    b.group_weight = p.group0 if i == 0 else p.group1
    b.weight = b.plain
    b.coeff = 1
    b.io_bound = 1
    b.short = 1
    b.io_start = now
    b.last_end = now
    b.waker = NONE
    b.tentative = NONE
    b.decreased = LONG_AGO
    b.budget_timeout = LONG_AGO
    b.raised_at = LONG_AGO
    b.raised_before = LONG_AGO
    b.soft_next = LONG_AGO
    b.idle_backlogged = tick(p, c, now)
    b.max_budget = 2 * device_budget(p, c) // 3
    b.budget = b.max_budget
    b.e_weight = b.group_weight if b.child != 0 else b.plain


@jit
def update_think_time(p, c, i, now):
    """Fold one think time in and see whether it is short (1.6); a change of sides may reset the limit (1.11)."""
    b = c.q[i]
    if p.think_idle == 0 or (b.dispatched == 0 and b.busy == 0):
        b.samples = (7 * b.samples + 256) // 8
        b.total = (7 * b.total + 256 * min(now - b.last_end, 2 * p.slice_idle)) // 8
        b.mean_think = (b.total + 128) // b.samples
    short = 1 if b.samples <= THINK_VALID or b.mean_think <= p.think_limit else 0
    if short != b.short:
        b.short = short
        flips = p.injection == 2 and p.flip_resets != 0 and b.last_serv == 0
        if flips and (short == 0 or tick(p, c, now) >= b.decreased + 100 * MSEC):
            reset_limit(p, c, b, now)


@jit
def check_waker(p, c, i, now):
    """Was the other queue's completion the cause of this arrival (2.1)?"""
    b = c.q[i]
    candidate = c.last_completed
    if p.wk_detect == 0 or candidate == NONE or candidate == i:
        return
    if p.wk_challenge == 0 and p.wk_replace == 0 and candidate == b.waker:
        return
    if (p.wk_long_think != 0 and b.short != 0) or now - c.last_completion >= p.wk_window:
        return
    since = tick(p, c, now)
    if candidate != b.tentative or (p.wk_timeout > 0 and since > b.detection_start + p.wk_timeout):
        if p.wk_replace != 0 and candidate != b.waker:
            b.waker = NONE
        b.tentative = candidate
        b.detections = 1
        b.detection_start = since
    else:
        b.detections += 1
    if b.detections >= p.wk_needed:
        b.waker = b.tentative
        b.tentative = b.waker if p.wk_replace != 0 else NONE


@jit
def update_io_intensity(b, now):
    """Since 5.12: I/O bound is who is idle for at most a fifth of the time (1.6)."""
    elapsed = now - b.io_start
    b.tot_idle += now - b.last_end
    b.io_bound = 1 if 5 * b.tot_idle <= elapsed else 0
    if elapsed > 200 * MSEC:
        b.io_start = now - elapsed // 2
        b.tot_idle //= 2


@jit
def reset_limit(p, c, b, now):
    """Start to learn again what may be injected into this queue."""
    b.last_serv = 0
    b.limit = 0 if b.short != 0 else 1
    b.decreased = tick(p, c, now)


@jit
def update_limit(p, c, b, now):
    """The timed request is back: adapt the limit and the baseline. One request is in the device, never more."""
    took = now - c.arrived_empty
    before = b.limit
    if b.last_serv > 0 and (p.late_inject == 0 or c.injected != 0):
        if 2 * took >= 3 * b.last_serv:
            if before > 0:
                b.limit -= 1
                b.decreased = tick(p, c, now)
        elif before < 2:
            b.limit += 1
    if (b.last_serv == 0 and p.base_in_driver == 1) or took < b.last_serv:
        if p.late_inject == 0 or b.last_serv == 0:
            b.limit = max(1, b.limit)
        b.last_serv = took
    elif p.update_base != 0 and c.injected == 0:
        b.last_serv = took
    c.waited = 0
    c.injected = 0


@jit
def raise_weight(p, c, b, interactive, soft, jiffies):
    """Start, prolong or change the raising of a queue that becomes busy (1.13)."""
    old = b.coeff
    if old == 1:
        b.service_raised = 0
        b.coeff = RAISE if interactive else RAISE_SOFT_RT
        b.raised_for = raised_duration(p, c) if interactive else SOFT_RT_PERIOD
        if not interactive:
            b.raised_before = LONG_AGO
        b.budget = min(b.budget, 2 * (device_budget(p, c) // MIN_BUDGET_SHARE))
    elif interactive:
        b.coeff = RAISE
        b.raised_for = raised_duration(p, c)
    elif soft:
        if b.raised_for != SOFT_RT_PERIOD:
            b.raised_before = b.raised_at
            b.raised_for = SOFT_RT_PERIOD
            b.coeff = RAISE_SOFT_RT
        b.raised_at = jiffies


@jit
def raised_duration(p, c):
    """How long interactive queues stay raised on this device (1.13)."""
    rate = REFERENCE_RATE_ROTATIONAL if p.rotational != 0 else REFERENCE_RATE_FLASH
    span = REFERENCE_TIME_ROTATIONAL if p.rotational != 0 else REFERENCE_TIME_FLASH
    return min(max(rate * span // c.rate, 3 * SEC), 25 * SEC)


@jit
def update_soft_start(p, b, jiffies):
    """Earliest arrival that still looks like a soft real-time stream (1.13)."""
    if p.soft_rt_kept != 0 and b.coeff == RAISE:
        return
    by_rate = b.idle_backlogged + b.service_backlogged * SEC // SOFT_RT_RATE // p.jiffy * p.jiffy
    by_pause = jiffies + p.soft_pause
    b.soft_next = max(b.soft_next, max(by_rate, by_pause))


@jit
def update_rate(p, c, near, nr, now):
    """At each dispatch: the peak rate's window (1.4)."""
    if c.rate_samples == 0 or (now - c.rate_last_dispatch > RATE_GAP and c.in_driver == 0):
        evaluate_rate(p, c, now)
        open_window(c, nr, now)
    else:
        c.rate_samples += 1
        c.rate_sectors += nr
        c.rate_biggest = max(c.rate_biggest, nr)
        if near and (c.in_driver > 0 or now - c.last_completion < RATE_BUSY_GAP):
            c.rate_sequential += 1
        if now - c.rate_first >= RATE_WINDOW:
            evaluate_rate(p, c, now)
            open_window(c, nr, now)
    c.rate_last_dispatch = now


@jit
def open_window(c, nr, now):
    """The next window starts with this request."""
    c.rate_samples = 1
    c.rate_sectors = nr
    c.rate_sequential = 0
    c.rate_biggest = nr
    c.rate_first = now


@jit
def evaluate_rate(p, c, now):
    """Fold the window's rate into the peak rate, if it says anything."""
    span = max(c.rate_last_dispatch, c.last_completion) - c.rate_first
    if c.rate_samples < RATE_SAMPLES or now - c.rate_first < RATE_MIN_WINDOW or span <= 0:
        return
    found = (c.rate_sectors << RATE_SHIFT) // max(span // 1000, 1)
    if found > RATE_LIMIT or (4 * c.rate_sequential < 3 * c.rate_samples and found <= c.rate):
        return
    share = 9 * c.rate_sequential // c.rate_samples
    divisor = 10 - min(8, share * min(span, RATE_WINDOW) // RATE_WINDOW)
    c.rate = c.rate * (divisor - 1) // divisor + found // divisor
    if p.user_max_budget == 0:
        c.max_budget = max(c.rate * (p.timeout_sync // 1000) >> RATE_SHIFT, MIN_BUDGET_SHARE)
