"""The event trace, written only when it was asked for. When the buffer is full, run() returns and is called again."""

from .codes import E_TRACE
from .jit import jit


@jit
def record(s, kind, task, request, place, length, cmd_flags, device):
    """Append one event. `place` is a sector (or the time an idle window ends), `length` sectors (or a reason)."""
    sim = s.sim[0]
    if sim.trace_on == 0:
        return
    if sim.trace_n >= sim.trace_rows:
        sim.error = E_TRACE
        return
    row = s.trace[sim.trace_n]
    row.at = sim.now
    row.kind = kind
    row.task = task
    row.request = request
    row.place = place
    row.length = length
    row.cmd_flags = cmd_flags
    row.dev = device
    sim.trace_n += 1
