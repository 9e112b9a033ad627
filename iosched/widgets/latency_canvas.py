"""Thread 2's picture: how long the target's reads take, and what the others get meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.collections import PolyCollection

from ..plots import Lanes
from ..plots.base import BLUE, GREEN, GREY, INK, ORANGE, PALE, PURPLE, RED, STYLE, draw_published, plain_ticks
from .canvas import MOVING, Canvas

LATENCIES = (0.02, 8_000)  # ms, the fixed axis
RATES = (0.1, 5_000)  # MB/s


class LatencyCanvas(Canvas):
    """Above the distribution of the target's latencies, below the others' throughput."""

    def __init__(self) -> None:
        super().__init__(1, [3.2, 1], left=0.12, right=0.97, top=0.93, bottom=0.11, hspace=0.42)
        self._static: list[Any] = []
        with rc_context(STYLE):
            ax = self.axes = self.figure.add_subplot(self.grid[0])
            ax.set(xscale="log", xlim=LATENCIES, ylim=(0, 101))
            plain_ticks(ax.xaxis)
            ax.set_xlabel("latency of one of the target's reads (ms)", labelpad=1)
            ax.set_ylabel("of all its reads (%)")
            ax.grid(color=PALE, lw=0.8)
            (self.ghost,) = ax.plot([], [], color=GREY, alpha=0.45, lw=5, label="before", **MOVING)
            (self.alone,) = ax.plot([], [], color=GREEN, ls=":", label="alone on the device", **MOVING)
            (self.curve,) = ax.plot([], [], color=BLUE, label="now", **MOVING)
            (self.marks,) = ax.plot([], [], "o", color=BLUE, mec="white", label="50, 90, 99 %", **MOVING)
            (self.mean,) = ax.plot([], [], "D", color=ORANGE, mec=INK, ms=13, label="mean", **MOVING)
            (self.formula,) = ax.plot([], [], color=PURPLE, ls="--", label="mean, by formula", **MOVING)
            (self.guess,) = ax.plot([], [], color=INK, ls=":", lw=2.5, label="your prediction", **MOVING)
            drawn = (self.ghost, self.guess, self.formula, self.alone, self.curve, self.marks, self.mean)
            self.moving = [(ax, artist) for artist in drawn]

    def _make_lanes(self, rows: int) -> None:
        """Two bars in place of lanes: the target's and the others' MB/s."""
        ax = self.lane_axes
        ax.set(xscale="log", xlim=RATES, ylim=(-0.6, 1.6))
        ax.set_yticks([0, 1], ["others", "target"])
        plain_ticks(ax.xaxis)
        ax.set_xlabel("throughput (MB/s)")
        ax.grid(axis="x", color=PALE, lw=0.8)
        self.bars = {"rates": PolyCollection([], facecolor=ORANGE, lw=0, **MOVING)}
        ax.add_collection(self.bars["rates"], autolim=False)
        self.words = [ax.text(0.2, y, "", va="center", fontsize=13, **MOVING) for y in (0, 1)]

    def show_lanes(self, found: Lanes | None, rows: Sequence[str], row_of: Sequence[int] = (0, 1)) -> None:
        """Nothing, before anything is simulated."""
        self.show_rates(())

    def show_rates(self, rates_MBs: Sequence[float]) -> None:
        """(others, target) as bars."""
        self.bars["rates"].set_verts(
            [
                [(RATES[0], y - 0.36), (RATES[0], y + 0.36), (x, y + 0.36), (x, y - 0.36)]
                for y, x in enumerate(rates_MBs)
                if x > RATES[0]
            ]
        )
        for k, text in enumerate(self.words):
            text.set_text(f"{rates_MBs[k]:.3g} MB/s" if k < len(rates_MBs) else "")

    def dress(self, published: Mapping[str, Any], guessed: bool) -> None:
        """What stands still: the published means, and the legend."""
        for artist in self._static:
            artist.remove()
        ax = self.axes
        with rc_context(STYLE):
            before = set(ax.get_children())
            for label, value in published.items():
                draw_published(ax, value, 1e3, label, horizontal=False, colour=RED)
            self._static = [artist for artist in ax.get_children() if artist not in before]
            handles = [self.curve, self.marks, self.mean, self.formula, self.alone, self.ghost, *self._static]
            handles += [self.guess] if guessed else []
            handles = [h for h in handles if not str(h.get_label()).startswith("_")]
            ax.legend(handles=handles, loc="lower right", ncols=2, fontsize=12, framealpha=0.9)
        self.standing = (tuple(published.items()), guessed)
