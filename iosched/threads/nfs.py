"""Thread 4: one NFS read of 36 MB/s under CFQ and 89 under deadline, and what it takes to make them cooperate.

Source: linux-kernel, "Slow file transfer speeds with CFQ IO scheduler in some cases", November 2008.

What is fitted, and on what: the link on the read of a cached file (95.4 MB/s); the disks' rate on the local dd under
deadline (193 MB/s); and on the iostat row of the NFS read under deadline what the disks read ahead (`segment_kb`), and
what the client asks for at once: r/s times await says that a burst brings 24 requests of 45 KiB to each disk, 2.1 MB
to both, which is a read-ahead of 15 RPCs of 128 KiB, asked for when the one before is read. bios are as large as its
requests say (1 + rrqm/r of them each). The two disks are striped, since both work alike. HZ=100 is recalled by the
spec, 8 threads are nfsd's default, the CPU is assumed. Everything under CFQ is predicted.

The disks of the thread read 31 to 37 % more than dd gets, in every row, and nobody knows why. So iostat's figures
under CFQ are predicted as ratios to deadline's row.
"""

from __future__ import annotations

from collections.abc import Callable

from functools import cache
from typing import Any

from .. import workloads
from ..devices import Disk
from ..errors import unknown
from ..host import Host
from ..queueing import cooperating
from ..result import Result
from ..scenario import Machine
from ..schedulers import OldCFQ
from ..simulation import simulate
from ..volumes import Volume
from . import Claim, Outcome, claims

DD_BYTES = 2000 * 2**20
COLUMNS = ("rrqm/s", "wrqm/s", "r/s", "w/s", "rsec/s", "wsec/s", "avgrq-sz", "avgqu-sz", "await", "svctm", "%util")
DISKS = ("sda", "sdb")
NETWORK_MBs = 95.4

_CLONED = {"io_context": "clone_io"}  # kthreadd, the threads' parent, has no io_context
_COOPERATES = {"scheduler": OldCFQ(cooperators="first")}
# experiment -> (changes to the machine, changes to the reader)
EXPERIMENTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "deadline": ({"scheduler": "deadline"}, {}),
    "cfq": ({}, {}),
    "cooperators": (_COOPERATES, {}),
    "clone_io": ({}, _CLONED),
    "both": (_COOPERATES, _CLONED),
    "shared io_context": ({}, {"io_context": "shared", "parent_context": True}),
    "anticipatory": ({"scheduler": "anticipatory"}, {}),
    "merging queues": ({"kernel": "2.6.32", "host.hz": 100}, {}),
    "smooth arrivals": ({}, {"burst": 1, "ahead": 15}),
}


@cache
def machine() -> Machine:
    """The thread's server under CFQ.

    >>> machine().kernel
    '2.6.27'
    """
    disk = Disk(zones_MBs=97.0, read_ahead_kb=128, segment_kb=1024)
    return Machine(
        kernel="2.6.27",
        device=disk,
        filesystem="ext4",
        scheduler="cfq",
        host=Host(hz=100, cpus=4, speed=4),
        volume=Volume(stripe_kb=64, bio_kb=8),
    )


def job(**changes: Any) -> workloads.SharedReader:
    """The thread's NFS read."""
    options = {"size": DD_BYTES, "network_MBs": NETWORK_MBs, "burst": 15, "ahead": 15, "slots": 16, "threads": 8,
               "latency_us": 200.0, "request_us": 6.0}  # fmt: skip
    return workloads.nfs_read("128k", **{**options, **changes})


def scenario(experiment: str) -> tuple[Machine, workloads.SharedReader]:
    """Machine and reader of an experiment. Raises ScenarioError for an unknown one."""
    if experiment.startswith("local "):
        changed = machine().with_(scheduler=experiment.removeprefix("local "))
        return changed, workloads.shared_reader("1M", DD_BYTES, threads=1, name="dd")
    if experiment not in EXPERIMENTS:
        raise unknown("experiment", experiment, EXPERIMENTS)
    changes, job_changes = EXPERIMENTS[experiment]
    return machine().with_(**changes), job(**job_changes)


@cache
def run(experiment: str) -> Result:
    """The experiment, simulated (kept, since several claims look at the same run)."""
    return simulate(*scenario(experiment))


def rate(experiment: str) -> float:
    """What dd says, in bytes/s; of a cached file the link's."""
    if experiment == "cached":
        return min(NETWORK_MBs * 1e6, DD_BYTES * 1e9)
    return float(run(experiment).shared_reads.bytes_per_s.iloc[0])


def published() -> dict[str, float]:
    """dd's rates of the NFS reads in bytes/s, by experiment; of deadline's four the first.

    >>> published()["cfq"]
    36400000.0
    """
    rows = [c for c in claims("nfs") if c.quantity == "throughput" and c.experiment in EXPERIMENTS]
    return {c.experiment: c.low for c in reversed(rows) if c.machine == "server-2.6.27"}


def disk_row(experiment: str, disk: int) -> dict[str, float]:
    """A disk's row as iostat -x of the time has it, over the whole run, in SI units: await and svctm are seconds."""
    result = run(experiment)
    dev, t = result.state.devices[disk], result.elapsed
    requests = int(dev.read_requests)
    busy = int(dev.busy_ns + dev.held_ns) * 1e-9
    row = [int(dev.merges), 0, requests, 0, int(dev.sectors_read), 0]
    values = [v / t for v in row]
    values += [int(dev.sectors_read) / requests, int(dev.area_in_system) * 1e-9 / t]
    values += [int(dev.sojourn_ns) * 1e-9 / requests, busy / requests, 100 * busy / t]
    return dict(zip(COLUMNS, values, strict=True))


def iostat(experiment: str, disk: int, column: str) -> float:
    """A figure of a CFQ row as the ratio to deadline's, times what the thread has for that."""
    published = next(
        c.low for c in claims("nfs") if c.experiment == "deadline" and c.quantity == f"{DISKS[disk]} {column}"
    )
    mine, base = disk_row(experiment, disk)[column], disk_row("deadline", disk)[column]
    return published * mine / base if base else mine


# ---------------------------------------------------------------------------------------------------------------------
# quantities


def evaluate(claim: Claim) -> Outcome:
    """Simulate a claim, and calculate it where the closed form answers the same question."""
    if claim.quantity.startswith("cpu ") or claim.quantity == "not of the model" or claim.machine != "server-2.6.27":
        return Outcome(claim, None, None, None, claim.note)
    disk, _, column = claim.quantity.partition(" ")
    if disk in DISKS:
        return Outcome(claim, _of_disk(claim.experiment, DISKS.index(disk), column), None, None)
    return Outcome(claim, QUANTITIES[claim.quantity](claim.experiment), _calculated(claim), None)


def _of_disk(e: str, disk: int, column: str) -> float:
    row = disk_row(e, disk)
    if column == "Little's law":
        return row["r/s"] * row["await"] / row["avgqu-sz"]
    if column == "util check":
        return 100 * row["r/s"] * row["svctm"] / row["%util"]
    return iostat(e, disk, column)


def _calculated(claim: Claim) -> float | None:
    """The closed form's rate of the stalled stream."""
    if claim.quantity != "throughput" or claim.experiment not in ("cfq", "clone_io", "deadline"):
        return None
    return float(cooperating(*scenario(claim.experiment)).bytes_per_s)


def _both(column: str) -> Callable[[str], float]:
    return lambda e: sum(iostat(e, disk, column) for disk in range(len(DISKS)))


def _a_request(e: str) -> float:
    return 512 * _both("rsec/s")(e) / _both("r/s")(e)


def _bios(e: str) -> float:
    return 1 + _both("rrqm/s")(e) / _both("r/s")(e)


def _effect(e: str) -> float:
    return float(abs(rate(e) / rate("cfq") - 1) > 0.01)


def _stalls(e: str) -> int:
    return int(run(e).idling.fired_held.sum())


QUANTITIES: dict[str, Callable[[str], float]] = {
    "throughput": rate,
    "elapsed": lambda e: DD_BYTES / rate(e),
    "disk rate": lambda e: 512 * _both("rsec/s")(e),
    "both r/s": _both("r/s"),
    "request size": _a_request,
    "bios a request": _bios,
    "deadline over cfq": lambda _: rate("deadline") / rate("cfq"),
    "over cfq": lambda e: rate(e) / rate("cfq"),
    "time of 128 KiB": lambda e: 128 * 1024 / rate(e),
    "extra time of a MiB": lambda e: 2**20 / rate(e) - 2**20 / rate("deadline"),
    "threads interleave": lambda e: float((run(e).jobs.operations > 0).sum() > 1),
    "fewer stalls": lambda e: float(_stalls(e) < _stalls("cfq") / 10),
    "effect": _effect,
}
