"""A reader beside a buffered writer, watched as `vmstat 1` does: what crossed the disk in each second; and the reader's
latencies in fio's groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..engine import codes as c
from ..engine.loop import run
from ..laws import check_laws
from ..programs import compile_scenario
from ..result import Result
from ..scenario import Machine, Scenario
from ..tools import bin_middle
from ..workloads import Job

if TYPE_CHECKING:
    import pandas as pd

READER, WRITER = 0, 1
LONGEST_S = 150.0
EMPTY_MBs = 0.5  # a second in which less is written shows no data pages: the journal's few blocks are not looked for
BUCKETS_MS = (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000)  # upper ends of fio's "lat (msec)" groups above 1 ms


@dataclass(frozen=True)
class Mix:
    """What came out: the run's `result`; `seconds`, one row an interval with the columns second (its end), read_MBs,
    written_MBs, dirty (more than the background limit), both (reader and writer still run), cached_MB (what a disk's
    write cache holds)."""

    result: Result
    seconds: pd.DataFrame

    @property
    def together(self) -> pd.DataFrame:
        """The intervals in which both want the disk: the reader runs, and the flusher has something to write, or has
        begun to (a flusher that keeps up stands at the background limit)."""
        rows = self.seconds
        from_then = rows[(rows.dirty | (rows.written_MBs > EMPTY_MBs)).cumsum() > 0]
        wanted = from_then[from_then.both]
        return wanted if len(wanted) else rows

    @property
    def reader_MBs(self) -> float:
        """What the reader got beside the writer."""
        return float(self.together.read_MBs.mean())

    @property
    def writer_MBs(self) -> float:
        """What reached the device of the writer's data beside the reader (not what it put into memory)."""
        return float(self.together.written_MBs.mean())

    def without_writes(self) -> float:
        """The share of the reader's seconds in which nothing was written: vmstat's bo is 0."""
        whole = self.seconds.written_MBs.groupby(np.ceil(self.seconds.second - 1e-9)).mean()
        return float((whole < EMPTY_MBs).mean())

    def buckets(self) -> dict[int, float]:
        """Percent of the reader's operations in each of fio's latency groups above 1 ms, by its upper end in ms."""
        return latency_buckets(self.result)

    def slower_than(self, ms: int) -> float:
        """Percent of the reader's operations that took longer; `ms` is 1 or the end of a bucket."""
        return sum(share for end, share in self.buckets().items() if end > ms)


def latency_buckets(result: Result, job: int = READER) -> dict[int, float]:
    """Percent of a job's operations in each of fio's groups above 1 ms (see `iosched.tools.fio_latency`)."""
    counts = result.histogram(job)
    group = np.searchsorted((1, *BUCKETS_MS), bin_middle(np.arange(len(counts))) * 1e-6)
    total = max(int(counts.sum()), 1)
    return {ms: 100 * float(counts[group == k + 1].sum()) / total for k, ms in enumerate(BUCKETS_MS)}


def watch(
    machine: Machine, jobs: Sequence[Job], *, step_s: float = 0.25, until_s: float = LONGEST_S, operations: int = 0
) -> Mix:
    """Run until the first job has ended (or has done `operations`), or for `until_s`, looking every `step_s`.

    >>> import iosched as io
    >>> reader = io.workloads.sequential_reader(size="8M", loops=1)
    >>> float(watch(io.Machine(device=io.devices.sata()), [reader]).seconds.written_MBs.sum())
    0.0
    """
    import pandas as pd

    scenario = Scenario(machine, jobs)
    s = compile_scenario(scenario)
    sim, device, cache, first = s.sim[0], s.devices[0], s.caches[0], s.tasks[0]
    rows: list[tuple[float, float, float, bool, bool, float]] = []
    before = np.zeros(3)
    while True:
        stop = run(s, int(sim.epoch) + round((len(rows) + 1) * step_s * c.SEC), c.NEVER)
        now = np.array([(int(sim.now) - int(sim.epoch)) * 1e-9, device.sectors_read, device.sectors_written])
        length, read, written = now - before
        before = now
        both = all(int(s.tasks[i].state) != c.T_DONE for i in range(len(scenario.jobs)))
        if length > 0:
            held = int(s.disks[0].held) * 512e-6 if device.disk else 0.0
            rates = (read * 512e-6 / length, written * 512e-6 / length)
            rows.append((float(now[0]), *rates, int(cache.dirty) > int(cache.background), both, held))
        ended = int(first.state) == c.T_DONE or (operations and int(first.done_ops) >= operations)
        if ended or stop != c.STOP_TIME or now[0] >= until_s:
            break
    check_laws(s, stop)
    columns = ["second", "read_MBs", "written_MBs", "dirty", "both", "cached_MB"]
    return Mix(Result(scenario, s), pd.DataFrame(rows, columns=columns))


__all__ = ["BUCKETS_MS", "Mix", "latency_buckets", "watch"]
