"""Parameters of a device or a host from observations, with their standard errors, or why they cannot be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import ScenarioError, number, unknown
from .metrics import METRICS
from .points import Range, scenario_at
from .runner import run_many
from .scenario import Machine, Scenario
from .workloads import Job

if TYPE_CHECKING:
    import pandas as pd

STEP = 1e-3  # of a parameter's range: times are whole ns, so derivatives need steps that are not tiny
WEAKEST = 1e-4  # a direction that moves the observations so much less than the strongest one is not seen by them


@dataclass(frozen=True)
class Observation:
    """One measured number: `metric` (a key of METRICS, SI units) was `value` under `changes` to the scenario (dotted
    names, as in `sweep`); `sigma` is its relative standard error where it is known."""

    metric: str
    value: float
    changes: Mapping[str, Any] | None = None
    sigma: float = 0.01


@dataclass(frozen=True, repr=False)
class Calibration:
    """`values` and `standard_errors` by knob, the `machine` with the values, and `residuals`: relative errors left."""

    values: dict[str, float]
    standard_errors: dict[str, float]
    residuals: np.ndarray
    machine: Machine

    @property
    def table(self) -> pd.DataFrame:
        """One row a parameter: value, standard_error."""
        import pandas as pd

        return pd.DataFrame({"value": self.values, "standard_error": self.standard_errors})

    def __repr__(self) -> str:
        lines = [f"{k} = {v:.6g} +- {self.standard_errors[k]:.2g}" for k, v in self.values.items()]
        worst = float(np.max(np.abs(self.residuals)))
        return "\n".join([*lines, f"{len(self.residuals)} observations, the worst off by {worst:.2%}"])


def calibrate(
    scenario: Scenario | tuple[Machine, Sequence[Job] | Job],
    observations: Sequence[Observation],
    parameters: Mapping[str, Range],
    *,
    until: float | None = None,
    **running: Any,
) -> Calibration:
    """Fit parameters within their Ranges to the observations, by least squares of relative errors.

    `scenario` is a Scenario, or (machine, jobs). Standard errors come from the derivatives at the solution and the
    residuals' spread, or the observations' `sigma` where there are as many parameters as observations.
    `running` are options of `run_many`.

    Raises ScenarioError, naming the parameters, where the observations cannot tell them: too few, one without any
    effect, or several that only act together; and for unknown metrics or empty observations.

    >>> import iosched as io
    >>> dd = io.workloads.dd(count=50)
    >>> noop = io.Machine(scheduler="noop", device=io.devices.null(completion_us=123))
    >>> seen = [Observation("time_per_op_s", io.simulate(noop, dd).time_per_op)]
    >>> start = noop.with_(**{"device.completion_us": 100})
    >>> fit = calibrate((start, dd), seen, {"device.completion_us": Range(10, 1000)})
    >>> round(fit.values["device.completion_us"], 1)
    123.0
    """
    from scipy.optimize import least_squares

    machine, jobs = (scenario.machine, scenario.jobs) if isinstance(scenario, Scenario) else scenario
    _check(observations, parameters)
    measured = np.array([o.value for o in observations])
    weights = np.array([1 / o.sigma for o in observations])
    knobs, ranges = list(parameters), list(parameters.values())

    def residuals(shares: np.ndarray) -> np.ndarray:
        point = {k: r.at(float(u)) for k, r, u in zip(knobs, ranges, shares)}
        scenarios = [scenario_at(machine, jobs, {**(o.changes or {}), **point}) for o in observations]
        metrics = list(dict.fromkeys(o.metric for o in observations))
        rows = run_many(scenarios, metrics, until=until, **running)
        found = np.array([row[metrics.index(o.metric)] for row, o in zip(rows, observations)])
        return weights * (found / measured - 1)

    begin = np.full(len(knobs), 0.5)
    _identifiable(_derivatives(residuals, begin), knobs)
    fit = least_squares(residuals, begin, bounds=(0, 1), diff_step=STEP, x_scale=1.0, xtol=1e-9, ftol=1e-12)
    slopes = _derivatives(residuals, fit.x)
    _identifiable(slopes, knobs)
    free = len(observations) - len(knobs)
    spread = float(fit.fun @ fit.fun) / free if free > 0 else 1.0
    of_shares = np.sqrt(np.diag(np.linalg.inv(slopes.T @ slopes)) * spread)
    widths = [(r.at(min(u + STEP, 1)) - r.at(max(u - STEP, 0))) / (min(u + STEP, 1) - max(u - STEP, 0))
              for r, u in zip(ranges, fit.x)]  # fmt: skip
    values = {k: r.at(float(u)) for k, r, u in zip(knobs, ranges, fit.x)}
    errors = {k: float(e * w) for k, e, w in zip(knobs, of_shares, widths)}
    fitted = machine.with_(**{k: v for k, v in values.items() if k.partition(".")[0] in Machine.__dataclass_fields__})
    return Calibration(values, errors, fit.fun / weights, fitted)


def _check(observations: Sequence[Observation], parameters: Mapping[str, Range]) -> None:
    if not observations:
        raise ScenarioError("observations: there are none; give at least one Observation a parameter.")
    if not parameters:
        raise ScenarioError("parameters: there are none; give such as {'device.completion_us': Range(10, 1000)}.")
    for o in observations:
        if o.metric not in METRICS:
            raise unknown("observation.metric", o.metric, METRICS)
        number(f"observation {o.metric}", o.value, 1e-300, 1e300)
        number("observation.sigma", o.sigma, 1e-12, 10)
    for knob, one in parameters.items():
        if not isinstance(one, Range) or one.integer:
            raise ScenarioError(f"parameters[{knob!r}]: {one!r} is no interval of numbers; give a Range(low, high).")
    if len(observations) < len(parameters):
        raise ScenarioError(
            f"parameters: {len(observations)} observations cannot identify {', '.join(parameters)}; "
            "give as many observations, or fix some."
        )


def _derivatives(residuals: Any, at: np.ndarray) -> np.ndarray:
    """Central differences, one column a parameter; one-sided at a bound."""
    columns = []
    for k in range(len(at)):
        low, high = at.copy(), at.copy()
        low[k], high[k] = max(at[k] - STEP, 0), min(at[k] + STEP, 1)
        columns.append((residuals(high) - residuals(low)) / (high[k] - low[k]))
    return np.array(columns).T


def _identifiable(slopes: np.ndarray, knobs: list[str]) -> None:
    """Refuse parameters without effect, and those that act only together."""
    sizes = np.linalg.norm(slopes, axis=0)
    without = [k for k, size in zip(knobs, sizes) if size <= WEAKEST * max(sizes.max(), 1e-12)]
    if without:
        raise ScenarioError(
            f"parameters: {', '.join(without)} cannot be identified, no observation depends on them; fix them, or give "
            "observations that do."
        )
    _, strengths, directions = np.linalg.svd(slopes / sizes)
    if strengths[-1] < WEAKEST * strengths[0]:
        together = [k for k, share in zip(knobs, directions[-1]) if abs(share) > 0.1]
        raise ScenarioError(
            f"parameters: {', '.join(together)} cannot be identified apart, the observations depend on them only "
            "together; fix all but one, or give observations under other conditions."
        )


__all__ = ["Calibration", "Observation", "calibrate"]
