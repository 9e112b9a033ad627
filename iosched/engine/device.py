"""The device: how long a command takes once the driver has sent it.

A device has `servers` servers (channels) and room for `depth` commands (NCQ depth, hardware tags). null_blk serves
every command at once (servers = depth); a single server takes them one by one in the order of arrival. A command takes
a fixed time, and moving its data where the channel has a bandwidth.
"""

from .clock import schedule
from .codes import E_DEPTH, EV_COMPLETE, FLUSH, NONE
from .jit import jit
from .lists import pop_front, push_back


@jit
def service_time(s, ri):
    """Nanoseconds the device works on the request."""
    r = s.requests[ri]
    dev = s.devices[r.dev]
    if r.op == FLUSH:
        return dev.flush_ns
    return dev.completion_ns + r.nr * dev.sector_ps // 1000


@jit
def start(s, ri):
    """The driver hands the request to the device; it waits inside while all servers are busy."""
    r = s.requests[ri]
    dev = s.devices[r.dev]
    dev.in_flight += 1
    if dev.in_flight > dev.depth:
        s.sim[0].error = E_DEPTH
    if dev.busy_servers < dev.servers:
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
    dev = s.devices[s.requests[ri].dev]
    dev.in_flight -= 1
    dev.busy_servers -= 1
    n = pop_front(s, dev.server_queue)
    if n != NONE:
        serve(s, n >> 1)
