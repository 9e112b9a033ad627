"""The host: what the CPU adds to every request, write and wake-up. Fitted once a machine on a row without a scheduler,
and the same whatever scheduler runs on it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from .errors import ScenarioError
from .kernels import Kernel
from .knobs import check, knob, named


@named
@dataclass(frozen=True)
class Host:
    """CPU costs of one machine, in microseconds at speed 1.

    The defaults are those of a kernel-4.19 guest at one instruction a nanosecond, fitted on its noop and none rows
    alone (`iosched.measure.hostfit`, `data/hosts.csv`). `speed` divides them all: 4 is a modern core.

    >>> Host(speed=4).scaled("wakeup_us") == Host().wakeup_us / 4
    True
    """

    request_us: float = knob(5.3, "driver and interrupt of a command, legacy path", "us", 0, 1e6)
    request_mq_us: float = knob(3.0, "driver and interrupt of a command, blk-mq", "us", 0, 1e6)
    wakeup_us: float = knob(3.2, "until a woken task runs", "us", 0, 1e6)
    ext4_us: float = knob(48.2, "ext4's and jbd2's own CPU of a small write with fsync", "us", 0, 1e6)
    xfs_us: float = knob(26.7, "XFS's own CPU of a small write with fsync", "us", 0, 1e6)
    raw_us: float = knob(12.9, "the block device file's own CPU of a small write with fsync", "us", 0, 1e6)
    dbench_op_us: float = knob(19.6, "one operation of dbench between two flushes", "us", 0, 1e6)
    read_us: float = knob(1.8, "what fio does between two operations", "us", 0, 1e6)
    copy_us: float = knob(0.87, "copying a page out of the page cache", "us", 0, 1e6)
    ahead_us: float = knob(4.1, "a page of readahead: finding memory for it, mostly by reclaim", "us", 0, 1e6)
    bio_us: float = knob(0.0, "building and sending a bio of readahead in a shared file", "us", 0, 1e6)
    dirty_us: float = knob(5.0, "a further page of a buffered write: copying it into the page cache", "us", 0, 1e6)
    clean_us: float = knob(3.0, "a page that is sent to the device by the flusher", "us", 0, 1e6)
    written_us: float = knob(2.5, "a page whose writeback is done, in the interrupt", "us", 0, 1e6)
    deadline_us: float = knob(0.0, "mq-deadline's own CPU a request, under its lock", "us", 0, 1e6)
    kyber_us: float = knob(0.0, "kyber's own CPU a request", "us", 0, 1e6)
    bfq_us: float = knob(0.0, "BFQ's own CPU a request, under its lock", "us", 0, 1e6)
    lock_us: float = knob(0.0, "taking a scheduler's lock from another processor", "us", 0, 1e6)
    spread: float = knob(0.0, "CPU bursts are drawn within so much of their length either way", "", 0, 1)
    cpus: int = knob(1, "processors; 0: as many as wanted", "processors", 0, 256, integer=True)
    hz: int = knob(250, "timer ticks a second (CONFIG_HZ)", "1/s", choices=(100, 250, 300, 1000))
    speed: float = knob(1.0, "how many times faster than one instruction a nanosecond", "", 1e-3, 1e3)

    def __post_init__(self) -> None:
        check(self, "host.")

    def scaled(self, name: str) -> float:
        """The cost `name` in us at this host's speed."""
        return getattr(self, name) / self.speed


def fitted_host(kernel: str | Kernel, speed: float = 1.0) -> Host:
    """The host of the kernel measurements: of this version, or of the measured one nearest below (else above).

    >>> fitted_host("4.19").hz
    1000
    """
    import csv

    from .data import data_file

    wanted = Kernel(kernel)
    with data_file("hosts.csv").open(newline="") as f:
        rows = [row for row in csv.DictReader(f) if row.get("kernel")]
    if not rows:
        raise ScenarioError("data/hosts.csv has no rows.")
    below = [row for row in rows if Kernel(row["kernel"]) <= wanted]
    row = max(below or rows, key=lambda r: Kernel(r["kernel"]).numbers) if below else rows[0]
    names = {f.name for f in fields(Host)}
    costs = {k: float(v) for k, v in row.items() if k in names and k not in ("cpus", "hz") and v != ""}
    return replace(Host(**costs, hz=int(row["hz"])), speed=speed)
