"""Who waits for whom under BFQ: a machine, a dd and the numbers of a grid as the tables of `bfq_runs.run_points`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..cgroups import normalise, parent_of
from ..errors import ScenarioError
from ..filesystems import Ext4
from ..scenario import Machine
from ..schedulers.bfq_versions import features
from ..workloads import Dd
from . import bfq_state as tables
from .bfq_runs import run_points
from .bfq_state import DATA, FIRST_LOG, FIXED, LOG, OLD_LOG, PAGE, PASSES, SECTORS
from .chain import BEFORE_LOG, Chain, Step
from .knobs import MS, Knobs, S, Values
from .switches import Waits

FIRST, LAST = 5_000, 20_000  # operations that stand for a run without end
CHUNK = 100  # points that a thread takes at a time


def bfq_waits(machine: Machine, job: Dd, k: Knobs, chain: Chain, count: Values) -> Waits:
    """BFQ's idling an operation. Without a second task that the scheduler sees nobody waits."""
    steps = chain.loop if job.synchronous else chain.loop + chain.tail
    if not {"dd", "log"} <= {step.task for step in steps if step.visible and np.any(step.requests)}:
        return Waits(0.0, 0.0, 0.0)
    _check(machine, job, k, steps)
    shape = np.broadcast_shapes(*(np.shape(v) for v in vars(k).values()))
    point = _points(machine, job, k, shape)
    rows = _steps(machine, job, k, chain, point, shape)
    if job.synchronous and np.all(np.isinf(count)):
        point["count"], point.skipped, point.tail = LAST, FIRST, point.loop
    counts = _run(point, rows)
    ops = point["count"] - point.skipped if job.synchronous else np.broadcast_to(k.count, shape).ravel()
    share = np.moveaxis(counts / ops[:, None, None], 0, -1).reshape(2, -1, *shape)
    for_dd, for_log = share[:, tables.WAITED]
    return Waits(share[:, : tables.N_REASONS].sum((0, 1)), for_dd, for_log, share[:, : tables.WAITED])


def _run(point: np.recarray, rows: np.recarray) -> np.ndarray:
    """Counts of all points: (points, whose window, reasons and fates and the ns waited)."""
    counts = np.zeros((len(point), 2, tables.WAITED + 1), np.int64)

    def some(first: int) -> None:
        part = slice(first, first + CHUNK)
        n = len(point[part])
        state = np.zeros(n, tables.STATE).view(np.recarray)
        queues = np.zeros((n, 2), tables.QUEUE).view(np.recarray)
        run_points(point[part], rows[part], state, queues, counts[part])

    if len(point) <= CHUNK:
        some(0)
        return counts
    with ThreadPoolExecutor() as pool:
        list(pool.map(some, range(0, len(point), CHUNK)))
    return counts


def _check(machine: Machine, job: Dd, k: Knobs, steps: list[Step]) -> None:
    """Where the recursion holds: one request at a time, two queues of the best-effort class that never merge."""
    if job.ioclass != "best-effort":
        raise ScenarioError(
            f"dd.ioclass: {job.ioclass!r} is beyond the closed form of BFQ with a journal, which knows one class; "
            "give 'best-effort', or simulate()."
        )
    many = any(np.any(np.asarray(step.requests) > 1) for step in steps if step.visible)
    if many or np.any(np.asarray(k.max_bytes) < FIRST_LOG * PAGE):
        raise ScenarioError(
            "dd.bs: more than one request at once is beyond the closed form of BFQ with a journal; give a bs and "
            "device.max_sectors_kb that make a write, and a log write, one request, or simulate()."
        )
    group, ioprio = _log_writer(machine)
    merges = features(machine.scheduler.version(machine.version))[0]["stable_merge"]
    if merges and job.ioprio == ioprio and normalise(job.cgroup) == normalise(group):
        raise ScenarioError(
            f"dd.ioprio: {job.ioprio} is that of the log's writer, in one cgroup with dd, so that since 5.13 their "
            "queues may merge, which is beyond the closed form of BFQ; give another, or simulate()."
        )


def _log_writer(machine: Machine) -> tuple[str, int]:
    """Cgroup and priority level of jbd2, or of XFS's worker."""
    fs = machine.filesystem
    return (fs.jbd2_cgroup, fs.jbd2_ioprio) if isinstance(fs, Ext4) else (fs.worker_cgroup, 4)


def _points(machine: Machine, job: Dd, k: Knobs, shape: tuple[int, ...]) -> np.recarray:
    """One row a point: tunables, version, cgroups, weights."""
    bfq, fs = machine.scheduler, machine.filesystem
    rules_of_version, wakers = features(bfq.version(machine.version))
    jiffy = round(S) // machine.host.hz
    log_group, log_ioprio = _log_writer(machine)
    columns: dict[str, Any] = {
        **rules_of_version,
        "slice_idle": np.maximum(k.slice_idle, 8 * MS * bfq.strict_guarantees),
        "jiffy": jiffy,
        "timeout_sync": max(round(bfq.timeout_sync * MS) // jiffy, 1) * jiffy,
        "user_max_budget": bfq.max_budget,
        "strict": bfq.strict_guarantees,
        "low_latency": bfq.low_latency,
        "rotational": machine.device.rotational,
        "wakeup": k.wakeup,
        "bs": k.bs,
        "direct": "direct" in job.oflags,
        "count": k.count,
        "start": k.start,
        "reads": fs.creation_reads if isinstance(fs, Ext4) else 0,
        "read_ns": k.completion + k.request,
        "log_size": 2048 * (fs.journal_mb if isinstance(fs, Ext4) else fs.log_mb),
        "quiet": (getattr(fs, "quiet_before", None) or 0.0) * S,
        "weight0": 10 * (8 - job.ioprio),
        "weight1": 10 * (8 - log_ioprio),
        **_groups(machine, job.cgroup, log_group),
    }
    table = np.zeros(int(np.prod(shape)), tables.POINT).view(np.recarray)
    for name, value in columns.items():
        table[name] = np.round(np.broadcast_to(value, shape)).ravel()
    table.think_limit = table.slice_idle // table.think_divisor
    table.soft_pause = table.slice_idle // jiffy * jiffy + 4 * jiffy
    (wakers if bfq.waker_rules is None else bfq.waker_rules).fill(table)
    return table


def _groups(machine: Machine, of_dd: str, of_log: str) -> dict[str, int]:
    """What BFQ sees of the two cgroups: do they part at the root, with which weights, and do groups' weights differ?"""
    paths = [_path(of_dd), _path(of_log)]
    weights = [{machine.cgroups.of(path).bfq_weight for path in of} for of in paths]
    return {
        "apart": not (paths[0] and paths[1] and paths[0][0] == paths[1][0]),
        "same_group": paths[0] == paths[1],
        "uneven0": len(weights[0]) > 1,
        "uneven1": len(weights[1]) > 1,
        "uneven": len(weights[0] | weights[1]) > 1,
        "child0": bool(paths[0]),
        "child1": bool(paths[1]),
        "group0": machine.cgroups.of(paths[0][0]).bfq_weight if paths[0] else 0,
        "group1": machine.cgroups.of(paths[1][0]).bfq_weight if paths[1] else 0,
    }


def _path(cgroup: str) -> list[str]:
    """The cgroup and those above it but the root, from the top down."""
    found: list[str] = []
    at: str | None = normalise(cgroup)
    while at is not None and parent_of(at) is not None:
        found.insert(0, at)
        at = parent_of(at)
    return found


def _steps(
    machine: Machine, job: Dd, k: Knobs, chain: Chain, point: np.recarray, shape: tuple[int, ...]
) -> np.recarray:
    """The steps of a point: of the commit at the mount, of an operation, and of what follows the last."""
    fs = machine.filesystem
    log_sectors = 0 if isinstance(fs, Ext4) else fs.log_sectors
    loop, tail = _kinds(chain.loop, job, k, log_sectors), _kinds(chain.tail, job, k, log_sectors)
    mount: list[tuple] = []
    if isinstance(fs, Ext4) and fs.quiet_before is not None:
        first = next(n for n, step in enumerate(loop if job.synchronous else tail) if step[1] == 1)
        (_, task, service, _, _, runs), *rest = (loop if job.synchronous else tail)[first:-1]
        mount = [(np.round(k.filesystem * BEFORE_LOG), task, service, FIXED, OLD_LOG * SECTORS, runs), *rest]
    if not job.synchronous and "direct" not in job.oflags:  # nothing but the host's time comes before fsync
        point["count"] = 1
        loop = [(host * k.count, *others) for host, *others in loop]
    every = mount + loop + tail
    point.mount, point.loop, point.tail = len(mount), len(mount + loop), len(every)
    rows = np.zeros((len(point), len(every)), tables.STEP).view(np.recarray)
    for n, step in enumerate(every):
        for name, value in zip(tables.STEP.names, step, strict=True):
            rows[name][:, n] = np.round(np.broadcast_to(value, shape)).ravel()
    return rows


def _kinds(steps: list[Step], job: Dd, k: Knobs, log_sectors: int) -> list[tuple]:
    """Steps as (host, task, service, kind, sectors, runs of kblockd). jbd2's first request is the log, a transaction's
    size; its second the commit block."""
    found: list[tuple] = []
    logged = False
    for step in steps:
        kind, nr, task = PASSES, 0, int(step.task == "log")
        if step.visible and np.any(step.requests):
            kind, nr = FIXED, SECTORS
            if task == 0 and (job.synchronous or "direct" in job.oflags):
                kind = DATA
            elif task == 0:
                nr = np.ceil(k.count * k.bs / PAGE) * SECTORS
            elif log_sectors:
                nr = log_sectors
            elif not logged:
                kind, nr = (LOG, 0) if job.synchronous else (FIXED, FIRST_LOG * SECTORS)
                logged = True
        found.append((step.host, task, step.device, kind, nr, step.runs))
    return found
