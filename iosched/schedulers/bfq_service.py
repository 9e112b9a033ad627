"""A queue's turn: slots, budgets and their feedback, and the end of a slot (spec bfq 1.3)."""

from ..engine.account import idle_end
from ..engine.clock import cancel
from ..engine.codes import END_EXPIRED, MSEC, NONE, T_IDLE, TR_ACTIVE, TR_EXPIRE
from ..engine.jit import jit
from ..engine.lists import push_front, remove
from ..engine.trace import record
from .bfq_estimators import device_budget, jiffies, seeky, smallest_budget
from .bfq_idling import asymmetric, guarantees_service, is_active
from .bfq_injection import budget_left, charge_of
from .bfq_lowlatency import pay_back_waiting, update_soft_rt_start
from .bfq_tables import (
    BE,
    BUDGET_EXHAUSTED,
    BUDGET_TIMEOUT,
    BUDGETS_ASSIGNED_ENOUGH,
    NO_MORE_REQUESTS,
    PREEMPTED,
    RT,
    SHORT_IDLE,
    SOFT_RT_PERIOD,
    TOO_IDLE,
)
from .bfq_wakers import woken_to_front
from .bfq_wf2q import activate_up, active_node, charge, deactivate_up, leave_service

SLOW_PROBE = 1 * MSEC  # a shorter slot says nothing about speed
FAST_ENOUGH = 20 * MSEC  # a longer one does


@jit
def next_charge(s, i):
    """What the queue's next request will cost."""
    q = s.bfq_queues[i]
    return charge_of(s, q.dev, q, s.requests[q.next_rq], not asymmetric(s, q.dev, i))


@jit
def serve(s, d, i, amount):
    """Book service of a queue: its slot, its group's, and the sums that low_latency looks at."""
    q = s.bfq_queues[i]
    if q.service_backlogged == 0:
        q.first_io = jiffies(s, d)
    if q.coeff > 1:
        q.service_raised += amount
    q.service_backlogged += amount
    charge(s, i, amount)


@jit
def count_class(c, q, n):
    """Busy queues, by class and in all."""
    c.busy += n
    if q.ioclass == BE:
        c.busy_be += n
    elif q.ioclass == RT:
        c.busy_rt += n
    else:
        c.busy_idle += n
    if q.coeff > 1:
        c.raised_busy += n


@jit
def add_busy(s, d, i):
    """The queue has requests now: it enters its tree."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    activate_up(s, i, q.residual != 0, False)
    q.residual = 0
    q.busy = 1
    count_class(c, q, 1)
    woken_to_front(s, i)


@jit
def del_busy(s, d, i):
    """The queue has nothing left: it leaves its tree."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    q.busy = 0
    count_class(c, q, -1)
    deactivate_up(s, i)
    leave_active(s, i)


@jit
def leave_active(s, i):
    """Neither busy nor with requests in flight: not "active" any more."""
    if not is_active(s.bfq_queues[i]):
        remove(s, active_node(s, i))


@jit
def enter_active(s, d, i):
    """Active since it has requests in flight, although none waits."""
    node = active_node(s, i)
    if s.nodes[node].list == NONE:
        push_front(s, s.bfq[d].active, node)


@jit
def begin_slot(s, d, i):
    """The queue comes into service: its deadline is the slot's length, times its raised weight if interactive."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    e = s.bfq_entities[i]
    now = jiffies(s, d)
    pay_back_waiting(s, d, q)
    q.fifo_checked = 0
    q.wait_request = 0
    q.injected_service = 0
    c.budgets_assigned = (7 * c.budgets_assigned + 256) // 8
    factor = 1 if q.raised_for == SOFT_RT_PERIOD else e.weight // e.base_weight
    c.last_budget_start = s.sim[0].now
    q.budget_timeout = now + c.timeout_sync * factor
    c.in_service = i
    record(s, TR_ACTIVE, q.task, NONE, 0, e.budget, 0, d)


@jit
def timed_out(s, d, q):
    """Is the slot's deadline over?"""
    return jiffies(s, d) >= q.budget_timeout


@jit
def may_time_out(s, d, i, waits):
    """Shall the slot end for its time (1.10)? Not while it waits, unless much of the budget is left anyway."""
    q = s.bfq_queues[i]
    if not timed_out(s, d, q):
        return False
    plenty = 3 * budget_left(s, i) >= s.bfq_entities[i].budget
    return (q.wait_request == 0 or plenty) and not waits


@jit
def expire(s, d, reason):
    """The slot of the queue in service ends (1.3), for one of five reasons.

    A preemption leaves the measurement of the timed request alone, although 1.3 makes no exception: otherwise who is
    injected, and preempts as soon as it comes back, would never show how much it slows a raised reader, which 6.1's
    disks protect from it (7.7 ms a random read of 7.6).
    """
    c = s.bfq[d]
    i = c.in_service
    q = s.bfq_queues[i]
    e = s.bfq_entities[i]
    slow, elapsed = is_slow(s, d, q, reason)
    record(s, TR_EXPIRE, q.task, NONE, e.service, reason, 0, d)
    plenty = 3 * (e.budget - e.service) >= e.budget
    if q.coeff == 1 and q.sync != 0 and (slow or (reason == BUDGET_TIMEOUT and plenty)):
        charge_time(s, d, i, elapsed)
    if c.io_time == 0 and reason == TOO_IDLE and 5 * e.service <= e.budget:
        q.io_bound = 0
    if c.low_latency != 0 and q.coeff == 1:
        q.raised_at = jiffies(s, d)
    if c.low_latency != 0 and q.queued == 0:
        if q.dispatched == 0:
            update_soft_rt_start(s, d, q)
        else:
            q.soft_update = 1
    if reason != PREEMPTED:
        c.injected = 0
        c.wait_dispatch = 0
        c.waited_rq = NONE
    feed_back(s, d, i, reason)
    if q.wait_request != 0:
        q.wait_request = 0
        cancel(s, d, T_IDLE)
    idle_end(s, d, END_EXPIRED)
    if q.coop != 0 and q.stable == 0 and seeky(q):
        q.split_coop = 1
    keeps = c.keep_empty != 0 and reason == PREEMPTED and guarantees_service(s, d, i)
    if q.queued == 0 and not keeps:
        if q.dispatched == 0:
            q.budget_timeout = jiffies(s, d)
        if reason != BUDGET_TIMEOUT and reason != BUDGET_EXHAUSTED:
            q.residual = 1
        del_busy(s, d, i)
        if q.residual == 0:
            e.service = 0
    else:
        activate_up(s, i, False, True)
        e.service = 0
    leave_service(s, i)
    c.in_service = NONE


@jit
def is_slow(s, d, q, reason):
    """(slow?, length of the slot in ns): a slow queue is charged the time it held the device, not its few sectors."""
    c = s.bfq[d]
    end = c.last_idling_start if reason == TOO_IDLE else s.sim[0].now
    elapsed = end - c.last_budget_start
    if elapsed < SLOW_PROBE:
        return seeky(q), 4 * SHORT_IDLE if s.devices[d].rotational != 0 else SHORT_IDLE
    if elapsed > FAST_ENOUGH:
        return 2 * s.bfq_entities[c.in_service].service < device_budget(c), elapsed
    return seeky(q), elapsed


@jit
def charge_time(s, d, i, elapsed):
    """Raise the slot's service to the share of a full budget that its time is of a full slot."""
    c = s.bfq[d]
    full = device_budget(c) * min(elapsed, c.timeout_sync) // c.timeout_sync
    extra = full - s.bfq_entities[i].service
    if extra > 0:
        serve(s, d, i, extra)


@jit
def feed_back(s, d, i, reason):
    """The queue's next budget, from how this slot ended."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    e = s.bfq_entities[i]
    most = device_budget(c)
    least = smallest_budget(c)
    budget = q.max_budget
    if q.sync == 0:
        budget = most
    elif q.coeff > 1:
        budget = 2 * least
    elif reason == TOO_IDLE:
        if q.dispatched > 0:
            budget = min(2 * budget, most)
        else:
            budget = budget - 4 * least if budget > 5 * least else least
    elif reason == BUDGET_TIMEOUT:
        budget = min(2 * budget, most)
    elif reason == BUDGET_EXHAUSTED:
        budget = min(4 * budget, most)
    elif reason == NO_MORE_REQUESTS:
        budget = max(e.service, least)
    if c.budgets_assigned >= BUDGETS_ASSIGNED_ENOUGH and c.user_max_budget == 0:
        budget = min(budget, c.max_budget)
    q.max_budget = budget
    if q.next_rq != NONE:
        e.budget = max(budget, next_charge(s, i))


@jit
def fit_budget(s, i):
    """The next request changed while the queue waits in its tree: its budget must suffice for it."""
    q = s.bfq_queues[i]
    e = s.bfq_entities[i]
    if s.bfq[q.dev].in_service == i:
        return
    wanted = max(e.budget, max(q.max_budget, next_charge(s, i)))
    if wanted != e.budget:
        e.budget = wanted
        activate_up(s, i, False, False)
