"""The closed form: what a run would show, from formulas that broadcast over arrays of any knob, without events.

One write is a chain of steps, strictly one after the other (spec block-layer sections 8 and 9), so its time is

    cycle = device (commands and flushes) + host (CPU, wake-ups) + hand-over (kblockd) + idling.

All but the idling are sums. Idling exists under CFQ alone, and only where two processes take turns: at each switch
(dd to jbd2, jbd2 to dd) the arriving request waits for the rest of an idle window if it may not preempt. Whether it
may follows from the cgroup tree (1.8 rule 6), how long the window is from slice_idle and group_idle (1.11), and
whether one is opened at all from the think-time records (1.5): `Switches` iterates the recursion of those records over
the cycles, for all points of a grid at once. There is no event queue, no request and no device behind it.

For closed loops with several jobs `bounds` gives the asymptotes and `mva` the exact mean values of one station.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .cgroups import is_ancestor_or_same, normalise
from .errors import ScenarioError, number, unknown
from .filesystems import XFS, Ext4, Raw
from .scenario import Machine, Scenario
from .schedulers import CFQ
from .workloads import Dd

if TYPE_CHECKING:
    import pandas as pd

Values = np.ndarray | float

US, MS, S = 1e3, 1e6, 1e9  # the formulas compute in ns
PAGE = 4096
NEVER = -np.inf

# how a file system's own CPU of one write is spread over its steps: before the data, before the log, before the commit
BEFORE_DATA, BEFORE_LOG, BEFORE_COMMIT = 0.4, 0.4, 0.2

# think-time records (spec block-layer 1.5)
KEEP = 7 / 8
FULL = 256  # fixed point of 1.0
SAMPLES_LIMIT = 249  # where floor((7 samples + 256)/8) comes to rest
SAMPLES_VALID = 80

SMALL_NONROTATIONAL = 64  # sectors; a smaller request counts as a seek on a device without positions (1.6)
SEEKY = 4  # more seeks than this among the last 32 requests

MOST_CYCLES = 192  # cycles of the recursion; the rest of a longer run repeats their mean
SETTLED = 64  # cycles without a change after which a recursion of weight 1/8 is at rest, to 2 in 10,000


# ---------------------------------------------------------------------------------------------------------------------
# the answer


@dataclass(frozen=True, repr=False, eq=False)
class ClosedForm:
    """The answer of `closed_form`: arrays of the shape to which the values of `over` broadcast (() without it).

    Names as in `Result` where they mean the same. Seconds an operation: `time_per_op`, and its parts `service_s` (the
    device has a command), `cpu_s` (host: CPU and wake-ups), `hand_over_s` (requests wait for kblockd), `idle_for_dd_s`
    and `idle_for_log_s` (CFQ keeps the device for dd, or for the log's writer, while the other's request waits).
    `idles_per_op` counts the waits. `bytes_per_s` is what dd prints.
    """

    time_per_op: np.ndarray
    bytes_per_s: np.ndarray
    idles_per_op: np.ndarray
    service_s: np.ndarray
    cpu_s: np.ndarray
    hand_over_s: np.ndarray
    idle_for_dd_s: np.ndarray
    idle_for_log_s: np.ndarray

    @property
    def idle_s(self) -> np.ndarray:
        """Seconds an operation that requests wait for an idle window to end."""
        return self.idle_for_dd_s + self.idle_for_log_s

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of every field."""
        return self.time_per_op.shape

    @property
    def parts(self) -> dict[str, np.ndarray]:
        """Seconds an operation by what they went to; they add up to `time_per_op`."""
        return {
            "device busy": self.service_s,
            "idling for dd": self.idle_for_dd_s,
            "idling for the log": self.idle_for_log_s,
            "hand-over": self.hand_over_s,
            "host (CPU, wake-ups)": self.cpu_s,
        }

    @property
    def time_budget(self) -> pd.DataFrame:
        """Where the time of an operation goes: columns what, share, per_op_s (of one point; arrays have `parts`)."""
        import pandas as pd

        if self.shape:
            raise ScenarioError(f"time_budget: it shows one point, this form has {self.shape}; use parts.")
        rows = [(what, float(t / self.time_per_op), float(t)) for what, t in self.parts.items() if t > 0]
        return pd.DataFrame(rows, columns=["what", "share", "per_op_s"])

    def __repr__(self) -> str:
        if self.shape:
            low, high = np.min(self.time_per_op) * MS, np.max(self.time_per_op) * MS
            return f"<ClosedForm of shape {self.shape}: time_per_op {low / 1e3:.4g} to {high / 1e3:.4g} ms>"
        head = (
            f"{self.time_per_op * 1e3:.4g} ms an operation, {self.bytes_per_s / 1e3:.4g} kB/s, "
            f"{self.idles_per_op:.2f} idles an operation"
        )
        return "\n".join([head] + [f"{t * 1e6:10.1f} us  {what}" for what, t in self.parts.items() if t > 0])


def closed_form(
    machine: Machine, jobs: Dd | Sequence[Dd], over: Mapping[str, Any] | None = None, *, exact_start: bool = True
) -> ClosedForm:
    """Answer for one dd what `simulate` would show, for one point or a whole grid.

    `over` maps dotted names, as `Machine.with_` takes them, or `job.FIELD` (also `dd.FIELD`), to arrays that broadcast
    against each other; units are those of the field. Numbers of the scheduler's idling, the device, the host and the
    job are computed as arrays; anything else (cgroups, schedulers, kernels, flags) is computed once a distinct value.

    It holds for one dd on an otherwise idle machine, on a device whose every command takes the same time, while CFQ's
    slices outlast a cycle (slice_idle, group_idle and completion time below half of slice_sync, 100 ms). The first
    operations of a run, which idle differently (a new queue starts in the SYNC tree, 1.19), are part of the answer for
    `job.count` operations; `exact_start=False` leaves them out and gives the long-run mean.

    Raises ScenarioError for several jobs, for values that the field would not take and for shapes that do not fit.

    >>> import numpy as np, iosched as io
    >>> vm = io.Machine(kernel="4.19", scheduler=io.CFQ(slice_idle=8))
    >>> form = io.closed_form(vm, io.workloads.dd(cgroup="user.slice"), over={"scheduler.slice_idle": np.arange(3)})
    >>> form.shape, form.idles_per_op.round(2).tolist()
    ((3,), [1.0, 1.0, 1.0])
    """
    scenario = Scenario(machine, jobs)
    if len(scenario.jobs) != 1:
        raise ScenarioError(
            f"jobs: {len(scenario.jobs)} are beyond the closed form, which answers for one dd; simulate() them, or give "
            "bounds() and mva() the service_s and cpu_s of one."
        )
    axes = {_canonical(key): _axis(key, values) for key, values in (over or {}).items()}
    try:
        shape = np.broadcast_shapes(*(a.shape for a in axes.values()))
    except ValueError:
        shapes = ", ".join(f"{key} {a.shape}" for key, a in axes.items())
        raise ScenarioError(f"over: the shapes do not broadcast: {shapes}; add axes with [:, None].") from None
    fields = np.empty((len(ClosedForm.__dataclass_fields__), *shape))
    for point, where, numbers in _points(machine, scenario.jobs[0], axes, shape):
        fields[(slice(None), *where)] = _answer(*point, numbers, exact_start)
    return ClosedForm(*fields)


# ---------------------------------------------------------------------------------------------------------------------
# arrays of knobs

SCHEDULER = ("slice_idle", "group_idle", "slice_idle_us", "group_idle_us")
DEVICE = ("completion_us", "flush_us", "queue_depth", "servers", "max_sectors_kb")
HOST = ("request_us", "request_mq_us", "wakeup_us", "ext4_us", "xfs_us", "raw_us", "speed")
JOB = ("bs", "count", "start")
NUMERIC = {f"{part}.{name}" for part, names in
           {"scheduler": SCHEDULER, "device": DEVICE, "host": HOST, "job": JOB}.items() for name in names}  # fmt: skip

Point = tuple[Machine, Dd]
Numbers = dict[str, np.ndarray]


def _canonical(key: str) -> str:
    """`dd.bs` is `job.bs`."""
    return "job." + key[3:] if isinstance(key, str) and key.startswith("dd.") else key


def _axis(key: str, values: Any) -> np.ndarray:
    """The values of one key as an array; texts, machines' parts and None stay objects."""
    if not isinstance(key, str):
        raise ScenarioError(f"over: {key!r} is not a name; give one such as 'scheduler.slice_idle'.")
    array = np.asarray(values, dtype=None if isinstance(values, np.ndarray) else object)
    if array.size == 0:
        raise ScenarioError(f"over[{key!r}]: it is empty; give at least one value.")
    if array.dtype == object and all(isinstance(v, (int, float, np.number)) for v in array.flat):
        return np.array(array.tolist())
    return array


def _points(machine: Machine, job: Dd, axes: Numbers, shape: tuple[int, ...]) -> Iterator[tuple[Point, Any, Numbers]]:
    """Split the grid by the distinct values of what is not a number: ((machine, job), where, numbers there)."""
    numbers = {key: a for key, a in axes.items() if key in NUMERIC and a.dtype != object}
    others = {key: np.broadcast_to(a, shape) for key, a in axes.items() if key not in numbers}
    if not others:
        for key, values in numbers.items():
            _check_range(machine, job, key, values)
        yield (machine, job), (slice(None),) * len(shape), numbers
        return
    seen: list[tuple] = []
    labels = np.empty(shape, int)
    for at in np.ndindex(*shape):
        values = tuple(a[at] for a in others.values())
        if values not in seen:
            seen.append(values)
        labels[at] = seen.index(values)
    for label, values in enumerate(seen):
        where = np.nonzero(labels == label) if shape else ()
        point: Point = (machine, job)
        for key, value in zip(others, values, strict=True):
            point = _with(*point, key, value.item() if isinstance(value, np.generic) else value)
        Scenario(*point)
        here = {key: np.broadcast_to(a, shape)[where] for key, a in numbers.items()}
        for key, chosen in here.items():
            _check_range(*point, key, chosen)
        yield point, where, here


def _with(machine: Machine, job: Dd, key: str, value: Any) -> Point:
    """The point with one field changed; the field's own checks apply."""
    part, _, name = key.partition(".")
    if part != "job":
        return machine.with_(**{key: value}), job
    if name not in Dd.__dataclass_fields__:
        raise unknown(key, name, Dd.__dataclass_fields__)
    return machine, replace(job, **{name: value})


def _check_range(machine: Machine, job: Dd, key: str, values: np.ndarray) -> None:
    """Fields allow intervals, so the two ends speak for all; whole numbers and multiples are looked at one by one."""
    whole = np.unique(values) if key in ("job.bs", "device.max_sectors_kb") else [np.min(values), np.max(values)]
    for value in whole:
        _with(machine, job, key, value.item())
    if key in ("job.count", "device.queue_depth", "device.servers") and np.any(values != np.floor(values)):
        wrong = values[values != np.floor(values)].flat[0]
        _with(machine, job, key, wrong.item())


class Knobs:
    """The numbers of a point in ns and pieces, each an array or a plain number."""

    def __init__(self, machine: Machine, job: Dd, numbers: Numbers) -> None:
        device, host = machine.device, machine.host

        def value(part: str, of: Any, name: str) -> Values:
            given = numbers.get(f"{part}.{name}")
            return getattr(of, name) if given is None else given.astype(float)

        speed = value("host", host, "speed")
        self.wakeup = value("host", host, "wakeup_us") * US / speed
        self.request = value("host", host, "request_us" if machine.legacy else "request_mq_us") * US / speed
        fs = {Ext4: "ext4_us", XFS: "xfs_us", Raw: "raw_us"}[type(machine.filesystem)]
        self.filesystem = value("host", host, fs) * US / speed
        self.completion = value("device", device, "completion_us") * US
        flush = value("device", device, "flush_us")
        self.flush = self.completion if flush is None else flush * US
        depth = value("device", device, "queue_depth")
        self.servers = np.minimum(value("device", device, "servers"), depth)
        self.max_bytes = 1024 * value("device", device, "max_sectors_kb")
        self.tags = machine.nr_requests or (
            128 if machine.legacy else depth if machine.scheduler_name == "none" else 2 * np.minimum(depth, 128)
        )
        self.bs = value("job", job, "bs")
        self.count = value("job", job, "count")
        self.start = value("job", job, "start") * S
        self.slice_idle, self.group_idle = _idles(machine, numbers)


def _idles(machine: Machine, numbers: Numbers) -> tuple[Values, Values]:
    """(slice_idle, group_idle) in ns: from the arrays, else what the scheduler's fields and its defaults say."""
    if not isinstance(machine.scheduler, CFQ):
        return 0.0, 0.0
    defaults = machine.scheduler.idle_defaults(machine.device.rotational)
    found = []
    for name, default in zip(("slice_idle", "group_idle"), defaults, strict=True):
        ms, us = numbers.get(f"scheduler.{name}"), numbers.get(f"scheduler.{name}_us")
        if ms is not None and us is not None:
            raise ScenarioError(f"over: scheduler.{name} and scheduler.{name}_us are one tunable; give one of the two.")
        found.append(ms * MS if ms is not None else us * US if us is not None else float(default))
    return found[0], found[1]


# ---------------------------------------------------------------------------------------------------------------------
# the chain of steps


@dataclass
class Step:
    """Some host time, then (unless `requests` is 0) commands of one task that the task waits for. ns.

    `visible`: the scheduler sees them; flush sequences bypass it (spec section 8).
    """

    host: Values
    task: str = ""
    device: Values = 0.0
    requests: Values = 0
    visible: bool = True


def _host(steps: list[Step]) -> Values:
    return sum(step.host for step in steps)


class Chain:
    """One operation of dd, and what follows the last one, as lists of steps (sections 8 and 9).

    `loop` is one operation, `tail` the fsync of `conv`; both end with host time. `gap` is host time that has been
    counted but not yet followed by a command.
    """

    def __init__(self, machine: Machine, job: Dd, k: Knobs) -> None:
        self.machine, self.job, self.k = machine, job, k
        self.fs = machine.filesystem
        self.steps: list[Step] = []
        self.gap: Values = 0.0
        direct = "direct" in job.oflags
        self.spend(k.filesystem * (1.0 if isinstance(self.fs, Raw) else BEFORE_DATA))
        if direct:
            fua = isinstance(self.fs, Raw) and job.synchronous and machine.version >= "6.0"
            self.write("dd", self.commands(k.bs), fua=fua)
            if job.synchronous and not fua:
                self.durable()
        else:
            if isinstance(self.fs, Raw):
                self.read_pages()
            if job.synchronous:
                self.write("dd", self.commands_of_pages())
                self.durable()
        self.loop = self.close()
        if {"fsync", "fdatasync"} & set(job.convs):
            self.fsync(direct)
        self.tail = self.close()

    def close(self) -> list[Step]:
        """Hand over the steps so far."""
        steps = [*self.steps, Step(self.gap)]
        self.steps, self.gap = [], 0.0
        return steps

    def fsync(self, direct: bool) -> None:
        """fsync at the end: what is dirty, and whatever of the log is not yet on the device."""
        if not (direct or self.job.synchronous):
            self.write("dd", np.ceil(np.ceil(self.k.count * self.k.bs / PAGE) * PAGE / self.k.max_bytes))
        if isinstance(self.fs, Raw):
            self.durable()
        elif not self.job.synchronous:
            self.durable()
        elif isinstance(self.fs, XFS) and self.log_writer != "worker":
            self.xfs_log("dd")

    # -----------------------------------------------------------------------------------------------------------------
    # what a step is

    def spend(self, ns: Values) -> None:
        """Host time."""
        self.gap = self.gap + ns

    def wake(self) -> None:
        """A task wakes up."""
        self.spend(self.k.wakeup)

    def command(self, task: str, device: Values, requests: Values, visible: bool) -> None:
        """Commands at one moment, and the wake-up of who waits for them."""
        self.steps.append(Step(self.gap, task, device, requests, visible))
        self.gap = 0.0
        self.wake()

    def write(self, task: str, requests: Values, fua: bool = False, preflush: bool = False) -> None:
        """Writes; flushes and FUA exist where the kernel sees a cache, and then the scheduler sees nothing (8)."""
        k, device = self.k, self.machine.device
        time = self.serve(requests)
        bypass = device.write_cache and (fua or preflush)
        if bypass:
            flushes = int(preflush) + int(fua and not device.fua)
            time = time + flushes * (k.flush + k.request)
        self.command(task, time, requests, not bypass)

    def serve(self, requests: Values) -> Values:
        """Time of commands that are there at once: rounds of as many as the device works on. Where that is also all
        the tags there are, the submitter must be woken between two rounds."""
        k = self.k
        servers = 1 if self.job.ioclass == "idle" and isinstance(self.machine.scheduler, CFQ) else k.servers
        rounds = np.ceil(requests / servers)
        refill = np.where(np.asarray(k.tags) <= servers, np.maximum(rounds - 1, 0) * k.wakeup, 0.0)
        return rounds * (k.completion + k.request) + refill

    def commands(self, nbytes: Values) -> Values:
        """Requests of a direct write."""
        return np.ceil(nbytes / self.k.max_bytes)

    def commands_of_pages(self) -> Values:
        """Requests of the pages that a buffered write touches, on average over its places within a page."""
        k = self.k
        if np.all(np.asarray(k.bs) + 2 * PAGE <= k.max_bytes):
            return 1.0
        return _averaged(k.bs, k.max_bytes, lambda first, last, most: np.ceil((last - first) * PAGE / most))

    def read_pages(self) -> None:
        """A buffered write to the device reads the page that it ends in, unless it is cached or covered (9, raw)."""
        reads = _averaged(self.k.bs, 1, None)
        self.steps.append(Step(self.gap, "dd", reads * self.serve(1.0), reads))
        self.gap = reads * self.k.wakeup

    def durable(self) -> None:
        """The rest of fsync."""
        k = self.k
        if isinstance(self.fs, Raw):
            if self.machine.device.write_cache:
                self.command("dd", k.flush + k.request, 1, False)
            return
        if isinstance(self.fs, XFS):
            if self.log_writer == "push":  # a worker formats the log: it is woken, and wakes dd
                self.wake()
                self.wake()
            self.xfs_log("log" if self.log_writer == "worker" else "dd")
            return
        self.wake()
        self.spend(k.filesystem * BEFORE_LOG)
        self.write("log", self.log_requests())
        self.spend(k.filesystem * BEFORE_COMMIT)
        self.write("log", 1, fua=self.fs.barrier, preflush=self.fs.barrier)
        self.wake()

    def xfs_log(self, task: str) -> None:
        """XFS's log write; a worker is woken for it and wakes dd afterwards."""
        if task == "log":
            self.wake()
        self.spend(self.k.filesystem * (1 - BEFORE_DATA))
        self.write(task, np.ceil(self.fs.log_sectors * 512 / self.k.max_bytes), fua=True, preflush=True)
        if task == "log":
            self.wake()

    @property
    def log_writer(self) -> str:
        """In whose context XFS's log goes out."""
        return self.fs.log_writer or ("caller" if self.machine.version < "5.14" else "push")

    def log_requests(self) -> Values:
        """Requests of ext4's log write: descriptor and inode, and two blocks more when a block was allocated; one
        request where the device takes that much at once."""
        k = self.k
        if np.all(np.asarray(k.max_bytes) >= 6 * PAGE):
            return 1.0
        new = np.minimum(np.asarray(k.bs, float) / PAGE, 1)
        return new * np.ceil(4 * PAGE / k.max_bytes) + (1 - new) * np.ceil(2 * PAGE / k.max_bytes)


def _averaged(bs: Values, most: Values, pieces: Any) -> Values:
    """Mean over the writes of a file: pieces of the pages touched, or (None) reads of a page that the write ends in."""
    bs, most = np.broadcast_arrays(np.asarray(bs, float), np.asarray(most, float))
    out = np.empty(bs.shape)
    for size, limit in {(float(b), float(m)) for b, m in zip(bs.flat, most.flat, strict=True)}:
        start = np.arange(PAGE // np.gcd(int(size), PAGE)) * size
        end = start + size
        if pieces is None:
            value = np.mean((end % PAGE != 0) & (np.ceil(start / PAGE) <= np.floor(end / PAGE)))
        else:
            value = np.mean(pieces(np.floor(start / PAGE), np.ceil(end / PAGE), limit))
        out[(bs == size) & (most == limit)] = value
    return out[()]


# ---------------------------------------------------------------------------------------------------------------------
# one point, or one block of a grid


def _answer(machine: Machine, job: Dd, numbers: Numbers, exact_start: bool) -> np.ndarray:
    """The fields of `ClosedForm` in its order, for the numbers of one machine and job."""
    k = Knobs(machine, job, numbers)
    chain = Chain(machine, job, k)
    count = k.count if exact_start else np.inf
    tail_weight = 1 / k.count
    steps = [(1.0, step) for step in chain.loop] + [(tail_weight, step) for step in chain.tail]
    service = sum(w * step.device for w, step in steps)
    cpu = sum(w * step.host for w, step in steps)
    runs = sum(w * np.minimum(step.requests, 1) for w, step in steps if step.visible and np.any(step.requests))
    asynchronous = not machine.legacy and machine.scheduler_name != "none"
    hand_over = runs * k.wakeup if asynchronous else 0.0
    idles, for_dd, for_log = (0.0, 0.0, 0.0)
    if isinstance(machine.scheduler, CFQ):
        waits = _waits(machine, job, k, chain, count)
        idles, for_dd, for_log = waits.idles, waits.for_dd, waits.for_log
        hand_over = hand_over + idles * k.wakeup
    total = service + cpu + hand_over + for_dd + for_log
    fields = [total / S, k.bs / (total / S), idles, service / S, cpu / S, hand_over / S, for_dd / S, for_log / S]
    return np.stack(np.broadcast_arrays(*fields))


class Waits(NamedTuple):
    """Idling an operation: waits, and ns waited for the window of dd or of the log's writer."""

    idles: Values
    for_dd: Values
    for_log: Values


def _waits(machine: Machine, job: Dd, k: Knobs, chain: Chain, count: Values) -> Waits:
    """CFQ's idling an operation. Without a second task that the scheduler sees, the queue that is idled for itself gets
    the next request (1.19: XFS before 5.14, raw devices), and nobody waits."""
    steps, cycles = chain.loop, count
    if not job.synchronous:
        steps, cycles = chain.loop + chain.tail, 1
    if not {"dd", "log"} <= {step.task for step in steps if step.visible and np.any(step.requests)}:
        return Waits(0.0, 0.0, 0.0)
    switches = Switches(machine, job, k)
    if not switches.can_wait:
        return Waits(0.0, 0.0, 0.0)
    _check_slices(machine, k)
    waits = _mean_waits(switches, _visible(steps, k), k.start, cycles)
    return waits if job.synchronous else Waits(*(w / k.count for w in waits))


def _check_slices(machine: Machine, k: Knobs) -> None:
    """A slice must outlast a cycle, or its end would cut idle windows short."""
    half = machine.scheduler.nanoseconds("slice_sync", 100) / 2
    for name, value in (("scheduler.slice_idle", k.slice_idle), ("scheduler.group_idle", k.group_idle),
                        ("device.completion_us", k.completion)):  # fmt: skip
        if np.any(value > half):
            raise ScenarioError(
                f"{name}: {np.max(value) / MS:g} ms is beyond the closed form; give at most half of slice_sync "
                f"({half / MS:g} ms), or simulate()."
            )


class Visible(NamedTuple):
    """Commands that CFQ sees: time since the last one (or the start of the cycle) was back, whose, how long, how many."""

    gap: Values
    task: str
    device: Values
    requests: Values


def _visible(steps: list[Step], k: Knobs) -> tuple[list[Visible], Values]:
    """The commands of a cycle that CFQ sees, and the time after the last; what bypasses CFQ is only time to it."""
    found: list[Visible] = []
    gap: Values = 0.0
    for step in steps:
        gap = gap + step.host
        if step.visible and np.any(step.requests):
            found.append(Visible(gap, step.task, step.device, step.requests))
            gap = 0.0
        else:
            gap = gap + step.device
    return found, gap


def _mean_waits(switches: Switches, cycle: tuple[list[Visible], Values], start: Values, count: Values) -> Waits:
    """Mean of the waits over `count` operations: those of the first cycles one by one, the rest at the later cycles'
    mean, weighted by sin² so that a pattern of about ten cycles that does not fit the window does not show."""
    limit = int(min(np.max(count), MOST_CYCLES))
    first = np.zeros((3, *np.broadcast_shapes(np.shape(count), switches.shape)))
    rows = []
    now: Values = start
    same = 0
    for i in range(limit):
        now, row = switches.cycle(now, *cycle)
        rows.append(row)
        same = same + 1 if i > 0 and np.allclose(row, rows[-2], rtol=0, atol=1.0) else 0
        if same >= SETTLED:
            break
    seen = np.array(rows)
    n = len(seen)
    settled = seen[n // 4 :] if same < SETTLED else seen[-1:]
    weight = np.sin(np.pi * (np.arange(len(settled)) + 0.5) / len(settled)) ** 2
    steady = np.tensordot(weight / weight.sum(), settled, 1)
    if np.all(np.isinf(count)):
        return Waits(*steady)
    among = np.minimum(count, n)
    included = np.arange(n).reshape(n, *(1,) * first[0].ndim) < count
    for column in range(3):
        first[column] = np.where(included, seen[:, column], 0.0).sum(0)
    return Waits(*((first + steady * np.maximum(count - among, 0)) / count))


# ---------------------------------------------------------------------------------------------------------------------
# who waits for whom under CFQ


class ThinkTime:
    """A think-time record (1.5), for all points at once: total and samples in fixed point, the last completion."""

    def __init__(self, most: Values) -> None:
        self.most = most  # a sample counts at most twice the idle parameter
        self.last: Values = 0.0
        self.total: Values = 0.0
        self.samples: Values = 0.0

    def update(self, now: Values, requests: Values, mask: Any = True) -> None:
        """Fold the time since the last completion in, once a request; where `mask` says so."""
        kept = KEEP**requests
        total = kept * self.total + FULL * (1 - kept) * np.minimum(now - self.last, self.most)
        samples = kept * self.samples + SAMPLES_LIMIT * (1 - kept)
        if mask is not True:
            total, samples = np.where(mask, total, self.total), np.where(mask, samples, self.samples)
        self.total, self.samples = total, samples

    def completed(self, now: Values, mask: Any = True) -> None:
        """A sync request of this record is back."""
        self.last = now if mask is True else np.where(mask, now, self.last)

    def big(self, limit: Values) -> Any:
        """The mean is valid (three samples) and above `limit`."""
        return (self.total > limit * self.samples) & (self.samples > SAMPLES_VALID)


class Switches:
    """CFQ between dd and the writer of the log: the state of both queues, cycle by cycle, for all points at once.

    The two take turns, so exactly one of them is active, has nothing pending and is perhaps idled for when the other's
    request arrives. What is kept: until when (`until`, -inf when no timer runs), whether CFQ would idle for it
    (`worth`), in which tree each queue sits, dd's idle_window, and the think-time records.
    """

    def __init__(self, machine: Machine, job: Dd, k: Knobs) -> None:
        cfq, fs = machine.scheduler, machine.filesystem
        log_group = fs.jbd2_cgroup if isinstance(fs, Ext4) else fs.worker_cgroup
        ancestors = cfq.group_rule(machine.version >= "4.6")
        self.realtime, self.idle_class = job.ioclass == "realtime", job.ioclass == "idle"
        self.log_group_may = _group_may_preempt(log_group, job.cgroup, ancestors)
        self.dd_group_may = _group_may_preempt(job.cgroup, log_group, ancestors)
        self.same_trees = normalise(job.cgroup) == normalise(log_group) and job.ioclass == "best-effort"
        self.direct = "direct" in job.oflags
        self.rotational = machine.device.rotational
        self.small = self.direct and not self.rotational and np.all(k.bs < SMALL_NONROTATIONAL * 512)

        self.slice_idle, self.group_idle, self.wakeup = k.slice_idle, k.group_idle, k.wakeup
        varied = [v for v in vars(k).values() if v is not None]
        self.shape = np.broadcast_shapes(*(np.shape(v) for v in varied))
        self.slices, self.groups = np.asarray(k.slice_idle) > 0, np.asarray(k.group_idle) > 0
        self.armable = self.groups | self.rotational
        twice = 2 * k.slice_idle
        self.noidle_log = ThinkTime(twice)
        self.noidle_dd = self.noidle_log if self.same_trees else ThinkTime(twice)
        self.sync_dd, self.context_dd = ThinkTime(twice), ThinkTime(twice)

        self.requests_of_dd = 0
        self.first = True
        self.window: Any = np.array(not self.idle_class)  # dd's idle_window
        self.dd_sync: Any = self.window  # is dd's queue in its SYNC tree?
        self.log_sync: Any = np.array(True)
        self.until: Values = NEVER
        self.worth: Any = np.array(False)
        self.active = ""

    @property
    def can_wait(self) -> bool:
        """Is there any idling at all, and a switch at which it could be paid?"""
        if not np.any((self.slices | self.groups) & self.armable):
            return False
        return not (self.same_trees and not self.direct)

    def cycle(self, now: Values, commands: list[Visible], rest: Values) -> tuple[Values, np.ndarray]:
        """One operation from `now` on: (end, [waits, ns waited for dd, ns waited for the log])."""
        waited = {"dd": 0.0, "log": 0.0}
        waits: Values = 0.0
        for gap, task, device, requests in commands:
            now = now + gap
            if self.active == task:
                now = self.serve_again(now, device, requests)
                continue
            preempts = self.dd_arrives(now, requests) if task == "dd" else self.log_arrives(now, requests)
            wait = np.where(preempts, 0.0, np.maximum(self.until - now, 0.0))
            if self.active:
                waited[self.active] = waited[self.active] + wait
                waits = waits + (wait > 0)
            now = now + wait + self.wakeup * (wait > 0) + device
            self.active = task
            self.completed(now, task)
        self.first = False
        row = np.stack([np.broadcast_to(v, self.shape) for v in (waits, waited["dd"], waited["log"])])
        return now + rest, row

    def serve_again(self, now: Values, device: Values, requests: Values) -> Values:
        """The active queue's own next request (jbd2's commit block) goes at once. It is no larger than a page, so the
        running timer is not cancelled (1.4 step 6); if it fires meanwhile, the queue is no longer idled for."""
        self.records(self.active)[0].update(now, requests)
        done = now + device
        fires = (self.until > now) & (self.until < done)
        self.completed(done, self.active)
        self.until = np.where(fires, NEVER, self.until)
        return done

    def records(self, task: str) -> list[ThinkTime]:
        """The record of the tree in which the task's queue sits: (noidle) or (noidle, SYNC)."""
        return [self.noidle_log] if task == "log" else [self.noidle_dd, self.sync_dd]

    # -----------------------------------------------------------------------------------------------------------------
    # arrivals (1.4 to 1.8)

    def dd_arrives(self, now: Values, requests: Values) -> Any:
        """dd's data enters CFQ; may it preempt the log's queue?"""
        if not self.idle_class:
            self.dd_sync = self.window
            self.sync_dd.update(now, requests, self.dd_sync)
            self.noidle_dd.update(now, requests, ~self.dd_sync)
            self.context_dd.update(now, requests)
            self.requests_of_dd += 1
            self.update_idle_window()
        if not self.active or self.idle_class or not self.dd_group_may:
            return np.array(False)
        if self.realtime:
            return np.array(True)
        together = self.same_trees & (self.dd_sync == self.log_sync)
        should_idle = self.slices & ~together & (self.log_sync | ~self.noidle_log.big(self.slice_idle))
        preempts = (~self.log_sync & ~self.window) | ~should_idle
        self.dd_sync = np.where(preempts, self.window, self.dd_sync)
        return preempts

    def update_idle_window(self) -> None:
        """A noidle write (fsync's data) ends it; a direct writer keeps it while it comes back in time (1.7)."""
        if not self.direct:
            self.window = np.array(False)
            return
        seeky = self.small and self.requests_of_dd > SEEKY
        known = self.context_dd.samples > SAMPLES_VALID
        window = np.where(known, ~self.context_dd.big(self.slice_idle), self.window)
        self.window = window & self.slices & (not seeky)

    def log_arrives(self, now: Values, requests: Values) -> Any:
        """The log write enters CFQ; may it preempt dd's queue?"""
        self.log_sync = np.array(self.first)
        if not self.first:
            self.noidle_log.update(now, requests)
        if self.idle_class:
            return np.array(True)
        if self.realtime or not self.log_group_may:
            return np.array(False)
        together = self.same_trees & (self.dd_sync == self.log_sync)
        kept = self.rotational & self.window
        should_idle = np.where(kept, self.slices, self.worth & ~together)
        preempts = ~self.dd_sync | ~should_idle
        self.log_sync = self.log_sync & ~preempts
        return preempts

    # -----------------------------------------------------------------------------------------------------------------
    # completion and idling (1.10, 1.11)

    def completed(self, now: Values, task: str) -> None:
        """The active queue is empty: is it worth waiting for, by slice_idle, else by group_idle?"""
        if task == "log":
            kept: Any = np.array(False)
            if not self.first:
                self.noidle_log.completed(now)
            big_slice = self.noidle_log.big(self.slice_idle) & ~self.log_sync
            big_group = self.noidle_log.big(self.group_idle) & ~self.log_sync
        else:
            kept = self.rotational & self.window
            self.sync_dd.completed(now, self.dd_sync)
            self.noidle_dd.completed(now, ~self.dd_sync)
            self.context_dd.completed(now)
            big_slice = np.where(self.dd_sync, self.sync_dd.big(self.slice_idle), self.noidle_dd.big(self.slice_idle))
            big_group = np.where(self.dd_sync, self.sync_dd.big(self.group_idle), self.noidle_dd.big(self.group_idle))
        self.worth = self.slices & (kept | ~big_slice)
        length = np.where(self.worth, self.slice_idle, np.where(self.groups & ~big_group, self.group_idle, NEVER))
        no_timer = task == "dd" and self.idle_class
        self.until = np.where(self.armable & (not no_timer), now + length, NEVER)


def _group_may_preempt(newcomer: str, active: str, ancestors: bool) -> bool:
    """Groups isolate (1.8 rule 6): since 4.6 an ancestor may preempt its descendants, before only the same group."""
    return is_ancestor_or_same(newcomer, active) if ancestors else normalise(newcomer) == normalise(active)


# ---------------------------------------------------------------------------------------------------------------------
# closed loops of several jobs


class Bounds(NamedTuple):
    """Operations a second: at least `lower`, at most `upper`; `knee` is the number of jobs where the asymptotes meet."""

    lower: np.ndarray
    upper: np.ndarray
    knee: np.ndarray


def bounds(n_jobs: Any, service_s: Any, think_s: Any = 0.0, servers: Any = 1) -> Bounds:
    """Asymptotic bounds of a closed loop: each job spends `service_s` at a station of `servers` servers, then
    `think_s` elsewhere. All arguments broadcast.

    upper = min(n/(service + think), servers/service) holds for any distribution. lower = n/(think + service (1 +
    (n-1)/servers)) holds for a station that never idles while jobs wait and jobs of equal mean, first come first
    served, with constant or exponential service. The knee is servers (service + think)/service.

    Raises ScenarioError for negative times, no service time, no job or no server.

    >>> limits = bounds(4, 100e-6, 100e-6)
    >>> float(limits.upper.round(6)), float(limits.knee)
    (10000.0, 2.0)
    """
    n, d, z, m = _loop_arguments(n_jobs, service_s, think_s, servers)
    upper = np.minimum(n / (d + z), m / d)
    lower = n / (z + d * (1 + (n - 1) / m))
    return Bounds(np.minimum(lower, upper), upper, m * (d + z) / d)


class ClosedLoop(NamedTuple):
    """Mean values: operations a second, seconds at the station, jobs at the station, share of its servers in use."""

    throughput: np.ndarray
    response_s: np.ndarray
    queue_length: np.ndarray
    utilization: np.ndarray


def mva(n: Any, service_s: Any, think_s: Any = 0.0, servers: Any = 1) -> ClosedLoop:
    """Exact mean values of a closed loop: n jobs, one station of `servers` servers (its rate grows with the jobs there
    up to that number), and `think_s` elsewhere. All arguments broadcast.

    The station's population is a birth-death chain, p_k proportional to n!/(n-k)! (service/think)^k / prod min(i,
    servers), which gives what mean-value analysis gives without its loss of digits when servers are many. Exact for
    exponential service with any think time (the machine repairman); constant service lies between this and `bounds`.

    Raises ScenarioError for negative times, no service time, no job or no server.

    >>> loop = mva(2, 1.0, 1.0)
    >>> float(loop.throughput.round(6)), float(loop.queue_length.round(6))
    (0.8, 1.2)
    """
    n, d, z, m = _loop_arguments(n, service_s, think_s, servers, whole=True)
    n, d, z, m = np.broadcast_arrays(n, d, z, m)
    k = np.arange(int(np.max(n)) + 1)
    at, d, z, m = (a[..., None] for a in (n, d, z, m))
    with np.errstate(divide="ignore"):
        steps = np.log(np.maximum(at - k[1:] + 1, 0)) + np.log(d) - np.log(np.minimum(k[1:], m))
        log_z = np.log(z)  # weights times z^n, so that no think time is a limit and not a division by zero
        weights = np.concatenate([np.zeros((*n.shape, 1)), np.cumsum(steps, -1)], -1)
        weights = weights + np.where(at > k, (at - k) * log_z, 0.0)
    weights = np.where(k <= at, weights, NEVER)
    p = np.exp(weights - weights.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    busy = (p * np.minimum(k, m)).sum(-1)
    length = (p * k).sum(-1)
    throughput = busy / d[..., 0]
    return ClosedLoop(throughput, length / throughput, length, busy / m[..., 0])


def _loop_arguments(n: Any, service: Any, think: Any, servers: Any, whole: bool = False) -> list[np.ndarray]:
    """Checked arrays (jobs, service, think, servers)."""
    checked = []
    for field, value, low, unit, integer in (("n_jobs", n, 1, "jobs", whole), ("service_s", service, 1e-12, "s", False),
                                             ("think_s", think, 0, "s", False), ("servers", servers, 1, "", whole)):  # fmt: skip
        array = np.asarray(value, float)
        if array.size == 0:
            raise ScenarioError(f"{field}: it is empty; give at least one value.")
        for end in (np.min(array), np.max(array)):
            number(field, end.item(), low, 1e9, unit)
        if integer and np.any(array != np.floor(array)):
            raise ScenarioError(f"{field}: {value!r} is not allowed; give whole numbers.")
        checked.append(array)
    try:
        np.broadcast_shapes(*(a.shape for a in checked))
    except ValueError:
        shapes = ", ".join(str(a.shape) for a in checked)
        raise ScenarioError(f"n_jobs, service_s, think_s, servers: the shapes {shapes} do not broadcast.") from None
    return checked


__all__ = ["Bounds", "ClosedForm", "ClosedLoop", "bounds", "closed_form", "mva"]
