"""The explorer of thread 0: dd's throughput over every knob of CFQ, the device, the file system and the cgroups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import numpy as np

from .. import closed_form, plots, simulate, sweep  # the functions: the package loads them when asked
from ..cgroups import Cgroups
from ..ddline import rate
from ..engine import codes as c
from ..filesystems import FILESYSTEMS, XFS, Ext4
from ..host import fitted_host
from ..kernels import Kernel
from ..plots.base import knob_label, knob_metadata
from ..scenario import Machine
from ..schedulers import CFQ, SCHEDULERS, available
from ..sweeps import scenario_at
from ..workloads import Dd, dd
from .controls import choice, control, rounded
from .curve_canvas import CurveCanvas
from .explorer import Explorer
from .machines import WRITES, Preset, presets

if TYPE_CHECKING:
    import pandas as pd

    from ..result import Result

KERNELS = ("4.4", "4.19", "5.1", "5.2", "5.10", "6.1")
NESTED = "user.slice/app"
CURVES = ("scheduler.slice_idle", "scheduler.group_idle", "device.completion_us", "device.queue_depth")


class DsyncExplorer(Explorer):
    """Thread 0 with its knobs: what `dsync_explorer` returns."""

    file_name = "dsync-explorer"
    unit = "kB/s"
    question = "Before you turn anything: what will dd report on this machine?"

    def __init__(self, preset: str, predict_first: bool) -> None:
        self._curve_key: Any = None
        self._ghost: tuple[str, np.ndarray, np.ndarray] | None = None
        super().__init__(presets(), preset, predict_first, CurveCanvas())

    def _make_more(self) -> dict[str, w.Widget]:
        axes = [(knob_label(x), x) for x in CURVES]
        self.curve = choice("curve over", axes, CURVES[0], "the knob on the curve's axis")
        return {"curve": self.curve}

    def _make_controls(self) -> dict[str, w.Widget]:
        groups = ["/", "system.slice", "user.slice", NESTED]
        return {
            "kernel": choice("kernel", KERNELS, "4.19", "sets the version of every part"),
            "scheduler": choice("scheduler", list(SCHEDULERS), "cfq", "/sys/block/DEV/queue/scheduler"),
            "scheduler.slice_idle": control("scheduler.slice_idle", 8),
            "scheduler.group_idle": control("scheduler.group_idle", 8),
            "filesystem": choice("file system", list(FILESYSTEMS), "ext4", "raw: the block device itself"),
            "dd.cgroup": choice("dd's cgroup", groups, "user.slice", "where dd's requests are charged"),
            "filesystem.jbd2_cgroup": choice("jbd2's cgroup", groups, "/", "the root, on every stock system"),
            "device.completion_us": control("device.completion_us", 100),
            "device.queue_depth": control("device.queue_depth", 32),
            "device.rotational": control("device.rotational", True),
            "device.write_cache": control("device.write_cache", False),
        }

    def _columns(self) -> Sequence[Sequence[w.Widget]]:
        names = list(self.controls)
        columns = [names[:4], names[4:7] + [names[9]], names[7:9] + [names[10]]]
        first, second, third = ([self.controls[n] for n in column] for column in columns)
        return [first, second, [*third, self.curve]]

    # -----------------------------------------------------------------------------------------------------------------
    # what the controls say

    @property
    def machine(self) -> Machine:
        """The machine that the controls describe."""
        v = {name: widget.value for name, widget in self.controls.items()}
        base = self._now.machine
        device = replace(
            base.device,
            completion_us=rounded(v["device.completion_us"]),
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
                slice_idle=rounded(v["scheduler.slice_idle"]), group_idle=rounded(v["scheduler.group_idle"])
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

    # -----------------------------------------------------------------------------------------------------------------
    # what happens

    def _react(self, name: str) -> str:
        if name == "kernel":
            wanted = self.controls["scheduler"].value
            kernel = self.controls["kernel"].value
            chosen = self._offer(kernel, wanted)
            if chosen != wanted:
                return f"{wanted} does not exist in kernel {kernel}, so the scheduler is now {chosen}."
        elif name == "device.rotational":
            slice_idle = CFQ().idle_defaults(self.controls[name].value)[0] / c.MSEC
            self.controls["scheduler.slice_idle"].value = slice_idle
            if self.controls["scheduler"].value == "cfq":
                return f"CFQ begins with slice_idle = {slice_idle:g} ms on such a device; group_idle stays."
        elif name == "curve":
            self._dress()
        return ""

    def _live(self) -> dict[str, bool]:
        cfq = self.controls["scheduler"].value == "cfq"
        return {
            "scheduler.slice_idle": cfq,
            "scheduler.group_idle": cfq,
            "filesystem.jbd2_cgroup": self.controls["filesystem"].value == "ext4",
        }

    def _dress(self) -> None:
        published = {} if self._locked else self._now.published
        self.canvas.dress(self.curve.value, published, self._guess is not None)

    def _rows(self) -> Sequence[str]:
        return ("dd", "jbd2")

    def _remember(self) -> None:
        self._ghost = (self.curve_shown, *self._line)

    def _forget(self) -> None:
        self._ghost = None

    def _number(self, result: Result) -> float:
        return result.bytes_per_s / 1e3

    def _simulate(self, machine: Machine, job: Dd) -> None:
        self.result = simulate(machine, job, trace=True)
        self.table = self._curve(machine, job)

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

    def _why_unchanged(self, name: str) -> str:
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


__all__ = ["DsyncExplorer", "dsync_explorer", "measure_slider"]
