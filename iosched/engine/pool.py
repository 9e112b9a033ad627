"""Request and bio records: free lists, and the limits on how many a task may have (spec block-layer section 5)."""

from ..schedulers import policy
from .account import in_ticks
from .codes import E_POOL, MSEC, NONE, R_DONE, R_FREE, READ, WRITE
from .jit import jit
from .requests import is_sync

BATCH_REQUESTS, BATCH_TIME = 32, 20 * MSEC  # of a batcher (recalled)


@jit
def get_request(s, d, task, op, sector, nr, flags):
    """Take a request record; the caller has checked that there is one (`has_tag`)."""
    sim = s.sim[0]
    ri = sim.free_request
    if ri == NONE:
        sim.error = E_POOL
        return 0
    r = s.requests[ri]
    sim.free_request = r.bios
    sim.requests_made += 1
    r.serial = sim.requests_made
    r.dev = d
    r.task = task
    r.op = op
    r.sector = sector
    r.nr = nr
    r.cmd_flags = flags
    r.bios = NONE
    r.last_bio = NONE
    r.queue = NONE
    r.steps = 0
    r.start = sim.now
    r.elevator = 1
    r.pool = NONE
    r.wbt = 0
    dev = s.devices[d]
    dev.in_system += 1
    dev.arrived += 1
    return ri


@jit
def put_request(s, ri):
    """Give the record back."""
    sim = s.sim[0]
    r = s.requests[ri]
    dev = s.devices[r.dev]
    dev.in_system -= 1
    if r.state == R_DONE:
        dev.completed += 1
        book_sojourn(s, ri)
    r.state = R_FREE
    r.bios = sim.free_request
    sim.free_request = ri


@jit
def book_sojourn(s, ri):
    """The request was in the block layer from its allocation until now."""
    r = s.requests[ri]
    dev = s.devices[r.dev]
    length = s.sim[0].now - r.start
    dev.sojourn_ns += length
    if dev.queue_plugs != 0:
        dev.ticked_sojourn_ns += in_ticks(s, r.start)
    if r.op == READ:
        dev.read_sojourn_ns += length
    elif r.op == WRITE:
        dev.write_sojourn_ns += length


@jit
def add_bio(s, ri, task, sector, nr):
    """Attach a bio to the request."""
    sim = s.sim[0]
    bi = sim.free_bio
    if bi == NONE:
        sim.error = E_POOL
        return
    b = s.bios[bi]
    sim.free_bio = b.next
    b.task = task
    b.sector = sector
    b.nr = nr
    b.start = sim.now
    b.next = NONE
    b.tracked = 0
    b.slot = s.tasks[task].slot
    b.file = s.tasks[task].cleaning
    b.page = s.tasks[task].reading
    if b.slot != NONE:
        s.slots[b.slot].left += 1
    r = s.requests[ri]
    if r.bios == NONE:
        r.bios = bi
    else:
        s.bios[r.last_bio].next = bi
    r.last_bio = bi
    dev = s.devices[r.dev]
    dev.sectors_in += nr
    if r.op == READ:
        dev.sectors_in_read += nr


@jit
def has_tag(s, d, task, op, flags):
    """May a request be allocated? blk-mq: tags of the device, shared by sync and async. Legacy: per cgroup, each for
    itself; a full pool still serves a batcher, up to half as many again."""
    dev = s.devices[d]
    if s.sim[0].free_request == NONE or s.sim[0].free_bio == NONE:
        return False
    if dev.hardware_queues > 1 and s.hardware_queues[hardware_queue(s, d, task)].n >= dev.queue_tags:
        return False
    if dev.legacy == 0:
        return dev.tags_used < policy.tag_limit(s, d, op, flags)
    pool = s.pools[d * s.sim[0].n_groups + s.tasks[task].group]
    used = pool.sync if is_sync(op, flags) else pool.asynchronous
    return used < dev.nr_requests or (is_batcher(s, task) and used < dev.nr_requests * 3 // 2)


@jit
def hardware_queue(s, d, task):
    """The hardware queue of the processor that the task runs on, each with tags of its own."""
    queues = s.devices[d].hardware_queues
    return d * queues + task % queues


@jit
def is_batcher(s, task):
    """May the task go on although the pool is full? So many requests and so long, once it has waited or filled it."""
    t = s.tasks[task]
    return t.batch_left > 0 and s.sim[0].now < t.batch_until


@jit
def take_tag(s, ri, task):
    """Count the request against its limit. Who takes the last one of a legacy pool becomes a batcher: it, or whoever
    slept for that request, need not sleep again for each of the next."""
    r = s.requests[ri]
    t = s.tasks[task]
    dev = s.devices[r.dev]
    r.pool = r.dev * s.sim[0].n_groups + t.group
    if dev.legacy == 0:
        dev.tags_used += 1
        s.hardware_queues[hardware_queue(s, r.dev, task)].n += 1
        return
    if t.batch_left > 0:
        t.batch_left -= 1
    pool = s.pools[r.pool]
    if is_sync(r.op, r.cmd_flags):
        pool.sync += 1
        used = pool.sync
    else:
        pool.asynchronous += 1
        used = pool.asynchronous
    if used == dev.nr_requests:
        t.batch_left = BATCH_REQUESTS
        t.batch_until = s.sim[0].now + BATCH_TIME


@jit
def wait_list(s, d, group, op, flags):
    """Where a task waits for room: with its cgroup and direction on the legacy path, with all others on blk-mq."""
    dev = s.devices[d]
    if dev.legacy == 0:
        return dev.waiters
    pool = s.pools[d * s.sim[0].n_groups + group]
    return pool.waiters_sync if is_sync(op, flags) else pool.waiters_async


@jit
def return_tag(s, ri):
    """The limit has room again. True if one who waits for it may go on: in a legacy pool not before it is below its
    limit."""
    r = s.requests[ri]
    if r.pool == NONE:
        return True
    dev = s.devices[r.dev]
    pool = s.pools[r.pool]
    r.pool = NONE
    if dev.legacy == 0:
        dev.tags_used -= 1
        s.hardware_queues[hardware_queue(s, r.dev, r.task)].n -= 1
        return True
    if is_sync(r.op, r.cmd_flags):
        pool.sync -= 1
        return pool.sync < dev.nr_requests
    pool.asynchronous -= 1
    return pool.asynchronous < dev.nr_requests
