"""The explorer of thread 1: dbench second by second under every waker rule, version and setting of BFQ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import ipywidgets as w

from .. import plots
from ..cgroups import Cgroups
from ..kernels import Kernel
from ..plots.throughput import whole_seconds
from ..result import Result
from ..scenario import Machine
from ..schedulers import BFQ, WakerRules, waker_rules
from ..threads import dbench as thread
from ..threads import wakers
from ..workloads import Dbench
from .controls import choice, control, rounded
from .course_canvas import CourseCanvas, part_of
from .explorer import Explorer
from .machines import Preset, dbench_presets

RULES = tuple(f"scheduler.waker_rules.{f.name}" for f in fields(WakerRules))
VERSIONS = (wakers.VERSIONS[0], "5.0", "5.1", "5.2", *wakers.VERSIONS[1:], "6.2")  # BFQs that differ
OTHERS = ("scheduler.slice_idle", "scheduler.low_latency")
DEVICE = ("device.completion_us", "device.queue_depth", "device.rotational", "device.write_cache")
SLICE_IDLE = 8.0  # ms, BFQ's default

UNUSED = {  # rule -> why it may be without effect although wakers are served
    "detect": "the same queues are sent into the pauses by other rules",
    "window_us": "the waker's completion is microseconds before the arrival, or milliseconds",
    "long_think_time": "the queues that matter have found their wakers either way",
    "detections": "the same queue is seen again at the next fsync",
    "selection": "the waker has no request when it could be served",
    "inject_woken": "the woken queue has no request when it could be served",
    "timeout_slices": "the detections follow each other within milliseconds",
    "arrival": "a queue of one dbench is empty, and idle, at each of these arrivals",
    "challenge": "no third queue is there to be taken for the waker",
    "ignore_shared": "no queues were merged",
    "direct_dispatch": "the requests came as early without it",
    "replace_at_once": "no third queue is there to be taken for the waker",
}


class DbenchExplorer(Explorer):
    """Thread 1 with its knobs: what `dbench_explorer` returns."""

    file_name = "dbench-explorer"
    unit = "MB/s"
    question = "Before you turn anything: what will dbench report on this machine?"

    def __init__(self, preset: str, predict_first: bool) -> None:
        self._ghost: tuple | None = None
        super().__init__(dbench_presets(), preset, predict_first, CourseCanvas())

    def _make_controls(self) -> dict[str, w.Widget]:
        rules = {name: control(name, getattr(WakerRules(), name.rpartition(".")[2])) for name in RULES}
        return {
            "scheduler.kernel": choice("BFQ of kernel", VERSIONS, "5.6.4", "every rule of BFQ, the wakers' included"),
            "scheduler.slice_idle": control("scheduler.slice_idle", SLICE_IDLE),
            "scheduler.low_latency": control("scheduler.low_latency", True),
            "dbench.cgroup": choice("dbench's cgroup", ["/", "user.slice"], "user.slice", "jbd2 is in the root"),
            "dbench.clients": control("dbench.clients", 1),
            "device.completion_us": control("device.completion_us", 700),
            "device.queue_depth": control("device.queue_depth", 32),
            "device.rotational": control("device.rotational", True),
            "device.write_cache": control("device.write_cache", False),
            **rules,
        }

    def _columns(self) -> Sequence[Sequence[w.Widget]]:
        widgets = list(self.controls.values())
        others = len(widgets) - len(RULES)
        half = len(RULES) // 2
        return [widgets[:others], widgets[others : others + half], widgets[others + half :]]

    # -----------------------------------------------------------------------------------------------------------------
    # what the controls say

    @property
    def version(self) -> str:
        """The kernel whose BFQ it is."""
        return self.controls["scheduler.kernel"].value

    @property
    def rules(self) -> WakerRules | None:
        """The waker rules that the controls describe; None if they are the version's own."""
        values = {name.rpartition(".")[2]: self.controls[name].value for name in RULES}
        rules = WakerRules(**{**values, "window_us": rounded(values["window_us"])})
        return None if rules == waker_rules(self.version) else rules

    @property
    def machine(self) -> Machine:
        """The machine that the controls describe."""
        v = {name: widget.value for name, widget in self.controls.items()}
        base = self._now.machine
        device = {name.rpartition(".")[2]: v[name] for name in DEVICE}
        device["completion_us"] = rounded(device["completion_us"], 5)
        slice_idle = rounded(v["scheduler.slice_idle"])
        return replace(
            base,
            device=replace(base.device, **device),
            scheduler=BFQ(
                slice_idle=None if slice_idle == SLICE_IDLE else slice_idle,
                low_latency=v["scheduler.low_latency"],
                kernel=self.version,
                waker_rules=self.rules,
            ),
            cgroups=Cgroups(["user.slice"]),
        )

    @property
    def job(self) -> Dbench:
        """The dbench that the controls describe."""
        return replace(
            thread.job(), clients=self.controls["dbench.clients"].value, cgroup=self.controls["dbench.cgroup"].value
        )

    def _load(self, preset: Preset) -> None:
        self._now = preset
        scheduler, device = preset.machine.scheduler, preset.machine.device
        values: dict[str, Any] = {
            "scheduler.kernel": scheduler.kernel,
            "scheduler.slice_idle": SLICE_IDLE if scheduler.slice_idle is None else scheduler.slice_idle,
            "scheduler.low_latency": scheduler.low_latency,
            "dbench.cgroup": preset.cgroup,
            "dbench.clients": 1,
            **{name: getattr(device, name.rpartition(".")[2]) for name in DEVICE},
        }
        for name, value in values.items():
            self.controls[name].value = value
        self._load_rules()

    def _load_rules(self) -> None:
        """Set the rules to those of the version."""
        rules = waker_rules(self.version)
        for name in RULES:
            self.controls[name].value = getattr(rules, name.rpartition(".")[2])

    # -----------------------------------------------------------------------------------------------------------------
    # what happens

    def _react(self, name: str) -> str:
        if name == "scheduler.kernel":
            self._load_rules()
            if Kernel(self.version) < "5.3":
                return f"BFQ of {self.version} knows no wakers, so their rules cannot be turned."
            return f"BFQ of {self.version}: the waker rules are those that it has."
        return ""

    def _live(self) -> dict[str, bool]:
        possible = Kernel(self.version) >= "5.3"
        detect = self.controls[RULES[0]].value
        return {name: possible and (detect or name == RULES[0]) for name in RULES}

    def _dress(self) -> None:
        locked = self._locked
        said = {} if locked else self._now.published
        times = dict(zip(said, wakers.published_times(), strict=not locked))
        self.canvas.dress(
            {label.partition(" (")[0]: value for label, value in said.items()},
            times,
            None if locked else wakers.published_idles(),
            () if locked else self._now.measured,
            int(thread.job().warmup_s),
            self._guess is not None,
        )

    def _rows(self) -> Sequence[str]:
        return ("dbench", "jbd2") if self.job.clients == 1 else ("dbench 1", "jbd2", "other clients")

    def _drawn(self) -> tuple:
        """What the picture shows besides the lanes: course, parts of an fsync in ms, idles."""
        second, rate, _ = whole_seconds(self.result)
        budget: dict[str, float] = {}
        for row in self.result.time_budget.itertuples():
            budget[part_of(row.what)] = budget.get(part_of(row.what), 0.0) + 1e3 * row.per_op_s
        return (second, rate), budget, self.result.idles_per_op

    def _remember(self) -> None:
        self._ghost = self._drawn()

    def _forget(self) -> None:
        self._ghost = None

    def _simulate(self, machine: Machine, job: Dbench) -> None:
        self.result = wakers.counted(machine, job)
        self.table = self.result.course

    def _number(self, result: Result) -> float:
        return result.throughput_MBs

    def _draw(self) -> None:
        canvas, result = self.canvas, self.result
        course, budget, idles = self._drawn()
        ghost, ghost_budget, ghost_idles = self._ghost or (None, None, None)
        canvas.show_course(course, ghost, self._guess)
        canvas.show_budget(budget, ghost_budget)
        canvas.show_idles(idles, ghost_idles)
        canvas.headline.set_text(
            f"BFQ of {self.version}: {result.throughput_MBs:.3g} MB/s (at the end {wakers.last_seconds(result):.3g}), "
            f"{idles:.2f} idles an fsync"
        )
        canvas.known.set_text(self._known())
        clients = len(result.scenario.jobs)
        row_of = [0] + [2] * (clients - 1) + [1]
        canvas.show_lanes(plots.lanes(result, plots.typical_operation(result)), self._rows(), row_of)

    def _known(self) -> str:
        """Who is whose waker."""
        if Kernel(self.version) < "5.3" or not self.controls[RULES[0]].value:
            return "no waker is looked for"
        found = wakers.found_wakers(self.result)
        if len(found) > 2:
            return f"{sum(v is not None for v in found.values())} of {len(found)} queues know a waker at the end"
        return "at the end " + ", ".join(f"{name}'s waker is {waker or 'not known'}" for name, waker in found.items())

    def _why_unchanged(self, name: str) -> str:
        short = name.rpartition(".")[2]
        if name in RULES:
            return self._why_rule(short)
        reasons = {
            "device.queue_depth": "Nothing changed: so few requests are there at once that no depth holds them back.",
            "scheduler.slice_idle": "Nothing changed: no window runs to its end here, however long it may be.",
            "scheduler.low_latency": "Nothing changed: no raised queue is waited for here.",
            "dbench.cgroup": "Nothing changed: no window hangs on the cgroup here.",
        }
        return reasons.get(name, f"Nothing changed: {short} does not matter on this machine.")

    def _why_rule(self, rule: str) -> str:
        value = {name.rpartition(".")[2]: self.controls[name].value for name in RULES}
        if Kernel(self.version) < "5.3":
            return f"BFQ of {self.version} knows no wakers; choose 5.3 or later."
        if not value["detect"] and rule != "detect":
            return "No waker is looked for, so no other rule has anything to do: turn detect on."
        if not self.result.idling.windows.sum():
            return "Nothing changed: no queue is waited for, so there is no pause in which a waker could be served."
        served = value["selection"] == "waker's request" or value["inject_woken"]
        if not served:
            return (
                f"Nothing changed: {self._known()}, but a waker is never served while selection is "
                f'"{value["selection"]}". Turn that first.'
            )
        return f"Nothing changed: {UNUSED[rule]}."


def dbench_explorer(preset: str = "thread 1: 5.6.4", predict_first: bool = True) -> DbenchExplorer:
    """Thread 1 to be explored: every waker rule, BFQ's version, slice_idle, low_latency, cgroup, clients and device.

    Above, dbench's MB/s second by second with what was published, and with what a real kernel did where the preset is
    one that was measured; the parts of an fsync's time; the idle windows that it waits out; each with the state before
    the last turn. Below, one fsync near the end of the run. `predict_first` asks for a number before anything moves.

    Raises ScenarioError for an unknown preset.

    >>> explorer = dbench_explorer(predict_first=False)
    >>> explorer.controls["scheduler.slice_idle"].value = 0
    >>> explorer.result.throughput_MBs > 190
    True
    """
    return DbenchExplorer(preset, predict_first)


__all__ = ["DbenchExplorer", "dbench_explorer"]
