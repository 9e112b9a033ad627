"""Which of two pending requests to serve next: a one-way elevator that may step back a little.

The rule is CFQ's (spec block-layer 1.9) and BFQ's (spec bfq 1.7) alike; they differ in the flag that goes first.
"""

from ..engine.jit import jit
from ..engine.requests import is_sync


@jit
def better_request(s, tunables, a, b, last, favoured):
    """The better of requests `a` and `b`, seen from head position `last`: sync before async, then the one with the flag
    `favoured`, then the nearer. `tunables` is the scheduler's row with its back_seek_max and back_seek_penalty."""
    ra = s.requests[a]
    rb = s.requests[b]
    sync_a = is_sync(ra.op, ra.cmd_flags)
    if sync_a != is_sync(rb.op, rb.cmd_flags):
        return a if sync_a else b
    first_a = (ra.cmd_flags & favoured) != 0
    if first_a != ((rb.cmd_flags & favoured) != 0):
        return a if first_a else b
    da, wrap_a = head_distance(ra.sector, last, tunables)
    db, wrap_b = head_distance(rb.sector, last, tunables)
    if wrap_a != wrap_b:
        return b if wrap_a else a
    if wrap_a:
        return a if ra.sector <= rb.sector else b
    if da != db:
        return a if da < db else b
    return a if ra.sector >= rb.sector else b


@jit
def head_distance(sector, last, tunables):
    """(distance in sectors, wraps?): backwards costs `back_seek_penalty` times, and too far back counts as wrapped."""
    if sector >= last:
        return sector - last, False
    if sector + tunables.back_seek_max >= last:
        return (last - sector) * tunables.back_seek_penalty, False
    return 0, True
