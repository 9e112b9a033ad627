"""The explorer of thread 4: a stream that several nfsd threads serve, under every knob that matters to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ipywidgets as w
import numpy as np

from .. import simulate
from ..plots import stream_lanes
from ..queueing import cooperating
from ..result import Result
from ..scenario import Machine
from ..schedulers import OldCFQ
from ..schedulers.cfq_old import COOPERATORS
from ..threads import nfs as thread
from ..workloads import SharedReader
from .controls import choice, control, rounded
from .curve_canvas import CurveCanvas
from .explorer import Explorer
from .machines import Preset, nfs_presets

MOST_THREADS = 8  # lanes
SIZE, CURVE_SIZE = 200 * 2**20, 64 * 2**20  # bytes of a run, and of a point of the curve
BURSTS = (1, 2, 3, 4, 6, 8, 11, 15, 21, 26, 32)
SECONDS = 0.1  # of the lanes
DISKS = {"one": None, "two, striped": "striped", "two, mirrored": "mirrored"}


class NfsExplorer(Explorer):
    """Thread 4 with its knobs: what `nfs_explorer` returns."""

    file_name = "nfs-explorer"
    unit = "MB/s"
    question = "Before you turn anything: what will dd report on the client?"

    def __init__(self, preset: str, predict_first: bool) -> None:
        self._key: Any = None
        self._ghost: np.ndarray | None = None
        canvas = CurveCanvas(MOST_THREADS, (3, 2000), "dd's throughput (MB/s)", "time (ms), one disk", 1e-6, (1, 1))
        super().__init__(nfs_presets(), preset, predict_first, canvas)

    def _make_controls(self) -> dict[str, w.Widget]:
        threads = control("shared.threads", MOST_THREADS)
        threads.max = MOST_THREADS
        return {
            "scheduler": choice("scheduler", ["cfq", "deadline", "anticipatory", "noop"], "cfq", "of both disks"),
            "scheduler.slice_idle": control("scheduler.slice_idle", 10),
            "scheduler.cooperators": choice("cooperators", list(COOPERATORS), "none", "the patches"),
            "host.hz": choice("HZ", [100, 250, 300, 1000], 100, "ticks a second"),
            "shared.threads": threads,
            "shared.burst": control("shared.burst", 15),
            "shared.smooth": w.Checkbox(description="a piece at a time", tooltip="the next when one is read"),
            "shared.io_context": w.Checkbox(description="one io_context", tooltip="the threads share their parent's"),
            "volume": choice("disks", list(DISKS), "two, striped", "under the file system"),
        }  # fmt: skip

    def _columns(self) -> Sequence[Sequence[w.Widget]]:
        widgets = list(self.controls.values())
        return [widgets[:3], widgets[3:6], widgets[6:]]

    @property
    def machine(self) -> Machine:
        """The machine that the controls describe."""
        v = {name: widget.value for name, widget in self.controls.items()}
        scheduler: Any = v["scheduler"]
        if scheduler == "cfq":
            scheduler = OldCFQ(slice_idle=rounded(v["scheduler.slice_idle"]), cooperators=v["scheduler.cooperators"])
        base = self._now.machine
        layout = DISKS[v["volume"]]
        return replace(
            base,
            scheduler=scheduler,
            host=replace(base.host, hz=v["host.hz"]),
            volume=None if layout is None else replace(base.volume, layout=layout),
        )

    @property
    def job(self) -> SharedReader:
        """The read that the controls describe."""
        v = {name: widget.value for name, widget in self.controls.items()}
        return self._job(v["shared.burst"], SIZE)

    def _job(self, burst: int, size: int) -> SharedReader:
        smooth, shared = self.controls["shared.smooth"].value, self.controls["shared.io_context"].value
        return thread.job(
            threads=self.controls["shared.threads"].value, size=size, burst=1 if smooth else burst, ahead=burst,
            io_context="shared" if shared else "private", parent_context=shared,
        )  # fmt: skip

    def _load(self, preset: Preset) -> None:
        self._now = preset
        machine = preset.machine
        ours = machine.scheduler if isinstance(machine.scheduler, OldCFQ) else OldCFQ()
        values = {
            "scheduler": machine.scheduler_name,
            "scheduler.slice_idle": 1e3 * ours.slice_idle_ticks(machine.host.hz) / machine.host.hz,
            "scheduler.cooperators": ours.rule(machine.version),
            "host.hz": machine.host.hz,
            "shared.threads": MOST_THREADS,
            "shared.burst": thread.job().burst,
            "shared.smooth": False,
            "shared.io_context": False,
            "volume": "two, striped",
        }
        for name, value in values.items():
            self.controls[name].value = value

    def _react(self, name: str) -> str:
        if name == "host.hz":
            hz = self.controls[name].value
            ticks = OldCFQ().slice_idle_ticks(hz)
            self.controls["scheduler.slice_idle"].value = 1e3 * ticks / hz
            return f"slice_idle is counted in ticks: {ticks} of {1e3 / hz:.3g} ms by default."
        return ""

    def _live(self) -> dict[str, bool]:
        cfq = self.controls["scheduler"].value == "cfq"
        return {"scheduler.slice_idle": cfq, "scheduler.cooperators": cfq}

    def _dress(self) -> None:
        self.canvas.dress("shared.burst", {} if self._locked else self._now.published, self._guess is not None)

    def _rows(self) -> Sequence[str]:
        return [f"nfsd {k + 1}" for k in range(self.controls["shared.threads"].value)]

    def _remember(self) -> None:
        self._ghost = self.table.bytes_per_s.to_numpy()

    def _forget(self) -> None:
        self._ghost = None

    def _number(self, result: Result) -> float:
        return float(result.shared_reads.bytes_per_s.iloc[0]) * 1e-6

    def _simulate(self, machine: Machine, job: SharedReader) -> None:
        import pandas as pd

        self.result = simulate(machine, job, trace=True)
        key = machine, replace(job, burst=1, ahead=1)
        if key != self._key:
            self._key = key
            rates = [
                float(simulate(machine, self._job(burst, CURVE_SIZE)).shared_reads.bytes_per_s.iloc[0])
                for burst in BURSTS
            ]
            self._kept = pd.DataFrame({"shared.burst": BURSTS, "bytes_per_s": rates})
            self._kept["closed_form_bytes_per_s"] = [
                cooperating(machine, self._job(burst, CURVE_SIZE)).bytes_per_s for burst in BURSTS
            ]
        self.table = self._kept

    def _draw(self) -> None:
        canvas, result, table = self.canvas, self.result, self.table
        canvas.dots.set_data(table["shared.burst"], table.bytes_per_s * 1e-6)
        canvas.formula.set_data(table["shared.burst"], table.closed_form_bytes_per_s * 1e-6)
        canvas.ghost.set_data(*([[], []] if self._ghost is None else [BURSTS, self._ghost * 1e-6]))
        canvas.now.set_data([self.controls["shared.burst"].value], [self._number(result)])
        guess = self._guess
        canvas.guess.set_data(*([[], []] if guess is None else [list(canvas.curve_axes.get_xlim()), [guess, guess]]))
        stalls = int(result.idling.fired_held.sum())
        canvas.headline.set_text(
            f"{result.scenario.machine.scheduler_name}: {self._number(result):.1f} MB/s; {stalls} idle windows ran out "
            f"while a request waited, in {result.elapsed:.1f} s"
        )
        found = stream_lanes(result, SECONDS)
        canvas.show_lanes(found, self._rows(), range(len(found.tasks)))

    def _why_unchanged(self, name: str) -> str:
        short = name.rpartition(".")[2]
        if short == "cooperators":
            return "Nothing changed: no queue had to wait beside its cooperator, so there was nothing to cure."
        if short == "io_context":
            return "Nothing changed: the threads' queues did not have to wait for each other before either."
        return f"Nothing changed: the network is the limit, so {short} does not show."


def nfs_explorer(preset: str = "thread 4: CFQ, no patches", predict_first: bool = True) -> NfsExplorer:
    """Thread 4 to be explored: threads, bursts, ticks, slice_idle, cooperators, io_context, disks, live.

    Above, dd's throughput over the burst with which the client asks, simulated and by formula, beside what was
    published; below, a tenth of a second of the disk that is kept idle most, a lane a thread. `predict_first` asks for
    a number before anything moves.

    Raises ScenarioError for an unknown preset.

    >>> explorer = nfs_explorer(predict_first=False)
    >>> explorer.controls["scheduler"].value = "deadline"
    >>> bool(explorer.result.shared_reads.bytes_per_s.iloc[0] > 80e6)
    True
    """
    return NfsExplorer(preset, predict_first)


__all__ = ["NfsExplorer", "nfs_explorer"]
