"""The block layer's core: bios become requests, merge, wait in plugs, enter the scheduler, go to the device, come back.

Source: spec block-layer sections 0, 5 and 8.
"""

from ..schedulers import policy
from . import device, dirty, flush, iocost, iolatency, iomax, journal, pieces, slots, wbt
from .account import account
from .clock import schedule
from .codes import (
    E_DOUBLE_COMPLETION,
    E_EARLY_COMPLETION,
    EV_RUN,
    EV_UNPLUG,
    F_FUA,
    F_PREFLUSH,
    F_SYNC,
    FLUSH,
    MSEC,
    NONE,
    PAGE_SECTORS,
    R_DISPATCHED,
    R_DONE,
    R_ISSUED,
    R_PLUGGED,
    R_QUEUED,
    READ,
    T_WAIT_IO,
    T_WAIT_READ,
    T_WAIT_SLOT,
    T_WAIT_TAG,
    TR_COMPLETE,
    TR_GET,
    TR_INSERT,
    TR_ISSUE,
    TR_MERGE,
    TR_PLUG,
    TR_QUEUE,
    TR_UNPLUG,
    WRITE,
)
from .jit import jit
from .lists import insert_sorted, pop_front, push_back, remove, successor_of
from .pool import add_bio, book_sojourn, get_request, has_tag, put_request, return_tag, take_tag, wait_list
from .trace import record
from .wakeups import interrupt, interrupt_work, kernel_burst, wake, wake_first

PLUG_REQUESTS = 32  # the plug empties itself at this many requests (spec section 5)
PLUG_SECTORS = 256  # or behind a request of this size
UNPLUG_REQUESTS, UNPLUG_TIME = 4, 3 * MSEC  # of a queue's plug before 2.6.39 (recalled)
SOFTWARE_QUEUE_LOOKBACK = 8  # none looks at the newest few requests only


# ---------------------------------------------------------------------------------------------------------------------
# from bio to request


@jit
def submit_bio(s, d, task, op, sector, nr, flags):
    """Submit one bio of a task. False when no request is free: the task sleeps in the device's wait list and must try
    again when it is woken."""
    dev = s.devices[d]
    t = s.tasks[task]
    record(s, TR_QUEUE, task, NONE, sector, nr, flags | op << 16, d)
    if dev.write_cache == 0:
        flags &= ~(F_PREFLUSH | F_FUA)
        if op == FLUSH:
            return True
    bypass = op == FLUSH or (flags & (F_PREFLUSH | F_FUA)) != 0
    account(s, d)
    if dev.io_max != 0 and nr > 0 and not iomax.admit(s, d, task, op, nr):
        unplug(s, d, task)
        return False
    room_for_bio = s.sim[0].free_bio != NONE
    if room_for_bio and not bypass and t.climb == NONE and t.wbt_place == 0 and t.cost_paid == 0:
        if merge_into_plug(s, d, task, op, sector, nr, flags) or merge_into_scheduler(
            s, d, task, op, sector, nr, flags
        ):
            t.outstanding += 1
            t.gate = NONE
            if dev.io_cost != 0:
                iocost.merged(s, d, t.group, op, sector, nr)
            return True
    if dev.io_latency != 0 and not iolatency.admit(s, d, task, flags):
        unplug(s, d, task)
        return False
    if dev.wbt != 0 and not wbt.admit(s, d, task, op, flags):
        unplug(s, d, task)
        return False
    if dev.io_cost != 0 and nr > 0 and not iocost.admit(s, d, task, op, flags, sector, nr):
        unplug(s, d, task)
        return False
    if not room_for_bio or not (has_tag(s, d, task, op, flags) or may_exceed_pool(s, d, task)):
        unplug(s, d, task)
        if s.sim[0].free_bio == NONE or not has_tag(s, d, task, op, flags):
            t.state = T_WAIT_TAG
            if dev.io_cost != 0:
                iocost.waits_for_tag(s, d, task)
            lst = dev.waiters if s.sim[0].free_bio == NONE else wait_list(s, d, t.group, op, flags)
            push_back(s, lst, s.sim[0].first_task_node + task)
            return False
    ri = get_request(s, d, task, op, sector, nr, flags)
    take_tag(s, ri, task)
    s.requests[ri].wbt = t.wbt_place
    t.wbt_place = 0
    t.gate = NONE
    if dev.io_cost != 0:
        iocost.has_tag(s, d, task)
    add_bio(s, ri, task, sector, nr)
    if dev.io_latency != 0:
        iolatency.track(s, task, s.requests[ri].last_bio)
    t.outstanding += 1
    record(s, TR_GET, task, s.requests[ri].serial, sector, nr, flags | op << 16, d)
    if bypass:
        flush.begin(s, ri)
        run_bypass(s, d)
    elif dev.queue_plugs != 0:
        insert_plugged(s, ri)
    elif t.plugged != 0:
        plug(s, d, task, ri)
    else:
        insert(s, ri)
        run_after_insertion(s, d)
    return True


@jit
def may_exceed_pool(s, d, task):
    """A full pool makes an exception for a task that the scheduler waits for, while records last."""
    return s.sim[0].free_request != NONE and policy.may_queue(s, d, task)


@jit
def may_join(s, ri, op, sector, nr, flags, group):
    """Can a bio be appended (1) or prepended (2) to the request (section 5)? 0 if neither."""
    r = s.requests[ri]
    if r.op != op or r.cmd_flags != flags or s.tasks[r.task].group != group:
        return 0
    if r.nr + nr > s.devices[r.dev].max_sectors:
        return 0
    if r.sector + r.nr == sector:
        return 1
    if sector + nr == r.sector:
        return 2
    return 0


@jit
def join(s, ri, task, sector, nr, how):
    """Add the bio at the back (1) or front (2) of the request."""
    r = s.requests[ri]
    add_bio(s, ri, task, sector, nr)
    r.nr += nr
    if how == 2:
        r.sector = sector
    count_merge(s.devices[r.dev], r.op)
    record(s, TR_MERGE, task, r.serial, sector, nr, r.cmd_flags | r.op << 16, r.dev)


@jit
def count_merge(dev, op):
    """One more merge."""
    dev.merges += 1
    if op == READ:
        dev.read_merges += 1


@jit
def merge_into_plug(s, d, task, op, sector, nr, flags):
    """Join a request of the task's own plug: any of it on the legacy path, the newest one on blk-mq."""
    t = s.tasks[task]
    if t.plugged == 0:
        return False
    n = s.lists[t.plug_list].tail
    while n != NONE:
        how = may_join(s, n >> 1, op, sector, nr, flags, t.group)
        if how != 0 and s.requests[n >> 1].dev == d:
            join(s, n >> 1, task, sector, nr, how)
            return True
        if s.devices[d].legacy == 0:
            return False
        n = s.nodes[n].prev
    return False


@jit
def merge_into_scheduler(s, d, task, op, sector, nr, flags):
    """Join a request that waits in the scheduler, then see whether that request now touches its neighbour."""
    if s.devices[d].queued == 0:
        return False
    lst = policy.merge_list(s, d, task, op, flags)
    if lst == NONE or s.lists[lst].count == 0:
        return False
    group = s.tasks[task].group
    if not policy.keeps_sector_order(s, d):
        n = s.lists[lst].tail
        looked = 0
        while n != NONE and (s.devices[d].legacy != 0 or looked < SOFTWARE_QUEUE_LOOKBACK):
            if may_join(s, n >> 1, op, sector, nr, flags, group) == 1:
                join(s, n >> 1, task, sector, nr, 1)
                return True
            n = s.nodes[n].prev
            looked += 1
        return False
    after = successor_of(s, lst, sector)
    before = s.lists[lst].tail if after == NONE else s.nodes[after].prev
    if before != NONE and may_join(s, before >> 1, op, sector, nr, flags, group) == 1:
        join(s, before >> 1, task, sector, nr, 1)
        policy.request_grew(s, before >> 1, False)
        merge_neighbours(s, before >> 1)
        return True
    if after != NONE and policy.front_merges(s, d) and may_join(s, after >> 1, op, sector, nr, flags, group) == 2:
        join(s, after >> 1, task, sector, nr, 2)
        policy.request_grew(s, after >> 1, True)
        previous = s.nodes[after].prev
        if previous != NONE:
            merge_neighbours(s, previous >> 1)
        return True
    return False


@jit
def merge_neighbours(s, ri):
    """If the next request by sector starts where this one ends, the two become one; the earlier deadline stays."""
    n = s.nodes[2 * ri].next
    if n == NONE:
        return
    r = s.requests[ri]
    oi = n >> 1
    o = s.requests[oi]
    if may_join(s, ri, o.op, o.sector, o.nr, o.cmd_flags, s.tasks[o.task].group) != 1:
        return
    policy.withdraw(s, oi)
    s.devices[r.dev].queued -= 1
    s.bios[r.last_bio].next = o.bios
    r.last_bio = o.last_bio
    r.nr += o.nr
    r.fifo_time = min(r.fifo_time, o.fifo_time)
    dev = s.devices[r.dev]
    count_merge(dev, r.op)
    dev.arrived -= 1
    book_sojourn(s, oi)  # the two become one: Little's law stays exact with the younger one's age in the books
    if dev.wbt != 0:
        wbt.leave(s, oi)
    lst = wait_list(s, o.dev, s.tasks[o.task].group, o.op, o.cmd_flags)
    room = return_tag(s, oi)
    put_request(s, oi)
    if room and s.lists[lst].count > 0:
        wake_first(s, lst)


# ---------------------------------------------------------------------------------------------------------------------
# plugging


@jit
def plug(s, d, task, ri):
    """Hold the request back in the task's plug; a full plug, or a large request in it, empties it first."""
    t = s.tasks[task]
    tail = s.lists[t.plug_list].tail
    if tail != NONE and (s.lists[t.plug_list].count >= PLUG_REQUESTS or s.requests[tail >> 1].nr >= PLUG_SECTORS):
        unplug(s, d, task)
    r = s.requests[ri]
    if s.lists[t.plug_list].count == 0:
        record(s, TR_PLUG, task, NONE, 0, 0, 0, d)
    r.state = R_PLUGGED
    if s.devices[d].legacy != 0:
        insert_sorted(s, t.plug_list, 2 * ri, r.sector)
    else:
        push_back(s, t.plug_list, 2 * ri)


@jit
def unplug(s, d, task):
    """Insert everything the task held back, then run the queue."""
    t = s.tasks[task]
    n = s.lists[t.plug_list].count
    if n == 0:
        return
    record(s, TR_UNPLUG, task, NONE, 0, n, 0, d)
    while n > 0:
        node = pop_front(s, t.plug_list)
        insert(s, node >> 1)
        n -= 1
    run_after_insertion(s, d)


# before 2.6.39 the queue itself was plugged (spec block-layer 2.1, recalled there)


@jit
def insert_plugged(s, ri):
    """The first request on an empty queue plugs it, the fourth pulls the plug, and so do a timer of 3 ms and any task
    that waits. One on a queue that holds some back waits for the next completion, unless the scheduler says otherwise.
    """
    r = s.requests[ri]
    dev = s.devices[r.dev]
    if dev.queued == 0 and dev.plugged == 0:
        dev.plugged = 1
        tick = s.sim[0].tick_ns
        dev.unplug_at = (s.sim[0].now // tick + (UNPLUG_TIME + tick - 1) // tick) * tick
        if dev.unplug_armed == 0:
            dev.unplug_armed = 1
            schedule(s, dev.unplug_at, EV_UNPLUG, r.dev)
    dev.kicked = 0
    insert(s, ri)
    if dev.kicked != 0 or (dev.plugged != 0 and dev.queued >= UNPLUG_REQUESTS) or is_sync_write(r):
        run_queue(s, r.dev)


@jit
def is_sync_write(r):
    """Somebody waits for it already."""
    return r.op == WRITE and (r.cmd_flags & F_SYNC) != 0


@jit
def unplug_due(s, d):
    """The timer of the queue's plug ran out; one of a plug that was pulled meanwhile looks after the newer one."""
    dev = s.devices[d]
    dev.unplug_armed = 0
    if dev.plugged == 0:
        return
    if s.sim[0].now >= dev.unplug_at:
        run_queue(s, d)
    else:
        dev.unplug_armed = 1
        schedule(s, dev.unplug_at, EV_UNPLUG, d)


@jit
def unplug_for(s, task):
    """The task waits for something to be read: no queue stays plugged."""
    state = s.tasks[task].state
    if state == T_WAIT_IO or state == T_WAIT_READ or state == T_WAIT_SLOT or state == T_WAIT_TAG:
        for d in range(s.sim[0].n_devices):
            if s.devices[d].plugged != 0:
                run_queue(s, d)


# ---------------------------------------------------------------------------------------------------------------------
# scheduler and device


@jit
def insert(s, ri):
    """The request enters the scheduler."""
    r = s.requests[ri]
    r.state = R_QUEUED
    s.devices[r.dev].queued += 1
    record(s, TR_INSERT, r.task, r.serial, r.sector, r.nr, r.cmd_flags | r.op << 16, r.dev)
    policy.insert(s, ri)
    if s.sim[0].scheduler_ns > 0:
        schedule_cpu(s, r.dev)


@jit
def schedule_cpu(s, d):
    """The scheduler's own CPU of a request, under its lock: one at a time, and dearer where another holds the lock."""
    sim = s.sim[0]
    dev = s.devices[d]
    length = sim.scheduler_ns
    if dev.locked_until > sim.now and sim.cpus != 1:
        length += sim.lock_ns
    dev.locked_until = max(sim.now, dev.locked_until) + length
    interrupt_work(s, length)


@jit
def run_after_insertion(s, d):
    """Legacy and none issue in the caller's context; blk-mq with a scheduler leaves it to kblockd (section 5)."""
    if s.devices[d].asynchronous_run != 0:
        schedule_run(s, d)
    else:
        run_queue(s, d)


@jit
def run_bypass(s, d):
    """Send what bypasses the scheduler: at once on the legacy path, by kblockd (the requeue list) on blk-mq."""
    if s.devices[d].legacy != 0:
        run_queue(s, d)
    else:
        schedule_run(s, d)


@jit
def schedule_run(s, d):
    """kblockd runs the queue after a wake-up."""
    dev = s.devices[d]
    if dev.run_pending == 0:
        dev.run_pending = 1
        wakeup = s.sim[0].wakeup_ns
        schedule(s, max(kernel_burst(s, wakeup), dev.locked_until + wakeup), EV_RUN, d)


@jit
def run_queue(s, d):
    """Feed the device while it has a free tag: first what bypasses the scheduler, then what the scheduler chooses.

    A driver that is busy with a flush which is not queueable finds that out with a request in its hands (blk-mq); that
    one has left the scheduler, and goes first when the flush is over.
    """
    dev = s.devices[d]
    dev.plugged = 0
    if dev.exclusive != 0 and dev.legacy == 0 and dev.parked == NONE and dev.queued > 0:
        ri = policy.dispatch(s, d)
        if ri != NONE:
            dev.queued -= 1
            s.requests[ri].state = R_DISPATCHED
            dev.parked = ri
    while device.has_room(dev):
        if dev.parked != NONE:
            ri = dev.parked
            dev.parked = NONE
            issue(s, ri)
            continue
        n = s.lists[dev.dispatch_list].head
        if n != NONE:
            if device.must_wait(s, n >> 1):
                return
            remove(s, n)
            issue(s, n >> 1)
            continue
        if dev.queued == 0:
            policy.polled_empty(s, d)
            return
        ri = policy.dispatch(s, d)
        if ri == NONE:
            return
        dev.queued -= 1
        s.requests[ri].state = R_DISPATCHED
        issue(s, ri)
    if dev.queued == 0:
        policy.polled_empty(s, d)


@jit
def issue(s, ri):
    """The driver takes the request."""
    r = s.requests[ri]
    account(s, r.dev)
    r.state = R_ISSUED
    r.issued = s.sim[0].now
    record(s, TR_ISSUE, r.task, r.serial, r.sector, r.nr, r.cmd_flags | r.op << 16, r.dev)
    if s.devices[r.dev].wbt != 0:
        wbt.issued(s, ri)
    device.start(s, ri)


# ---------------------------------------------------------------------------------------------------------------------
# completion


@jit
def complete(s, ri):
    """The device is done with a request: tell the scheduler, go on with a flush sequence, wake who waits.

    What waited for a flush that is not queueable goes before the next one. That is inferred from thread 2: on the disk
    a read beside fifteen writers takes 56 ms, which is one flush of half of their writes, not two of them.
    """
    sim = s.sim[0]
    r = s.requests[ri]
    d = r.dev
    dev = s.devices[d]
    if r.state != R_ISSUED:
        sim.error = E_DOUBLE_COMPLETION
        return
    if sim.now < r.earliest or sim.now < r.start:
        sim.error = E_EARLY_COMPLETION
        return
    account(s, d)
    interrupt(s, sim.request_ns)
    was_full = not device.has_room(dev)
    was_exclusive = dev.exclusive != 0
    device.finish(s, ri)
    if dev.wbt != 0:
        wbt.done(s, ri)
    if dev.io_cost != 0 and r.nr > 0:
        iocost.request_done(s, ri)
    record(s, TR_COMPLETE, r.task, r.serial, r.sector, r.nr, r.cmd_flags | r.op << 16, d)
    run = False
    if r.elevator != 0:
        run = policy.completed(s, ri)
        end_request(s, ri)
    elif ri == dev.flush_running:
        if was_exclusive and dev.legacy == 0:
            run_queue(s, d)
        flush.flush_done(s, d)
        issued = r.issued
        r.state = R_DONE
        dev.flushes += 1
        put_request(s, ri)
        n = pop_front(s, dev.flush_served)
        while n != NONE:
            flush.step_done(s, n >> 1, issued)
            if not flush.next_step(s, n >> 1):
                end_request(s, n >> 1)
            n = pop_front(s, dev.flush_served)
        flush.kick(s, d)
    else:
        flush.step_done(s, ri, 0)
        if not flush.next_step(s, ri):
            end_request(s, ri)
        flush.kick(s, d)
    if s.lists[dev.dispatch_list].count > 0:
        run_bypass(s, d)
    elif (was_full or dev.queue_plugs != 0) and dev.queued > 0:
        run_queue(s, d)
    elif dev.scsi != 0 and dev.queued > 0:
        run_bypass(s, d)  # the SCSI layer runs the queue after every command, whoever may be served next
    if run:
        schedule_run(s, d)


@jit
def end_request(s, ri):
    """End every bio of the request; a task whose last bio this was wakes up."""
    sim = s.sim[0]
    r = s.requests[ri]
    dev = s.devices[r.dev]
    bi = r.bios
    while bi != NONE:
        b = s.bios[bi]
        t = s.tasks[b.task]
        t.outstanding -= 1
        dev.sectors_out += b.nr
        if r.op == 0:
            dev.sectors_read += b.nr
        elif r.op == 1:
            dev.sectors_written += b.nr
        if b.tracked != 0:
            iolatency.bio_done(s, r.dev, t.group, sim.now - b.start, r.cmd_flags)
        if b.file != NONE:
            dirty.bio_done(s, r.dev, b.file, b.nr, r.cmd_flags)
        if b.slot != NONE:
            slots.drop(s, b.slot)
        if b.page != NONE:
            pieces.pages_read(s, b.task, b.page, b.nr // PAGE_SECTORS)
        if t.outstanding == 0:
            if journal.writes_log(s, b.task):
                journal.log_written(s, t.journal)
            if t.ordered != 0:
                t.ordered = 0
                journal.ordered_written(s, s.files[t.file].journal)
            if t.state == T_WAIT_IO:
                wake(s, b.task)
        following = b.next
        b.next = sim.free_bio
        sim.free_bio = bi
        bi = following
    if r.op == 0:
        dev.read_requests += 1
    elif r.op == 1:
        dev.write_requests += 1
    r.state = R_DONE
    lst = dev.waiters
    if r.pool != NONE:
        lst = wait_list(s, r.dev, r.pool - r.dev * sim.n_groups, r.op, r.cmd_flags)
    room = return_tag(s, ri)
    put_request(s, ri)
    if room and s.lists[lst].count > 0:
        wake_first(s, lst)
    if lst != dev.waiters and s.lists[dev.waiters].count > 0:
        wake_first(s, dev.waiters)
