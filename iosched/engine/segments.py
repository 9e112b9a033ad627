"""The read-ahead of a disk: after a read it reads on into a segment of its buffer until the arm is needed elsewhere.

Nothing is simulated while it does: how far it has come follows from the platter's time when a command asks for it.
"""

from .codes import NONE
from .jit import jit
from .platter import locate, transfer, turning


@jit
def passed(s, d, sector):
    """When the running read-ahead has (or will have) everything before `sector`; 0 for what it had when it began."""
    k = s.disks[d]
    if sector <= k.ahead_from:
        return 0
    zone = s.commands[scratch(s, d)].zone
    return k.ahead_at + transfer(s, d, zone, k.ahead_from, sector, 0)


@jit
def scratch(s, d):
    """The row of `commands` that belongs to no request: where the read-ahead began."""
    return s.sim[0].n_requests + 2 * d


@jit
def begin(s, d, segment, first, stop, at):
    """A read of a segment ended at `stop`; the disk reads on from there."""
    k = s.disks[d]
    row = s.segments[segment]
    row.first = first
    row.end = stop
    k.uses += 1
    row.used = k.uses
    k.ahead = segment
    go_on(s, d, stop, at)
    k.ahead_to = min(stop + k.segment_sectors, k.sectors)


@jit
def go_on(s, d, sector, at):
    """The read-ahead passes `sector` at time `at` and goes on."""
    k = s.disks[d]
    k.ahead_from = sector
    k.ahead_at = at
    locate(s, d, scratch(s, d), sector, sector)


@jit
def least_used(s, d):
    """The segment that was not used for longest."""
    k = s.disks[d]
    best = d * k.segments_n
    for i in range(best + 1, best + k.segments_n):
        if s.segments[i].used < s.segments[best].used:
            best = i
    return best


@jit
def streams(s, d, start):
    """Does a read that begins at `start` go on where the read-ahead is?"""
    k = s.disks[d]
    return k.ahead != NONE and s.segments[k.ahead].first <= start <= k.ahead_to


@jit
def stream_until(s, d, stop):
    """When such a read has everything before `stop`: the read-ahead passes it, or begins anew where it was full."""
    k = s.disks[d]
    now = s.sim[0].now
    if stop > k.ahead_to and passed(s, d, k.ahead_to) < now:
        restart(s, d, now)
    return passed(s, d, stop)


@jit
def restart(s, d, now):
    """The segment was full and has room again: the platter has to come round."""
    k = s.disks[d]
    go_on(s, d, k.ahead_to, now)
    k.ahead_at += turning(k, s.commands[scratch(s, d)].angle, now)


@jit
def halt(s, d):
    """The arm is needed elsewhere: the segment keeps what it has, and the arm is where the read-ahead got to."""
    k = s.disks[d]
    if k.ahead == NONE:
        return
    now = s.sim[0].now
    end = k.ahead_to
    row = scratch(s, d)
    c = s.commands[row]
    if now < passed(s, d, k.ahead_to):
        z = s.zones[c.zone]
        elapsed = max(now - k.ahead_at, 0)
        if k.turn_ns > 0:
            came = elapsed * z.track_sectors // (k.turn_ns + k.track_switch_ns)
        else:
            came = elapsed * 1000 // z.sector_ps
        end = min(end, k.ahead_from + came)
    s.segments[k.ahead].end = end
    if end < k.sectors:
        locate(s, d, row, end, end)
    k.at_sector = end
    k.at_radius = c.radius
    k.at_cylinder = c.cylinder
    k.at_track = c.track
    k.ahead = NONE


@jit
def find(s, d, start, stop):
    """From where the medium has to be read for these sectors: `stop` if the buffer has them all, `start` if it has no
    beginning of them. What is taken from the segment that is being filled makes room in it."""
    k = s.disks[d]
    now = s.sim[0].now
    for i in range(d * k.segments_n, (d + 1) * k.segments_n):
        row = s.segments[i]
        if i == k.ahead:
            if row.first <= start and stop <= k.ahead_to and passed(s, d, stop) <= now:
                if passed(s, d, k.ahead_to) < now:
                    restart(s, d, now)
                row.first = start
                k.ahead_to = max(k.ahead_to, min(stop + k.segment_sectors, k.sectors))
                return stop
        elif row.first <= start < row.end:
            k.uses += 1
            row.used = k.uses
            return min(stop, row.end)
    return start


@jit
def forget(s, d, start, stop):
    """Sectors are written: no segment that has some of them is good any more."""
    k = s.disks[d]
    for i in range(d * k.segments_n, (d + 1) * k.segments_n):
        row = s.segments[i]
        end = k.ahead_to if i == k.ahead else row.end
        if row.first < stop and start < end:
            row.first = row.end = 0
            if i == k.ahead:
                k.ahead = NONE
