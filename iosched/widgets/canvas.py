"""The explorer's picture: artists are kept and only their data change, on a background that is kept too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

from .. import plots
from ..engine import codes as c
from ..plots import GREY, INK, ORANGE, PURPLE, RED, knob_label, knob_metadata, task_colour

THROUGHPUTS = (10, 20_000)  # kB/s, the fixed axis of the explorer
SPANS = tuple(m * 10.0**e for e in range(-2, 4) for m in (1, 2, 5))  # ms, the steps of its time axis
WIDTH, HEIGHT, DPI = 1080, 640, 100  # the picture, pixels
BACKGROUNDS = 12  # pictures without their data that are kept


def encode_png(pixels: np.ndarray) -> bytes:
    """Pixels (height x width x at least 3, bytes) as a PNG, compressed lightly: the picture is redrawn at each turn."""
    out = BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels[..., :3])).save(out, "png", compress_level=1)
    return out.getvalue()


class Canvas:
    """The explorer's picture. The artists with data are kept; what does not change is drawn once and kept as pixels."""

    def __init__(self) -> None:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.collections import PolyCollection

        self._backgrounds: dict[Any, Any] = {}
        self._static: list[Any] = []
        with rc_context(plots.STYLE):
            self.figure = plots.Picture(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI)
            self.agg = FigureCanvasAgg(self.figure)
            grid = self.figure.add_gridspec(
                2, 1, height_ratios=[2.1, 1], left=0.12, right=0.97, top=0.93, bottom=0.11, hspace=0.42
            )
            self.curve_axes, self.lane_axes = (self.figure.add_subplot(grid[k]) for k in (0, 1))
            ax = self.curve_axes
            ax.set_yscale("log")
            ax.set_ylim(*THROUGHPUTS)
            plots._ticks(ax.yaxis)
            ax.set_ylabel("dd's throughput (kB/s)")
            ax.grid(color=plots.PALE, lw=0.8)
            moving = {"animated": True}
            (self.ghost,) = ax.plot([], [], color=GREY, alpha=0.45, lw=5, label="before", **moving)
            (self.formula,) = ax.plot([], [], color=plots.BLUE, label="closed form", **moving)
            (self.dots,) = ax.plot([], [], "o", color=plots.BLUE, mec="white", label="simulated", **moving)
            (self.now,) = ax.plot([], [], "o", color=ORANGE, mec=INK, ms=15, label="the sliders", **moving)
            (self.guess,) = ax.plot([], [], color=INK, ls=":", lw=2.5, label="your prediction", **moving)
            self.headline = self.figure.text(0.12, 0.952, "", fontsize=16, weight="bold", **moving)
            self.veil = self.figure.text(
                0.55, 0.62, "", fontsize=22, ha="center", va="center", color=GREY, weight="bold", **moving
            )
            lanes = self.lane_axes
            lanes.set_ylim(-0.6, 3.6)
            lanes.grid(axis="x", color=plots.PALE, lw=0.8)
            lanes.set_axisbelow(True)
            lanes.set_xlabel("time since one write began (ms)")
            styles: dict[str, dict[str, Any]] = {
                "flush": {"facecolor": ORANGE, "edgecolor": "white", "hatch": "xx"},
                "idle": {"facecolor": "white", "edgecolor": GREY, "hatch": "//"},
                "idle, fired": {"facecolor": "white", "edgecolor": RED, "hatch": "//"},
            }
            for task in (0, 1):
                styles[f"waits {task}"] = {"facecolor": task_colour(task), "alpha": 0.28, "lw": 0}
                styles[f"served {task}"] = {"facecolor": task_colour(task), "lw": 0}
            self.bars = {k: PolyCollection([], **style, **moving) for k, style in styles.items()}
            for bars in self.bars.values():
                lanes.add_collection(bars, autolim=False)
            box = {"facecolor": "white", "edgecolor": "none", "pad": 2}
            self.words = [
                lanes.text(0, 0, "", ha="center", va="center", fontsize=13, bbox=box, **moving) for _ in range(2)
            ]

    def dress(self, x: str, published: Mapping[str, Any], guessed: bool) -> None:
        """What stands still: the x axis of the curve, the published lines, the legend."""
        from matplotlib import rc_context

        for artist in self._static:
            artist.remove()
        self._static = []
        ax = self.curve_axes
        low, high, scale = knob_metadata(x)["slider"]
        with rc_context(plots.STYLE):
            ax.set_xscale(scale)
            if scale == "log":
                ax.set_xlim(low / 1.1, high * 1.1)
                plots._ticks(ax.xaxis)
            else:
                ax.set_xlim(low - 0.02 * (high - low), high + 0.02 * (high - low))
            ax.set_xlabel(knob_label(x), labelpad=1)
            before = set(ax.get_children())
            for k, (label, value) in enumerate(published.items()):
                plots.draw_published(ax, value, 1e-3, label, colour=(RED, PURPLE)[k % 2])
            self._static = [artist for artist in ax.get_children() if artist not in before]
            handles = [self.formula, self.dots, self.now, self.ghost]
            handles += [h for h in self._static if not str(h.get_label()).startswith("_") and h.get_label()]
            handles += [self.guess] if guessed else []
            ax.legend(handles=handles, loc="upper right", ncols=2, fontsize=12, framealpha=0.9)
        self._key = (x, tuple(published.items()), guessed)

    def show_lanes(self, found: plots.Lanes | None, names: Sequence[str]) -> None:
        """One write as bars; `names` are dd's and the log writer's."""
        verts: dict[str, list[Any]] = {k: [] for k in self.bars}
        texts: list[tuple[float, str]] = []
        self.lane_axes.set_yticks(range(4), ["kept idle for", "device", names[1], names[0]])
        if found is not None:
            self.lane_axes.set_xlim(
                0, next(s for s in SPANS if s >= (found.end - found.start) * 1e-6 or s == SPANS[-1])
            )

            def bar(kind: str, y: float, a: int, b: int) -> None:
                a_ms, b_ms = (a - found.start) * 1e-6, (b - found.start) * 1e-6
                verts[kind].append([(a_ms, y - 0.36), (a_ms, y + 0.36), (b_ms, y + 0.36), (b_ms, y - 0.36)])

            for task, a, b, _ in found.waiting:
                bar(f"waits {min(task, 1)}", 3 - min(task, 1), a, b)
            for task, a, b, what in found.serving:
                for y in (3 - min(task, 1), 1):
                    bar("flush" if what == "flush" else f"served {min(task, 1)}", y, a, b)
            span = self.lane_axes.get_xlim()[1]
            for task, _, a, b, how in found.idles:
                bar("idle, fired" if how == c.END_FIRED else "idle", 0, a, b)
                if (b - a) * 1e-6 > 0.25 * span:
                    words = f"{(b - a) * 1e-6:.3g} ms for {names[min(task, 1)]}"
                    texts.append((((a + b) / 2 - found.start) * 1e-6, words))
        for kind, bars in self.bars.items():
            bars.set_verts(verts[kind])
        for k, text in enumerate(self.words):
            x, words = texts[k] if k < len(texts) else (0.0, "")
            text.set_position((x, 0))
            text.set_text(words)

    def png(self) -> bytes:
        """The picture: kept pixels, the moving artists over them, as PNG."""
        from matplotlib import rc_context

        key = (*self._key, self.lane_axes.get_xlim(), tuple(t.get_text() for t in self.lane_axes.get_yticklabels()))
        with rc_context(plots.STYLE):
            if key not in self._backgrounds:
                if len(self._backgrounds) >= BACKGROUNDS:
                    del self._backgrounds[next(iter(self._backgrounds))]
                self.agg.draw()
                self._backgrounds[key] = self.agg.copy_from_bbox(self.figure.bbox)
            else:
                self.agg.restore_region(self._backgrounds[key])
            for artist in (self.ghost, self.guess, self.formula, self.dots, self.now):
                self.curve_axes.draw_artist(artist)
            for artist in (*self.bars.values(), *self.words):
                self.lane_axes.draw_artist(artist)
            for artist in (self.headline, self.veil):
                self.figure.draw_artist(artist)
        return encode_png(np.asarray(self.agg.buffer_rgba()))

    def svg(self) -> bytes:
        """The same picture as SVG."""
        from matplotlib import rc_context

        out = BytesIO()
        with rc_context(plots.STYLE):
            self.figure.savefig(out, format="svg", metadata={"Date": None})
        return out.getvalue()
