"""Injection: requests of other queues while the queue in service is waited for (spec bfq 1.10 and 1.11).

5.0 and 5.1 measure it in sectors and inject into seeky queues of queueing flash only; since 5.2 each queue has a limit
of requests in the device, learnt from how much the injected ones slow its own.
"""

from ..engine.codes import MSEC, NONE
from ..engine.jit import jit
from .bfq_estimators import jiffies, seeky
from .bfq_tables import SMALL_NONROTATIONAL
from .bfq_wf2q import active_node


@jit
def charge_of(s, d, q, r, symmetric):
    """Sectors that a request costs: async ones three times theirs, since 5.1 only where the scenario is symmetric."""
    if q.sync != 0 or q.coeff > 1 or (s.bfq[d].async_fair != 0 and not symmetric):
        return r.nr
    return 3 * r.nr


@jit
def budget_left(s, i):
    """What is left of the queue's slot, in sectors."""
    e = s.bfq_entities[i]
    return e.budget - e.service


@jit
def has_fitting_request(s, i):
    """Is the queue busy with a request that fits into its own budget?"""
    q = s.bfq_queues[i]
    if q.busy == 0 or q.next_rq == NONE:
        return False
    nr = s.requests[q.next_rq].nr
    return (nr if q.sync != 0 or q.coeff > 1 else 3 * nr) <= budget_left(s, i)


@jit
def reset_limit(s, d, q):
    """Start to learn again (1.11): nothing is injected into a queue that soon comes back, one request into another."""
    q.last_serv = 0
    q.inject_limit = 0 if q.short_think != 0 else 1
    q.decreased_at = jiffies(s, d)


@jit
def think_time_flipped(s, d, q):
    """Since 5.3 the limit is reset when the think time changes sides, while there is no baseline yet (1.11)."""
    c = s.bfq[d]
    if c.flip_resets != 0 and q.last_serv == 0:
        if q.short_think == 0 or jiffies(s, d) >= q.decreased_at + 100 * MSEC:
            reset_limit(s, d, q)


@jit
def arm_measurement(s, d, i):
    """A request of the empty queue in service is to be timed, if nothing or something injected is in the way (1.11)."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    loaded = q.last_serv > 0 and c.injected != 0 and c.in_driver > 0
    if i != c.in_service or not (c.in_driver == 0 or loaded) or jiffies(s, d) < q.decreased_at + c.inject_pause:
        return
    c.arrived_empty = s.sim[0].now
    c.wait_dispatch = 1
    if c.late_inject == 0 or c.in_driver == 0:
        c.injected = 0


@jit
def update_limit(s, d, i):
    """The timed request is done: adapt the limit and the baseline (1.11). Called before the completion is counted.

    Since 5.4 a shorter time lowers the baseline only, and a limit that went down to nothing stays there until it is
    learnt anew; so the random readers on 6.1's disks say, whose times vary.
    """
    c = s.bfq[d]
    q = s.bfq_queues[i]
    took = s.sim[0].now - c.arrived_empty
    before = q.inject_limit
    if q.last_serv > 0 and (c.late_inject == 0 or c.injected != 0):
        if 2 * took >= 3 * q.last_serv:
            if before > 0:
                q.inject_limit -= 1
                q.decreased_at = jiffies(s, d)
        elif before <= c.max_in_driver if c.late_inject != 0 else before < 2 * c.max_in_driver:
            q.inject_limit += 1
    if (q.last_serv == 0 and c.in_driver == c.base_in_driver) or took < q.last_serv:
        if c.late_inject == 0 or q.last_serv == 0:
            q.inject_limit = max(1, q.inject_limit)
        q.last_serv = took
    elif c.update_base != 0 and c.injected == 0 and c.in_driver == 1:
        q.last_serv = took
    c.waited_rq = NONE
    c.injected = 0


@jit
def choose_by_limit(s, d, i):
    """A queue to serve meanwhile, or NONE (1.11): the one that was inserted last comes first."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    limit = q.inject_limit
    if c.in_driver >= limit:
        return NONE
    n = s.lists[c.active].head
    while n != NONE:
        j = n - active_node(s, 0)
        o = s.bfq_queues[j]
        if j != i and has_fitting_request(s, j) and (q.coeff == 1 or q.short_think == 0 or o.coeff > 1):
            large = s.requests[o.next_rq].nr >= SMALL_NONROTATIONAL
            allowed = min(1, limit) if s.devices[d].rotational == 0 and large else limit
            if c.in_driver < allowed:
                c.injected = 1
                return j
        n = s.nodes[n].next
    return NONE


@jit
def choose_by_share(s, d, i):
    """5.0 and 5.1: into seeky queues of a queueing flash device, up to ten times their own service (1.10)."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    if not seeky(q) or q.coeff > 1 or c.ncq_flash == 0 or q.injected_service >= 10 * s.bfq_entities[i].service:
        return NONE
    n = s.lists[c.active].head
    while n != NONE:
        j = n - active_node(s, 0)
        if j != i and has_fitting_request(s, j):
            q.injected_service += s.requests[s.bfq_queues[j].next_rq].nr
            return j
        n = s.nodes[n].next
    return NONE
