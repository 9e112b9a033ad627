"""What a run's counters said at equal intervals, for the views that vmstat and iostat have of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .engine.state import State

MOST_SAMPLES = 4096  # then every second one is forgotten, so that a long run needs no more memory than a short one


@dataclass(frozen=True)
class Sample:
    """The counters at one moment, `at_ns` after the jobs' beginning."""

    at_ns: int
    devices: np.recarray
    caches: np.recarray
    io_waiters: int
    io_wait_ns: int
    cpu_ns: int


class Samples:
    """The samples of a run, every `every_ns`, at its beginning and at its end.

    >>> import iosched as io
    >>> result = io.simulate(io.Machine(scheduler="noop"), io.workloads.dd(count=1), until=2.5)
    >>> [row.at_ns for row in result.samples.rows][0]
    0
    """

    def __init__(self, s: State, every_ns: int) -> None:
        self.every_ns = every_ns
        self.rows: list[Sample] = []
        self.take(s)

    @property
    def due_ns(self) -> int:
        """When the next one is due."""
        return (self.rows[-1].at_ns // self.every_ns + 1) * self.every_ns

    def take(self, s: State) -> None:
        """Keep the counters as they are now; twice at the same moment is once."""
        sim = s.sim[0]
        now = int(sim.now)
        at = now - int(sim.epoch)
        if self.rows and self.rows[-1].at_ns == at:
            return
        waiting = int(sim.io_waiters) > 0
        booked_ahead = int(np.maximum(s.processors.free_at - now, 0).sum() + s.tasks.need.sum()) if sim.cpus else 0
        self.rows.append(
            Sample(
                at,
                s.devices.copy(),
                s.caches.copy(),
                int(sim.io_waiters),
                int(sim.io_wait_ns) + (now - int(sim.io_wait_since) if waiting else 0),
                int(sim.cpu_ns) - booked_ahead,
            )
        )
        if len(self.rows) >= MOST_SAMPLES:
            self.rows = [row for row in self.rows if row.at_ns % (2 * self.every_ns) == 0]
            self.every_ns *= 2
