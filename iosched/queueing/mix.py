"""The saturated mix: buffered readers beside buffered writers on a disk, as a fluid that goes round in cycles.

The writers have filled the page cache to its limits, so that the flusher always has more to send; each reader keeps two
readahead windows in flight. Then everything repeats: so many windows, so many writes, and the moves of the arm in
between, and a cycle takes the sum of their times,

    cycle = visits x (seek + half a turn) + windows x transfer + writes x transfer.

What differs is how many writes a cycle has, and that is each scheduler's own rule:

none                 all share the requests first come first served, so windows are so many of `nr_requests`; a
                     reader's two stand together or apart, by how the run began, and the form takes the mean
deadline,            a batch of `fifo_batch` writes, or as many batches as fit into the device's queue, since a read
mq-deadline          stands behind them; fewer where `nr_requests` leaves them no room (4.1)
the same with WBT    the writes in flight when a read comes: WBT steps between the deepest of its depths whose reads
                     keep the target and the next deeper one, and refills when fewer than half are left (7)
CFQ, depth 1         a sync slice and an async one, each from its first completion on (1.14)
BFQ, depth 1         a sync budget, what the device moves in 125 ms, against a third of it: async sectors cost three

On a disk that reorders commands itself (NCQ) a contiguous write is always nearer, and a read waits for a gap in the
writes or for its age: no form, but `mix_bounds` says how little a reader can get.

Rules: spec block-layer sections 1.10, 1.14, 4.1, 5, 7 and 10, bfq-and-controllers section 5; that WBT's refill leaves
`max - normal + 1` writes before a read, and that deadline needs three requests beyond the device's to keep a batch
going, was seen in the simulator and follows from these. Nothing is fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..devices import Disk
from ..errors import ScenarioError
from ..filesystems import Raw
from ..fio import Fio
from ..scenario import Machine, Scenario
from ..schedulers import BFQ, CFQ, Deadline
from ..workloads import Dd, Job
from .knobs import PAGE, axis_values

SMALL_BIO = 256 * PAGE  # before 5.1
ROOM = 3  # requests beyond those in the device that keep deadline's batch going: the reads, and two writes by turns
BFQ_TIMEOUT_S, ASYNC_CHARGE = 0.125, 3
DELAYED_S = 0.125  # a sync request that took so long makes CFQ send async ones sparingly
FEWEST_BESIDE = 3  # times as many requests as windows, from which it matters little how those stand


@dataclass(frozen=True, repr=False, eq=False)
class SaturatedMix:
    """The answer of `saturated_mix`, arrays of the shape of `over`: bytes a second of all readers and all writers
    (`read_bytes_per_s`, `write_bytes_per_s`), `cycle_s`, `writes` (requests a cycle), and `stall_s`, the time at a
    stretch in which none of a reader's windows is served: how long it is held up (exact for a read a cycle; under none,
    WBT and BFQ at most so long)."""

    read_bytes_per_s: np.ndarray
    write_bytes_per_s: np.ndarray
    cycle_s: np.ndarray
    stall_s: np.ndarray
    writes: np.ndarray

    @property
    def read_share(self) -> np.ndarray:
        """The readers' part of all bytes."""
        return self.read_bytes_per_s / (self.read_bytes_per_s + self.write_bytes_per_s)

    def __repr__(self) -> str:
        if np.ndim(self.cycle_s):
            low, high = np.min(self.read_bytes_per_s) * 1e-6, np.max(self.read_bytes_per_s) * 1e-6
            return f"<SaturatedMix of shape {np.shape(self.cycle_s)}: reads {low:.3g} to {high:.3g} MB/s>"
        return (
            f"reads {self.read_bytes_per_s * 1e-6:.3g} MB/s, writes {self.write_bytes_per_s * 1e-6:.3g} MB/s; a cycle "
            f"of {self.cycle_s * 1e3:.4g} ms with {self.writes:.3g} writes, in which reads wait "
            f"{self.stall_s * 1e3:.4g} ms at a time"
        )


def saturated_mix(machine: Machine, jobs: Sequence[Job] | Job, over: Mapping[str, Any] | None = None) -> SaturatedMix:
    """Shares and stalls of buffered readers beside buffered writers that keep a disk busy, in the long run.

    `over` maps dotted names, as `Machine.with_` takes them (device.queue_depth, scheduler.fifo_batch, wbt_lat_usec,
    nr_requests, ...), to arrays that broadcast against each other.

    It holds for readers through readahead and writers whose data stay in the page cache, each with files of its own, in
    one cgroup and at one priority, on a `Disk` without a write cache and a host that is fast enough: under none,
    deadline and mq-deadline where the disk takes commands in their order (`ncq_choice="order"`, or a depth of 1 or 2),
    also with WBT; under CFQ and BFQ for one reader on a disk of depth 1, where the host's scheduler decides alone (no
    NCQ). Beyond these it raises and does not guess; `mix_bounds` holds for all. Against the simulator the bytes a
    second of either are within 25 % (median 3 %) on four disks at six depths.

    Raises ScenarioError for anything else, and for values that a field would not take.

    >>> import iosched as io
    >>> vm = io.Machine(kernel="6.1", scheduler="mq-deadline", wbt_lat_usec=0, nr_requests=64,
    ...                 device=io.devices.hdd_model(queue_depth=1))
    >>> jobs = [io.workloads.sequential_reader(size="4G"), io.workloads.sequential_writer(fdatasync=0, size="4G")]
    >>> mix = io.saturated_mix(vm, jobs, over={"scheduler.fifo_batch": [1, 4, 16]})
    >>> mix.writes.tolist(), bool((np.diff(mix.read_bytes_per_s) < 0).all())
    ([1.0, 4.0, 16.0], True)
    """
    axes = {key: axis_values(key, values) for key, values in (over or {}).items()}
    try:
        shape = np.broadcast_shapes(*(a.shape for a in axes.values()))
    except ValueError:
        shapes = ", ".join(f"{key} {a.shape}" for key, a in axes.items())
        raise ScenarioError(f"over: the shapes do not broadcast: {shapes}; add axes with [:, None].") from None
    grid = {key: np.broadcast_to(a, shape) for key, a in axes.items()}
    fields = np.empty((5, *shape))
    for at in np.ndindex(*shape):
        changes = {key: v.item() if isinstance(v := a[at], np.generic) else v for key, a in grid.items()}
        fields[(slice(None), *at)] = _point(Scenario(machine.with_(**changes) if changes else machine, jobs))
    return SaturatedMix(*(field[()] for field in fields))


@dataclass(frozen=True)
class MixBounds:
    """Bytes a second that no scheduler exceeds: `total` of both, `read` and `write` of either alone; and `least_read`,
    which all readers together get at least (0 where nothing guarantees it)."""

    total: float
    read: float
    write: float
    least_read: float


def mix_bounds(machine: Machine, jobs: Sequence[Job] | Job) -> MixBounds:
    """Bounds of the mix under any scheduler: the bottleneck's (no disk moves more than its rate where the files lie);
    for the readers the asymptote of a closed loop whose host needs its time for every window; and, under deadline and
    mq-deadline on a disk without a write cache, what is left of them when every read waits for a batch of writes and
    then for its age, with the writes that the disk holds before it.

    Raises ScenarioError for jobs that are no buffered readers and writers, or no disk.

    >>> import iosched as io
    >>> jobs = [io.workloads.sequential_reader(size="4G"), io.workloads.sequential_writer(fdatasync=0, size="4G")]
    >>> round(mix_bounds(io.Machine(device=io.devices.hdd_model(), scheduler="bfq"), jobs).total / 1e6)
    150
    """
    mix = _Mix(Scenario(machine, jobs))
    host, disk = machine.host, machine.device
    cpu = (host.scaled("ahead_us") + host.scaled("copy_us")) * 1e-6 * mix.window / PAGE  # type: ignore[union-attr]
    read = min(mix.rate, len(mix.readers) * mix.window / cpu if cpu > 0 else np.inf)
    least = 0.0
    in_order = disk.queue_depth == 1 or disk.ncq_choice == "order"  # type: ignore[attr-defined]
    if isinstance(machine.scheduler, Deadline) and not disk.write_cache and (in_order or disk.ncq_age_ms):
        waits = machine.scheduler.fifo_batch + disk.queue_depth
        age = 0.0 if in_order else disk.ncq_age_ms * 1e-3  # type: ignore[attr-defined]
        readers = len(mix.readers)
        length = age + waits * (mix.write_s + mix.late_s) + 2 * readers * (2 * mix.move + mix.read_s)
        least = readers * mix.window / length  # one window each, if the second comes too late for the same turn
    return MixBounds(mix.rate, read, mix.rate, least)


class _Mix:
    """The disk's times for these jobs, in s and bytes."""

    def __init__(self, scenario: Scenario) -> None:
        self.machine = machine = scenario.machine
        self.readers = [job for job in scenario.jobs if isinstance(job, Fio) and job.reads_ahead]
        self.writers = [job for job in scenario.jobs if isinstance(job, Fio | Dd) and job.cached]
        others = [job.name for job in scenario.jobs if job not in self.readers and job not in self.writers]
        if others or not self.readers or not self.writers:
            raise ScenarioError(
                f"jobs: the saturated mix has buffered readers (rw=read) and buffered writers, one at least of each, "
                f"and no other{f' such as {others[0]!r}' if others else ''}; simulate() it."
            )
        if not isinstance(machine.device, Disk) or not machine.device.rpm:
            raise ScenarioError("device: the saturated mix is known for a disk with a platter alone; simulate() it.")
        if any(job.thinktime_us or job.rate for job in self.readers):
            raise ScenarioError(f"jobs: {self.readers[0].name!r} pauses, so nothing is saturated; simulate() it.")
        self.disk = disk = machine.device
        sizes = np.array([sum(map(_file_bytes, self.writers)), *map(_file_bytes, self.readers)], float)
        ends = np.cumsum(sizes)  # the writers' files, which are written as one, and then each reader's
        self.places = ends - sizes / 2
        capacity = disk.capacity_GB * 1e9
        if ends[-1] > capacity:
            raise ScenarioError(f"jobs: their files of {ends[-1] / 1e9:.3g} GB do not fit on the disk; give less.")
        zone = int(ends[-1] / 2 / capacity * len(disk.zones_MBs))
        self.rate = disk.zones_MBs[zone] * 1e6
        self.window = 2 * disk.read_ahead_kb * 1024  # fio's advice doubles it
        largest = disk.max_sectors_kb * 1024
        small = machine.version < "5.1" and not isinstance(machine.filesystem, Raw)
        self.write = min(largest, SMALL_BIO) if small else largest
        self.command = 0.0 if disk.command_overlap and disk.queue_depth > 1 else disk.completion_us * 1e-6
        self.requests = machine.nr_requests or (
            128 if machine.legacy else disk.queue_depth * (1 if machine.scheduler_name == "none" else 2)
        )

    @property
    def move(self) -> float:
        """Seconds from one file to the next in a round through all of them: mean seek, and half a turn."""
        tracks = np.cumsum([0.0, *(1 / rate for rate in self.disk.zones_MBs)])
        capacity = self.disk.capacity_GB * 1e9
        radius = np.interp(self.places / capacity, np.linspace(0, 1, len(tracks)), tracks / tracks[-1])
        way = np.abs(radius - np.roll(radius, 1))
        return float(np.mean(self.disk.seek_ms(way)) * 1e-3 + self.disk.turn_s / 2 + self.command)

    @property
    def read_s(self) -> float:
        """Seconds of a readahead window once the arm is there."""
        return self.window / self.rate + self.command

    @property
    def write_s(self) -> float:
        """Seconds of a write once the arm is there."""
        return self.write / self.rate + self.command

    @property
    def late_s(self) -> float:
        """Seconds more of a write right behind another: at depth 1 without a cache it misses the platter by a turn."""
        host = self.machine.host
        gap_us = host.scaled("request_us" if self.machine.legacy else "request_mq_us")  # type: ignore[union-attr]
        late = self.disk.queue_depth == 1 and not self.disk.write_cache and self.disk.write_grace_us < gap_us
        return self.disk.turn_s if late else 0.0

    def cycle(self, windows: float, writes: float, moves: float, late: bool = True) -> tuple[float, ...]:
        """The fields of a cycle; `late`: its writes come one right behind another."""
        away = writes * self.write_s + moves * self.move + (writes - 1) * self.late_s * late
        length = windows * self.read_s + away
        return windows * self.window / length, writes * self.write / length, length, away, writes


def _file_bytes(job: Job) -> int:
    return job.size if isinstance(job, Fio) else job.bs * job.count  # type: ignore[union-attr]


def _point(scenario: Scenario) -> tuple[float, ...]:
    """The fields of one point."""
    mix = _Mix(scenario)
    machine, disk = mix.machine, mix.disk
    if len({(job.cgroup, job.ioclass, job.ioprio) for job in scenario.jobs}) > 1:
        raise ScenarioError("jobs: several cgroups or priorities are beyond the saturated mix's form; simulate() it.")
    reorders = disk.queue_depth > 2 and disk.ncq_choice != "order"  # with two, a read is the only one left
    throttled = machine.wbt_target_us > 0 and disk.queue_depth > 1
    if disk.write_cache:
        raise ScenarioError(
            "device.write_cache: what is in it is destaged by the disk's own choice, beyond the saturated mix's form; "
            "give write_cache=False, or simulate() it."
        )
    if reorders and not isinstance(machine.scheduler, CFQ | BFQ):
        raise ScenarioError(
            f"device.ncq_choice: a disk that chooses the {disk.ncq_choice} command itself is beyond the mix's form; "
            'give ncq_choice="order" or queue_depth=1, ask mix_bounds(), or simulate() it.'
        )
    name = machine.scheduler_name
    if isinstance(machine.scheduler, CFQ | BFQ):
        return (_cfq if name == "cfq" else _bfq)(mix)
    if name == "kyber":
        raise ScenarioError("scheduler: kyber steers by percentiles, which has no closed form; simulate() it.")
    return _throttled(mix) if throttled else _in_order(mix)


def _in_order(mix: _Mix) -> tuple[float, ...]:
    """A disk that takes commands in their order, or has one at a time."""
    readers = len(mix.readers)
    depth, windows = mix.disk.queue_depth, 2 * readers
    if mix.machine.scheduler_name in ("none", "noop"):
        if mix.machine.legacy:
            raise ScenarioError("scheduler: noop's requests of the legacy pools are beyond the form; simulate() it.")
        tags = min(mix.requests, depth)
        if tags <= windows:  # each process takes one in turn
            return mix.cycle(readers, 1, readers + 1, late=False)
        if tags < FEWEST_BESIDE * windows:
            raise ScenarioError(
                f"device.queue_depth: with {tags} requests it matters how {windows} windows stand among the writes; "
                f"the form holds up to {windows} and from {FEWEST_BESIDE * windows} on; simulate() it."
            )
        together, apart = readers + 1, 2 * windows
        return mix.cycle(windows, tags - windows, (together + apart) / 2, late=False)
    return mix.cycle(windows, _batches(mix), readers + 1)


def _batches(mix: _Mix) -> int:
    """Writes between two reads under deadline: whole batches, as many as the device holds commands before the read."""
    batch, depth, readers = max(mix.machine.scheduler.fifo_batch, 1), mix.disk.queue_depth, len(mix.readers)
    few = mix.requests - depth < ROOM and not mix.machine.legacy
    if readers > 1 and (few or depth >= batch):
        raise ScenarioError(
            f"jobs: {readers} readers are beyond the form under deadline unless nr_requests leaves room for them and "
            f"fifo_batch is above the device's depth, {depth}; give one reader, or simulate() it."
        )
    return max(mix.requests - 1, 1) if few else batch * -(-depth // batch)


def _throttled(mix: _Mix) -> tuple[float, ...]:
    """WBT steps between the deepest depth that keeps the target and the next deeper one."""
    target, depth = mix.machine.wbt_target_us * 1e-6, mix.disk.queue_depth
    if not getattr(mix.disk, "tells_depth", True):  # WBT then takes what it can see
        depth = mix.requests
    if len(mix.readers) > 1:
        raise ScenarioError("jobs: several readers under WBT are beyond the form; give one, or simulate() it.")
    cycles = [mix.cycle(2, _before_a_read(step, depth), 2) for step in range(-1, 6)]
    kept = next((k for k, cycle in enumerate(cycles) if cycle[2] - mix.read_s <= target), len(cycles) - 1)
    used = np.array(cycles[max(kept - 1, 0) : kept + 1])
    length = used[:, 2].mean()
    read, write = ((used[:, k] * used[:, 2]).mean() / length for k in (0, 1))
    return float(read), float(write), float(length), float(used[:, 3].mean()), float(used[:, 4].mean())


def _before_a_read(step: int, depth: int) -> int:
    """Writes that a read finds before it: a full load, less those that are refilled behind it (section 7)."""
    base = min(16, depth)
    most = 1 + ((base - 1) >> step) if step > 0 else base if step == 0 else min(1 + 2 * (base - 1), 3 * depth // 4)
    normal = most if most <= 2 else (most + 1) // 2
    return max(most - normal + 1, 1)


def _one_reader_alone(mix: _Mix, name: str) -> None:
    """CFQ's and BFQ's forms hold where their choices are not the disk's."""
    if mix.disk.queue_depth > 1 or len(mix.readers) > 1:
        raise ScenarioError(
            f"scheduler: {name}'s form of the saturated mix holds for one reader and device.queue_depth = 1, where it "
            "decides alone; simulate() it."
        )


def _cfq(mix: _Mix) -> tuple[float, ...]:
    """A slice each. It begins with the first completion, and the request that is under way at its end is finished."""
    _one_reader_alone(mix, "CFQ")
    cfq: CFQ = mix.machine.scheduler
    sync, asynchronous, target = (
        cfq.nanoseconds(n, ms) * 1e-9 for n, ms in (("slice_sync", 100), ("slice_async", 40), ("target_latency", 300))
    )
    if cfq.low_latency and 2 * sync > target:
        asynchronous, sync = (t * target / (2 * sync) for t in (asynchronous, sync))
    each = mix.write_s + mix.late_s
    writes = min(1 + int(np.ceil(asynchronous / each)), 2 * cfq.slice_async_rq * (8 - 4))
    if mix.move + writes * each > DELAYED_S:
        raise ScenarioError(
            f"scheduler.slice_async: reads that wait {(mix.move + writes * each) * 1e3:.3g} ms make CFQ hold "
            f"async requests back, beyond {DELAYED_S * 1e3:g} ms there is no form; simulate() it."
        )
    windows = 1 + sync / mix.read_s + 0.5
    return mix.cycle(windows, writes, 2)


def _bfq(mix: _Mix) -> tuple[float, ...]:
    """A sync budget of what the device moves in the timeout, and an async one that costs the same, three a sector."""
    _one_reader_alone(mix, "BFQ")
    if mix.requests - 1 < ROOM:
        raise ScenarioError(
            f"nr_requests: {mix.requests} leave BFQ's async requests no room, beyond the form; give {1 + ROOM} or "
            "more, or simulate() it."
        )
    budget = mix.rate * BFQ_TIMEOUT_S
    return mix.cycle(budget / mix.window, budget / ASYNC_CHARGE / mix.write, 2)


__all__ = ["MixBounds", "SaturatedMix", "mix_bounds", "saturated_mix"]
