"""What the processes do: dd, dbench, fio, and readers of one file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from .errors import ScenarioError, unknown
from .fio import Fio, fio, random_reader, sequential_reader, sequential_writer
from .jobs import IOCLASSES, check_job, check_options, parse_size
from .knobs import knob, named
from .shared import SharedReader, nfs_read, shared_reader

OFLAGS = ("dsync", "sync", "direct")
CONVS = ("fsync", "fdatasync", "notrunc")
MOST_PROCESSES = 512  # of a scenario; the follow-ups of thread 1 go so far


@named
@dataclass(frozen=True)
class Dd:
    """dd writing a new file: `dd if=/dev/zero of=FILE bs=.. count=.. oflag=.. conv=..`.

    Build it with `dd(...)`, which takes dd's own spelling of sizes.
    """

    bs: int = knob(512, "bytes a write", "bytes", 1, 2**30, integer=True, slider=(512, 1 << 20, "log"))
    count: int = knob(10_000, "writes", "writes", 1, 10**9, integer=True)
    oflag: str = "dsync"
    conv: str = ""
    cgroup: str = "/"
    partition: int = knob(0, "partition of the device, each with a file system of its own", "", 0, 15, integer=True)
    ioprio: int = knob(4, "priority level within the class", "", 0, 7, integer=True)
    ioclass: str = "best-effort"
    start: float = knob(0.0, "when the process begins", "s", 0, 1e6)
    name: str = "dd"

    def __post_init__(self) -> None:
        check_job(self, "dd", "oflag", "conv")
        for word in self.oflags:
            if word not in OFLAGS:
                raise unknown("dd.oflag", word, OFLAGS)
        for word in self.convs:
            if word not in CONVS:
                raise unknown("dd.conv", word, CONVS)
        if "direct" in self.oflags and self.bs % 512:
            raise ScenarioError(f"dd.bs: {self.bs} is not allowed with oflag=direct; give a multiple of 512 bytes.")

    @property
    def oflags(self) -> tuple[str, ...]:
        """The words of `oflag`."""
        return tuple(w for w in self.oflag.split(",") if w)

    @property
    def convs(self) -> tuple[str, ...]:
        """The words of `conv`."""
        return tuple(w for w in self.conv.split(",") if w)

    @property
    def cached(self) -> bool:
        """Does it leave its data in the page cache, for the flusher or an fsync at the end?"""
        return not self.oflags

    @property
    def synchronous(self) -> bool:
        """Does every write wait until it is durable?"""
        return "dsync" in self.oflags or "sync" in self.oflags


def dd(bs: int | str = 512, count: int = 10_000, oflag: str | None = "dsync", conv: str | None = None,
       cgroup: str = "/", **options: object) -> Dd:  # fmt: skip
    """A dd process. Sizes as dd takes them ("4k", "1M"); options as the fields of `Dd`.

    Raises ScenarioError for an unknown flag, an absurd number or an option that dd does not have.

    >>> dd(bs="4k", count=10, oflag="direct,dsync").bs
    4096
    """
    check_options(Dd, "dd", options)
    return Dd(
        bs=parse_size("dd.bs", bs),
        count=count,
        oflag="" if oflag is None else oflag,
        conv="" if conv is None else conv,
        cgroup=cgroup,
        **options,
    )  # type: ignore[arg-type]


@named
@dataclass(frozen=True)
class Dbench:
    """dbench: clients that repeat the operations of a load file, each in a directory of its own, for a given time.

    What a client does between two flushes costs CPU (`Host.dbench_op_us` an operation) and counts bytes; the flush is
    an fsync of the dirty pages and whatever the journal must commit with them. MB/s are decimal and are counted from
    the end of the warm-up on, which is a fifth of the run time in whole seconds unless it is given (both as in the
    measured dbench 4.0 runs: 3 s have none, 16 s have 3 s). `load` is a table of flushes (`iosched.loads`) or the name
    of a shipped one: "client" (or None) is dbench 4.0's, "client-tiny" the short one of mmtests.
    """

    clients: int = knob(1, "processes, each with the whole load", "clients", 1, MOST_PROCESSES, integer=True,
                        slider=(1, 32, "log"))  # fmt: skip
    runtime: float = knob(16.0, "time that counts", "s", 1e-3, 86400, slider=(1, 60, "linear"))
    warmup: float | None = knob(None, "time before that, which does not count; None: a fifth, in whole seconds", "s", 0,
                                86400, optional=True)  # fmt: skip
    cgroup: str = "/"
    load: str | Path | None = None
    partition: int = knob(0, "partition of the device, each with a file system of its own", "", 0, 15, integer=True)
    ioprio: int = knob(4, "priority level within the class", "", 0, 7, integer=True)
    ioclass: str = "best-effort"
    start: float = knob(0.0, "when the processes begin", "s", 0, 1e6)
    name: str = "dbench"

    def __post_init__(self) -> None:
        check_job(self, "dbench")
        if not isinstance(self.load, (str, Path, type(None))):
            raise ScenarioError(f"dbench.load: {self.load!r} is not a path; give a CSV table of flushes, or None.")
        from .loads import SHIPPED, read_load

        flushes = len(read_load(self.load))
        if self.load not in SHIPPED and self.clients > flushes:  # a table that was cut off; the shipped ones are whole
            raise ScenarioError(
                f"dbench.clients: {self.clients} are more than the load has flushes; give at most {flushes}."
            )

    @property
    def warmup_s(self) -> float:
        """Seconds before counting begins."""
        return float(int(self.runtime) // 5) if self.warmup is None else self.warmup

    def expanded(self) -> tuple[Dbench, ...]:
        """One job a client."""
        return (replace(self, clients=1),) * self.clients


def dbench(clients: int = 1, runtime: float = 16.0, cgroup: str = "/", load: str | Path | None = None,
           **options: object) -> Dbench:  # fmt: skip
    """A dbench run; options as the fields of `Dbench`.

    Raises ScenarioError for an absurd number, a load that is not a table of flushes, or an option dbench does not have.

    >>> dbench(clients=2, runtime=16).warmup_s
    3.0
    """
    check_options(Dbench, "dbench", options)
    return Dbench(clients=clients, runtime=runtime, cgroup=cgroup, load=load, **options)  # type: ignore[arg-type]


Job = Dd | Dbench | Fio | SharedReader

__all__ = [
    "IOCLASSES",
    "Dbench",
    "Dd",
    "Fio",
    "Job",
    "SharedReader",
    "dbench",
    "dd",
    "fio",
    "nfs_read",
    "parse_size",
    "random_reader",
    "sequential_reader",
    "sequential_writer",
    "shared_reader",
]


def __dir__() -> list[str]:
    return __all__
