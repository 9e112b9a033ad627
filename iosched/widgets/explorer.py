"""The explorer of thread 0: every knob, the picture, presets, reset, code and export."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import numpy as np

from .. import closed_form, plots, simulate, sweep  # the functions: the package loads them when asked
from ..cgroups import Cgroups
from ..ddline import rate
from ..engine import codes as c
from ..errors import ScenarioError, unknown
from ..filesystems import FILESYSTEMS, XFS, Ext4
from ..host import fitted_host
from ..kernels import Kernel
from ..plots.base import knob_label, knob_metadata
from ..scenario import Machine
from ..schedulers import CFQ, SCHEDULERS, available
from ..sweeps import scenario_at
from ..workloads import Dd, dd
from .canvas import HEIGHT, WIDTH, Canvas
from .controls import _choice, _rounded, control
from .learn import Exercise, Prediction, exercise, predict
from .machines import WRITES, Preset, code_of, presets

if TYPE_CHECKING:
    import pandas as pd

    from ..result import Result

KERNELS = ("4.4", "4.19", "5.1", "5.2", "5.10", "6.1")
NESTED = "user.slice/app"
CURVES = ("scheduler.slice_idle", "scheduler.group_idle", "device.completion_us", "device.queue_depth")


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
