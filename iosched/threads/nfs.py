"""Thread 4: one NFS read of 36 MB/s under CFQ and 89 under deadline, and what it takes to make them cooperate.

Source: linux-kernel, "Slow file transfer speeds with CFQ IO scheduler in some cases", November 2008.

What is fitted, and on what: the link on the read of a cached file (95.4 MB/s); the disks' rate on the local dd under
deadline (193 MB/s); on avgrq-sz, await and svctm of the NFS read under deadline what the disks read ahead
(`segment_kb`) and hand out (`bus_MBs`), the processors (`speed`, `bio_us`), how far apart the client's requests are
(`request_us`), and what it asks for at once. Requests of less than a stripe say that the server reads no further ahead
than 128 KiB, as on a volume of the device mapper; bios are as large as that row says (1 + rrqm/r of them a request).
The two disks are striped, since both work alike. HZ=100 is recalled by the spec, 8 threads are nfsd's default. Of 90
settings near the best fit 39 come within a tenth or so of that row; they give CFQ 32.5 to 39.7 MB/s, and the one that
is taken lies in the middle. Everything under CFQ is predicted.

The disks of the thread read 31 to 37 % more than dd gets, in every row, and nobody knows why (an interval that iostat
took for a quarter shorter than it was would do that). So what iostat has a second, avgqu-sz and %util among it (else no
row could obey Little's law), is times that under deadline, and under CFQ a ratio to deadline's row. Of the two disks
the mean is taken: statistics were in ticks, and stalls end with a tick, so that one disk may count as long what the
other counts as nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from .. import workloads
from ..devices import Disk
from ..errors import unknown
from ..host import Host
from ..queueing import cooperating
from ..result import Result
from ..scenario import Machine
from ..schedulers import OldCFQ
from ..simulation import simulate
from ..tools import COLUMNS as IOSTAT
from ..volumes import Volume
from . import Claim, Outcome, claims

if TYPE_CHECKING:
    import pandas as pd

DD_BYTES = 2000 * 2**20
DISKS = ("sda", "sdb")
COLUMNS = IOSTAT["2008"]
PER_REQUEST = ("avgrq-sz", "await", "svctm")
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
    "smooth arrivals": ({}, {"client": False, "rate": NETWORK_MBs * 1e6, "own_files": True}),
}


@cache
def machine() -> Machine:
    """The thread's server under CFQ.

    >>> machine().kernel
    '2.6.27'
    """
    disk = Disk(zones_MBs=97.0, bus_MBs=140, segment_kb=2048)
    return Machine(
        kernel="2.6.27",
        device=disk,
        filesystem="ext4",
        scheduler="cfq",
        host=Host(hz=100, cpus=4, speed=1.25, bio_us=3),
        volume=Volume(stripe_kb=64, ahead_kb=128, bio_kb=8),
    )


def job(**changes: Any) -> workloads.SharedReader:
    """The thread's NFS read."""
    options = {"size": DD_BYTES, "network_MBs": NETWORK_MBs, "burst": 21, "ahead": 21, "slots": 32, "threads": 8,
               "latency_us": 200.0, "request_us": 38.0}  # fmt: skip
    return workloads.nfs_read("128k", **{**options, **changes})


def cfq() -> Machine:
    """The same with CFQ's tunables to be changed."""
    return machine().with_(scheduler=OldCFQ())


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


def traced(*experiments: str, size: int = 40 * 2**20) -> dict[str, Result]:
    """Short runs of experiments with their events, for pictures.

    >>> list(traced("deadline", size=2**22))
    ['deadline']
    """
    out = {}
    for experiment in experiments:
        changed, reader = scenario(experiment)
        out[experiment] = simulate(changed, replace(reader, size=size), trace=True)
    return out


def rates(*experiments: str) -> dict[str, float]:
    """dd's rates in bytes/s, by experiment."""
    return {experiment: rate(experiment) for experiment in experiments}


def forms(*experiments: str) -> dict[str, float]:
    """The same by the closed form."""
    return {experiment: cooperating(*scenario(experiment)).bytes_per_s for experiment in experiments}


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


def disk_row(experiment: str, disk: int | None = None) -> dict[str, float]:
    """A disk's row as iostat -x of the time has it, over the whole run, in SI units: await and svctm are seconds. None
    is the mean of both disks, or of their requests."""
    rows = run(experiment).iostat(columns="2008").frame[list(COLUMNS)]
    rows[["await", "svctm"]] *= 1e-3
    row = rows.mean() if disk is None else rows.iloc[disk]
    if disk is None:
        for column in PER_REQUEST:
            row[column] = (rows[column] * rows["r/s"]).sum() / rows["r/s"].sum()
    return row.to_dict()


def iostat_rows() -> pd.DataFrame:
    """The thread's ten rows of iostat, simulated: columns experiment, disk and iostat's own; await and svctm in ms.

    >>> iostat_rows().shape
    (10, 13)
    """
    import pandas as pd

    rows = []
    for experiment in ("deadline", "cooperators", "cfq", "clone_io", "both"):
        for disk, name in enumerate(DISKS):
            row = disk_row(experiment, disk)
            row |= {column: 1e3 * row[column] for column in ("await", "svctm")}
            rows.append({"experiment": experiment, "disk": name, **row})
    return pd.DataFrame(rows)


def iostat(experiment: str, column: str) -> float:
    """A figure of the mean disk under `experiment`. Rates count the third that the thread's disks read beyond what dd
    gets: they are taken times that excess of deadline's row."""
    row = disk_row(experiment)
    return row[column] * (1.0 if column in PER_REQUEST else excess())


@cache
def excess() -> float:
    """How many times dd's bytes the thread's disks read under deadline."""
    said = {(c.experiment, c.quantity): c.low for c in claims("nfs") if c.id in ("T4-013", "T4-065")}
    return said["deadline", "disk rate"] / said["deadline", "throughput"]


def over_deadline(experiment: str, column: str) -> float:
    """The same figure as the ratio to deadline's row, times what the thread has for that, the mean of its disks."""
    rows = [
        c.low for c in claims("nfs") if c.experiment == "deadline" and c.quantity in [f"{d} {column}" for d in DISKS]
    ]
    base = disk_row("deadline")[column]
    return sum(rows) / len(rows) * disk_row(experiment)[column] / base if base else 0.0


# ---------------------------------------------------------------------------------------------------------------------
# quantities

REASONS = {
    "local cfq": "CFQ waits for dd, so that the first bio of each window goes by itself, and the disks get twice as "
    "many commands; the model's disks read on meanwhile. Disks of one command at a time, 107 us and 115 MB/s, give 192 "
    "under deadline and 165 under CFQ, but then the NFS read's svctm under deadline is 0.47 ms or more, not 0.35",
    "waits": "the model's requests wait a quarter less than under deadline, the thread's not: here a first bio goes "
    "at once (else they wait an eighth longer), there a fifth of the bios join another thread's request "
    "(else a sixteenth shorter)",
    "one disk": "the two disks of this row were not alike, and the model's mean of both lies between them",
    "stalls": "the model's two disks stall together, a queue a tick until all are served, so that each holds a request "
    "nearly all the time; with HZ=250 and bursts of 2 MB they fall out of step (37 MB/s, %util 62 and 90)",
}


def evaluate(claim: Claim) -> Outcome:
    """Simulate a claim, and calculate it where the closed form answers the same question."""
    if claim.quantity.startswith("cpu ") or claim.quantity == "not of the model" or claim.machine != "server-2.6.27":
        return Outcome(claim, None, None, None, claim.note)
    disk, _, column = claim.quantity.partition(" ")
    if disk in DISKS:
        return Outcome(claim, _of_disk(claim.experiment, disk, column), None, None, _why(claim))
    return Outcome(claim, QUANTITIES[claim.quantity](claim.experiment), _calculated(claim), None, _why(claim))


def _of_disk(e: str, disk: str, column: str) -> float:
    row = disk_row(e, DISKS.index(disk))
    if column == "Little's law":
        return row["r/s"] * row["await"] / row["avgqu-sz"]
    if column == "util check":
        return 100 * row["r/s"] * row["svctm"] / row["%util"]
    return iostat(e, column) if e == "deadline" else over_deadline(e, column)


def _why(claim: Claim) -> str:
    """What is known of a figure that does not come out."""
    disk, _, column = claim.quantity.partition(" ")
    if claim.note or disk not in DISKS:
        return claim.note or (REASONS["local cfq"] if claim.experiment == "local cfq" else "")
    if claim.experiment in ("cooperators", "both"):
        return REASONS["waits"]
    return REASONS["stalls" if claim.experiment == "clone_io" or column in ("svctm", "%util") else "one disk"]


def _calculated(claim: Claim) -> float | None:
    """The closed form's rate of the stalled stream."""
    if claim.quantity != "throughput" or claim.experiment not in ("cfq", "clone_io", "deadline"):
        return None
    return float(cooperating(*scenario(claim.experiment)).bytes_per_s)


def _both(column: str) -> Callable[[str], float]:
    """Of both disks together."""
    return lambda e: len(DISKS) * (iostat(e, column) if e == "deadline" else over_deadline(e, column))


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
