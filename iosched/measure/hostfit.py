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
from .reader_rows import PLACES
from .shared_rows import SHARED, shared_jobs
from .writer_rows import ROLES

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
        if not run.without_scheduler or run.metric != "time_per_write_us":
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


def simulated_metric(run: KernelRun, host: Host) -> float:
    """What the row measured, simulated: a time per write in us, dbench's MB/s, a reader's mean latency in us, or the
    MB/s of a reader or of all writers."""
    simulate_one = {"time_per_write_us": time_per_write_us, "throughput_MBs": throughput_MBs}
    if run.metric in SHARED and shared_jobs(run.conditions) is not None:
        return shared_MBs(run, host)
    if run.metric.endswith("bw_MBs"):
        return bandwidth_MBs(run, host)
    return simulate_one.get(run.metric, mean_latency_us)(run, host)


def mean_latency_us(run: KernelRun, host: Host) -> float:
    """Simulated mean latency of the readers that the row is about."""
    from ..simulation import simulate

    machine, jobs = scenario_of(run, host_of(run.conditions, host))
    about = PLACES.get(run.conditions.get("role", ""))
    if about is None:
        raise Unmodelled(f"role {run.conditions.get('role')!r} is no reader of this workload")
    result = simulate(machine, jobs)
    rows = result.jobs[[job.name == about for job in result.scenario.jobs]]
    return 1e6 * float((rows.latency_mean_s * rows.operations).sum() / rows.operations.sum())


def bandwidth_MBs(run: KernelRun, host: Host) -> float:
    """Simulated throughput of the jobs that the row is about, together, in 10^6 bytes a second."""
    from ..simulation import simulate

    machine, jobs = scenario_of(run, host_of(run.conditions, host))
    about = ROLES.get(run.conditions.get("role", ""))
    if about not in {job.name for job in jobs}:
        raise Unmodelled(f"role {run.conditions.get('role')!r} is no party of this workload")
    result = simulate(machine, jobs)
    rows = result.jobs[[job.name == about for job in result.scenario.jobs]]
    return float(rows.bytes_per_s.sum()) * 1e-6


def shared_MBs(run: KernelRun, host: Host) -> float:
    """Simulated throughput of processes that read one file, in 10^6 bytes a second."""
    from ..simulation import simulate

    result = simulate(*scenario_of(run, host_of(run.conditions, host)))
    return float(result.shared_reads.bytes_per_s.sum()) * 1e-6


def throughput_MBs(run: KernelRun, host: Host) -> float:
    """Simulated dbench throughput of a row on a host, in 10^6 bytes a second."""
    from ..simulation import simulate

    return simulate(*scenario_of(run, host_of(run.conditions, host))).throughput_MBs


def fit_dbench(runs: Sequence[KernelRun], host: Host) -> tuple[Host, float, int]:
    """(host, largest relative error, rows used): the cost of dbench's operations on rows of one client whose scheduler
    never idles (noop, none, deadlines), on ext4 where there are such (an operation costs a little less on XFS).
    Everything else about the host stays.

    Time is linear in the cost, so that the mean time a byte of these rows is met in two steps. Raises ScenarioError if
    no row is usable.
    """
    used = []
    for run in runs:
        try:
            if run.never_idles and len(scenario_of(run, host_of(run.conditions, host))[1]) == 1:
                throughput_MBs(run, host)
                used.append(run)
        except Unmodelled:
            continue
    if not used:
        raise ScenarioError("FILE: it has no row of dbench without idling that can be simulated.")
    used = [run for run in used if run.conditions["filesystem"] == "ext4"] or used
    measured = np.array([run.measured for run in used])

    def error(cost: float) -> float:
        now = np.array([throughput_MBs(run, replace(host, dbench_op_us=cost)) for run in used])
        return float(np.mean(measured / now - 1))

    low, high = host.dbench_op_us, 1.1 * host.dbench_op_us + 1
    at_low = error(low)
    for _ in range(4):
        at_high = error(high)
        if at_high == at_low:
            break
        low, high, at_low = high, max(high - at_high * (high - low) / (at_high - at_low), 0.0), at_high
    fitted = replace(host, dbench_op_us=round(high, 2))
    now = np.array([throughput_MBs(run, fitted) for run in used])
    return fitted, float(np.abs(now / measured - 1).max()), len(used)


def time_per_write_us(run: KernelRun, host: Host) -> float:
    """Simulated time per write of a row on a host; for four writers the one that the row is about."""
    from ..simulation import simulate

    machine, jobs = scenario_of(run, host_of(run.conditions, host))
    times = simulate(machine, jobs).jobs.time_per_op_s
    role = run.conditions.get("role", "")
    which = int(role[1:]) - 1 if role in ("g1", "g2", "g3", "g4") and len(jobs) == 4 else 0
    return float(times.iloc[which]) * 1e6


def hosts_table(runs: Sequence[KernelRun]) -> list[dict[str, object]]:
    """Rows of `data/hosts.csv`: one a kernel, fitted on its null_blk runs without a scheduler, and on its dbench runs
    without idling where the table has such."""
    table = []
    for kernel in dict.fromkeys(run.conditions["kernel"] for run in runs if "+" not in run.conditions["kernel"]):
        every = [run for run in runs if run.machine_key == (kernel, "null_blk")]
        own = [run for run in every if run.metric == "time_per_write_us"]
        loads = [run for run in every if run.metric != "time_per_write_us"]
        try:
            host, _ = fit_host(own)
        except ScenarioError:
            continue
        hz = host_of(own[0].conditions, host).hz
        try:
            operation = fit_dbench(loads, host)[0].dbench_op_us
        except ScenarioError:
            operation = ""
        version = ".".join(kernel.split(".")[:2])
        table.append(
            {"kernel": version, "hz": hz, **{cost: getattr(host, cost) for cost in COSTS}, "dbench_op_us": operation}
        )
    return sorted(table, key=lambda row: Kernel(str(row["kernel"])).numbers)
