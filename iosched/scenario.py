"""What the user writes: a machine, and the jobs that run on it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import schedulers
from .cgroups import Cgroups
from .devices import ConstantTime, null
from .errors import ScenarioError, number, unknown
from .filesystems import XFS, Ext4, Raw, filesystem
from .host import Host, fitted_host
from .kernels import Kernel
from .knobs import named
from .memory import Memory
from .volumes import Volume
from .workloads import MOST_PROCESSES, Dbench, Fio, Job, SharedReader

WBT_SINCE = "4.10"


@named
@dataclass(frozen=True)
class Machine:
    """One machine: kernel, device, file system, scheduler, cgroups, host.

    The kernel version sets the version of every part. `scheduler` and `filesystem` take a name or an instance; None is
    the kernel's default scheduler (cfq before 5.0, then mq-deadline). `nr_requests` is queue/nr_requests: None is 128
    on the legacy path (sync and async each, per cgroup), on blk-mq twice the device depth with a scheduler, else the
    depth. `wbt_lat_usec` is queue/wbt_lat_usec: the read latency that writeback throttling keeps, 0 is off, None the
    kernel's default (see `wbt_target_us`). `volume` puts several such devices under one file system.

    Raises ScenarioError, naming the field, for anything that the kernel could not be given.

    >>> Machine(kernel="4.19", scheduler="cfq").scheduler_name
    'cfq'
    """

    kernel: str = "4.19"
    device: ConstantTime = null()
    filesystem: Ext4 | XFS | Raw | str = Ext4()
    scheduler: Any = None
    host: Host | None = None
    cgroups: Cgroups | Iterable[str] | None = None
    nr_requests: int | None = None
    memory: Memory = Memory()
    wbt_lat_usec: float | None = None
    volume: Volume | None = None

    def __post_init__(self) -> None:
        kernel = Kernel(self.kernel)
        set_ = object.__setattr__
        if not isinstance(self.device, ConstantTime):
            raise ScenarioError(
                f"device: {self.device!r} is not a device; give one of iosched.devices, such as null()."
            )
        set_(self, "kernel", str(kernel))
        set_(self, "filesystem", filesystem(self.filesystem))
        set_(self, "scheduler", schedulers.scheduler(self.scheduler, kernel))
        set_(self, "host", fitted_host(kernel) if self.host is None else self.host)
        if not isinstance(self.host, Host):
            raise ScenarioError(f"host: {self.host!r} is not a host; give an iosched.Host.")
        set_(self, "cgroups", self.cgroups if isinstance(self.cgroups, Cgroups) else Cgroups(self.cgroups))
        for field in ("jbd2_cgroup", "worker_cgroup"):
            if hasattr(self.filesystem, field):
                self.cgroups.of(getattr(self.filesystem, field), f"filesystem.{field}")  # type: ignore[union-attr]
        for path in self.cgroups.targets_us:  # type: ignore[union-attr]
            if kernel < "4.19":
                raise ScenarioError(
                    f"cgroups[{path!r}].io_latency_us: kernel {kernel} has no io.latency; it came with 4.19."
                )
        if self.volume is not None and not isinstance(self.volume, Volume):
            raise ScenarioError(f"volume: {self.volume!r} is not a volume; give an iosched.Volume, or None.")
        if self.nr_requests is not None:
            number("nr_requests", self.nr_requests, 4, 65536, "requests", integer=True)
        if not isinstance(self.memory, Memory):
            raise ScenarioError(f"memory: {self.memory!r} is not a memory; give an iosched.Memory.")
        if self.wbt_lat_usec is not None:
            number("wbt_lat_usec", self.wbt_lat_usec, 0, 1e9, "us")
            if kernel < WBT_SINCE:
                raise ScenarioError(
                    f"wbt_lat_usec: kernel {kernel} has no writeback throttling; it came with {WBT_SINCE}, give None."
                )

    @property
    def version(self) -> Kernel:
        """The kernel version, to compare with."""
        return Kernel(self.kernel)

    @property
    def scheduler_name(self) -> str:
        """Its name in /sys/block/DEV/queue/scheduler."""
        return schedulers.name_of(self.scheduler)

    @property
    def legacy(self) -> bool:
        """Does the scheduler run on the legacy (single-queue) path?"""
        return schedulers.SCHEDULERS[self.scheduler_name][2]

    @property
    def wbt_target_us(self) -> float:
        """The read latency in us that writeback throttling keeps; 0 where it is off.

        What is written into wbt_lat_usec holds under every scheduler. By default it is on since 4.10 on blk-mq, 75 ms
        on a rotational device and 2 ms on any other; off under CFQ and BFQ, which throttle writes themselves, and on
        the legacy path, where it was a build option (spec block-layer section 7; a kernel of thread 3 had it built in:
        there, under deadline, give 75000).

        >>> Machine(kernel="6.1").wbt_target_us, Machine(kernel="6.1", scheduler="bfq").wbt_target_us
        (75000.0, 0.0)
        """
        if self.wbt_lat_usec is not None:
            return float(self.wbt_lat_usec)
        if self.version < WBT_SINCE or self.legacy or self.scheduler_name == "bfq":
            return 0.0
        return 75_000.0 if self.device.rotational else 2_000.0

    def with_(self, **changes: Any) -> Machine:
        """A copy with dotted fields changed; what a slider or a sweep turns.

        >>> m = Machine(kernel="4.19", scheduler="cfq")
        >>> m.with_(**{"scheduler.slice_idle": 0, "device.completion_us": 50}).device.completion_us
        50
        """
        machine: Machine = self
        for key, value in changes.items():
            part, _, rest = key.partition(".")
            if part not in Machine.__dataclass_fields__:
                raise unknown("machine field", part, Machine.__dataclass_fields__)
            if part == "kernel" and machine.host == fitted_host(machine.kernel):
                machine = replace(machine, kernel=value, host=None)
                continue
            if rest:
                inner = getattr(machine, part)
                known = getattr(type(inner), "__dataclass_fields__", {})
                if not known:
                    raise ScenarioError(f"{key}: {type(inner).__name__} has no parameters; change {part} itself.")
                if rest not in known:
                    raise unknown(key, rest, known)
                value = replace(inner, **{rest: value})
            machine = replace(machine, **{part: value})
        return machine


@dataclass(frozen=True)
class Scenario:
    """A machine and its jobs, checked together.

    >>> from iosched import workloads
    >>> len(Scenario(Machine(), [workloads.dd(count=1)]).jobs)
    1
    """

    machine: Machine
    jobs: Sequence[Job]

    def __post_init__(self) -> None:
        if not isinstance(self.machine, Machine):
            raise ScenarioError(f"machine: {self.machine!r} is not a machine; give an iosched.Machine.")
        jobs = (self.jobs,) if isinstance(self.jobs, Job) else tuple(self.jobs)
        jobs = tuple(
            one for job in jobs for one in (job.expanded() if isinstance(job, Dbench | Fio | SharedReader) else (job,))
        )
        object.__setattr__(self, "jobs", jobs)
        if not jobs:
            raise ScenarioError("jobs: the list is empty, so nothing can ever happen; give at least one job.")
        if len(jobs) > MOST_PROCESSES:
            raise ScenarioError(f"jobs: {len(jobs)} are too many; allowed are 1 to {MOST_PROCESSES}.")
        for job in jobs:
            if not isinstance(job, Job):
                raise ScenarioError(
                    f"jobs: {job!r} is not a job; give one of iosched.workloads, such as dd(), dbench() or fio()."
                )
            self._check_readers(job)
            self._warn_of_ignored_class(job)
            self.machine.cgroups.of(job.cgroup, f"{job.name}.cgroup")  # type: ignore[union-attr]

    def _check_readers(self, job: Job) -> None:
        """Old kernels and volumes are modelled for readers."""
        machine = self.machine
        reads = isinstance(job, SharedReader) or (isinstance(job, Fio) and not job.writes)
        if machine.version.old and not reads:
            raise ScenarioError(
                f"kernel: {machine.kernel} is modelled for readers only (fio's, nfs_read, shared_reader), not for "
                f"{job.name!r}; give 4.0 or later."
            )
        if machine.version.old and job.cgroup.strip("/") not in ("", "root"):
            raise ScenarioError(
                f"{job.name}.cgroup: kernel {machine.kernel} has no blkio controller, so {job.cgroup!r} means nothing "
                "to it; give '/'."
            )
        if machine.volume is not None and not isinstance(job, SharedReader):
            raise ScenarioError(
                f"volume: it is modelled for nfs_read and shared_reader, not for {job.name!r}; give volume=None."
            )
        if isinstance(job, SharedReader) and job.shares_context and machine.scheduler_name == "bfq":
            raise ScenarioError(f"{job.name}.io_context: {job.io_context!r} is not modelled under bfq; give 'private'.")

    def _warn_of_ignored_class(self, job: Job) -> None:
        """The kernel takes any ionice; some schedulers do not look at it."""
        name = self.machine.scheduler_name
        knows = name in ("cfq", "bfq") or (name == "mq-deadline" and self.machine.version >= "5.14")
        if job.ioclass != "best-effort" and not knows:
            warnings.warn(
                f"{job.name}.ioclass: {name} of kernel {self.machine.kernel} takes no notice of {job.ioclass!r}.",
                stacklevel=4,
            )
