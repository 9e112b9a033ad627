"""Where a sector is on a disk, and how long the arm and the platter take to get there.

Zones of equal capacity run from the outer edge inwards; a zone's tracks have one length, and follow each other by head,
then by cylinder. The platter turns from time 0 on and is never drawn: its angle is the time modulo a turn. Each track
begins so much later than the one before as the switch to it takes, so that a sequential transfer never loses a turn.

"Unwound" is the platter's time that a sequential pass from the zone's first sector takes; angles and transfer times are
differences of it, so that they agree to the nanosecond. A device without moving parts has turns of 0 ns.
"""

import math

from .codes import READ, WRITE
from .jit import jit

RADIUS = 1 << 30  # the arm's whole way
COARSE = 6  # bits: places of the arm are kept to 64 sectors, so that their product with RADIUS leaves no 64 bits
MULTIPLIER, MODULUS = 48_271, 2_147_483_647  # Park and Miller's generator


@jit
def unwound(k, z, sectors, track):
    """Platter time from the zone's first sector to where `sectors` of it have passed, the last of them in `track`."""
    if k.turn_ns == 0:
        return sectors * z.sector_ps // 1000
    cylinder = track // k.heads
    head = track - cylinder * k.heads
    whole = k.heads * k.turn_ns + (k.heads - 1) * k.head_switch_ns + k.track_switch_ns
    within = (sectors - track * z.track_sectors) * z.sector_ps // 1000
    return cylinder * whole + head * (k.turn_ns + k.head_switch_ns) + within


@jit
def locate(s, d, row, start, stop):
    """Note in a row of `commands` where the sectors from `start` to `stop` begin."""
    k = s.disks[d]
    c = s.commands[row]
    zone = 0
    while zone + 1 < k.zones_n and start >= s.zones[zone + 1].first:
        zone += 1
    z = s.zones[zone]
    inside = start - z.first
    track = inside // z.track_sectors
    c.start = start
    c.stop = stop
    c.zone = zone
    c.cylinder = z.cylinder + track // k.heads
    c.track = c.cylinder * k.heads + track % k.heads
    c.radius = z.radius + (inside >> COARSE) * z.radius_span // (z.sectors >> COARSE)
    if k.turn_ns > 0:
        c.angle = (z.unwound + unwound(k, z, inside, track)) % k.turn_ns


@jit
def transfer(s, d, zone, start, stop, op):
    """Nanoseconds in which the sectors pass the head, switches between their tracks included."""
    k = s.disks[d]
    if op == WRITE and k.write_ps > 0:
        return (stop - start) * k.write_ps // 1000
    z = s.zones[zone]
    first = start - z.first
    last = stop - z.first
    return unwound(k, z, last, (last - 1) // z.track_sectors) - unwound(k, z, first, first // z.track_sectors)


@jit
def turning(k, angle, at):
    """How long the platter takes from time `at` until it stands at `angle`."""
    if k.turn_ns == 0:
        return 0
    return (angle - at) % k.turn_ns


@jit
def moving(k, c):
    """How long the arm takes: nothing within a track or where it goes on, a head switch within a cylinder, else the
    seek curve of the distance."""
    if c.start == k.at_sector or c.track == k.at_track:
        return 0
    if c.cylinder == k.at_cylinder:
        return k.head_switch_ns
    distance = abs(c.radius - k.at_radius)
    return k.settle_ns + int(k.root_ns * math.sqrt(distance / RADIUS)) + k.linear_ns * distance // RADIUS


@jit
def arrival(k, c, at, op, stopped):
    """When an arm that sets out at time `at` is over the first sector. What goes on where the last transfer stopped,
    `stopped` ns ago, may do so without the platter (`read_grace_us`, `write_grace_us`)."""
    if c.start == k.at_sector and stopped < (k.read_grace_ns if op == READ else k.write_grace_ns):
        return at
    at += moving(k, c)
    if k.drawn_delay != 0:
        return at
    return at + turning(k, c.angle, at)


@jit
def drawn(k):
    """A rotational delay drawn at random."""
    k.generator = k.generator * MULTIPLIER % MODULUS
    return k.generator * k.turn_ns // MODULUS


@jit
def park(s, d, row, stop):
    """The arm is where the row's sectors end."""
    k = s.disks[d]
    c = s.commands[row]
    if stop < k.sectors:
        locate(s, d, row, stop, stop)
    k.at_sector = stop
    k.at_radius = c.radius
    k.at_cylinder = c.cylinder
    k.at_track = c.track
