"""Widgets for the notebooks: the explorer of thread 0, predictions before reveals, and exercises that answer.

The sliders take label, range and unit from the knobs' own descriptions (`iosched.knobs`): there is one source. The
picture is an image that is replaced as a whole, of fixed size, so nothing flickers; its artists are kept and only their
data change, on a background that is kept too. Everything reacts to `widget.value = ...` in code as to the mouse.
"""

from __future__ import annotations

import html
import math
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from io import BytesIO
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from . import closed_form, plots, simulate, sweep  # the functions: the package's door loads them
from .cgroups import Cgroups
from .ddline import rate
from .devices import ConstantTime, null
from .engine import codes as c
from .errors import ScenarioError, unknown
from .filesystems import FILESYSTEMS, XFS, Ext4
from .host import fitted_host
from .kernels import Kernel
from .plots import GREY, INK, ORANGE, PURPLE, RED, knob_label, knob_metadata, task_colour
from .scenario import Machine
from .schedulers import CFQ, SCHEDULERS, available
from .sweeps import scenario_at
from .workloads import Dd, dd

try:
    import ipywidgets as w
except ImportError as error:
    raise ImportError("iosched.widgets needs ipywidgets; install iosched[notebook].") from error

if TYPE_CHECKING:
    import pandas as pd

    from .result import Result

KERNELS = ("4.4", "4.19", "5.1", "5.2", "5.10", "6.1")
NESTED = "user.slice/app"
WRITES = 300  # a run of the explorer
CURVES = ("scheduler.slice_idle", "scheduler.group_idle", "device.completion_us", "device.queue_depth")
THROUGHPUTS = (10, 20_000)  # kB/s, the fixed axis of the explorer
SPANS = tuple(m * 10.0**e for e in range(-2, 4) for m in (1, 2, 5))  # ms, the steps of its time axis
WIDTH, HEIGHT, DPI = 1080, 640, 100  # the picture, pixels
LABEL, CONTROL = "12em", "27em"  # widths of a control's label, and of all of it
BACKGROUNDS = 12  # pictures without their data that are kept


# ---------------------------------------------------------------------------------------------------------------------
# machines to begin with


@dataclass(frozen=True)
class Preset:
    """A machine of the thread, where dd runs on it, and what was published: label -> bytes/s, or (low, high)."""

    machine: Machine
    cgroup: str = "user.slice"
    published: Mapping[str, Any] = field(default_factory=dict)


MACHINES = {  # name in threads.dsync.BASELINES -> name of the preset
    "vm-4.19": "thread 0 VM 4.19",
    "vm-5.2-rc": "thread 0 VM 5.2-rc",
    "box-5.1": "second machine of thread 0, 5.1",
}
MEASURED = "kernel measurement 4.19 (100 us)"


@cache
def presets() -> dict[str, Preset]:
    """The explorer's machines by name: the thread's, fitted on their baseline, and the measured kernels'.

    >>> list(presets())[0]
    'thread 0 VM 4.19'
    """
    from .threads.dsync import BASELINES, machine

    out = {}
    for name in BASELINES:
        base = machine(name)
        chosen = base.with_(scheduler="cfq") if "cfq" in available(base.version) else base
        out[MACHINES.get(name, f"thread 0: {name}")] = Preset(chosen, published=_published(name))
    plain = Machine(kernel="4.19", device=null(completion_us=100), scheduler="cfq")
    out[MEASURED] = Preset(plain, published=_measured())
    out["the same under kernel 4.4 (older group rule)"] = Preset(plain.with_(kernel="4.4"))
    vm, said = out[MACHINES["vm-4.19"]].machine, _published("vm-4.19")
    out["the VM on a solid-state drive"] = Preset(vm.with_(**{"device.rotational": False}), published=said)
    out["the VM on a disk with a write cache"] = Preset(vm.with_(**{"device.write_cache": True}), published=said)
    return out


def _published(name: str) -> dict[str, tuple[float, float]]:
    """Label and range of the throughputs published for one of the thread's machines, from the claims."""
    from .threads import claims, show

    out: dict[str, tuple[float, float]] = {}
    for claim in claims("dsync"):
        if claim.machine == name and claim.quantity == "throughput" and claim.experiment in SCHEDULERS_PUBLISHED:
            low, high = show(claim.low, claim.unit), show(claim.high, claim.unit)
            shown, ends = f"{low} to {high}", (claim.low, claim.high)
            if low == high:  # one number: its band is what the claim allows
                shown = f"{low} (±{claim.tolerance:.0%})".replace("%", " %")
                ends = (claim.low / (1 + claim.tolerance), claim.high * (1 + claim.tolerance))
            if ends not in out.values():
                out[f"published, {claim.experiment}: {shown}"] = ends
    return out


SCHEDULERS_PUBLISHED = (*SCHEDULERS, "bfq")


def _measured() -> dict[str, float]:
    """What a real 4.19 did under CFQ and noop on the 100 us device."""
    from .threads import claims
    from .threads.dsync import kernel_value

    found = {c.experiment: kernel_value(c) for c in claims("dsync") if c.id in ("T0-001", "T0-002")}
    return {f"measured, {name}: {rate(value)}": value for name, value in found.items() if value}


# ---------------------------------------------------------------------------------------------------------------------
# code


def code_of(machine: Machine, job: Dd) -> str:
    """The constructor calls that make this machine and this job, and run them: to be pasted into a cell.

    >>> print(code_of(Machine(kernel="4.19", scheduler="noop"), dd(count=9)).splitlines()[2])
    vm = io.Machine(kernel='4.19', scheduler=io.Noop())
    """
    parts = [f"kernel={machine.kernel!r}"]
    for name in ("device", "filesystem", "scheduler"):
        value = getattr(machine, name)
        if name == "scheduler" or value != Machine.__dataclass_fields__[name].default:
            parts.append(f"{name}={_call(value)}")
    head = "import iosched as io\n"
    if machine.host == fitted_host(machine.kernel, machine.host.speed) != fitted_host(machine.kernel):
        head += "from iosched.host import fitted_host\n"
        parts.append(f"host=fitted_host({machine.kernel!r}, speed={machine.host.speed:g})")
    elif machine.host != fitted_host(machine.kernel):
        parts.append(f"host={_call(machine.host)}")
    if machine.cgroups != Cgroups():
        parts.append(f"cgroups={[p for p in machine.cgroups.paths if p != '/']!r}")
    if machine.nr_requests is not None:
        parts.append(f"nr_requests={machine.nr_requests}")
    one_line = ", ".join(parts)
    call = f"io.Machine({one_line})"
    if len(call) > 110:
        call = "io.Machine(\n" + "".join(f"    {part},\n" for part in parts) + ")"
    return f"{head}\nvm = {call}\nresult = io.simulate(vm, {_call(job)})\nprint(result)\n"


def _call(value: Any) -> str:
    """A frozen dataclass as its constructor call, without the fields that have their default."""
    if not is_dataclass(value):
        return repr(value)
    given = [f"{f.name}={getattr(value, f.name)!r}" for f in fields(value) if getattr(value, f.name) != f.default]
    name = type(value).__name__
    door = {ConstantTime: "io.devices.ConstantTime", Dd: "io.workloads.dd"}.get(type(value), f"io.{name}")
    return f"{door}({', '.join(given)})"


# ---------------------------------------------------------------------------------------------------------------------
# controls


def control(name: str, value: Any) -> w.Widget:
    """The widget of a knob, from its own description: label with unit, range, scale, and its help text as tooltip.

    >>> control("scheduler.slice_idle", 8).description
    'slice_idle (ms)'
    """
    meta = knob_metadata(name)
    label = knob_label(name)
    tip = meta["doc"] + (f"; /sys/block/DEV/{meta['sysfs']}" if meta["sysfs"].startswith(("queue", "device")) else "")
    style, layout = {"description_width": LABEL}, w.Layout(width=CONTROL)
    if meta["slider"] is None:
        return w.Checkbox(value=bool(value), description=label, tooltip=tip, style=style, layout=layout)
    low, high, scale = meta["slider"]
    common = {"description": label, "tooltip": tip, "style": style, "layout": layout, "continuous_update": True}
    if scale == "linear":
        return w.FloatSlider(value, min=low, max=high, step=(high - low) / 32, **common)
    if meta["integer"]:
        steps = [1 << k for k in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)]
        return w.SelectionSlider(options=steps, value=value, **common)
    return w.FloatLogSlider(
        value, base=10, min=math.log10(low), max=math.log10(high), step=0.02, readout_format=".4g", **common
    )


def _choice(label: str, options: Sequence[Any], value: Any, tip: str) -> w.Dropdown:
    return w.Dropdown(
        options=options,
        value=value,
        description=label,
        tooltip=tip,
        style={"description_width": LABEL},
        layout=w.Layout(width=CONTROL),
    )


def _rounded(value: float) -> float:
    """Four digits, and whole where it is whole, so that what code shows is what the slider shows."""
    short = float(f"{value:.4g}")
    return int(short) if short == int(short) else short


# ---------------------------------------------------------------------------------------------------------------------
# prediction and exercises


class Prediction(w.VBox):
    """A number asked for before it is shown. `answer` is None until one was given.

    >>> p = Prediction("How many kB/s?", "kB/s")
    >>> p.number.value = 500
    >>> p.button.click()
    >>> p.answer
    500.0
    """

    def __init__(self, question: str, unit: str = "") -> None:
        self.unit = unit
        self.answer: float | None = None
        self._listeners: list[Callable[[float], None]] = []
        self.number = w.FloatText(value=0.0, description=f"{unit}:" if unit else "", layout=w.Layout(width="14em"))
        self.button = w.Button(description="I predict this", button_style="primary")
        self.feedback = w.HTML()
        self.button.on_click(self._submit)
        super().__init__([w.HTML(f"<b>{html.escape(question)}</b>"), w.HBox([self.number, self.button]), self.feedback])

    def on_answer(self, listener: Callable[[float], None]) -> None:
        """Call `listener(number)` when the prediction is made."""
        self._listeners.append(listener)

    def _submit(self, _button: Any = None) -> None:
        if not (math.isfinite(self.number.value) and self.number.value > 0):
            self.feedback.value = "Give a number above 0 first; a wrong one teaches more than none."
            return
        self.answer = float(self.number.value)
        self.number.disabled = self.button.disabled = True
        self.feedback.value = f"Noted: {self.answer:g} {self.unit}."
        for listener in self._listeners:
            listener(self.answer)

    def compare(self, value: float) -> str:
        """One sentence on the prediction, now that the value is known.

        >>> Prediction("How long?", "ms").compare(8.36)
        'It is 8.36 ms; you made no prediction.'
        """
        said = f"It is {value:.3g} {self.unit}".rstrip()
        if self.answer is None:
            return f"{said}; you made no prediction."
        factor = self.answer / value
        if 0.9 <= factor <= 1.1:
            return f"{said}; you said {self.answer:g}, within 10 %."
        too = f"{factor:.2g} times too high" if factor > 1 else f"{1 / factor:.2g} times too low"
        return f"{said}; you said {self.answer:g}, {too}."

    def reveal(self, value: float) -> w.HTML:
        """The sentence of `compare`, to be shown at the end of a cell."""
        return w.HTML(f"<b>{html.escape(self.compare(value))}</b>")


def predict(question: str, unit: str = "") -> Prediction:
    """Ask for a number now; `.reveal(value)` in a later cell says how near it was.

    >>> predict("How many ms does one write take?", "ms").unit
    'ms'
    """
    return Prediction(question, unit)


class Exercise(w.VBox):
    """A question with an answer that can be checked. `solved` says whether the last answer was right."""

    def __init__(
        self, question: str, check: Any, choices: Sequence[str], tolerance: float, unit: str, why: str
    ) -> None:
        self.check = check.item() if isinstance(check, np.generic) else check
        self.tolerance, self.why = tolerance, why
        self.solved = False
        numeric = isinstance(self.check, (int, float)) and not isinstance(self.check, bool)
        if choices:
            self.answer = w.RadioButtons(options=list(choices), value=None, layout=w.Layout(width="auto"))
        elif numeric:
            self.answer = w.FloatText(description=f"{unit}:" if unit else "", layout=w.Layout(width="14em"))
        else:
            self.answer = w.Text(layout=w.Layout(width="24em"))
        self.button = w.Button(description="Check")
        self.feedback = w.HTML()
        self.button.on_click(self._judge)
        super().__init__([w.HTML(f"<b>{html.escape(question)}</b>"), self.answer, self.button, self.feedback])

    def _judge(self, _button: Any = None) -> None:
        verdict = self._verdict(self.answer.value)
        self.solved = verdict is True
        text = f"Right. {self.why}".strip() if self.solved else verdict or "Not yet; try again."
        self.feedback.value = (
            f"<span style='color:{'#00664d' if self.solved else '#a04000'}'>{html.escape(text)}</span>"
        )

    def _verdict(self, given: Any) -> bool | str:
        """True, or False, or a sentence that helps."""
        if given is None or given == "":
            return "Give an answer first."
        if isinstance(self.check, (int, float)) and not isinstance(self.check, bool):
            error = abs(given - self.check)
            if error <= self.tolerance * abs(self.check):
                return True
            if self.check and given and not 0.5 <= given / self.check <= 2:
                return f"Not yet: that is too {'high' if given > self.check else 'low'} by more than a factor of two."
            return f"Close, but too {'high' if given > self.check else 'low'}; allowed are {self.tolerance:.0%}."
        if isinstance(self.check, str):
            return str(given).strip().casefold() == self.check.strip().casefold()
        return self.check(given)


def exercise(
    question: str,
    check: float | str | Callable[[Any], bool | str],
    *,
    choices: Sequence[str] = (),
    tolerance: float = 0.05,
    unit: str = "",
    why: str = "",
) -> Exercise:
    """A question whose answer is checked at once.

    `check` is the right number (within `tolerance`, a fraction), the right word, or a function of the answer that
    returns True, False, or a sentence that helps. `choices` offers words to choose from. `why` is shown with the right
    answer.

    >>> e = exercise("How many requests is one write?", 3, tolerance=0)
    >>> e.answer.value = 3
    >>> e.button.click()
    >>> e.solved
    True
    """
    if choices and isinstance(check, str) and check not in choices:
        raise unknown("exercise: check", check, choices)
    return Exercise(question, check, choices, tolerance, unit, why)


# ---------------------------------------------------------------------------------------------------------------------
# the explorer's picture


def encode_png(pixels: np.ndarray) -> bytes:
    """Pixels (height x width x at least 3, bytes) as PNG without filters: half the time of a general encoder."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = pixels.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row begins with its filter: 0, none
    rows[:, 1:] = pixels[..., :3].reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


class Canvas:
    """The explorer's picture. The artists with data are kept; what does not change is drawn once and kept as pixels."""

    def __init__(self) -> None:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.collections import PolyCollection

        self._backgrounds: dict[Any, Any] = {}
        self._static: list[Any] = []
        with rc_context(plots.STYLE):
            self.figure = plots.Picture(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI)
            self.agg = FigureCanvasAgg(self.figure)
            grid = self.figure.add_gridspec(
                2, 1, height_ratios=[2.1, 1], left=0.12, right=0.97, top=0.93, bottom=0.11, hspace=0.42
            )
            self.curve_axes, self.lane_axes = (self.figure.add_subplot(grid[k]) for k in (0, 1))
            ax = self.curve_axes
            ax.set_yscale("log")
            ax.set_ylim(*THROUGHPUTS)
            plots._ticks(ax.yaxis)
            ax.set_ylabel("dd's throughput (kB/s)")
            ax.grid(color=plots.PALE, lw=0.8)
            moving = {"animated": True}
            (self.ghost,) = ax.plot([], [], color=GREY, alpha=0.45, lw=5, label="before", **moving)
            (self.formula,) = ax.plot([], [], color=plots.BLUE, label="closed form", **moving)
            (self.dots,) = ax.plot([], [], "o", color=plots.BLUE, mec="white", label="simulated", **moving)
            (self.now,) = ax.plot([], [], "o", color=ORANGE, mec=INK, ms=15, label="the sliders", **moving)
            (self.guess,) = ax.plot([], [], color=INK, ls=":", lw=2.5, label="your prediction", **moving)
            self.headline = self.figure.text(0.12, 0.952, "", fontsize=16, weight="bold", **moving)
            self.veil = self.figure.text(
                0.55, 0.62, "", fontsize=22, ha="center", va="center", color=GREY, weight="bold", **moving
            )
            lanes = self.lane_axes
            lanes.set_ylim(-0.6, 3.6)
            lanes.grid(axis="x", color=plots.PALE, lw=0.8)
            lanes.set_axisbelow(True)
            lanes.set_xlabel("time since one write began (ms)")
            styles: dict[str, dict[str, Any]] = {
                "flush": {"facecolor": ORANGE, "edgecolor": "white", "hatch": "xx"},
                "idle": {"facecolor": "white", "edgecolor": GREY, "hatch": "//"},
                "idle, fired": {"facecolor": "white", "edgecolor": RED, "hatch": "//"},
            }
            for task in (0, 1):
                styles[f"waits {task}"] = {"facecolor": task_colour(task), "alpha": 0.28, "lw": 0}
                styles[f"served {task}"] = {"facecolor": task_colour(task), "lw": 0}
            self.bars = {k: PolyCollection([], **style, **moving) for k, style in styles.items()}
            for bars in self.bars.values():
                lanes.add_collection(bars, autolim=False)
            box = {"facecolor": "white", "edgecolor": "none", "pad": 2}
            self.words = [
                lanes.text(0, 0, "", ha="center", va="center", fontsize=13, bbox=box, **moving) for _ in range(2)
            ]

    def dress(self, x: str, published: Mapping[str, Any], guessed: bool) -> None:
        """What stands still: the x axis of the curve, the published lines, the legend."""
        from matplotlib import rc_context

        for artist in self._static:
            artist.remove()
        self._static = []
        ax = self.curve_axes
        low, high, scale = knob_metadata(x)["slider"]
        with rc_context(plots.STYLE):
            ax.set_xscale(scale)
            if scale == "log":
                ax.set_xlim(low / 1.1, high * 1.1)
                plots._ticks(ax.xaxis)
            else:
                ax.set_xlim(low - 0.02 * (high - low), high + 0.02 * (high - low))
            ax.set_xlabel(knob_label(x), labelpad=1)
            before = set(ax.get_children())
            for k, (label, value) in enumerate(published.items()):
                plots.draw_published(ax, value, 1e-3, label, colour=(RED, PURPLE)[k % 2])
            self._static = [artist for artist in ax.get_children() if artist not in before]
            handles = [self.formula, self.dots, self.now, self.ghost]
            handles += [h for h in self._static if not str(h.get_label()).startswith("_") and h.get_label()]
            handles += [self.guess] if guessed else []
            ax.legend(handles=handles, loc="upper right", ncols=2, fontsize=12, framealpha=0.9)
        self._key = (x, tuple(published.items()), guessed)

    def show_lanes(self, found: plots.Lanes | None, names: Sequence[str]) -> None:
        """One write as bars; `names` are dd's and the log writer's."""
        verts: dict[str, list[Any]] = {k: [] for k in self.bars}
        texts: list[tuple[float, str]] = []
        self.lane_axes.set_yticks(range(4), ["kept idle for", "device", names[1], names[0]])
        if found is not None:
            self.lane_axes.set_xlim(
                0, next(s for s in SPANS if s >= (found.end - found.start) * 1e-6 or s == SPANS[-1])
            )

            def bar(kind: str, y: float, a: int, b: int) -> None:
                a_ms, b_ms = (a - found.start) * 1e-6, (b - found.start) * 1e-6
                verts[kind].append([(a_ms, y - 0.36), (a_ms, y + 0.36), (b_ms, y + 0.36), (b_ms, y - 0.36)])

            for task, a, b, _ in found.waiting:
                bar(f"waits {min(task, 1)}", 3 - min(task, 1), a, b)
            for task, a, b, what in found.serving:
                for y in (3 - min(task, 1), 1):
                    bar("flush" if what == "flush" else f"served {min(task, 1)}", y, a, b)
            span = self.lane_axes.get_xlim()[1]
            for task, _, a, b, how in found.idles:
                bar("idle, fired" if how == c.END_FIRED else "idle", 0, a, b)
                if (b - a) * 1e-6 > 0.25 * span:
                    words = f"{(b - a) * 1e-6:.3g} ms for {names[min(task, 1)]}"
                    texts.append((((a + b) / 2 - found.start) * 1e-6, words))
        for kind, bars in self.bars.items():
            bars.set_verts(verts[kind])
        for k, text in enumerate(self.words):
            x, words = texts[k] if k < len(texts) else (0.0, "")
            text.set_position((x, 0))
            text.set_text(words)

    def png(self) -> bytes:
        """The picture: kept pixels, the moving artists over them, as PNG."""
        from matplotlib import rc_context

        key = (*self._key, self.lane_axes.get_xlim(), tuple(t.get_text() for t in self.lane_axes.get_yticklabels()))
        with rc_context(plots.STYLE):
            if key not in self._backgrounds:
                if len(self._backgrounds) >= BACKGROUNDS:
                    del self._backgrounds[next(iter(self._backgrounds))]
                self.agg.draw()
                self._backgrounds[key] = self.agg.copy_from_bbox(self.figure.bbox)
            else:
                self.agg.restore_region(self._backgrounds[key])
            for artist in (self.ghost, self.guess, self.formula, self.dots, self.now):
                self.curve_axes.draw_artist(artist)
            for artist in (*self.bars.values(), *self.words):
                self.lane_axes.draw_artist(artist)
            for artist in (self.headline, self.veil):
                self.figure.draw_artist(artist)
        return encode_png(np.asarray(self.agg.buffer_rgba()))

    def svg(self) -> bytes:
        """The same picture as SVG."""
        from matplotlib import rc_context

        out = BytesIO()
        with rc_context(plots.STYLE):
            self.figure.savefig(out, format="svg", metadata={"Date": None})
        return out.getvalue()


# ---------------------------------------------------------------------------------------------------------------------
# the explorer


class DsyncExplorer(w.VBox):
    """Thread 0 with its knobs: what `dsync_explorer` returns.

    `controls` maps knob names to widgets; `machine`, `job`, `result` and `table` (the curve) are what they say now;
    `message` holds one sentence; `picture` is the image. `preset`, `reset`, `code_button` with `code`, and `exports`
    are the other buttons.
    """

    def __init__(self, preset: str, predict_first: bool) -> None:
        self._presets = presets()
        if preset not in self._presets:
            raise unknown("preset", preset, self._presets)
        self._quiet = True
        self._last_touched: str | None = None
        self._predicted_for = ""
        self._ghost: tuple[str, np.ndarray, np.ndarray] | None = None
        self._curve_key: Any = None
        self.table: pd.DataFrame | None = None
        self.result: Result | None = None
        self.canvas = Canvas()
        self.prediction = Prediction("Before you turn anything: what will dd report on this machine?", "kB/s")
        self.prediction.on_answer(lambda _: self._unlock())
        self.preset = _choice(
            "preset", list(self._presets), preset, "the machines of the thread and of the measurements"
        )
        self.reset = w.Button(description="Reset", tooltip="back to the preset", icon="undo")
        self.curve = _choice(
            "curve over", [(knob_label(x), x) for x in CURVES], CURVES[0], "the knob on the curve's axis"
        )
        self.code_button = w.Button(
            description="Copy as code", tooltip="the constructor call of this machine", icon="code"
        )
        self.code = w.Textarea(layout=w.Layout(width=f"{WIDTH}px", height="11em", display="none"))
        self.exports = {
            kind: w.Button(description=kind.upper(), tooltip=f"write the curve or picture as {kind}", icon="download",
                           layout=w.Layout(width="7em")) for kind in ("csv", "svg", "json")
        }  # fmt: skip
        self.picture = w.Image(format="png", width=WIDTH, height=HEIGHT)
        self.picture.layout = w.Layout(width=f"{WIDTH}px", height=f"{HEIGHT}px", object_fit="contain")
        self.message = w.HTML(layout=w.Layout(height="3em"))
        self.controls = self._make_controls()
        self._load(self._presets[preset])
        for name, widget in {**self.controls, "curve": self.curve}.items():
            widget.observe(lambda change, name=name: self._turned(name), "value")
        self.preset.observe(lambda _: self._begin_again(), "value")
        self.reset.on_click(lambda _: self._begin_again())
        self.code_button.on_click(lambda _: self._show_code())
        for kind, button in self.exports.items():
            button.on_click(lambda _, kind=kind: self._export(kind))
        self._locked = predict_first
        self._enable()
        super().__init__(self._arrange())
        self._quiet = False
        self._dress()
        self._update("")

    def _make_controls(self) -> dict[str, w.Widget]:
        groups = ["/", "system.slice", "user.slice", NESTED]
        return {
            "kernel": _choice("kernel", KERNELS, "4.19", "sets the version of every part"),
            "scheduler": _choice("scheduler", list(SCHEDULERS), "cfq", "/sys/block/DEV/queue/scheduler"),
            "scheduler.slice_idle": control("scheduler.slice_idle", 8),
            "scheduler.group_idle": control("scheduler.group_idle", 8),
            "filesystem": _choice("file system", list(FILESYSTEMS), "ext4", "raw: the block device itself"),
            "dd.cgroup": _choice("dd's cgroup", groups, "user.slice", "where dd's requests are charged"),
            "filesystem.jbd2_cgroup": _choice("jbd2's cgroup", groups, "/", "the root, on every stock system"),
            "device.completion_us": control("device.completion_us", 100),
            "device.queue_depth": control("device.queue_depth", 32),
            "device.rotational": control("device.rotational", True),
            "device.write_cache": control("device.write_cache", False),
        }

    def _arrange(self) -> list[w.Widget]:
        names = list(self.controls)
        columns = [names[:4], names[4:7] + [names[9]], names[7:9] + [names[10]]]
        boxes = [w.VBox([self.controls[n] for n in column]) for column in columns]
        boxes[2].children = (*boxes[2].children, self.curve)
        buttons = w.HBox([self.preset, self.reset, self.code_button, *self.exports.values()])
        first = [self.prediction] if self._locked else []
        return [*first, buttons, w.HBox(boxes), self.message, self.picture, self.code]

    # -----------------------------------------------------------------------------------------------------------------
    # what the controls say

    @property
    def machine(self) -> Machine:
        """The machine that the controls describe."""
        v = {name: widget.value for name, widget in self.controls.items()}
        base = self._now.machine
        device = replace(
            base.device,
            completion_us=_rounded(v["device.completion_us"]),
            queue_depth=v["device.queue_depth"],
            rotational=v["device.rotational"],
            write_cache=v["device.write_cache"],
        )
        kernel = base.kernel if Kernel(base.kernel) == v["kernel"] else v["kernel"]
        own = fitted_host(base.kernel, base.host.speed)
        placement = v["filesystem.jbd2_cgroup"]
        scheduler: Any = v["scheduler"]
        if scheduler == "cfq":
            scheduler = CFQ(
                slice_idle=_rounded(v["scheduler.slice_idle"]), group_idle=_rounded(v["scheduler.group_idle"])
            )
        nested = NESTED in (v["dd.cgroup"], placement)
        return Machine(
            kernel=kernel,
            device=device,
            filesystem=Ext4(jbd2_cgroup=placement) if v["filesystem"] == "ext4" else v["filesystem"],
            scheduler=scheduler,
            host=fitted_host(kernel, base.host.speed) if base.host == own else base.host,
            cgroups=[*Cgroups().paths[1:], NESTED] if nested else None,
        )

    @property
    def job(self) -> Dd:
        """The dd that the controls describe."""
        return dd(count=WRITES, cgroup=self.controls["dd.cgroup"].value)

    def _load(self, preset: Preset) -> None:
        """Set every control to a preset."""
        self._now = preset
        machine = preset.machine
        kernel = ".".join(machine.kernel.split(".")[:2])
        self._offer(kernel, machine.scheduler_name)
        slice_idle, group_idle = CFQ().idle_defaults(machine.device.rotational)
        if isinstance(machine.scheduler, CFQ):
            slice_idle, group_idle = machine.scheduler.idle_defaults(machine.device.rotational)
        filesystem = next(name for name, cls in FILESYSTEMS.items() if isinstance(machine.filesystem, cls))
        values = {
            "kernel": kernel,
            "scheduler.slice_idle": slice_idle / c.MSEC,
            "scheduler.group_idle": group_idle / c.MSEC,
            "filesystem": filesystem,
            "dd.cgroup": preset.cgroup,
            "filesystem.jbd2_cgroup": getattr(machine.filesystem, "jbd2_cgroup", "/"),
            "device.completion_us": machine.device.completion_us,
            "device.queue_depth": machine.device.queue_depth,
            "device.rotational": machine.device.rotational,
            "device.write_cache": machine.device.write_cache,
        }
        for name, value in values.items():
            self.controls[name].value = value

    def _offer(self, kernel: str, wanted: str) -> str:
        """Offer the schedulers of a kernel, choose the wanted one if it is there, and return what was chosen."""
        names = available(Kernel(kernel))
        chosen = wanted if wanted in names else ("mq-deadline" if "mq-deadline" in names else names[0])
        self.controls["scheduler"].options = names
        self.controls["scheduler"].value = chosen
        return chosen

    @contextmanager
    def _without_update(self) -> Iterator[None]:
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    # -----------------------------------------------------------------------------------------------------------------
    # what happens

    def _turned(self, name: str) -> None:
        """A control has a new value."""
        if self._quiet:
            return
        note = ""
        with self._without_update():
            if name == "kernel":
                wanted = self.controls["scheduler"].value
                kernel = self.controls["kernel"].value
                chosen = self._offer(kernel, wanted)
                if chosen != wanted:
                    note = f"{wanted} does not exist in kernel {kernel}, so the scheduler is now {chosen}."
            elif name == "device.rotational":
                slice_idle = CFQ().idle_defaults(self.controls[name].value)[0] / c.MSEC
                self.controls["scheduler.slice_idle"].value = slice_idle
                if self.controls["scheduler"].value == "cfq":
                    note = f"CFQ begins with slice_idle = {slice_idle:g} ms on such a device; group_idle stays."
            elif name == "curve":
                self._dress()
        if self._locked:
            self._say("Predict first: give a number above, then the answer appears.")
            return
        self._enable()
        if name != self._last_touched and self.table is not None:
            self._ghost = (self.curve_shown, *self._line)
        self._last_touched = name
        self._update(note, name)

    def _begin_again(self) -> None:
        """Everything as the preset has it; without the ghost."""
        with self._without_update():
            self._load(self._presets[self.preset.value])
        self._ghost, self._last_touched = None, None
        self._enable()
        self._dress()
        self._update("")

    @property
    def _guess(self) -> float | None:
        """The prediction, while the preset that it was made for is shown."""
        return self.prediction.answer if self.preset.value == self._predicted_for else None

    def _unlock(self) -> None:
        self._locked, self._predicted_for = False, self.preset.value
        self._enable()
        self._dress()
        self._update(self.prediction.compare(self._simulated().bytes_per_s / 1e3))

    def _enable(self) -> None:
        """Grey out what cannot be turned now."""
        cfq = self.controls["scheduler"].value == "cfq"
        live = {
            "scheduler.slice_idle": cfq,
            "scheduler.group_idle": cfq,
            "filesystem.jbd2_cgroup": self.controls["filesystem"].value == "ext4",
        }
        for name, widget in {**self.controls, "preset": self.preset, "reset": self.reset, "curve": self.curve}.items():
            widget.disabled = self._locked or not live.get(name, True)
        for button in (self.code_button, *self.exports.values()):
            button.disabled = self._locked

    def _dress(self) -> None:
        """The standing part of the picture. A prediction belongs to the preset it was made for."""
        published = {} if self._locked else self._now.published
        self.canvas.dress(self.curve.value, published, self._guess is not None)

    def _say(self, text: str) -> None:
        self.message.value = f"<div style='font-size:115%'>{html.escape(text)}</div>"

    def _simulated(self) -> Result:
        return simulate(self.machine, self.job, trace=True)

    def _update(self, note: str, turned: str | None = None) -> None:
        """Simulate, draw, and say in one sentence what is to be said."""
        if self._locked:
            self.canvas.veil.set_text("Predict first.")
            self.canvas.show_lanes(None, ("dd", "jbd2"))
            self.picture.value = self.canvas.png()
            self._say("What will dd report? Give your number above, then everything can be turned.")
            return
        before = self.result
        try:
            machine, job = self.machine, self.job
            self.result = simulate(machine, job, trace=True)
            self.table = self._curve(machine, job)
        except ScenarioError as error:
            self._say(str(error))
            return
        if turned and not note and before is not None:
            note = self._unchanged(turned, before.time_per_op, self.result.time_per_op)
        self._draw()
        self._say(note)
        if self.code.layout.display != "none":
            self.code.value = code_of(machine, job)

    def _curve(self, machine: Machine, job: Dd) -> pd.DataFrame:
        """The curve over the chosen knob: simulated at some points, and by formula at many. Kept while it holds."""
        import pandas as pd

        x = self.curve.value
        self.curve_shown = x
        low, high, scale = knob_metadata(x)["slider"]
        if scale == "linear":
            points: list[Any] = [low + (high - low) * k / 16 for k in (0, 1, 2, 3, 4, 6, 8, 10, 12, 14, 16)]
        elif knob_metadata(x)["integer"]:
            points = [1 << k for k in range(int(math.log2(high)) + 1)]
        else:
            points = np.geomspace(low, high, 10).tolist()
        key = (scenario_at(machine, job, {x: points[0]} if _has(machine, x) else {}).machine, job, x)
        if key != self._curve_key:
            self._curve_key = key
            if _has(machine, x):
                self._kept = sweep(machine, job, over={x: points})
                self._kept["closed_form_bytes_per_s"], self._line = self._formula(machine, job, x, points)
            else:  # the same whatever x is
                self._kept = pd.DataFrame({x: points})
                self._kept[["time_per_op_s", "bytes_per_s", "idles_per_op"]] = (
                    self.result.time_per_op, self.result.bytes_per_s, self.result.idles_per_op
                )  # fmt: skip
                level = float(closed_form(machine, job).bytes_per_s)
                self._kept["closed_form_bytes_per_s"] = level
                self._line = np.array([low, high]), np.array([level, level])
        return self._kept

    @staticmethod
    def _formula(
        machine: Machine, job: Dd, x: str, points: Sequence[float]
    ) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """The closed form at the points, and as a fine line, in one call.

        An idle of 0 means "off": the line breaks there, 0 is a point of its own.
        """
        low, high, scale = knob_metadata(x)["slider"]
        if knob_metadata(x)["integer"]:
            values = np.array(points)
        elif scale == "log":
            values = np.geomspace(low, high, 25)
        else:
            values = np.concatenate([[low], np.geomspace(0.1, 1, 7)[:-1], np.linspace(1, high, 31)])
        level = closed_form(machine, job, over={x: np.concatenate([points, values])}).bytes_per_s
        at_points, level = level[: len(points)], level[len(points) :]
        if low == 0:
            values, level = np.insert(values, 1, 0.0), np.insert(level, 1, np.nan)
        return at_points, (values, level)

    def _draw(self) -> None:
        canvas, result, x = self.canvas, self.result, self.curve.value
        canvas.veil.set_text("")
        table = self.table
        canvas.dots.set_data(table[x], table.bytes_per_s * 1e-3)
        canvas.formula.set_data(self._line[0], self._line[1] * 1e-3)
        shown = self._ghost is not None and self._ghost[0] == x
        canvas.ghost.set_data(*([self._ghost[1], self._ghost[2] * 1e-3] if shown else [[], []]))
        canvas.now.set_data([self.controls[x].value], [result.bytes_per_s * 1e-3])
        low, high = canvas.curve_axes.get_xlim()
        guess = self._guess
        canvas.guess.set_data(*([[], []] if guess is None else [[low, high], [guess, guess]]))
        idles = result.idles_per_op
        canvas.headline.set_text(
            f"{result.scenario.machine.scheduler_name}: {rate(result.bytes_per_s)}, {result.time_per_op * 1e3:.3g} ms "
            f"a write, {idles:.2f} idle windows waited out in it"
        )
        log = "xfs log" if isinstance(result.scenario.machine.filesystem, XFS) else "jbd2"
        canvas.show_lanes(plots.lanes(result), ("dd", log))
        self.picture.value = canvas.png()

    def _unchanged(self, name: str, before: float, now: float) -> str:
        """Why turning this knob changed nothing; empty if it did."""
        if name == "curve" or abs(now / before - 1) > 5e-4:
            return ""
        machine = self.machine
        scheduler, short = machine.scheduler_name, name.rpartition(".")[2]
        if name.startswith("scheduler.") and scheduler != "cfq":
            return f"{scheduler} has no {short}; choose cfq to turn it."
        if name == "scheduler.group_idle" and self.controls["scheduler.slice_idle"].value > 0:
            return (
                "Nothing changed: while slice_idle is above 0 it alone sets the wait; group_idle counts when it is 0."
            )
        if name == "filesystem.jbd2_cgroup" and not isinstance(machine.filesystem, Ext4):
            return f"{self.controls['filesystem'].value} has no jbd2, so there is nobody to place."
        if name.endswith("cgroup") and scheduler != "cfq":
            return f"Nothing changed: {scheduler} does not look at cgroups."
        reasons = {
            "device.queue_depth": "Nothing changed: the requests of a write go one after the other, so the device "
            "never has two at once, however deep its queue.",
            "device.rotational": f"Nothing changed: {scheduler} treats both kinds of device alike here.",
            "kernel": "Nothing changed: these kernels do the same here.",
        }
        return reasons.get(name, f"Nothing changed: {short} does not matter on this machine.")

    # -----------------------------------------------------------------------------------------------------------------
    # code and files

    def _show_code(self) -> None:
        self.code.value = code_of(self.machine, self.job)
        self.code.layout.display = None
        self._say("Select the text below the picture and copy it into a cell; it runs as it is.")

    def export(self, kind: str, folder: str | Path = ".") -> Path:
        """Write the curve (csv, json) or the picture (svg) into a folder, and return the file's path.

        Raises ScenarioError for another kind, or before the prediction.
        """
        if kind not in self.exports:
            raise unknown("export", kind, self.exports)
        if self.table is None:
            raise ScenarioError("export: there is nothing to export before the prediction; give a number first.")
        path = Path(folder) / f"dsync-explorer.{kind}"
        if kind == "csv":
            self.table.to_csv(path, index=False)
        elif kind == "json":
            self.table.to_json(path, orient="records", indent=1)
        else:
            path.write_bytes(self.canvas.svg())
        return path

    def _export(self, kind: str) -> None:
        try:
            self._say(f"Written: {self.export(kind)}, beside the notebook.")
        except OSError as error:
            self._say(f"The file could not be written: {error.strerror}.")


def _has(machine: Machine, name: str) -> bool:
    """Has this machine's scheduler (or other part) the knob?"""
    part, _, rest = name.partition(".")
    return rest in getattr(type(getattr(machine, part)), "__dataclass_fields__", {})


def dsync_explorer(preset: str = "thread 0 VM 4.19", predict_first: bool = True) -> DsyncExplorer:
    """Thread 0 to be explored: scheduler, idling, device, file system, cgroups and kernel, live.

    Above, dd's throughput over one knob (`curve over`): the closed form as a line, simulated points, the sliders' own
    point, the curve before the last turn as a ghost, what was published as lines with their bands. Below, one write:
    who waits, what the device works on, whom it is kept idle for. `predict_first` asks for a number before anything
    moves.

    Raises ScenarioError for an unknown preset.

    >>> explorer = dsync_explorer(predict_first=False)
    >>> explorer.controls["scheduler"].value = "noop"
    >>> explorer.result.idles_per_op
    0.0
    """
    return DsyncExplorer(preset, predict_first)


def measure_slider(turns: int = 30) -> float:
    """Median wall seconds from a turned slider to the redrawn picture, for `iosched.bench`: half of the turns are of
    the curve's own knob, half of another, which moves the whole curve.

    >>> measure_slider(4) < 10
    True
    """
    explorer = dsync_explorer(predict_first=False)
    seconds = []
    for k in range(turns):
        name, value = (("scheduler.slice_idle", 1 + k % 15), ("device.completion_us", 60 + 10 * k))[k % 2]
        began = perf_counter()
        explorer.controls[name].value = value
        seconds.append(perf_counter() - began)
    return float(np.median(seconds))


__all__ = [
    "DsyncExplorer",
    "Exercise",
    "Prediction",
    "code_of",
    "control",
    "dsync_explorer",
    "exercise",
    "measure_slider",
    "predict",
    "presets",
]
