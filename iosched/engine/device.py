"""The device: how long a command takes once the driver has sent it.

A device has `servers` servers (channels) and room for `depth` commands (NCQ depth, hardware tags). null_blk serves
every command at once (servers = depth); a single server takes them one by one in the order of arrival. A command takes
a fixed time or an exponential one, and moving its data where the channel has a bandwidth. A disk (`engine/disk.py`) and
an SSD (`engine/ssd.py`) have a time of their own for each.
"""

import math

from . import disk, ssd
from .clock import schedule
from .codes import E_DEPTH, EV_COMPLETE, FLUSH, NONE, READ, WRITE
from .jit import jit
from .lists import push_back, remove
from .platter import MODULUS, MULTIPLIER


@jit
def service_time(s, ri):
    """Nanoseconds the device works on the request."""
    r = s.requests[ri]
    dev = s.devices[r.dev]
    if r.op == FLUSH:
        return dev.flush_ns
    if dev.generator != 0:
        dev.generator = dev.generator * MULTIPLIER % MODULUS
        return round(-dev.completion_ns * math.log(dev.generator / MODULUS))
    return dev.completion_ns + r.nr * (dev.write_ps if r.op == WRITE else dev.sector_ps) // 1000


@jit
def has_room(dev):
    """May the driver send another command? Not beside a flush that is not queueable (spec block-layer section 8)."""
    return dev.in_flight < dev.depth and dev.exclusive == 0


@jit
def must_wait(s, ri):
    """Such a flush is sent once every other command is back."""
    r = s.requests[ri]
    dev = s.devices[r.dev]
    return r.op == FLUSH and dev.flush_exclusive != 0 and dev.in_flight > 0


@jit
def start(s, ri):
    """The driver hands the request to the device; it waits inside while all servers are busy."""
    r = s.requests[ri]
    dev = s.devices[r.dev]
    dev.in_flight += 1
    if dev.in_flight > dev.depth:
        s.sim[0].error = E_DEPTH
    if r.op == FLUSH:
        dev.exclusive = dev.flush_exclusive
    if dev.disk != 0:
        disk.start(s, ri)
    elif dev.ssd != 0:
        ssd.start(s, ri)
    elif dev.busy_servers < dev.servers:
        serve(s, ri)
    else:
        push_back(s, dev.server_queue, 2 * ri)


@jit
def serve(s, ri):
    """A server begins. The interrupt and the driver's part (`request_ns`) pass before the block layer learns of it."""
    r = s.requests[ri]
    dev = s.devices[r.dev]
    sim = s.sim[0]
    dev.busy_servers += 1
    length = service_time(s, ri)
    dev.served_ns += length
    r.earliest = sim.now + length
    schedule(s, sim.now + length + sim.request_ns, EV_COMPLETE, ri)


@jit
def finish(s, ri):
    """The command is back: its server takes the next one that waits inside the device."""
    r = s.requests[ri]
    dev = s.devices[r.dev]
    dev.in_flight -= 1
    if r.op == FLUSH:
        dev.exclusive = 0
        if dev.ssd != 0:
            ssd.flush_over(s, r.dev)
    if dev.disk != 0 or dev.ssd != 0:
        return
    dev.busy_servers -= 1
    n = s.lists[dev.server_queue].head
    if n != NONE:
        n = next_waiting(s, r.dev, n)
        remove(s, n)
        serve(s, n >> 1)


@jit
def next_waiting(s, d, oldest):
    """Which command a free server takes: the oldest, or on a device that prefers reads the oldest read."""
    n = oldest
    while s.devices[d].reads_first != 0 and n != NONE:
        if s.requests[n >> 1].op == READ:
            return n
        n = s.nodes[n].next
    return oldest
