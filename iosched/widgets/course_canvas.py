"""Thread 1's picture: dbench second by second, the parts of an fsync, its idle windows, and one fsync."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from ..plots.base import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    RED,
    SKY,
    STYLE,
    draw_published,
)
from .canvas import MOVING, Canvas

RATES = (250, 350, 500, 1000, 2000, 5000, 10_000)  # MB/s, the steps of the throughput axis
TIMES = (8, 16, 32, 64, 128, 256, 1000, 10_000)  # ms, those of an fsync
IDLES = (1, 2, 5, 10, 100)  # those of the idle windows of an fsync
PARTS = {  # part of an fsync -> its style
    "device": {"facecolor": BLUE},
    "host": {"facecolor": GREY},
    "hand-over": {"facecolor": SKY},
    "idle for dbench": {"facecolor": ORANGE, "hatch": "//"},
    "idle for jbd2": {"facecolor": RED, "hatch": ".."},
}
BEFORE, NOW = 0, 1


def part_of(what: str) -> str:
    """The part of `PARTS` that a row of `Result.time_budget` belongs to."""
    if what.startswith("idling"):
        return "idle for jbd2" if "for jbd2" in what or "for xfs log" in what else "idle for dbench"
    return next(part for part in PARTS if what.startswith(part))


class CourseCanvas(Canvas):
    """Above MB/s, an fsync's time budget and its idles, each with the state before; below one fsync."""

    height = 760

    def __init__(self) -> None:
        super().__init__(3, [1.75, 1], left=0.115, right=0.975, top=0.885, bottom=0.085, hspace=0.42)
        self._static: list[Any] = []
        with rc_context(STYLE):
            inner = self.grid[0].subgridspec(1, 3, width_ratios=[3.4, 1.25, 0.95], wspace=0.4)
            self.curve_axes, self.budget_axes, self.idle_axes = (self.figure.add_subplot(cell) for cell in inner)
            ax = self.curve_axes
            ax.set(xlabel="time since dbench began (s)", ylabel="throughput (MB/s)")
            ax.set(xlim=(0, 20), ylim=(0, RATES[0]))
            ax.grid(color=PALE, lw=0.8)
            (self.ghost,) = ax.plot([], [], color=GREY, alpha=0.45, lw=5, label="before", **MOVING)
            (self.now,) = ax.plot([], [], "o-", color=BLUE, mec="white", label="simulated", **MOVING)
            (self.guess,) = ax.plot([], [], color=INK, ls=":", lw=2.5, label="your prediction", **MOVING)
            self.parts = {
                name: PolyCollection([], edgecolor="white", lw=0.8, **style, **MOVING) for name, style in PARTS.items()
            }
            for bars in self.parts.values():
                self.budget_axes.add_collection(bars, autolim=False)
            self.idle_bars = PolyCollection([], facecolor=ORANGE, hatch="//", edgecolor="white", **MOVING)
            self.idle_axes.add_collection(self.idle_bars, autolim=False)
            for side, title in ((self.budget_axes, "time of an fsync (ms)"), (self.idle_axes, "idles an fsync")):
                side.set_xlim(-0.5, 1.5)
                side.set_xticks([BEFORE, NOW], ["before", "now"])
                side.set_title(title, fontsize=14, loc="right")
            self.moving = [(ax, a) for a in (self.ghost, self.guess, self.now)]
            self.moving += [(self.budget_axes, bars) for bars in self.parts.values()]
            self.moving += [(self.idle_axes, self.idle_bars)]
            self.known = self.figure.text(0.115, 1 - 54 / self.height, "", fontsize=13, color=GREY, **MOVING)
            self.moving += [(self.figure, self.known)]
            self.lane_axes.set_xlabel("time since one fsync began (ms)", labelpad=1)
            frames = "framed: sent while kept for another (injected); red: kept idle until the timer fired"
            self.lane_axes.set_title(frames, fontsize=11, color=GREY, loc="left", pad=3)

    def dress(
        self,
        published: Mapping[str, Any],
        times: Mapping[str, Any],
        idles: float | None,
        measured: Sequence[float],
        warmup: int,
        guessed: bool,
    ) -> None:
        """What stands still: published throughputs (bytes/s), times of an fsync (s) and idles, a real kernel's course
        (MB/s in each counted second), the legends."""
        for artist in self._static:
            artist.remove()
        with rc_context(STYLE):
            axes = (self.curve_axes, self.budget_axes, self.idle_axes)
            before = {artist for ax in axes for artist in ax.get_children()}
            for ax, values, factor in ((axes[0], published, 1e-6), (axes[1], times, 1e3)):
                for k, (label, value) in enumerate(values.items()):
                    draw_published(ax, value, factor, label, colour=(RED, PURPLE)[k % 2])
            if idles is not None:
                draw_published(axes[2], idles)
            if warmup:
                axes[0].axvspan(0, warmup, color=PALE, alpha=0.6, lw=0, label="warm-up")
            if measured:
                at = warmup + 1 + np.arange(len(measured))
                axes[0].plot(at, measured, "x", color=INK, ms=10, mew=2.5, label="real kernel")
            self._static = [a for ax in axes for a in ax.get_children() if a not in before]
            own = [a for a in self._static if a.axes is axes[0]]
            named = [a for a in own if a.get_label() and not str(a.get_label()).startswith("_")]
            handles = [self.now, self.ghost, *named, *([self.guess] if guessed else [])]
            axes[0].legend(handles=handles, loc="upper right", fontsize=10, framealpha=0.9, labelspacing=0.3)
            patches = [Patch(label=name, edgecolor="white", **style) for name, style in PARTS.items()]
            axes[1].legend(handles=patches, loc="upper center", bbox_to_anchor=(0.85, -0.09), ncols=3, fontsize=10,
                           frameon=False, handlelength=1.2, columnspacing=1)  # fmt: skip
        self.standing = (tuple(published), tuple(times), idles, tuple(measured), warmup, guessed)

    def show_course(self, now: tuple[np.ndarray, np.ndarray], ghost: tuple | None, guess: float | None) -> None:
        """MB/s at the ends of seconds, now and before the last turn."""
        self.now.set_data(*now)
        self.ghost.set_data(*(ghost or ([], [])))
        self.guess.set_data(*([[], []] if guess is None else [[0, 1e6], [guess, guess]]))
        top = max(float(y.max(initial=0)) for y in (now[1], *([ghost[1]] if ghost else [])))
        self.curve_axes.set_xlim(0, max(float(now[0].max(initial=1)), 2) + 0.5)
        self.curve_axes.set_ylim(0, _step(RATES, 1.45 * top))

    def show_budget(self, now: Mapping[str, float], before: Mapping[str, float] | None) -> None:
        """Parts of an fsync (`PARTS`), ms, as stacks."""
        verts: dict[str, list[Any]] = {name: [] for name in PARTS}
        top = 0.0
        for x, budget in ((BEFORE, before), (NOW, now)):
            base = 0.0
            for name in PARTS:
                size = (budget or {}).get(name, 0.0)
                verts[name].append(_box(x, base, base + size))
                base += size
            top = max(top, base)
        for name, bars in self.parts.items():
            bars.set_verts(verts[name])
        self.budget_axes.set_ylim(0, _step(TIMES, 1.05 * top))

    def show_idles(self, now: float, before: float | None) -> None:
        """Idle windows that an fsync waited out."""
        self.idle_bars.set_verts([_box(BEFORE, 0, before or 0.0), _box(NOW, 0, now)])
        self.idle_axes.set_ylim(0, _step(IDLES, max(now, before or 0.0)))


def _box(x: float, low: float, high: float) -> list[tuple[float, float]]:
    return [(x - 0.36, low), (x - 0.36, high), (x + 0.36, high), (x + 0.36, low)]


def _step(steps: Sequence[float], value: float) -> float:
    """The axis ends at the first of the steps that has room for the value."""
    return next((s for s in steps if s >= value), value)


__all__ = ["CourseCanvas", "part_of"]
