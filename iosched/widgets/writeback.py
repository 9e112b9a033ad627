"""The explorer of thread 3: a reader beside a buffered writer, with every knob that decides who gets the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import ipywidgets as w

from ..devices import Disk
from ..kernels import Kernel
from ..memory import Memory
from ..scenario import WBT_SINCE, Machine
from ..schedulers import available
from ..threads import writeback as thread
from ..threads.mixes import Mix, watch
from .controls import CONTROL, LABEL, choice, control
from .explorer import Explorer
from .machines import Preset
from .mix_canvas import MixCanvas

SHOWN_S, STEP_S = 8.0, 0.5  # how long a run of the explorer is, and how often it is looked at
DISKS = {words: system for system, words in thread.WORDS.items()}
WBT = {"default": None, "0 (off)": 0, "2000 (default of SSDs)": 2_000, "20000": 20_000, "75000 (of disks)": 75_000}
CGROUPS = ("user.slice", "/")


@cache
def writeback_presets() -> dict[str, Preset]:
    """The machines of the thread by name, each under CFQ as it was found, and the first one's cures.

    >>> list(writeback_presets())[0]
    'WD 7200 rpm, cfq'
    """
    found = {}
    for system, experiment in thread.SETUPS:
        name = f"{thread.WORDS[system]}, {experiment}"
        found[name] = Preset(thread.machine(system, experiment), thread.SYSTEMS[system].cgroup)
    return found


class WritebackExplorer(Explorer):
    """Thread 3 with its knobs: what `writeback_explorer` returns. `result` is a `threads.mixes.Mix`."""

    file_name = "writeback-explorer"
    unit = "MB/s"
    question = "Before you turn anything: how many MB/s will the reader get beside the writer?"

    def __init__(self, preset: str, predict_first: bool) -> None:
        self._ghost: tuple | None = None
        super().__init__(writeback_presets(), preset, predict_first, MixCanvas())

    def _make_controls(self) -> dict[str, w.Widget]:
        return {
            "disk": choice("disk", list(DISKS), next(iter(DISKS)), "the three devices of the thread"),
            "device.queue_depth": control("device.queue_depth", 32),
            "device.write_cache": control("device.write_cache", True),
            "scheduler": choice("scheduler", ("cfq", "bfq", "deadline", "mq-deadline", "noop", "none"), "cfq",
                                "queue/scheduler"),
            "wbt_lat_usec": choice("wbt_lat_usec (us)", list(WBT), "default", "queue/wbt_lat_usec, since kernel 4.10"),
            "kernel": choice("kernel", ("4.9", "4.18"), "4.18", "4.9 has no WBT"),
            "memory.dirty_background_ratio": percent("dirty_background_ratio (%)", 1, 40, 10),
            "memory.dirty_ratio": percent("dirty_ratio (%)", 2, 60, 20),
            "memory.size_mb": choice("memory (MiB)", (512, 1024, 2048, 4096, 8192, 16384), 512, "free, page cache"),
            "cgroup": choice("cgroup of the jobs", CGROUPS, CGROUPS[0], "the flusher writes in the root's name"),
        }  # fmt: skip

    def _columns(self) -> Sequence[Sequence[w.Widget]]:
        widgets = list(self.controls.values())
        return [widgets[:5], widgets[5:]]

    # -----------------------------------------------------------------------------------------------------------------
    # what the controls say

    @property
    def system(self) -> str:
        """The thread's system whose disk is chosen."""
        return DISKS[self.controls["disk"].value]

    @property
    def machine(self) -> Machine:
        """The machine that the controls describe: the disk's own system, and what was turned."""
        v = {name: widget.value for name, widget in self.controls.items()}
        base = thread.machine(self.system)
        device = replace(base.device, queue_depth=v["device.queue_depth"], write_cache=v["device.write_cache"])
        memory = Memory(
            size_mb=v["memory.size_mb"],
            dirty_background_ratio=v["memory.dirty_background_ratio"],
            dirty_ratio=v["memory.dirty_ratio"],
        )
        changed = replace(base, kernel=v["kernel"], scheduler=v["scheduler"], device=device, memory=memory)
        return replace(changed, wbt_lat_usec=WBT[v["wbt_lat_usec"]])

    @property
    def job(self) -> list:  # type: ignore[override]
        """Reader and writer."""
        cgroup = self.controls["cgroup"].value
        return [thread.reader(cgroup), thread.writer(cgroup)]

    @property
    def experiment(self) -> str:
        """The thread's experiment that the controls describe; "" if it is none."""
        machine, cgroup = self.machine, self.controls["cgroup"].value
        for system, experiment in thread.SETUPS:
            if system == self.system and (machine, cgroup) == (thread.machine(system, experiment), self._home):
                return experiment
        return ""

    @property
    def _home(self) -> str:
        """The cgroup in which the jobs of the chosen disk's system run."""
        return thread.SYSTEMS[self.system].cgroup

    def _load(self, preset: Preset) -> None:
        self._now = preset
        machine = preset.machine
        memory = machine.memory
        rotational = machine.device.rotational
        system = ("seagate" if machine.kernel == "4.9" else "wd") if rotational else "m4"
        values: dict[str, Any] = {
            "disk": thread.WORDS[system],
            "device.queue_depth": self._nearest_depth(machine),
            "device.write_cache": machine.device.write_cache,
            "kernel": machine.kernel,
            "scheduler": machine.scheduler_name,
            "wbt_lat_usec": next(k for k, v in WBT.items() if v == machine.wbt_lat_usec),
            "memory.dirty_background_ratio": int(memory.dirty_background_ratio),
            "memory.dirty_ratio": int(memory.dirty_ratio),
            "memory.size_mb": memory.size_mb,
            "cgroup": preset.cgroup,
        }
        for name, value in values.items():
            self.controls[name].value = value

    def _nearest_depth(self, machine: Machine) -> int:
        """31, which kernels before 4.18 have, is a step of its own on the slider."""
        slider = self.controls["device.queue_depth"]
        depths = sorted({*slider.options, 31})
        if tuple(slider.options) != tuple(depths):
            slider.options = depths
        return machine.device.queue_depth

    # -----------------------------------------------------------------------------------------------------------------
    # what happens

    def _react(self, name: str) -> str:
        if name == "disk":
            system = thread.SYSTEMS[self.system]
            self.controls["kernel"].value = system.kernel
            self.controls["device.queue_depth"].value = system.device.queue_depth
            self.controls["memory.size_mb"].value = system.memory_mb
            self.controls["cgroup"].value = system.cgroup
            name = "kernel"
        if name != "kernel":
            return ""
        kernel, scheduler = self.controls["kernel"].value, self.controls["scheduler"]
        said = f"Kernel {kernel}, and the cgroup and memory of the system that the disk is in."
        if scheduler.value not in available(Kernel(kernel)):
            scheduler.value = "cfq"
            said = f"{said} That kernel has no such scheduler: CFQ."
        if not self._has_wbt:
            self.controls["wbt_lat_usec"].value = "default"
        return said

    @property
    def _has_wbt(self) -> bool:
        return Machine(kernel=self.controls["kernel"].value).version >= WBT_SINCE

    def _live(self) -> dict[str, bool]:
        return {"wbt_lat_usec": self._has_wbt}

    def _dress(self) -> None:
        experiment = "" if self._locked else self.experiment
        said = thread.published(self.system, experiment) if experiment else {}
        quoted = thread.published_buckets("cfq") if (self.system, experiment) == ("wd", "cfq") else {}
        self.canvas.dress(said, quoted, self._guess is not None)

    def _rows(self) -> Sequence[str]:
        return ()

    def _remember(self) -> None:
        self._ghost = self.result.seconds, self.result.buckets()

    def _forget(self) -> None:
        self._ghost = None

    def _simulate(self, machine: Machine, job: list) -> None:
        self.result = watch(machine, job, step_s=STEP_S, until_s=SHOWN_S)
        self.table = self.result.seconds

    def _number(self, result: Mix) -> float:  # type: ignore[override]
        return result.reader_MBs

    def _draw(self) -> None:
        self._dress()
        canvas, mix = self.canvas, self.result
        seconds, buckets = self._ghost or (None, None)
        canvas.show(mix.seconds, seconds, self._guess)
        canvas.show_buckets(mix.buckets(), buckets)
        wbt = f", WBT at {self.machine.wbt_target_us / 1e3:g} ms" if self.machine.wbt_target_us else ""
        canvas.headline.set_text(
            f"{self.machine.scheduler_name}{wbt}: reader {mix.reader_MBs:.3g} MB/s, writer {mix.writer_MBs:.3g} MB/s"
        )

    def _why_unchanged(self, name: str) -> str:
        rotating = isinstance(self.machine.device, Disk)
        reasons = {
            "device.queue_depth": "Nothing changed: the scheduler does not fill the disk's queue.",
            "device.write_cache": "Nothing changed: "
            + ("no write gets as far as the disk." if rotating else "of an SSD's cache only the flushes are modelled."),
            "wbt_lat_usec": "Nothing changed: no read comes near the target, or the writer is held by the scheduler.",
            "kernel": "Nothing changed: between the two only WBT and BFQ came, and the depth of 32.",
            "memory.dirty_background_ratio": "Nothing changed: the writer is over the limit nearly from the start.",
            "memory.dirty_ratio": "Nothing changed: the limit holds the writer; the flusher has enough to do.",
            "memory.size_mb": "Nothing changed: the writer fills the smaller memory as well.",
            "cgroup": "Nothing changed: this scheduler knows no cgroups.",
            "scheduler": "Nothing changed: the two send the same requests in the same order here.",
        }
        return reasons.get(name, "Nothing changed.")


def percent(label: str, low: int, high: int, value: int) -> w.IntSlider:
    """A slider of whole percents, as wide as a knob."""
    return w.IntSlider(
        value, min=low, max=high, description=label, style={"description_width": LABEL}, layout=w.Layout(width=CONTROL)
    )


def writeback_explorer(preset: str = "WD 7200 rpm, cfq", predict_first: bool = True) -> WritebackExplorer:
    """Thread 3 to be explored: disk, NCQ depth, write cache, scheduler, WBT's target, kernel, dirty limits, cgroup.

    Above, what crossed the disk in every half second, with what was published where the controls are those of an
    experiment of the thread; below, the reader's latencies in fio's groups; each with the state before the last turn.

    Raises ScenarioError for an unknown preset.

    >>> explorer = writeback_explorer(predict_first=False)
    >>> before = explorer.result.reader_MBs
    >>> explorer.controls["device.write_cache"].value = False
    >>> explorer.result.reader_MBs > 1.5 * before
    True
    """
    return WritebackExplorer(preset, predict_first)


__all__ = ["WritebackExplorer", "writeback_explorer", "writeback_presets"]
