"""Published or measured against modelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import FixedLocator

from ..errors import ScenarioError, unknown
from .base import BLUE, GREEN, GREY, INK, PALE, RED, Picture, band, plain_ticks, styled

if TYPE_CHECKING:
    import pandas as pd

FARTHEST = 10.0  # factor by which the ratio axis reaches at most


@styled
def reproduction(table: pd.DataFrame, title: str = "Published and modelled", allowed: float = 0.05) -> Picture:
    """Modelled over published, one line a claim, on a ratio axis with what is `allowed` either way; what was fitted is
    hollow. What is off by more than a factor of ten stands at the axis's end.

    `table` is `threads.table(outcomes)`, or any with the columns id, published (a number or [low, high]), simulated and
    role ("fitted" or "predicted"); closed_form, statement and unit where known. Claims that are not numbers (unit
    "bool", or nothing simulated) are left out.

    Raises ScenarioError for a missing column, or if no claim is left.

    >>> import pandas as pd
    >>> rows = [{"id": "T0-001", "published": 60e3, "simulated": 61e3, "role": "predicted"}]
    >>> reproduction(pd.DataFrame(rows)).axes[0].get_xlabel()
    'modelled / published'
    """
    for name in ("id", "published", "simulated", "role"):
        if name not in table:
            raise unknown("reproduction: column", name, table.columns)
    rows = table.assign(low=[band(p)[0] for p in table.published], high=[band(p)[1] for p in table.published])
    rows = rows.assign(simulated=rows.simulated.astype(float), middle=(rows.low * rows.high) ** 0.5)
    rows = rows[(rows.low > 0) & (rows.simulated > 0)]
    rows = rows[rows.unit != "bool"] if "unit" in rows else rows
    rows = rows.reset_index(drop=True)
    if rows.empty:
        raise ScenarioError("reproduction: no claim has both a published and a simulated number.")
    figure = Picture(figsize=(14, 2.6 + 0.5 * len(rows)), layout="constrained")
    ax = figure.add_subplot()
    ax.axvspan(1 / (1 + allowed), 1 + allowed, color=GREEN, alpha=0.18, lw=0, label=f"within {100 * allowed:.3g} %")
    beyond = f"published (a range: its bar, {100 * allowed:.3g} % beyond its ends are allowed)"
    ax.axvline(1, color=RED, ls="--", lw=2, label=beyond)
    for y, row in enumerate(rows.itertuples()):
        if row.high > row.low:
            ends = [row.low / row.middle, row.high / row.middle]
            ax.plot(ends, [y, y], color=RED, lw=8, alpha=0.35, solid_capstyle="butt")
    ratio = (rows.simulated / rows.middle).clip(1 / FARTHEST, FARTHEST)
    for role, face in (("predicted", BLUE), ("fitted", "white")):
        at = np.flatnonzero(rows.role == role)
        if len(at):
            style = {"mfc": face, "mec": BLUE, "mew": 2.5, "ms": 12, "ls": "none", "label": f"simulated, {role}"}
            ax.plot(ratio[at], at, "o", **style)
    if "verdict" in rows:
        off = np.flatnonzero(rows.verdict == "off")
        if len(off):
            ax.plot(ratio[off], off, "o", mfc="none", mec=RED, mew=2.5, ms=21, ls="none", label="off, see the table")
    every = [ratio, rows.low / rows.middle, rows.high / rows.middle]
    if "closed_form" in rows and rows.closed_form.notna().any():
        formula = rows.closed_form.astype(float) / rows.middle
        every.append(formula[formula > 0])
        ax.plot(formula, rows.index, "|", color=INK, ms=18, mew=3, ls="none", label="closed form")
    ratios = np.concatenate(every)
    spread = min(max(1.2, 1.15 * np.nanmax(np.maximum(ratios, 1 / ratios))), 1.15 * FARTHEST)
    ax.set_xscale("log")
    ax.set_xlim(1 / spread, spread)
    plain_ticks(ax.xaxis)
    fine = () if spread > 5 else (0.7, 0.8, 0.9, 1.1, 1.25, 1.5)
    ratio_ticks = sorted((0.1, 0.2, 0.5, 1, 2, 5, 10, *fine))
    ax.xaxis.set_major_locator(FixedLocator([t for t in ratio_ticks if 1 / spread <= t <= spread]))
    labels = rows.statement.where(rows.statement.str.len() > 0, rows.id) if "statement" in rows else rows.id
    ax.set_yticks(range(len(rows)), [_short(text, 60) for text in labels])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel("modelled / published")
    ax.set_title(title)
    ax.grid(axis="y", color=PALE, lw=0.8)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


@styled
def validation_scatter(
    frame: pd.DataFrame,
    measured: str = "measured",
    simulated: str = "simulated",
    *,
    hue: str = "scheduler",
    label: str = "time of one write (us)",
) -> Picture:
    """Measured on a real kernel against simulated, one dot a run, both axes logarithmic, with bands of ±2 % and ±6 %.

    `frame` has the two columns, in the unit that `label` names, and `hue` where known; below, the error of each run.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"measured": [390.0, 8371.0], "simulated": [391.0, 8360.0], "scheduler": ["noop", "cfq"]})
    >>> validation_scatter(frame).axes[0].get_ylabel()
    'simulated'
    """
    import seaborn as sns

    for name in (measured, simulated):
        if name not in frame:
            raise unknown("validation_scatter: column", name, frame.columns)
    rows = frame[(frame[measured] > 0) & (frame[simulated] > 0)]
    if rows.empty:
        raise ScenarioError("validation_scatter: no row has both a measured and a simulated number.")
    error = rows.assign(error=100 * (rows[simulated] / rows[measured] - 1))
    hues = {"hue": hue, "style": hue} if hue in rows else {}
    figure = Picture(figsize=(11, 10), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1])
    low = 0.8 * min(rows[measured].min(), rows[simulated].min())
    high = 1.25 * max(rows[measured].max(), rows[simulated].max())
    line = np.array([low, high])
    upper.fill_between(line, line * 0.94, line * 1.06, color=GREY, alpha=0.2, lw=0, label="±6 %")
    upper.fill_between(line, line * 0.98, line * 1.02, color=GREY, alpha=0.4, lw=0, label="±2 %")
    upper.plot(line, line, color=RED, lw=1.5, ls="--", label="measured = simulated")
    style = {"s": 90, "palette": "colorblind" if hues else None, "edgecolor": "white", "linewidth": 0.5, "alpha": 0.8}
    sns.scatterplot(data=rows, x=measured, y=simulated, ax=upper, **hues, **style)
    sns.scatterplot(data=error, x=measured, y="error", ax=lower, legend=False, **hues, **style)
    upper.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), ylabel="simulated")
    plain_ticks(upper.yaxis)
    for at, alpha in ((2, 0.4), (6, 0.2)):
        lower.axhspan(-at, at, color=GREY, alpha=alpha, lw=0)
    worst = max(8.0, 1.1 * error.error.abs().max())
    lower.set(ylim=(-worst, worst), ylabel="error (%)", xlabel=f"measured: {label}")
    plain_ticks(lower.xaxis)
    median, p95 = error.error.abs().quantile([0.5, 0.95])
    upper.set_title(f"{len(rows)} runs: |error| median {median:.2g} %, 95th percentile {p95:.3g} %")
    upper.legend(frameon=False, loc="upper left", ncols=2)
    return figure


@styled
def theory(frame: pd.DataFrame, title: str = "Theory and simulation") -> Picture:
    """Simulated over theory's value, one line a law, with the confidence interval of the mean.

    `frame` is `theory.table(checks)`: law, quantity, theory, mean, low, high, inside.

    >>> import pandas as pd
    >>> row = {"law": "M/M/1", "quantity": "wait", "theory": 1.0, "mean": 1.01, "low": 0.9, "high": 1.1, "inside": True}
    >>> theory(pd.DataFrame([row])).axes[0].get_xlabel()
    'simulated / theory, with the 99 % confidence interval of the mean'
    """
    for name in ("law", "quantity", "theory", "mean", "low", "high", "inside"):
        if name not in frame:
            raise unknown("theory: column", name, frame.columns)
    figure = Picture(figsize=(14, 2 + 0.5 * len(frame)), layout="constrained")
    ax = figure.add_subplot()
    ax.axvline(1, color=RED, ls="--", lw=2, label="theory")
    middle = frame["mean"] / frame.theory
    for inside, marker, colour in ((True, "o", BLUE), (False, "X", RED)):
        at = np.flatnonzero(frame.inside == inside)
        if len(at):
            ends = [(middle - frame.low / frame.theory)[at], (frame.high / frame.theory - middle)[at]]
            style = {"fmt": marker, "color": colour, "ms": 11, "lw": 3, "capsize": 5}
            ax.errorbar(middle[at], at, xerr=ends, label="inside" if inside else "outside", **style)
    ax.set_yticks(range(len(frame)), [f"{law}: {q}" for law, q in zip(frame.law, frame.quantity)])
    ax.set_ylim(len(frame) - 0.5, -0.5)
    ax.set_xlabel("simulated / theory, with the 99 % confidence interval of the mean")
    ax.set_title(title)
    ax.grid(axis="y", color=PALE, lw=0.8)
    ax.legend(frameon=False)
    return figure
