"""Writeback in the engine's operations and tables: flushers, the limits of dirty memory, writeback throttling."""

from __future__ import annotations

from .engine import codes as c
from .engine import throttle, wbt
from .engine.state import State
from .filesystems import Ext4, Raw
from .scenario import Machine, Scenario
from .schedulers.cfq_state import BE
from .workloads import Dd, Fio

COMMIT_INTERVAL = 5 * c.SEC  # ext4's mount option commit=
EXT4_WINDOW = 2048  # pages that its allocator gives a large file at a time (`engine.files.reserve_blocks`)
SMALL_BIO_PAGES = 256  # of a bio before 5.1, when a bio had one page an entry

Program = list[tuple[int, int, int]]


def is_cached(job: object) -> bool:
    """Does the job leave dirty pages for a flusher?"""
    return getattr(job, "cached", False)


def flusher_groups(scenario: Scenario) -> list[str]:
    """The cgroups in whose name flushers write: the root, or with cgroup writeback each with a buffered writer."""
    groups = [job.cgroup for job in scenario.jobs if is_cached(job)]
    if not scenario.machine.memory.cgroup_writeback:
        groups = ["/"] * bool(groups)
    return list(dict.fromkeys(groups))


def flusher_program() -> Program:
    """A flusher does one thing for ever."""
    return [(c.OP_WRITEBACK, 0, 0)]


def sync_pages() -> Program:
    """The data part of the fsync of a file that the flusher writes too: send what is dirty, wait for what is sent."""
    return [(c.OP_PLUG, 0, 0), (c.OP_SYNC_PAGES, c.F_SYNC, 0), (c.OP_UNPLUG, 0, 0), (c.OP_WAIT_PAGES, 0, 0)]


def fill_writeback(s: State, scenario: Scenario, groups: list[str]) -> None:
    """The cache's row, one flusher a group with its task (they are the last ones), and the files that they write."""
    machine = scenario.machine
    memory, row = machine.memory, s.caches[0]
    row.background, row.limit = memory.limits_pages
    row.expire = memory.dirty_expire_centisecs * 10 * c.MSEC
    row.interval = memory.dirty_writeback_centisecs * 10 * c.MSEC
    row.dirty_ns = round(machine.host.scaled("dirty_us") * c.USEC)
    row.clean_ns = round(machine.host.scaled("clean_us") * c.USEC)
    row.written_ns = round(machine.host.scaled("written_us") * c.USEC)
    row.flushers = len(groups)
    row.ratelimit = row.balanced = row.bandwidth = row.average = throttle.FIRST_RATE
    row.bio_pages = machine.device.max_sectors_kb * 1024 // c.PAGE
    if machine.version < "5.1" and not isinstance(machine.filesystem, Raw):
        row.bio_pages = min(row.bio_pages, SMALL_BIO_PAGES)
    for k, group in enumerate(groups):
        task = int(s.sim[0].n_tasks) - len(groups) + k
        t = s.tasks[task]
        t.group, t.flusher, t.ioprio, t.ioclass, t.state = machine.cgroups.index(group), k, 4, BE, c.T_READY
        s.flushers[k].task = task
    further = len(scenario.jobs)
    for i, job in enumerate(scenario.jobs):
        if not is_cached(job):
            continue
        f = s.files[i]
        f.flusher = groups.index(job.cgroup) if memory.cgroup_writeback else 0
        f.length = -(-file_bytes(job) // c.PAGE)
        f.delayed = int(not isinstance(machine.filesystem, Raw) and not getattr(job, "overwrite", False))
        j = s.journals[f.journal]
        if isinstance(machine.filesystem, Ext4):
            j.interval, j.window = COMMIT_INTERVAL, EXT4_WINDOW
        if f.delayed:
            j.allocated = f.first if j.allocated == 0 else min(j.allocated, f.first)
        for k in range(1, getattr(job, "nrfiles", 1)):
            if k == 1:
                s.streams[s.tasks[i].stream].more_files = further
            s.files[further] = f
            s.files[further].first = f.first + k * int(f.length) * c.PAGE_SECTORS
            further += 1


def more_files(scenario: Scenario) -> int:
    """Files besides the first of each job; their rows stand behind those."""
    return sum(getattr(job, "nrfiles", 1) - 1 for job in scenario.jobs)


def file_bytes(job: Dd | Fio) -> int:
    """Length of a file that the job writes."""
    return job.file_size if isinstance(job, Fio) else job.bs * job.count


def fill_wbt(s: State, machine: Machine) -> None:
    """Writeback throttling's target and its first depth; without a target it is off."""
    target = round(machine.wbt_target_us * c.USEC)
    s.devices[0].wbt = int(target > 0)
    w = s.wbt[0]
    known = machine.device.tells_depth
    w.target, w.queue_depth = target, machine.device.queue_depth if known else int(s.devices[0].nr_requests)
    getattr(wbt.set_depth, "py_func", wbt.set_depth)(w)


__all__ = ["fill_wbt", "fill_writeback", "flusher_groups", "flusher_program", "is_cached", "more_files", "sync_pages"]
