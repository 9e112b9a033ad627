"""BFQ, Linux 4.19 to 6.12: budgets, B-WF2Q+, idling, injection, wakers and low_latency, version by version.

Source of every rule: spec bfq-and-controllers section 1, whose paragraph is named at each function; where the kernel's
own rows (`data/kernel/`) say otherwise, they win and the function says so. This file follows a request: insertion, the
idle-to-busy switch, selection, dispatch, completion, the timer. The ideas it uses have their own files: `bfq_wf2q`
(who is next), `bfq_service` (slots and budgets), `bfq_idling`, `bfq_injection`, `bfq_wakers`, `bfq_lowlatency`,
`bfq_queues` (which queue a request belongs to), `bfq_estimators`, `bfq_tunables`, and `bfq_versions` (what
differs between kernels).
"""

from __future__ import annotations

from ..engine.account import idle_end
from ..engine.clock import armed, cancel
from ..engine.codes import (
    END_ARRIVAL,
    END_FIRED,
    END_PREEMPTED,
    F_META,
    NONE,
    T_IDLE,
    TR_PREEMPT,
    WRITE,
)
from ..engine.jit import jit
from ..engine.lists import insert_sorted, pop_front, push_back, remove
from ..engine.requests import is_sync
from ..engine.trace import record
from .bfq_estimators import (
    arrived_in_time,
    check_rate_at_completion,
    count_timely,
    has_think_time,
    jiffies,
    sample_think_time,
    thinks_short,
    update_hw_tag,
    update_io_intensity,
    update_peak_rate,
    update_seek_history,
)
from .bfq_idling import arm_timer, better_to_idle, boosts_throughput, must_idle
from .bfq_injection import (
    arm_measurement,
    budget_left,
    choose_by_limit,
    choose_by_share,
    has_fitting_request,
    reset_limit,
    think_time_flipped,
    update_limit,
)
from .bfq_lowlatency import (
    follow_burst,
    is_interactive,
    is_soft_rt,
    raise_async,
    raise_on_arrival,
    recently_split,
    update_raising,
    update_soft_rt_start,
)
from .bfq_queues import close_queue, late_stable_merge, merge_queues, queue_for
from .bfq_service import (
    add_busy,
    begin_slot,
    del_busy,
    enter_active,
    expire,
    fit_budget,
    leave_active,
    may_time_out,
    next_charge,
    serve,
    timed_out,
)
from .bfq_tables import (
    ASYNC_SLOTS,
    BUDGET_EXHAUSTED,
    BUDGET_TIMEOUT,
    IDLE,
    INJECTION_RENEWAL,
    NO_MORE_REQUESTS,
    PREEMPTED,
    RT,
    SMALL_REQUEST,
    TOO_IDLE,
)
from .bfq_wakers import check_waker, serve_waker, serve_woken
from .bfq_wf2q import choose_next, next_entity
from .nearest import better_request

# ---------------------------------------------------------------------------------------------------------------------
# insertion (1.8)


@jit
def merge_list(s, d, task, op, flags):
    """Sorted list in which a new bio may find a request to join: that of its own queue."""
    return s.bfq_queues[queue_for(s, d, task, op, flags)].sorted


@jit
def insert(s, ri):
    """A request enters BFQ (1.8). The caller runs the queue afterwards."""
    r = s.requests[ri]
    d = r.dev
    c = s.bfq[d]
    i = queue_for(s, d, r.task, r.op, r.cmd_flags)
    shared = late_stable_merge(s, d, i)
    if shared == NONE:
        shared = close_queue(s, d, i, ri)
    if shared != NONE:
        merge_queues(s, d, r.task, i, shared)
        i = shared
    q = s.bfq_queues[i]
    r.queue = i
    q.allocated += 1
    if goes_direct(s, d, i):
        push_back(s, c.dispatch_list, 2 * ri)
        return
    if c.think_early != 0:
        update_process(s, d, i, ri)
    add_request(s, d, i, ri)
    if c.think_early == 0:
        update_process(s, d, i, ri)
    q.last_pos = r.sector + r.nr
    if i == c.in_service and q.wait_request != 0:
        end_wait(s, d, i, ri)


@jit
def goes_direct(s, d, i):
    """5.13 to 5.16: while waker and woken are alone, their requests skip the queues (2.1)."""
    c = s.bfq[d]
    a = c.in_service
    if c.wk_direct == 0 or a == NONE or a == i or c.busy > 1:
        return False
    return s.bfq_queues[a].waker == i or s.bfq_queues[i].waker == a


@jit
def update_process(s, d, i, ri):
    """Think time and seekiness of whoever sent the request; before 5.3 after it was queued, since then before."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    r = s.requests[ri]
    if q.sync != 0:
        sample_think_time(s, c, q)
    if has_think_time(q) and not recently_split(s, d, q):
        short = 1 if thinks_short(s, c, q, r.task) else 0
        if short != q.short_think:
            q.short_think = short
            if c.injection == 2:
                think_time_flipped(s, d, q)
    update_seek_history(s, d, q, r)


@jit
def add_request(s, d, i, ri):
    """Into the queue's lists, and the queue into its tree if it was idle."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    r = s.requests[ri]
    if is_sync(r.op, r.cmd_flags):
        first = q.allocated <= 1 if c.wk_arrival == 2 else q.queued == 0
        if first:
            check_waker(s, d, i)
            if c.injection == 2:
                if jiffies(s, d) >= q.decreased_at + INJECTION_RENEWAL:
                    reset_limit(s, d, q)
                arm_measurement(s, d, i)
        if c.io_time != 0:
            update_io_intensity(s, q)
    insert_sorted(s, q.sorted, 2 * ri, r.sector)
    r.fifo_time = s.sim[0].now + (c.fifo_sync if is_sync(r.op, r.cmd_flags) else c.fifo_async)
    push_back(s, q.fifo, 2 * ri + 1)
    q.queued += 1
    c.queued += 1
    before = q.next_rq
    q.next_rq = ri if before == NONE else better_request(s, c, before, ri, c.last_position, F_META)
    if q.busy == 0:
        become_busy(s, d, i, ri)
        return
    if c.low_latency != 0 and not is_sync(r.op, r.cmd_flags):
        raise_async(s, d, i)
    if q.next_rq != before:
        fit_budget(s, i)


@jit
def end_wait(s, d, i, ri):
    """The request that BFQ waited for is here (1.8 step 11). A single small one leaves the timer running where idling
    boosts throughput, in case another joins it; the next dispatch takes it all the same."""
    q = s.bfq_queues[i]
    idle_end(s, d, END_ARRIVAL)
    late = timed_out(s, d, q)
    small = q.queued == 1 and s.requests[ri].nr < SMALL_REQUEST
    if small and not late and boosts_throughput(s, d, i):
        return
    q.wait_request = 0
    cancel(s, d, T_IDLE)
    if late:
        expire(s, d, BUDGET_TIMEOUT)


# ---------------------------------------------------------------------------------------------------------------------
# idle to busy, preemption (1.9)


@jit
def become_busy(s, d, i, ri):
    """The queue had nothing; now it has. It may be raised, and it may take the device from the queue in service."""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    follow_burst(s, d, i)
    interactive = is_interactive(s, d, i)
    soft_rt = is_soft_rt(s, d, i)
    own = q.sync != 0 and (q.coop == 0 or q.stable != 0)
    raised = c.low_latency != 0 and (q.coeff > 1 or (own and (interactive or soft_rt)))
    wants_device = set_budget(s, d, i) or raised
    if c.io_time == 0:
        count_timely(s, c, q)
    if c.low_latency != 0:
        old = q.coeff
        if own and raised and not recently_split(s, d, q):
            raise_on_arrival(s, d, i, interactive, soft_rt)
        if old == 1 or q.coeff == 1 or interactive:
            q.raised_at = jiffies(s, d)
    q.idle_backlogged = jiffies(s, d)
    q.service_backlogged = 0
    q.soft_update = 0
    add_busy(s, d, i)
    if c.in_service != NONE and preempts(s, d, i, wants_device):
        record(s, TR_PREEMPT, q.task, NONE, 0, 0, 0, d)
        idle_end(s, d, END_PREEMPTED)
        expire(s, d, PREEMPTED)


@jit
def set_budget(s, d, i):
    """Budget of an idle queue that becomes busy (1.3). A queue that had only run out of requests and is back in time
    keeps what it had left, and wants the device: True.

    Since 5.3 a queue of the root that takes the device from a queue of another group has a whole budget left each time:
    the dd rows of 5.6.4 and 5.10 in a child cgroup have no write that waits because jbd2's budget is just used up, as
    those in the root cgroup have for dd's. Why is not known.
    """
    c = s.bfq[d]
    q = s.bfq_queues[i]
    e = s.bfq_entities[i]
    a = c.in_service
    apart = a != NONE and e.group == c.root and s.bfq_entities[a].group != c.root
    left = q.max_budget if c.keep_empty != 0 and apart else budget_left(s, i)
    if q.residual != 0 and arrived_in_time(s, c, q) and (c.residual_left == 0 or left > 0):
        e.budget = max(min(left, q.max_budget), 1)
        e.service = 0
        return True
    e.budget = max(q.max_budget, next_charge(s, i))
    e.service = 0
    q.residual = 0
    return False


@jit
def preempts(s, d, i, wants_device):
    """Shall the queue in service go at once (1.9)? Only if the tree would choose another one now."""
    c = s.bfq[d]
    a = c.in_service
    if next_entity(s, c.root) == s.bfq_groups[c.root].serving:
        return False
    new = s.bfq_queues[i]
    old = s.bfq_queues[a]
    if c.preempt_rule == 0:
        return wants_device and old.coeff < new.coeff
    if wants_device and new.coeff >= old.coeff:
        return True
    if class_rank(new.ioclass) > class_rank(old.ioclass) or heavier(s, i, a):
        return True
    return c.preempt_rule == 2 and not better_to_idle(s, d, a)


@jit
def class_rank(ioclass):
    """RT above BE above IDLE."""
    if ioclass == RT:
        return 2
    return 0 if ioclass == IDLE else 1


@jit
def heavier(s, i, a):
    """Weight of queue `i` against `a`: their own in the same group, else their groups'."""
    new = s.bfq_entities[i]
    old = s.bfq_entities[a]
    if new.group == old.group:
        return new.weight > old.weight
    return group_weight(s, i) > group_weight(s, a)


@jit
def group_weight(s, i):
    """Weight of the queue's group; a queue of the root stands for itself."""
    g = s.bfq_entities[i].group
    if s.bfq_groups[g].parent == NONE:
        return s.bfq_entities[i].weight
    return s.bfq_entities[s.sim[0].n_bfq_queues + g].weight


# ---------------------------------------------------------------------------------------------------------------------
# the next request of a queue (1.7)


@jit
def following_request(s, d, ri):
    """The next request after `ri` leaves its queue: an expired one, once a slot, else the better neighbour."""
    r = s.requests[ri]
    q = s.bfq_queues[r.queue]
    oldest = s.lists[q.fifo].head
    if q.fifo_checked == 0:
        q.fifo_checked = 1
        if oldest != NONE and oldest >> 1 != ri and s.sim[0].now >= s.requests[oldest >> 1].fifo_time:
            return oldest >> 1
    node = s.nodes[2 * ri]
    after = node.next
    if after == NONE:
        head = s.lists[q.sorted].head
        after = head if head != 2 * ri else NONE
    before = node.prev
    if after == NONE:
        return NONE if before == NONE else before >> 1
    if before == NONE:
        return after >> 1
    return better_request(s, s.bfq[d], after >> 1, before >> 1, r.sector + r.nr, F_META)


@jit
def take_out(s, ri):
    """The pending request leaves its queue's lists."""
    r = s.requests[ri]
    q = s.bfq_queues[r.queue]
    if q.next_rq == ri:
        q.next_rq = following_request(s, r.dev, ri)
        if q.next_rq != NONE:
            fit_budget(s, r.queue)
    remove(s, 2 * ri)
    remove(s, 2 * ri + 1)
    q.queued -= 1
    s.bfq[r.dev].queued -= 1


@jit
def withdraw(s, ri):
    """The pending request was merged into its neighbour."""
    take_out(s, ri)
    s.bfq_queues[s.requests[ri].queue].allocated -= 1


@jit
def request_grew(s, ri, front):
    """A bio joined the pending request; after a front merge its place, and maybe the queue's next request, change."""
    r = s.requests[ri]
    if r.queue == NONE or s.nodes[2 * ri].list != s.bfq_queues[r.queue].sorted:
        return
    q = s.bfq_queues[r.queue]
    if front:
        remove(s, 2 * ri)
        insert_sorted(s, q.sorted, 2 * ri, r.sector)
        c = s.bfq[r.dev]
        q.next_rq = better_request(s, c, q.next_rq, ri, c.last_position, F_META)
    if q.next_rq == ri:
        fit_budget(s, r.queue)


# ---------------------------------------------------------------------------------------------------------------------
# selection and dispatch (1.10)


@jit
def dispatch(s, d):
    """The request to issue now, or NONE."""
    c = s.bfq[d]
    n = pop_front(s, c.dispatch_list)
    if n != NONE:
        count_dispatched(s, d, n >> 1)
        return n >> 1
    if c.busy == 0 or (c.strict != 0 and c.in_driver > 0):
        return NONE
    i = select_queue(s, d)
    if i == NONE:
        return NONE
    q = s.bfq_queues[i]
    ri = q.next_rq
    r = s.requests[ri]
    charged = next_charge(s, i)
    take_out(s, ri)
    serve(s, d, i, charged)
    update_peak_rate(s, d, r)
    c.last_position = r.sector + r.nr
    count_dispatched(s, d, ri)
    if i != c.in_service:
        if q.queued == 0:
            del_busy(s, d, i)
            q.budget_timeout = jiffies(s, d)
        return ri
    c.in_serv_last_pos = r.sector + r.nr
    if c.wait_dispatch != 0:
        c.wait_dispatch = 0
        c.waited_rq = ri
    update_raising(s, d, i)
    if q.ioclass == IDLE and c.busy > 1:
        expire(s, d, BUDGET_EXHAUSTED)
    return ri


@jit
def count_dispatched(s, d, ri):
    """The request is in the driver's hands."""
    i = s.requests[ri].queue
    s.bfq_queues[i].dispatched += 1
    s.bfq[d].in_driver += 1
    enter_active(s, d, i)


@jit
def polled_empty(s, d):
    """blk-mq looks for more after each dispatch. Kernels before 6.1 say "maybe" while a queue is busy, and the queue in
    service may end its slot right then; 6.1 counts queued requests and is not asked (both seen in the anatomy logs)."""
    c = s.bfq[d]
    if c.polled != 0 and c.busy > 0 and not (c.strict != 0 and c.in_driver > 0):
        select_queue(s, d)


@jit
def select_queue(s, d):
    """Keep the queue in service, inject into it, wait for it, or choose another; NONE to send nothing."""
    c = s.bfq[d]
    if c.in_service != NONE:
        i = c.in_service
        if may_time_out(s, d, i, must_idle(s, d, i)):
            expire(s, d, BUDGET_TIMEOUT)
    while True:
        if c.in_service == NONE:
            i = choose_next(s, d)
            if i == NONE:
                return NONE
            begin_slot(s, d, i)
        i = c.in_service
        q = s.bfq_queues[i]
        if q.next_rq != NONE:
            if next_charge(s, i) <= budget_left(s, i):
                if q.wait_request != 0:
                    q.wait_request = 0
                    cancel(s, d, T_IDLE)
                    idle_end(s, d, END_ARRIVAL)
                return i
            expire(s, d, BUDGET_EXHAUSTED)
            continue
        if armed(s, d, T_IDLE) or (q.dispatched > 0 and better_to_idle(s, d, i)):
            return meanwhile(s, d, i)
        expire(s, d, NO_MORE_REQUESTS)


@jit
def meanwhile(s, d, i):
    """The queue in service is empty and waited for: which other queue may send a request into the pause (1.10)?"""
    c = s.bfq[d]
    q = s.bfq_queues[i]
    if c.injection == 1:
        return choose_by_share(s, d, i)
    if c.injection == 0:
        return NONE
    t = s.tasks[q.task]
    slot = s.bfq_async[q.group * ASYNC_SLOTS + (16 if t.ioclass == IDLE else t.ioclass * 8 + t.ioprio)].queue
    if slot != NONE and has_fitting_request(s, slot) and s.requests[s.bfq_queues[slot].next_rq].task == q.task:
        return slot
    j = serve_waker(s, d, i)
    if j == NONE:
        j = serve_woken(s, d, i)
    if j == NONE and not boosts_throughput(s, d, i) and (q.coeff == 1 or c.raised_busy > 1 or q.short_think == 0):
        j = choose_by_limit(s, d, i)
    return j


@jit
def tag_limit(s, d, op, flags):
    """How many of the scheduler's tags a request of this kind may find taken (1.14): writes leave room for reads."""
    c = s.bfq[d]
    total = s.devices[d].nr_requests
    if op != WRITE:
        return total
    if is_sync(op, flags):
        return max(total * (6 if c.raised_busy > 0 else 12) // 16, 1)
    return max(total * (3 if c.raised_busy > 0 else 8) // 16, 1)


# ---------------------------------------------------------------------------------------------------------------------
# completion and timer (1.10)


@jit
def completed(s, ri):
    """A request is back: learn from it, then wait for the next of its queue or end the slot. True runs kblockd."""
    r = s.requests[ri]
    d = r.dev
    c = s.bfq[d]
    i = r.queue
    q = s.bfq_queues[i]
    now = s.sim[0].now
    if ri == c.waited_rq:
        update_limit(s, d, i)
    update_hw_tag(s, d)
    c.in_driver -= 1
    q.dispatched -= 1
    q.allocated -= 1
    leave_active(s, i)
    if q.dispatched == 0 and q.busy == 0:
        q.budget_timeout = jiffies(s, d)
    q.last_end = now
    check_rate_at_completion(s, d)
    c.last_completion = now
    c.last_completed = NONE if c.wk_unshared != 0 and q.coop != 0 else i
    if q.soft_update != 0 and q.dispatched == 0 and q.queued == 0:
        update_soft_rt_start(s, d, q)
        q.soft_update = 0
    if i == c.in_service:
        if must_idle(s, d, i):
            if q.dispatched == 0:
                arm_timer(s, d, i)
            return c.in_driver == 0 and c.queued > 0
        if timed_out(s, d, q):
            expire(s, d, BUDGET_TIMEOUT)
        elif q.queued == 0 and q.dispatched == 0:
            expire(s, d, NO_MORE_REQUESTS)
        elif q.queued == 0 and not better_to_idle(s, d, i):
            expire(s, d, NO_MORE_REQUESTS)
    return c.in_driver == 0 and c.queued > 0


@jit
def timer_fired(s, d):
    """The queue in service did not come back in time (1.10). kblockd dispatches afterwards."""
    c = s.bfq[d]
    if c.in_service == NONE:
        return
    q = s.bfq_queues[c.in_service]
    q.wait_request = 0
    idle_end(s, d, END_FIRED)
    if timed_out(s, d, q):
        expire(s, d, BUDGET_TIMEOUT)
    elif q.queued == 0:
        expire(s, d, TOO_IDLE)
