"""What dbench prints at its end: a table of its operations, and the throughput.

The model knows of the operations between two flushes how many there are (from the load) and what they cost on average
(the host's CPU); which of them are opens, reads or closes is known of the shipped loads as a whole
(`data/dbench_operations.csv`), so a run is given its share of each.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .data import data_file
from .engine import codes as c
from .workloads import Dbench

if TYPE_CHECKING:
    import pandas as pd

    from .result import Result

NS = 1e-9
FLUSH, OTHERS = "Flush", "(others)"
COLUMNS = ("operation", "count", "latency_mean_s", "latency_max_s")


@cache
def kinds_of(load: str | Path | None) -> dict[str, int]:
    """How many of each operation a shipped load has besides its flushes, in dbench's order; empty for other loads.

    >>> kinds_of(None)["Rename"]
    3355
    """
    with data_file("dbench_operations.csv").open(newline="", encoding="utf-8") as f:
        return {row["operation"]: int(row["count"]) for row in csv.DictReader(f) if row["load"] == (load or "client")}


def shares_of(load: str | Path | None, operations: int) -> dict[str, float]:
    """Share of each operation among those of a load that are not flushes, of which it has so many."""
    kinds = kinds_of(load)
    known = sum(kinds.values())
    total = max(operations, known, 1)
    return {kind: n / total for kind, n in {**kinds, OTHERS: total - known}.items()}


def dbench_table(result: Result) -> pd.DataFrame:
    """One row an operation, all clients together: operation, count, latency_mean_s, latency_max_s (seconds)."""
    import pandas as pd

    counts: dict[str, float] = {}
    outside = done = flushes = latency = worst = 0
    for task, job in enumerate(result.scenario.jobs):
        if not isinstance(job, Dbench):
            continue
        t = result.state.tasks[task]
        load = result.state.steps.operations[int(t.first_step) : int(t.first_step + t.n_steps)]
        # a client that was cut off is in the middle of a step
        own = operations_done(load, int(t.step) - int(t.state != c.T_DONE), int(t.done_ops))
        for kind, share in shares_of(job.load, int(load.sum()) - len(load)).items():
            counts[kind] = counts.get(kind, 0.0) + share * (own - int(t.done_ops))
        done, flushes = done + own, flushes + int(t.done_ops)
        outside += max(round(result.job_elapsed(task) / NS) - int(t.latency_sum), 0)
        latency, worst = latency + int(t.latency_sum), max(worst, int(t.latency_max))
    mean = outside * NS / done if done else np.nan
    rows = [(kind, round(n), mean, np.nan) for kind, n in counts.items() if round(n) > 0]
    if flushes:
        rows.append((FLUSH, flushes, latency * NS / flushes, worst * NS))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def operations_done(load: np.ndarray, last: int, steps: int) -> int:
    """Operations of the `steps` steps of a load, gone through again and again, that ended with step `last`.

    >>> operations_done(np.array([10, 2, 3]), 1, 4)
    17
    """
    rounds, rest = divmod(steps, len(load))
    return rounds * int(load.sum()) + int(np.take(load, range(last - rest + 1, last + 1), mode="wrap").sum())


def dbench_lines(table: pd.DataFrame, bytes_per_s: float, clients: int) -> list[str]:
    """dbench's own lines of such a table; "-" where the model does not know a latency."""
    lines = [f" {'Operation':<12}{'Count':>8}{'AvgLat':>10}{'MaxLat':>10}", f" {'-' * 40}"]
    for row in table.itertuples():
        mean, most = ("-" if np.isnan(s) else f"{1e3 * s:.3f}" for s in (row.latency_mean_s, row.latency_max_s))
        lines.append(f" {row.operation:<12}{row.count:>8}{mean:>10}{most:>10}")
    worst = 1e3 * float(np.nan_to_num(table.latency_max_s).max(initial=0.0))
    throughput = f"Throughput {bytes_per_s * 1e-6:g} MB/sec"
    return [*lines, "", f"{throughput}  {clients} clients  {clients} procs  max_latency={worst:.3f} ms"]
