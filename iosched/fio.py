"""fio's jobs: random and sequential readers and writers, each with a file of its own that is there at the start."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .errors import ScenarioError
from .jobs import check_job, check_options, parse_size
from .knobs import knob, named

RW = ("read", "write", "randread", "randwrite")
ENGINES = ("sync", "libaio")
PAGE = 4096
LARGEST_FILE = 2**42


@named
@dataclass(frozen=True)
class Fio:
    """A fio job; the fields have fio's names, and units of their own where they say so. Build it with `fio(...)`, which
    takes fio's spelling of sizes, or by `random_reader`, `sequential_reader`, `sequential_writer`.

    The job runs for `runtime` seconds, or `loops` times over its file, whichever comes first. Its random places come
    from `seed`; a block may be drawn twice, and no page is found in the page cache twice. Buffered sequential reads go
    through readahead, whose limit fio's advice doubles (spec bfq-and-controllers trap 26). The latency of an operation
    includes the fdatasync that follows it. With `overwrite` the file has its blocks already, so that an fdatasync has
    nothing to commit; without, each write allocates. With `fdatasync=0` they stay in the page
    cache until the flusher writes them (`iosched.Memory`).

    >>> fio(rw="randread", bs="4k", iodepth=8, ioengine="libaio", direct=True).bs
    4096
    """

    rw: str = knob("read", "what it does", choices=RW)
    bs: int = knob(4096, "bytes an operation", "bytes", 512, 2**30, integer=True, slider=(4096, 1 << 20, "log"))
    size: int = knob(2**30, "bytes of the file, or of all its files together", "bytes", 512, LARGEST_FILE, integer=True)
    nrfiles: int = knob(1, "files, an operation each in turns; buffered writers only", "files", 1, 1024, integer=True)
    ioengine: str = knob("sync", "sync: one operation after the other; libaio: iodepth at once", choices=ENGINES)
    iodepth: int = knob(1, "operations at once", "operations", 1, 1024, integer=True, slider=(1, 256, "log"))
    direct: bool = knob(False, "O_DIRECT")
    fdatasync: int = knob(0, "fdatasync after so many writes; 0: never", "writes", 0, 10**9, integer=True)
    overwrite: bool = knob(False, "writes go to blocks that the file has")
    thinktime_us: float = knob(0.0, "sleep after an operation", "us", 0, 1e9)
    rate: float | None = knob(None, "no faster than this; None: as fast as it goes", "bytes/s", 1, 1e12, optional=True)
    numjobs: int = knob(1, "processes, each with a file of its own", "processes", 1, 56, integer=True)
    runtime: float = knob(10.0, "time after which no operation begins", "s", 1e-6, 86400)
    loops: int | None = knob(None, "times over the file; None: until the runtime is over", "", 1, 10**9, integer=True,
                             optional=True)  # fmt: skip
    cgroup: str = "/"
    partition: int = knob(0, "partition of the device, each with a file system of its own", "", 0, 15, integer=True)
    ioprio: int = knob(4, "priority level within the class", "", 0, 7, integer=True)
    ioclass: str = "best-effort"
    start: float = knob(0.0, "when the processes begin", "s", 0, 1e6)
    seed: int = knob(1, "of the random places", "", 1, 2**31 - 57, integer=True)
    name: str = "fio"

    def __post_init__(self) -> None:
        check_job(self, "fio")
        self._check_engine()
        if self.bs > self.file_size:
            raise ScenarioError(
                f"fio.size: {self.size} is less than one operation; give at least bs = {self.bs}, times nrfiles."
            )
        if self.nrfiles > 1 and not self.cached:
            raise ScenarioError(
                f"fio.nrfiles: {self.nrfiles} is modelled for buffered writers only (rw=write, direct=False, not "
                "fdatasync=1); give 1."
            )
        if self.direct and self.bs % 512:
            raise ScenarioError(f"fio.bs: {self.bs} is not allowed with direct; give a multiple of 512 bytes.")
        if self.random and not self.direct and self.bs % PAGE and PAGE % self.bs:
            raise ScenarioError(
                f"fio.bs: {self.bs} is not allowed at random places of the page cache; give a multiple or a divisor "
                f"of {PAGE} bytes."
            )
        if self.writes and not self.direct:
            self._check_buffered_writes()
        elif not self.writes and self.fdatasync:
            raise ScenarioError(
                f"fio.fdatasync: {self.fdatasync} is not allowed, a reader has nothing to sync; give 0."
            )

    def _check_engine(self) -> None:
        if self.ioengine == "sync" and self.iodepth > 1:
            raise ScenarioError(
                f"fio.iodepth: {self.iodepth} is not allowed with ioengine sync, which waits for each operation; give "
                "1, or ioengine libaio."
            )
        if self.ioengine == "libaio" and (not self.direct or self.fdatasync):
            raise ScenarioError(
                "fio.ioengine: libaio is not asynchronous through the page cache or with fdatasync; give direct=True "
                "and fdatasync=0, or ioengine sync."
            )

    def _check_buffered_writes(self) -> None:
        if self.random and self.fdatasync != 1:
            raise ScenarioError(
                f"fio.fdatasync: {self.fdatasync} leaves dirty pages at random places of the page cache, which is not "
                "modelled; give 1, or rw=write, or direct=True."
            )

    @property
    def file_size(self) -> int:
        """Bytes of one file."""
        return self.size // self.nrfiles

    @property
    def random(self) -> bool:
        """Does every operation go to a place of its own?"""
        return self.rw.startswith("rand")

    @property
    def writes(self) -> bool:
        """Does it write?"""
        return self.rw.endswith("write")

    @property
    def cached(self) -> bool:
        """Does it leave written pages in the page cache, for the flusher or a later fdatasync?"""
        return self.writes and not self.direct and self.fdatasync != 1

    @property
    def reads_ahead(self) -> bool:
        """Does it read through readahead windows?"""
        return self.rw == "read" and not self.direct

    @property
    def operations(self) -> int:
        """Operations of all loops; -1 where only the runtime ends them."""
        return -1 if self.loops is None else self.loops * self.nrfiles * (self.file_size // self.bs)

    def expanded(self) -> tuple[Fio, ...]:
        """One job a process, with places of its own."""
        if self.numjobs == 1:
            return (self,)
        return tuple(replace(self, numjobs=1, seed=self.seed + k) for k in range(self.numjobs))


def fio(rw: str = "read", bs: int | str = 4096, size: int | str = 2**30, **options: object) -> Fio:
    """A fio job. Sizes as fio takes them ("4k", "1G"); options as the fields of `Fio`.

    Raises ScenarioError for an absurd number, an option fio does not have here, or a combination that makes no sense.

    >>> fio(rw="write", bs="4k", fdatasync=1).writes
    True
    """
    check_options(Fio, "fio", options)
    if isinstance(options.get("rate"), str):
        options["rate"] = parse_size("fio.rate", options["rate"], 10**12)  # type: ignore[arg-type]
    return Fio(rw, parse_size("fio.bs", bs), parse_size("fio.size", size, LARGEST_FILE), **options)  # type: ignore[arg-type]


def random_reader(**options: object) -> Fio:
    """A random reader of 4 KiB blocks, buffered and with one operation at a time unless told otherwise.

    >>> random_reader(direct=True, ioclass="realtime").rw
    'randread'
    """
    return fio(**({"rw": "randread", "name": "random reader"} | options))  # type: ignore[arg-type]


def sequential_reader(**options: object) -> Fio:
    """A sequential reader of 4 KiB operations through readahead, or with `direct` past it.

    >>> sequential_reader(numjobs=15).reads_ahead
    True
    """
    return fio(**({"rw": "read", "name": "reader"} | options))  # type: ignore[arg-type]


def sequential_writer(**options: object) -> Fio:
    """A sequential writer of 4 KiB operations with fdatasync after each; with `fdatasync=0` a buffered one.

    >>> sequential_writer(direct=True).fdatasync, sequential_writer(fdatasync=0).cached
    (1, True)
    """
    return fio(**({"rw": "write", "fdatasync": 1, "name": "writer"} | options))  # type: ignore[arg-type]


def summary_line(job: Fio, operations: int, bytes_per_s: float, elapsed_s: float, latency_s: tuple[float, ...]) -> str:
    """What fio says of a job in one line; `latency_s` are mean, median, 99th percentile and largest."""
    rate = operations / elapsed_s if elapsed_s > 0 else 0.0
    mean, median, p99, largest = (1e6 * t for t in latency_s)
    return (
        f"{job.name}: {job.rw}: IOPS={rate:.4g}, BW={bytes_per_s * 1e-6:.4g}MB/s, lat (usec): avg={mean:.2f}, "
        f"50.00th={median:.1f}, 99.00th={p99:.1f}, max={largest:.1f}"
    )


__all__ = ["Fio", "fio", "random_reader", "sequential_reader", "sequential_writer"]
