"""The closed form: what a run would show, from formulas that broadcast over arrays of any knob, without events.

One write is a chain of steps, strictly one after the other (spec block-layer sections 8 and 9), so its time is

    cycle = device (commands and flushes) + host (CPU, wake-ups) + hand-over (kblockd) + idling.

All but the idling are sums. Idling exists under CFQ and BFQ, and only where two processes take turns: at each switch
(dd to jbd2, jbd2 to dd) the arriving request waits for the rest of an idle window if it may not preempt. Whether it
may follows under CFQ from the cgroup tree (1.8 rule 6), how long the window is from slice_idle and group_idle (1.11),
and whether one is opened at all from the think-time records (1.5): `Switches` iterates the recursion of those records
over the cycles, for all points of a grid at once. BFQ remembers much more (think times, I/O-boundness, budgets, virtual
times, wakers, an injection limit that it learns anew each second, weight raising that lasts seconds), so `bfq_turns`
takes its two queues turn by turn, compiled. There is no event queue, no request and no device behind either.

For closed loops with several jobs `bounds` gives the asymptotes and `mva` the exact mean values of one station;
`network` those of several stations of limited depth, `classes` those of unlike processes, `shared` what weights divide.
For buffered readers beside buffered writers on a disk there is `saturated_mix`, and for a stream that several tasks
serve `cooperating` gives its rate under old CFQ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..devices import ConstantTime
from ..errors import ScenarioError
from ..scenario import Machine, Scenario
from ..schedulers import BFQ, CFQ
from ..workloads import Dbench, Dd
from .bfq import bfq_waits
from .bfq_state import FATES, REASONS
from .chain import Chain
from .cooperating import Cooperation, cooperating
from .knobs import MS, PAGE, Knobs, Numbers, Process, S, Values, axis_values, canonical, points
from .load import load_form
from .mix import MixBounds, SaturatedMix, mix_bounds, saturated_mix
from .networks import Classes, Network, classes, network, positioning_s, shared
from .stations import Bounds, ClosedLoop, bounds, mva
from .switches import Waits, cfq_waits

if TYPE_CHECKING:
    import pandas as pd


FIELDS = 8  # arrays of a ClosedForm
CHUNK = 32_768  # points that CFQ's recursion takes together


@dataclass(frozen=True, repr=False, eq=False)
class ClosedForm:
    """The answer of `closed_form`: arrays of the shape to which the values of `over` broadcast (() without it).

    Names as in `Result` where they mean the same. Seconds an operation: `time_per_op`, and its parts `service_s` (the
    device has a command), `cpu_s` (host: CPU and wake-ups), `hand_over_s` (requests wait for kblockd), `idle_for_dd_s`
    and `idle_for_log_s` (CFQ or BFQ keeps the device for dd, or for the log's writer, while the other's request waits).
    `idles_per_op` counts the waits, `why_idle` and `arrivals` tell BFQ's reasons. `bytes_per_s` is what dd prints. Of
    dbench an operation is a flush with all that comes before it, and "dd" is its client.
    """

    time_per_op: np.ndarray
    bytes_per_s: np.ndarray
    idles_per_op: np.ndarray
    service_s: np.ndarray
    cpu_s: np.ndarray
    hand_over_s: np.ndarray
    idle_for_dd_s: np.ndarray
    idle_for_log_s: np.ndarray
    _chances: np.ndarray | None = None
    _who: str = "dd"

    @property
    def why_idle(self) -> dict[tuple[str, str], np.ndarray]:
        """How often an operation is held back by an idle window, as (for whom, why BFQ opened it): waits an operation.

        Their sum is `idles_per_op`, the probability of idling where an operation can be held once. Empty but for BFQ.

        >>> import iosched as io
        >>> vm = io.Machine(kernel="5.1", scheduler=io.BFQ(low_latency=False), device=io.devices.null(rotational=False))
        >>> form = io.closed_form(vm, io.workloads.dd(cgroup="user.slice", count=1000))
        >>> {key: float(p.round(2)) for key, p in form.why_idle.items()}
        {('dd', 'a cgroup with requests'): 1.0}
        """
        return self._named(REASONS, 0)

    @property
    def arrivals(self) -> dict[tuple[str, str], np.ndarray]:
        """What becomes of requests, as (in whose window they come, what): requests an operation. "no window" are those
        for which the device is free, or kept for themselves. Empty but for BFQ."""
        return self._named(FATES, len(REASONS))

    def _named(self, names: Sequence[str], first: int) -> dict[tuple[str, str], np.ndarray]:
        """The chances that are not zero everywhere, by name."""
        if self._chances is None:
            return {}
        rows = {
            (whose, name): self._chances[k, first + column]
            for k, whose in enumerate((self._who, "log"))
            for column, name in enumerate(names)
        }
        return {key: row for key, row in rows.items() if np.any(row > 0)}

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
            f"idling for {self._who}": self.idle_for_dd_s,
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
        lines = [f"{t * 1e6:10.1f} us  {what}" for what, t in self.parts.items() if t > 0]
        lines += [f"{p:10.3f} waits for {whose}: {why}" for (whose, why), p in self.why_idle.items()]
        return "\n".join([head, *lines])


def closed_form(
    machine: Machine,
    jobs: Process | Sequence[Process],
    over: Mapping[str, Any] | None = None,
    *,
    exact_start: bool = True,
) -> ClosedForm:
    """Answer for one dd, or one client of dbench, what `simulate` would show, for one point or a whole grid.

    `over` maps dotted names, as `Machine.with_` takes them, or `job.FIELD` (also `dd.FIELD`), to arrays that broadcast
    against each other; units are those of the field. Numbers of the scheduler's idling, the device, the host and the
    job are computed as arrays; anything else (cgroups, schedulers, kernels, flags) is computed once a distinct value.

    It holds for one process on an otherwise idle machine, on a device whose every command takes the same time. Under
    CFQ with a journal also: slice_idle, group_idle and all commands of a write stay below half of slice_sync (100 ms),
    so that slices outlast a cycle; log writes fit into one request; a direct write, and any on a device that does not
    rotate, makes few requests at once. Under BFQ, of every version and with any `WakerRules`: a write, and a log write,
    is one request; the class is best-effort; since 5.13 dd is not in jbd2's cgroup with jbd2's priority (their queues
    would merge). Of dbench, not under CFQ: a flush is one request, and none is without dirty pages. Beyond these it
    raises and does not guess.

    Against the simulator the time of an operation differs under CFQ by 1.1 % at most, over 19,000 random machines, and
    is the same to 0.01 % in 95 % of them; under BFQ by 0.7 % at most, over 12,000, and is the same in 99 %. BFQ's
    operations are walked one by one in any grid, as BFQ may change its state after thousands of them: 0.3 us each, so
    10,000 points of 1,000 writes take two seconds on two cores, and of 10,000 writes fifteen. dbench's flushes are
    walked in the same way under every scheduler (whether a flush commits depends on the timer tick), those of the
    warm-up too, which do not count; it differs by 0.5 % at most on 162 real kernels' rows, and is the same in 94 %.

    The first operations of a run, which idle differently (a new queue starts in the SYNC tree, 1.19), are part of the
    answer for `job.count` operations of dd; `exact_start=False` leaves them out and gives the long-run mean (under BFQ
    that of operations 5,000 to 20,000).

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
            f"jobs: {len(scenario.jobs)} are beyond the closed form, which answers for one; simulate() them, "
            "give bounds() and mva() the service_s and cpu_s of one, or ask saturated_mix() of readers beside writers."
        )
    axes = {canonical(key): axis_values(key, values) for key, values in (over or {}).items()}
    try:
        shape = np.broadcast_shapes(*(a.shape for a in axes.values()))
    except ValueError:
        shapes = ", ".join(f"{key} {a.shape}" for key, a in axes.items())
        raise ScenarioError(f"over: the shapes do not broadcast: {shapes}; add axes with [:, None].") from None
    fields = np.empty((FIELDS, *shape))
    chances = np.zeros((2, len(REASONS) + len(FATES), *shape))
    for point, where, numbers in points(machine, scenario.jobs[0], axes, shape):
        _check_scope(*point)
        answer, of_bfq = _in_chunks(*point, numbers, exact_start)
        fields[(slice(None), *where)] = answer if answer.ndim > 1 or not shape else answer[:, None]
        if of_bfq is not None:
            chances[(slice(None), slice(None), *where)] = of_bfq if of_bfq.ndim > 2 or not shape else of_bfq[..., None]
    return ClosedForm(*fields, chances, type(scenario.jobs[0]).__name__.lower())


def _check_scope(machine: Machine, job: Process) -> None:
    """The formulas know dd and dbench, and commands that all take the same time."""
    if not isinstance(job, Dd | Dbench):
        raise ScenarioError(
            f"jobs: {job.name!r} is neither a dd nor a dbench, which alone the closed form answers for; simulate() it."
        )
    if isinstance(job, Dd) and job.cached:
        if not job.convs or job.convs == ("notrunc",):
            raise ScenarioError(
                f"dd.oflag: {job.oflag!r} leaves the data to the flusher, beyond the closed form, which answers for "
                "writes that are made durable; simulate() it, or give conv=fsync."
            )
        background = machine.memory.limits_pages[0] * PAGE
        if job.bs * job.count > background:
            raise ScenarioError(
                f"dd.count: {job.count} writes dirty more than the {background} bytes from which the flusher writes, "
                "beyond the closed form; simulate() it, or give less."
            )
    if type(machine.device) is not ConstantTime:
        raise ScenarioError("device: its commands do not all take the same time; simulate() it.")


def _in_chunks(
    machine: Machine, job: Process, numbers: Numbers, exact_start: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """`_answer`, of CFQ's points some thousands at a time: a piece's cycles stay in the processor's cache, and a piece
    whose points have all settled is done, whatever the others still need."""
    shape = np.broadcast_shapes(*(a.shape for a in numbers.values()))
    size = int(np.prod(shape))
    if size <= CHUNK or not isinstance(machine.scheduler, CFQ):
        return _answer(machine, job, numbers, exact_start)
    flat = {key: np.broadcast_to(a, shape).ravel() for key, a in numbers.items()}
    pieces = [
        _answer(machine, job, {key: a[i : i + CHUNK] for key, a in flat.items()}, exact_start)[0]
        for i in range(0, size, CHUNK)
    ]
    return np.concatenate(pieces, axis=1).reshape(FIELDS, *shape), None


def _answer(
    machine: Machine, job: Process, numbers: Numbers, exact_start: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """The fields of `ClosedForm` in its order, for the numbers of one machine and job, and BFQ's chances."""
    k = Knobs(machine, job, numbers)
    if isinstance(job, Dbench):
        return _broadcast(*load_form(machine, job, k, Chain(machine, job, k, np.inf)), numbers)
    count = k.count if exact_start else np.inf
    chain = Chain(machine, job, k, count)
    tail_weight = 1 / k.count
    steps = [(1 / count, step) for step in chain.begin] + [(1.0, step) for step in chain.loop]
    steps += [(tail_weight, step) for step in chain.tail]
    service = sum(w * step.device for w, step in steps)
    cpu = sum(w * step.host for w, step in steps)
    hand_over = sum(w * step.runs for w, step in steps) * k.wakeup
    waits = Waits(0.0, 0.0, 0.0)
    if isinstance(machine.scheduler, CFQ):
        waits = cfq_waits(machine, job, k, chain, count)
        hand_over = hand_over + waits.idles * k.wakeup
    elif isinstance(machine.scheduler, BFQ):
        waits = bfq_waits(machine, job, k, chain, count)
    idles, for_dd, for_log, chances = waits
    total = service + cpu + hand_over + for_dd + for_log
    fields = [total / S, k.bs / (total / S), idles, service / S, cpu / S, hand_over / S, for_dd / S, for_log / S]
    return _broadcast(fields, chances, numbers)


def _broadcast(
    fields: list[Values], chances: np.ndarray | None, numbers: Numbers
) -> tuple[np.ndarray, np.ndarray | None]:
    """Fields and chances in the shape of the numbers."""
    shape = np.broadcast_shapes(*(np.shape(v) for v in (*fields, *numbers.values())))
    if chances is not None:
        chances = np.broadcast_to(chances, (*chances.shape[:2], *shape))
    return np.stack([np.broadcast_to(f, shape) for f in fields]), chances


__all__ = [
    "Bounds",
    "ClosedForm",
    "ClosedLoop",
    "Cooperation",
    "MixBounds",
    "SaturatedMix",
    "bounds",
    "closed_form",
    "cooperating",
    "mix_bounds",
    "mva",
    "saturated_mix",
    "Classes",
    "Network",
    "classes",
    "network",
    "positioning_s",
    "shared",
]
