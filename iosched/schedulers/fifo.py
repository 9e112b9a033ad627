"""noop (legacy path) and none (blk-mq): requests leave in the order in which they came (spec block-layer section 5).

noop still back-merges with anything that waits; none only looks at the newest few requests of the software queue.
One list a device, `s.devices[d].fifo`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.jit import jit
from ..engine.lists import pop_front, push_back, remove
from ..knobs import named


@named
@dataclass(frozen=True)
class Noop:
    """noop has no tunables.

    >>> Noop()
    Noop()
    """


@named
@dataclass(frozen=True)
class NoScheduler:
    """none has no tunables.

    >>> NoScheduler()
    NoScheduler()
    """


@jit
def insert(s, ri):
    """Append to the device's list."""
    push_back(s, s.devices[s.requests[ri].dev].fifo, 2 * ri)


@jit
def dispatch(s, d):
    """Oldest request, or NONE."""
    n = pop_front(s, s.devices[d].fifo)
    return n >> 1 if n >= 0 else n


@jit
def withdraw(s, ri):
    """Take a pending request out (it was merged into another)."""
    remove(s, 2 * ri)
