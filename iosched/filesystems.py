"""File systems: which requests a write and its fsync become, and who sends them.

Source: spec block-layer section 9, and the event-by-event cycles that were measured on real kernels. The programs
themselves are in `iosched.programs`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import unknown
from .knobs import check, knob, named


@named
@dataclass(frozen=True)
class Ext4:
    """ext4 with jbd2, data=ordered, 4 KiB blocks.

    A fsync'ed append is: data write by the caller, then descriptor and metadata as one log write, then the commit
    block, both by jbd2, strictly one after the other. `jbd2_cgroup` places the kernel thread (on every stock system in
    the root).
    `creation_reads`: on a freshly mounted file system, creating a file reads bitmaps and inode tables first. The kernel
    rows count 3 such reads up to 5.6, 5 on 5.10 and 6.1; BFQ takes them for short think times of the file's writer.
    `quiet_before`: a mounted file system has committed before, so the scheduler knows jbd2 already when the jobs begin.
    The kernel rows show it: CFQ in one cgroup pays exactly one 8 ms idle, for the new queue of dd against the old one.

    >>> Ext4().jbd2_cgroup
    '/'
    """

    jbd2_cgroup: str = "/"
    jbd2_ioprio: int = knob(3, "priority level of jbd2 (ext4's journal_ioprio)", "", 0, 7, integer=True)
    barrier: bool = knob(True, "send flush and FUA with the commit block")
    journal_mb: int = knob(64, "size of the journal", "MiB", 1, 65536, integer=True)
    creation_reads: int = knob(0, "metadata blocks read to create a file", "blocks", 0, 64, integer=True)
    quiet_before: float | None = knob(0.1, "since jbd2's last commit when the jobs begin; None: it never wrote", "s", 0,
                                      1e6, optional=True)  # fmt: skip

    def __post_init__(self) -> None:
        check(self, "filesystem.")


LOG_WRITERS = (None, "caller", "push", "worker")


@named
@dataclass(frozen=True)
class XFS:
    """XFS: data write by the caller, then one log write with PREFLUSH|FUA.

    `log_writer` says in whose context the log goes out. "caller" (kernels before 5.14): everything in the fsync. "push"
    (5.14 and later): a worker formats the log and the caller submits it, which is what a real 6.1 was seen to do for
    one process. "worker": the worker submits it too, what thread 1 describes. None: by kernel version.

    `dbench_share` is fitted on one row, dbench under none on 6.1 (`data/kernel/dbench.csv`).

    >>> XFS(log_writer="worker").log_writer
    'worker'
    """

    log_writer: str | None = None
    log_sectors: int = knob(2, "sectors of a log record (measured: 2 for an append)", "sectors", 1, 512, integer=True)
    log_mb: int = knob(64, "size of the log", "MiB", 1, 65536, integer=True)
    worker_cgroup: str = "/"
    dbench_share: float = knob(0.88, "CPU of dbench's operations against ext4's", "", 0, 10)

    def __post_init__(self) -> None:
        check(self, "filesystem.")
        if not isinstance(self.log_writer, (str, type(None))) or self.log_writer not in LOG_WRITERS:
            raise unknown("filesystem.log_writer", self.log_writer, LOG_WRITERS[1:])


@named
@dataclass(frozen=True)
class Raw:
    """The block device itself, without a file system: page cache of the block device, one context.

    >>> Raw()
    Raw()
    """


FILESYSTEMS = {"ext4": Ext4, "xfs": XFS, "raw": Raw}


def filesystem(value: object) -> Ext4 | XFS | Raw:
    """A file system from its name or itself."""
    if isinstance(value, str) and value in FILESYSTEMS:
        return FILESYSTEMS[value]()
    if isinstance(value, tuple(FILESYSTEMS.values())):
        return value
    raise unknown("filesystem", value, FILESYSTEMS)
