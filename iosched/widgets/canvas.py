"""An explorer's picture: artists are kept and only their data change, on a background that is kept too."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from PIL import Image

from ..engine import codes as c
from ..plots import Lanes, Picture
from ..plots.base import GREY, INK, ORANGE, PALE, RED, STYLE
from ..plots.operation import task_colour

SPANS = tuple(m * 10.0**e for e in range(-2, 4) for m in (1, 1.5, 2, 3, 5, 7))  # ms, the steps of the time axis
WIDTH, DPI = 1080, 100  # of the picture, pixels
BACKGROUNDS = 12  # pictures without their data that are kept
MOVING = {"animated": True}


def encode_png(pixels: np.ndarray) -> bytes:
    """Pixels (height x width x at least 3, bytes) as a PNG, compressed lightly: the picture is redrawn at each turn."""
    out = BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels[..., :3])).save(out, "png", compress_level=1)
    return out.getvalue()


class Canvas:
    """A headline, a veil for "predict first", and one operation as lanes at the bottom; subclasses put axes above.

    A subclass draws what stands still when `self.standing` (any hashable) changes, and lists its moving artists in
    `self.moving` as (axes or figure, artist), in the order in which they are drawn.
    """

    height = 640

    def __init__(self, rows: int, ratios: Sequence[float], **margins: float) -> None:
        """`rows` lanes of tasks; `ratios` of the heights above and below."""
        self._backgrounds: dict[Any, Any] = {}
        self.standing: Any = None
        with rc_context(STYLE):
            self.figure = Picture(figsize=(WIDTH / DPI, self.height / DPI), dpi=DPI)
            self.agg = FigureCanvasAgg(self.figure)
            self.grid = self.figure.add_gridspec(2, 1, height_ratios=ratios, **margins)
            self.lane_axes = self.figure.add_subplot(self.grid[1])
            self.moving: list[tuple[Any, Any]] = []
            left = margins["left"]
            self.headline = self.figure.text(left, 1 - 30 / self.height, "", fontsize=16, weight="bold", **MOVING)
            self.veil = self.figure.text(
                0.55, 0.62, "", fontsize=22, ha="center", va="center", color=GREY, weight="bold", **MOVING
            )
            self._make_lanes(rows)

    def _make_lanes(self, rows: int) -> None:
        lanes = self.lane_axes
        lanes.set_ylim(-0.6, rows + 1.6)
        lanes.grid(axis="x", color=PALE, lw=0.8)
        lanes.set_axisbelow(True)
        styles: dict[str, dict[str, Any]] = {}
        for row in range(rows):
            styles[f"waits {row}"] = {"facecolor": task_colour(row), "alpha": 0.28, "lw": 0}
            styles[f"served {row}"] = {"facecolor": task_colour(row), "lw": 0}
        styles["flush"] = {"facecolor": ORANGE, "edgecolor": "white", "hatch": "xx"}
        styles["injected"] = {"facecolor": "none", "edgecolor": INK, "lw": 3}
        styles["idle"] = {"facecolor": "white", "edgecolor": GREY, "hatch": "//"}
        styles["idle, fired"] = {"facecolor": "white", "edgecolor": RED, "hatch": "//"}
        self.bars = {k: PolyCollection([], **style, **MOVING) for k, style in styles.items()}
        for bars in self.bars.values():
            lanes.add_collection(bars, autolim=False)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 2}
        self.words = [lanes.text(0, 0, "", ha="center", va="center", fontsize=13, bbox=box, **MOVING) for _ in range(3)]

    def show_lanes(self, found: Lanes | None, rows: Sequence[str], row_of: Sequence[int] = (0, 1)) -> None:
        """One operation as bars; `rows` are names from above, `row_of` gives each task's row."""
        verts: dict[str, list[Any]] = {k: [] for k in self.bars}
        texts: list[tuple[float, float, str]] = []
        n = len(rows)
        self.lane_axes.set_yticks(range(n + 2), ["kept idle for", "device", *reversed(rows)])
        self.lane_axes.set_ylim(-0.6, n + 1.6)
        if found is not None:
            span = next(s for s in SPANS if s >= (found.end - found.start) * 1e-6 or s == SPANS[-1])
            self.lane_axes.set_xlim(0, span)

            def bar(kind: str, y: float, a: int, b: int) -> None:
                a_ms, b_ms = (a - found.start) * 1e-6, (b - found.start) * 1e-6
                verts[kind].append([(a_ms, y - 0.36), (a_ms, y + 0.36), (b_ms, y + 0.36), (b_ms, y - 0.36)])

            for task, a, b, _ in found.waiting:
                bar(f"waits {row_of[task]}", n + 1 - row_of[task], a, b)
            for task, a, b, what in found.serving:
                for y in (n + 1 - row_of[task], 1):
                    bar("flush" if what == "flush" else f"served {row_of[task]}", y, a, b)
            for _, a, b, _ in found.injected:
                bar("injected", 1, a, b)
            for task, _, a, b, how in found.idles:
                bar("idle, fired" if how == c.END_FIRED else "idle", 0, a, b)
                if (b - a) * 1e-6 > 0.22 * span:
                    words = f"{(b - a) * 1e-6:.3g} ms for {rows[row_of[task]]}"
                    texts.append((((a + b) / 2 - found.start) * 1e-6, 0, words))
        for kind, bars in self.bars.items():
            bars.set_verts(verts[kind])
        for k, text in enumerate(self.words):
            x, y, words = texts[k] if k < len(texts) else (0.0, 0.0, "")
            text.set_position((x, y))
            text.set_text(words)

    def _key(self) -> Any:
        """What the background depends on."""
        limits = tuple((ax.get_xlim(), ax.get_ylim()) for ax in self.figure.axes)
        return self.standing, limits, tuple(t.get_text() for t in self.lane_axes.get_yticklabels())

    def png(self) -> bytes:
        """The picture: kept pixels, the moving artists over them, as PNG."""
        key = self._key()
        with rc_context(STYLE):
            if key not in self._backgrounds:
                if len(self._backgrounds) >= BACKGROUNDS:
                    del self._backgrounds[next(iter(self._backgrounds))]
                self.agg.draw()
                self._backgrounds[key] = self.agg.copy_from_bbox(self.figure.bbox)
            else:
                self.agg.restore_region(self._backgrounds[key])
            lanes = [(self.lane_axes, artist) for artist in (*self.bars.values(), *self.words)]
            texts = [(self.figure, self.headline), (self.figure, self.veil)]
            for owner, artist in (*self.moving, *lanes, *texts):
                owner.draw_artist(artist)
        return encode_png(np.asarray(self.agg.buffer_rgba()))

    def svg(self) -> bytes:
        """The same picture as SVG."""
        out = BytesIO()
        with rc_context(STYLE):
            self.figure.savefig(out, format="svg", metadata={"Date": None})
        return out.getvalue()
