"""All operations of a run, and all points of a grid, under BFQ: every turn is taken, none is guessed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ..engine.jit import entry, jit
from .bfq_state import SECTORS, WAITED
from .bfq_turns import begin, turn, walk


@partial(entry, sources=sorted(Path(__file__).parent.glob("bfq_*.py")))
def run_points(points, steps, state, queues, counts):
    """Every point of a grid: `counts` is its answer, `state` and `queues` its scratch paper."""
    for k in range(len(points)):
        run_point(points[k], state[k], queues[k], counts[k], steps[k])


@jit
def run_point(p, c, q, n, steps):
    """Count what happens in the operations of one point, and in what follows the last; not in the `skipped` first."""
    now = begin(p, c, q, n, steps)
    forget(n)
    for _ in range(p.reads):
        now = turn(p, c, q, n, 0, SECTORS, p.read_ns, now) + p.wakeup
    for done in range(p.count):
        if done > 0 and done == p.skipped:
            forget(n)
        now = walk(p, c, q, n, steps, p.mount, p.loop, now)
    walk(p, c, q, n, steps, p.loop, p.tail, now)


@jit
def forget(n):
    """Count from here on."""
    for k in range(2):
        for column in range(WAITED + 1):
            n[k, column] = 0
