"""Several processes that read one file: nfsd threads that serve a client's stream, or local readers that take turns."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .errors import ScenarioError
from .fio import LARGEST_FILE, PAGE
from .jobs import check_job, check_options, parse_size
from .knobs import knob, named

IO_CONTEXTS = ("private", "clone_io", "shared")
MOST_PAGES = 1 << 24  # 64 GiB


@named
@dataclass(frozen=True)
class SharedReader:
    """`threads` processes that read one file once, in pieces of `bs` bytes. Build it with `nfs_read(...)` or
    `shared_reader(...)`, which take sizes such as "32k".

    Without a client each process takes the next piece when it is done with its last ("free"), or every `threads`-th one
    ("turns"); `rate` lets none begin before its time. With one they are nfsd threads: the client's read-ahead asks for
    `burst` pieces at a time, up to `ahead` beyond what its reader has, with no more than `slots` requests on their
    way, `request_us` apart; answers come over a link of `network_MBs`, `latency_us` later, and take the client
    `client_us` each. Of threads without work the newest sleeper is woken first (`wake`). `tasks` of the threads take
    part (None: all).

    Buffered readers share the page cache; the read-ahead belongs to the open file, which they share unless `own_files`.
    `io_context` is "private"; "clone_io" for threads cloned with CLONE_IO, which share their parent's if it has one
    (`parent_context`; kthreadd, nfsd's parent, has none, and nothing changes); or "shared".

    Source: thread 4 and spec block-layer 2.2 and 2.4.

    >>> nfs_read(size="2000M").pieces
    64000
    """

    threads: int = knob(8, "processes", "threads", 1, 64, integer=True, slider=(1, 16, "linear"))
    tasks: int | None = knob(None, "threads that take part; None: all", "threads", 1, 64, integer=True, optional=True)
    bs: int = knob(32768, "bytes of a piece (an NFS READ)", "bytes", 512, 2**27, integer=True)
    size: int = knob(2000 * 2**20, "bytes of the file", "bytes", 512, LARGEST_FILE, integer=True)
    order: str = knob("free", "who reads which piece", choices=("free", "turns"))
    own_files: bool = knob(False, "each opens the file for itself, with a read-ahead of its own")
    direct: bool = knob(False, "O_DIRECT")
    thinktime_us: float = knob(0.0, "sleep after a piece", "us", 0, 1e9)
    rate: float | None = knob(None, "no faster than this; None: as fast as it goes", "bytes/s", 1, 1e12, optional=True)
    client: bool = knob(False, "an NFS client asks for the pieces")
    burst: int = knob(15, "pieces that the client asks for at once", "pieces", 1, 1024, integer=True,
                      slider=(1, 32, "linear"))  # fmt: skip
    ahead: int | None = knob(None, "asked for beyond what its reader has, at least a burst; None: two", "pieces", 1,
                             4096, integer=True, optional=True)  # fmt: skip
    slots: int = knob(16, "requests of the client on their way", "pieces", 1, 4096, integer=True)
    network_MBs: float | None = knob(
        None, "bandwidth of the link; None: no limit", "10^6 bytes/s", 0.01, 1e6, optional=True
    )
    latency_us: float = knob(0.0, "there and back again", "us", 0, 1e9)
    request_us: float = knob(0.0, "between two requests of the client", "us", 0, 1e9)
    client_us: float = knob(0.0, "the client's own time of a piece", "us", 0, 1e9)
    rpc_us: float = knob(0.0, "CPU of a thread for a piece, besides reading it", "us", 0, 1e6)
    wake: str = knob("newest", "which sleeping thread is woken", choices=("newest", "oldest"))
    io_context: str = knob("private", "what CFQ tells processes by", choices=IO_CONTEXTS)
    parent_context: bool = knob(False, "the threads' parent has an io_context")
    cgroup: str = "/"
    cgroups: tuple[str, ...] = ()
    partition: int = knob(0, "partition of the device, each with a file system of its own", "", 0, 15, integer=True)
    ioprio: int = knob(4, "priority level within the class", "", 0, 7, integer=True)
    ioclass: str = "best-effort"
    start: float = knob(0.0, "when the processes begin", "s", 0, 1e6)
    thread: int | None = None
    name: str = "reader"

    def __post_init__(self) -> None:
        check_job(self, "shared")
        if self.tasks is not None and self.tasks > self.threads:
            raise ScenarioError(
                f"shared.tasks: {self.tasks} tasks are more than the {self.threads} threads there are; give at most "
                f"{self.threads}, or more threads."
            )
        if self.io_context == "shared" and not self.parent_context:
            raise ScenarioError(
                "shared.io_context: 'shared' needs a parent that has an io_context; CLONE_IO copies the parent's, "
                "kthreadd has none, and nothing is shared; give parent_context=True, or 'clone_io' to see that."
            )
        if self.shares_context and self.cgroups:
            raise ScenarioError(
                f"shared.io_context: {self.io_context!r} is not modelled for processes in several cgroups; give "
                "'private', or one cgroup."
            )
        if self.direct and (self.bs % 512 or self.size % 512):
            raise ScenarioError(f"shared.bs: {self.bs} is not allowed with direct; give a multiple of 512 bytes.")
        if not self.direct and self.bs % PAGE:
            raise ScenarioError(
                f"shared.bs: {self.bs} is not allowed through the page cache; give a multiple of {PAGE}."
            )
        if self.size > MOST_PAGES * PAGE:
            raise ScenarioError(
                f"shared.size: {self.size} is too large to keep its pages; give at most {MOST_PAGES * PAGE}."
            )
        if not isinstance(self.cgroups, (tuple, list)) or not all(isinstance(g, str) for g in self.cgroups):
            raise ScenarioError(f"shared.cgroups: {self.cgroups!r} is no list of cgroups; give one such as ('a', 'b').")
        object.__setattr__(self, "cgroups", tuple(self.cgroups))

    @property
    def pieces(self) -> int:
        """Pieces of the file."""
        return -(-self.size // self.bs)

    @property
    def shares_context(self) -> bool:
        """Do the processes have one io_context?"""
        return self.io_context != "private" and self.parent_context

    @property
    def ahead_pieces(self) -> int:
        """Pieces that the client asks for beyond what its reader has."""
        return 2 * self.burst if self.ahead is None else max(self.ahead, self.burst)

    @property
    def operations(self) -> int:
        """Pieces, as other jobs have operations."""
        return self.pieces

    def expanded(self) -> tuple[SharedReader, ...]:
        """One job a process that takes part."""
        if self.thread is not None:
            return (self,)
        n = self.threads if self.tasks is None else self.tasks
        groups = self.cgroups or (self.cgroup,)
        return tuple(replace(self, thread=k, cgroup=groups[k % len(groups)]) for k in range(n))


def shared_reader(bs: int | str = "128k", size: int | str = "200M", **options: object) -> SharedReader:
    """Local processes that read one file. Options as the fields of `SharedReader`.

    Raises ScenarioError for an absurd number, an option that it does not have, or a combination that makes no sense.

    >>> shared_reader(threads=2, order="turns").bs
    131072
    """
    check_options(SharedReader, "shared", options)
    return SharedReader(bs=parse_size("shared.bs", bs), size=parse_size("shared.size", size, LARGEST_FILE), **options)  # type: ignore[arg-type]


def nfs_read(
    bs: int | str = "32k", size: int | str = "2000M", network_MBs: float | None = 95.4, **options: object
) -> SharedReader:
    """nfsd threads that serve one client's sequential read. Options as the fields of `SharedReader`.

    Raises ScenarioError as `shared_reader`.

    >>> nfs_read(threads=4).client
    True
    """
    return shared_reader(bs, size, **({"name": "nfsd", "client": True, "network_MBs": network_MBs} | options))
