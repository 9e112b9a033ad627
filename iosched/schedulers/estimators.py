"""Means that CFQ of all versions and anticipatory keep of a process, and the clock of those that count in ticks.

A sample has a weight of 1/8, 256 stands for one (spec block-layer 1.5, 2.1 and 3).
"""

from ..engine.jit import jit


@jit
def ticks(s, tunables):
    """The clock, by the scheduler's row with its `jiffy`."""
    return s.sim[0].now // tunables.jiffy


@jit
def fold_think_time(record_, length):
    """A think time."""
    record_.ttime_samples = (7 * record_.ttime_samples + 256) // 8
    record_.ttime_total = (7 * record_.ttime_total + 256 * length) // 8
    record_.ttime_mean = (record_.ttime_total + 128) // record_.ttime_samples


@jit
def fold_seek(record_, distance):
    """The distance of a request from the end of the one before."""
    record_.seek_samples = (7 * record_.seek_samples + 256) // 8
    record_.seek_total = (7 * record_.seek_total + 256 * distance) // 8
    record_.seek_mean = (record_.seek_total + record_.seek_samples // 2) // record_.seek_samples
