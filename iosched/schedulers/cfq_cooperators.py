"""Queues of CFQ that read side by side: found where the head is, and merged (spec block-layer 1.15)."""

from ..engine.codes import NONE
from ..engine.jit import jit
from .cfq_state import CLOSE_THRESHOLD, IDLE, RT, seeky


@jit
def close_cooperator(s, d, i):
    """Another queue of the group whose next request is where the head is, or NONE (1.15)."""
    c = s.cfq[d]
    a = s.cfq_queues[i]
    if a.ioclass == IDLE or a.sync == 0 or s.cfq_groups[a.group].nr_queues == 1 or seeky(a):
        return NONE
    best = NONE
    best_distance = CLOSE_THRESHOLD + 1
    for j in range(s.sim[0].n_cfq_queues):
        q = s.cfq_queues[j]
        if j == i or q.used == 0 or q.on_rr == 0 or q.dev != d or q.next_rq == NONE or q.ioprio != a.ioprio:
            continue
        if q.ioclass == IDLE:
            continue
        distance = abs(s.requests[q.next_rq].sector - c.last_position)
        if distance < best_distance:
            best = j
            best_distance = distance
    if best == NONE:
        return NONE
    q = s.cfq_queues[best]
    if q.group != a.group or q.sync == 0 or seeky(q) or (q.ioclass == RT) != (a.ioclass == RT):
        return NONE
    return best


@jit
def setup_merge(s, i, j):
    """Redirect the queue with fewer processes to the other; it takes effect at their next request (1.15)."""
    target = j
    while s.cfq_queues[target].merge_into != NONE:
        if s.cfq_queues[target].merge_into == i:
            return
        target = s.cfq_queues[target].merge_into
    a = s.cfq_queues[i]
    b = s.cfq_queues[target]
    if a.refs == 0 or b.refs == 0 or target == i:
        return
    if b.refs >= a.refs:
        a.merge_into = target
    else:
        b.merge_into = i
