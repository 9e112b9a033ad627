"""Pictures for a lecture room: labelled axes with units, large type, colours that everybody can tell apart, and the
published value beside the modelled one wherever there is one.

Every function returns a `Picture`, a matplotlib Figure outside pyplot: nothing is shown by itself, nothing has to be
closed, and a notebook displays the returned value. `save(picture, "name.svg")` writes it to a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from .engine import codes as c
from .errors import ScenarioError, unknown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from .result import Result

# Okabe and Ito's palette: distinct for every common kind of colour vision, and in grey
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442"
)  # fmt: skip
INK, GREY, PALE = "#222222", "#777777", "#DDDDDD"
TASK_COLOURS = (BLUE, GREEN, PURPLE, SKY, YELLOW, "#882255", "#999933", "#44AA99")

STYLE = {
    "font.size": 14,
    "axes.titlesize": 16,
    "axes.titlelocation": "left",
    "axes.labelsize": 15,
    "legend.fontsize": 13,
    "xtick.labelsize": 13,
    "ytick.labelsize": 13,
    "lines.linewidth": 2.5,
    "lines.markersize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 1.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "iosched",  # the same picture gives the same file
    "figure.facecolor": "white",
}


class Picture(Figure):
    """A Figure that a notebook shows without pyplot, sharp on every screen."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        with rc_context(STYLE):
            out = BytesIO()
            self.savefig(out, format="png", dpi=144)
        width, height = self.get_size_inches()
        return out.getvalue(), {"width": round(width * 80), "height": round(height * 80)}


def save(figure: Figure, path: str | Path) -> Path:
    """Write a picture to a file, its format by the ending of the name; the same picture gives the same file.

    Returns the path.

    >>> from tempfile import mkdtemp
    >>> save(Picture(), Path(mkdtemp()) / "empty.svg").name
    'empty.svg'
    """
    path = Path(path)
    with rc_context(STYLE):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return path


def _styled(function: Callable[..., Picture]) -> Callable[..., Picture]:
    """Draw with the lecture-room style, and leave the user's own settings alone."""

    @wraps(function)
    def styled(*args: Any, **kwargs: Any) -> Picture:
        with rc_context(STYLE):
            return function(*args, **kwargs)

    return styled


# ---------------------------------------------------------------------------------------------------------------------
# what is on an axis

QUANTITIES: dict[str, tuple[str, float]] = {  # column -> (axis label, factor from SI)
    "time_per_op_s": ("time of one write (ms)", 1e3),
    "latency_mean_s": ("mean latency of a write (ms)", 1e3),
    "latency_max_s": ("longest write (ms)", 1e3),
    "elapsed_s": ("elapsed time (s)", 1.0),
    "bytes_per_s": ("throughput (kB/s)", 1e-3),
    "idles_per_op": ("idle windows waited out in a write", 1.0),
    "requests_per_op": ("requests of one write", 1.0),
    "utilisation": ("%util", 100.0),
    "operations": ("writes", 1.0),
}


def quantity(name: str) -> tuple[str, float]:
    """Axis label with unit, and the factor from the column's SI unit; an unknown column is shown as it is.

    >>> quantity("time_per_op_s")
    ('time of one write (ms)', 1000.0)
    """
    return QUANTITIES.get(name, (name, 1.0))


def knob_label(name: str) -> str:
    """A knob's name with its unit, from its own description.

    >>> knob_label("scheduler.slice_idle"), knob_label("device.completion_us")
    ('slice_idle (ms)', 'completion (us)')
    """
    unit = knob_metadata(name).get("unit")
    short = name.rpartition(".")[2]
    return f"{short.removesuffix('_' + unit)} ({unit})" if unit else short


def knob_metadata(name: str) -> Mapping[str, Any]:
    """The description (`knobs.knob`) of a dotted knob: unit, range, slider. Empty for whole parts of a machine.

    >>> knob_metadata("device.completion_us")["unit"]
    'us'
    """
    from .devices import ConstantTime
    from .filesystems import FILESYSTEMS
    from .host import Host
    from .schedulers import SCHEDULERS
    from .workloads import Dd

    part, _, rest = name.partition(".")
    classes: dict[str, Iterable[type]] = {
        "scheduler": [row[0] for row in SCHEDULERS.values()],
        "device": [ConstantTime],
        "filesystem": FILESYSTEMS.values(),
        "host": [Host],
    }
    for cls in classes.get(part, [Dd]):
        found = cls.__dataclass_fields__.get(rest)
        if found is not None:
            return found.metadata
    return {}


def _ticks(axis: Any) -> None:
    """Plain numbers on a logarithmic axis, at 1, 2 and 5, no 10³."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axis.set_minor_formatter(NullFormatter())


def band(published: Any) -> tuple[float, float]:
    """(low, high) of a published value: one number, or a pair.

    >>> band(60_000.0), band((1.5e6, 2e6))
    ((60000.0, 60000.0), (1500000.0, 2000000.0))
    """
    low, high = published if isinstance(published, Sequence) else (published, published)
    return float(low), float(high)


def draw_published(ax: Axes, published: Any, factor: float = 1.0, label: str = "published", horizontal: bool = True,
                   colour: str = RED) -> None:  # fmt: skip
    """The published value: a line through the middle of its band, and the band."""
    low, high = (v * factor for v in band(published))
    line, span = (ax.axhline, ax.axhspan) if horizontal else (ax.axvline, ax.axvspan)
    if high > low:
        span(low, high, color=colour, alpha=0.18, lw=0)
    line((low * high) ** 0.5, color=colour, ls="--", lw=2, label=label)


# ---------------------------------------------------------------------------------------------------------------------
# timeline


@dataclass
class Lanes:
    """One or several operations as intervals on lanes, in ns of simulated time.

    `waiting` and `serving` are (task, from, to, what) of requests that wait in the scheduler and that the device has;
    `idles` are (task waited for, reason, from, to, how it ended; -1 while open); `tasks` are the tasks in them.
    """

    start: int
    end: int
    tasks: list[int] = field(default_factory=list)
    waiting: list[tuple[int, int, int, str]] = field(default_factory=list)
    serving: list[tuple[int, int, int, str]] = field(default_factory=list)
    idles: list[tuple[int, int, int, int, int]] = field(default_factory=list)


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


@_styled
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
    total = (found.end - found.start) * 1e-6
    writes = "one write" if operations == 1 else f"{operations} writes"
    kept = sum(i[3] - i[2] for i in found.idles if i[4] == c.END_FIRED) * 1e-6
    waited = f", {kept:.3g} ms of it kept idle until the timer fired" if kept > 0 else ""
    figure.suptitle(f"{result.scenario.machine.scheduler_name}: {writes} took {total:.3g} ms{waited}", fontsize=17)
    axes[0].set_xlabel("time since the write began (ms)")
    if close_up is not None:
        draw_lanes(axes[1], found, names, close_up)
        axes[1].set_xlabel(f"close-up of the last {(close_up[1] - close_up[0]) * 1e-6:.2g} ms")
        axes[1].tick_params(left=False)
        a, b = ((v - found.start) * 1e-6 for v in close_up)
        axes[0].axvspan(a, b, color=PALE, alpha=0.6, lw=0, zorder=0)
    figure.legend(handles=_lane_legend(found), loc="outside lower center", ncols=3, frameon=False)
    return figure


def _close_up(found: Lanes) -> tuple[int, int] | None:
    """The part after the last long idle window, where everything is too small to be seen; None if nothing is."""
    total = found.end - found.start
    ends = [b for _, _, a, b, _ in found.idles if b - a > 0.25 * total and b < found.end]
    if not ends or found.end - max(ends) > 0.3 * total:
        return None
    return max(ends) - (found.end - max(ends)) // 12, found.end


def draw_lanes(ax: Axes, found: Lanes, names: Sequence[str], window: tuple[int, int] | None = None) -> None:
    """Draw `lanes` on an axes, or a window (ns) of them: tasks from above, the device, whom it is kept idle for."""
    n = len(found.tasks)
    row = {task: n + 1 - k for k, task in enumerate(found.tasks)}
    low, high = window or (found.start, found.end)
    width = (high - low) * 1e-6
    letter = (0.018 if window else 0.012) * width

    def fits(words: str, a: int, b: int) -> bool:
        return bool(words) and (min(b, high) - max(a, low)) * 1e-6 > letter * len(words)

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


def _lane_legend(found: Lanes) -> list[Patch]:
    """Only what the picture shows."""
    out = [Patch(color=task_colour(found.tasks[0]), label="the device works on its request")]
    if found.waiting:
        out.append(Patch(color=task_colour(found.tasks[0]), alpha=0.28, label="its request waits in the scheduler"))
    if any(s[3] == "flush" for s in found.serving):
        out.append(Patch(facecolor=ORANGE, hatch="xx", edgecolor="white", label="cache flush"))
    for reason in sorted({i[1] for i in found.idles}):
        words = reason_words(c.IDLE_REASONS[reason])
        out.append(Patch(facecolor="white", edgecolor=GREY, hatch="//", label=f"kept idle: {words}"))
    if any(i[4] == c.END_FIRED for i in found.idles):
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


# ---------------------------------------------------------------------------------------------------------------------
# where the time went


@_styled
def time_budget(results: Mapping[str, Result], published: Mapping[str, Any] | None = None) -> Picture:
    """Bars of where the time of one operation went, one bar a result.

    `published` maps names of results to the published seconds an operation, or (low, high).

    Raises ScenarioError if there is no result.

    >>> import iosched as io
    >>> job = io.workloads.dd(count=20)
    >>> p = time_budget({name: io.simulate(io.Machine(scheduler=name), job) for name in ("noop", "cfq")})
    >>> p.axes[0].get_xlabel()
    'time of one write (ms)'
    """
    if not results:
        raise ScenarioError("time_budget: no result was given; give a mapping such as {'cfq': result}.")
    published = dict(published or {})
    figure = Picture(figsize=(12, 2.4 + 0.8 * len(results)), layout="constrained")
    ax = figure.add_subplot()
    budgets = {name: r.time_budget.set_index("what").per_op_s * 1e3 for name, r in results.items()}
    parts = list(dict.fromkeys(part for b in budgets.values() for part in b.index))
    parts.sort(key=_budget_order)
    left = np.zeros(len(results))
    names = list(results)
    styles = _budget_styles(parts)
    for part in parts:
        width = np.array([float(budgets[name].get(part, 0.0)) for name in names])
        if width.max() > 0:
            style = {"edgecolor": "white", "lw": 0.8, "height": 0.6, "label": reason_words(part)}
            ax.barh(names, width, left=left, **styles[part], **style)
            left += width
    for y, total in enumerate(left):
        ax.text(total + 0.01 * left.max(), y, f"{total:.3g} ms", va="center", fontsize=13)
    shown = False
    for y, name in enumerate(names):
        if name in published:
            low, high = (v * 1e3 for v in band(published[name]))
            label = None if shown else "published"
            ax.plot([low, high], [y + 0.38] * 2, color=INK, marker="D", ms=8, lw=3, label=label)
            shown = True
    ax.set_xlim(0, 1.12 * left.max())
    ax.invert_yaxis()
    ax.set_xlabel("time of one write (ms)")
    ax.set_title("Where the time of one write goes")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def _budget_order(part: str) -> tuple[int, str]:
    order = {"device busy": 0, "host (CPU, wake-ups)": 1, "hand-over": 2}
    return order.get(part, 3), part


def _budget_styles(parts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Plain colours for work, a hatched one for each queue that is waited for."""
    out: dict[str, dict[str, Any]] = {
        "device busy": {"color": BLUE},
        "host (CPU, wake-ups)": {"color": GREY},
        "hand-over": {"color": SKY},
    }
    hatches = ("//", "\\\\", "..", "xx", "||", "--")
    idle = [part for part in parts if part not in out]
    for k, part in enumerate(idle):
        out[part] = {"color": ORANGE if "for dd" in part else RED, "hatch": hatches[k % len(hatches)]}
    return out


# ---------------------------------------------------------------------------------------------------------------------
# curves and grids


@_styled
def knob_curve(
    df: pd.DataFrame,
    x: str,
    y: str = "bytes_per_s",
    *,
    hue: str | None = None,
    published: Mapping[str, Any] | Any = None,
    ghost: pd.DataFrame | None = None,
    log: bool | None = None,
) -> Picture:
    """A metric of a `sweep` over one knob: dots simulated, line closed form where the table has it.

    `hue` is a second knob, one curve a value. `published` is a value, a (low, high) or a mapping from label to either,
    in the metric's SI unit. `ghost` is an earlier sweep, drawn pale. `log`: None chooses by the range of values.

    >>> import iosched as io
    >>> job = io.workloads.dd(count=20, cgroup="user.slice")
    >>> df = io.sweep(io.Machine(), job, over={"scheduler.slice_idle": [2, 8]})
    >>> knob_curve(df, "scheduler.slice_idle", published={"thread 0": 60e3}).axes[0].get_xlabel()
    'slice_idle (ms)'
    """
    for name in (x, y, *([hue] if hue else [])):
        if name not in df:
            raise unknown("knob_curve", name, df.columns)
    label, factor = quantity(y)
    figure = Picture(figsize=(11, 6), layout="constrained")
    ax = figure.add_subplot()
    if ghost is not None and x in ghost and y in ghost:
        ax.plot(*_broken(x, ghost[x], ghost[y] * factor), color=GREY, alpha=0.45, lw=5, label="before", zorder=1)
    groups = [("simulated", df)] if hue is None else [(f"{knob_label(hue)} = {v}", g) for v, g in df.groupby(hue)]
    palette = [BLUE, ORANGE, GREEN, PURPLE, SKY, GREY]
    for k, (name, g) in enumerate(groups):
        colour = palette[k % len(palette)]
        formula = f"closed_form_{y}"
        if formula in g:
            ax.plot(*_broken(x, g[x], g[formula] * factor), color=colour, label="closed form" if k == 0 else None)
        style = {"ls": "none"} if formula in g else {"ls": "-", "lw": 1.5}
        ax.plot(*_broken(x, g[x], g[y] * factor), marker="o", color=colour, mec="white", label=name, zorder=3, **style)
    values = published if isinstance(published, Mapping) else {} if published is None else {"published": published}
    for k, (name, value) in enumerate(values.items()):
        draw_published(ax, value, factor, name, colour=(RED, PURPLE, INK)[k % 3])
    shown = df[y][df[y] > 0]
    if log or (log is None and len(shown) and shown.max() > 8 * shown.min()):
        ax.set_yscale("log")
        _ticks(ax.yaxis)
    else:
        ax.set_ylim(bottom=0)
    if knob_metadata(x).get("slider", ("", "", ""))[2:] == ("log",) and (df[x] > 0).all():
        ax.set_xscale("log")
        _ticks(ax.xaxis)
    ax.set_xlabel(knob_label(x))
    ax.set_ylabel(label)
    ax.grid(color=PALE, lw=0.8)
    ax.legend(frameon=False)
    return figure


def _broken(x: str, values: Iterable[float], level: Iterable[float]) -> tuple[np.ndarray, np.ndarray]:
    """A curve with a gap after 0 where 0 means "off": an idle of 0 is another regime, not the limit of a short one."""
    a, b = np.asarray(list(values), float), np.asarray(list(level), float)
    if x.rpartition(".")[2].removesuffix("_us") in ("slice_idle", "group_idle") and len(a) and a[0] == 0:
        a, b = np.insert(a, 1, 0.0), np.insert(b, 1, np.nan)
    return a, b


@_styled
def grid_heatmap(
    df: pd.DataFrame,
    x: str = "scheduler.slice_idle",
    y: str = "scheduler.group_idle",
    value: str = "time_per_op_s",
    *,
    published: Mapping[tuple[float, float], Any] | None = None,
) -> Picture:
    """A metric of a `sweep` over two knobs as a map.

    `published` maps points (x, y) to the published value, or (low, high), in the metric's SI unit: each is marked, and
    the two values stand above the map.

    >>> import iosched as io
    >>> over = {"scheduler.slice_idle": [0, 8], "scheduler.group_idle": [0, 8]}
    >>> df = io.sweep(io.Machine(), io.workloads.dd(count=20, cgroup="user.slice"), over=over)
    >>> [ax.get_ylabel() for ax in grid_heatmap(df).axes]
    ['group_idle (ms)', 'time of one write (ms)']
    """
    import seaborn as sns

    for name in (x, y, value):
        if name not in df:
            raise unknown("grid_heatmap", name, df.columns)
    label, factor = quantity(value)
    table = df.pivot(index=y, columns=x, values=value).sort_index(ascending=False) * factor
    figure = Picture(figsize=(11, 8.5), layout="constrained")
    ax = figure.add_subplot()
    few = table.size <= 49
    sns.heatmap(
        table, ax=ax, cmap="cividis", cbar_kws={"label": label}, annot=few, fmt=".3g", linewidths=0.5, square=True
    )
    ax.set_xlabel(knob_label(x))
    ax.set_ylabel(knob_label(y))
    ax.tick_params(rotation=0)
    markers = "*PXD^v"
    for k, ((px, py), values) in enumerate((published or {}).items()):
        if px not in table.columns or py not in table.index:
            raise ScenarioError(f"published: ({px}, {py}) is not a point of the grid.")
        low, high = (v * factor for v in band(values))
        said = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        words = f"({px:g}, {py:g}): published {said}, simulated {table.loc[py, px]:.3g}"
        at = list(table.columns).index(px) + 0.5, list(table.index).index(py) + 0.5
        ax.plot(*at, markers[k % len(markers)], ms=22, color=RED, mec="white", mew=1.5, ls="none", label=words)
    if published:
        ax.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), frameon=False)
    return figure


# ---------------------------------------------------------------------------------------------------------------------
# published against modelled


@_styled
def reproduction(table: pd.DataFrame, title: str = "Published and modelled") -> Picture:
    """Modelled over published, one line a claim, on a ratio axis with ±5 %; what was fitted is hollow.

    `table` is `threads.table(outcomes)`, or any with the columns id, published (a number or [low, high]), simulated and
    role ("fitted" or "predicted"); closed_form, statement and unit where known. Claims that are not numbers (unit
    "bool", or nothing simulated) are left out.

    Raises ScenarioError for a missing column, or if no claim is left.

    >>> import pandas as pd
    >>> rows = [{"id": "T0-001", "published": 60e3, "simulated": 61e3, "role": "predicted"}]
    >>> reproduction(pd.DataFrame(rows)).axes[0].get_xlabel()
    'modelled / published'
    """
    for name in ("id", "published", "simulated", "role"):
        if name not in table:
            raise unknown("reproduction: column", name, table.columns)
    rows = table.assign(low=[band(p)[0] for p in table.published], high=[band(p)[1] for p in table.published])
    rows = rows.assign(simulated=rows.simulated.astype(float), middle=(rows.low * rows.high) ** 0.5)
    rows = rows[(rows.low > 0) & (rows.simulated > 0)]
    rows = rows[rows.unit != "bool"] if "unit" in rows else rows
    rows = rows.reset_index(drop=True)
    if rows.empty:
        raise ScenarioError("reproduction: no claim has both a published and a simulated number.")
    figure = Picture(figsize=(14, 2.6 + 0.5 * len(rows)), layout="constrained")
    ax = figure.add_subplot()
    ax.axvspan(1 / 1.05, 1.05, color=GREEN, alpha=0.18, lw=0, label="within 5 %")
    ax.axvline(1, color=RED, ls="--", lw=2, label="published (a range: its bar, 5 % beyond its ends are allowed)")
    for y, row in enumerate(rows.itertuples()):
        if row.high > row.low:
            ends = [row.low / row.middle, row.high / row.middle]
            ax.plot(ends, [y, y], color=RED, lw=8, alpha=0.35, solid_capstyle="butt")
    ratio = rows.simulated / rows.middle
    for role, face in (("predicted", BLUE), ("fitted", "white")):
        at = np.flatnonzero(rows.role == role)
        if len(at):
            style = {"mfc": face, "mec": BLUE, "mew": 2.5, "ms": 12, "ls": "none", "label": f"simulated, {role}"}
            ax.plot(ratio[at], at, "o", **style)
    if "verdict" in rows:
        off = np.flatnonzero(rows.verdict == "off")
        if len(off):
            ax.plot(ratio[off], off, "o", mfc="none", mec=RED, mew=2.5, ms=21, ls="none", label="off, see the table")
    every = [ratio, rows.low / rows.middle, rows.high / rows.middle]
    if "closed_form" in rows and rows.closed_form.notna().any():
        formula = rows.closed_form.astype(float) / rows.middle
        every.append(formula[formula > 0])
        ax.plot(formula, rows.index, "|", color=INK, ms=18, mew=3, ls="none", label="closed form")
    ratios = np.concatenate(every)
    spread = max(1.2, 1.15 * np.nanmax(np.maximum(ratios, 1 / ratios)))
    ax.set_xscale("log")
    ax.set_xlim(1 / spread, spread)
    _ticks(ax.xaxis)
    ratio_ticks = (0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 5, 10)
    ax.xaxis.set_major_locator(FixedLocator([t for t in ratio_ticks if 1 / spread <= t <= spread]))
    labels = rows.statement.where(rows.statement.str.len() > 0, rows.id) if "statement" in rows else rows.id
    ax.set_yticks(range(len(rows)), [_short(text, 60) for text in labels])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel("modelled / published")
    ax.set_title(title)
    ax.grid(axis="y", color=PALE, lw=0.8)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


@_styled
def validation_scatter(
    frame: pd.DataFrame,
    measured: str = "measured",
    simulated: str = "simulated",
    *,
    hue: str = "scheduler",
    label: str = "time of one write (us)",
) -> Picture:
    """Measured on a real kernel against simulated, one dot a run, both axes logarithmic, with bands of ±2 % and ±6 %.

    `frame` has the two columns, in the unit that `label` names, and `hue` where known; below, the error of each run.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"measured": [390.0, 8371.0], "simulated": [391.0, 8360.0], "scheduler": ["noop", "cfq"]})
    >>> validation_scatter(frame).axes[0].get_ylabel()
    'simulated'
    """
    import seaborn as sns

    for name in (measured, simulated):
        if name not in frame:
            raise unknown("validation_scatter: column", name, frame.columns)
    rows = frame[(frame[measured] > 0) & (frame[simulated] > 0)]
    if rows.empty:
        raise ScenarioError("validation_scatter: no row has both a measured and a simulated number.")
    error = rows.assign(error=100 * (rows[simulated] / rows[measured] - 1))
    hues = {"hue": hue, "style": hue} if hue in rows else {}
    figure = Picture(figsize=(11, 10), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1])
    low = 0.8 * min(rows[measured].min(), rows[simulated].min())
    high = 1.25 * max(rows[measured].max(), rows[simulated].max())
    line = np.array([low, high])
    upper.fill_between(line, line * 0.94, line * 1.06, color=GREY, alpha=0.2, lw=0, label="±6 %")
    upper.fill_between(line, line * 0.98, line * 1.02, color=GREY, alpha=0.4, lw=0, label="±2 %")
    upper.plot(line, line, color=RED, lw=1.5, ls="--", label="measured = simulated")
    style = {"s": 90, "palette": "colorblind" if hues else None, "edgecolor": "white", "linewidth": 0.5, "alpha": 0.8}
    sns.scatterplot(data=rows, x=measured, y=simulated, ax=upper, **hues, **style)
    sns.scatterplot(data=error, x=measured, y="error", ax=lower, legend=False, **hues, **style)
    upper.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), ylabel="simulated")
    _ticks(upper.yaxis)
    for at, alpha in ((2, 0.4), (6, 0.2)):
        lower.axhspan(-at, at, color=GREY, alpha=alpha, lw=0)
    worst = max(8.0, 1.1 * error.error.abs().max())
    lower.set(ylim=(-worst, worst), ylabel="error (%)", xlabel=f"measured: {label}")
    _ticks(lower.xaxis)
    median, p95 = error.error.abs().quantile([0.5, 0.95])
    upper.set_title(f"{len(rows)} runs: |error| median {median:.2g} %, 95th percentile {p95:.2g} %")
    upper.legend(frameon=False, loc="upper left", ncols=2)
    return figure


__all__ = [
    "Picture",
    "grid_heatmap",
    "knob_curve",
    "reproduction",
    "save",
    "time_budget",
    "timeline",
    "validation_scatter",
]
