"""low_latency: weight raising of interactive and soft real-time queues, and bursts that get none (spec bfq 1.13)."""

from ..engine.codes import NONE, SEC
from ..engine.jit import jit
from .bfq_estimators import jiffies, raised_duration, smallest_budget, totally_seeky
from .bfq_tables import (
    AFTER_SPLIT,
    ASYNC_INTER_ARRIVAL,
    BURST_MEMORY,
    BURST_QUEUES,
    BURST_WINDOW,
    LONG_AGO,
    MAX_RAISED_SERVICE,
    MIN_IDLE_FOR_RAISING,
    RAISE,
    RAISE_SOFT_RT,
    REFERENCE_RATE_FLASH,
    REFERENCE_RATE_ROTATIONAL,
    REFERENCE_TIME_FLASH,
    REFERENCE_TIME_ROTATIONAL,
    SOFT_RT_PERIOD,
    SOFT_RT_RATE,
)
from .bfq_wf2q import apply_weight

DEFAULT_WEIGHT = 40


@jit
def interactive_duration(s, d):
    """How long an interactive queue stays raised on this device."""
    if s.devices[d].rotational != 0:
        return raised_duration(s, d, REFERENCE_RATE_ROTATIONAL, REFERENCE_TIME_ROTATIONAL)
    return raised_duration(s, d, REFERENCE_RATE_FLASH, REFERENCE_TIME_FLASH)


@jit
def set_coefficient(s, d, i, coeff):
    """Raise or lower a queue. Its weight in the tree follows at its next insertion; busy raised queues are counted."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    if q.busy != 0:
        c.raised_busy += (1 if coeff > 1 else 0) - (1 if q.coeff > 1 else 0)
    q.coeff = coeff
    s.bfq_entities[i].coeff = coeff


@jit
def idle_for(s, d, q, span):
    """Has the queue had nothing to do for so long? A new one has been idle for ever."""
    return q.dispatched == 0 and jiffies(s, d) > q.budget_timeout + span


@jit
def may_be_raised(s, d, i):
    """Since 5.12 only processes with the default priority are."""
    return s.bfq[d].raise_default_only == 0 or s.bfq_entities[i].base_weight == DEFAULT_WEIGHT


@jit
def is_interactive(s, d, i):
    """Brand new, or idle for two seconds, and not one of a large burst."""
    q = s.bfq_queues[i]
    return q.in_large_burst == 0 and idle_for(s, d, q, MIN_IDLE_FOR_RAISING) and may_be_raised(s, d, i)


@jit
def is_soft_rt(s, d, i):
    """Its request comes no earlier than a stream of 7000 sectors a second would send it."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    if q.in_large_burst != 0 or q.dispatched > 0 or (c.seeky_never_soft != 0 and totally_seeky(q)):
        return False
    return jiffies(s, d) > q.soft_next and may_be_raised(s, d, i)


@jit
def raise_on_arrival(s, d, i, interactive, soft_rt):
    """An idle queue becomes busy: start, prolong or change its weight raising."""
    q = s.bfq_queues[i]
    old = q.coeff
    now = jiffies(s, d)
    if old == 1 and (interactive or soft_rt):
        q.service_raised = 0
        if interactive:
            set_coefficient(s, d, i, RAISE)
            q.raised_for = interactive_duration(s, d)
        else:
            q.raised_before = LONG_AGO
            set_coefficient(s, d, i, RAISE_SOFT_RT)
            q.raised_for = SOFT_RT_PERIOD
        e = s.bfq_entities[i]
        e.budget = min(e.budget, 2 * smallest_budget(s.bfq[d]))
    elif old > 1:
        if interactive:
            set_coefficient(s, d, i, RAISE)
            q.raised_for = interactive_duration(s, d)
        elif q.in_large_burst != 0:
            set_coefficient(s, d, i, 1)
        elif soft_rt:
            if q.raised_for != SOFT_RT_PERIOD:
                q.raised_before = q.raised_at
                q.raised_for = SOFT_RT_PERIOD
                set_coefficient(s, d, i, RAISE_SOFT_RT)
            q.raised_at = now


@jit
def raise_async(s, d, i):
    """Write-back is raised too, once half a second since its last time."""
    q = s.bfq_queues[i]
    if q.coeff == 1 and jiffies(s, d) > q.raised_at + ASYNC_INTER_ARRIVAL:
        q.raised_for = interactive_duration(s, d)
        set_coefficient(s, d, i, RAISE)


@jit
def end_raising(s, d, i):
    """Back to the queue's own weight."""
    q = s.bfq_queues[i]
    set_coefficient(s, d, i, 1)
    q.raised_for = 0
    q.raised_at = jiffies(s, d)


@jit
def update_raising(s, d, i):
    """At a dispatch of the queue in service: has its raised time, or its raised service, run out?"""
    q = s.bfq_queues[i]
    if q.coeff > 1:
        now = jiffies(s, d)
        if q.in_large_burst != 0:
            end_raising(s, d, i)
        elif now > q.raised_at + q.raised_for:
            duration = interactive_duration(s, d)
            if q.raised_for != SOFT_RT_PERIOD or now > q.raised_before + duration:
                end_raising(s, d, i)
            else:
                set_coefficient(s, d, i, RAISE)
                q.raised_for = duration
                q.raised_at = q.raised_before
        if q.coeff > 1 and q.raised_for != SOFT_RT_PERIOD and q.service_raised > MAX_RAISED_SERVICE:
            end_raising(s, d, i)
    e = s.bfq_entities[i]
    if (e.weight > e.base_weight) != (q.coeff > 1):
        apply_weight(s, i)


@jit
def update_soft_rt_start(s, d, q):
    """Earliest arrival that still looks like a soft real-time stream: not before the rate allows it, and not the next
    request of a process that just runs fast.

    While a queue is raised as interactive, kernels since 5.1 leave it alone (their logs: the second write of dd makes
    dd and jbd2 soft real-time; those of 4.19 stay interactive).
    """
    c = s.bfq[d]
    if c.soft_rt_kept != 0 and q.coeff == RAISE:
        return
    now = jiffies(s, d)
    by_rate = q.idle_backlogged + q.service_backlogged * SEC // SOFT_RT_RATE // c.jiffy * c.jiffy
    by_pause = now + c.slice_idle // c.jiffy * c.jiffy + 4 * c.jiffy
    q.soft_next = max(q.soft_next, max(by_rate, by_pause))


@jit
def pay_back_waiting(s, d, q):
    """The time that a soft real-time queue spent outside service does not count against its 300 ms (seen in the log of
    5.2.1: jbd2's age stays at 4 ms over a second)."""
    now = jiffies(s, d)
    if s.bfq[d].soft_rt_kept != 0 and q.coeff > 1 and q.raised_for == SOFT_RT_PERIOD and now > q.budget_timeout:
        q.raised_at += max(now - max(q.raised_at, q.budget_timeout), 0)


@jit
def note_burst(s, d, i):
    """A queue becomes busy for the first time: eight within short gaps are a large burst, and none of it is raised."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    now = jiffies(s, d)
    if q.burst == c.burst or jiffies(s, d) < q.split_at + BURST_MEMORY:
        return
    if now > c.burst_at + BURST_WINDOW or q.group != c.burst_group:
        c.burst += 1
        c.burst_size = 0
        c.large_burst = 0
        c.burst_group = q.group
    c.burst_at = now
    q.burst = c.burst
    if c.large_burst != 0:
        q.in_large_burst = 1
        return
    c.burst_size += 1
    if c.burst_size < BURST_QUEUES:
        return
    c.large_burst = 1
    first = d * 2 * s.sim[0].n_tasks
    for j in range(first, first + s.sim[0].n_tasks):
        o = s.bfq_queues[j]
        if o.used != 0 and o.burst == c.burst:
            o.in_large_burst = 1


@jit
def follow_burst(s, d, i):
    """At each idle-to-busy switch of a sync queue: does it open, join or leave a burst?"""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    if q.sync == 0:
        return
    if q.fresh != 0:
        q.fresh = 0
        if c.burst_alone == 0 or c.burst_size > 0 or c.busy == 0:
            note_burst(s, d, i)
    elif q.in_large_burst != 0 and idle_for(s, d, q, BURST_MEMORY):
        q.in_large_burst = 0
        q.burst = NONE


@jit
def recently_split(s, d, q):
    """For two seconds after a split the queue keeps the state it had before."""
    return jiffies(s, d) < q.split_at + AFTER_SPLIT
