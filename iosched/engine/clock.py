"""Events and timers: what happens next.

The heap holds (time, sequence, kind, index) rows; ties resolve by sequence, so the order of a run is defined. Sifting
moves a hole instead of swapping rows. Timers that are cancelled all the time (an idle timer is armed three times a
write) are not in the heap: each (device, kind) has one row whose time is NEVER while it is off.
"""

from .codes import NEVER, NONE, TIMERS_PER_DEVICE
from .jit import jit


@jit
def schedule(s, at, kind, index):
    """Put an event into the heap at time `at` (ns)."""
    sim = s.sim[0]
    sim.seq += 1
    hole = sim.heap_n
    sim.heap_n += 1
    heap = s.heap
    while hole > 0:
        parent = (hole - 1) >> 1
        p = heap[parent]
        if p.at <= at:
            break
        h = heap[hole]
        h.at = p.at
        h.seq = p.seq
        h.kind = p.kind
        h.index = p.index
        hole = parent
    h = heap[hole]
    h.at = at
    h.seq = sim.seq
    h.kind = kind
    h.index = index


@jit
def drop_first(s):
    """Remove the heap's first row."""
    sim = s.sim[0]
    sim.heap_n -= 1
    n = sim.heap_n
    if n == 0:
        return
    heap = s.heap
    last = heap[n]
    at = last.at
    seq = last.seq
    hole = 0
    child = 1
    while child < n:
        c = heap[child]
        if child + 1 < n:
            r = heap[child + 1]
            if r.at < c.at or (r.at == c.at and r.seq < c.seq):
                child += 1
                c = r
        if at < c.at or (at == c.at and seq < c.seq):
            break
        h = heap[hole]
        h.at = c.at
        h.seq = c.seq
        h.kind = c.kind
        h.index = c.index
        hole = child
        child = 2 * hole + 1
    h = heap[hole]
    h.at = at
    h.seq = seq
    h.kind = last.kind
    h.index = last.index


@jit
def arm(s, d, kind, at):
    """Start (or move) the timer `kind` of device `d`."""
    sim = s.sim[0]
    sim.seq += 1
    timer = s.timers[d * TIMERS_PER_DEVICE + kind]
    timer.at = at
    timer.seq = sim.seq


@jit
def cancel(s, d, kind):
    """Turn the timer off."""
    s.timers[d * TIMERS_PER_DEVICE + kind].at = NEVER


@jit
def first_timer(s):
    """Row of the timer that fires first, or NONE when all are off."""
    best = NONE
    best_at = NEVER
    best_seq = 0
    for i in range(s.sim[0].n_timers):
        timer = s.timers[i]
        if timer.at < best_at or (timer.at == best_at and best != NONE and timer.seq < best_seq):
            best = i
            best_at = timer.at
            best_seq = timer.seq
    return best


@jit
def armed(s, d, kind):
    """Is the timer running?"""
    return s.timers[d * TIMERS_PER_DEVICE + kind].at != NEVER
