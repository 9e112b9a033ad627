"""Hold the simulator against a table of real-kernel runs.

`validate_kernel(FILE)` fits the host costs of each machine on the table's own noop and none rows (or takes the shipped
ones, fitted on the same kind of rows), predicts every row, and says how far off it is and what it could not simulate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import ScenarioError
from .host import Host, fitted_host
from .measure.hostfit import fit_dbench, fit_host, simulated_metric
from .measure.kernel_rows import KernelRun, Unmodelled, measured_on, read_kernel_csv
from .schedulers import SCHEDULERS

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Comparison:
    """Measured against simulated, row by row.

    `rows` are dicts with run_id, role (whose figure, where a run has several parties), metric, measured, simulated,
    error (signed fraction), scheduler, kernel and fitted (whether the host costs were fitted to this very row).
    `skipped` are dicts with run_id and reason. `hosts` says, for
    each (kernel, device), which host was used and where it comes from.
    """

    rows: list[dict[str, Any]]
    skipped: list[dict[str, str]]
    hosts: dict[tuple[str, str], tuple[Host, str]] = field(default_factory=dict)

    def errors(self) -> np.ndarray:
        """Absolute relative errors, as fractions."""
        return np.array([abs(row["error"]) for row in self.rows])

    def summary(self, worst: int = 10) -> dict[str, Any]:
        """The JSON form: compared, skipped, median, p90, p95 (None if nothing was compared) and the worst rows."""
        errors = self.errors()
        percentile = (lambda p: float(np.percentile(errors, p))) if len(errors) else (lambda p: None)
        keys = ("run_id", "role", "metric", "measured", "simulated", "error")
        ordered = sorted(self.rows, key=lambda row: -abs(row["error"]))[:worst]
        return {
            "compared": len(self.rows),
            "skipped": self.skipped,
            "median": percentile(50),
            "p90": percentile(90),
            "p95": percentile(95),
            "worst": [{k: row[k] for k in keys} for row in ordered],
        }

    def frame(self) -> pd.DataFrame:
        """The compared rows as a table."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def _by_kernel(self) -> list[str]:
        """One line a (kernel, scheduler): rows, median and 95th percentile of the error."""
        found: dict[tuple[str, str], list[float]] = {}
        for row in self.rows:
            found.setdefault((row["kernel"], row["scheduler"]), []).append(abs(row["error"]))
        return [
            f"  {kernel} {scheduler}: {len(e)} rows, median {np.median(e):.2%}, 95th {np.percentile(e, 95):.2%}"
            for (kernel, scheduler), e in sorted(found.items())
        ]

    def __str__(self) -> str:
        s = self.summary()
        if not s["compared"]:
            text = "compared 0 rows"
        else:
            text = (
                f"compared {s['compared']} rows: relative error median {s['median']:.2%}, 90th percentile "
                f"{s['p90']:.2%}, 95th {s['p95']:.2%}"
            )
        lines = [text]
        lines += [f"  host {kernel} {device}: {origin}" for (kernel, device), (_, origin) in self.hosts.items()]
        lines += self._by_kernel()
        lines += [
            f"  {row['error']:+8.2%}  measured {row['measured']:.1f}  simulated {row['simulated']:.1f}  {row['run_id']}"
            + f" {row['role']}" * bool(row["role"])
            for row in s["worst"]
        ]
        reasons: dict[str, int] = {}
        for row in self.skipped:
            reasons[row["reason"]] = reasons.get(row["reason"], 0) + 1
        lines += [f"  skipped {n}: {reason}" for reason, n in sorted(reasons.items(), key=lambda kv: -kv[1])]
        return "\n".join(lines)


def validate_kernel(
    path: str | Path, *, keep: Callable[[KernelRun], bool] | None = None, progress: bool = False
) -> Comparison:
    """Compare every run of a CSV table (the columns of `data/kernel/`) with its simulation.

    `keep` selects runs. Raises ScenarioError if the file is not such a table.
    """
    runs, skipped = read_kernel_csv(path)
    if keep is not None:
        runs = [run for run in runs if keep(run)]
        skipped = []
    return compare(runs, skipped, progress=progress)


def in_scope(run: KernelRun) -> bool:
    """Is the run on a scheduler and a device that this version models?"""
    return run.conditions["scheduler"] in SCHEDULERS and run.conditions["device"] in ("null_blk", "scsi_debug")


def compare(
    runs: list[KernelRun], skipped: list[dict[str, str]] | None = None, *, progress: bool = False
) -> Comparison:
    """Fit hosts where the runs allow it, then simulate each run."""
    from tqdm.auto import tqdm

    hosts = hosts_for(runs)
    rows: list[dict[str, Any]] = []
    skipped = list(skipped or [])
    for run in tqdm(runs, disable=not progress, unit="run", leave=False):
        host, origin = hosts.get(run.machine_key, (None, ""))
        if host is None:
            skipped.append({"run_id": run.run_id, "reason": origin})
            continue
        try:
            simulated = simulated_metric(run, host)
        except Unmodelled as reason:
            skipped.append({"run_id": run.run_id, "reason": str(reason)})
            continue
        rows.append(
            {
                "run_id": run.run_id,
                "role": run.conditions.get("role", ""),
                "metric": run.metric,
                "measured": run.measured,
                "simulated": simulated,
                "error": simulated / run.measured - 1,
                "scheduler": run.conditions["scheduler"],
                "kernel": run.conditions["kernel"],
                "fitted": "fitted on" in origin and fitted_to(run),
            }
        )
    return Comparison(rows, skipped, hosts)


def fitted_to(run: KernelRun) -> bool:
    """Did the row itself set host costs, where its table had such rows?"""
    return run.never_idles if run.metric == "throughput_MBs" else run.without_scheduler


def hosts_for(runs: list[KernelRun]) -> dict[tuple[str, str], tuple[Host | None, str]]:
    """The host of each (kernel, device) among the runs: fitted on its noop and none rows, else the shipped one."""
    hosts: dict[tuple[str, str], tuple[Host | None, str]] = {}
    for key in measured_on(runs):
        try:
            shipped = fitted_host(key[0])
        except ScenarioError as error:
            hosts[key] = (None, str(error))
            continue
        own = [run for run in runs if run.machine_key == key]
        if own[0].on_disk:
            hosts[key] = (shipped, "shipped (data/hosts.csv), a disk's places hide what the host costs")
            continue
        try:
            if own[0].metric == "throughput_MBs":
                host, largest, used = fit_dbench(own, shipped)
                hosts[key] = (host, f"CPU of dbench fitted on its {used} rows without idling, within {largest:.1%}")
                continue
            host, largest = fit_host(own, shipped)
            used = sum(run.without_scheduler for run in own)
            hosts[key] = (host, f"fitted on its {used} noop and none rows, within {largest:.1%}")
        except ScenarioError:
            hosts[key] = (shipped, "shipped (data/hosts.csv), the table has no usable noop or none row of writes")
    return hosts


__all__ = ["Comparison", "compare", "in_scope", "validate_kernel"]
