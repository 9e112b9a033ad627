"""Which queue a request belongs to: one sync queue a process, shared async queues, and the queues that cooperating
processes share (early queue merge, stable merge, split; spec bfq 1.1 and 1.12)."""

from ..engine.codes import NONE
from ..engine.jit import jit
from ..engine.requests import is_sync
from .bfq_estimators import device_budget, jiffies, seeky
from .bfq_idling import boosts_throughput, is_active
from .bfq_lowlatency import set_coefficient
from .bfq_tables import (
    ASYNC_SLOTS,
    CLOSE_THRESHOLD,
    IDLE,
    LONG_AGO,
    MERGE_WINDOW,
    STABLE_MERGE_RENEWAL,
    STABLE_MERGE_WINDOW,
    TREES,
)
from .bfq_wakers import set_waker
from .bfq_wf2q import active_node


@jit
def new_queue(s, d, i, g, task, sync, ioprio, ioclass):
    """Initialise queue record `i` (1.1)."""
    q = s.bfq_queues[i]
    now = s.sim[0].now
    tick = jiffies(s, d)
    q.used = 1
    q.dev = d
    q.group = g
    q.task = task
    q.sync = sync
    q.ioprio = ioprio
    q.ioclass = ioclass
    q.next_rq = NONE
    q.last_pos = 0
    q.seek_history = 1
    q.io_bound = sync
    q.timely = 0
    q.io_start = now
    q.tot_idle = 0
    q.short_think = 1 if sync != 0 and ioclass != IDLE else 0
    q.samples = 0
    q.total_think = 0
    q.mean_think = 0
    q.last_end = now
    q.inject_limit = 0
    q.last_serv = 0
    q.decreased_at = LONG_AGO
    q.waker = NONE
    q.tentative = NONE
    q.detections = 0
    q.refs = 0
    q.coop = 0
    q.split_coop = 0
    q.merge_into = NONE
    q.stable = 0
    q.candidate = NONE
    q.created = tick
    q.fresh = sync
    q.burst = NONE
    q.in_large_burst = 0
    q.split_at = LONG_AGO
    q.budget_timeout = LONG_AGO
    q.coeff = 1
    q.raised_at = LONG_AGO
    q.raised_for = 0
    q.raised_before = LONG_AGO
    q.soft_next = LONG_AGO
    q.soft_update = 0
    q.idle_backlogged = tick
    q.service_backlogged = 0
    q.first_io = 0
    q.max_budget = 2 * device_budget(s.bfq[d]) // 3
    e = s.bfq_entities[i]
    e.group = g
    e.tree = g * TREES + ioclass
    e.base_weight = (8 - ioprio) * 10
    e.weight = e.base_weight
    e.coeff = 1
    e.budget = q.max_budget
    e.service = 0


@jit
def first_queue(s, d):
    """First queue record of device `d`: one sync record a task, then as many async ones."""
    return d * 2 * s.sim[0].n_tasks


@jit
def async_queue(s, d, task):
    """The async queue of the task's cgroup, class and priority."""
    t = s.tasks[task]
    g = s.bfq[d].root + t.group
    slot = s.bfq_async[g * ASYNC_SLOTS + (16 if t.ioclass == IDLE else t.ioclass * 8 + t.ioprio)]
    if slot.queue == NONE:
        i = first_queue(s, d) + s.sim[0].n_tasks
        while s.bfq_queues[i].used != 0:
            i += 1
        new_queue(s, d, i, g, task, 0, t.ioprio, t.ioclass)
        slot.queue = i
    return slot.queue


@jit
def queue_for(s, d, task, op, flags):
    """The queue that a request of this task goes to, after a split where one is due."""
    if not is_sync(op, flags):
        return async_queue(s, d, task)
    context = s.bfq_contexts[d * s.sim[0].n_tasks + task]
    if context.queue == NONE:
        t = s.tasks[task]
        i = first_queue(s, d) + task
        new_queue(s, d, i, s.bfq[d].root + t.group, task, 1, t.ioprio, t.ioclass)
        s.bfq_queues[i].refs = 1
        context.queue = i
        context.home = i
        stable_merge(s, d, task)
    elif s.bfq_queues[context.queue].split_coop != 0:
        split(s, d, task)
    return context.queue


@jit
def split(s, d, task):
    """Give the process its own queue back, with the state that it had before it shared one."""
    context = s.bfq_contexts[d * s.sim[0].n_tasks + task]
    shared = context.queue
    q = s.bfq_queues[shared]
    if q.refs == 1:
        q.coop = 0
        q.split_coop = 0
        q.task = task
        q.split_at = jiffies(s, d)
        exchange_home(s, d, task, shared)
        return
    if context.home == shared:
        spare = spare_home(s, d)
        if spare == NONE:
            return
        t = s.tasks[task]
        exchange_home(s, d, task, spare)
        new_queue(s, d, spare, q.group, task, 1, t.ioprio, t.ioclass)
    q.refs -= 1
    own = s.bfq_queues[context.home]
    own.refs = 1
    own.merge_into = NONE
    own.split_at = jiffies(s, d)
    context.queue = context.home


@jit
def spare_home(s, d):
    """A sync queue record that no process uses and that holds no request, or NONE."""
    first = first_queue(s, d)
    for i in range(first, first + s.sim[0].n_tasks):
        q = s.bfq_queues[i]
        if q.used != 0 and q.refs == 0 and not is_active(q):
            return i
    return NONE


@jit
def exchange_home(s, d, task, i):
    """Record `i` is the task's own from now on; who had it gets the task's."""
    first = d * s.sim[0].n_tasks
    context = s.bfq_contexts[first + task]
    for other in range(s.sim[0].n_tasks):
        o = s.bfq_contexts[first + other]
        if o.home == i:
            o.home = context.home
    context.home = i


@jit
def too_late_to_merge(s, d, q):
    """More than a tenth of a second after its first service since it became busy (1.12)?"""
    return q.service_backlogged > 0 and jiffies(s, d) > q.first_io + MERGE_WINDOW


@jit
def may_share(s, d, i, j):
    """Could these two queues be one (1.12)?"""
    a = s.bfq_queues[i]
    b = s.bfq_queues[j]
    if a.sync == 0 or b.sync == 0 or a.group != b.group or too_late_to_merge(s, d, b):
        return False
    if a.ioclass == IDLE or a.ioclass != b.ioclass or seeky(a) or seeky(b):
        return False
    return b.refs > 0 and a.refs > 0


@jit
def close_queue(s, d, i, ri):
    """A queue that works where this new request goes, or NONE (1.12)."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    sector = s.requests[ri].sector
    if (c.eqm_flash_off != 0 and c.ncq_flash != 0) or q.sync == 0 or c.busy <= 1 or too_late_to_merge(s, d, q):
        return NONE
    at = c.in_serv_last_pos if c.eqm_in_service != 0 else c.last_position
    if c.in_service != NONE and c.in_service != i and abs(sector - at) <= CLOSE_THRESHOLD:
        if may_share(s, d, i, c.in_service):
            return c.in_service
    best = NONE
    nearest = CLOSE_THRESHOLD + 1
    n = s.lists[c.active].head
    while n != NONE:
        j = n - active_node(s, 0)
        o = s.bfq_queues[j]
        if j != i and o.next_rq != NONE and o.group == q.group:
            distance = abs(s.requests[o.next_rq].sector - sector)
            if distance < nearest:
                nearest = distance
                best = j
        n = s.nodes[n].next
    return best if best != NONE and may_share(s, d, i, best) else NONE


@jit
def merge_queues(s, d, task, i, j):
    """The process of queue `i` shares queue `j` from now on; requests that queue `i` still has are served from it."""
    q = s.bfq_queues[i]
    target = s.bfq_queues[j]
    target.coop = 1
    if q.io_bound != 0:
        target.io_bound = 1
    if q.coeff > 1 and target.coeff == 1:
        target.raised_for = q.raised_for
        target.raised_at = q.raised_at
        target.raised_before = q.raised_before
        set_coefficient(s, d, j, q.coeff)
    if s.bfq[d].wk_unshared != 0 and target.waker == NONE and q.waker != NONE and q.waker != j:
        set_waker(s, j, q.waker)
    context = s.bfq_contexts[d * s.sim[0].n_tasks + task]
    context.queue = j
    q.refs -= 1
    target.refs += 1
    q.merge_into = j


@jit
def stable_merge(s, d, task):
    """Since 5.13: a sync queue created right behind another of its group and priority joins it for good, on queueing
    flash at once, elsewhere later (1.12)."""
    c = s.bfq[d]
    context = s.bfq_contexts[d * s.sim[0].n_tasks + task]
    i = context.queue
    q = s.bfq_queues[i]
    if c.stable_merge == 0 or q.ioclass == IDLE:
        return
    group = s.bfq_groups[q.group]
    last = group.last_created
    now = jiffies(s, d)
    renew = last == NONE or now > group.last_created_at + STABLE_MERGE_RENEWAL
    if not renew:
        o = s.bfq_queues[last]
        renew = o.ioprio != q.ioprio or o.ioclass != q.ioclass or o.refs == 0
        if not renew and now <= group.last_created_at + STABLE_MERGE_WINDOW:
            if c.ncq_flash != 0:
                s.bfq_queues[last].stable = 1
                merge_queues(s, d, task, i, last)
            else:
                q.candidate = last
            return
    if renew:
        group.last_created = i
        group.last_created_at = now


@jit
def late_stable_merge(s, d, i):
    """The queue to join for good now, or NONE: 0.6 s after its creation, if waiting for it brings nothing (1.12)."""
    q = s.bfq_queues[i]
    j = q.candidate
    if j == NONE or jiffies(s, d) < q.created + STABLE_MERGE_RENEWAL:
        return NONE
    q.candidate = NONE
    if q.refs == 0 or s.bfq_queues[j].refs == 0 or q.coop != 0 or boosts_throughput(s, d, i):
        return NONE
    s.bfq_queues[j].stable = 1
    return j
