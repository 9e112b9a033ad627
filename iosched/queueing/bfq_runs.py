"""All operations of a run, and all points of a grid, under BFQ: every turn is taken, none is guessed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ..engine.codes import NONE
from ..engine.jit import entry, jit
from .bfq_state import SECTORS, WAITED
from .bfq_turns import begin, turn, walk


@partial(entry, sources=sorted(Path(__file__).parent.glob("bfq_*.py")))
def run_points(points, steps, load, state, counts, sums):
    """Every point of a grid: `counts` is its answer, of a `load` (dbench's, else empty) also `sums`; `state` is
    scratch paper."""
    for k in range(len(points)):
        p = points[k]
        n = counts[k]
        now = begin(p, state[k], n, steps[k])
        forget(n)
        stop = now - p.start + p.stop
        for _ in range(p.reads):
            now = turn(p, state[k], n, 0, SECTORS, p.read_ns, now) + p.wakeup
        if len(load) > 0:
            run_load(p, state[k], n, steps[k], load, sums[k], now, stop)
        else:
            run_writes(p, state[k], n, steps[k], now)


@jit
def run_writes(p, c, n, steps, now):
    """dd: count what happens in its operations but the `skipped` first, and in what follows the last."""
    for done in range(p.count):
        if done > 0 and done == p.skipped:
            forget(n)
        now = walk(p, c, n, steps, p.mount, p.loop, now)
    walk(p, c, n, steps, p.loop, p.tail, now)


@jit
def run_load(p, c, n, steps, load, sums, now, stop):
    """A dbench client: count from the warm-up's end to the first flush that ends behind `stop`. A page written again
    within a timer tick leaves nothing to commit, then only the device's cache is flushed."""
    counting = stop - p.stop + p.counting
    counts = False
    tick = NONE
    k = 0
    while now < stop:
        if not counts and now >= counting:
            counts = True
            forget(n)
            sums.flushes = sums.commits = sums.operations = sums.counted = 0
        flush = load[k]
        k = (k + 1) % len(load)
        now += flush.operations * p.operation
        before = tick
        tick = now // p.jiffy
        c.data = flush.data
        c.log = flush.log
        now = walk(p, c, n, steps, p.mount, p.data, now)
        if p.metadata != 0 and (flush.rewrite == 0 or flush.sets_time != 0 or tick != before):
            now = walk(p, c, n, steps, p.data, p.loop, now)
            sums.commits += 1
        else:
            now = walk(p, c, n, steps, p.loop, p.tail, now)
        sums.flushes += 1
        sums.operations += flush.operations
        sums.counted += flush.counted
    sums.elapsed = now - counting


@jit
def forget(n):
    """Count from here on."""
    for k in range(2):
        for column in range(WAITED + 1):
            n[k, column] = 0
