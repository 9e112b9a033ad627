"""A disk: one arm, the commands inside (NCQ), a write cache, a read-ahead buffer, and a bus to the host.

The arm does one thing at a time: a command, or destaging a piece of the write cache. Whenever it is free it chooses
what comes next. Electronics and bus work beside it: they take writes into the cache and hand out what the buffer has.
"""

from . import disk_cache, segments
from .clock import schedule
from .codes import (
    BEFORE,
    EV_COMPLETE,
    EV_DISK,
    F_FUA,
    FLUSH,
    IN_ORDER,
    LAST,
    NEVER,
    NONE,
    PATIENT,
    PIECE,
    READ,
    SHORTEST,
    STREAM,
    TURNS,
    WRITE,
)
from .jit import jit
from .lists import push_back, remove
from .platter import arrival, drawn, locate, park, transfer


@jit
def start(s, ri):
    """A command arrives."""
    r = s.requests[ri]
    d = r.dev
    dev = s.devices[d]
    k = s.disks[d]
    now = s.sim[0].now
    k.last_arrival = now
    if r.op == FLUSH:
        k.flush = ri
        end_flush(s, d)
    elif r.op == WRITE and k.cache_sectors > 0 and ((r.cmd_flags & F_FUA) == 0 or dev.fua == 0):
        push_back(s, k.waiting, 2 * ri)
        admit(s, d)
    else:
        place = r.sector
        if r.op == WRITE:
            segments.forget(s, d, r.sector, r.sector + r.nr)
        elif k.segments_n > 0:
            place = segments.find(s, d, r.sector, r.sector + r.nr)
        if place == r.sector + r.nr:
            k.hits += 1
            acknowledge(s, d, ri, dev.completion_ns)
        else:
            locate(s, d, ri, place, r.sector + r.nr)
            s.commands[ri].ready = now + r.nr * k.copy_ps // 1000 + k.overlaps * dev.completion_ns
            push_back(s, k.queue, 2 * ri)
    if k.serving == NONE:
        choose(s, d)


@jit
def acknowledge(s, d, ri, length):
    """The electronics answer after `length` ns, once the request's data have crossed the bus."""
    k = s.disks[d]
    sim = s.sim[0]
    r = s.requests[ri]
    k.bus_free_at = max(sim.now + length, k.bus_free_at) + r.nr * k.bus_ps // 1000
    r.earliest = k.bus_free_at
    schedule(s, k.bus_free_at + sim.request_ns, EV_COMPLETE, ri)


@jit
def admit(s, d):
    """Take waiting writes into the cache while there is room; none as long as a flush waits for the cache to drain."""
    k = s.disks[d]
    n = s.lists[k.waiting].head
    while n != NONE and k.flush == NONE:
        r = s.requests[n >> 1]
        if not disk_cache.room_for(s, d, r.nr):
            return
        remove(s, n)
        segments.forget(s, d, r.sector, r.sector + r.nr)
        disk_cache.put(s, d, r.sector, r.sector + r.nr)
        acknowledge(s, d, n >> 1, k.ack_ns + r.nr * k.copy_ps // 1000)
        n = s.lists[k.waiting].head


@jit
def end_flush(s, d):
    """A flush is done once nothing is left in the cache."""
    k = s.disks[d]
    if k.flush != NONE and k.held == 0:
        acknowledge(s, d, k.flush, s.devices[d].flush_ns)
        k.flush = NONE
        admit(s, d)


@jit
def arm_event(s, d):
    """The arm may be free, or it is time to look whether the disk is quiet enough to destage."""
    k = s.disks[d]
    now = s.sim[0].now
    if now >= k.look_at:
        k.look_at = NEVER
    if k.serving != NONE:
        if now < k.until:
            return
        finish(s, d)
    if k.serving == NONE:
        choose(s, d)


@jit
def finish(s, d):
    """The arm is done with what it did."""
    k = s.disks[d]
    done = k.serving
    k.serving = NONE
    k.stopped_at = k.until
    k.wrote_piece = int(done == PIECE)
    if done == PIECE:
        disk_cache.piece_written(s, d)
        admit(s, d)
        end_flush(s, d)
    elif k.segments_n > 0 and s.requests[done].op == READ:
        first = s.requests[done].sector
        segment = k.ahead if k.ahead != NONE else segments.least_used(s, d)
        segments.begin(s, d, segment, first, first + s.requests[done].nr, k.until)


# ---------------------------------------------------------------------------------------------------------------------
# what comes next


@jit
def choose(s, d):
    """The arm is free: take what comes next, a command or a piece of the cache."""
    k = s.disks[d]
    ri = next_command(s, d)
    if s.lists[k.dirty].count > 0:
        n = disk_cache.next_extent(s, d)
        if destages(s, d, ri, n):
            destage(s, d, n)
            return
    if ri != NONE:
        remove(s, 2 * ri)
        serve(s, d, ri)


@jit
def aged(s, d, ri):
    """Has the command waited so long that it goes first?"""
    k = s.disks[d]
    return k.age_ns > 0 and ri != NONE and s.sim[0].now - s.requests[ri].issued > k.age_ns


@jit
def next_command(s, d):
    """The oldest if it is aged, else the one that the arm reaches soonest (or is nearest to), or for a while one that
    goes on where the read-ahead is, then the oldest; NONE if there is none."""
    k = s.disks[d]
    n = s.lists[k.queue].head
    if n == NONE:
        return NONE
    best = n >> 1
    if k.choice == IN_ORDER or s.lists[k.queue].count == 1 or aged(s, d, best):
        return best
    least = NEVER
    while n != NONE and k.choice == STREAM and s.sim[0].now - k.stream_since < k.stream_ns:
        r = s.requests[n >> 1]
        if r.op == READ and segments.streams(s, d, s.commands[n >> 1].start):
            return n >> 1
        n = s.nodes[n].next
    if k.choice == STREAM:
        return best
    while n != NONE:
        cost = cost_of(s, d, n >> 1, s.requests[n >> 1].op)
        if cost < least:
            least = cost
            best = n >> 1
        n = s.nodes[n].next
    return best


@jit
def cost_of(s, d, row, op):
    """What the choice compares: the time until the arm is there, or the distance in sectors."""
    k = s.disks[d]
    c = s.commands[row]
    if k.choice != SHORTEST:
        return abs(c.start - k.at_sector)
    now = s.sim[0].now
    if op == READ and segments.streams(s, d, c.start):
        return max(segments.passed(s, d, c.start) - now, 0)
    return arrival(k, c, max(now, c.ready), op, now - k.stopped_at) - now


@jit
def destages(s, d, ri, n):
    """Does the piece at node `n` go before the command (or NONE)? A flush says yes, and an aged write that waits for
    room does, to a command that is not aged itself; without commands a disk whose cache is less than half full waits
    until it is quiet; beside them it is a matter of rank, or one follows the other where they take turns."""
    k = s.disks[d]
    if k.flush != NONE or k.rank == BEFORE:
        return True
    if k.rank == TURNS and ri != NONE:
        return k.wrote_piece == 0
    w = s.lists[k.waiting].head
    if w != NONE and aged(s, d, w >> 1):
        return not aged(s, d, ri)
    if ri == NONE:
        return w != NONE or 2 * k.held > k.cache_sectors or quiet(s, d)
    if k.rank == LAST or k.choice == IN_ORDER or k.choice == STREAM or aged(s, d, ri):
        return False
    if k.rank == PATIENT and s.sim[0].now - k.commands_since >= k.patience_ns:
        return True
    row = locate_piece(s, d, n)
    return cost_of(s, d, row, WRITE) < cost_of(s, d, ri, s.requests[ri].op)


@jit
def quiet(s, d):
    """Has no command come for long enough? If not, the disk looks again when that may be so."""
    k = s.disks[d]
    at = k.last_arrival + k.quiet_ns
    if at <= s.sim[0].now:
        return True
    if k.look_at == NEVER:
        k.look_at = at
        schedule(s, at, EV_DISK, d)
    return False


@jit
def locate_piece(s, d, n):
    """Row of `commands` where the piece at node `n` is described."""
    k = s.disks[d]
    row = segments.scratch(s, d) + 1
    first = s.nodes[n].key
    stop = min(s.extents[disk_cache.extent_of(s, n)].end, first + k.piece_sectors)
    locate(s, d, row, first, stop)
    s.commands[row].ready = s.sim[0].now
    return row


# ---------------------------------------------------------------------------------------------------------------------
# what the arm does


@jit
def serve(s, d, ri):
    """The arm serves a command."""
    k = s.disks[d]
    dev = s.devices[d]
    sim = s.sim[0]
    r = s.requests[ri]
    c = s.commands[ri]
    k.serving = ri
    if r.op == READ and segments.streams(s, d, c.start):
        until = max(segments.stream_until(s, d, c.stop), sim.now, c.ready)
        park(s, d, ri, c.stop)
    else:
        k.stream_since = sim.now
        at = max(sim.now, c.ready) + (1 - k.overlaps) * dev.completion_ns
        until = work(s, d, ri, at, r.op)
    k.until = until
    dev.served_ns += until - sim.now
    r.earliest = until
    schedule(s, until, EV_DISK, d)
    schedule(s, until + sim.request_ns, EV_COMPLETE, ri)


@jit
def destage(s, d, n):
    """The arm writes a piece of the cache to the medium."""
    k = s.disks[d]
    now = s.sim[0].now
    row = locate_piece(s, d, n)
    disk_cache.take_piece(s, d, n)
    k.serving = PIECE
    k.until = work(s, d, row, now, WRITE)
    k.destage_ns += k.until - now
    k.commands_since = k.until
    schedule(s, k.until, EV_DISK, d)


@jit
def work(s, d, row, at, op):
    """Move the arm from `at` on, wait for the platter, transfer; returns when that is over. Read-ahead ends."""
    k = s.disks[d]
    c = s.commands[row]
    segments.halt(s, d)
    stopped = s.sim[0].now - k.stopped_at
    contiguous = c.start == k.at_sector
    at = arrival(k, c, at, op, stopped)
    if k.drawn_delay != 0 and not contiguous:
        at += drawn(k)
    until = at + transfer(s, d, c.zone, c.start, c.stop, op)
    park(s, d, row, c.stop)
    return until
