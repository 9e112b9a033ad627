"""Which knobs matter: elementary effects (Morris) and shares of the variance (Sobol), through SALib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import ScenarioError, number, unknown
from .metrics import METRICS
from .points import Range, scenario_at
from .runner import run_many
from .scenario import Machine
from .workloads import Job

if TYPE_CHECKING:
    import pandas as pd

METHODS = ("morris", "sobol")
LEVELS = 4  # of Morris's grid
COLUMNS = {"morris": ("mu", "mu_star", "mu_star_conf", "sigma"), "sobol": ("S1", "S1_conf", "ST", "ST_conf")}


def sensitivity(
    machine: Machine,
    jobs: Sequence[Job] | Job,
    over: Mapping[str, Range],
    *,
    metric: str = "time_per_op_s",
    method: str = "morris",
    samples: int = 32,
    seed: int = 0,
    **running: Any,
) -> pd.DataFrame:
    """One row a knob, the most important first.

    "morris" takes `samples` walks of one step a knob: `mu_star` is the mean size of a step's effect in the metric's
    unit, `mu` the mean with its sign, `sigma` its spread (other knobs decide it, or it is not straight). "sobol" draws
    `samples` (a power of two) times (knobs + 2) points: `S1` is the share of the metric's variance that the knob
    explains by itself, `ST` the share that would be left if all others were known. `..._conf` are half-widths of 95 %
    confidence intervals. `running` are the options of `run_many` (until, workers, executor, cache, progress).

    Raises ScenarioError for a knob without a Range, an unknown metric or method, or without the extra [sensitivity].

    >>> import iosched as io
    >>> dd = io.workloads.dd(count=20, cgroup="user.slice")
    >>> over = {"scheduler.slice_idle": Range(1, 9), "device.completion_us": Range(50, 60)}
    >>> sensitivity(io.Machine(scheduler="cfq"), dd, over, samples=4).index[0]
    'scheduler.slice_idle'
    """
    import pandas as pd

    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    for knob, values in over.items():
        if not isinstance(values, Range):
            raise ScenarioError(f"over[{knob!r}]: {values!r} is no interval; give a Range(low, high).")
    samples = int(number("samples", samples, 2, 1e7, "", integer=True))
    if method == "sobol" and samples & (samples - 1):
        raise ScenarioError(f"samples: {samples} is no power of two, which Sobol's sequence needs; give such as 64.")
    sample, analyze = _salib(method)
    problem = {"num_vars": len(over), "names": list(over), "bounds": [[0.0, 1.0]] * len(over)}
    options: dict[str, Any] = {"num_levels": LEVELS} if method == "morris" else {"calc_second_order": False}
    shares = sample(problem, samples, seed=seed, **options)
    ranges = list(over.values())
    points = [{k: r.at(float(u)) for k, r, u in zip(over, ranges, row)} for row in shares]
    values = np.array(run_many([scenario_at(machine, jobs, p) for p in points], [metric], **running))[:, 0]
    found = analyze(problem, *([shares] if method == "morris" else []), values, seed=seed, **options)
    frame = pd.DataFrame({name: np.asarray(found[name], float) for name in COLUMNS[method]}, index=list(over))
    return frame.sort_values("mu_star" if method == "morris" else "ST", ascending=False)


def _salib(method: str) -> tuple[Any, Any]:
    """SALib's functions that draw and that analyse."""
    from importlib import import_module

    try:
        drawing, analysing = (import_module(f"SALib.{part}.{method}") for part in ("sample", "analyze"))
    except ImportError:
        raise ScenarioError("sensitivity: SALib is not installed; pip install 'iosched[sensitivity]'.") from None
    return drawing.sample, analysing.analyze


__all__ = ["sensitivity"]
