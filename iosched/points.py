"""The points of a sweep: every combination of some knobs' values, or samples of their ranges, as scenarios.

A grid is never spelt out: point `i` is worked out from its number, so a part of a huge one costs what the part does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from .errors import ScenarioError, number, unknown
from .host import fitted_host
from .scenario import Machine, Scenario
from .workloads import Job

SAMPLERS = ("sobol", "halton", "latin")
BYTES_A_POINT = 6_000  # a scenario, its values and its results (measured: 4 to 6 kB)
MEMORY_SHARE = 0.5  # of what is free
LARGEST_SEED = 2**31 - 58


@dataclass(frozen=True)
class Range:
    """An interval that samples are drawn from: evenly, evenly in the logarithm, or whole numbers.

    Raises ScenarioError if it is empty, or touches zero where the logarithm is asked for.

    >>> Range(10, 1000, log=True).at(0.5)
    100.0
    """

    low: float
    high: float
    log: bool = False
    integer: bool = False

    def __post_init__(self) -> None:
        number("Range.low", self.low, -1e18, 1e18)
        number("Range.high", self.high, -1e18, 1e18)
        if self.low >= self.high:
            raise ScenarioError(f"Range: {self.low} to {self.high} is empty; give low < high.")
        if self.log and self.low <= 0:
            raise ScenarioError(f"Range.low: {self.low} has no logarithm; give a number above 0, or log=False.")

    def at(self, share: float) -> float:
        """The value at a share (0 to 1) of the way."""
        if self.integer:
            share = min(share, math.nextafter(1.0, 0.0))
            return int(self.low + math.floor(share * (self.high - self.low + 1)))
        if self.log:
            return float(self.low * (self.high / self.low) ** share)
        return float(self.low + share * (self.high - self.low))


class Points:
    """Points by their number: `len`, and `points[i]`, a tuple of one value a knob."""

    def __init__(self, axes: dict[str, Sequence[Any]], samples: np.ndarray | None, first: int, count: int) -> None:
        self.axes, self.samples, self.first, self.count = axes, samples, first, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> tuple[Any, ...]:
        if not 0 <= i < self.count:
            raise IndexError(i)
        i += self.first
        if self.samples is not None:
            return tuple(self._drawn(axis, float(u)) for axis, u in zip(self.axes.values(), self.samples[i]))
        values = []
        for axis in reversed(self.axes.values()):  # the last knob varies fastest
            i, k = divmod(i, len(axis))
            values.append(axis[k])
        return tuple(reversed(values))

    @staticmethod
    def _drawn(axis: Any, share: float) -> Any:
        if isinstance(axis, Range):
            return axis.at(share)
        return axis[min(int(share * len(axis)), len(axis) - 1)]


def points_of(
    over: Mapping[str, Any],
    samples: int | None = None,
    sampler: str = "sobol",
    seed: int = 0,
    part: tuple[int, int] = (0, 1),
    rows_a_point: int = 1,
) -> Points:
    """The points that `sweep`'s arguments name.

    Raises ScenarioError for what is no list or Range, and for more points than the free memory holds.

    >>> [points_of({"a": [1, 2], "b": "xy".split()})[i] for i in range(2)]
    [(1, 'xy'), (2, 'xy')]
    """
    axes = _axes(over, drawn=samples is not None)
    i, n = _part(part)
    total = math.prod(len(axis) for axis in axes.values()) if samples is None else samples
    if samples is not None:
        total = int(number("samples", samples, 1, 1e12, "points", integer=True))
    first, end = total * i // n, total * (i + 1) // n
    _fits(total, (end - first) * rows_a_point, n)
    shares = None if samples is None else _shares(len(axes), total, sampler, seed)
    return Points(axes, shares, first, end - first)


def _part(part: tuple[int, int]) -> tuple[int, int]:
    try:
        i, n = part
    except (TypeError, ValueError):
        raise ScenarioError(
            f"part: {part!r} is not allowed; give (i, n), the i-th of n parts from (0, n) on."
        ) from None
    n = int(number("part[1]", n, 1, 1e9, "parts", integer=True))
    return int(number("part[0]", i, 0, n - 1, "", integer=True)), n


def _fits(total: int, here: int, parts: int) -> None:
    """Refuse what does not fit into the free memory, and say in how many parts it does."""
    free = free_memory()
    if here * BYTES_A_POINT <= MEMORY_SHARE * free:
        return
    needed = parts * math.ceil(here * BYTES_A_POINT / (MEMORY_SHARE * free))
    raise ScenarioError(
        f"over: {total:,} points need about {here * BYTES_A_POINT / 1e9:,.0f} GB, {free / 1e9:,.1f} GB are free; sweep "
        f"them in parts, part=(0, {needed}) to ({needed - 1}, {needed}), or draw samples=... of them."
    )


def free_memory() -> int:
    """Bytes that can be had without swapping."""
    try:
        with open("/proc/meminfo", encoding="ascii") as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return 4 * 2**30


def _shares(dimensions: int, n: int, sampler: str, seed: int) -> np.ndarray:
    """Samples of the unit cube, one row a point."""
    import warnings

    from scipy.stats import qmc

    makers = {"sobol": qmc.Sobol, "halton": qmc.Halton, "latin": qmc.LatinHypercube}
    if sampler not in makers:
        raise unknown("sampler", sampler, SAMPLERS)
    with warnings.catch_warnings():  # Sobol's balance is best, not only there, at powers of two
        warnings.simplefilter("ignore", UserWarning)
        return makers[sampler](dimensions, rng=np.random.default_rng(seed)).random(n)


def _axes(over: Mapping[str, Any], drawn: bool) -> dict[str, Any]:
    """The lists of values, as plain Python values; Ranges stay."""
    if not isinstance(over, Mapping) or not over:
        raise ScenarioError(f"over: {over!r} names no knob; give a mapping such as {{'scheduler.slice_idle': [0, 8]}}.")
    axes: dict[str, Any] = {}
    for knob, values in over.items():
        if isinstance(values, Range):
            if not drawn:
                raise ScenarioError(f"over[{knob!r}]: {values!r} has no list of values; give samples=..., or a list.")
            axes[knob] = values
            continue
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise ScenarioError(f"over[{knob!r}]: {values!r} is one value; give a list of values.")
        if isinstance(values, range):  # as long as it may be, it takes no memory
            axes[knob] = values
        else:
            axes[knob] = [v.item() if hasattr(v, "dtype") else v for v in values]
        if not len(axes[knob]):
            raise ScenarioError(f"over[{knob!r}]: the list is empty; give at least one value.")
    return axes


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
        for n in ("device", "filesystem", "scheduler", "host", "memory")
        for f in fields(getattr(base.machine, n))
        if "low" in f.metadata
    ]
    jobs = list(dict.fromkeys(f"job.{f.name}" for job in base.jobs for f in fields(job) if f.name != "name"))
    return parts + dotted + jobs if rest or part not in parts else parts


def with_seeds(scenario: Scenario, sequence: np.random.SeedSequence) -> Scenario:
    """The scenario with every seed in it (a job's, the device's) drawn from the sequence; the same if it has none."""
    device = scenario.machine.device
    drawn = sequence.generate_state(len(scenario.jobs) + 1) % LARGEST_SEED + 1
    jobs = [
        replace(job, seed=int(seed)) if is_random(job) else job for job, seed in zip(scenario.jobs, drawn[1:].tolist())
    ]
    machine = scenario.machine
    if is_random(device):
        machine = replace(machine, device=replace(device, seed=int(drawn[0])))
    return Scenario(machine, jobs)


def is_random(part: Any) -> bool:
    """Does it draw anything from its seed?"""
    drawn_places = getattr(part, "random", True)
    drawn_delays = getattr(part, "rotation", "drawn") == "drawn"
    return hasattr(part, "seed") and drawn_places and drawn_delays


__all__ = ["SAMPLERS", "Points", "Range", "free_memory", "is_random", "points_of", "scenario_at", "with_seeds"]
