"""A reader beside a writer: what each got, and the reader's latencies in fio's groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ScenarioError, unknown
from .base import BLUE, INK, ORANGE, PALE, RED, Picture, band, styled

if TYPE_CHECKING:
    import pandas as pd

PARTIES = {"reader": (BLUE, "o", -0.16), "writer": (ORANGE, "s", 0.16)}


@styled
def shares(table: pd.DataFrame, title: str = "Reader beside writer") -> Picture:
    """What reader and writer got, one line a setup: modelled as dots, published as bars behind them.

    `table` has the columns setup, reader_MBs, writer_MBs, and published_reader, published_writer where known (a number,
    a pair, or None), as `threads.writeback.table()`.

    Raises ScenarioError for a missing column.

    >>> import pandas as pd
    >>> row = {"setup": "cfq", "reader_MBs": 13, "writer_MBs": 79, "published_reader": (10, 20)}
    >>> shares(pd.DataFrame([row])).axes[0].get_xlabel()
    'throughput (MB/s)'
    """
    for name in ("setup", "reader_MBs", "writer_MBs"):
        if name not in table:
            raise unknown("shares: column", name, table.columns)
    figure = Picture(figsize=(13, 2.4 + 0.75 * len(table)), layout="constrained")
    ax = figure.add_subplot()
    for party, (colour, marker, lift) in PARTIES.items():
        said = table.get(f"published_{party}", [None] * len(table))
        label = f"{party}, published"
        for y, value in enumerate(said):
            if value is not None:
                low, high = band(value)
                shown = (max(low - 0.7, 0), max(high, low) + 0.7)
                ax.barh(
                    y + lift, shown[1] - shown[0], left=shown[0], height=0.28, color=colour, alpha=0.35, label=label
                )
                label = None
        at = np.arange(len(table)) + lift
        ax.plot(table[f"{party}_MBs"], at, marker, color=colour, mec="white", ms=12, label=f"{party}, modelled")
    ax.set_yticks(range(len(table)), table.setup)
    ax.set_ylim(len(table) - 0.5, -0.5)
    ax.set_xlim(left=-2)
    ax.set(xlabel="throughput (MB/s)", title=title)
    ax.grid(axis="x", color=PALE, lw=0.8)
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure


@styled
def latency_buckets(modelled: Mapping[str, Mapping[int, float]], published: Mapping[str, Mapping[int, float]],
                    title: str = "Reads in fio's latency groups") -> Picture:  # fmt: skip
    """fio's latency groups above 1 ms, one panel a run: modelled as bars, published as diamonds, percent of the reads
    on a logarithmic axis.

    Both map a run's name to its groups: upper end in ms -> percent. Raises ScenarioError without a run.

    >>> latency_buckets({"loaded": {2: 0.1, 4: 1.2}}, {"loaded": {2: 0.11, 4: 0.67}}).axes[0].get_xlabel()
    'latency up to (ms)'
    """
    if not modelled:
        raise ScenarioError("latency_buckets: no run was given; give at least one.")
    figure = Picture(figsize=(13, 5), layout="constrained")
    panels = figure.subplots(1, len(modelled), sharey=True, squeeze=False)[0]
    for ax, (name, groups) in zip(panels, modelled.items(), strict=True):
        ends = list(groups)
        ax.bar(range(len(ends)), [groups[e] for e in ends], color=BLUE, alpha=0.85, label="modelled")
        said = published.get(name, {})
        known = [k for k, e in enumerate(ends) if e in said]
        ax.plot(known, [said[ends[k]] for k in known], "D", color=RED, mec=INK, ms=11, label="published")
        ax.set_xticks(range(len(ends)), [f"{e}" for e in ends], rotation=45)
        ax.set(yscale="log", ylim=(1e-3, 3), title=name, xlabel="latency up to (ms)")
        ax.grid(axis="y", color=PALE, lw=0.8)
    panels[0].set_ylabel("part of the reads (%)")
    panels[0].legend(frameon=False, loc="upper right")
    figure.suptitle(title)
    return figure
