"""A point or a grid as numbers: `over`'s arrays, the rest from the machine and the job, in ns and pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import ScenarioError, unknown
from ..filesystems import XFS, Ext4, Raw
from ..scenario import Machine, Scenario
from ..schedulers import BFQ, CFQ
from ..workloads import Dbench, Dd

Values = np.ndarray | float
US, MS, S = 1e3, 1e6, 1e9  # the formulas compute in ns
PAGE = 4096
SCHEDULER = ("slice_idle", "group_idle", "slice_idle_us", "group_idle_us")
DEVICE = ("completion_us", "flush_us", "queue_depth", "servers", "max_sectors_kb")
HOST = ("request_us", "request_mq_us", "wakeup_us", "ext4_us", "xfs_us", "raw_us", "dbench_op_us",
        "speed")  # fmt: skip
JOB = ("bs", "count", "start")
NUMERIC = {f"{part}.{name}" for part, names in
           {"scheduler": SCHEDULER, "device": DEVICE, "host": HOST, "job": JOB}.items() for name in names}  # fmt: skip
Process = Dd | Dbench
Point = tuple[Machine, Process]
Batches = list[tuple[Values, Values]]  # (share of the operations, requests at once)
Numbers = dict[str, np.ndarray]


def canonical(key: str) -> str:
    """`dd.bs` is `job.bs`."""
    return "job." + key[3:] if isinstance(key, str) and key.startswith("dd.") else key


def axis_values(key: str, values: Any) -> np.ndarray:
    """The values of one key as an array; texts, machines' parts and None stay objects."""
    if not isinstance(key, str):
        raise ScenarioError(f"over: {key!r} is not a name; give one such as 'scheduler.slice_idle'.")
    array = np.asarray(values, dtype=None if isinstance(values, np.ndarray) else object)
    if array.size == 0:
        raise ScenarioError(f"over[{key!r}]: it is empty; give at least one value.")
    if array.dtype == object and all(isinstance(v, (int, float, np.number)) for v in array.flat):
        return np.array(array.tolist())
    return array


def points(
    machine: Machine, job: Process, axes: Numbers, shape: tuple[int, ...]
) -> Iterator[tuple[Point, Any, Numbers]]:
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


def _with(machine: Machine, job: Process, key: str, value: Any) -> Point:
    """The point with one field changed; the field's own checks apply."""
    part, _, name = key.partition(".")
    if part != "job":
        return machine.with_(**{key: value}), job
    if name not in job.__dataclass_fields__:
        raise unknown(key, name, job.__dataclass_fields__)
    return machine, replace(job, **{name: value})


def _check_range(machine: Machine, job: Process, key: str, values: np.ndarray) -> None:
    """Fields allow intervals, so the two ends speak for all; whole numbers and multiples are looked at one by one."""
    whole = np.unique(values) if key in ("job.bs", "device.max_sectors_kb") else [np.min(values), np.max(values)]
    for value in whole:
        _with(machine, job, key, value.item())
    if key in ("job.count", "device.queue_depth", "device.servers") and np.any(values != np.floor(values)):
        wrong = values[values != np.floor(values)].flat[0]
        _with(machine, job, key, wrong.item())


class Knobs:
    """The numbers of a point in ns and pieces, each an array or a plain number. Times are whole ns, as the simulator's:
    BFQ's bistable states are that sensitive."""

    def __init__(self, machine: Machine, job: Process, numbers: Numbers) -> None:
        device, host = machine.device, machine.host

        def value(part: str, of: Any, name: str) -> Values:
            given = numbers.get(f"{part}.{name}")
            return getattr(of, name) if given is None else given.astype(float)

        speed = value("host", host, "speed")
        self.wakeup = np.round(value("host", host, "wakeup_us") * US / speed)
        self.request = np.round(value("host", host, "request_us" if machine.legacy else "request_mq_us") * US / speed)
        fs = {Ext4: "ext4_us", XFS: "xfs_us", Raw: "raw_us"}[type(machine.filesystem)]
        self.filesystem = value("host", host, fs) * US / speed
        self.completion = np.round(value("device", device, "completion_us") * US)
        page = np.round(value("host", host, "dirty_us") * US / speed)
        flush = value("device", device, "flush_us")
        self.flush = self.completion if flush is None else np.round(flush * US)
        self.depth = depth = value("device", device, "queue_depth")
        self.servers = np.minimum(value("device", device, "servers"), depth)
        self.max_bytes = 1024 * value("device", device, "max_sectors_kb")
        self.tags = machine.nr_requests or (
            128 if machine.legacy else depth if machine.scheduler_name == "none" else 2 * np.minimum(depth, 128)
        )
        if isinstance(job, Dd):
            self.bs = value("job", job, "bs")
            self.count = value("job", job, "count")
            self.copying = np.floor(page * np.maximum(self.bs - PAGE, 0) / PAGE)  # the first page's is the write's own
        else:
            share = getattr(machine.filesystem, "dbench_share", 1.0)
            self.operation = np.round(value("host", host, "dbench_op_us") / speed * share * US)
        self.start = value("job", job, "start") * S
        self.slice_idle, self.group_idle = _idles(machine, numbers)


def _idles(machine: Machine, numbers: Numbers) -> tuple[Values, Values]:
    """(slice_idle, group_idle) in ns: from the arrays, else what the scheduler's fields and its defaults say."""
    scheduler = machine.scheduler
    if isinstance(scheduler, BFQ):
        defaults = scheduler.idle_ns(), 0
    elif isinstance(scheduler, CFQ):
        defaults = scheduler.idle_defaults(machine.device.rotational)
    else:
        return 0.0, 0.0
    found = []
    for name, default in zip(("slice_idle", "group_idle"), defaults, strict=True):
        ms, us = numbers.get(f"scheduler.{name}"), numbers.get(f"scheduler.{name}_us")
        if ms is not None and us is not None:
            raise ScenarioError(f"over: scheduler.{name} and scheduler.{name}_us are one tunable; give one of the two.")
        found.append(ms * MS if ms is not None else us * US if us is not None else float(default))
    return found[0], found[1]


Flag = bool | np.ndarray  # a plain bool where all points agree, which keeps a cycle cheap
