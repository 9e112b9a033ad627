"""A metric over one knob, or over two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ScenarioError, unknown
from .base import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PALE,
    PURPLE,
    RED,
    SKY,
    Picture,
    band,
    draw_published,
    knob_label,
    knob_metadata,
    plain_ticks,
    quantity,
    styled,
)

if TYPE_CHECKING:
    import pandas as pd


@styled
def knob_curve(
    df: pd.DataFrame,
    x: str,
    y: str = "bytes_per_s",
    *,
    hue: str | None = None,
    published: Mapping[str, Any] | Any = None,
    ghost: pd.DataFrame | None = None,
    log: bool | None = None,
) -> Picture:
    """A metric of a `sweep` over one knob: dots simulated, line closed form where the table has it.

    `hue` is a second knob, one curve a value. `published` is a value, a (low, high) or a mapping from label to either,
    in the metric's SI unit. `ghost` is an earlier sweep, drawn pale. `log`: None chooses by the range of values.

    >>> import iosched as io
    >>> job = io.workloads.dd(count=20, cgroup="user.slice")
    >>> df = io.sweep(io.Machine(), job, over={"scheduler.slice_idle": [2, 8]})
    >>> knob_curve(df, "scheduler.slice_idle", published={"thread 0": 60e3}).axes[0].get_xlabel()
    'slice_idle (ms)'
    """
    for name in (x, y, *([hue] if hue else [])):
        if name not in df:
            raise unknown("knob_curve", name, df.columns)
    label, factor = quantity(y, df[y].max())
    figure = Picture(figsize=(11, 6), layout="constrained")
    ax = figure.add_subplot()
    if ghost is not None and x in ghost and y in ghost:
        ax.plot(*_broken(x, ghost[x], ghost[y] * factor), color=GREY, alpha=0.45, lw=5, label="before", zorder=1)
    groups = [("simulated", df)] if hue is None else [(f"{knob_label(hue)} = {v}", g) for v, g in df.groupby(hue)]
    palette = [BLUE, ORANGE, GREEN, PURPLE, SKY, GREY]
    for k, (name, g) in enumerate(groups):
        colour = palette[k % len(palette)]
        formula = f"closed_form_{y}"
        if formula in g:
            ax.plot(*_broken(x, g[x], g[formula] * factor), color=colour, label="closed form" if k == 0 else None)
        style = {"ls": "none"} if formula in g else {"ls": "-", "lw": 1.5}
        ax.plot(*_broken(x, g[x], g[y] * factor), marker="o", color=colour, mec="white", label=name, zorder=3, **style)
    values = published if isinstance(published, Mapping) else {} if published is None else {"published": published}
    for k, (name, value) in enumerate(values.items()):
        draw_published(ax, value, factor, name, colour=(RED, PURPLE, INK)[k % 3])
    shown = df[y][df[y] > 0]
    if log or (log is None and len(shown) and shown.max() > 8 * shown.min()):
        ax.set_yscale("log")
        plain_ticks(ax.yaxis)
    else:
        ax.set_ylim(bottom=0)
    if knob_metadata(x).get("slider", ("", "", ""))[2:] == ("log",) and (df[x] > 0).all():
        ax.set_xscale("log")
        plain_ticks(ax.xaxis)
    ax.set_xlabel(knob_label(x))
    ax.set_ylabel(label)
    ax.grid(color=PALE, lw=0.8)
    ax.legend(frameon=False)
    return figure


def _broken(x: str, values: Iterable[float], level: Iterable[float]) -> tuple[np.ndarray, np.ndarray]:
    """A curve with a gap after 0 where 0 means "off": an idle of 0 is another regime, not the limit of a short one."""
    a, b = np.asarray(list(values), float), np.asarray(list(level), float)
    if x.rpartition(".")[2].removesuffix("_us") in ("slice_idle", "group_idle") and len(a) and a[0] == 0:
        a, b = np.insert(a, 1, 0.0), np.insert(b, 1, np.nan)
    return a, b


@styled
def grid_heatmap(
    df: pd.DataFrame,
    x: str = "scheduler.slice_idle",
    y: str = "scheduler.group_idle",
    value: str = "time_per_op_s",
    *,
    published: Mapping[tuple[float, float], Any] | None = None,
) -> Picture:
    """A metric of a `sweep` over two knobs as a map.

    `published` maps points (x, y) to the published value, or (low, high), in the metric's SI unit: each is marked, and
    the two values stand above the map.

    >>> import iosched as io
    >>> over = {"scheduler.slice_idle": [0, 8], "scheduler.group_idle": [0, 8]}
    >>> df = io.sweep(io.Machine(), io.workloads.dd(count=20, cgroup="user.slice"), over=over)
    >>> [ax.get_ylabel() for ax in grid_heatmap(df).axes]
    ['group_idle (ms)', 'time of one write (ms)']
    """
    import seaborn as sns

    for name in (x, y, value):
        if name not in df:
            raise unknown("grid_heatmap", name, df.columns)
    label, factor = quantity(value)
    table = df.pivot(index=y, columns=x, values=value).sort_index(ascending=False) * factor
    figure = Picture(figsize=(11, 8.5), layout="constrained")
    ax = figure.add_subplot()
    few = table.size <= 49
    sns.heatmap(
        table, ax=ax, cmap="cividis", cbar_kws={"label": label}, annot=few, fmt=".3g", linewidths=0.5, square=True
    )
    ax.set_xlabel(knob_label(x))
    ax.set_ylabel(knob_label(y))
    ax.tick_params(rotation=0)
    markers = "*PXD^v"
    for k, ((px, py), values) in enumerate((published or {}).items()):
        if px not in table.columns or py not in table.index:
            raise ScenarioError(f"published: ({px}, {py}) is not a point of the grid.")
        low, high = (v * factor for v in band(values))
        said = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        words = f"({px:g}, {py:g}): published {said}, simulated {table.loc[py, px]:.3g}"
        at = list(table.columns).index(px) + 0.5, list(table.index).index(py) + 0.5
        ax.plot(*at, markers[k % len(markers)], ms=22, color=RED, mec="white", mew=1.5, ls="none", label=words)
    if published:
        ax.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), frameon=False)
    return figure
