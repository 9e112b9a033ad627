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

FIRST_LOG, NEW_LOG, OLD_LOG = 6, 4, 2  # blocks of jbd2's log write: new file, new block, neither

# think-time records (spec block-layer 1.5)
KEEP = 7 / 8
FULL = 256  # fixed point of 1.0
SAMPLES_REST = 249  # where floor((7 samples + 256)/8) comes to rest
SAMPLES_VALID = 80

SMALL_NONROTATIONAL = 64  # sectors; a smaller request counts as a seek on a device without positions (1.6)
HW_QUEUE_MIN = 5  # up to so many requests at once CFQ does not look for NCQ (1.16)
SEEKY = 4  # more seeks than this among the last 32 requests

MOST_CYCLES = 128  # cycles of the recursion; the rest of a longer run repeats their mean
SETTLED = 40  # cycles without a change after which a recursion of weight 1/8 is at rest, to 5 in 1,000


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

    It holds for one dd on an otherwise idle machine, on a device whose every command takes the same time. Under CFQ
    with a journal also: slice_idle, group_idle and all commands of a write stay below half of slice_sync (100 ms), so
    that slices outlast a cycle; log writes fit into one request; a direct write, and any on a device that does not
    rotate, makes few requests at once. Beyond these it raises and does not guess. Against the simulator the time of an
    operation differs by 1.1 % at most, over 19,000 random machines, and is the same to 0.01 % in 95 % of them.

    The first operations of a run, which idle differently (a new queue starts in the SYNC tree, 1.19), are part of the
    answer for `job.count` operations; `exact_start=False` leaves them out and gives the long-run mean.

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
            f"jobs: {len(scenario.jobs)} are beyond the closed form, which answers for one dd; simulate() them, or "
            "give bounds() and mva() the service_s and cpu_s of one."
        )
    axes = {_canonical(key): _axis(key, values) for key, values in (over or {}).items()}
    try:
        shape = np.broadcast_shapes(*(a.shape for a in axes.values()))
    except ValueError:
        shapes = ", ".join(f"{key} {a.shape}" for key, a in axes.items())
        raise ScenarioError(f"over: the shapes do not broadcast: {shapes}; add axes with [:, None].") from None
    fields = np.empty((len(ClosedForm.__dataclass_fields__), *shape))
    for point, where, numbers in _points(machine, scenario.jobs[0], axes, shape):
        answer = _answer(*point, numbers, exact_start)
        fields[(slice(None), *where)] = answer if answer.ndim > 1 or not shape else answer[:, None]
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
Batches = list[tuple[Values, Values]]  # (share of the operations, requests at once)
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
        self.depth = depth = value("device", device, "queue_depth")
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

    `visible`: the scheduler sees them; flush sequences bypass it (spec section 8). `runs`: how often kblockd
    sends them.
    """

    host: Values
    task: str = ""
    device: Values = 0.0
    requests: Values = 0
    visible: bool = True
    runs: Values = 0


class Chain:
    """One operation of dd, and what follows the last one, as lists of steps (sections 8 and 9).

    `loop` is one operation, `tail` the fsync of `conv`; both end with host time. `gap` is host time that has been
    counted but not yet followed by a command.
    """

    def __init__(self, machine: Machine, job: Dd, k: Knobs, count: Values) -> None:
        self.machine, self.job, self.k, self.count = machine, job, k, count
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

    def command(self, task: str, device: Values, requests: Values, runs: Values, visible: bool = True) -> None:
        """Commands at one moment, and the wake-up of who waits for them."""
        self.steps.append(Step(self.gap, task, device, requests, visible, runs))
        self.gap = 0.0
        self.wake()

    @property
    def insertion_runs(self) -> int:
        """On blk-mq with a scheduler kblockd sends what was inserted (section 5)."""
        return int(not self.machine.legacy and self.machine.scheduler_name != "none")

    def write(self, task: str, batches: Batches | Values, fua: bool = False, preflush: bool = False) -> None:
        """Writes; flushes and FUA exist where the kernel sees a cache, and then the scheduler sees nothing (8)."""
        k, device = self.k, self.machine.device
        batches = batches if isinstance(batches, list) else [(1.0, batches)]
        requests = sum(share * n for share, n in batches)
        if not (device.write_cache and (fua or preflush)):
            runs = self.insertion_runs
            if self.alone(task):  # a full device asks for the next by itself
                runs = np.where(np.asarray(k.depth) > 1, np.maximum(requests - 1, 0), 0)
            self.command(task, self.serve(batches, task), requests, runs)
            return
        flushes = int(preflush) + int(fua and not device.fua)
        time = self.serve(batches, task) + flushes * (k.flush + k.request)
        self.command(task, time, requests, self.bypass_runs * (1 + flushes), False)

    @property
    def bypass_runs(self) -> int:
        """On blk-mq kblockd sends each step of a flush sequence, whatever the scheduler."""
        return int(not self.machine.legacy)

    def serve(self, batches: Batches, task: str = "dd") -> Values:
        """Time of commands that are there at once: rounds of as many as the device works on, mean of the batches."""
        k = self.k
        servers = 1 if self.alone(task) else k.servers
        total: Values = 0.0
        for share, requests in batches:
            rounds = np.ceil(requests / servers)
            busy = (rounds > 1) & (servers * k.request > k.completion) & (self.machine.host.cpus > 0)
            if np.any((requests > k.tags) | busy):
                raise ScenarioError(
                    f"dd.bs: {int(np.max(requests))} requests at once are beyond the closed form, which takes as many "
                    "as there are tags (nr_requests) and as a processor can take interrupts for; simulate()."
                )
            total = total + share * rounds
        return total * (k.completion + k.request)

    def alone(self, task: str) -> bool:
        """CFQ sends the idle class's requests one at a time, each by kblockd after the one before (1.10)."""
        return task == "dd" and self.job.ioclass == "idle" and isinstance(self.machine.scheduler, CFQ)

    def commands(self, nbytes: Values) -> Values:
        """Requests of a direct write."""
        return np.ceil(nbytes / self.k.max_bytes)

    def commands_of_pages(self) -> Batches | Values:
        """Requests of the pages that a buffered write touches: one page more or less by its place within a page."""
        k = self.k
        if np.all(np.asarray(k.bs) + 2 * PAGE <= k.max_bytes):
            return 1.0
        mean = _averaged(k.bs, k.max_bytes, self.count, _requests_of_pages)
        few = np.floor(mean)
        return [(1 - (mean - few), few), (mean - few, np.ceil(mean))]

    def read_pages(self) -> None:
        """A buffered write to the device reads the page that it ends in, unless it is cached or covered (9, raw)."""
        reads = _averaged(self.k.bs, self.k.max_bytes, self.count, _page_reads)
        self.steps.append(
            Step(self.gap, "dd", reads * self.serve([(1.0, 1)]), reads, True, reads * self.insertion_runs)
        )
        self.gap = reads * self.k.wakeup

    def durable(self) -> None:
        """The rest of fsync."""
        k = self.k
        if isinstance(self.fs, Raw):
            if self.machine.device.write_cache:
                self.command("dd", k.flush + k.request, 1, self.bypass_runs, False)
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

    def log_requests(self) -> Batches | Values:
        """Requests of ext4's log write: descriptor and inode, two blocks more when a block was allocated, and two more
        for a new file's first; one request where the device takes that much at once."""
        k = self.k
        if np.all(np.asarray(k.max_bytes) >= FIRST_LOG * PAGE):
            return 1.0
        first, new, old = (np.ceil(n * PAGE / np.asarray(k.max_bytes)) for n in (FIRST_LOG, NEW_LOG, OLD_LOG))
        if not self.job.synchronous:
            return first
        share = _averaged(k.bs, k.max_bytes, self.count, _allocates)
        created = 1 / self.count
        return [(created, first), (share - created, new), (1 - share, old)]


def _averaged(bs: Values, most: Values, count: Values, pieces: Any) -> Values:
    """Mean over the first `count` writes of a file of `pieces(start, end, most)`, which repeats with the place within a
    page."""
    bs, most, count = np.broadcast_arrays(*(np.asarray(v, float) for v in (bs, most, count)))
    out = np.empty(bs.shape)
    for size, limit in {(float(b), float(m)) for b, m in zip(bs.flat, most.flat, strict=True)}:
        here = (bs == size) & (most == limit)
        period = PAGE // np.gcd(int(size), PAGE)
        start = np.arange(period) * size
        sums = np.concatenate([[0.0], np.cumsum(pieces(start, start + size, limit))])
        n = count[here]
        whole = np.where(np.isinf(n), 1, n // period)
        rest = np.where(np.isinf(n), 0, n % period).astype(int)
        out[here] = (whole * sums[-1] + sums[rest]) / np.where(np.isinf(n), period, n)
    return out[()]


def _requests_of_pages(start: np.ndarray, end: np.ndarray, most: float) -> np.ndarray:
    """Requests of at most `most` bytes that the touched pages make."""
    return np.ceil((np.ceil(end / PAGE) - np.floor(start / PAGE)) * PAGE / most)


def _allocates(start: np.ndarray, end: np.ndarray, most: float) -> np.ndarray:
    """Does the write reach a page of the file that no write before it has touched?"""
    return np.ceil(end / PAGE) > np.ceil(start / PAGE)


def _page_reads(start: np.ndarray, end: np.ndarray, most: float) -> np.ndarray:
    """Does the write end inside a page that no write before it has touched?"""
    return (end % PAGE != 0) & (np.ceil(start / PAGE) <= np.floor(end / PAGE))


# ---------------------------------------------------------------------------------------------------------------------
# one point, or one block of a grid


def _answer(machine: Machine, job: Dd, numbers: Numbers, exact_start: bool) -> np.ndarray:
    """The fields of `ClosedForm` in its order, for the numbers of one machine and job."""
    k = Knobs(machine, job, numbers)
    count = k.count if exact_start else np.inf
    chain = Chain(machine, job, k, count)
    tail_weight = 1 / k.count
    steps = [(1.0, step) for step in chain.loop] + [(tail_weight, step) for step in chain.tail]
    service = sum(w * step.device for w, step in steps)
    cpu = sum(w * step.host for w, step in steps)
    hand_over = sum(w * step.runs for w, step in steps) * k.wakeup
    idles, for_dd, for_log = (0.0, 0.0, 0.0)
    if isinstance(machine.scheduler, CFQ):
        waits = _waits(machine, job, k, chain, count)
        idles, for_dd, for_log = waits.idles, waits.for_dd, waits.for_log
        hand_over = hand_over + idles * k.wakeup
    total = service + cpu + hand_over + for_dd + for_log
    fields = [total / S, k.bs / (total / S), idles, service / S, cpu / S, hand_over / S, for_dd / S, for_log / S]
    shape = np.broadcast_shapes(*(np.shape(v) for v in (*fields, *numbers.values())))
    return np.stack([np.broadcast_to(f, shape) for f in fields])


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
    _check_batches(machine, job, steps)
    switches = Switches(machine, job, k)
    if not switches.can_wait:
        return Waits(0.0, 0.0, 0.0)
    _check_slices(machine, k, steps)
    commands, rest = _visible(steps)
    if not switches.new_log:
        switches.live_through_mount(commands)
    if not job.synchronous:
        switches.after_writes(k.count, chain.loop, machine.scheduler.nanoseconds("slice_sync", 100))
    waits = _mean_waits(switches, commands, rest, cycles)
    return waits if job.synchronous else Waits(*(w / k.count for w in waits))


def _check_batches(machine: Machine, job: Dd, steps: list[Step]) -> None:
    """Where the recursion holds: few requests at once, where their number would change more than the think times."""
    most = 1 if "direct" in job.oflags else np.inf if machine.device.rotational else HW_QUEUE_MIN
    if any(np.any(step.requests > most) for step in steps if step.task == "dd"):
        raise ScenarioError(
            f"dd.bs: it makes more than {most} requests at once, which is beyond the closed form of CFQ with a journal "
            "(oflag=direct, or a device that does not rotate); simulate()."
        )


def _check_slices(machine: Machine, k: Knobs, steps: list[Step]) -> None:
    """Where the recursion holds: slices that outlast a cycle, and a log write in one piece."""
    half = machine.scheduler.nanoseconds("slice_sync", 100) / 2
    longest = max(np.max(step.device) for step in steps if step.visible)
    for name, value in (("scheduler.slice_idle", k.slice_idle), ("scheduler.group_idle", k.group_idle),
                        ("device.completion_us (of all requests of a write)", longest)):  # fmt: skip
        if np.any(value > half):
            raise ScenarioError(
                f"{name}: {np.max(value) / MS:g} ms is beyond the closed form; give at most half of slice_sync "
                f"({half / MS:g} ms), or simulate()."
            )
    if np.any(np.asarray(k.max_bytes) < FIRST_LOG * PAGE):
        raise ScenarioError(
            f"device.max_sectors_kb: {int(np.min(k.max_bytes)) // 1024} KiB split the log's writes, which is beyond "
            f"the closed form of CFQ; give at least {FIRST_LOG * PAGE // 1024} KiB, or simulate()."
        )


class Visible(NamedTuple):
    """Commands that CFQ sees: time since the last one (or the start of the cycle) was back, whose, how long they take,
    and how many samples they make."""

    gap: Values
    task: str
    device: Values
    samples: Samples


def _visible(steps: list[Step]) -> tuple[list[Visible], Values]:
    """The commands of a cycle that CFQ sees, and the time after the last; what bypasses CFQ is only time to it."""
    found: list[Visible] = []
    gap: Values = 0.0
    for step in steps:
        gap = gap + step.host
        if step.visible and np.any(step.requests):
            found.append(Visible(gap, step.task, step.device, Samples.of(step.requests)))
            gap = 0.0
        else:
            gap = gap + step.device
    return found, gap


def _mean_waits(switches: Switches, commands: list[Visible], rest: Values, count: Values) -> Waits:
    """Mean of the waits over `count` operations: those of the first cycles one by one, the rest at the later cycles'
    mean, weighted by sin² so that a pattern of about ten cycles that does not fit the window does not show."""
    limit = int(min(np.max(count), 4 if switches.transient_only else MOST_CYCLES))
    seen = np.empty((limit, 3, *np.broadcast_shapes(np.shape(count), switches.shape)))
    now: Values = switches.start
    n = same = 0
    while n < limit and same < SETTLED:
        now, row = switches.cycle(now, commands, rest)
        for column in range(3):
            seen[n, column] = row[column]
        same = same + 1 if n and np.abs(seen[n] - seen[n - 1]).max() < 1.0 else 0
        n += 1
    seen = seen[:n]
    settled = seen[-1:] if same >= SETTLED or switches.transient_only else seen[n // 4 :]
    weight = np.sin(np.pi * (np.arange(len(settled)) + 0.5) / len(settled)) ** 2
    steady = np.tensordot(weight / weight.sum(), settled, 1)
    if np.all(np.isinf(count)):
        return Waits(*steady)
    cycles = np.arange(n).reshape(n, *(1,) * (seen.ndim - 1))
    first = np.where(cycles < count, seen, 0.0).sum(0)
    return Waits(*((first + steady * np.maximum(count - n, 0)) / count))


# ---------------------------------------------------------------------------------------------------------------------
# who waits for whom under CFQ

Flag = bool | np.ndarray  # a plain bool where all points agree, which keeps a cycle cheap


def _not(flag: Flag) -> Flag:
    return not flag if isinstance(flag, bool) else ~flag


class Samples(NamedTuple):
    """What requests that arrive together do to a think-time record: weight kept, and added for each ns."""

    count: int | None  # None: not the same whole number everywhere
    kept: Values
    added: Values

    @classmethod
    def of(cls, requests: Values) -> Samples:
        """Samples of so many requests (an average may be broken)."""
        kept = KEEP**requests
        most = np.max(requests)
        whole = most == np.min(requests) and most == int(most) and most < SAMPLES_REST
        return cls(int(most) if whole else None, kept, FULL * (1 - kept))


class ThinkTime:
    """A think-time record (1.5), for all points at once: total and samples in fixed point, the last completion."""

    def __init__(self, most: Values) -> None:
        self.most = most  # a sample counts at most twice the idle parameter
        self.last: Values = 0.0
        self.total: Values = 0.0
        self.samples: Values = 0

    def update(self, now: Values, new: Samples, mask: Flag = True) -> None:
        """Fold the time since the last completion in, once a request; where `mask` says so."""
        total = new.kept * self.total + new.added * np.minimum(now - self.last, self.most)
        samples = self.samples
        if new.count is None:
            samples = new.kept * samples + SAMPLES_REST * (1 - new.kept)
        else:
            for _ in range(new.count):
                samples = (7 * samples + FULL) // 8
        if mask is not True:
            total, samples = np.where(mask, total, self.total), np.where(mask, samples, self.samples)
        self.total, self.samples = total, samples

    def completed(self, now: Values, mask: Flag = True) -> None:
        """A sync request of this record is back."""
        self.last = now if mask is True else np.where(mask, now, self.last)

    def big(self, limit: Values) -> Flag:
        """The mean is valid (three samples) and above `limit`."""
        if isinstance(self.samples, int) and self.samples <= SAMPLES_VALID:
            return False
        return np.asarray(self.total > limit * self.samples) & (self.samples > SAMPLES_VALID)


class Trees:
    """The SYNC and the SYNC_NOIDLE tree in which a queue may sit; `in_sync` says in which it does, point by point."""

    def __init__(self, most: Values) -> None:
        self.sync, self.noidle = ThinkTime(most), ThinkTime(most)

    def update(self, now: Values, new: Samples, in_sync: Flag) -> None:
        """Requests enter the queue: the record of its tree learns of them."""
        if isinstance(in_sync, bool):
            (self.sync if in_sync else self.noidle).update(now, new)
        else:
            self.sync.update(now, new, in_sync)
            self.noidle.update(now, new, ~in_sync)

    def completed(self, now: Values, in_sync: Flag) -> None:
        """A request of the queue is back."""
        if isinstance(in_sync, bool):
            (self.sync if in_sync else self.noidle).completed(now)
        else:
            self.sync.completed(now, in_sync)
            self.noidle.completed(now, ~in_sync)

    def big(self, limit: Values, in_sync: Flag) -> Flag:
        """Is the think time of the queue's tree big?"""
        if isinstance(in_sync, bool):
            return (self.sync if in_sync else self.noidle).big(limit)
        return np.where(in_sync, self.sync.big(limit), self.noidle.big(limit))


class Switches:
    """CFQ between dd and the writer of the log: the state of both queues, cycle by cycle, for all points at once.

    The two take turns, so exactly one of them is active, has nothing pending and is perhaps idled for when the other's
    request arrives. What is kept: until when (`until`, -inf when no timer runs), whether CFQ would idle for it by
    slice_idle (`worth`), in which tree each queue sits, dd's idle_window, and the think-time records.
    """

    def __init__(self, machine: Machine, job: Dd, k: Knobs) -> None:
        cfq, fs = machine.scheduler, machine.filesystem
        log_group = fs.jbd2_cgroup if isinstance(fs, Ext4) else fs.worker_cgroup
        ancestors = cfq.group_rule(machine.version >= "4.6")
        self.log_group_may = _group_may_preempt(log_group, job.cgroup, ancestors)
        self.dd_group_may = _group_may_preempt(job.cgroup, log_group, ancestors)
        self.realtime, self.idle_class = job.ioclass == "realtime", job.ioclass == "idle"
        self.same_trees = normalise(job.cgroup) == normalise(log_group) and job.ioclass == "best-effort"
        self.direct = "direct" in job.oflags and not self.idle_class
        self.rotational = bool(machine.device.rotational)
        self.small = (not self.rotational) & (np.asarray(k.bs) < SMALL_NONROTATIONAL * 512)

        self.slice_idle, self.group_idle, self.wakeup = k.slice_idle, k.group_idle, k.wakeup
        self.slices, self.groups = np.asarray(k.slice_idle) > 0, np.asarray(k.group_idle) > 0
        self.armable = self.groups | self.rotational  # 1.11, while NCQ is not known (1.16)
        self.always_armable = bool(np.all(self.armable))
        self.group_length = np.where(self.groups, k.group_idle, NEVER)
        self.shape = np.broadcast_shapes(*(np.shape(v) for v in vars(k).values()))

        twice = 2 * k.slice_idle
        self.log_trees, self.dd_context = Trees(twice), ThinkTime(twice)
        self.dd_trees = self.log_trees if self.same_trees else Trees(twice)
        self.quiet = fs.quiet_before if isinstance(fs, Ext4) else None
        self.new_log = self.quiet is None  # else a commit at the mount has made CFQ know jbd2
        self.start: Values = k.start

        self.first = True
        self.writes: Values = 0  # of dd
        self.window: Flag = not self.idle_class  # dd's idle_window
        self.dd_sync: Flag = self.window
        self.log_sync: Flag = self.new_log
        self.until: Values = NEVER
        self.worth: Flag = False
        self.expired: Flag = False
        self.active = ""

    @property
    def can_wait(self) -> bool:
        """Is there any idling at all?"""
        return bool(np.any((self.slices | self.groups) & self.armable))

    @property
    def transient_only(self) -> bool:
        """Both queues in one noidle tree: after the start each preempts the other at once (1.8 rule 9)."""
        return self.same_trees and not self.direct

    def live_through_mount(self, commands: list[Visible]) -> None:
        """jbd2 has committed once and been quiet when the jobs begin: the records know it (Ext4.quiet_before)."""
        now: Values = 0.0
        self.active, self.log_sync = "log", True
        for gap, task, device, samples in commands:
            if task == "log":
                now = self.serve_again(now + gap, device, samples)
        self.start = self.start + (self.quiet or 0.0) * S + np.maximum(now, self.until)
        self.active, self.log_sync, self.until = "", False, NEVER

    def after_writes(self, count: Values, loop: list[Step], slice_sync: float) -> None:
        """dd has written alone, up to its last operation. Direct writes have taught its record short think times, and
        small ones are found seeky at the fifth, but the queue moves to the noidle tree only with its next slice."""
        host = sum(step.host for step in loop)
        elapsed = (count - 1) * (host + sum(step.device for step in loop))
        self.start = self.start + elapsed
        self.writes = count - 1
        if self.direct:
            self.dd_trees.completed(self.start - host, True)
            self.dd_trees.update(self.start, Samples.of(np.minimum(count - 1, 99)), True)
            self.window = self.slices & ~(self.small & (elapsed > slice_sync) & (count > SEEKY))

    def cycle(self, now: Values, commands: list[Visible], rest: Values) -> tuple[Values, tuple[Values, Values, Values]]:
        """One operation from `now` on: (end, (waits, ns waited for dd, ns waited for the log))."""
        waited: dict[str, Values] = {"dd": 0.0, "log": 0.0}
        waits: Values = 0
        for gap, task, device, samples in commands:
            now = now + gap
            if self.active == task:
                now = self.serve_again(now, device, samples)
                continue
            preempts = self.dd_arrives(now, samples) if task == "dd" else self.log_arrives(now, samples)
            if self.active and preempts is not True:
                wait = np.maximum(self.until - now, 0.0)
                if preempts is not False:
                    wait = np.where(preempts, 0.0, wait)
                held = wait > 0
                waited[self.active] = wait
                waits = waits + held
                now = now + wait + self.wakeup * held
            now = now + device
            self.active = task
            if not self.needless(task):
                self.completed(now, task)
        self.first = False
        return now + rest, (waits, waited["dd"], waited["log"])

    def needless(self, task: str) -> bool:
        """Is nothing to be known of this queue, because the other preempts it at once, always?"""
        if self.direct or self.first or self.realtime or self.idle_class:
            return False
        return self.log_group_may if task == "dd" else self.dd_group_may

    # -----------------------------------------------------------------------------------------------------------------
    # arrivals (1.4 to 1.8)

    def dd_arrives(self, now: Values, samples: Samples) -> Flag:
        """dd's data enters CFQ; may it preempt the log's queue?"""
        self.dd_sync = self.window  # which tree: by the flag as it was before this request (1.4 step 2)
        if not self.needless("dd"):
            self.dd_trees.update(now, samples, self.dd_sync)
        self.writes = self.writes + 1
        self.update_idle_window(now, samples)
        if not self.active or self.idle_class or not self.dd_group_may:
            return False
        if self.realtime:
            if self.direct:
                self.dd_sync = np.where(self.gone(now), self.dd_sync, self.window)
            return True
        if self.window is False and self.log_sync is False:
            return True
        kept = self.slices & _not(self.log_trees.big(self.slice_idle, self.log_sync)) & _not(self.together)
        preempts = _not(self.log_sync | self.window) | ~kept
        if self.direct:
            self.dd_sync = np.where(preempts & ~self.gone(now), self.window, self.dd_sync)
        return preempts

    def update_idle_window(self, now: Values, samples: Samples) -> None:
        """A noidle write (fsync's data) ends it; a direct writer keeps it while it comes back in time (1.7)."""
        if not self.direct:
            self.window = False
            return
        self.dd_context.update(now, samples)
        known = self.dd_context.samples > SAMPLES_VALID
        window = np.where(known, _not(self.dd_context.big(self.slice_idle)), self.window)
        self.window = window & self.slices & ~(self.small & (self.writes > SEEKY))

    def log_arrives(self, now: Values, samples: Samples) -> Flag:
        """The log write enters CFQ; may it preempt dd's queue?"""
        self.log_sync = self.first and self.new_log
        if not self.needless("log"):
            self.log_trees.update(now, samples, self.log_sync)
        if self.idle_class:
            return True
        if self.realtime or not self.log_group_may:
            return False
        if self.dd_sync is False:
            return True
        kept = np.where(self.rotational & self.window, self.slices, self.worth & _not(self.together))
        preempts = _not(self.dd_sync) | ~kept
        if self.log_sync:
            self.log_sync = ~preempts | self.gone(now)
        return preempts

    def gone(self, now: Values) -> Flag:
        """Has the queue that was active expired before this arrival, so that there is nothing to preempt?"""
        return self.expired | ((self.until <= now) & (self.until > NEVER))

    @property
    def together(self) -> Flag:
        """Are both queues in one tree? Then neither is its last (1.10)."""
        return self.same_trees & (self.dd_sync == self.log_sync)

    def serve_again(self, now: Values, device: Values, samples: Samples) -> Values:
        """The log's next request (jbd2's commit block) finds its own queue active and goes at once. It is no larger
        than a page, so the running timer is not cancelled (1.4 step 6); if it fires meanwhile, the queue expires."""
        done = now + device
        if not self.needless("log"):
            self.log_trees.update(now, samples, self.log_sync)
            fires = (self.until > now) & (self.until < done)
            self.completed(done, self.active)
            self.until, self.expired = np.where(fires, NEVER, self.until), fires
            if self.log_sync is not False:  # expired, it belongs to the tree that it would enter now
                self.log_trees.noidle.completed(done, fires)
        return done

    # -----------------------------------------------------------------------------------------------------------------
    # completion and idling (1.10, 1.11)

    def completed(self, now: Values, task: str) -> None:
        """The active queue is empty: is it worth waiting for, by slice_idle, else by group_idle?"""
        trees, in_sync, kept = self.log_trees, self.log_sync, np.False_
        if task == "dd":
            trees, in_sync, kept = self.dd_trees, self.dd_sync, self.rotational & np.asarray(self.window)
            self.dd_context.completed(now)
        trees.completed(now, in_sync)
        self.worth = self.slices & (kept | _not(trees.big(self.slice_idle, in_sync)))
        by_group = np.where(trees.big(self.group_idle, in_sync), NEVER, self.group_length)
        self.expired = False
        self.until = now + np.where(self.worth, self.slice_idle, by_group)
        if not self.always_armable or (task == "dd" and self.idle_class):
            self.until = np.where(self.armable & (task == "log" or not self.idle_class), self.until, NEVER)


def _group_may_preempt(newcomer: str, active: str, ancestors: bool) -> bool:
    """Groups isolate (1.8 rule 6): since 4.6 an ancestor may preempt its descendants, before only the same group."""
    return is_ancestor_or_same(newcomer, active) if ancestors else normalise(newcomer) == normalise(active)


# ---------------------------------------------------------------------------------------------------------------------
# closed loops of several jobs


class Bounds(NamedTuple):
    """Operations a second: at least `lower`, at most `upper`; at `knee` jobs the asymptotes meet."""

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
    return Bounds(*np.broadcast_arrays(np.minimum(lower, upper), upper, m * (d + z) / d))


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
    with np.errstate(divide="ignore", invalid="ignore"):
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
    wanted = (("n_jobs", n, 1, "jobs", whole), ("service_s", service, 1e-12, "s", False),
              ("think_s", think, 0, "s", False), ("servers", servers, 1, "", whole))  # fmt: skip
    for field, value, low, unit, integer in wanted:
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
