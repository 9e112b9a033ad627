"""An SSD: dies that read and program, a write buffer, and one link to the host.

A read takes its die (by address), then the link; commands whose data are there share the link in that order. A write is
acknowledged once it has crossed the link into the buffer; the buffer is programmed piece by piece, one piece a die at a
time, and a read that meets its die at that waits. A flush is done when the buffer is empty and the tables are saved;
what comes meanwhile stalls. The controller recognises so many sequential streams; of a read that belongs to none of
them all but the first page moves at the slower rate.
"""

from .clock import schedule
from .codes import EV_COMPLETE, EV_PROGRAMMED, EV_READ, F_FUA, FLUSH, NONE, PAGE_SECTORS, READ
from .jit import jit
from .lists import pop_front, push_back

SPREAD = 1_640_531_527  # a multiplier that scatters neighbouring pages over the dies (Knuth)
LOW_BITS = (1 << 30) - 1


@jit
def start(s, ri):
    """A command arrives."""
    r = s.requests[ri]
    dev = s.devices[r.dev]
    k = s.ssds[r.dev]
    if k.flushing != 0:
        push_back(s, k.stalled, 2 * ri)
    elif r.op == FLUSH:
        k.flush = ri
        k.flushing = 1
        program(s, r.dev)
        end_flush(s, r.dev)
    elif r.op == READ:
        dev.served_ns += dev.completion_ns
        occupy(s, ri, dev.completion_ns, EV_READ, 0)
    elif (r.cmd_flags & F_FUA) != 0 and dev.fua != 0:
        occupy(s, ri, k.program_ns, EV_COMPLETE, s.sim[0].request_ns)
    else:
        push_back(s, k.waiting, 2 * ri)
        admit(s, r.dev)


@jit
def occupy(s, ri, length, event, after):
    """The request's die works for `length` ns as soon as it is free; the event comes so long `after` that."""
    r = s.requests[ri]
    dev = s.devices[r.dev]
    page = r.sector // PAGE_SECTORS & LOW_BITS
    die = s.dies[s.ssds[r.dev].first_die + (page * SPREAD >> 15) % dev.servers]
    die.free_at = max(s.sim[0].now, die.free_at) + length
    r.earliest = die.free_at
    schedule(s, die.free_at + after, event, ri)


@jit
def read_done(s, ri):
    """The data of a read are in the controller: they cross the link."""
    r = s.requests[ri]
    k = s.ssds[r.dev]
    later = 0
    if k.streams > 0 and not belongs(s, k, r.sector, r.sector + r.nr):
        later = max(r.nr - PAGE_SECTORS, 0)
    cross(s, ri, (r.nr - later) * k.link_ps + later * k.cold_ps, 0)


@jit
def cross(s, ri, ps, length):
    """The data take the link for so many ps, behind all that is on it; the command is over `length` ns later."""
    r = s.requests[ri]
    k = s.ssds[r.dev]
    sim = s.sim[0]
    k.link_free_at = max(sim.now, k.link_free_at) + ps // 1000
    r.earliest = k.link_free_at + length
    schedule(s, r.earliest + sim.request_ns, EV_COMPLETE, ri)


@jit
def belongs(s, k, start, stop):
    """Does a read go on where a stream that the controller knows ended? What does not takes the oldest's place."""
    oldest = 0
    k.uses += 1
    for i in range(k.streams):
        row = s.segments[i]
        if row.end == start:
            row.end = stop
            row.used = k.uses
            return True
        if row.used < s.segments[oldest].used:
            oldest = i
    s.segments[oldest].end = stop
    s.segments[oldest].used = k.uses
    return False


@jit
def admit(s, d):
    """Take waiting writes into the buffer while there is room; none while a flush waits for it to drain."""
    k = s.ssds[d]
    n = s.lists[k.waiting].head
    while n != NONE and k.flush == NONE:
        r = s.requests[n >> 1]
        if k.held > 0 and k.held + r.nr > k.buffer_sectors:
            return
        pop_front(s, k.waiting)
        k.held += r.nr
        k.taken += r.nr
        k.unprogrammed += r.nr
        cross(s, n >> 1, r.nr * k.link_ps, k.ack_ns)
        program(s, d)
        n = s.lists[k.waiting].head


@jit
def program(s, d):
    """Let idle dies program whole pieces of the buffer, before a flush what is left of one too."""
    k = s.ssds[d]
    dies = s.devices[d].servers
    while k.programming < dies and (k.unprogrammed >= k.piece_sectors or (k.flush != NONE and k.unprogrammed > 0)):
        k.next_die = (k.next_die + 1) % dies
        row = k.first_die + k.next_die
        die = s.dies[row]
        if die.sectors > 0:
            continue
        die.sectors = min(k.unprogrammed, k.piece_sectors)
        k.unprogrammed -= die.sectors
        k.programming += 1
        die.free_at = max(s.sim[0].now, die.free_at) + k.program_ns
        schedule(s, die.free_at, EV_PROGRAMMED, row)


@jit
def programmed(s, row):
    """A die has programmed its piece."""
    die = s.dies[row]
    d = die.dev
    k = s.ssds[d]
    k.held -= die.sectors
    k.programmed += die.sectors
    k.programming -= 1
    die.sectors = 0
    program(s, d)
    admit(s, d)
    end_flush(s, d)


@jit
def end_flush(s, d):
    """A flush is done once nothing is left in the buffer, and the tables are saved."""
    k = s.ssds[d]
    if k.flush == NONE or k.held > 0:
        return
    r = s.requests[k.flush]
    r.earliest = s.sim[0].now + s.devices[d].flush_ns
    schedule(s, r.earliest + s.sim[0].request_ns, EV_COMPLETE, k.flush)
    k.flush = NONE


@jit
def flush_over(s, d):
    """The flush is back: what stalled goes on."""
    k = s.ssds[d]
    k.flushing = 0
    admit(s, d)
    n = s.lists[k.stalled].count
    while n > 0:
        start(s, pop_front(s, k.stalled) >> 1)
        n -= 1
