"""All operations of a run, and all points of a grid, without walking through each cycle where cycles repeat."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ..engine.codes import MSEC, NEVER, NONE
from ..engine.jit import entry, jit
from ..schedulers.bfq_tables import (
    INJECTION_RENEWAL,
    MAX_RAISED_SERVICE,
    RAISE_SOFT_RT,
    SOFT_RT_PERIOD,
    TIMELY_REQUESTS,
)
from .bfq_state import (
    BLOCK,
    HASH,
    SECTORS,
    SETTLED,
    WAITED,
)
from .bfq_turns import (
    begin,
    turn,
    walk,
)


@partial(entry, sources=sorted(Path(__file__).parent.glob("bfq_*.py")))
def run_points(points, steps, state, queues, old, counts, scratch):
    """Every point of a grid: `counts` is its answer, the other tables its scratch paper."""
    for k in range(len(points)):
        run_point(points[k], state[k], queues[k], old[k], counts[k], scratch[0], scratch[1], steps[k])


@jit
def run_point(p, c, q, old, n, last, early, steps):
    """Count what happens in all operations of one point. Where cycles repeat, leap (if `p.leaps`) to the next deadline;
    when `p.most` cycles are walked, the rest is like those since a quarter of them."""
    now = begin(p, c, q, n, steps)
    for k in range(2):
        for column in range(WAITED + 1):
            n[k, column] = 0
    for _ in range(p.reads):
        now = turn(p, c, q, n, 0, SECTORS, p.read_ns, now) + p.wakeup
    done = same = length = marks = walked = since = 0
    early_done = -1
    while done < p.count and walked < p.most:
        if early_done < 0 and walked >= p.most // 4:
            copy(n, early)
            early_done = done
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
                repeat(n, last, leap / same)
                done += leap * BLOCK
                same = 0
    if done < p.count:
        repeat(n, early, (p.count - done) / (done - early_done))
    walk(p, c, q, n, steps, p.loop, p.tail, now)


@jit
def copy(n, to):
    """Remember the counts."""
    for k in range(2):
        for column in range(WAITED + 1):
            to[k, column] = n[k, column]


@jit
def repeat(n, then, times):
    """Count so many times more what was counted since `then`."""
    for k in range(2):
        for column in range(WAITED + 1):
            n[k, column] += int(times * (n[k, column] - then[k, column]))


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
    """How many more blocks like the last `same` ones there are before a deadline or a count changes something; 0 or
    less: none."""
    ahead = NEVER // length
    slot = c.last_budget_start < since
    if c.in_service != NONE and not slot and c.last_budget_start < now - length:
        return 0
    for k in range(2):
        a = old[k]
        b = q[k]
        if abs(b.mean_think - a.mean_think) >= b.margin or b.max_budget != a.max_budget:
            return 0
        if 8 * abs(b.last_serv - a.last_serv) > b.last_serv:
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
