"""Who waits for whom under BFQ: a machine, a job and the numbers of a grid as the tables of `bfq_runs.run_points`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..cgroups import normalise, parent_of
from ..errors import ScenarioError
from ..filesystems import XFS, Ext4, Raw
from ..scenario import Machine
from ..schedulers.bfq_versions import features
from ..workloads import Dbench, Dd
from . import bfq_state as tables
from .bfq_runs import run_points
from .bfq_state import DATA, FIRST_LOG, FIXED, LOADED, LOG, OLD_LOG, PAGE, PASSES, SECTORS
from .chain import BEFORE_LOG, Chain, Step
from .knobs import MS, Knobs, Process, S, Values
from .switches import Waits

FIRST, LAST = 5_000, 20_000  # operations that stand for a run without end
CHUNK = 100  # points that a thread takes at a time
NO_LOAD = np.zeros(0, tables.LOAD).view(np.recarray)


def bfq_waits(machine: Machine, job: Dd, k: Knobs, chain: Chain, count: Values) -> Waits:
    """BFQ's idling an operation. Without a second task that the scheduler sees nobody waits."""
    steps = chain.loop if job.synchronous else chain.loop + chain.tail
    if not {"dd", "log"} <= {step.task for step in steps if step.visible and np.any(step.requests)}:
        if machine.scheduler.strict_guarantees:  # one request in the device, never more
            _check_single(k, steps)
        return Waits(0.0, 0.0, 0.0)
    check(machine, job, k, steps)
    shape = np.broadcast_shapes(*(np.shape(v) for v in vars(k).values()))
    point = points_of(machine, job, k, shape)
    rows = steps_of(machine, job, k, chain, point, shape)
    if job.synchronous and np.all(np.isinf(count)):
        point["count"], point.skipped, point.tail = LAST, FIRST, point.loop
    counts, _ = run(point, rows, NO_LOAD)
    ops = point["count"] - point.skipped if job.synchronous else np.broadcast_to(k.count, shape).ravel()
    return waits_of(counts, ops, shape)


def waits_of(counts: np.ndarray, ops: np.ndarray, shape: tuple[int, ...]) -> Waits:
    """Counts of all points as waits an operation."""
    share = np.moveaxis(counts / ops[:, None, None], 0, -1).reshape(2, -1, *shape)
    for_dd, for_log = share[:, tables.WAITED]
    return Waits(share[:, : tables.N_REASONS].sum((0, 1)), for_dd, for_log, share[:, : tables.WAITED])


def run(point: np.recarray, rows: np.recarray, load: np.recarray) -> tuple[np.ndarray, np.recarray]:
    """Counts of all points (points, whose window, reasons and fates and the ns waited), and dbench's sums."""
    counts = np.zeros((len(point), 2, tables.WAITED + 1), np.int64)
    sums = np.zeros(len(point), tables.SUMS).view(np.recarray)

    def some(first: int) -> None:
        part = slice(first, first + CHUNK)
        n = len(point[part])
        state = np.zeros(n, tables.STATE).view(np.recarray)
        run_points(point[part], rows[part], load, state, counts[part], sums[part])

    if len(point) <= CHUNK:
        some(0)
        return counts, sums
    with ThreadPoolExecutor() as pool:
        list(pool.map(some, range(0, len(point), CHUNK)))
    return counts, sums


def compile_points() -> None:
    """Compile the turns, or load them from the cache, without taking any."""
    run(np.zeros(0, tables.POINT).view(np.recarray), np.zeros((0, 0), tables.STEP).view(np.recarray), NO_LOAD)


def check(machine: Machine, job: Process, k: Knobs, steps: list[Step]) -> None:
    """Where the recursion holds: one request at a time, two queues of the best-effort class that never merge."""
    kind = type(job).__name__.lower()
    if job.ioclass != "best-effort":
        raise ScenarioError(
            f"{kind}.ioclass: {job.ioclass!r} is beyond the closed form of BFQ with a journal, which knows one class; "
            "give 'best-effort', or simulate()."
        )
    _check_single(k, steps)
    group, ioprio = _log_writer(machine)
    merges = features(machine.scheduler.version(machine.version))[0]["stable_merge"]
    if merges and job.ioprio == ioprio and normalise(job.cgroup) == normalise(group):
        raise ScenarioError(
            f"{kind}.ioprio: {job.ioprio} is that of the log's writer, in one cgroup with {kind}, so that since 5.13 "
            "their queues may merge, which is beyond the closed form of BFQ; give another, or simulate()."
        )


def _check_single(k: Knobs, steps: list[Step]) -> None:
    """A write, and a log write, is one request."""
    many = any(np.any(np.asarray(step.requests) > 1) for step in steps if step.visible)
    if many or np.any(np.asarray(k.max_bytes) < FIRST_LOG * PAGE):
        raise ScenarioError(
            "dd.bs: more than one request at once is beyond the closed form of BFQ with a journal; give a bs and "
            "device.max_sectors_kb that make a write, and a log write, one request, or simulate()."
        )


def _log_writer(machine: Machine) -> tuple[str, int]:
    """Cgroup and priority level of jbd2, or of XFS's worker."""
    fs = machine.filesystem
    return (fs.jbd2_cgroup, fs.jbd2_ioprio) if isinstance(fs, Ext4) else (fs.worker_cgroup, 4)


def points_of(machine: Machine, job: Process, k: Knobs, shape: tuple[int, ...], turns: bool = True) -> np.recarray:
    """One row a point: the job, the machine, and where BFQ has `turns` to give its tunables, cgroups and weights."""
    fs = machine.filesystem
    columns: dict[str, Any] = {
        "jiffy": round(S) // machine.host.hz,
        "wakeup": k.wakeup,
        "start": k.start,
        "reads": fs.creation_reads if isinstance(fs, Ext4) else 0,
        "read_ns": k.completion + k.request,
        "log_size": 2048 * (fs.journal_mb if isinstance(fs, Ext4) else fs.log_mb if isinstance(fs, XFS) else 1),
        "quiet": (getattr(fs, "quiet_before", None) or 0.0) * S,
    }
    if isinstance(job, Dbench):
        counting = k.start + job.warmup_s * S
        columns |= {"operation": k.operation, "counting": counting, "stop": counting + job.runtime * S}
        columns["metadata"] = not isinstance(fs, Raw)
    else:
        columns |= {"bs": k.bs, "direct": "direct" in job.oflags, "count": k.count}
    table = np.zeros(int(np.prod(shape)), tables.POINT).view(np.recarray)
    if turns:
        columns |= _of_bfq(machine, job, k)
    for name, value in columns.items():
        table[name] = np.round(np.broadcast_to(value, shape)).ravel()
    if turns:
        _derive(machine, table)
    return table


def _of_bfq(machine: Machine, job: Process, k: Knobs) -> dict[str, Any]:
    """What BFQ knows of a point from the start."""
    bfq = machine.scheduler
    jiffy = round(S) // machine.host.hz
    log_group, log_ioprio = _log_writer(machine)
    return {
        **features(bfq.version(machine.version))[0],
        "slice_idle": np.maximum(k.slice_idle, 8 * MS * bfq.strict_guarantees),
        "timeout_sync": max(round(bfq.timeout_sync * MS) // jiffy, 1) * jiffy,
        "user_max_budget": bfq.max_budget,
        "strict": bfq.strict_guarantees,
        "low_latency": bfq.low_latency,
        "rotational": machine.device.rotational,
        "weight0": 10 * (8 - job.ioprio),
        "weight1": 10 * (8 - log_ioprio),
        **_groups(machine, job.cgroup, log_group),
    }


def _derive(machine: Machine, table: np.recarray) -> None:
    """Columns that follow from others, and the rules of wakers."""
    bfq = machine.scheduler
    wakers = features(bfq.version(machine.version))[1]
    table.think_limit = table.slice_idle // table.think_divisor
    table.soft_pause = table.slice_idle // table.jiffy * table.jiffy + 4 * table.jiffy
    (wakers if bfq.waker_rules is None else bfq.waker_rules).fill(table)


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


def steps_of(
    machine: Machine, job: Process, k: Knobs, chain: Chain, point: np.recarray, shape: tuple[int, ...]
) -> np.recarray:
    """The steps of a point: of the commit at the mount, of an operation, and of what follows the last (of dbench's
    flushes: the data, the commit, and what takes its place)."""
    fs = machine.filesystem
    log_sectors = fs.log_sectors if isinstance(fs, XFS) else 0
    data, loop, tail = (_kinds(steps, job, k, log_sectors) for steps in (chain.data, chain.loop, chain.tail))
    loads = isinstance(job, Dbench)
    mount: list[tuple] = []
    if isinstance(fs, Ext4) and fs.quiet_before is not None:
        commit = loop if loads or job.synchronous else tail
        first = next(n for n, step in enumerate(commit) if step[1] == 1)
        (_, task, service, _, _, runs), *rest = commit[first:-1]
        mount = [(np.round(k.filesystem * BEFORE_LOG), task, service, FIXED, OLD_LOG * SECTORS, runs), *rest]
    if not (loads or job.synchronous or "direct" in job.oflags):  # nothing but the host's time comes before fsync
        point["count"] = 1
        loop = [(host * k.count, *others) for host, *others in loop]
    every = mount + data + loop + tail
    point.mount, point.data = len(mount), len(mount + data)
    point.loop, point.tail = len(mount + data + loop), len(every)
    rows = np.zeros((len(point), len(every)), tables.STEP).view(np.recarray)
    for n, step in enumerate(every):
        for name, value in zip(tables.STEP.names, step, strict=True):
            rows[name][:, n] = np.round(np.broadcast_to(value, shape)).ravel()
    return rows


def _kinds(steps: list[Step], job: Process, k: Knobs, log_sectors: int) -> list[tuple]:
    """Steps as (host, task, service, kind, sectors, runs of kblockd). jbd2's first request is the log, a transaction's
    size; its second the commit block."""
    found: list[tuple] = []
    loads = isinstance(job, Dbench)
    logged = False
    for step in steps:
        kind, nr, task = PASSES, 0, int(step.task == "log")
        if step.visible and np.any(step.requests):
            kind, nr = FIXED, SECTORS
            if task == 0 and loads:
                kind = LOADED
            elif task == 0 and (job.synchronous or "direct" in job.oflags):
                kind = DATA
            elif task == 0:
                nr = np.ceil(k.count * k.bs / PAGE) * SECTORS
            elif log_sectors:
                nr = log_sectors
            elif not logged:
                kind, nr = (LOADED, 0) if loads else (LOG, 0) if job.synchronous else (FIXED, FIRST_LOG * SECTORS)
                logged = True
        found.append((step.host, task, step.device, kind, nr, step.runs))
    return found
