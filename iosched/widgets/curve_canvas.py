"""Thread 0's picture: dd's throughput over a knob, and one write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib import rc_context

from ..plots.base import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    RED,
    STYLE,
    draw_published,
    knob_label,
    knob_metadata,
    plain_ticks,
)
from .canvas import MOVING, Canvas

THROUGHPUTS = (10, 20_000)  # kB/s, the fixed axis


class CurveCanvas(Canvas):
    """Above a curve over one knob, below one write, or what else is shown as lanes.

    `limits` are those of the throughput axis, in bytes/s times `factor`; `whose` and `time` are the axes' labels.
    """

    def __init__(
        self,
        rows: int = 2,
        limits: tuple[float, float] = THROUGHPUTS,
        whose: str = "dd's throughput (kB/s)",
        time: str = "time since one write began (ms)",
        factor: float = 1e-3,
        ratios: tuple[float, float] = (2.1, 1),
    ) -> None:
        self._factor = factor
        super().__init__(rows, ratios, left=0.12, right=0.97, top=0.93, bottom=0.11, hspace=0.42)
        self._static: list[Any] = []
        with rc_context(STYLE):
            ax = self.curve_axes = self.figure.add_subplot(self.grid[0])
            ax.set_yscale("log")
            ax.set_ylim(*limits)
            plain_ticks(ax.yaxis)
            ax.set_ylabel(whose)
            ax.grid(color=PALE, lw=0.8)
            (self.ghost,) = ax.plot([], [], color=GREY, alpha=0.45, lw=5, label="before", **MOVING)
            (self.formula,) = ax.plot([], [], color=BLUE, label="closed form", **MOVING)
            (self.dots,) = ax.plot([], [], "o", color=BLUE, mec="white", label="simulated", **MOVING)
            (self.now,) = ax.plot([], [], "o", color=ORANGE, mec=INK, ms=15, label="the sliders", **MOVING)
            (self.guess,) = ax.plot([], [], color=INK, ls=":", lw=2.5, label="your prediction", **MOVING)
            self.moving = [(ax, a) for a in (self.ghost, self.guess, self.formula, self.dots, self.now)]
            self.lane_axes.set_xlabel(time)

    def dress(self, x: str, published: Mapping[str, Any], guessed: bool) -> None:
        """What stands still: the x axis of the curve, the published lines, the legend."""
        for artist in self._static:
            artist.remove()
        self._static = []
        ax = self.curve_axes
        low, high, scale = knob_metadata(x)["slider"]
        with rc_context(STYLE):
            ax.set_xscale(scale)
            if scale == "log":
                ax.set_xlim(low / 1.1, high * 1.1)
                plain_ticks(ax.xaxis)
            else:
                ax.set_xlim(low - 0.02 * (high - low), high + 0.02 * (high - low))
            ax.set_xlabel(knob_label(x), labelpad=1)
            before = set(ax.get_children())
            for k, (label, value) in enumerate(published.items()):
                draw_published(ax, value, self._factor, label, colour=(RED, PURPLE)[k % 2])
            self._static = [artist for artist in ax.get_children() if artist not in before]
            handles = [self.formula, self.dots, self.now, self.ghost]
            handles += [h for h in self._static if not str(h.get_label()).startswith("_") and h.get_label()]
            handles += [self.guess] if guessed else []
            ax.legend(handles=handles, loc="upper right", ncols=2, fontsize=12, framealpha=0.9)
        self.standing = (x, tuple(published.items()), guessed)
