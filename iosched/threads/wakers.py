"""Thread 1, rule by rule: which waker rules each version has, and what each does to dbench on the thread's machine.

Only the BFQ changes from run to run (`BFQ(kernel=...)`): kernel, device and host costs are those of `dbench.machine`,
which no real machine can do. Rules: spec bfq section 2.1; the table comes from the rules that are simulated.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from ..data import data_file
from ..engine.codes import NONE
from ..errors import ScenarioError
from ..measure.kernel_rows import SECOND
from ..result import Result
from ..scenario import Machine
from ..schedulers import BFQ, WakerRules, waker_rules
from ..schedulers.bfq_versions import PATCHES, WAKERS
from ..simulation import simulate
from ..workloads import Dbench
from . import claims
from .dbench import FLUSH_BYTES, FULL_SPEED, LAST_SECONDS, VANILLA, scenario

if TYPE_CHECKING:
    import pandas as pd

# every version that has rules of its own, oldest first; 4.19, the oldest BFQ here, has none
VERSIONS = [
    name
    for since in WAKERS
    for name in (["4.19"] if since == "4.0" else [since])
    + ([VANILLA, *(VANILLA + patch for patch in PATCHES)] if since == "5.3" else [])
]
PUBLISHED = {"bfq": "5.6", "bfq + patches 1 and 2": "both patches"}  # experiment -> words
MEASURED_RUN = "L600w0r1kid_bfq_kid_ll1_r1"  # of real 5.6.4 kernels: child cgroup, defaults, 600 us


def rules_of_versions(versions: Iterable[str] = ()) -> pd.DataFrame:
    """The waker rules as a table: one row a rule, one column a version (all of `VERSIONS` if none is named).

    >>> rules_of_versions(["5.6.4", "5.6.4+p1"]).loc["selection"].tolist()
    ['own request', "waker's request"]
    """
    import pandas as pd

    def words(rules: WakerRules, name: str) -> Any:
        value = getattr(rules, name)
        if not rules.detect and name not in ("detect", "selection"):
            return "-"  # there is no waker that it could concern
        return ("no", "yes")[value] if isinstance(value, bool) else value

    columns = {
        version: {f.name: words(waker_rules(version), f.name) for f in fields(WakerRules)}
        for version in versions or VERSIONS
    }
    return pd.DataFrame(columns, dtype=object)


def published() -> dict[str, tuple[float, float]]:
    """Label and range, bytes/s, of the two throughputs that the thread gives, as its claims allow them.

    >>> [round(low * 1e-6) for low, _ in published().values()]
    [67, 190]
    """
    return {
        f"published, {PUBLISHED[c.experiment]}: {c.low:g} MB/s (±{c.tolerance:.0%})".replace("%", " %"): (
            1e6 * c.low / (1 + c.tolerance),
            1e6 * c.low * (1 + c.tolerance),
        )
        for c in claims("dbench")
        if c.quantity == "throughput" and c.experiment in PUBLISHED
    }


def published_times() -> list[tuple[float, float]]:
    """(low, high) of the seconds from fsync to fsync, for each of `published`.

    >>> [round(1e3 * (low * high) ** 0.5, 2) for low, high in published_times()]
    [5.6, 2.24]
    """
    return [(FLUSH_BYTES / high, FLUSH_BYTES / low) for low, high in published().values()]


def published_idles() -> float:
    """Idle windows of slice_idle that the two published throughputs put between an fsync of the one and of the other.

    >>> round(published_idles(), 2)
    0.42
    """
    slow, fast = ((low * high) ** 0.5 for low, high in published_times())
    return (slow - fast) / 8e-3


def thread_machine(version: str = VANILLA, rules: WakerRules | None = None) -> tuple[Machine, Dbench]:
    """The thread's machine under the BFQ of a version (with rules of your own, if given), and its dbench."""
    base, job = scenario("bfq")
    return replace(base, scheduler=BFQ(kernel=version, waker_rules=rules)), job


def counted(machine: Machine, job: Dbench) -> Result:
    """A traced run whose idle windows and time budget are those of the seconds that dbench counts.

    >>> result = counted(*thread_machine("5.6.4+p1p2"))
    >>> 2.1e-3 < float(result.time_budget.per_op_s.sum()) < 2.4e-3
    True
    """
    result = simulate(machine, job, trace=True)
    return result.since(simulate(machine, job, until=job.warmup_s)) if job.warmup_s else result


@cache
def under(version: str) -> Result:
    """The thread's dbench under the BFQ of a version (kept)."""
    return counted(*thread_machine(version))


def last_seconds(result: Result) -> float:
    """MB/s in the last seconds that count, when what the run begins with is over."""
    frame = result.course
    runtime = int(result.scenario.jobs[0].runtime)
    return float(frame.bytes_per_s[frame.counted].to_numpy()[:runtime][-LAST_SECONDS:].mean() * 1e-6)


def closes_the_gap(result: Result) -> bool:
    """As fast, in its last seconds, as with both patches?"""
    return last_seconds(result) >= FULL_SPEED * last_seconds(under(VANILLA + "+p1p2"))


def table_of(results: dict[str, Result]) -> pd.DataFrame:
    """Rows of rule, MB_s, last_MB_s and idles (windows waited out in an fsync), for `plots.rates`."""
    import pandas as pd

    return pd.DataFrame(
        [
            {"rule": name, "MB_s": r.throughput_MBs, "last_MB_s": last_seconds(r), "idles": r.idles_per_op}
            for name, r in results.items()
        ]
    )


def found_wakers(result: Result) -> dict[str, str | None]:
    """Who is whose waker at the end of a run under BFQ: name of a process -> name of its waker, or None.

    >>> found_wakers(under("5.6.4"))
    {'dbench': 'jbd2', 'jbd2': 'dbench'}
    """
    queues = result.state.bfq_queues
    live = [q for q in queues if q.used and q.sync]
    return {
        result.task_name(int(q.task)): result.task_name(int(queues[q.waker].task)) if q.waker != NONE else None
        for q in sorted(live, key=lambda q: int(q.task))
    }


def measured_course(kernel: str, run_id: str) -> list[float]:
    """What a real kernel did in each counted second of a run of `data/kernel/dbench.csv`, MB/s.

    Raises ScenarioError for a run without such rows.

    >>> [round(rate) for rate in measured_course("5.6.4", "L600w0r1kid_bfq_kid_ll1_r1")][:4]
    [229, 229, 96, 39]
    """
    with data_file("kernel/dbench.csv").open(newline="", encoding="utf-8") as f:
        rows = [r for r in csv.DictReader(f) if (r["kernel"], r["run_id"]) == (kernel, run_id)]
    rows = sorted((r for r in rows if SECOND.fullmatch(r["role"])), key=lambda r: int(r["role"][1:]))
    found = [float(r["interval_throughput_MBs"]) for r in rows]
    if not found:
        raise ScenarioError(f"run_id: {run_id!r} of kernel {kernel} has no rows second by second in kernel/dbench.csv.")
    return found


__all__ = [
    "VERSIONS",
    "closes_the_gap",
    "counted",
    "found_wakers",
    "last_seconds",
    "measured_course",
    "published",
    "published_idles",
    "published_times",
    "rules_of_versions",
    "table_of",
    "thread_machine",
    "under",
]
