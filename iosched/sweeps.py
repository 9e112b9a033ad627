"""Sweeps: any fields of a scenario against any measures, as one tidy table, with error bars where chance plays a part.

`points.py` makes the scenarios, `runner.py` runs them (threads, executors, cache), `metrics.py` reads the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from .errors import ScenarioError, number
from .metrics import METRICS
from .points import Points, Range, is_random, points_of, scenario_at, with_seeds
from .runner import Cancelled, measure, run_many
from .scenario import Machine, Scenario
from .workloads import Job

if TYPE_CHECKING:
    import pandas as pd
    import xarray

DEFAULT_METRICS = ("time_per_op_s", "bytes_per_s", "idles_per_op")
CLOSED_FORM = "closed_form_"  # prefix of the columns that the formulas fill
REPLICATION = "replication"


def sweep(
    machine: Machine,
    jobs: Sequence[Job] | Job,
    over: Mapping[str, Iterable[Any] | Range],
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    until: float | None = None,
    replications: int = 1,
    samples: int | None = None,
    sampler: str = "sobol",
    seed: int = 0,
    part: tuple[int, int] = (0, 1),
    workers: int | None = None,
    executor: Executor | None = None,
    cache: str | Path | bool = False,
    progress: bool = False,
    stop: Event | None = None,
    closed_form: bool = False,
) -> pd.DataFrame:
    """Simulate every combination of the knobs' values; one row a point, one column a knob, one a metric.

    `over` maps knobs to lists of values: a field of the machine ("kernel", "scheduler", "filesystem"), a parameter of
    one of its parts ("scheduler.slice_idle" in ms, "device.completion_us", "host.speed", "memory.dirty_ratio"), or a
    field of the jobs, of all of them ("job.bs") or of those with a name ("dd.cgroup"). The last knob varies fastest.
    With `samples` that many points are drawn instead, by the `sampler` ("sobol", "halton", "latin") and `seed`, from
    the lists and from `Range`s. `part=(i, n)` does the i-th of n parts.

    `replications` runs each point so many times, in a column "replication", with the seeds of its jobs and its device
    spawned from `seed`: replication k has the same at every point, so that points are compared under the same luck.
    `summarise` turns them into means and confidence intervals.

    `metrics` are keys of `METRICS`, in SI units; `until`, `workers`, `executor`, `cache`, `progress` and `stop` as in
    `run_many`. `closed_form=True` adds a column closed_form_METRIC for time_per_op_s, bytes_per_s and idles_per_op (a
    grid and one job only; see `closed_form` for where it holds).

    Every point is checked before the first is run. Threads, executors and the cache do not change any result.

    Raises ScenarioError for an unknown knob or metric, an empty list, a point that no machine can have, more points
    than fit into memory, or replications of what is not random; Cancelled when it was told to stop.

    >>> import iosched as io
    >>> vm = io.Machine(kernel="4.19", scheduler=io.CFQ(group_idle=0))
    >>> df = io.sweep(vm, io.workloads.dd(count=50, cgroup="user.slice"), over={"scheduler.slice_idle": [0, 4, 8]})
    >>> list(df.columns)
    ['scheduler.slice_idle', 'time_per_op_s', 'bytes_per_s', 'idles_per_op']
    >>> bool(df.time_per_op_s.is_monotonic_increasing)
    True
    """
    import pandas as pd

    n = int(number("replications", replications, 1, 1e9, "", integer=True))
    points = points_of(over, samples, sampler, int(number("seed", seed, 0, 2**63, "", integer=True)), part, n)
    knobs = list(over)
    scenarios = [scenario_at(machine, jobs, dict(zip(knobs, point))) for point in points]
    rows = run_many(
        _replicated(scenarios, knobs, n, seed) if n > 1 else scenarios,
        metrics,
        until=until,
        workers=workers,
        executor=executor,
        cache=cache,
        progress=progress,
        stop=stop,
    )
    frame = pd.DataFrame([point for point in points for _ in range(n)], columns=knobs)
    if n > 1:
        frame[REPLICATION] = list(range(n)) * len(points)
    for k, name in enumerate(metrics):
        frame[name] = [row[k] for row in rows]
    if closed_form:
        for name, values in _closed_form(scenarios, points, metrics, n).items():
            frame[CLOSED_FORM + name] = values
    frame.attrs = {"knobs": knobs, "metrics": list(metrics)}
    return frame


def _replicated(scenarios: list[Scenario], knobs: list[str], n: int, seed: int) -> list[Scenario]:
    """Each scenario `n` times, with the seeds of the replication."""
    import numpy as np

    if any(knob.endswith(".seed") for knob in knobs):
        raise ScenarioError("replications: they set every seed, so none can be swept; leave one of the two out.")
    if not any(is_random(part) for s in scenarios for part in (s.machine.device, *s.jobs)):
        raise ScenarioError(
            "replications: nothing in this scenario is drawn at random, so all would be the same; give 1, random "
            "places (fio's randread), or a device with drawn times (devices.exponential(), rotation='drawn')."
        )
    children = np.random.SeedSequence(seed).spawn(n)
    return [with_seeds(scenario, child) for scenario in scenarios for child in children]


def summarise(frame: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    """Means over the replications of each point, and METRIC_low and METRIC_high of their confidence interval (Student).

    Raises ScenarioError if the table is no sweep's or has fewer than two replications.

    >>> import iosched as io
    >>> vm = io.Machine(device=io.devices.exponential(), filesystem="raw", scheduler="noop")
    >>> reader = io.workloads.random_reader(direct=True, runtime=0.05)
    >>> rows = io.sweep(vm, reader, over={"device.servers": [1, 2]}, replications=5, metrics=["latency_mean_s"])
    >>> summarise(rows).columns.tolist()
    ['device.servers', 'latency_mean_s', 'latency_mean_s_low', 'latency_mean_s_high']
    """
    from scipy.stats import t

    if "knobs" not in frame.attrs:
        raise ScenarioError("frame: it is not a sweep's table; give what sweep() returned.")
    n = 1 if REPLICATION not in frame else frame[REPLICATION].nunique()
    if n < 2:
        raise ScenarioError("frame: it has one replication, which tells no spread; sweep with replications=2 or more.")
    number("level", level, 0.01, 0.9999)
    knobs, metrics = frame.attrs["knobs"], frame.attrs["metrics"]
    point = frame.index // n
    groups = frame[metrics].groupby(point)
    mean, half = groups.mean(), t.ppf((1 + level) / 2, n - 1) * groups.std() / n**0.5
    out = frame[knobs].groupby(point).first()
    for name in metrics:
        out[name] = mean[name]
        out[f"{name}_low"], out[f"{name}_high"] = mean[name] - half[name], mean[name] + half[name]
    return out


def to_xarray(frame: pd.DataFrame) -> xarray.Dataset:
    """A grid's table as an xarray Dataset: one dimension a knob, one variable a metric (needs xarray).

    Raises ScenarioError if the table is no grid.
    """
    knobs = [*frame.attrs.get("knobs", []), *([REPLICATION] if REPLICATION in frame else [])]
    if not knobs or frame.duplicated(knobs).any():
        raise ScenarioError("frame: it is not a sweep over a grid; give what sweep() returned without samples.")
    return frame.set_index(knobs).to_xarray()


def _closed_form(scenarios: list[Scenario], points: Points, metrics: Sequence[str], n: int) -> dict[str, Any]:
    """The same points by formula: one call for each combination of the knobs that are not numbers."""
    import numpy as np

    from .queueing import closed_form
    from .queueing.knobs import NUMERIC

    attributes = {"time_per_op_s": "time_per_op", "bytes_per_s": "bytes_per_s", "idles_per_op": "idles_per_op"}
    wanted = [name for name in metrics if name in attributes]
    columns = dict(zip(points.axes, zip(*points)))
    numbers = {k: np.array(v) for k, v in columns.items() if k in NUMERIC and all(map(_is_number, v))}
    others = list(zip(*(v for k, v in columns.items() if k not in numbers)))
    seen: list[tuple] = []
    group = np.zeros(len(scenarios), int)
    for i, values in enumerate(others):
        if values not in seen:
            seen.append(values)
        group[i] = seen.index(values)
    out = {name: np.full(len(scenarios), np.nan) for name in wanted}
    for g in np.unique(group):
        rows = np.flatnonzero(group == g)
        first = scenarios[rows[0]]
        answer = closed_form(first.machine, first.jobs, over={k: v[rows] for k, v in numbers.items()})
        for name in wanted:
            out[name][rows] = getattr(answer, attributes[name])
    return {name: np.repeat(values, n) for name, values in out.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


__all__ = [
    "METRICS",
    "Cancelled",
    "Range",
    "measure",
    "run_many",
    "scenario_at",
    "summarise",
    "sweep",
    "to_xarray",
]
