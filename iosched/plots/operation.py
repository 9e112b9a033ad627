"""One operation looked at closely: who held the device when, who waited, and for whom it was kept idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patches import Patch

from ..engine import codes as c
from ..errors import ScenarioError
from ..workloads import Dbench
from .base import GREY, INK, ORANGE, PALE, RED, SKY, TASK_COLOURS, YELLOW, Picture, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..result import Result


@dataclass
class Lanes:
    """One or several operations as intervals on lanes, in ns of simulated time.

    `waiting` and `serving` are (task, from, to, what) of requests that wait in the scheduler and that the device has;
    `idles` are (task waited for, reason, from, to, how it ended; -1 while open); `tasks` are the tasks in them.
    `injected` are those of `serving` that the scheduler sent while it kept the device for another task.
    """

    start: int
    end: int
    tasks: list[int] = field(default_factory=list)
    waiting: list[tuple[int, int, int, str]] = field(default_factory=list)
    serving: list[tuple[int, int, int, str]] = field(default_factory=list)
    idles: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    @property
    def injected(self) -> list[tuple[int, int, int, str]]:
        return [
            s
            for s in self.serving
            if s[3] != "flush" and any(task != s[0] and a <= s[1] < b for task, _, a, b, _ in self.idles)
        ]


def lanes(result: Result, operation: int | None = None, operations: int = 1) -> Lanes:
    """The intervals of some operations of the first job; `operation` counts from 0, None is in the middle of the run.

    Raises ScenarioError without a trace, or for an operation that did not happen.
    """
    trace = result._need_trace()
    at, kind, task = trace["at"], trace["kind"], trace["task"]
    starts = at[(kind == c.TR_OP_START) & (task == 0)]
    ends = at[(kind == c.TR_OP_END) & (task == 0)]
    n = len(ends)
    if n == 0:
        raise ScenarioError("timeline: no operation of the first job ended, so there is nothing to draw.")
    first = max((n - operations) // 2, 0) if operation is None else operation
    if not 0 <= first < n or operations < 1 or first + operations > n:
        raise ScenarioError(
            f"timeline: operation {first} to {first + operations - 1} did not happen; the run had 0 to {n - 1}."
        )
    out = Lanes(int(starts[first]), int(ends[first + operations - 1]))
    begin, stop = np.searchsorted(at, out.start), np.searchsorted(at, out.end, side="right")
    before = _requests_of(trace[max(begin - 4000, 0) : stop])
    for owner, inserted, issued, done, what in before:
        if inserted < issued and issued > out.start and inserted < out.end:
            out.waiting.append((owner, max(inserted, out.start), min(issued, out.end), what))
        if done > out.start and issued < out.end:
            out.serving.append((owner, max(issued, out.start), min(done, out.end), what))
    out.idles = [
        (w, r, max(a, out.start), min(b, out.end), how)
        for w, r, a, b, how in _idle_windows(trace[max(begin - 4000, 0) :][: stop - begin + 8000])
        if b > out.start and a < out.end
    ]
    out.tasks = sorted({i[0] for i in out.waiting + out.serving} | {i[0] for i in out.idles} | {0})
    return out


def typical_operation(result: Result, seconds: float = 4.0) -> int:
    """An operation of the first job whose length is, to 2 %, the median of those that ended in the run's last seconds;
    of all these the one in which the device was kept idle for the longest.

    Raises ScenarioError without a trace, or if no operation ended in that time.

    >>> import iosched as io
    >>> typical_operation(io.simulate(io.Machine(), io.workloads.dd(count=9), trace=True)) in range(9)
    True
    """
    trace = result._need_trace()
    own = trace[trace["task"] == 0]
    ends = own["at"][own["kind"] == c.TR_OP_END]
    first = int(np.searchsorted(ends, trace["at"][-1] - round(seconds * c.SEC))) if len(trace) else 0
    if first >= len(ends):
        raise ScenarioError(f"typical_operation: no operation of the first job ended in the last {seconds:g} s.")
    starts, ends = own["at"][own["kind"] == c.TR_OP_START][first : len(ends)], ends[first:]
    length = ends - starts
    windows = trace[(trace["kind"] == c.TR_IDLE_END) & (trace["at"] >= starts[0])]
    at = np.searchsorted(starts, windows["at"], side="right") - 1
    kept = np.zeros(len(ends))
    np.add.at(kept, at, np.minimum(windows["at"], ends[at]) - np.maximum(windows["place"], starts[at]))
    kept[np.abs(length - np.median(length)) > 0.02 * np.median(length)] = -1
    return first + int(np.argmax(kept))


def operation_name(result: Result) -> str:
    """What the first job waits for, in a word: dd's write, dbench's fsync."""
    return "fsync" if isinstance(result.scenario.jobs[0], Dbench) else "write"


def _requests_of(trace: np.ndarray) -> list[tuple[int, int, int, int, str]]:
    """(task, inserted, issued, completed, what) of every request in a piece of a trace; open ones end with it."""
    inserted: dict[int, tuple[int, int]] = {}
    issued: dict[int, tuple[int, int, str]] = {}
    out = []
    rows = trace[np.isin(trace["kind"], (c.TR_INSERT, c.TR_ISSUE, c.TR_COMPLETE))]
    columns = [rows[name].tolist() for name in ("kind", "at", "task", "request", "length", "cmd_flags")]
    for kind, at, task, request, length, flags in zip(*columns):
        if kind == c.TR_INSERT:
            inserted[request] = task, at
        elif kind == c.TR_ISSUE:
            issued[request] = task, at, _what(length, flags)
        elif request in issued:
            _, begin, what = issued.pop(request)
            out.append((task, inserted.pop(request, (task, begin))[1], begin, at, what))
    last = int(trace["at"][-1]) if len(trace) else 0
    for request, (task, begin, what) in issued.items():
        out.append((task, inserted.pop(request, (task, begin))[1], begin, last, what))
    return out + [(task, at, last, last, "") for task, at in inserted.values()]


def _what(sectors: int, flags: int) -> str:
    """A request in words: its size, and FUA; or a flush."""
    op = flags >> 16
    if op == c.FLUSH:
        return "flush"
    words = f"{sectors / 2:g} KiB"
    return f"{words} FUA" if flags & c.F_FUA else words


def _idle_windows(trace: np.ndarray) -> list[tuple[int, int, int, int, int]]:
    """(task waited for, reason, from, to, how it ended) of the idle windows in a piece of a trace; -1: still open."""
    rows = trace[(trace["kind"] == c.TR_IDLE_BEGIN) | (trace["kind"] == c.TR_IDLE_END)]
    out, opened = [], None
    for kind, at, task, place, length, how in zip(
        *[rows[name].tolist() for name in ("kind", "at", "task", "place", "length", "cmd_flags")]
    ):
        if kind == c.TR_IDLE_BEGIN:
            opened = (task, length, at, place)
        else:
            out.append((task, length, place, at, how))
            opened = None
    if opened is not None:
        out.append((opened[0], opened[1], opened[2], opened[3], -1))
    return out


@styled
def timeline(result: Result, operation: int | None = None, operations: int = 1) -> Picture:
    """One operation of the first job (or several): who held the device when, and every idle window.

    A lane a task: pale while its request waits in the scheduler, full while the device has it. The lane "device" shows
    whose command it works on, "kept idle for" whom the scheduler waits for, hatched; a window that ran to its end while
    a request waited is marked. Flushes are hatched in the device's lane. `operation` counts from 0; None takes one from
    the middle of the run.

    Raises ScenarioError if the run has no trace or no such operation.

    >>> import iosched as io
    >>> r = io.simulate(io.Machine(scheduler="noop"), io.workloads.dd(count=9), trace=True)
    >>> timeline(r).axes[0].get_xlabel()
    'time since the write began (ms)'
    """
    found = lanes(result, operation, operations)
    names = [result.task_name(t) for t in found.tasks]
    figure = Picture(figsize=(14, 2.8 + 0.75 * (len(names) + 2)), layout="constrained")
    close_up = _close_up(found)
    if close_up is None:
        axes = [figure.add_subplot()]
    else:
        axes = list(figure.subplots(1, 2, sharey=True, width_ratios=[1.5, 1]))
    draw_lanes(axes[0], found, names)
    one = operation_name(result)
    several = f"one {one}" if operations == 1 else f"{operations} {one}s"
    figure.suptitle(f"{result.scenario.machine.scheduler_name}: {several} {_took(found)}", fontsize=17)
    axes[0].set_xlabel(f"time since the {one} began (ms)")
    if close_up is not None:
        draw_lanes(axes[1], found, names, close_up, 0.018)
        axes[1].set_xlabel(f"close-up of the last {(close_up[1] - close_up[0]) * 1e-6:.2g} ms")
        axes[1].tick_params(left=False)
        a, b = ((v - found.start) * 1e-6 for v in close_up)
        axes[0].axvspan(a, b, color=PALE, alpha=0.6, lw=0, zorder=0)
    figure.legend(handles=_lane_legend([found]), loc="outside lower center", ncols=3, frameon=False)
    return figure


@styled
def timelines(results: Mapping[str, Result], operation: int | None = None) -> Picture:
    """One operation of each result, drawn as `timeline` does on one time axis, one below the other.

    `operation` as in `timeline`, but None takes each run's `typical_operation`.

    Raises ScenarioError if there is no result, or as `timeline` does.

    >>> import iosched as io
    >>> job = io.workloads.dd(count=9, cgroup="user.slice")
    >>> both = {name: io.simulate(io.Machine(scheduler=name), job, trace=True) for name in ("noop", "cfq")}
    >>> [ax.get_title("left")[:5] for ax in timelines(both).axes]
    ['noop:', 'cfq: ']
    """
    if not results:
        raise ScenarioError("timelines: no result was given; give a mapping such as {'cfq': result}.")
    every = [lanes(r, typical_operation(r) if operation is None else operation) for r in results.values()]
    rows = [len(found.tasks) + 2 for found in every]
    figure = Picture(figsize=(14, 1.6 + sum(0.52 * n + 0.55 for n in rows)), layout="constrained")
    axes = figure.subplots(len(every), 1, sharex=True, squeeze=False, height_ratios=rows)[:, 0]
    longest = max(found.end - found.start for found in every)
    for ax, found, (name, result) in zip(axes, every, results.items(), strict=True):
        draw_lanes(ax, found, [result.task_name(t) for t in found.tasks], (found.start, found.start + longest))
        ax.set_title(f"{name}: {_took(found)}")
    one = operation_name(next(iter(results.values())))
    axes[-1].set_xlabel(f"time since the {one} began (ms)")
    figure.legend(handles=_lane_legend(every), loc="outside lower center", ncols=3, frameon=False)
    return figure


def _took(found: Lanes) -> str:
    """How long it took, and how much of that was waited in vain."""
    kept = sum(i[3] - i[2] for i in found.idles if i[4] == c.END_FIRED) * 1e-6
    waited = f", {kept:.3g} ms of it kept idle until the timer fired" if kept > 0.01 else ""
    return f"took {(found.end - found.start) * 1e-6:.3g} ms{waited}"


STEPS = {(True, True): "data", (False, True): "commit", (False, False): "log"}  # (of the job, last of its task)


@styled
def cooperation(result: Result, operation: int | None = None) -> Picture:
    """Who wakes whom in one operation: a lane a task, an arrow from each completion to the other's next request.

    `operation` as in `typical_operation`. Best of a run without idling.

    Raises ScenarioError as `timeline` does.

    >>> import iosched as io
    >>> r = io.simulate(io.Machine(scheduler="noop"), io.workloads.dd(count=9), trace=True)
    >>> [text.get_text() for text in cooperation(r).axes[0].texts][:2]
    ['data', 'log']
    """
    found = lanes(result, typical_operation(result) if operation is None else operation)
    names = [result.task_name(t) for t in found.tasks]
    served = sorted(found.serving, key=lambda s: s[1])
    figure = Picture(figsize=(14, 2.6 + 1.1 * len(names)), layout="constrained")
    ax = figure.add_subplot()
    y = {task: len(names) - 1 - k for k, task in enumerate(found.tasks)}
    at = lambda ns: (ns - found.start) * 1e-6  # noqa: E731

    def arrow(before: tuple, task: int, when: int, words: str) -> None:
        """From a completion to what it let go on, with who is woken beside it."""
        style = {"arrowstyle": "-|>", "color": RED, "lw": 2.5, "mutation_scale": 22, "shrinkA": 0, "shrinkB": 0}
        half = 0.3 if y[task] < y[before[0]] else -0.3
        ends = (at(before[2]), y[before[0]] - half), (at(when), y[task] + half)
        ax.annotate("", ends[1], ends[0], arrowprops=style)
        middle = (y[before[0]] + y[task]) / 2
        ax.text(ends[1][0] + 0.01 * at(found.end), middle, words, color=RED, fontsize=15, va="center")

    for k, (task, a, b, _) in enumerate(served):
        last = all(later[0] != task for later in served[k + 1 :])
        ax.broken_barh([(at(a), at(b) - at(a))], (y[task] - 0.3, 0.6), color=task_colour(task))
        ax.text((at(a) + at(b)) / 2, y[task], STEPS[task == 0, last or task == 0], color="white", ha="center",
                va="center", fontsize=15)  # fmt: skip
    for before, after in zip(served, served[1:]):
        if before[0] != after[0]:
            arrow(before, after[0], after[1], f"wakes {result.task_name(after[0])}")
    if served and served[-1][0] != 0:
        arrow(served[-1], 0, found.end, f"wakes {names[0]}:\nits {operation_name(result)} is done")
    ax.set_yticks([y[t] for t in found.tasks], names)
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.set_xlim(-0.01 * at(found.end), 1.2 * at(found.end))
    ax.set_xlabel(f"time since the {operation_name(result)} began (ms)")
    ax.set_title("Each waits for the other's request to complete")
    ax.grid(axis="x", color=PALE, lw=0.8)
    ax.set_axisbelow(True)
    return figure


def _close_up(found: Lanes) -> tuple[int, int] | None:
    """The part after the last long idle window, where everything is too small to be seen; None if nothing is."""
    total = found.end - found.start
    ends = [b for _, _, a, b, _ in found.idles if b - a > 0.25 * total and b < found.end]
    if not ends or found.end - max(ends) > 0.3 * total:
        return None
    return max(ends) - (found.end - max(ends)) // 12, found.end


def draw_lanes(ax: Axes, found: Lanes, names: Sequence[str], window: tuple[int, int] | None = None,
               letter: float = 0.012) -> None:  # fmt: skip
    """Draw `lanes` on an axes, or a window (ns) of them: tasks from above, the device, whom it is kept idle for.

    `letter` is the width of one, as a share of the axes."""
    n = len(found.tasks)
    row = {task: n + 1 - k for k, task in enumerate(found.tasks)}
    low, high = window or (found.start, found.end)
    width = (high - low) * 1e-6

    def fits(words: str, a: int, b: int) -> bool:
        return bool(words) and (min(b, high) - max(a, low)) * 1e-6 > letter * width * len(words)

    def bar(y: float, a: int, b: int, words: str = "", **style: Any) -> None:
        a, b = max(a, low), min(b, high)
        if b <= a:
            return
        ax.broken_barh([((a - found.start) * 1e-6, (b - a) * 1e-6)], (y - 0.35, 0.7), **style)
        if fits(words, a, b):
            plain = style.get("hatch") is None
            box = None if plain else {"facecolor": "white", "edgecolor": "none", "pad": 2}
            dark = not plain or style["facecolor"] in (SKY, YELLOW)
            colour = INK if dark else "white"
            at = ((a + b) / 2 - found.start) * 1e-6
            ax.text(at, y, words, ha="center", va="center", fontsize=13, color=colour, bbox=box)

    for task, a, b, _ in found.waiting:
        bar(row[task], a, b, facecolor=task_colour(task), alpha=0.28, lw=0)
    for task, a, b, what in found.serving:
        for y in (row[task], 1):
            if what == "flush":
                bar(y, a, b, what, facecolor=ORANGE, edgecolor="white", lw=0.6, hatch="xx")
            else:
                bar(y, a, b, what, facecolor=task_colour(task), edgecolor="white", lw=0.6)
    for _, a, b, _ in found.injected:
        bar(1, a, b, facecolor="none", edgecolor=INK, lw=3.5)
    for task, _reason, a, b, how in found.idles:
        paid = how == c.END_FIRED
        name = names[found.tasks.index(task)]
        words = f"{(b - a) * 1e-6:.3g} ms for {name}: {_ended(how)}"
        words = words if fits(words, a, b) else name
        bar(0, a, b, words, facecolor="white", edgecolor=RED if paid else GREY, hatch="//", lw=1.5 if paid else 0.8)
    ax.set_yticks(range(n + 2), ["kept idle for", "device", *reversed(names)])
    ax.set_ylim(-0.6, n + 1.6)
    left = (low - found.start) * 1e-6
    ax.set_xlim(left - 0.01 * width, left + 1.01 * width)
    ax.grid(axis="x", color=PALE, lw=0.8)
    ax.set_axisbelow(True)


def task_colour(task: int) -> str:
    """The colour of a task in every picture."""
    return TASK_COLOURS[task % len(TASK_COLOURS)]


def _ended(how: int) -> str:
    return c.IDLE_ENDS[how] if how >= 0 else "still open"


def _lane_legend(every: Sequence[Lanes]) -> list[Patch]:
    """Only what the picture shows."""
    colour = task_colour(every[0].tasks[0])
    idles = [i for found in every for i in found.idles]
    out = [Patch(color=colour, label="the device works on its request")]
    if any(found.waiting for found in every):
        out.append(Patch(color=colour, alpha=0.28, label="its request waits in the scheduler"))
    if any(s[3] == "flush" for found in every for s in found.serving):
        out.append(Patch(facecolor=ORANGE, hatch="xx", edgecolor="white", label="cache flush"))
    if any(found.injected for found in every):
        out.append(Patch(facecolor="white", edgecolor=INK, lw=3, label="sent while kept for another (injected)"))
    for reason in sorted({i[1] for i in idles}):
        words = reason_words(c.IDLE_REASONS[reason])
        out.append(Patch(facecolor="white", edgecolor=GREY, hatch="//", label=f"kept idle: {words}"))
    if any(i[4] == c.END_FIRED for i in idles):
        out.append(Patch(facecolor="white", edgecolor=RED, hatch="//", label="kept idle until the timer fired"))
    return out


def reason_words(text: str) -> str:
    """A reason for idling without brackets in brackets.

    >>> reason_words("idling for jbd2 (slice_idle (last queue of its service tree))")
    'idling for jbd2: slice_idle, last queue of its service tree'
    """
    before, bracket, inside = text.partition(" (")
    if not bracket or not before.startswith(("idling", "slice_idle")):
        return text
    if before.startswith("idling"):
        return f"{before}: {reason_words(inside[:-1])}"
    return f"{before}, {inside[:-1]}"
