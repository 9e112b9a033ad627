"""Grids of scenarios: every combination of some knobs' values, spread over the cores, as one tidy table.

Threads share the work, not processes and not `prange`: the compiled event loop runs without Python's lock (the GIL), so
threads run scenarios side by side, start in microseconds and share one copy of the compiled code; and the loop is a
plain cached function, which a parallel Numba region that captured it would have to compile again in every process. Only
filling a scenario's tables and reading its results (about 1 ms a point) is done one at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from itertools import product
from threading import Event
from typing import TYPE_CHECKING, Any

from .engine import codes as c
from .engine.loop import run
from .engine.state import State
from .errors import ScenarioError, number, unknown
from .host import fitted_host
from .laws import check_laws
from .programs import compile_scenario
from .scenario import Machine, Scenario
from .workloads import Job

if TYPE_CHECKING:
    import pandas as pd

NS = 1e-9
CHUNK_EVENTS = 200_000  # between two chunks (about 20 ms) a point looks whether it shall stop
DEFAULT_METRICS = ("time_per_op_s", "bytes_per_s", "idles_per_op")
CLOSED_FORM = "closed_form_"  # prefix of the columns that the formulas fill


# ---------------------------------------------------------------------------------------------------------------------
# metrics: (scenario, tables) -> number, the same values as the views of `Result` show


def _elapsed(scenario: Scenario, s: State, job: int) -> float:
    """Seconds from the job's start (the end of dbench's warm-up) to its end, or to the end of the run."""
    t = s.tasks[job]
    one = scenario.jobs[job]
    ended = t.end if t.state == c.T_DONE else s.sim[0].now
    return max(int(ended - s.sim[0].epoch) * NS - (one.start + getattr(one, "warmup_s", 0.0)), 0.0)


def _ratio(a: float, b: float) -> float:
    return a / b if b else float("nan")


def _operations(scenario: Scenario, s: State) -> int:
    return int(s.tasks.done_ops[: len(scenario.jobs)].sum())


def _time_per_op(scenario: Scenario, s: State) -> float:
    return _ratio(_elapsed(scenario, s, 0), int(s.tasks[0].done_ops))


def _bytes_per_s(scenario: Scenario, s: State) -> float:
    return sum(_ratio(int(s.tasks[i].done_bytes), _elapsed(scenario, s, i)) for i in range(len(scenario.jobs)))


def _idles_per_op(scenario: Scenario, s: State) -> float:
    windows = len(s.tasks) * len(c.IDLE_REASONS)
    return float(s.idle.fired_held[:windows].sum() / max(_operations(scenario, s), 1))


def _latency_mean(scenario: Scenario, s: State) -> float:
    return _ratio(int(s.tasks[0].latency_sum) * NS, int(s.tasks[0].done_ops))


def _latency_max(scenario: Scenario, s: State) -> float:
    return int(s.tasks[0].latency_max) * NS


def _requests_per_op(scenario: Scenario, s: State) -> float:
    return _ratio(int(s.devices[0].read_requests + s.devices[0].write_requests), _operations(scenario, s))


def _utilisation(scenario: Scenario, s: State) -> float:
    return _ratio(int(s.devices[0].busy_ns + s.devices[0].held_ns), int(s.sim[0].now - s.sim[0].epoch))


METRICS: dict[str, Callable[[Scenario, State], float]] = {
    "time_per_op_s": _time_per_op,  # of the first job
    "bytes_per_s": _bytes_per_s,  # of all jobs together
    "idles_per_op": _idles_per_op,
    "elapsed_s": lambda scenario, s: int(s.sim[0].now - s.sim[0].epoch) * NS,
    "operations": _operations,
    "latency_mean_s": _latency_mean,  # of the first job
    "latency_max_s": _latency_max,  # of the first job
    "requests_per_op": _requests_per_op,
    "utilisation": _utilisation,  # share of the time in which a request is in the block layer, as %util
}


# ---------------------------------------------------------------------------------------------------------------------
# the grid


def sweep(
    machine: Machine,
    jobs: Sequence[Job] | Job,
    over: Mapping[str, Iterable[Any]],
    *,
    metrics: Sequence[str] = DEFAULT_METRICS,
    until: float | None = None,
    workers: int | None = None,
    progress: bool = False,
    closed_form: bool = False,
) -> pd.DataFrame:
    """Simulate every combination of the knobs' values; one row a point, one column a knob, one a metric.

    `over` maps knobs to lists of values: a field of the machine ("kernel", "scheduler", "filesystem"), a parameter of
    one of its parts ("scheduler.slice_idle" in ms, "device.completion_us"), or a field of the jobs, of all of them
    ("job.bs") or of those with a name ("dd.cgroup"). The last knob varies fastest. `metrics` are keys of `METRICS`, in
    SI units. `until` stops every run after so many simulated seconds. `workers` threads share the points (None: one a
    core). `closed_form=True` adds a column closed_form_METRIC for
    time_per_op_s, bytes_per_s and idles_per_op (one job only; see `closed_form` for where it holds).

    Every point is checked before the first is run. A sweep can be interrupted. Threads do not change any result.

    Raises ScenarioError for an unknown knob or metric, an empty list, or a point that no machine can have.

    >>> import iosched as io
    >>> vm = io.Machine(kernel="4.19", scheduler=io.CFQ(group_idle=0))
    >>> df = io.sweep(vm, io.workloads.dd(count=50, cgroup="user.slice"), over={"scheduler.slice_idle": [0, 4, 8]})
    >>> list(df.columns)
    ['scheduler.slice_idle', 'time_per_op_s', 'bytes_per_s', 'idles_per_op']
    >>> bool(df.time_per_op_s.is_monotonic_increasing)
    True
    """
    import pandas as pd

    axes = _axes(over)
    for name in metrics:
        if name not in METRICS:
            raise unknown("metrics", name, METRICS)
    length = None if until is None else round(number("until", until, 1e-9, 1e9, "seconds") * c.SEC)
    threads = _workers(workers)
    points = list(product(*axes.values()))
    scenarios = [scenario_at(machine, jobs, dict(zip(axes, point))) for point in points]
    rows = _run_all(scenarios, metrics, length, threads, progress)
    frame = pd.DataFrame(points, columns=list(axes))
    for k, name in enumerate(metrics):
        frame[name] = [row[k] for row in rows]
    if closed_form:
        for name, values in _closed_form(scenarios, axes, metrics).items():
            frame[CLOSED_FORM + name] = values
    return frame


def scenario_at(machine: Machine, jobs: Sequence[Job] | Job, changes: Mapping[str, Any]) -> Scenario:
    """The scenario with some knobs changed; names as in `sweep`.

    Whole parts change together and before their parameters, so that a kernel and a scheduler which fit only each other
    can be given in one step. A host that was fitted to the kernel follows it.

    >>> from iosched import workloads
    >>> s = scenario_at(Machine(), workloads.dd(), {"kernel": "5.10", "scheduler": "none", "dd.bs": 4096})
    >>> s.machine.scheduler_name, s.jobs[0].bs
    ('none', 4096)
    """
    base = Scenario(machine, jobs)
    unchanged = (jobs,) if isinstance(jobs, Job) else tuple(jobs)  # Scenario has a job for each client of dbench
    names = {job.name for job in unchanged}
    whole: dict[str, Any] = {}
    inner: dict[str, Any] = {}
    changed_jobs = list(unchanged)
    for knob, value in changes.items():
        part, _, rest = knob.partition(".")
        if rest and (part == "job" or part in names):
            changed_jobs = [
                _changed_job(job, knob, rest, value) if part in ("job", job.name) else job for job in changed_jobs
            ]
        elif part not in Machine.__dataclass_fields__:
            raise unknown("knob", knob, _knobs(base, part, rest))
        elif rest:
            inner[knob] = value
        else:
            whole[knob] = value
    try:
        if "kernel" in whole and "host" not in whole and machine.host == fitted_host(machine.kernel):
            whole["host"] = None
        changed = replace(machine, **whole) if whole else machine
        return Scenario(changed.with_(**inner) if inner else changed, changed_jobs)
    except ScenarioError as error:
        if len(changes) < 2:
            raise
        where = ", ".join(f"{k}={v!r}" for k, v in changes.items())
        raise ScenarioError(f"{error} (At {where}.)") from None


def _changed_job(job: Job, knob: str, name: str, value: Any) -> Job:
    if name not in job.__dataclass_fields__:
        raise unknown(knob, name, job.__dataclass_fields__)
    return replace(job, **{name: value})


def _knobs(base: Scenario, part: str, rest: str) -> list[str]:
    """Names to suggest: the whole ones, and every parameter of this scenario."""
    parts = [n for n in Machine.__dataclass_fields__]
    dotted = [
        f"{n}.{f.name}"
        for n in ("device", "filesystem", "scheduler", "host")
        for f in fields(getattr(base.machine, n))
        if "low" in f.metadata
    ]
    jobs = list(dict.fromkeys(f"job.{f.name}" for job in base.jobs for f in fields(job) if f.name != "name"))
    return parts + dotted + jobs if rest or part not in parts else parts


def _axes(over: Mapping[str, Iterable[Any]]) -> dict[str, list[Any]]:
    """The lists of values, as plain Python values."""
    if not isinstance(over, Mapping) or not over:
        raise ScenarioError(f"over: {over!r} names no knob; give a mapping such as {{'scheduler.slice_idle': [0, 8]}}.")
    axes = {}
    for knob, values in over.items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise ScenarioError(f"over[{knob!r}]: {values!r} is one value; give a list of values.")
        axes[knob] = [v.item() if hasattr(v, "dtype") else v for v in values]
        if not axes[knob]:
            raise ScenarioError(f"over[{knob!r}]: the list is empty; give at least one value.")
    return axes


def _workers(workers: int | None) -> int:
    if workers is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(number("workers", workers, 1, 1024, "threads", integer=True))


# ---------------------------------------------------------------------------------------------------------------------
# running it


def _run_all(
    scenarios: list[Scenario], metrics: Sequence[str], length: int | None, threads: int, progress: bool
) -> list[list[float]]:
    """The metrics of every scenario, in order. An error or an interrupt ends the running points early."""
    from tqdm.auto import tqdm

    stop = Event()
    with (
        tqdm(total=len(scenarios), unit="point", disable=not progress, leave=False) as bar,
        ThreadPoolExecutor(threads, thread_name_prefix="iosched-sweep") as pool,
    ):
        futures = [pool.submit(measure, scenario, metrics, length, stop) for scenario in scenarios]
        rows = []
        try:
            for future in futures:
                rows.append(future.result())
                bar.update()
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return rows


def measure(
    scenario: Scenario, metrics: Sequence[str], length: int | None = None, stop: Event | None = None
) -> list[float]:
    """Run one scenario and read the metrics straight from the engine's tables, without a Result around them.

    `length` in simulated ns ends the run (None: the last job does); `stop` ends it from another thread.

    >>> from iosched import workloads
    >>> measure(Scenario(Machine(scheduler="noop"), [workloads.dd(count=10)]), ["operations", "idles_per_op"])
    [10, 0.0]
    """
    s = compile_scenario(scenario)
    stop_at = c.NEVER - 1 if length is None else int(s.sim[0].epoch) + length
    why = c.STOP_BUDGET
    while why == c.STOP_BUDGET and not (stop is not None and stop.is_set()):
        why = run(s, stop_at, CHUNK_EVENTS)
    if why == c.STOP_STUCK:
        raise ScenarioError("scenario: it can never make progress; give at least one task something to do.")
    check_laws(s, why)
    return [METRICS[name](scenario, s) for name in metrics]


def _closed_form(scenarios: list[Scenario], axes: dict[str, list[Any]], metrics: Sequence[str]) -> dict[str, Any]:
    """The same points by formula: one call for each combination of the knobs that are not numbers."""
    import numpy as np

    from .queueing import closed_form
    from .queueing.knobs import NUMERIC

    attributes = {"time_per_op_s": "time_per_op", "bytes_per_s": "bytes_per_s", "idles_per_op": "idles_per_op"}
    wanted = [name for name in metrics if name in attributes]
    grid = np.meshgrid(*[np.arange(len(values)) for values in axes.values()], indexing="ij")
    index = {knob: g.ravel() for knob, g in zip(axes, grid)}
    numbers = {k: np.array(values) for k, values in axes.items() if k in NUMERIC and all(map(_is_number, values))}
    group = np.zeros(len(scenarios), int)
    for knob, values in axes.items():
        if knob not in numbers:
            group = group * len(values) + index[knob]
    out = {name: np.full(len(scenarios), np.nan) for name in wanted}
    for g in np.unique(group):
        rows = np.flatnonzero(group == g)
        first = scenarios[rows[0]]
        answer = closed_form(first.machine, first.jobs, over={k: v[index[k][rows]] for k, v in numbers.items()})
        for name in wanted:
            out[name][rows] = getattr(answer, attributes[name])
    return out


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


__all__ = ["METRICS", "measure", "scenario_at", "sweep"]
