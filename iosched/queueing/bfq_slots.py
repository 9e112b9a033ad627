"""Whose turn it is, and for how long, in the closed form of BFQ: B-WF2Q+ with two entities, the decision to idle,
budgets (spec bfq 1.2, 1.3 and 1.11). An entity is a queue of the root, or the group that holds one."""

from __future__ import annotations

from ..engine.codes import MSEC, NEVER, NONE
from ..engine.jit import jit
from ..schedulers.bfq_tables import (
    BUDGETS_ASSIGNED_ENOUGH,
    MAX_RAISED_SERVICE,
    MIN_BUDGET_SHARE,
    RAISE,
    SHORT_IDLE,
    SOFT_RT_PERIOD,
)
from .bfq_records import (
    device_budget,
    raised_duration,
    update_soft_start,
)
from .bfq_state import (
    ALONE,
    EXHAUSTED,
    GROUPS,
    NO_MORE,
    PREEMPTED,
    RAISED,
    STRICT,
    THROUGHPUT,
    TIMEOUT,
    TOO_IDLE,
    WEIGHTS,
    tick,
)


@jit
def virtual_time(p, amount, weight):
    """Virtual time of an amount of service; where at most one entity is ever active, nobody asks for it."""
    return (amount << 22) // weight if p.keep_empty != 0 and p.apart != 0 else 0


@jit
def apply_weight(c, i):
    """A queue's raised weight counts from its next insertion on; its group's is what it is."""
    b = c.q[i]
    b.weight = b.plain * b.coeff
    if b.child == 0:
        b.e_weight = b.weight


@jit
def activate(p, c, i, residual):
    """The entity enters; one that left not by its own fault starts where it had stopped, or not too far in the past."""
    b = c.q[i]
    begin = c.vtime
    shifted = residual and c.vtime > b.e_finish
    if shifted:
        begin = b.e_finish
    b.e_start = max(begin, b.e_finish) if b.e_counted != 0 else begin
    b.e_counted = 1
    enqueue(p, c, i)
    if shifted and c.vtime > b.e_finish:
        ahead = (c.vtime - b.e_finish) // (b.coeff if b.child == 0 else 1)
        b.e_start += ahead
        b.e_finish += ahead
    settle(c)


@jit
def enqueue(p, c, i):
    """Into the tree, with the finish that the budget gives."""
    b = c.q[i]
    apply_weight(c, i)
    b.e_budget = b.budget
    b.e_finish = b.e_start + virtual_time(p, b.e_budget, b.e_weight)
    b.e_active = 1
    c.latest = i


@jit
def settle(c):
    """Virtual time jumps to the earliest start where nothing is in service."""
    if c.serving != NONE or (c.q[0].e_active == 0 and c.q[1].e_active == 0):
        return
    earliest = c.q[0].e_start if c.q[0].e_active != 0 else c.q[1].e_start
    if c.q[1].e_active != 0:
        earliest = min(earliest, c.q[1].e_start)
    c.vtime = max(c.vtime, earliest)


@jit
def deactivate(p, c, i):
    """The entity leaves, and is remembered until virtual time passes its finish; injected service is settled."""
    b = c.q[i]
    b.e_finish = b.e_start + virtual_time(p, b.e_service, b.e_weight)
    if c.serving == i:
        c.serving = NONE
    else:
        b.e_service = 0
    b.e_active = 0
    if b.e_finish <= c.vtime:
        b.e_counted = 0
    settle(c)


@jit
def requeue(p, c, i):
    """The entity in service stays, behind the service that it got."""
    b = c.q[i]
    b.e_start += virtual_time(p, b.e_service, b.e_weight)
    b.e_service = 0
    enqueue(p, c, i)


@jit
def come_back(p, c, i):
    """The group whose queue is kept although empty (5.3) enters anew, behind the root's queue, to which virtual time
    jumps."""
    if c.q[1 - i].e_active != 0:
        c.vtime = max(c.vtime, c.q[1 - i].e_start)
    requeue(p, c, i)
    if c.q[i].e_start < c.vtime:
        c.q[i].e_start = c.vtime
        enqueue(p, c, i)


@jit
def charge(p, c, i, amount):
    """Book service."""
    b = c.q[i]
    if b.coeff > 1:
        b.service_raised += amount
    b.service_backlogged += amount
    b.service += amount
    b.e_service += amount
    weights = 0
    for k in range(2):
        if c.q[k].e_counted != 0:
            weights += c.q[k].e_weight
    c.vtime += virtual_time(p, amount, weights)
    for k in range(2):
        if c.q[k].e_counted != 0 and c.q[k].e_active == 0 and c.serving != k and c.q[k].e_finish <= c.vtime:
            c.q[k].e_counted = 0


@jit
def choose(c):
    """Whose turn is it: of the eligible entities the one that would finish first, of two equals the one that came
    first; NONE without any."""
    settle(c)
    best = NONE
    for k in range(2):
        b = c.q[k]
        if b.e_active == 0 or b.e_start > c.vtime:
            continue
        if best == NONE or b.e_finish < c.q[best].e_finish or (b.e_finish == c.q[best].e_finish and c.latest == best):
            best = k
    if best != NONE:
        c.q[best].e_active = 0
        c.serving = best
    return best


# ---------------------------------------------------------------------------------------------------------------------
# idling (1.11)


@jit
def is_active(b):
    """Busy, or with a request in flight."""
    return b.busy != 0 or b.dispatched > 0


@jit
def asymmetric(p, c, i):
    """WEIGHTS or GROUPS if bandwidth must be shared unequally, else NONE."""
    both = is_active(c.q[0]) and is_active(c.q[1])
    if both and c.q[0].weight == c.q[0].plain and c.q[1].weight == c.q[1].plain and c.q[0].weight != c.q[1].weight:
        if p.lightest_exempt == 0 or c.q[i].weight > c.q[1 - i].weight:
            return WEIGHTS
    if p.groups_rule == 1:
        for k in range(2):
            if c.q[k].child != 0 and is_active(c.q[k]):
                return GROUPS
    elif p.groups_rule == 2 and both and p.same_group == 0:
        return GROUPS
    elif p.groups_rule == 0:
        uneven = p.uneven if both else p.uneven0 if is_active(c.q[0]) else p.uneven1
        if uneven != 0:
            return GROUPS
    return NONE


@jit
def boosts(p, c, i):
    """Does waiting raise throughput? For an I/O-bound queue that comes back soon, on a rotating device."""
    return p.rotational != 0 and c.raised_busy == 0 and c.q[i].io_bound != 0 and c.q[i].short != 0


@jit
def guarantees(p, c, i):
    """Why waiting is needed to give the queue what it is promised, else NONE."""
    if c.q[i].coeff > 1 and (p.raised_rule == 0 or c.raised_busy < c.busy):
        return RAISED
    why = asymmetric(p, c, i)
    if why == NONE and p.only_busy_idles != 0 and c.busy == 1:
        return ALONE
    return why


@jit
def why_idle(p, c, i):
    """The decision, with its reason; NONE: do not idle."""
    if p.strict != 0:
        return STRICT
    if p.slice_idle == 0:
        return NONE
    why = guarantees(p, c, i)
    return THROUGHPUT if why == NONE and boosts(p, c, i) else why


@jit
def better_to_idle(p, c, i):
    """Is it worth waiting for the queue?"""
    return why_idle(p, c, i) != NONE


# ---------------------------------------------------------------------------------------------------------------------
# slots and budgets (1.3)


@jit
def fit_budget(p, c, i):
    """A queue that waits in the tree without a request, and now has one: its budget must suffice."""
    b = c.q[i]
    wanted = max(b.budget, max(b.max_budget, b.nr))
    if wanted != b.budget:
        b.budget = wanted
        if b.child == 0:
            enqueue(p, c, i)


@jit
def begin_slot(p, c, i, now):
    """The queue comes into service. What a soft real-time queue spent out of service is paid back."""
    b = c.q[i]
    jiffies = tick(p, c, now)
    if p.soft_rt_kept != 0 and b.coeff > 1 and b.raised_for == SOFT_RT_PERIOD and jiffies > b.budget_timeout:
        b.raised_at += max(jiffies - max(b.raised_at, b.budget_timeout), 0)
    b.wait = 0
    c.budgets_assigned = (7 * c.budgets_assigned + 256) // 8
    c.last_budget_start = now
    b.budget_timeout = jiffies + p.timeout_sync * (1 if b.raised_for == SOFT_RT_PERIOD else b.weight // b.plain)
    c.in_service = i


@jit
def expire(p, c, reason, now):
    """The slot of the queue in service ends (1.3)."""
    i = c.in_service
    b = c.q[i]
    jiffies = tick(p, c, now)
    elapsed = (c.last_idling_start if reason == TOO_IDLE else now) - c.last_budget_start
    slow = elapsed > 20 * MSEC and 2 * b.service < device_budget(p, c)
    plenty = 3 * (b.budget - b.service) >= b.budget
    if b.coeff == 1 and (slow or (reason == TIMEOUT and plenty)):
        if elapsed < MSEC:
            elapsed = 4 * SHORT_IDLE if p.rotational != 0 else SHORT_IDLE
        extra = device_budget(p, c) * min(elapsed, p.timeout_sync) // p.timeout_sync - b.service
        if extra > 0:
            charge(p, c, i, extra)
    if p.io_time == 0 and reason == TOO_IDLE and 5 * b.service <= b.budget:
        b.io_bound = 0
    if p.low_latency != 0 and b.coeff == 1:
        b.raised_at = jiffies
    if p.low_latency != 0 and b.nr == 0:
        if b.dispatched == 0:
            update_soft_start(p, b, jiffies)
        else:
            b.soft_update = 1
    if reason != PREEMPTED:
        c.injected = 0
        c.wait_dispatch = 0
        c.waited = 0
    feed_back(p, c, b, reason)
    b.wait = 0
    c.until = NEVER
    keeps = p.keep_empty != 0 and reason == PREEMPTED and guarantees(p, c, i) != NONE
    if b.nr == 0 and not keeps:
        if b.dispatched == 0:
            b.budget_timeout = jiffies
        if reason != TIMEOUT and reason != EXHAUSTED:
            b.residual = 1
        leave_tree(p, c, i)
        if b.residual == 0:
            b.service = 0
    else:
        if b.nr == 0 and c.q[1 - i].child < b.child:
            come_back(p, c, i)
        else:
            requeue(p, c, i)
        b.service = 0
    c.serving = NONE
    b.e_service = 0
    c.in_service = NONE


@jit
def leave_tree(p, c, i):
    """The queue has nothing left."""
    b = c.q[i]
    b.busy = 0
    c.busy -= 1
    c.raised_busy -= 1 if b.coeff > 1 else 0
    deactivate(p, c, i)


@jit
def feed_back(p, c, b, reason):
    """The next budget, from how this slot ended."""
    most = device_budget(p, c)
    least = most // MIN_BUDGET_SHARE
    budget = b.max_budget
    if b.coeff > 1:
        budget = 2 * least
    elif reason == TOO_IDLE:
        if b.dispatched > 0:
            budget = min(2 * budget, most)
        else:
            budget = budget - 4 * least if budget > 5 * least else least
    elif reason == TIMEOUT:
        budget = min(2 * budget, most)
    elif reason == EXHAUSTED:
        budget = min(4 * budget, most)
    elif reason == NO_MORE:
        budget = max(b.service, least)
    if c.budgets_assigned >= BUDGETS_ASSIGNED_ENOUGH and p.user_max_budget == 0:
        budget = min(budget, c.max_budget)
    b.max_budget = budget
    if b.nr > 0:
        b.budget = max(budget, b.nr)


@jit
def update_raising(p, c, i, now):
    """At a dispatch of the queue in service: has its raised time, or its raised service, run out (1.13)?"""
    b = c.q[i]
    if b.coeff > 1:
        jiffies = tick(p, c, now)
        ends = False
        if jiffies > b.raised_at + b.raised_for:
            duration = raised_duration(p, c)
            if b.raised_for != SOFT_RT_PERIOD or jiffies > b.raised_before + duration:
                ends = True
            else:
                b.coeff = RAISE
                b.raised_for = duration
                b.raised_at = b.raised_before
        if ends or (b.raised_for != SOFT_RT_PERIOD and b.service_raised > MAX_RAISED_SERVICE):
            b.coeff = 1
            b.raised_for = 0
            b.raised_at = jiffies
            c.raised_busy -= b.busy
    if (b.weight > b.plain) != (b.coeff > 1):
        apply_weight(c, i)
