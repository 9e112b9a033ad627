"""Thread 3: a reader beside a buffered writer on three SATA devices, under CFQ, BFQ, and deadline with and without WBT.

Source: the question and answer of thread 3 (November 2018), which quotes the letters of the writeback throttling
patches. Its script reads 1 GiB in sequence, 4 KiB at a time, while 50 files of 100 MiB are written through the page
cache.

What is fitted, on idle-disk figures alone: the rate of the first disk (its readahead windows of 256 KiB were waited
for 2 ms, a little more or less), the write rate of the SSD, and the speed of the second system's processor, which with
reads of 4 KiB just keeps up with its 500 MB/s. The other parameters of the devices are those of data sheets and reviews
(`iosched.devices`), or of the kernel: a request takes 168 pages that are scattered in memory, 672 KiB (AHCI). What a
loaded disk does is predicted, but for two constants of the disks' firmware that no idle disk shows, and that are chosen
with a loaded result each in view, the same for both disks: for how long commands go before a piece of the write cache
(that deadline with WBT is somewhat worse than CFQ), and at which age a command goes first (deadline with WBT without
write cache). A third, the writer's rate under CFQ, chose how much of the first system's 8 GB is free or page cache: the
dirty limits follow it, each of the 50 files has its part of what is dirty, and the smaller the part the more the arm
goes between the files. So little is less than one would guess; whatever else makes the writer's pieces small, as free
space in pieces, would look the same.

What the thread does not say and is inferred: the files lie where the disk's second half begins. On the first system,
whose user copies virtual machines' disks, the blkio controller is in use and puts the user's processes into user.slice
(thread 0 describes it); on the second all is in the root. Under CFQ that, and no parameter of the disks, decides who
starves: in one cgroup a reader with two windows in flight preempts the flusher whenever it asks; in another the groups
take turns, sixteen large writes a turn, and the disk destages them in the reader's turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import workloads
from ..devices import ConstantTime, m4_ssd, st500lm012, wd5000lplx
from ..errors import ScenarioError, unknown
from ..host import fitted_host
from ..memory import Memory
from ..scenario import Machine
from ..workloads import Job
from . import Claim, Outcome, claims
from .mixes import BUCKETS_MS, READER, Mix, watch

if TYPE_CHECKING:
    import pandas as pd

READ_BYTES, WRITE_MIB, FILES = 2**30, 5000, 50
REQUEST_KIB = 672
WRITE_US = 12.5  # of Host.ext4_us, two fifths of which a write takes: as dirty_us, for nobody syncs here
MIDDLE = 1  # the second of two partitions
MODERN_CORE, SLOW_CORE = 4.0, 0.83
CHROME_S, CHROME_BS = 20.0, "32k"  # chrome's start: dependent reads, as many as take 20 s on the idle disk
CHROME_BEGINS_S = 5.0  # after dd
WAIT_S = 400.0
LEAST_PRINTED = 0.01  # % of fio's latency groups
STARTS_S = (0.0, 0.07, 0.14, 0.21, 0.28)


@dataclass(frozen=True)
class System:
    """A system of the thread: kernel, device, HZ, its processors' speed, free memory and page cache (MiB), where its
    processes are."""

    kernel: str
    device: ConstantTime
    hz: int
    speed: float
    memory_mb: int
    cgroup: str


SYSTEMS = {
    "wd": System("4.18", wd5000lplx(max_sectors_kb=REQUEST_KIB), 1000, MODERN_CORE, 512, "user.slice"),
    "seagate": System("4.9", st500lm012(max_sectors_kb=REQUEST_KIB), 250, SLOW_CORE, 4096, "/"),
    "m4": System("4.9", m4_ssd(max_sectors_kb=REQUEST_KIB), 250, SLOW_CORE, 4096, "/"),
}

WORDS = {"wd": "WD 7200 rpm", "seagate": "Seagate 5400 rpm", "m4": "Crucial M4 SSD"}

WITHOUT_CACHE = {"device.write_cache": False}
EXPERIMENTS: dict[str, dict[str, Any]] = {  # changes to the machine
    "cfq": {},
    "cfq, no write cache": WITHOUT_CACHE,
    "bfq": {"scheduler": "bfq"},
    "bfq, no write cache": {"scheduler": "bfq", **WITHOUT_CACHE},
    "deadline, wbt 0": {"scheduler": "deadline", "wbt_lat_usec": 0},
    "deadline, wbt 75000": {"scheduler": "deadline", "wbt_lat_usec": 75_000},
    "deadline, wbt 75000, no write cache": {"scheduler": "deadline", "wbt_lat_usec": 75_000, **WITHOUT_CACHE},
}

SETUPS = (*(("wd", experiment) for experiment in EXPERIMENTS), ("seagate", "cfq"), ("m4", "cfq"))  # of the thread


def reader(cgroup: str, **options: Any) -> Job:
    """The script's reader: 1 GiB in sequence, once."""
    options = {"size": READ_BYTES, "loops": 1, "runtime": WAIT_S, "name": "reader", "partition": MIDDLE} | options
    return workloads.sequential_reader(cgroup=cgroup, **options)


def writer(cgroup: str, **options: Any) -> Job:
    """The script's writer: 50 files of 100 MiB, 4 KiB into each in turns, through the page cache."""
    common = {"size": f"{WRITE_MIB}M", "nrfiles": FILES, "fdatasync": 0, "loops": 1, "runtime": WAIT_S}
    return workloads.sequential_writer(cgroup=cgroup, **(common | {"name": "writer", "partition": MIDDLE} | options))


@cache
def machine(system: str, experiment: str = "cfq") -> Machine:
    """A system of the thread under an experiment's scheduler and settings; the same device and host in all.

    >>> machine("wd", "bfq").scheduler_name
    'bfq'
    """
    if system not in SYSTEMS:
        raise unknown("system", system, SYSTEMS)
    if experiment not in EXPERIMENTS:
        raise unknown("experiment", experiment, EXPERIMENTS)
    found = SYSTEMS[system]
    base = Machine(
        kernel=found.kernel,
        device=found.device,
        scheduler="cfq",
        host=replace(fitted_host("4.19", speed=found.speed), cpus=4, hz=found.hz, ext4_us=WRITE_US),
        memory=Memory(size_mb=found.memory_mb),
        cgroups=["user.slice"],
    )
    return base.with_(**EXPERIMENTS[experiment])


@cache
def runs(system: str, experiment: str) -> tuple[Mix, ...]:
    """Reader and writer beside each other, or one alone ("idle read", "idle write": under CFQ). The reader begins a
    little later each time: who has whose turn when is chaotic, and one run differs from the next by a fifth."""
    group = SYSTEMS[system].cgroup if system in SYSTEMS else "/"
    if experiment.startswith("idle "):
        job = reader(group) if experiment == "idle read" else writer(group)
        return (watch(machine(system), [job], until_s=60.0),)
    m = machine(system, experiment)
    return tuple(watch(m, [reader(group, start=start), writer(group)]) for start in STARTS_S)


@cache
def published(system: str, experiment: str) -> dict[str, tuple[float, float]]:
    """What the thread says of an experiment: "reader" and "writer" where it gives a figure, MB/s as (low, high)."""
    said = {}
    for claim in claims("writeback"):
        own = (claim.machine, claim.experiment) == (system, experiment) and claim.who.startswith("author")
        if own and claim.quantity in ("reader", "writer"):
            said[claim.quantity] = (claim.low, claim.high)
    return said


def table() -> pd.DataFrame:
    """The thread's table, one row an experiment: columns setup, reader_MBs, writer_MBs, published_reader and
    published_writer ((low, high) or None)."""
    import pandas as pd

    rows = []
    for system, experiment in SETUPS:
        said = published(system, experiment)
        rows.append(
            {
                "setup": f"{WORDS[system]}, {experiment}",
                "reader_MBs": reader_MBs(system, experiment),
                "writer_MBs": writer_MBs(system, experiment),
                "published_reader": said.get("reader"),
                "published_writer": said.get("writer"),
            }
        )
    return pd.DataFrame(rows)


def published_buckets(experiment: str) -> dict[int, float]:
    """fio's latency groups of the first system as the thread quotes them ("cfq", "idle read"), percent of the reads;
    fio prints 0.01 for whatever is less, down to a single read."""
    found = {}
    for claim in claims("writeback"):
        if claim.experiment == experiment and claim.quantity.startswith("reads up to"):
            found[int(claim.quantity.split()[3])] = max((claim.low + claim.high) / 2, LEAST_PRINTED)
    return found


def modelled_buckets(system: str, experiment: str) -> dict[int, float]:
    """The same of the model, mean over the runs."""
    return {ms: mean(lambda mix, ms=ms: mix.buckets()[ms])(system, experiment) for ms in BUCKETS_MS}


# ---------------------------------------------------------------------------------------------------------------------
# chrome's start


def chrome(**options: Any) -> Job:
    """Dependent reads of 32 KiB all over 20 GiB: what starting a large program from a disk is made of."""
    return workloads.random_reader(bs=CHROME_BS, size="20G", runtime=WAIT_S, name="chrome", partition=MIDDLE, **options)


def dd() -> Job:
    """The thread's `dd if=/dev/zero of=foo bs=1M count=10k`."""
    return workloads.dd(bs="1M", count=10_240, oflag="", cgroup="user.slice", name="dd", partition=MIDDLE)


@cache
def chrome_reads() -> int:
    """How many reads take 20 s on the idle disk: the fitted figure."""
    result = watch(machine("wd"), [chrome(cgroup="user.slice")], until_s=CHROME_S).result
    return int(result.jobs.operations[0])


@cache
def chrome_s(experiment: str) -> float:
    """How long so many reads take while dd writes."""
    jobs = [chrome(cgroup="user.slice", start=CHROME_BEGINS_S), dd()]
    mix = watch(machine("wd", experiment), jobs, until_s=WAIT_S, operations=chrome_reads())
    return float(mix.seconds.second.iloc[-1]) - CHROME_BEGINS_S


@cache
def dd_s(experiment: str) -> float:
    """How long dd takes by itself, until all but the last dirty pages are written."""
    return float(watch(machine("wd", experiment), [dd()], until_s=WAIT_S).seconds.second.iloc[-1])


# ---------------------------------------------------------------------------------------------------------------------
# quantities, each read off the simulation


def evaluate(claim: Claim) -> Outcome:
    """Simulate a claim."""
    if claim.quantity not in QUANTITIES:
        return Outcome(claim, None, None, None, claim.note)
    try:
        return Outcome(claim, QUANTITIES[claim.quantity](claim.machine, claim.experiment), None, None)
    except ScenarioError as error:
        return Outcome(claim, None, None, None, str(error))


def mean(of: Callable[[Mix], float]) -> Callable[[str, str], float]:
    """The mean of a figure over the runs of an experiment."""
    return lambda system, experiment: float(np.mean([of(mix) for mix in runs(system, experiment)]))


reader_MBs, writer_MBs = mean(lambda mix: mix.reader_MBs), mean(lambda mix: mix.writer_MBs)


def reader_share(system: str, experiment: str) -> float:
    """Percent of what the reader gets on the idle device."""
    return 100 * reader_MBs(system, experiment) / reader_MBs(system, "idle read")


def writer_share(system: str, experiment: str) -> float:
    """Percent of what the writer gets on the idle device."""
    return 100 * writer_MBs(system, experiment) / writer_MBs(system, "idle write")


def imbalance(system: str, experiment: str) -> float:
    """How far reader and writer are from equal: 0 equal, 1 one of them has nothing."""
    r, w = reader_MBs(system, experiment), writer_MBs(system, experiment)
    return abs(r - w) / (r + w)


def _cache_better_off(system: str, experiment: str) -> float:
    return float(imbalance(system, f"{experiment}, no write cache") < imbalance(system, experiment))


def _time_in_reads(mix: Mix) -> float:
    """Seconds that the reader spent in its reads."""
    jobs = mix.result.jobs
    return float(jobs.latency_mean_s[READER] * jobs.operations[READER])


def _wbt_by_default(system: str, experiment: str) -> float:
    return float(Machine(kernel=SYSTEMS["wd"].kernel, scheduler=experiment).wbt_target_us > 0)


QUANTITIES: dict[str, Callable[[str, str], float]] = {
    "reader": reader_MBs,
    "writer": writer_MBs,
    "reader below CFQ's": lambda s, e: float(reader_MBs(s, e) < reader_MBs(s, "cfq")),
    "reader's share of idle": reader_share,
    "writer's share of idle": writer_share,
    "mostly without writes": lambda s, e: float(mean(Mix.without_writes)(s, e) > 0.5),
    "writer favoured": lambda s, e: float(writer_share(s, e) > reader_share(s, e)),
    "closer to equal without write cache": _cache_better_off,
    "acknowledged, not yet written": lambda s, e: float(
        mean(lambda mix: mix.together.cached_MB.mean())(s, e) > REQUEST_KIB / 1000
    ),
    "chrome starts sooner without write cache": lambda s, e: float(chrome_s(f"{e}, no write cache") < chrome_s(e)),
    "chrome's start": lambda s, e: CHROME_S,
    "chrome's start over idle": lambda s, e: chrome_s(e) / CHROME_S,
    "chrome starts within half of dd": lambda s, e: float(chrome_s(e) + CHROME_BEGINS_S < 0.5 * dd_s(e)),
    "chrome starts before dd's data are written": lambda s, e: float(chrome_s(e) + CHROME_BEGINS_S < dd_s(e)),
    "reads over 1 ms": mean(lambda mix: mix.slower_than(1)),
    "reads over 250 ms": mean(lambda mix: mix.slower_than(250)),
    "windows of 128 KiB that block": mean(lambda mix: 32 * mix.slower_than(1)),
    "time in reads": mean(_time_in_reads),
    **{f"reads up to {ms} ms": lambda s, e, ms=ms: modelled_buckets(s, e)[ms] for ms in BUCKETS_MS},
    "wbt by default": _wbt_by_default,
    "default wbt_lat_usec": lambda s, e: Machine(kernel=SYSTEMS[s].kernel, scheduler=e).wbt_target_us,
    "queue_depth": lambda s, e: float(SYSTEMS[s].device.queue_depth),
    "bytes read": mean(lambda mix: float(mix.result.jobs.bytes[READER])),
    "bytes written": lambda s, e: float(writer("/").size),
}

__all__ = [
    "EXPERIMENTS",
    "SETUPS",
    "SYSTEMS",
    "WORDS",
    "evaluate",
    "machine",
    "modelled_buckets",
    "published",
    "published_buckets",
    "reader",
    "reader_MBs",
    "runs",
    "table",
    "writer",
    "writer_MBs",
]
