"""Fit a constant-time device to one published figure of a run without idling."""

from __future__ import annotations

from dataclasses import replace

from ..errors import ScenarioError
from ..scenario import Machine
from ..simulation import simulate
from ..workloads import Dd


def fit_completion(machine: Machine, job: Dd, time_per_op: float) -> Machine:
    """The machine with the `device.completion_us` at which `job` takes `time_per_op` seconds an operation.

    Without idling the time is linear in the completion time, so two runs give the answer and a third checks it. Raises
    ScenarioError if the host alone takes longer than that, or if the scheduler idles (not linear then).

    >>> import iosched as io
    >>> m = io.Machine(kernel="4.19", scheduler="noop")
    >>> fitted = fit_completion(m, io.workloads.dd(count=200), 300e-6)
    >>> abs(io.simulate(fitted, [io.workloads.dd(count=200)]).time_per_op - 300e-6) < 1e-8
    True
    """
    low, high = 10.0, 1000.0
    at_low, at_high = (_time(machine, job, us) for us in (low, high))
    wanted = low + (time_per_op - at_low) * (high - low) / (at_high - at_low)
    if wanted <= 0:
        raise ScenarioError(
            f"time_per_op: {time_per_op} s is less than the host alone takes ({at_low - low * 1e-6:.2g} s); "
            "give a faster host (Host(speed=...))."
        )
    fitted = machine.with_(**{"device.completion_us": round(wanted, 3)})
    if abs(_time(fitted, job, fitted.device.completion_us) / time_per_op - 1) > 1e-3:
        raise ScenarioError(f"scheduler: {machine.scheduler_name} idles here; fit the device under noop or none.")
    return fitted


def _time(machine: Machine, job: Dd, completion_us: float) -> float:
    short = replace(job, count=min(job.count, 400))
    return simulate(machine.with_(**{"device.completion_us": completion_us}), [short]).time_per_op
