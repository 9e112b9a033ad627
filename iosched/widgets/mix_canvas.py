"""Thread 3's picture: what reader and writer got in each interval, and the reader's latencies in fio's groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.collections import PolyCollection

from ..plots.base import BLUE, GREY, INK, ORANGE, PALE, RED, STYLE, draw_published
from ..threads.mixes import BUCKETS_MS
from .canvas import MOVING, Canvas

TOPS = (150, 300, 600)  # MB/s, the steps of the axis
LEAST = 1e-3  # %, the bottom of the latencies' axis
COLOURS = {"reader": BLUE, "writer": ORANGE}


class MixCanvas(Canvas):
    """Above MB/s of reader and writer, each with the state before; below the reader's latencies."""

    height = 700

    def __init__(self) -> None:
        super().__init__(0, [1.5, 1], left=0.085, right=0.975, top=0.9, bottom=0.09, hspace=0.42)
        self._static: list[Any] = []
        with rc_context(STYLE):
            ax = self.course_axes = self.figure.add_subplot(self.grid[0])
            ax.set(xlabel="time since both began (s)", ylabel="on the disk (MB/s)", ylim=(0, TOPS[0]))
            ax.grid(color=PALE, lw=0.8)
            self.now, self.ghost = {}, {}
            for party, colour in COLOURS.items():
                (self.ghost[party],) = ax.plot([], [], color=colour, alpha=0.3, lw=5, **MOVING)
                (self.now[party],) = ax.plot([], [], "o-", color=colour, mec="white", label=party, **MOVING)
            (self.guess,) = ax.plot([], [], color=INK, ls=":", label="your prediction", **MOVING)
            lines = [*self.ghost.values(), *self.now.values(), self.guess]
            self.moving = [(ax, line) for line in lines]

    def _make_lanes(self, rows: int) -> None:
        """In place of lanes: fio's groups as bars, those before behind them."""
        ax = self.lane_axes
        ends = [*map(str, BUCKETS_MS)]
        ax.set(xlim=(-0.6, len(ends) - 0.4), ylim=(LEAST, 10), yscale="log")
        ax.set_xticks(range(len(ends)), ends)
        ax.set(xlabel="latency of a read up to (ms); those below 1 ms are not shown", ylabel="of the reads (%)")
        ax.grid(axis="y", color=PALE, lw=0.8)
        ax.set_axisbelow(True)
        styles = {"before": {"facecolor": GREY, "alpha": 0.35}, "now": {"facecolor": BLUE, "alpha": 0.6}}
        self.bars = {name: PolyCollection([], lw=0, **style, **MOVING) for name, style in styles.items()}
        for bars in self.bars.values():
            ax.add_collection(bars, autolim=False)
        self.words = []

    def show_lanes(self, found: None, rows: Sequence[str], row_of: Sequence[int] = ()) -> None:
        """Nothing is shown before the prediction."""
        for line in (*self.now.values(), *self.ghost.values(), self.guess):
            line.set_data([], [])
        for bars in self.bars.values():
            bars.set_verts([])

    def dress(self, published: Mapping[str, tuple[float, float]], buckets: Mapping[int, float], guessed: bool) -> None:
        """What stands still: published MB/s of reader and writer, published groups of latency, the legend."""
        standing = (tuple(published.items()), tuple(buckets.items()), guessed)
        if standing == self.standing:
            return
        self.standing = standing
        for artist in self._static:
            artist.remove()
        with rc_context(STYLE):
            before = {a for ax in (self.course_axes, self.lane_axes) for a in ax.get_children()}
            for party, value in published.items():
                draw_published(self.course_axes, value, label=f"{party}, published", colour=COLOURS[party])
            if buckets:
                at = [BUCKETS_MS.index(ms) for ms in buckets]
                self.lane_axes.plot(at, list(buckets.values()), "D", color=RED, mec=INK, ms=10)
                self.lane_axes.text(at[-1], 1, "diamonds: published", color=RED, fontsize=12, ha="center")
            axes = (self.course_axes, self.lane_axes)
            self._static = [a for ax in axes for a in ax.get_children() if a not in before]
            lines = [a for a in self._static if a.axes is axes[0] and a in axes[0].lines]
            handles = [*self.now.values(), *lines, *([self.guess] if guessed else [])]
            axes[0].legend(handles=handles, loc="upper right", fontsize=11, ncols=2, framealpha=0.9)

    def show(self, seconds: Any, before: Any, guess: float | None) -> None:
        """MB/s of each interval (columns second, read_MBs, written_MBs), now and before the last turn."""
        top = 0.0
        for lines, frame in ((self.now, seconds), (self.ghost, before)):
            for party, column in (("reader", "read_MBs"), ("writer", "written_MBs")):
                x, y = ([], []) if frame is None else (frame.second.to_numpy(), frame[column].to_numpy())
                lines[party].set_data(x, y)
                top = max([top, *y])
        self.guess.set_data(*([[], []] if guess is None else [[0, 1e6], [guess, guess]]))
        self.course_axes.set_xlim(0, float(np.max(seconds.second)) * 1.02)
        self.course_axes.set_ylim(0, next((t for t in TOPS if t >= 1.05 * top), 1.1 * top))

    def show_buckets(self, now: Mapping[int, float], before: Mapping[int, float] | None) -> None:
        """Percent of the reads in each group, by its upper end in ms."""
        for bars, groups, width in ((self.bars["before"], before, 0.46), (self.bars["now"], now, 0.3)):
            shares = [(groups or {}).get(ms, 0.0) for ms in BUCKETS_MS]
            corners = [((k - width, LEAST), (k - width, v), (k + width, v), (k + width, LEAST))
                       for k, v in enumerate(shares) if v > LEAST]  # fmt: skip
            bars.set_verts(corners)


__all__ = ["MixCanvas"]
