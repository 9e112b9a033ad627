"""The explorer of thread 2: a random reader beside greedy processes, under any control, device and scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import ipywidgets as w
import numpy as np

from ..plots.latency import MARKED, PERCENTS, distribution
from ..result import Result
from ..scenario import Machine
from ..threads import claims
from ..threads import io_latency as thread
from ..workloads import Fio
from .controls import CONTROL, LABEL, choice, rounded
from .explorer import Explorer
from .latency_canvas import LatencyCanvas
from .machines import Preset

NAMES = {"nvme": "NVMe SSD", "sata": "SATA SSD", "hdd": "HDD"}
SCHEDULERS = ("as the control has it", "none", "mq-deadline", "kyber", "bfq")
COUNTS = (0, 1, 2, 4, 8, 15, 30)


@cache
def latency_presets() -> dict[str, Preset]:
    """The thread's three devices by name.

    >>> list(latency_presets())[1]
    'thread 2: SATA SSD'
    """
    return {f"thread 2: {name}": Preset(thread.scenario(device=key)[0]) for key, name in NAMES.items()}


class LatencyExplorer(Explorer):
    """Thread 2 with its knobs: what `latency_explorer` returns."""

    file_name = "io-latency-explorer"
    unit = "ms"
    question = "Fifteen greedy readers, no control: how long will a random read take on average?"

    def __init__(self, preset: str, predict_first: bool) -> None:
        self._ghost: np.ndarray | None = None
        super().__init__(latency_presets(), preset, predict_first, LatencyCanvas())

    def _make_controls(self) -> dict[str, w.Widget]:
        style, layout = {"description_width": LABEL}, w.Layout(width=CONTROL)

        def box(label: str, tip: str) -> w.Checkbox:
            return w.Checkbox(description=label, tooltip=tip, style=style, layout=layout)

        def steps(label: str, options: Sequence[Any], value: Any, tip: str) -> w.SelectionSlider:
            return w.SelectionSlider(options=options, value=value, description=label, tooltip=tip, style=style,
                                     layout=layout)  # fmt: skip

        return {
            "device": choice("device", [(name, key) for key, name in NAMES.items()], "nvme", "of the thread"),
            "control": choice("control", thread.CONTROLS, "none", "who looks after the target"),
            "scheduler": choice("scheduler", SCHEDULERS, SCHEDULERS[0], "the queue's scheduler"),
            "interferers": choice("others", ["readers", "writers"], "readers", "in sequence; writers sync each write"),
            "direct": box("others' I/O is direct", "O_DIRECT: single requests of 4 KiB, no readahead"),
            "n": steps("number of others", COUNTS, 15, "processes, each with a file of its own"),
            "together": box("all others in one cgroup", "io.latency limits a cgroup, not a process"),
            "depth": steps("others' iodepth", (1, 2, 4, 8, 16, 32), 1, "direct readers only: requests at once"),
            "target_us": w.FloatLogSlider(
                10,
                base=10,
                min=1,
                max=5,
                step=0.1,
                description="io.latency target (us)",
                readout_format=".3g",
                style=style,
                layout=layout,
            ),
            "seconds": steps("seconds", (0.5, 1, 2, 5, 10), 2, "how long the target runs"),
        }

    def _columns(self) -> Sequence[Sequence[w.Widget]]:
        widgets = list(self.controls.values())
        return [widgets[:3], widgets[3:7], widgets[7:]]

    # -----------------------------------------------------------------------------------------------------------------
    # what the controls say

    @property
    def setup(self) -> thread.Setup:
        """The thread's set-up with what the controls change."""
        v = {name: widget.value for name, widget in self.controls.items()}
        chosen = None if v["scheduler"] == SCHEDULERS[0] else v["scheduler"]
        kind = f"{'direct' if v['direct'] else 'buffered'} {v['interferers']}"
        same = ("device", "control", "n", "together", "depth", "seconds")
        target = rounded(v["target_us"], 2)
        return thread.Setup(interferers=kind, target_us=target, scheduler=chosen, **{name: v[name] for name in same})

    @property
    def machine(self) -> Machine:
        """The machine that the controls describe."""
        return thread.scenario(self.setup)[0]

    @property
    def job(self) -> list[Fio]:  # type: ignore[override]
        """The target and the others."""
        return thread.scenario(self.setup)[1]

    def _load(self, preset: Preset) -> None:
        device = next(key for key, name in NAMES.items() if self.preset.value.endswith(name))
        start = {"device": device, "control": "none", "scheduler": SCHEDULERS[0], "interferers": "readers", "n": 15,
                 "direct": False, "together": False, "depth": 1, "target_us": 10, "seconds": 2}  # fmt: skip
        for name, value in start.items():
            self.controls[name].value = value

    # -----------------------------------------------------------------------------------------------------------------
    # what happens

    def _react(self, name: str) -> str:
        live = self._live()
        if not live["depth"] and self.controls["depth"].value > 1:
            self.controls["depth"].value = 1
            return "iodepth needs direct reads: through the page cache an operation waits for the one before."
        return ""

    def _live(self) -> dict[str, bool]:
        v = {name: widget.value for name, widget in self.controls.items()}
        return {"target_us": v["control"] == "io.latency", "depth": v["direct"] and v["interferers"] == "readers"}

    def _dress(self) -> None:
        self.canvas.dress({} if self._locked else self._published(), self._guess is not None)

    def _published(self) -> dict[str, float]:
        """What the thread says of this very set-up, in seconds."""
        s = self.setup
        if s != thread.Setup(device=s.device, control=s.control, interferers=s.interferers):
            return {}
        said = [c for c in claims("io-latency") if c.quantity == "target latency" and c.machine == s.device]
        found = [c.low for c in said if c.experiment == f"{s.interferers}, {s.control}"]
        return {f"published: {1e3 * found[-1]:g} ms": found[-1]} if found else {}

    def _rows(self) -> Sequence[str]:
        return ("target",)

    def _remember(self) -> None:
        self._ghost = distribution(self.result)

    def _forget(self) -> None:
        self._ghost = None

    def _number(self, result: Result) -> float:
        return 1e3 * float(result.jobs.latency_mean_s.iloc[0])

    def _simulate(self, machine: Machine, job: Any) -> None:
        import pandas as pd

        self.result = thread.simulated(self.setup)
        self.table = pd.DataFrame({"percent": PERCENTS, "latency_ms": distribution(self.result)})

    def _draw(self) -> None:
        canvas, result, setup = self.canvas, self.result, self.setup
        self._dress()
        canvas.curve.set_data(self.table.latency_ms, PERCENTS)
        canvas.marks.set_data([1e3 * result.latency_percentile(0, p) for p in MARKED], MARKED)
        mean = self._number(result)
        canvas.mean.set_data([mean], [50])
        alone = distribution(_alone(setup.device))
        canvas.alone.set_data(alone, PERCENTS)
        canvas.ghost.set_data(*([[], []] if self._ghost is None else [self._ghost, PERCENTS]))
        kind = setup.interferers if setup.n else "nobody"
        plain = setup.scheduler is None and setup.depth == 1
        form = thread.calculated_s(result.scenario.machine.device, kind, setup.control, setup.n) if plain else None
        canvas.formula.set_data(*([[], []] if form is None else [[1e3 * form] * 2, [0, 101]]))
        guess = self._guess
        canvas.guess.set_data(*([[], []] if guess is None else [[guess, guess], [0, 101]]))
        rates = result.jobs.bytes_per_s / 1e6
        others = float(rates.iloc[1:].sum())
        canvas.show_rates((others, float(rates.iloc[0])))
        canvas.headline.set_text(
            f"{NAMES[setup.device]}, {setup.control}: a read takes {mean:.3g} ms on average, the others get "
            f"{others:.3g} MB/s"
        )

    def _code(self) -> str:
        """The set-up as it differs from the thread's, and its run."""
        plain = thread.Setup()
        given = [f"{k}={v!r}" for k, v in vars(self.setup).items() if v != getattr(plain, k)]
        return (
            "from iosched.threads import io_latency\n\n"
            f"result = io_latency.simulated({', '.join(given)})\nprint(result.jobs.head(2))\n"
        )

    def _why_unchanged(self, name: str) -> str:
        s = self.setup
        if name in ("control", "target_us", "together") and s.control == "io.latency":
            return (
                "Nothing changed: the depth is halved every half second at most, and a process that waits for each of "
                "its reads never needs more than two. Let it run for longer, or give the others a depth."
            )
        if name == "n" and s.control == "bfq":
            return "Nothing changed: BFQ keeps the device for the target, however many others wait."
        if name == "together":
            return f"Nothing changed: {s.control} does not count cgroups here."
        if name == "direct" and s.interferers.endswith("writers"):
            return "Nothing changed: each write is synced at once, through the page cache or past it."
        return "Nothing changed: it does not matter in this set-up."


@cache
def _alone(device: str) -> Result:
    """The target by itself, half a second."""
    return thread.simulated(device=device, interferers="nobody", seconds=0.5)


def latency_explorer(preset: str = "thread 2: SATA SSD", predict_first: bool = True) -> LatencyExplorer:
    """Thread 2 to be explored: target, number and kind of the others, buffered or direct, device, depth, scheduler.

    Above, the distribution of the target's latencies on a logarithmic axis: percentiles, mean, what it would be alone,
    the curve before the last turn as a ghost, the mean by formula, what was published. Below, what the target and the
    others get. `predict_first` asks for a number before anything moves.

    Raises ScenarioError for an unknown preset.

    >>> explorer = latency_explorer("thread 2: HDD", predict_first=False)
    >>> explorer.controls["control"].value = "bfq"
    >>> float(explorer.result.jobs.latency_mean_s.iloc[0]) < 0.1
    True
    """
    return LatencyExplorer(preset, predict_first)


__all__ = ["LatencyExplorer", "latency_explorer", "latency_presets"]
