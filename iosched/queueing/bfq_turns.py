"""BFQ between dd and the log's writer, turn by turn: the recursion behind `bfq.py` (spec bfq 1.2 to 1.13 and 2).

Every request of an fsync waits for the one before it, so at most one is in the block layer. That leaves of BFQ two
queues that take turns, a clock and one idle timer: no event queue, no requests, no device. A turn is an arrival, perhaps
a wait for the end of an idle window, a dispatch and a completion; it changes the records that decide the next one:
think times, I/O-boundness, budgets, the injection limit, wakers, weight raising, and two entities of B-WF2Q+.

What two strictly alternating processes never meet is left out: seeky queues (neither seeks 20 times in 32), a device
that is seen to queue (`hw_tag` stays unknown), merged queues, large bursts, priority classes, asynchronous queues.

`p` is a point of the grid (facts), `c` the scheduler's state, `q` its two queues (0 dd's, 1 the log's). Times are
integer ns, amounts sectors. Everything that is compiled stands in this one file: Numba's cache looks at no other.
"""

from __future__ import annotations

from ..engine.codes import MSEC, NEVER, NONE, SEC
from ..engine.columns import columns
from ..engine.jit import entry, jit, out_of_line
from ..schedulers.bfq_tables import (
    BUDGETS_ASSIGNED_ENOUGH,
    DEFAULT_BUDGET,
    FEATURES,
    INJECTION_RENEWAL,
    LONG_AGO,
    MAX_RAISED_SERVICE,
    MIN_BUDGET_SHARE,
    MIN_IDLE_FOR_RAISING,
    RAISE,
    RAISE_SOFT_RT,
    RAISED_IDLE,
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
    SHORT_IDLE,
    SMALL_NONROTATIONAL,
    SMALL_REQUEST,
    SOFT_RT_PERIOD,
    SOFT_RT_RATE,
    THINK_VALID,
    TIMELY_REQUESTS,
    WAKER_COLUMNS,
)

PAGE = 4096
DATA, LOG, FIXED, PASSES = 0, 1, 2, 3  # what a step is: dd's pages, the log's blocks, so many sectors, unseen by BFQ
FIRST_LOG, NEW_LOG, OLD_LOG = 6, 4, 2  # blocks of jbd2's log write: new file, new block, neither

# why a slot ends
TOO_IDLE, TIMEOUT, EXHAUSTED, NO_MORE, PREEMPTED = 0, 1, 2, 3, 4
# why BFQ idles, and what becomes of a request of the other queue that comes meanwhile
ALONE, WEIGHTS, GROUPS, THROUGHPUT, RAISED, STRICT = 0, 1, 2, 3, 4, 5
WAITS, PREEMPTS, BY_LIMIT, BY_WAKER, DIRECT, OPEN = 0, 1, 2, 3, 4, 5
N_REASONS, N_FATES = 6, 6
WAITED = N_REASONS + N_FATES  # column of the ns waited, behind the counts of reasons and of fates
HASH = (1 << 31) - 1
BLOCK = 6  # cycles that are compared as one, since some states alternate or go in threes
SETTLED = 2  # blocks alike, after which only a deadline or a count can bring a change

POINT = columns(
    "slice_idle jiffy timeout_sync user_max_budget strict low_latency rotational wakeup bs direct count start "
    "quiet mount loop tail walked most leaps reads read_ns apart same_group uneven0 uneven1 uneven "
    "weight0 weight1 child0 child1 group0 group1 "
    + FEATURES + " " + WAKER_COLUMNS
)  # fmt: skip
STEP = columns("host task service kind nr runs")
STATE = columns(
    "until pending in_service busy raised_busy in_driver last_completion last_completed last_task max_budget "
    "budgets_assigned last_budget_start last_idling_start vtime serving rate rate_samples rate_sectors "
    "rate_sequential rate_first rate_last_dispatch rate_biggest wait_dispatch waited injected arrived_empty why fate "
    "direct position mapped changes pattern"
)
QUEUE = columns(
    "used child plain group_weight weight coeff nr dispatched busy wait residual max_budget budget service fifo io_bound "
    "timely io_start tot_idle short samples total mean_think last_end limit last_serv decreased waker tentative detections "
    "detection_start budget_timeout raised_at raised_for raised_before soft_next soft_update idle_backlogged "
    "service_backlogged service_raised e_active e_counted e_weight e_budget e_service e_start e_finish margin renewed soft_moves"
)


# ---------------------------------------------------------------------------------------------------------------------
# arrival (1.8, 1.9)


@jit
def tick(p, now):
    """The time as jiffies show it."""
    return now // p.jiffy * p.jiffy


@jit
def begin_queue(p, c, q, i, now):
    """A process sends its first request (1.1)."""
    b = q[i]
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
    b.idle_backlogged = tick(p, now)
    b.max_budget = 2 * device_budget(p, c) // 3
    b.budget = b.max_budget
    b.e_weight = b.group_weight if b.child != 0 else b.plain


@jit
def arrive(p, c, q, i, nr, now):
    """A request of queue `i` enters BFQ."""
    out_of_line()
    if q[i].used == 0:
        begin_queue(p, c, q, i, now)
    b = q[i]
    a = c.in_service
    c.fate = WAITS if a == 1 - i and c.until != NEVER else OPEN
    if p.wk_direct != 0 and a == 1 - i and c.busy <= 1 and (q[a].waker == i or b.waker == a):
        c.direct = 1
        c.fate = DIRECT
        return
    if p.think_early != 0:
        update_think_time(p, c, q, i, now)
    check_waker(p, c, q, i, now)
    if p.injection == 2:
        if tick(p, now) >= b.decreased + INJECTION_RENEWAL:
            reset_limit(p, b, now)
        if i == a and tick(p, now) >= b.decreased + p.inject_pause:
            c.arrived_empty = now
            c.wait_dispatch = 1
            c.injected = 0
    if p.io_time != 0:
        update_io_intensity(b, now)
    b.nr = nr
    if b.busy == 0:
        become_busy(p, c, q, i, now)
    elif i != a:
        fit_budget(p, c, q, i)
    if p.think_early == 0:
        update_think_time(p, c, q, i, now)
    if i == c.in_service and b.wait != 0:
        late = tick(p, now) >= b.budget_timeout
        if not (nr < SMALL_REQUEST and not late and boosts(p, c, q, i)):
            b.wait = 0
            c.until = NEVER
            if late:
                expire(p, c, q, TIMEOUT, now)


@jit
def update_think_time(p, c, q, i, now):
    """Fold one think time in and see whether it is short (1.6); a change of sides may reset the limit (1.11)."""
    b = q[i]
    if p.think_idle == 0 or (b.dispatched == 0 and b.busy == 0):
        b.samples = (7 * b.samples + 256) // 8
        b.total = (7 * b.total + 256 * min(now - b.last_end, 2 * p.slice_idle)) // 8
        b.mean_think = (b.total + 128) // b.samples
        b.margin = min(b.margin, abs(b.mean_think - p.slice_idle // p.think_divisor))
    short = 1 if b.samples <= THINK_VALID or b.mean_think <= p.slice_idle // p.think_divisor else 0
    if short != b.short:
        b.short = short
        flips = p.injection == 2 and p.flip_resets != 0 and b.last_serv == 0
        if flips and (short == 0 or tick(p, now) >= b.decreased + 100 * MSEC):
            reset_limit(p, b, now)


@jit
def check_waker(p, c, q, i, now):
    """Was the other queue's completion the cause of this arrival (2.1)?"""
    b = q[i]
    candidate = c.last_completed
    if p.wk_detect == 0 or candidate == NONE or candidate == i:
        return
    if p.wk_challenge == 0 and p.wk_replace == 0 and candidate == b.waker:
        return
    if (p.wk_long_think != 0 and b.short != 0) or now - c.last_completion >= p.wk_window:
        return
    since = tick(p, now)
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
def become_busy(p, c, q, i, now):
    """The queue may be raised, enters its tree, and may take the device (1.9, 1.13)."""
    out_of_line()
    b = q[i]
    jiffies = tick(p, now)
    may = p.raise_default_only == 0 or b.plain == 40
    interactive = may and b.dispatched == 0 and jiffies > b.budget_timeout + MIN_IDLE_FOR_RAISING
    soft = may and b.dispatched == 0 and jiffies > b.soft_next
    raised = p.low_latency != 0 and (b.coeff > 1 or interactive or soft)
    in_time = now <= b.last_end + 3 * p.slice_idle
    left = b.budget - b.service
    wants = raised
    if b.residual != 0 and in_time and (p.residual_left == 0 or left > 0):
        b.budget = max(min(left, b.max_budget), 1)
        wants = True
    else:
        b.budget = max(b.max_budget, b.nr)
        b.residual = 0
    b.service = 0
    if b.child == 0:
        b.e_service = 0
    if p.io_time == 0 and b.io_bound == 0:
        b.timely = b.timely + 1 if in_time else 0
        if b.timely >= TIMELY_REQUESTS:
            b.io_bound = 1
    if p.low_latency != 0:
        old = b.coeff
        if raised:
            raise_weight(p, c, b, interactive, soft, jiffies)
        if old == 1 or b.coeff == 1 or interactive:
            b.raised_at = jiffies
    b.idle_backlogged = jiffies
    b.service_backlogged = 0
    b.soft_update = 0
    activate(p, c, q, i, b.residual != 0)
    b.residual = 0
    b.busy = 1
    c.busy += 1
    c.raised_busy += 1 if b.coeff > 1 else 0
    if c.in_service != NONE and preempts(p, c, q, i, wants):
        if c.fate == WAITS:
            c.fate = PREEMPTS
        expire(p, c, q, PREEMPTED, now)


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
        b.renewed = 1


@jit
def raised_duration(p, c):
    """How long interactive queues stay raised on this device (1.13)."""
    rate = REFERENCE_RATE_ROTATIONAL if p.rotational != 0 else REFERENCE_RATE_FLASH
    span = REFERENCE_TIME_ROTATIONAL if p.rotational != 0 else REFERENCE_TIME_FLASH
    return min(max(rate * span // c.rate, 3 * SEC), 25 * SEC)


@jit
def preempts(p, c, q, i, wants):
    """Does queue `i` take the device from the one in service (1.9)? Below one and the same group of the root the tree's
    root keeps its entity in service, and nobody does."""
    if p.apart == 0:
        return False
    b = q[i]
    a = q[c.in_service]
    if p.preempt_rule == 0:
        return wants and a.coeff < b.coeff
    if wants and b.coeff >= a.coeff:
        return True
    own = b.group_weight if b.child != 0 else b.weight
    other = a.group_weight if a.child != 0 else a.weight
    if own > other:
        return True
    return p.preempt_rule == 2 and not better_to_idle(p, c, q, c.in_service)


# ---------------------------------------------------------------------------------------------------------------------
# B-WF2Q+ at the root, for two entities: each is a queue of the root, or the group that holds one (1.2)


@jit
def virtual_time(amount, weight):
    """Virtual time of an amount of service."""
    return (amount << 22) // weight


@jit
def apply_weight(q, i):
    """A queue's raised weight counts from its next insertion on; its group's is what it is."""
    b = q[i]
    b.weight = b.plain * b.coeff
    if b.child == 0:
        b.e_weight = b.weight


@jit
def activate(p, c, q, i, residual):
    """The entity enters; one that left not by its own fault starts where it had stopped, if that is in the past."""
    b = q[i]
    begin = c.vtime
    shifted = residual and c.vtime > b.e_finish
    if shifted:
        begin = b.e_finish
    b.e_start = max(begin, b.e_finish) if b.e_counted != 0 else begin
    b.e_counted = 1
    enqueue(c, q, i)
    if shifted and b.child == 0 and c.vtime > b.e_finish:
        ahead = (c.vtime - b.e_finish) // b.coeff
        b.e_start += ahead
        b.e_finish += ahead
    settle(c, q)


@jit
def enqueue(c, q, i):
    """Into the tree, with the finish that the budget gives."""
    b = q[i]
    apply_weight(q, i)
    b.e_budget = b.budget
    b.e_finish = b.e_start + virtual_time(b.e_budget, b.e_weight)
    b.e_active = 1


@jit
def settle(c, q):
    """Virtual time jumps to the earliest start where nothing is in service."""
    if c.serving != NONE or (q[0].e_active == 0 and q[1].e_active == 0):
        return
    earliest = q[0].e_start if q[0].e_active != 0 else q[1].e_start
    if q[1].e_active != 0:
        earliest = min(earliest, q[1].e_start)
    c.vtime = max(c.vtime, earliest)


@jit
def deactivate(c, q, i):
    """The entity leaves, and is remembered until virtual time passes its finish."""
    b = q[i]
    b.e_finish = b.e_start + virtual_time(b.e_service, b.e_weight)
    if c.serving == i:
        c.serving = NONE
    b.e_active = 0
    if b.e_finish <= c.vtime:
        b.e_counted = 0
    settle(c, q)


@jit
def requeue(c, q, i):
    """The entity in service stays, behind the service that it got."""
    b = q[i]
    b.e_start += virtual_time(b.e_service, b.e_weight)
    b.e_service = 0
    enqueue(c, q, i)


@jit
def charge(c, q, i, amount):
    """Book service."""
    b = q[i]
    if b.coeff > 1:
        b.service_raised += amount
    b.service_backlogged += amount
    b.service += amount
    b.e_service += amount
    weights = 0
    for k in range(2):
        if q[k].e_counted != 0:
            weights += q[k].e_weight
    c.vtime += virtual_time(amount, weights)
    for k in range(2):
        if q[k].e_counted != 0 and q[k].e_active == 0 and c.serving != k and q[k].e_finish <= c.vtime:
            q[k].e_counted = 0


@jit
def choose(c, q):
    """Whose turn is it: of the eligible entities the one that would finish first; NONE without any."""
    settle(c, q)
    best = NONE
    for k in range(2):
        b = q[k]
        if b.e_active != 0 and b.e_start <= c.vtime and (best == NONE or b.e_finish < q[best].e_finish):
            best = k
    if best != NONE:
        q[best].e_active = 0
        c.serving = best
    return best


# ---------------------------------------------------------------------------------------------------------------------
# slots and budgets (1.3, 1.4)


@jit
def device_budget(p, c):
    """Most sectors of a slot."""
    if p.user_max_budget > 0:
        return p.user_max_budget
    return DEFAULT_BUDGET if c.budgets_assigned < BUDGETS_ASSIGNED_ENOUGH else c.max_budget


@jit
def fit_budget(p, c, q, i):
    """A queue that waits in the tree without a request, and now has one: its budget must suffice."""
    b = q[i]
    wanted = max(b.budget, max(b.max_budget, b.nr))
    if wanted != b.budget:
        b.budget = wanted
        if b.child == 0:
            enqueue(c, q, i)


@jit
def begin_slot(p, c, q, i, now):
    """The queue comes into service. What a soft real-time queue spent out of service is paid back."""
    b = q[i]
    jiffies = tick(p, now)
    if p.soft_rt_kept != 0 and b.coeff > 1 and b.raised_for == SOFT_RT_PERIOD and jiffies > b.budget_timeout:
        b.raised_at += max(jiffies - max(b.raised_at, b.budget_timeout), 0)
    b.wait = 0
    c.budgets_assigned = (7 * c.budgets_assigned + 256) // 8
    c.last_budget_start = now
    b.budget_timeout = jiffies + p.timeout_sync * (1 if b.raised_for == SOFT_RT_PERIOD else b.weight // b.plain)
    c.in_service = i


@jit
def expire(p, c, q, reason, now):
    """The slot of the queue in service ends (1.3)."""
    out_of_line()
    i = c.in_service
    b = q[i]
    jiffies = tick(p, now)
    elapsed = (c.last_idling_start if reason == TOO_IDLE else now) - c.last_budget_start
    slow = elapsed > 20 * MSEC and 2 * b.service < device_budget(p, c)
    plenty = 3 * (b.budget - b.service) >= b.budget
    if b.coeff == 1 and (slow or (reason == TIMEOUT and plenty)):
        if elapsed < MSEC:
            elapsed = 4 * SHORT_IDLE if p.rotational != 0 else SHORT_IDLE
        extra = device_budget(p, c) * min(elapsed, p.timeout_sync) // p.timeout_sync - b.service
        if extra > 0:
            charge(c, q, i, extra)
    if p.io_time == 0 and reason == TOO_IDLE and 5 * b.service <= b.budget:
        b.io_bound = 0
    if p.low_latency != 0 and b.coeff == 1:
        b.raised_at = jiffies
    if p.low_latency != 0 and b.nr == 0:
        if b.dispatched == 0:
            update_soft_start(p, b, jiffies)
        else:
            b.soft_update = 1
    c.injected = 0
    c.wait_dispatch = 0
    c.waited = 0
    feed_back(p, c, b, reason)
    b.wait = 0
    c.until = NEVER
    keeps = p.keep_empty != 0 and reason == PREEMPTED and guarantees(p, c, q, i) != NONE
    if b.nr == 0 and not keeps:
        if b.dispatched == 0:
            b.budget_timeout = jiffies
        if reason != TIMEOUT and reason != EXHAUSTED:
            b.residual = 1
        leave_tree(c, q, i)
        if b.residual == 0:
            b.service = 0
    else:
        requeue(c, q, i)
        b.service = 0
        c.changes += 1
    c.serving = NONE
    b.e_service = 0
    c.in_service = NONE


@jit
def leave_tree(c, q, i):
    """The queue has nothing left."""
    b = q[i]
    b.busy = 0
    c.busy -= 1
    c.raised_busy -= 1 if b.coeff > 1 else 0
    deactivate(c, q, i)


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
def update_soft_start(p, b, jiffies):
    """Earliest arrival that still looks like a soft real-time stream (1.13)."""
    if p.soft_rt_kept != 0 and b.coeff == RAISE:
        return
    by_rate = b.idle_backlogged + b.service_backlogged * SEC // SOFT_RT_RATE // p.jiffy * p.jiffy
    by_pause = jiffies + p.slice_idle // p.jiffy * p.jiffy + 4 * p.jiffy
    b.soft_moves = 1 if by_pause >= max(b.soft_next, by_rate) else 0
    b.soft_next = max(b.soft_next, max(by_rate, by_pause))


@jit
def update_raising(p, c, q, i, now):
    """At a dispatch of the queue in service: has its raised time, or its raised service, run out (1.13)?"""
    b = q[i]
    if b.coeff > 1:
        jiffies = tick(p, now)
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
        apply_weight(q, i)


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
    c.changes += 1
    if p.user_max_budget == 0:
        c.max_budget = max(c.rate * (p.timeout_sync // 1000) >> RATE_SHIFT, MIN_BUDGET_SHARE)


# ---------------------------------------------------------------------------------------------------------------------
# idling (1.11)


@jit
def boosts(p, c, q, i):
    """Does waiting raise throughput? For an I/O-bound queue that comes back soon, on a rotating device."""
    return p.rotational != 0 and c.raised_busy == 0 and q[i].io_bound != 0 and q[i].short != 0


@jit
def is_active(b):
    """Busy, or with a request in flight."""
    return b.busy != 0 or b.dispatched > 0


@jit
def asymmetric(p, c, q, i):
    """WEIGHTS or GROUPS if bandwidth must be shared unequally, else NONE."""
    both = is_active(q[0]) and is_active(q[1])
    if both and q[0].weight == q[0].plain and q[1].weight == q[1].plain and q[0].weight != q[1].weight:
        if p.lightest_exempt == 0 or q[i].weight > q[1 - i].weight:
            return WEIGHTS
    if p.groups_rule == 1:
        for k in range(2):
            if q[k].child != 0 and is_active(q[k]):
                return GROUPS
    elif p.groups_rule == 2 and both and p.same_group == 0:
        return GROUPS
    elif p.groups_rule == 0:
        uneven = p.uneven if both else p.uneven0 if is_active(q[0]) else p.uneven1
        if uneven != 0:
            return GROUPS
    return NONE


@jit
def guarantees(p, c, q, i):
    """Why waiting is needed to give the queue what it is promised, else NONE."""
    if q[i].coeff > 1 and (p.raised_rule == 0 or c.raised_busy < c.busy):
        return RAISED
    why = asymmetric(p, c, q, i)
    if why == NONE and p.only_busy_idles != 0 and c.busy == 1:
        return ALONE
    return why


@jit
def why_idle(p, c, q, i):
    """The decision, with its reason; NONE: do not idle."""
    if p.strict != 0:
        return STRICT
    if p.slice_idle == 0:
        return NONE
    why = guarantees(p, c, q, i)
    return THROUGHPUT if why == NONE and boosts(p, c, q, i) else why


@jit
def better_to_idle(p, c, q, i):
    """Is it worth waiting for the queue?"""
    return why_idle(p, c, q, i) != NONE


# ---------------------------------------------------------------------------------------------------------------------
# selection, injection, dispatch (1.10, 1.11, 2)


@jit
def select(p, c, q, now):
    """The queue to serve now, or NONE."""
    out_of_line()
    if c.in_service != NONE:
        b = q[c.in_service]
        if tick(p, now) >= b.budget_timeout:
            plenty = 3 * (b.budget - b.service) >= b.budget
            if (b.wait == 0 or plenty) and not (b.nr == 0 and better_to_idle(p, c, q, c.in_service)):
                expire(p, c, q, TIMEOUT, now)
    while True:
        if c.in_service == NONE:
            i = choose(c, q)
            if i == NONE:
                return NONE
            begin_slot(p, c, q, i, now)
        i = c.in_service
        b = q[i]
        if b.nr > 0:
            if b.nr <= b.budget - b.service:
                b.wait = 0
                c.until = NEVER
                return i
            expire(p, c, q, EXHAUSTED, now)
        elif c.until != NEVER or (b.dispatched > 0 and better_to_idle(p, c, q, i)):
            return meanwhile(p, c, q, i)
        else:
            expire(p, c, q, NO_MORE, now)


@jit
def meanwhile(p, c, q, i):
    """Queue `i` is waited for: may the other send its request into the pause? 5.0 and 5.1 inject into seeky queues only
    and 4.19 not at all, so that here nothing comes of either."""
    b = q[i]
    j = 1 - i
    o = q[j]
    if p.injection != 2 or o.busy == 0 or o.nr == 0 or o.nr > o.budget - o.service:
        return NONE
    if p.wk_select == 2 and b.waker == j:
        c.fate = BY_WAKER
        return j
    if p.wk_woken != 0 and o.waker == i:
        c.fate = BY_WAKER
        return j
    if boosts(p, c, q, i) or not (b.coeff == 1 or c.raised_busy > 1 or b.short == 0):
        return NONE
    limit = b.limit
    if p.rotational == 0 and o.nr >= SMALL_NONROTATIONAL:
        limit = min(1, limit)
    if c.in_driver >= limit or not (b.coeff == 1 or b.short == 0 or o.coeff > 1):
        return NONE
    c.injected = 1
    c.fate = BY_LIMIT
    return j


@jit
def reset_limit(p, b, now):
    """Start to learn again what may be injected into this queue."""
    b.last_serv = 0
    b.limit = 0 if b.short != 0 else 1
    b.decreased = tick(p, now)


@jit
def update_limit(p, c, b, now):
    """The timed request is back: adapt the limit and the baseline. One request is in the device, never more."""
    took = now - c.arrived_empty
    before = b.limit
    if b.last_serv > 0 and (p.late_inject == 0 or c.injected != 0):
        if 2 * took >= 3 * b.last_serv:
            if before > 0:
                b.limit -= 1
                b.decreased = tick(p, now)
        elif before < 2:
            b.limit += 1
    if (b.last_serv == 0 and p.base_in_driver == 1) or took < b.last_serv:
        b.last_serv = took
        if p.late_inject == 0 or b.limit == 0:
            b.limit = max(1, b.limit)
    elif p.update_base != 0 and c.injected == 0:
        b.last_serv = took
    c.waited = 0
    c.injected = 0


@jit
def dispatch(p, c, q, i, now):
    """Try to send the pending request of queue `i` at a run of kblockd. Has it gone?"""
    out_of_line()
    b = q[i]
    if c.direct == 0:
        if c.busy == 0 or select(p, c, q, now) == NONE:
            return False
        nr = b.nr
        b.nr = 0
        charge(c, q, i, nr)
        near = c.last_task == i or c.last_task == NONE or (p.rotational == 0 and nr >= SMALL_NONROTATIONAL)
        update_rate(p, c, near, nr, now)
        c.last_task = i
    b.dispatched = 1
    c.in_driver = 1
    if c.direct == 0:
        if i != c.in_service:
            leave_tree(c, q, i)
            b.budget_timeout = tick(p, now)
        else:
            if c.wait_dispatch != 0:
                c.wait_dispatch = 0
                c.waited = 1
            update_raising(p, c, q, i, now)
    c.direct = 0
    poll(p, c, q, now)
    return True


@jit
def poll(p, c, q, now):
    """Before 6.1 blk-mq asks once more, and the queue in service may end its slot right then."""
    if p.polled != 0 and c.busy > 0 and not (p.strict != 0 and c.in_driver > 0):
        select(p, c, q, now)


# ---------------------------------------------------------------------------------------------------------------------
# completion, timer (1.10)


@jit
def completed(p, c, q, i, now):
    """The request is back; wait for the next of its queue, or end the slot."""
    out_of_line()
    b = q[i]
    if c.waited != 0 and i == c.in_service:
        update_limit(p, c, b, now)
    c.in_driver = 0
    b.dispatched = 0
    if b.busy == 0:
        b.budget_timeout = tick(p, now)
    b.last_end = now
    gap = now - c.last_completion
    if c.rate_samples > 0 and gap > RATE_BUSY_GAP and (c.rate_biggest << RATE_SHIFT) // (gap // 1000) < 64:
        evaluate_rate(p, c, now)
    c.last_completion = now
    c.last_completed = i
    if b.soft_update != 0:
        update_soft_start(p, b, tick(p, now))
        b.soft_update = 0
    if i != c.in_service:
        return
    why = why_idle(p, c, q, i)
    if why != NONE:
        c.why = why
        b.wait = 1
        raised = b.coeff > 1 and p.raised_idle != 0
        c.last_idling_start = now
        c.until = now + (max(p.slice_idle, RAISED_IDLE) if raised else p.slice_idle)
    elif tick(p, now) >= b.budget_timeout:
        expire(p, c, q, TIMEOUT, now)
    else:
        expire(p, c, q, NO_MORE, now)


@jit
def pass_time(p, c, q, to):
    """Time passes; the idle timer may run out, and then kblockd looks once more."""
    at = c.until
    if at > to:
        return
    fire(p, c, q)
    if at + p.wakeup <= to:
        poll(p, c, q, at + p.wakeup)


@jit
def fire(p, c, q):
    """The idle timer runs out."""
    now = c.until
    c.until = NEVER
    if c.in_service == NONE:
        return
    b = q[c.in_service]
    b.wait = 0
    if tick(p, now) >= b.budget_timeout:
        expire(p, c, q, TIMEOUT, now)
    elif b.nr == 0:
        expire(p, c, q, TOO_IDLE, now)


# ---------------------------------------------------------------------------------------------------------------------
# turns, cycles, grids


@jit
def turn(p, c, q, n, i, nr, service, now):
    """One request of queue `i` from its arrival to its completion; returns when that is. `n` are the counts."""
    if c.until <= now:
        fire(p, c, q)
    arrive(p, c, q, i, nr, now)
    why = c.why
    run = now + p.wakeup
    if c.until <= run:
        fire(p, c, q)
    gone = dispatch(p, c, q, i, run)
    held = False
    while not gone:
        at = c.until
        if at == NEVER:
            return NEVER
        fire(p, c, q)
        held = True
        run = at + p.wakeup
        gone = dispatch(p, c, q, i, run)
    if held:
        c.fate = WAITS
        n[1 - i, WAITED] += run - p.wakeup - now
        n[1 - i, why] += 1
    elif c.fate == WAITS:
        c.fate = OPEN
    n[1 - i, N_REASONS + c.fate] += 1
    c.pattern = (c.pattern * N_FATES + c.fate) % HASH
    end = run + service
    if c.until <= end:
        pass_time(p, c, q, end)
    completed(p, c, q, i, end)
    return end


@jit
def sectors(p, c, step):
    """Sectors of a step of the running operation: pages that dd touches, blocks of the transaction, or a page."""
    if step.kind == FIXED:
        return step.nr
    if step.kind == DATA:
        start = c.position
        c.position += p.bs
        if p.direct != 0:
            return p.bs // 512
        return 8 * ((c.position + PAGE - 1) // PAGE - start // PAGE)
    end = (c.position + PAGE - 1) // PAGE
    blocks = OLD_LOG
    if end > c.mapped:
        blocks = FIRST_LOG if c.mapped == 0 else NEW_LOG
        c.mapped = end
    return 8 * blocks


@jit
def walk(p, c, q, n, steps, first, last, now):
    """The steps of an operation, from `now` on; returns its end."""
    for k in range(first, last):
        step = steps[k]
        now += step.host
        if step.kind == PASSES:
            if step.runs > 0:
                if c.until <= now + p.wakeup:
                    fire(p, c, q)
                poll(p, c, q, now + p.wakeup)
            now += step.service + step.runs * p.wakeup
            if c.until <= now:
                pass_time(p, c, q, now)
        else:
            now = turn(p, c, q, n, step.task, sectors(p, c, step), step.service, now)
    return now


@jit
def begin(p, c, q, n, steps):
    """BFQ as it was selected, perhaps a commit at the mount and a pause, then what creating dd's file reads."""
    c.until = NEVER
    c.in_service = c.last_completed = c.last_task = c.serving = NONE
    c.last_completion = -SEC
    c.max_budget = DEFAULT_BUDGET
    c.rate = 2 * (REFERENCE_RATE_ROTATIONAL if p.rotational != 0 else REFERENCE_RATE_FLASH) // 3
    now = 0
    if p.mount > 0:
        now = walk(p, c, q, n, steps, 0, p.mount, 0) + p.wakeup
        while c.until != NEVER:
            now = max(now, c.until + p.wakeup)
            pass_time(p, c, q, now)
        now += p.quiet
    return now + p.start


@jit
def run_point(p, c, q, old, n, last, early, steps):
    """All operations of one point; returns the nanoseconds that they took. Where cycles repeat, it leaps to the next
    deadline; when it has walked `p.most` cycles, the rest is like those since a quarter of them."""
    start = begin(p, c, q, n, steps)
    for k in range(2):
        for column in range(WAITED + 1):
            n[k, column] = 0
    now = start
    for _ in range(p.reads):
        now = turn(p, c, q, n, 0, 8, p.read_ns, now) + p.wakeup
    leapt = done = same = length = marks = walked = early_done = early_time = since = 0
    while done < p.count and walked < p.most:
        if early_done == 0 and walked >= p.most // 4:
            copy(n, early)
            early_done = done
            early_time = now + leapt
        if same == 0:
            keep_old(q, old)
            copy(n, last)
            since = now
        before = now
        c.pattern = 0
        for _ in range(min(BLOCK, p.count - done)):
            now = walk(p, c, q, n, steps, p.mount, p.loop, now)
            done += 1
            walked += 1
            sign(c, q)
        same = same + 1 if now - before == length and c.pattern == marks else 0
        length = now - before
        marks = c.pattern
        if same >= SETTLED and p.leaps != 0:
            leap = min(blocks_ahead(p, c, q, old, same, length, since, now), (p.count - done) // BLOCK)
            if leap > 0:
                leap_over(p, c, q, old, same, leap, length, since)
                repeat(n, last, leap, same)
                done += leap * BLOCK
                leapt += leap * length
                same = 0
    p.walked = walked
    if done < p.count:
        repeat(n, early, p.count - done, done - early_done)
        leapt += (p.count - done) * (now + leapt - early_time) // (done - early_done)
        c.position += (p.count - done) * p.bs
    now = walk(p, c, q, n, steps, p.loop, p.tail, now)
    return now + leapt - start


@jit
def copy(n, to):
    """Remember the counts."""
    for k in range(2):
        for column in range(WAITED + 1):
            to[k, column] = n[k, column]


@jit
def repeat(n, then, cycles, seen):
    """Count so many more cycles, like the `seen` ones since `then`."""
    for k in range(2):
        for column in range(WAITED + 1):
            n[k, column] += cycles * (n[k, column] - then[k, column]) // seen


@jit
def sign(c, q):
    """Fold into the block's pattern what happened in a cycle, and every record of few values at its end."""
    s = c.in_service + 1
    for k in range(2):
        b = q[k]
        raised = 2 if b.coeff == RAISE_SOFT_RT else 1 if b.coeff > 1 else 0
        s = ((((s * 2 + b.short) * 2 + b.io_bound) * 2 + b.busy) * 3 + b.waker + 1) * 3 + raised
        s = (s * 3 + b.limit) * 3 + b.tentative + 1
    c.pattern = (c.pattern * 31 + s) % HASH


@jit
def keep_old(q, old):
    """What the change of the records is measured against."""
    for k in range(2):
        a = old[k]
        b = q[k]
        a.mean_think = b.mean_think
        a.timely = b.timely
        a.raised_at = b.raised_at
        a.service = b.service
        a.service_raised = b.service_raised
        a.tot_idle = b.tot_idle
        a.io_start = b.io_start
        a.max_budget = b.max_budget
        a.budget = b.budget
        a.last_serv = b.last_serv
        b.margin = NEVER
        b.renewed = 0


@jit
def blocks_ahead(p, c, q, old, same, length, since, now):
    """How many more blocks of cycles like the last `same` ones there are before a deadline or a count changes something; 0 or
    less: none."""
    ahead = NEVER // length
    slot = c.last_budget_start < since
    if c.in_service != NONE and not slot and c.last_budget_start < now - length:
        return 0
    for k in range(2):
        a = old[k]
        b = q[k]
        if abs(b.mean_think - a.mean_think) >= b.margin or b.max_budget != a.max_budget or 8 * abs(b.last_serv - a.last_serv) > b.last_serv:
            return 0
        if p.keep_empty != 0 and p.apart != 0 and b.busy != 0 and c.in_service != k:
            return 0
        if b.budget < a.budget:  # a residue that gets smaller; where its renewal was seen, it changes nothing
            ahead = min(ahead, (b.budget - b.service) * same // (a.budget - b.budget))
        if p.injection == 2:
            ahead = min(ahead, (b.decreased + INJECTION_RENEWAL - now) // length)
        if p.io_time == 0 and b.io_bound == 0 and b.timely > a.timely and b.timely < TIMELY_REQUESTS:
            ahead = min(ahead, (TIMELY_REQUESTS - b.timely) * same // (b.timely - a.timely))
        if p.io_time != 0:
            if b.io_start != a.io_start:
                return 0
            if (5 * (b.tot_idle - a.tot_idle) <= same * length) != (b.io_bound != 0):
                ahead = min(ahead, 50 * MSEC // length)
        if b.coeff > 1:
            if b.renewed == 0:
                if p.soft_rt_kept != 0 and b.raised_for == SOFT_RT_PERIOD and now - since < 8 * p.jiffy:
                    return 0
                moved = (b.raised_at - a.raised_at) // same
                if moved < length:
                    ahead = min(ahead, (b.raised_at + b.raised_for - now) // (length - moved))
            if b.service_raised > a.service_raised:
                left = MAX_RAISED_SERVICE - b.service_raised
                ahead = min(ahead, left * same // (b.service_raised - a.service_raised))
        if p.low_latency != 0 and b.soft_moves == 0 and b.soft_next > now:
            ahead = min(ahead, (b.soft_next - now) // length)
        if k == c.in_service and slot:
            ahead = min(ahead, (b.budget_timeout - now) // length)
            if b.service > a.service:
                ahead = min(ahead, (b.budget - b.service) * same // (b.service - a.service))
    return ahead - 1


@jit
def leap_over(p, c, q, old, same, leap, length, since):
    """Over `leap` cycles: the clock stays, and what does not move along with it comes nearer."""
    past = leap * length
    for k in range(2):
        a = old[k]
        b = q[k]
        if b.budget < a.budget:
            b.budget -= leap * (a.budget - b.budget) // same
        b.decreased -= past
        b.raised_before -= past
        if b.renewed == 0 and b.coeff > 1:
            b.raised_at -= past - leap * (b.raised_at - a.raised_at) // same
        if b.soft_moves == 0:
            b.soft_next -= past
        if k == c.in_service and c.last_budget_start < since:
            b.budget_timeout -= past
            b.service += leap * (b.service - a.service) // same
        if b.timely > a.timely:
            b.timely += leap * (b.timely - a.timely) // same
        if b.service_raised > a.service_raised:
            b.service_raised += leap * (b.service_raised - a.service_raised) // same
    if c.in_service != NONE and c.last_budget_start < since:
        c.last_budget_start -= past
    c.position += leap * BLOCK * p.bs


@entry
def run_points(points, steps, state, queues, old, counts, scratch, elapsed):
    """Every point of a grid: `counts` and `elapsed` (ns) are its answer, the other tables its scratch paper."""
    for k in range(len(points)):
        elapsed[k] = run_point(
            points[k], state[k], queues[k], old[k], counts[k], scratch[0], scratch[1], steps[k]
        )
