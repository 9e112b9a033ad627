"""BFQ between dd and the log's writer, turn by turn: the recursion of the closed form (spec bfq 1.8 to 1.11 and 2).

Every request of an fsync waits for the one before it, so at most one is in the block layer. That leaves of BFQ two
queues that take turns, a clock and one idle timer: no event queue, no requests, no device. A turn is an arrival,
perhaps a wait for the end of an idle window, a dispatch and a completion; it changes the records that decide the next.

What two strictly alternating processes never meet is left out: seeky queues (neither seeks 20 times in 32), a device
that is seen to queue (`hw_tag` stays unknown), merged queues, large bursts, priority classes, asynchronous queues.

`p` is a point of the grid (facts), `c` the scheduler's state with its two queues `c.q` (0 dd's, 1 the log's), `n` the
counts.
"""

from __future__ import annotations

from ..engine.codes import NEVER, NONE, SEC
from ..engine.jit import jit
from ..schedulers.bfq_tables import (
    DEFAULT_BUDGET,
    INJECTION_RENEWAL,
    MIN_IDLE_FOR_RAISING,
    RAISED_IDLE,
    RATE_BUSY_GAP,
    RATE_SHIFT,
    REFERENCE_RATE_FLASH,
    REFERENCE_RATE_ROTATIONAL,
    SMALL_NONROTATIONAL,
    SMALL_REQUEST,
    TIMELY_REQUESTS,
)
from .bfq_records import (
    begin_queue,
    check_waker,
    evaluate_rate,
    raise_weight,
    reset_limit,
    update_io_intensity,
    update_limit,
    update_rate,
    update_soft_start,
    update_think_time,
)
from .bfq_slots import (
    activate,
    begin_slot,
    better_to_idle,
    boosts,
    charge,
    choose,
    expire,
    fit_budget,
    leave_tree,
    update_raising,
    why_idle,
)
from .bfq_state import (
    BY_LIMIT,
    BY_WAKER,
    DATA,
    DIRECT,
    EXHAUSTED,
    FIRST_LOG,
    FIXED,
    LOADED,
    N_REASONS,
    NEW_LOG,
    NO_MORE,
    OLD_LOG,
    OPEN,
    PAGE,
    PASSES,
    PREEMPTED,
    PREEMPTS,
    SECTORS,
    TIMEOUT,
    TOO_IDLE,
    WAITED,
    WAITS,
    tick,
)


@jit
def arrive(p, c, i, nr, now):
    """A request of queue `i` enters BFQ."""
    if c.q[i].used == 0:
        begin_queue(p, c, i, now)
    b = c.q[i]
    a = c.in_service
    c.fate = WAITS if a == 1 - i and c.until != NEVER else OPEN
    if p.wk_direct != 0 and a == 1 - i and c.busy <= 1 and (c.q[a].waker == i or b.waker == a):
        c.direct = 1
        c.fate = DIRECT
        return
    if p.think_early != 0:
        update_think_time(p, c, i, now)
    check_waker(p, c, i, now)
    if p.injection == 2:
        if tick(p, c, now) >= b.decreased + INJECTION_RENEWAL:
            reset_limit(p, c, b, now)
        if i == a and tick(p, c, now) >= b.decreased + p.inject_pause:
            c.arrived_empty = now
            c.wait_dispatch = 1
            c.injected = 0
    if p.io_time != 0:
        update_io_intensity(b, now)
    b.nr = nr
    if b.busy == 0:
        become_busy(p, c, i, now)
    elif i != a:
        fit_budget(p, c, i)
    if p.think_early == 0:
        update_think_time(p, c, i, now)
    if i == c.in_service and b.wait != 0:
        late = tick(p, c, now) >= b.budget_timeout
        if not (nr < SMALL_REQUEST and not late and boosts(p, c, i)):
            b.wait = 0
            c.until = NEVER
            if late:
                expire(p, c, TIMEOUT, now)


@jit
def become_busy(p, c, i, now):
    """The queue may be raised, enters its tree, and may take the device (1.9, 1.13)."""
    b = c.q[i]
    jiffies = tick(p, c, now)
    may = p.raise_default_only == 0 or b.plain == 40
    interactive = may and b.dispatched == 0 and jiffies > b.budget_timeout + MIN_IDLE_FOR_RAISING
    soft = may and b.dispatched == 0 and jiffies > b.soft_next
    raised = p.low_latency != 0 and (b.coeff > 1 or interactive or soft)
    in_time = now <= b.last_end + 3 * p.slice_idle
    a = c.in_service
    whole = p.keep_empty != 0 and b.child == 0 and a != NONE and c.q[a].child != 0
    left = b.max_budget if whole else b.budget - b.service
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
    activate(p, c, i, b.residual != 0)
    b.residual = 0
    b.busy = 1
    c.busy += 1
    c.raised_busy += 1 if b.coeff > 1 else 0
    if c.in_service != NONE and preempts(p, c, i, wants):
        if c.fate == WAITS:
            c.fate = PREEMPTS
        expire(p, c, PREEMPTED, now)


@jit
def preempts(p, c, i, wants):
    """Does queue `i` take the device from the one in service (1.9)? Below one and the same group of the root the tree's
    root keeps its entity in service, and nobody does."""
    if p.apart == 0:
        return False
    b = c.q[i]
    a = c.q[c.in_service]
    if p.preempt_rule == 0:
        return wants and a.coeff < b.coeff
    if wants and b.coeff >= a.coeff:
        return True
    own = b.group_weight if b.child != 0 else b.weight
    other = a.group_weight if a.child != 0 else a.weight
    if own > other:
        return True
    return p.preempt_rule == 2 and not better_to_idle(p, c, c.in_service)


# ---------------------------------------------------------------------------------------------------------------------
# selection, injection, dispatch (1.10, 1.11, 2)


@jit
def select(p, c, now):
    """The queue to serve now, or NONE."""
    if c.in_service != NONE:
        b = c.q[c.in_service]
        if tick(p, c, now) >= b.budget_timeout:
            plenty = 3 * (b.budget - b.service) >= b.budget
            if (b.wait == 0 or plenty) and not (b.nr == 0 and better_to_idle(p, c, c.in_service)):
                expire(p, c, TIMEOUT, now)
    while True:
        if c.in_service == NONE:
            i = choose(c)
            if i == NONE:
                return NONE
            begin_slot(p, c, i, now)
        i = c.in_service
        b = c.q[i]
        if b.nr > 0:
            if b.nr <= b.budget - b.service:
                b.wait = 0
                c.until = NEVER
                return i
            expire(p, c, EXHAUSTED, now)
        elif c.until != NEVER or (b.dispatched > 0 and better_to_idle(p, c, i)):
            return meanwhile(p, c, i)
        else:
            expire(p, c, NO_MORE, now)


@jit
def meanwhile(p, c, i):
    """Queue `i` is waited for: may the other send its request into the pause? 5.0 and 5.1 inject into seeky queues only
    and 4.19 not at all, so that here nothing comes of either."""
    b = c.q[i]
    j = 1 - i
    o = c.q[j]
    if p.injection != 2 or o.busy == 0 or o.nr == 0 or o.nr > o.budget - o.service:
        return NONE
    if p.wk_select == 2 and b.waker == j:
        c.fate = BY_WAKER
        return j
    if p.wk_woken != 0 and o.waker == i:
        c.fate = BY_WAKER
        return j
    if boosts(p, c, i) or not (b.coeff == 1 or c.raised_busy > 1 or b.short == 0):
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
def dispatch(p, c, i, now):
    """Try to send the pending request of queue `i` at a run of kblockd. Has it gone?"""
    b = c.q[i]
    if c.direct == 0:
        if c.busy == 0 or select(p, c, now) == NONE:
            return False
        nr = b.nr
        b.nr = 0
        charge(p, c, i, nr)
        near = c.last_task == i or c.last_task == NONE or (p.rotational == 0 and nr >= SMALL_NONROTATIONAL)
        update_rate(p, c, near, nr, now)
        c.last_task = i
    b.dispatched = 1
    c.in_driver = 1
    if c.direct == 0:
        if i != c.in_service:
            leave_tree(p, c, i)
            b.budget_timeout = tick(p, c, now)
        else:
            if c.wait_dispatch != 0:
                c.wait_dispatch = 0
                c.waited = 1
            update_raising(p, c, i, now)
    c.direct = 0
    poll(p, c, now)
    return True


@jit
def poll(p, c, now):
    """Before 6.1 blk-mq asks once more, and the queue in service may end its slot right then."""
    if p.polled != 0 and c.busy > 0 and not (p.strict != 0 and c.in_driver > 0):
        select(p, c, now)


# ---------------------------------------------------------------------------------------------------------------------
# completion, timer (1.10)


@jit
def completed(p, c, i, now):
    """The request is back; wait for the next of its queue, or end the slot."""
    b = c.q[i]
    if c.waited != 0 and i == c.in_service:
        update_limit(p, c, b, now)
    c.in_driver = 0
    b.dispatched = 0
    if b.busy == 0:
        b.budget_timeout = tick(p, c, now)
    b.last_end = now
    gap = now - c.last_completion
    if c.rate_samples > 0 and gap > RATE_BUSY_GAP and (c.rate_biggest << RATE_SHIFT) // (gap // 1000) < 64:
        evaluate_rate(p, c, now)
    c.last_completion = now
    c.last_completed = i
    if b.soft_update != 0:
        update_soft_start(p, b, tick(p, c, now))
        b.soft_update = 0
    if i != c.in_service:
        return
    why = why_idle(p, c, i)
    if why != NONE:
        c.why = why
        b.wait = 1
        raised = b.coeff > 1 and p.raised_idle != 0
        c.last_idling_start = now
        c.until = now + (max(p.slice_idle, RAISED_IDLE) if raised else p.slice_idle)
    elif tick(p, c, now) >= b.budget_timeout:
        expire(p, c, TIMEOUT, now)
    else:
        expire(p, c, NO_MORE, now)


@jit
def pass_time(p, c, to):
    """Time passes; the idle timer may run out, and then kblockd looks once more."""
    at = c.until
    if at > to:
        return
    fire(p, c)
    if at + p.wakeup <= to:
        poll(p, c, at + p.wakeup)


@jit
def fire(p, c):
    """The idle timer runs out."""
    now = c.until
    c.until = NEVER
    if c.in_service == NONE:
        return
    b = c.q[c.in_service]
    b.wait = 0
    if tick(p, c, now) >= b.budget_timeout:
        expire(p, c, TIMEOUT, now)
    elif b.nr == 0:
        expire(p, c, TOO_IDLE, now)


# ---------------------------------------------------------------------------------------------------------------------
# turns and operations


@jit
def turn(p, c, n, i, nr, service, now):
    """One request of queue `i` from its arrival to its completion; returns when that is. `n` are the counts."""
    if c.until <= now:
        fire(p, c)
    arrive(p, c, i, nr, now)
    why = c.why
    run = now + p.wakeup
    if c.until <= run:
        fire(p, c)
    gone = dispatch(p, c, i, run)
    held = False
    while not gone:
        at = c.until
        if at == NEVER:
            return NEVER
        fire(p, c)
        held = True
        run = at + p.wakeup
        gone = dispatch(p, c, i, run)
    if held:
        c.fate = WAITS
        n[1 - i, WAITED] += run - p.wakeup - now
        n[1 - i, why] += 1
    elif c.fate == WAITS:
        c.fate = OPEN
    n[1 - i, N_REASONS + c.fate] += 1
    end = run + service
    if c.until <= end:
        pass_time(p, c, end)
    completed(p, c, i, end)
    return end


@jit
def sectors(p, c, step):
    """Sectors of a step of the running operation: pages that dd touches, blocks of the transaction, or a page."""
    if step.kind == FIXED:
        return step.nr
    if step.kind == LOADED:
        return c.data if step.task == 0 else c.log
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
def walk(p, c, n, steps, first, last, now):
    """The steps of an operation, from `now` on; returns its end."""
    for k in range(first, last):
        step = steps[k]
        now += step.host
        if step.kind == PASSES:
            if step.runs > 0:
                if c.until <= now + p.wakeup:
                    fire(p, c)
                poll(p, c, now + p.wakeup)
            now += step.service + step.runs * p.wakeup
            if c.until <= now:
                pass_time(p, c, now)
        else:
            nr = sectors(p, c, step)
            whole = before_wrap(p, c, step, nr)
            now = turn(p, c, n, step.task, whole, step.service, now)
            if whole < nr and c.fate == BY_LIMIT and c.q[1 - step.task].limit < 2:
                now = turn(p, c, n, step.task, nr - whole, step.service, now)
    return now


@jit
def before_wrap(p, c, step, nr):
    """Sectors of a request. A log write that crosses the end of the log is two, which the device takes at once unless
    the injection limit lets only one in; once in thousands of writes, but BFQ's state may turn on it."""
    if step.task == 0:
        return nr
    whole = min(nr, (p.log_size - c.head) // SECTORS * SECTORS)
    c.head = c.head + nr if whole == nr else nr - whole
    return whole if whole > 0 else nr


@jit
def begin(p, c, n, steps):
    """BFQ as it was selected, perhaps a commit at the mount and a pause, then what creating dd's file reads."""
    c.until = NEVER
    c.in_service = c.last_completed = c.last_task = c.serving = NONE
    c.last_completion = -SEC
    c.max_budget = DEFAULT_BUDGET
    c.rate = 2 * (REFERENCE_RATE_ROTATIONAL if p.rotational != 0 else REFERENCE_RATE_FLASH) // 3
    now = 0
    if p.mount > 0:
        now = walk(p, c, n, steps, 0, p.mount, 0) + p.wakeup
        while c.until != NEVER:
            now = max(now, c.until + p.wakeup)
            pass_time(p, c, now)
        now += p.quiet
    return now + p.start
