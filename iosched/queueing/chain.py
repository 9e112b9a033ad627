"""One write as a chain of steps, strictly one after the other: host time, then commands (spec block-layer 8 and 9).

The same facts as in `iosched.programs` and the engine, said again as sums: that is what makes it a check of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ScenarioError
from ..filesystems import XFS, Ext4, Raw
from ..scenario import Machine
from ..schedulers import CFQ
from ..workloads import Dbench, Dd
from .knobs import PAGE, Batches, Knobs, Process, Values

# how a file system's own CPU of one write is spread: before the data, before the log, before the commit
BEFORE_DATA, BEFORE_LOG, BEFORE_COMMIT = 0.4, 0.4, 0.2
FIRST_LOG, NEW_LOG, OLD_LOG = 6, 4, 2  # blocks of jbd2's log write: new file, new block, neither


@dataclass
class Step:
    """Some host time, then (unless `requests` is 0) commands of one task that the task waits for. ns.

    `visible`: the scheduler sees them; flush sequences bypass it (spec section 8). `runs`: how often kblockd
    sends them.
    """

    host: Values
    task: str = ""
    device: Values = 0.0
    requests: Values = 0
    visible: bool = True
    runs: Values = 0


class Chain:
    """One operation of dd, and what follows the last one, as lists of steps (sections 8 and 9).

    `begin` are the reads that create the file, `loop` is one operation, `tail` the fsync of `conv`; these two end with
    host time. Of dbench `data` writes a file's pages, `loop` commits them, `tail` is the rest of an fsync with nothing
    to commit. `gap` is host time that has been counted but not yet followed by a command.
    """

    def __init__(self, machine: Machine, job: Process, k: Knobs, count: Values) -> None:
        self.machine, self.job, self.k, self.count = machine, job, k, count
        self.fs = machine.filesystem
        self.steps: list[Step] = []
        self.gap: Values = 0.0
        reads = self.fs.creation_reads if isinstance(self.fs, Ext4) else 0
        self.begin = [Step(k.wakeup, "dd", k.completion + k.request, 1, True, self.insertion_runs)] * reads
        self.data: list[Step] = []
        if isinstance(job, Dbench):
            self.flushes()
        else:
            self.writes(job)

    def flushes(self) -> None:
        """What a flush of dbench's is made of."""
        self.write("dd", 1.0)
        self.data = self.close()
        self.durable()
        self.loop = self.close()
        if self.machine.device.write_cache and getattr(self.fs, "barrier", True):
            self.flush_cache()
        self.tail = self.close()

    def writes(self, job: Dd) -> None:
        """A write of dd's, and what follows the last."""
        k, machine = self.k, self.machine
        direct = "direct" in job.oflags
        self.spend(k.filesystem * (1.0 if isinstance(self.fs, Raw) else BEFORE_DATA))
        if direct:
            fua = isinstance(self.fs, Raw) and job.synchronous and machine.version >= "6.0"
            self.write("dd", self.commands(k.bs), fua=fua)
            if job.synchronous and not fua:
                self.durable()
        else:
            if isinstance(self.fs, Raw):
                self.read_pages()
            if job.synchronous:
                self.write("dd", self.commands_of_pages())
                self.durable()
            else:
                self.spend(k.copying)
        self.loop = self.close()
        if {"fsync", "fdatasync"} & set(job.convs):
            self.fsync(direct)
        self.tail = self.close()

    def close(self) -> list[Step]:
        """Hand over the steps so far."""
        steps = [*self.steps, Step(self.gap)]
        self.steps, self.gap = [], 0.0
        return steps

    def fsync(self, direct: bool) -> None:
        """fsync at the end: what is dirty, and whatever of the log is not yet on the device."""
        if not (direct or self.job.synchronous):
            self.write("dd", np.ceil(np.ceil(self.k.count * self.k.bs / PAGE) * PAGE / self.k.max_bytes))
        if isinstance(self.fs, Raw):
            self.durable()
        elif not self.job.synchronous:
            self.durable()
        elif isinstance(self.fs, XFS) and self.log_writer != "worker":
            self.xfs_log("dd")

    # -----------------------------------------------------------------------------------------------------------------
    # what a step is

    def spend(self, ns: Values) -> None:
        """Host time."""
        self.gap = self.gap + np.round(ns)

    def wake(self) -> None:
        """A task wakes up."""
        self.spend(self.k.wakeup)

    def command(self, task: str, device: Values, requests: Values, runs: Values, visible: bool = True) -> None:
        """Commands at one moment, and the wake-up of who waits for them."""
        self.steps.append(Step(self.gap, task, device, requests, visible, runs))
        self.gap = 0.0
        self.wake()

    @property
    def insertion_runs(self) -> int:
        """On blk-mq with a scheduler kblockd sends what was inserted (section 5)."""
        return int(not self.machine.legacy and self.machine.scheduler_name != "none")

    def write(self, task: str, batches: Batches | Values, fua: bool = False, preflush: bool = False) -> None:
        """Writes; flushes and FUA exist where the kernel sees a cache, and then the scheduler sees nothing (8)."""
        k, device = self.k, self.machine.device
        batches = batches if isinstance(batches, list) else [(1.0, batches)]
        requests = sum(share * n for share, n in batches)
        if not (device.write_cache and (fua or preflush)):
            runs = self.insertion_runs
            if self.alone(task):  # a full device asks for the next by itself
                runs = np.where(np.asarray(k.depth) > 1, np.maximum(requests - 1, 0), 0)
            self.command(task, self.serve(batches, task), requests, runs)
            return
        flushes = int(preflush) + int(fua and not device.fua)
        time = self.serve(batches, task) + flushes * (k.flush + k.request)
        self.command(task, time, requests, self.bypass_runs * (1 + flushes), False)

    @property
    def bypass_runs(self) -> int:
        """On blk-mq kblockd sends each step of a flush sequence, whatever the scheduler."""
        return int(not self.machine.legacy)

    def serve(self, batches: Batches, task: str = "dd") -> Values:
        """Time of commands that are there at once: rounds of as many as the device works on, mean of the batches."""
        k = self.k
        servers = 1 if self.alone(task) else k.servers
        total: Values = 0.0
        for share, requests in batches:
            rounds = np.ceil(requests / servers)
            busy = (rounds > 1) & (servers * k.request > k.completion) & (self.machine.host.cpus > 0)
            if np.any((requests > k.tags) | busy):
                raise ScenarioError(
                    f"dd.bs: {int(np.max(requests))} requests at once are beyond the closed form, which takes as many "
                    "as there are tags (nr_requests) and as a processor can take interrupts for; simulate()."
                )
            total = total + share * rounds
        return total * (k.completion + k.request)

    def alone(self, task: str) -> bool:
        """CFQ sends the idle class's requests one at a time, each by kblockd after the one before (1.10)."""
        return task == "dd" and self.job.ioclass == "idle" and isinstance(self.machine.scheduler, CFQ)

    def commands(self, nbytes: Values) -> Values:
        """Requests of a direct write."""
        return np.ceil(nbytes / self.k.max_bytes)

    def commands_of_pages(self) -> Batches | Values:
        """Requests of the pages that a buffered write touches: one page more or less by its place within a page."""
        k = self.k
        if np.all(np.asarray(k.bs) + 2 * PAGE <= k.max_bytes):
            return 1.0
        mean = _averaged(k.bs, k.max_bytes, self.count, _requests_of_pages)
        few = np.floor(mean)
        return [(1 - (mean - few), few), (mean - few, np.ceil(mean))]

    def read_pages(self) -> None:
        """A buffered write to the device reads the page that it ends in, unless it is cached or covered (9, raw)."""
        reads = _averaged(self.k.bs, self.k.max_bytes, self.count, _page_reads)
        self.steps.append(
            Step(self.gap, "dd", reads * self.serve([(1.0, 1)]), reads, True, reads * self.insertion_runs)
        )
        self.gap = reads * self.k.wakeup

    def durable(self) -> None:
        """The rest of fsync."""
        k = self.k
        if isinstance(self.fs, Raw):
            if self.machine.device.write_cache:
                self.flush_cache()
            return
        if isinstance(self.fs, XFS):
            if self.log_writer == "push":  # a worker formats the log: it is woken, and wakes dd
                self.wake()
                self.wake()
            self.xfs_log("log" if self.log_writer == "worker" else "dd")
            return
        self.wake()
        self.spend(k.filesystem * BEFORE_LOG)
        self.write("log", self.log_requests())
        self.spend(k.filesystem * BEFORE_COMMIT)
        self.write("log", 1, fua=self.fs.barrier, preflush=self.fs.barrier)
        self.wake()

    def flush_cache(self) -> None:
        """A flush by itself."""
        self.command("dd", self.k.flush + self.k.request, 1, self.bypass_runs, False)

    def xfs_log(self, task: str) -> None:
        """XFS's log write; a worker is woken for it and wakes dd afterwards."""
        if task == "log":
            self.wake()
        self.spend(self.k.filesystem * (1 - BEFORE_DATA))
        self.write(task, np.ceil(self.fs.log_sectors * 512 / self.k.max_bytes), fua=True, preflush=True)
        if task == "log":
            self.wake()

    @property
    def log_writer(self) -> str:
        """In whose context XFS's log goes out."""
        return self.fs.log_writer or ("caller" if self.machine.version < "5.14" else "push")

    def log_requests(self) -> Batches | Values:
        """Requests of ext4's log write: descriptor and inode, two blocks more when a block was allocated, and two more
        for a new file's first; one request where the device takes that much at once."""
        k = self.k
        if np.all(np.asarray(k.max_bytes) >= FIRST_LOG * PAGE):
            return 1.0
        first, new, old = (np.ceil(n * PAGE / np.asarray(k.max_bytes)) for n in (FIRST_LOG, NEW_LOG, OLD_LOG))
        if not self.job.synchronous:
            return first
        share = _averaged(k.bs, k.max_bytes, self.count, _allocates)
        created = 1 / self.count
        return [(created, first), (share - created, new), (1 - share, old)]


def _averaged(bs: Values, most: Values, count: Values, pieces: Any) -> Values:
    """Mean over the first `count` writes of a file of `pieces(start, end, most)`, which repeats with the place within a
    page."""
    bs, most, count = np.broadcast_arrays(*(np.asarray(v, float) for v in (bs, most, count)))
    out = np.empty(bs.shape)
    for size, limit in {(float(b), float(m)) for b, m in zip(bs.flat, most.flat, strict=True)}:
        here = (bs == size) & (most == limit)
        period = PAGE // np.gcd(int(size), PAGE)
        start = np.arange(period) * size
        sums = np.concatenate([[0.0], np.cumsum(pieces(start, start + size, limit))])
        n = count[here]
        whole = np.where(np.isinf(n), 1, n // period)
        rest = np.where(np.isinf(n), 0, n % period).astype(int)
        out[here] = (whole * sums[-1] + sums[rest]) / np.where(np.isinf(n), period, n)
    return out[()]


def _requests_of_pages(start: np.ndarray, end: np.ndarray, most: float) -> np.ndarray:
    """Requests of at most `most` bytes that the touched pages make."""
    return np.ceil((np.ceil(end / PAGE) - np.floor(start / PAGE)) * PAGE / most)


def _allocates(start: np.ndarray, end: np.ndarray, most: float) -> np.ndarray:
    """Does the write reach a page of the file that no write before it has touched?"""
    return np.ceil(end / PAGE) > np.ceil(start / PAGE)


def _page_reads(start: np.ndarray, end: np.ndarray, most: float) -> np.ndarray:
    """Does the write end inside a page that no write before it has touched?"""
    return (end % PAGE != 0) & (np.ceil(start / PAGE) <= np.floor(end / PAGE))
