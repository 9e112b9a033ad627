"""Compile a scenario into the engine's tables: what each process does, in the engine's operations.

Here stands what a write and its fsync are on each file system (spec block-layer section 9); the operations themselves
are in `engine/tasks.py`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .cgroups import parent_of
from .controller_programs import cost_models, fill_controllers
from .devices import SSD, Channels, Disk, Exponential
from .disk_programs import device_rows, fill_disk, fill_ssd
from .engine import codes as c
from .engine.clock import schedule
from .engine.loop import run
from .engine.platter import MODULUS
from .engine.rows import Table
from .engine.state import ROWS, State, allocate
from .engine.tables import STEP
from .errors import ScenarioError
from .filesystems import XFS, Ext4, Raw
from .fio_programs import fill_streams, fio_program, slots_of
from .loads import read_load
from .scenario import Machine, Scenario
from .schedulers import BFQ, CFQ, OLD_CFQ, SCHEDULERS, Anticipatory, Deadline, Kyber, OldCFQ
from .schedulers.cfq_state import BE
from .shared_programs import fill_teams, shared_program, shared_rows
from .workloads import IOCLASSES, Dbench, Dd, Fio, Job, SharedReader
from .writeback_programs import (
    fill_wbt,
    fill_writeback,
    flusher_groups,
    flusher_program,
    is_cached,
    more_files,
    sync_pages,
)

PARTITION_SECTORS = 1 << 34  # 8 TiB a partition
FILE_AREA = 266_240  # where a partition's files begin, its log begins at LOG_AREA (as on the measured file systems)
DBENCH_SECTORS = 1 << 19  # a dbench client's files go round in so much room
EXTENT_SECTORS = 512  # 256 KiB: the piece that a small growing file gets at a time
LOG_AREA = 1 << 33
SMALLEST_PARTITION = 1 << 17  # 64 MiB
METADATA_AREAS = 33_928, 1_096  # where a real 5.10 read inode and bitmap blocks
KERNEL_CLASS = BE
BOOKS = (  # what a device row has summed up, as against what it is
    "sectors_in_read read_merges read_sojourn_ns write_sojourn_ns "
    "area_in_system busy_ns held_ns empty_ns served_ns sojourn_ns arrived completed merges "
    "flushes sectors_in sectors_out sectors_read sectors_written read_requests write_requests "
    "ticked_area_in_system ticked_busy_ns ticked_sojourn_ns"
).split()

# how a file system's own CPU of one write is spread over its steps
WRITE_SHARE, COMMIT_SHARE = 0.4, 0.4

put_event = getattr(schedule, "py_func", schedule)  # as plain Python, before the compiled loop runs

Program = list[tuple[int, int, int]]


def compile_scenario(scenario: Scenario, trace_rows: int = 0) -> State:
    """Tables for `engine.loop.run`. `trace_rows` > 0 switches the trace on with a buffer of that many events."""
    machine = scenario.machine
    fs = machine.filesystem
    partitions = sorted({job.partition for job in scenario.jobs})
    workers = 0 if isinstance(fs, Raw) or (isinstance(fs, XFS) and log_writer(machine) == "caller") else len(partitions)
    programs = [program_of(machine, job) for job in scenario.jobs]
    programs += [worker_program(machine) for _ in range(workers)]
    flushers = flusher_groups(scenario)
    programs += [flusher_program() for _ in flushers]
    starts = np.cumsum([0] + [len(p) for p in programs])
    ops = np.array([op for program in programs for op in program], dtype=ROWS["ops"]).view(Table)
    nr_requests, n_requests = request_limits(machine, len(programs))
    s = allocate(
        n_devices=1 if machine.volume is None else machine.volume.disks,
        n_tasks=len(programs),
        ops=ops,
        steps=steps_of(scenario),
        n_seconds=sum(seconds_of(job) for job in scenario.jobs),
        n_streams=sum(isinstance(job, Fio) for job in scenario.jobs),
        n_slots=sum(slots_of(job) for job in scenario.jobs),
        n_files=len(scenario.jobs) + more_files(scenario),
        n_journals=len(partitions),
        n_flushers=len(flushers),
        n_groups=len(machine.cgroups.paths),
        n_requests=n_requests,
        n_bios=4 * n_requests + 512,
        cpus=machine.host.cpus,
        fair=bool(flushers) or machine.version.old,
        trace_rows=trace_rows,
        with_cfq=isinstance(machine.scheduler, CFQ | OldCFQ),
        with_anticipatory=isinstance(machine.scheduler, Anticipatory),
        with_kyber=isinstance(machine.scheduler, Kyber),
        with_deadline=isinstance(machine.scheduler, Deadline),
        with_bfq=isinstance(machine.scheduler, BFQ),
        n_limits=2 * len(machine.cgroups.paths) if machine.cgroups.limited else 0,
        n_cost_models=len(cost_models(machine)),
        n_hardware_queues=machine.device.hw_queues,
        with_io_latency=bool(machine.cgroups.targets_us),
        **device_rows(machine.device, 1 if machine.volume is None else machine.volume.disks),
        **shared_rows(scenario),
    )
    fill_sim(s, scenario)
    for d in range(len(s.devices)):
        fill_device(s, d, machine, nr_requests)
    fill_groups(s, machine)
    fill_bfq(s, machine)
    fill_jobs(s, scenario, partitions, starts)
    fill_streams(s, scenario)
    fill_teams(s, scenario)
    fill_workers(s, scenario, partitions, starts[: len(scenario.jobs) + workers + 1])
    fill_wbt(s, machine)
    fill_writeback(s, scenario, flushers)
    for task in range(len(scenario.jobs) + workers, len(programs)):
        s.tasks[task].pc = place_program(s, starts, task)
        put_event(s, 0, c.EV_TASK, task)
    if isinstance(fs, Ext4) and fs.quiet_before is not None and not machine.version.old:
        live_through_mount(s, round(fs.quiet_before * c.SEC))
    sim = s.sim[0]
    sim.live = len(scenario.jobs)
    sim.trace_on = int(trace_rows > 0)
    for task, job in enumerate(scenario.jobs):
        if isinstance(job, Dbench):
            s.tasks[task].counting_from += sim.epoch
        if isinstance(job, Dbench | Fio):
            s.tasks[task].stop_at += sim.epoch
        if isinstance(job, Fio):
            s.streams[s.tasks[task].stream].due += sim.epoch
        put_event(s, int(sim.epoch) + round(job.start * c.SEC), c.EV_TASK, task)
    s.teams.begin += sim.epoch
    for team, m in enumerate(s.teams):
        if m.client:
            put_event(s, int(m.begin), c.EV_REPLY, team)
    s.latency.window_start = sim.epoch
    return s


def live_through_mount(s: State, quiet_ns: int) -> None:
    """Let every jbd2 commit once, then be quiet for a while: the jobs begin at `sim.epoch`, with clean books."""
    sim = s.sim[0]
    sim.live = 1
    s.journals.requested = 1
    s.journals.inodes = 1
    run(s, c.NEVER - 1, c.NEVER)  # nothing is left to happen at its end
    sim.now += quiet_ns
    sim.epoch = sim.now
    sim.cpu_ns = sim.io_wait_ns = 0
    for dev in s.devices:
        for column in BOOKS:
            dev[column] = 0
        dev.accounted_at = sim.now
    s.disks.destage_ns = 0
    s.idle[:] = 0
    sim.events = 0


# ---------------------------------------------------------------------------------------------------------------------
# programs


def program_of(machine: Machine, job: Job) -> Program:
    """What one process does."""
    if isinstance(job, SharedReader):
        return shared_program(machine, job)
    if isinstance(job, Fio):
        return fio_program(machine, job, cpu_ns(machine, WRITE_SHARE), [*data_part(job), *durable_if_changed(machine)])
    return dbench_program(machine, job) if isinstance(job, Dbench) else dd_program(machine, job)


def dbench_program(machine: Machine, job: Dbench) -> Program:
    """What one client does until its time is over: the operations up to the next flush, and that flush."""
    begin = creation_reads(machine, job)
    operation_us = machine.host.scaled("dbench_op_us") * getattr(machine.filesystem, "dbench_share", 1.0)
    loop: Program = [(c.OP_NEXT_STEP, round(operation_us * c.USEC), 0), (c.OP_STEP_WRITE, 0, 0)]
    loop += [(c.OP_START, 0, 0), *write_back(), *durable_if_changed(machine), (c.OP_END, 0, 0)]
    return [*begin, *loop, (c.OP_JUMP, len(begin), 0)]


def durable_if_changed(machine: Machine) -> Program:
    """The rest of an fsync whose file may have nothing to commit: then only the device's cache is flushed."""
    flush: Program = [(c.OP_FLUSH, 0, 0), (c.OP_WAIT, 0, 0)]
    fs = machine.filesystem
    if isinstance(fs, Raw):
        return flush
    if isinstance(fs, Ext4) and not fs.barrier:
        flush = []
    if isinstance(fs, Ext4) or log_writer(machine) == "worker":
        return [(c.OP_COMMIT, 0, len(flush)), *flush]
    commit = [*durable(machine), (c.OP_SKIP, len(flush), 0)]
    return [(c.OP_SKIP_IF_CLEAN, len(commit), 0), *commit, *flush]


def dd_program(machine: Machine, job: Dd) -> Program:
    """What one dd does: `count` times a write of `bs` bytes, each made durable if oflag says so."""
    fs = machine.filesystem
    write_ns = cpu_ns(machine, WRITE_SHARE)
    begin = creation_reads(machine, job)
    loop: Program = [(c.OP_START, 0, 0), (c.OP_OWE if job.cached else c.OP_CPU, write_ns, 0)]
    if "direct" in job.oflags:
        fua = isinstance(fs, Raw) and job.synchronous and machine.version >= "6.0"
        loop += [(c.OP_PLUG, 0, 0), (c.OP_DIRECT_WRITE, job.bs, c.F_FUA if fua else 0)]
        loop += [(c.OP_UNPLUG, 0, 0), (c.OP_WAIT, 0, 0)]
        if job.synchronous and not fua:
            loop += durable(machine)
    else:
        if isinstance(fs, Raw):
            loop += [(c.OP_READ_PAGE, job.bs, 0), (c.OP_WAIT, 0, 0)]
        loop += [(c.OP_CACHED_WRITE if job.cached else c.OP_BUFFERED_WRITE, job.bs, 0)]
        if job.synchronous:
            loop += write_back() + durable(machine)
    loop += [(c.OP_END, job.bs, 0), (c.OP_LOOP, len(begin), 0)]
    tail: Program = []
    if {"fsync", "fdatasync"} & set(job.convs):
        tail = data_part(job) + durable(machine)
    return begin + loop + tail + [(c.OP_EXIT, 0, 0)]


def creation_reads(machine: Machine, job: Dd) -> Program:
    """The metadata blocks that creating the file reads, one after the other (`Ext4.creation_reads`)."""
    fs = machine.filesystem
    if not isinstance(fs, Ext4):
        return []
    program: Program = []
    for k in range(fs.creation_reads):
        place = METADATA_AREAS[k % 2] + k // 2 * c.PAGE_SECTORS  # in its partition (`place_program`)
        program += [(c.OP_READ_BLOCK, place, 0), (c.OP_WAIT, 0, 0)]
    return program


def write_back() -> Program:
    """The data part of fsync: dirty pages as WRITE|SYNC in the caller's context, and wait."""
    return [(c.OP_PLUG, 0, 0), (c.OP_WRITE_PAGES, c.F_SYNC, 0), (c.OP_UNPLUG, 0, 0), (c.OP_WAIT, 0, 0)]


def data_part(job: Dd | Fio) -> Program:
    """The data part of a job's fsync: of its few newest pages, or of a file that the flusher writes too."""
    return sync_pages() if job.cached else write_back()


def durable(machine: Machine) -> Program:
    """The rest of fsync: a journal commit, a log write or a flush, whoever sends it."""
    fs = machine.filesystem
    if isinstance(fs, Raw):
        return [(c.OP_FLUSH, 0, 0), (c.OP_WAIT, 0, 0)]
    if isinstance(fs, Ext4):
        return [(c.OP_COMMIT, 0, 0)]
    writer = log_writer(machine)
    if writer == "worker":
        return [(c.OP_COMMIT, 0, 0)]
    push: Program = [(c.OP_COMMIT, 0, 0)] if writer == "push" else []
    cpu = cpu_ns(machine, 1 - WRITE_SHARE)
    return [*push, (c.OP_CPU, cpu, 0), (c.OP_LOG_WRITE, xfs_log_flags(machine), fs.log_sectors), (c.OP_WAIT, 0, 0)]


def worker_program(machine: Machine) -> Program:
    """The journal's kernel thread: jbd2, or XFS's log worker. It sleeps until a commit is asked for."""
    fs = machine.filesystem
    begin: Program = [(c.OP_LOG_SLEEP, 0, 0)]
    end: Program = [(c.OP_LOG_DONE, 0, 0), (c.OP_JUMP, 0, 0)]
    if isinstance(fs, XFS):
        if log_writer(machine) == "push":
            return [*begin, (c.OP_LOG_TAKE, 0, 0), *end]
        cpu = cpu_ns(machine, 1 - WRITE_SHARE)
        write: Program = [(c.OP_LOG_WRITE, xfs_log_flags(machine), fs.log_sectors), (c.OP_WAIT, 0, 0)]
        return [*begin, (c.OP_CPU, cpu, 0), (c.OP_LOG_TAKE, 0, 0), *write, *end]
    flags = c.F_SYNC if machine.version < "5.0" else c.F_SYNC | c.F_META | c.F_IDLE
    commit_flags = flags | (c.F_PREFLUSH | c.F_FUA if fs.barrier else 0)
    log: Program = [(c.OP_PLUG, 0, 0), (c.OP_LOG_BLOCKS, flags, 0), (c.OP_LOG_ORDERED, 0, 0)]
    log += [(c.OP_UNPLUG, 0, 0), (c.OP_WAIT, 0, 0)]
    commit: Program = [(c.OP_LOG_COMMIT_BLOCK, commit_flags, 0), (c.OP_WAIT, 0, 0)]
    before_log, before_commit = cpu_ns(machine, COMMIT_SHARE), cpu_ns(machine, 1 - WRITE_SHARE - COMMIT_SHARE)
    take: Program = [(c.OP_CPU, before_log, 0), (c.OP_LOG_TAKE, 0, 0)]
    return [*begin, *take, *log, (c.OP_CPU, before_commit, 0), *commit, *end]


def xfs_log_flags(machine: Machine) -> int:
    """Flags of an XFS log write; IDLE came with the 6.1 that was read (spec block-layer section 0)."""
    idle = c.F_IDLE if machine.version >= "5.0" else 0
    return c.F_SYNC | c.F_META | c.F_PREFLUSH | c.F_FUA | idle


def log_writer(machine: Machine) -> str:
    """In whose context XFS's log goes out (`XFS.log_writer`), by version where it is not set."""
    fs = machine.filesystem
    if fs.log_writer is not None:
        return fs.log_writer
    return "caller" if machine.version < "5.14" else "push"


def cpu_ns(machine: Machine, share: float) -> int:
    """A share of the file system's CPU of one small write, in ns."""
    name = {Ext4: "ext4_us", XFS: "xfs_us", Raw: "raw_us"}[type(machine.filesystem)]
    if isinstance(machine.filesystem, Raw):
        share = 1.0 if share == WRITE_SHARE else 0.0
    return round(machine.host.scaled(name) * share * c.USEC)


# ---------------------------------------------------------------------------------------------------------------------
# tables


def request_limits(machine: Machine, n_tasks: int) -> tuple[int, int]:
    """(queue/nr_requests, records needed): per cgroup and sync/async on the legacy path, shared tags on blk-mq."""
    depth = machine.device.queue_depth
    if machine.legacy:
        nr = machine.nr_requests or 128
        return nr, 3 * nr * len(machine.cgroups.paths) + n_tasks + 2  # half as many again for batchers, both ways
    nr = machine.nr_requests or (depth if machine.scheduler_name == "none" else 2 * min(depth, 128))
    return nr, nr * machine.device.hw_queues + n_tasks + 2


def fill_sim(s: State, scenario: Scenario) -> None:
    """The host's costs."""
    sim = s.sim[0]
    host = scenario.machine.host
    sim.cpus = host.cpus
    sim.wakeup_ns = round(host.scaled("wakeup_us") * c.USEC)
    name = "request_us" if scenario.machine.legacy else "request_mq_us"
    sim.tick_ns = c.SEC // host.hz
    sim.spread = round(1000 * host.spread)
    sim.generator = 1 + sum(getattr(job, "seed", 0) for job in scenario.jobs)
    own = {"mq-deadline": "deadline_us", "kyber": "kyber_us", "bfq": "bfq_us"}.get(scenario.machine.scheduler_name)
    sim.scheduler_ns = round(host.scaled(own) * c.USEC) if own else 0
    sim.lock_ns = 0 if own == "kyber_us" else round(host.scaled("lock_us") * c.USEC)
    sim.request_ns = round(host.scaled(name) * c.USEC)


def fill_device(s: State, d: int, machine: Machine, nr_requests: int) -> None:
    """The device's row and its scheduler's."""
    device = machine.device
    dev = s.devices[d]
    _, dev.scheduler, legacy, _, _ = SCHEDULERS[machine.scheduler_name]
    if isinstance(machine.scheduler, OldCFQ):
        dev.scheduler = OLD_CFQ[1]
    dev.legacy = int(legacy)
    s.sim[0].queue_plugs = dev.queue_plugs = int(machine.version.old)
    dev.asynchronous_run = int(not legacy and machine.scheduler_name != "none")
    dev.flush_at_once = int(dev.asynchronous_run and machine.version < "5.0")
    dev.depth = device.queue_depth * device.hw_queues
    dev.servers = min(device.servers, dev.depth)
    dev.completion_ns = round(device.completion_us * c.USEC)
    if isinstance(device, Channels):
        dev.sector_ps = round(512e6 / device.bandwidth_MBs)
        dev.write_ps = round(512e6 / (device.write_MBs or device.bandwidth_MBs))
    elif isinstance(device, Disk):
        fill_disk(s, d, device)
    elif isinstance(device, SSD):
        fill_ssd(s, device)
    elif isinstance(device, Exponential):  # spread out, since the generator's first numbers follow a small seed
        dev.generator = int(np.random.SeedSequence(device.seed).generate_state(1)[0]) % (MODULUS - 1) + 1
    dev.flush_ns = dev.completion_ns if device.flush_us is None else round(device.flush_us * c.USEC)
    dev.scsi = int(getattr(device, "scsi", False))
    dev.reads_first = int(getattr(device, "reads_first", False))
    dev.write_cache = int(device.write_cache)
    dev.fua = int(device.fua)
    dev.rotational = int(device.rotational)
    dev.max_sectors = 2 * device.max_sectors_kb
    dev.queue_tags = nr_requests
    dev.hardware_queues = 1 if machine.legacy else device.hw_queues
    dev.nr_requests = nr_requests * dev.hardware_queues
    if isinstance(machine.scheduler, CFQ):
        machine.scheduler.fill(s, d, device.rotational, machine.version >= "4.6", machine.host.hz)
    elif isinstance(machine.scheduler, OldCFQ):
        machine.scheduler.fill(s, d, machine.version, machine.host.hz)
    elif isinstance(machine.scheduler, Anticipatory):
        machine.scheduler.fill(s, d, machine.host.hz)
    elif isinstance(machine.scheduler, Deadline):
        machine.scheduler.fill(s, d, machine.scheduler_name == "mq-deadline" and machine.version >= "5.14")
    elif isinstance(machine.scheduler, Kyber):
        machine.scheduler.fill(s, d)


def fill_groups(s: State, machine: Machine) -> None:
    """The cgroup tree, and CFQ's view of it."""
    paths = machine.cgroups.paths
    for g, path in enumerate(paths):
        parent = parent_of(path)
        s.groups[g].parent = c.NONE if parent is None else paths.index(parent)
        if isinstance(machine.scheduler, CFQ):
            group = machine.cgroups.of(path)
            row = s.cfq_groups[g]
            row.parent = s.groups[g].parent
            row.weight = group.weight
            row.leaf_weight = group.weight if group.leaf_weight is None else group.leaf_weight
    fill_controllers(s, machine)


def fill_bfq(s: State, machine: Machine) -> None:
    """BFQ's tunables, version and group weights."""
    if isinstance(machine.scheduler, BFQ):
        weights = [machine.cgroups.of(path).bfq_weight for path in machine.cgroups.paths]
        machine.scheduler.fill(s, 0, machine.device.rotational, machine.version, machine.host.hz, weights)


def fill_jobs(s: State, scenario: Scenario, partitions: list[int], starts: np.ndarray) -> None:
    """One task and one file a job."""
    machine = scenario.machine
    lay_out_files(s, scenario)
    loads = loads_of(scenario)
    first_seconds = np.cumsum([0] + [seconds_of(job) for job in scenario.jobs])
    for i, job in enumerate(scenario.jobs):
        t = s.tasks[i]
        t.pc = place_program(s, starts, i, job.partition * areas(scenario).size)
        t.group = machine.cgroups.index(job.cgroup)
        t.file = i
        t.left = getattr(job, "count", 0)
        if isinstance(job, Dbench):
            fill_load(t, job, loads, int(first_seconds[i]))
        t.ioprio = job.ioprio
        t.ioclass = IOCLASSES.index(job.ioclass)
        t.state = c.T_READY
        f = s.files[i]
        f.journal = partitions.index(job.partition)
        f.metadata = int(not isinstance(machine.filesystem, Raw))
        t.journal = f.journal
        f.size_limit = DBENCH_SECTORS * 512
        f.tick = c.NONE


def steps_of(scenario: Scenario) -> np.ndarray:
    """The loads of all dbench jobs, one behind the other; an empty row where there is none."""
    tables = [read_load(load) for load in loads_of(scenario)]
    return np.concatenate(tables).view(np.recarray) if tables else np.zeros(1, STEP).view(np.recarray)


def loads_of(scenario: Scenario) -> list[str | Path | None]:
    """The distinct loads of a scenario's jobs."""
    return list(dict.fromkeys(job.load for job in scenario.jobs if isinstance(job, Dbench)))


def seconds_of(job: Job) -> int:
    """Rows of the second-by-second table that a job fills."""
    return math.ceil(job.start + job.warmup_s + job.runtime) + 1 if isinstance(job, Dbench) else 0


def fill_load(t: np.record, job: Dbench, loads: list[str | Path | None], first_second: int) -> None:
    """Where a dbench client finds its load, and when it begins to count and stops."""
    t.first_step = sum(len(read_load(load)) for load in loads[: loads.index(job.load)])
    t.n_steps = len(read_load(job.load))
    t.step = c.NONE
    t.first_second = first_second
    t.n_seconds = seconds_of(job)
    t.counting_from = round((job.start + job.warmup_s) * c.SEC)
    t.stop_at = t.counting_from + round(job.runtime * c.SEC)


class Areas(NamedTuple):
    """Sectors of a partition, and where in it the files begin, may end, and the log begins."""

    size: int
    files: int
    end: int
    log: int


def areas(scenario: Scenario) -> Areas:
    """A disk's partitions share it, each with the log in its middle; other devices have room for any file.

    Raises ScenarioError if the partitions of a disk get too little.
    """
    device = scenario.machine.device
    if not isinstance(device, Disk):
        return Areas(PARTITION_SECTORS, FILE_AREA, LOG_AREA, LOG_AREA)
    partitions = 1 + max(job.partition for job in scenario.jobs)
    size = sectors_of_volume(scenario.machine) // partitions // c.PAGE_SECTORS * c.PAGE_SECTORS
    if size < SMALLEST_PARTITION:
        raise ScenarioError(
            f"device.capacity_GB: {device.capacity_GB:g} is too little for {partitions} partitions; give at least "
            f"{partitions * SMALLEST_PARTITION * 513e-9:.2g}."
        )
    log = size // 2 // c.PAGE_SECTORS * c.PAGE_SECTORS
    raw = isinstance(scenario.machine.filesystem, Raw)
    return Areas(size, 0, size, log) if raw else Areas(size, min(FILE_AREA, size // 4), log, log)


def sectors_of_volume(machine: Machine) -> int:
    """Sectors of the disk, or of all disks that are striped."""
    volume = machine.volume
    striped = volume is not None and volume.layout == "striped"
    return machine.device.sectors * (volume.disks if striped else 1)


def lay_out_files(s: State, scenario: Scenario) -> None:
    """Place the files of each partition. A growing file gets its blocks an extent at a time, so the extents of
    files that grow side by side alternate; one file by itself, each job on a raw device, and fio's files, which are
    there when it begins, have one piece.

    Raises ScenarioError if a partition is full.
    """
    raw = isinstance(scenario.machine.filesystem, Raw)
    place = areas(scenario)
    for partition in {job.partition for job in scenario.jobs}:
        rows = [
            i for i, job in enumerate(scenario.jobs) if job.partition == partition and not getattr(job, "thread", 0)
        ]
        laid_out = [i for i in rows if isinstance(scenario.jobs[i], Fio | SharedReader)]
        cached = [i for i in rows if is_cached(scenario.jobs[i])]
        laid_out = [i for i in laid_out if i not in cached]
        growing = [i for i in rows if i not in laid_out and i not in cached]
        room = place.end - sum(sectors_of(scenario.jobs[i]) for i in rows)
        first = partition * place.size + max(min(place.files, room // EXTENT_SECTORS * EXTENT_SECTORS), 0)
        end = place_files(s, scenario, growing, first, alternate=not raw and len(growing) > 1)
        end = place_files(s, scenario, laid_out, end, alternate=False)
        end = place_files(s, scenario, cached, end, alternate=False)
        if end - partition * place.size > place.end:
            room = (place.end - place.files) * 512
            job = scenario.jobs[rows[0]]
            raise ScenarioError(
                f"{job.name}.{'size' if hasattr(job, 'size') else 'count'}: the files of partition {partition} are "
                f"larger than its {room / 1e12:.3g} TB; give fewer or smaller writes, or another partition."
            )


def place_files(s: State, scenario: Scenario, rows: list[int], first: int, *, alternate: bool) -> int:
    """Place files from a sector on, one behind the other or in turns; returns where they end."""
    if not rows:
        return first
    longest = max(sectors_of(scenario.jobs[i]) for i in rows)
    extent = max(EXTENT_SECTORS, *(getattr(scenario.jobs[i], "bs", 0) // 512 for i in rows))
    if not alternate:
        extent = -(-longest // EXTENT_SECTORS) * EXTENT_SECTORS
    for k, i in enumerate(rows):
        s.files[i].first = first + k * extent
        s.files[i].extent = extent
        s.files[i].stride = len(rows) * extent
    return first + len(rows) * -(-longest // extent) * extent


def sectors_of(job: Job) -> int:
    """Length of a job's file."""
    if isinstance(job, Fio | SharedReader):
        return -(-job.size // 512)
    return DBENCH_SECTORS if isinstance(job, Dbench) else -(-job.bs * job.count // 512)


def fill_workers(s: State, scenario: Scenario, partitions: list[int], starts: np.ndarray) -> None:
    """Logs, and the kernel thread of each."""
    machine = scenario.machine
    fs = machine.filesystem
    place = areas(scenario)
    for k, partition in enumerate(partitions):
        j = s.journals[k]
        j.first = partition * place.size + place.log
        j.head = j.first
        j.sectors = 2048 * (fs.journal_mb if isinstance(fs, Ext4) else fs.log_mb if isinstance(fs, XFS) else 1)
        j.sectors = min(j.sectors, (place.size - place.log) // 2)
        task = len(scenario.jobs) + k
        if task >= len(starts) - 1:
            continue
        j.task = task
        t = s.tasks[task]
        t.pc = place_program(s, starts, task)
        t.group = machine.cgroups.index(fs.jbd2_cgroup if isinstance(fs, Ext4) else fs.worker_cgroup)
        t.journal = k
        t.ioprio = fs.jbd2_ioprio if isinstance(fs, Ext4) else 4
        t.ioclass = KERNEL_CLASS
        t.state = c.T_READY
        put_event(s, 0, c.EV_TASK, task)


def place_program(s: State, starts: np.ndarray, i: int, partition: int = 0) -> int:
    """Shift the jumps of program `i` to where it stands in the table, and the blocks that it reads to its partition;
    returns its first row."""
    ops = s.ops[starts[i] : starts[i + 1]]
    ops.a[ops.code == c.OP_READ_BLOCK] += partition
    jumps = (ops.code == c.OP_LOOP) | (ops.code == c.OP_JUMP)
    ops.a[jumps] += starts[i]
    return int(starts[i])


__all__ = ["compile_scenario", "log_writer"]
