"""MB/s: second by second, rule by rule; and the rules themselves as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ScenarioError, unknown
from .base import BLUE, GREEN, GREY, INK, ORANGE, PALE, PURPLE, RED, Picture, band, draw_published, styled

if TYPE_CHECKING:
    import pandas as pd

    from ..result import Result

LINES = ("-", "--", ":", "-.")


@styled
def course(
    results: Mapping[str, Result],
    published: Mapping[str, Any] | None = None,
    measured: Mapping[str, Sequence[float]] | None = None,
) -> Picture:
    """dbench's MB/s second by second, one curve a result; the warm-up, which does not count, is grey.

    `published` maps labels to a value or (low, high) in bytes/s. `measured` maps names of results to what a real kernel
    did in each counted second, MB/s: crosses in the colour of the result.

    Raises ScenarioError if there is no result, or if `measured` names one that is not there.

    >>> import iosched as io
    >>> r = io.simulate(io.Machine(kernel="5.6", scheduler="bfq"), io.workloads.dbench(runtime=3))
    >>> course({"bfq": r}, {"published": 80e6}).axes[0].get_ylabel()
    'throughput (MB/s)'
    """
    if not results:
        raise ScenarioError("course: no result was given; give a mapping such as {'bfq': result}.")
    for name in measured or {}:
        if name not in results:
            raise unknown("course: measured", name, results)
    figure = Picture(figsize=(13, 6), layout="constrained")
    ax = figure.add_subplot()
    for k, (name, result) in enumerate(results.items()):
        second, rate, begin = whole_seconds(result)
        colour = (BLUE, ORANGE, GREEN, PURPLE, GREY)[k % 5]
        ax.plot(second, rate, "o" + LINES[k % 4], color=colour, mec="white", label=name)
        if name in (measured or {}):
            values = measured[name]
            style = {"ls": "none", "mew": 2.5, "label": f"{name}: real kernel"}
            ax.plot(begin + 1 + np.arange(len(values)), values, "x", color=colour, **style)
    if begin > 0:
        ax.axvspan(0, begin, color=PALE, alpha=0.6, lw=0, label="warm-up, not counted")
    for k, (label, value) in enumerate((published or {}).items()):
        draw_published(ax, value, 1e-6, label, colour=(RED, PURPLE)[k % 2])
    ax.set(xlabel="time since dbench began (s)", ylabel="throughput (MB/s)", title="dbench, second by second")
    ax.set_ylim(bottom=0)
    ax.set_xlim(left=0)
    ax.grid(color=PALE, lw=0.8)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def whole_seconds(result: Result) -> tuple[np.ndarray, np.ndarray, int]:
    """(ends of the run's whole seconds, MB/s in each, seconds of warm-up)."""
    frame = result.course.iloc[: int(result.elapsed)]
    return frame.second.to_numpy() + 1, frame.bytes_per_s.to_numpy() * 1e-6, int((~frame.counted).sum())


@styled
def rates(frame: pd.DataFrame, published: Mapping[str, Any] | None = None, title: str = "dbench") -> Picture:
    """MB/s by rule: a bar for the mean of the run, a dot for its last seconds, the idle windows of an fsync in words.

    `frame` has the columns rule, MB_s, last_MB_s and idles, as `threads.dbench.ablation()`; `published` as in `course`.

    Raises ScenarioError for a missing column.

    >>> import pandas as pd
    >>> row = {"rule": "as in 5.6.4", "MB_s": 72, "last_MB_s": 53, "idles": 0.29}
    >>> rates(pd.DataFrame([row])).axes[0].get_xlabel()
    'throughput (MB/s)'
    """
    for name in ("rule", "MB_s", "last_MB_s", "idles"):
        if name not in frame:
            raise unknown("rates: column", name, frame.columns)
    figure = Picture(figsize=(13, 2.2 + 0.55 * len(frame)), layout="constrained")
    ax = figure.add_subplot()
    at = np.arange(len(frame))
    ax.barh(at, frame.MB_s, color=BLUE, alpha=0.55, height=0.6, label="mean of the run")
    ax.plot(frame.last_MB_s, at, "o", color=INK, label="last seconds")
    highest = [1e-6 * band(value)[1] for value in (published or {}).values()]
    right = 1.03 * max(frame.MB_s.max(), frame.last_MB_s.max(), *highest)
    for y, idles in zip(at, frame.idles, strict=True):
        ax.text(right, y, f"{idles:.2f} idles an fsync", va="center", fontsize=13)
    for k, (label, value) in enumerate((published or {}).items()):
        draw_published(ax, value, 1e-6, label, horizontal=False, colour=(RED, PURPLE)[k % 2])
    ax.set_yticks(at, frame.rule)
    ax.invert_yaxis()
    ax.set_xlim(0, 1.25 * right)
    ax.set(xlabel="throughput (MB/s)", title=title)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


@styled
def rules(table: pd.DataFrame, title: str = "The waker rules of each version") -> Picture:
    """A table of rules, one column a version, as a picture: what differs from the column before is coloured.

    >>> import pandas as pd
    >>> picture = rules(pd.DataFrame({"5.3": ["2"], "5.12": ["3"]}, index=["detections"]))
    >>> [t.get_text() for t in picture.axes[0].texts]
    ['2', '3']
    """
    rows, columns = table.shape
    figure = Picture(figsize=(4 + 1.45 * columns, 1.2 + 0.55 * rows), layout="constrained")
    ax = figure.add_subplot()
    for x, name in enumerate(table.columns):
        for y, value in enumerate(table[name]):
            new = x > 0 and value != table.iloc[y, x - 1]
            colour = ORANGE if new else "white"
            ax.add_patch(_cell(x, y, colour))
            ax.text(x, y, f"{value}".replace(" ", "\n"), ha="center", va="center", fontsize=12, linespacing=1.05,
                    color=INK if new or x == 0 else GREY, weight="bold" if new else "normal")  # fmt: skip
    ax.set_xlim(-0.5, columns - 0.5)
    ax.set_ylim(rows - 0.5, -0.5)
    ax.set_yticks(range(rows), table.index)
    ax.set_xticks(range(columns), table.columns)
    ax.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    ax.spines[:].set_visible(False)
    ax.set_title(f"{title} (coloured: new in this version)", pad=12)
    return figure


def _cell(x: int, y: int, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=colour, edgecolor=PALE, alpha=0.55)
