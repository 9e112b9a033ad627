"""Whether, and for how long, the device is kept idle for the queue in service (spec bfq 1.11 and section 9)."""

from ..engine.account import idle_begin
from ..engine.clock import arm
from ..engine.codes import IDLE_RAISED, IDLE_SEEKY, IDLE_SLICE, NONE, T_DONE, T_IDLE
from ..engine.jit import jit
from .bfq_estimators import seeky
from .bfq_tables import IDLE, RAISED_IDLE, SHORT_IDLE
from .bfq_wf2q import active_node


@jit
def is_active(q):
    """Busy, or with requests in flight."""
    return q.busy != 0 or q.dispatched > 0


@jit
def weights_differ(s, d, i):
    """Is there more than one weight among the active queues that are not raised, this not being the lightest (1.11)?"""
    c = s.bfq[d]
    own = s.bfq_entities[i].weight
    lightest = 0
    heaviest = 0
    n = s.lists[c.active].head
    while n != NONE:
        j = n - active_node(s, 0)
        e = s.bfq_entities[j]
        if e.weight == e.base_weight:
            if lightest == 0 or e.weight < lightest:
                lightest = e.weight
            heaviest = max(heaviest, e.weight)
        n = s.nodes[n].next
    if lightest == heaviest:
        return False
    return c.lightest_exempt == 0 or own != lightest


@jit
def group_is_pending(s, d, g):
    """Has the group, or one below it, a queue that is busy or has requests in flight?"""
    n = s.lists[s.bfq[d].active].head
    while n != NONE:
        at = s.bfq_queues[n - active_node(s, 0)].group
        while at != NONE:
            if at == g:
                return True
            at = s.bfq_groups[at].parent
        n = s.nodes[n].next
    return False


@jit
def group_owns_pending(s, d, g):
    """Has the group itself a queue that is busy or has requests in flight?"""
    n = s.lists[s.bfq[d].active].head
    while n != NONE:
        if s.bfq_queues[n - active_node(s, 0)].group == g:
            return True
        n = s.nodes[n].next
    return False


@jit
def groups_asymmetric(s, d):
    """The groups' part of "asymmetric" (1.11): 4.19 compares their weights, 5.0 to 6.1 one non-root group suffices,
    since 6.2 two groups must have requests, the root counted."""
    c = s.bfq[d]
    first = c.root + 1
    last = c.root + s.sim[0].n_groups
    if c.groups_rule == 1:
        n = s.lists[c.active].head
        while n != NONE:
            if s.bfq_queues[n - active_node(s, 0)].group != c.root:
                return True
            n = s.nodes[n].next
        return False
    if c.groups_rule == 2:
        count = 0
        for g in range(c.root, last):
            if group_owns_pending(s, d, g):
                count += 1
        return count >= 2
    weight = 0
    for g in range(first, last):
        if group_is_pending(s, d, g):
            other = s.bfq_entities[s.sim[0].n_bfq_queues + g].weight
            if weight != 0 and other != weight:
                return True
            weight = other
    return False


@jit
def asymmetric(s, d, i):
    """Must bandwidth be shared unequally, so that a queue loses its share when it is not waited for (1.11)?"""
    c = s.bfq[d]
    if weights_differ(s, d, i) or groups_asymmetric(s, d):
        return True
    classes = (1 if c.busy_be > 0 else 0) + (1 if c.busy_rt > 0 else 0) + (1 if c.busy_idle > 0 else 0)
    return c.classes_matter != 0 and classes > 1


@jit
def boosts_throughput(s, d, i):
    """Does waiting for this queue raise throughput (1.11)? It does where the device cannot queue or has a head to move,
    and the queue comes back soon with requests nearby."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    rotational = s.devices[d].rotational != 0
    if rotational and c.hw_tag == 0:
        return c.raised_busy == 0
    sequential = not seeky(q) and q.io_bound != 0 and q.short_think != 0
    return (rotational or c.hw_tag == 0) and sequential and c.raised_busy == 0


@jit
def guarantees_service(s, d, i):
    """Is waiting needed to give this queue what it is promised (1.11)?"""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    needed = asymmetric(s, d, i)
    if q.coeff > 1:
        if c.raised_rule == 0 or c.raised_busy < c.busy:
            needed = True
        elif c.raised_rule == 2 and c.in_driver >= q.dispatched + 4:
            needed = True
    if c.burst_no_plug != 0 and q.in_large_burst != 0:
        needed = False
    return needed or (c.only_busy_idles != 0 and c.busy == 1)


@jit
def better_to_idle(s, d, i):
    """The decision (1.11)."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    if c.refs_matter != 0 and (q.refs == 0 or s.tasks[q.task].state == T_DONE):
        return False
    if c.strict != 0:
        return True
    if c.slice_idle == 0 or q.sync == 0 or q.ioclass == IDLE:
        return False
    return boosts_throughput(s, d, i) or guarantees_service(s, d, i)


@jit
def must_idle(s, d, i):
    """Empty, and worth waiting for."""
    return s.bfq_queues[i].next_rq == NONE and better_to_idle(s, d, i)


@jit
def arm_timer(s, d, i):
    """Wait for the next request of the queue in service: slice_idle, 2 ms if it seeks, 20 ms if it is raised (1.10)."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    length = c.slice_idle
    reason = IDLE_SLICE
    if seeky(q) and q.coeff == 1 and not asymmetric(s, d, i):
        length = min(length, SHORT_IDLE)
        reason = IDLE_SEEKY
    elif q.coeff > 1 and c.raised_idle != 0:
        length = max(length, RAISED_IDLE)
        reason = IDLE_RAISED
    q.wait_request = 1
    now = s.sim[0].now
    c.last_idling_start = now
    idle_begin(s, d, q.task, reason, now + length)
    arm(s, d, T_IDLE, now + length)
