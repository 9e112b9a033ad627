"""Fit the host's CPU costs on rows without a scheduler (noop, none), and on nothing else.

Without idling the time of a write is linear in the costs: device time plus so many requests, wake-ups and file system
calls. The coefficients are read off the simulator itself, one run a cost, so that they hold for every file system and
device; then a bounded least-squares fit of the relative errors gives the costs. Where the rows cannot tell two costs
apart (a kernel measured on one file system only) a weak pull towards the shipped 4.19 costs decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import ScenarioError
from ..host import Host
from ..kernels import Kernel
from .kernel_rows import KernelRun, Unmodelled, host_of, scenario_of

COSTS = ("request_us", "request_mq_us", "wakeup_us", "ext4_us", "xfs_us", "raw_us")
PULL = 1e-3  # weight of the prior against the rows' relative errors


def fit_host(runs: Sequence[KernelRun], prior: Host | None = None) -> tuple[Host, float]:
    """(host, largest relative error on the rows used) for the runs of one machine.

    Raises ScenarioError if no run is usable (none without a scheduler, or all of them unmodelled).
    """
    from scipy.optimize import lsq_linear

    prior = prior or Host()
    zero = replace(prior, speed=1.0, **dict.fromkeys(COSTS, 0.0))
    rows: list[np.ndarray] = []
    measured: list[float] = []
    device_time: list[float] = []
    for run in runs:
        if not run.without_scheduler:
            continue
        try:
            if len(scenario_of(run, host_of(run.conditions, zero))[1]) > 1:
                continue  # several writers share the processor, which is not linear in the costs
            base = time_per_write_us(run, zero)
            rows.append(np.array([time_per_write_us(run, replace(zero, **{cost: 1.0})) - base for cost in COSTS]))
        except Unmodelled:
            continue
        device_time.append(base)
        measured.append(run.time_per_write_us)
    if not rows:
        raise ScenarioError("FILE: it has no noop or none row that can be simulated, so host costs cannot be fitted.")
    a, t = np.array(rows), np.array(measured)
    x0 = np.array([getattr(prior, cost) for cost in COSTS])
    system = np.vstack([a / t[:, None], np.diag(PULL / np.maximum(x0, 1.0))])
    target = np.concatenate([(t - device_time) / t, PULL * x0 / np.maximum(x0, 1.0)])
    costs = lsq_linear(system, target, bounds=(0, np.inf)).x
    errors = np.abs(device_time + a @ costs - t) / t
    return replace(prior, **dict(zip(COSTS, map(float, costs.round(3)), strict=True))), float(errors.max())


def time_per_write_us(run: KernelRun, host: Host) -> float:
    """Simulated time per write of a row on a host; for four writers the one that the row is about."""
    from ..simulation import simulate

    machine, jobs = scenario_of(run, host_of(run.conditions, host))
    times = simulate(machine, jobs).jobs.time_per_op_s
    role = run.conditions.get("role", "")
    which = int(role[1:]) - 1 if role in ("g1", "g2", "g3", "g4") and len(jobs) == 4 else 0
    return float(times.iloc[which]) * 1e6


def hosts_table(runs: Sequence[KernelRun]) -> list[dict[str, object]]:
    """Rows of `data/hosts.csv`: one a kernel, fitted on its null_blk runs without a scheduler."""
    table = []
    for kernel in dict.fromkeys(run.conditions["kernel"] for run in runs if "+" not in run.conditions["kernel"]):
        own = [run for run in runs if run.machine_key == (kernel, "null_blk")]
        try:
            host, _ = fit_host(own)
        except ScenarioError:
            continue
        hz = host_of(own[0].conditions, host).hz
        version = ".".join(kernel.split(".")[:2])
        table.append({"kernel": version, "hz": hz, **{cost: getattr(host, cost) for cost in COSTS}})
    return sorted(table, key=lambda row: Kernel(str(row["kernel"])).major_minor)
