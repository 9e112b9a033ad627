"""Where the time of one operation went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ScenarioError
from .base import BLUE, GREY, INK, ORANGE, RED, SKY, Picture, band, styled
from .operation import operation_name, reason_words

if TYPE_CHECKING:
    from ..result import Result


@styled
def time_budget(results: Mapping[str, Result], published: Mapping[str, Any] | None = None) -> Picture:
    """Bars of where the time of one operation went, one bar a result.

    `published` maps names of results to the published seconds an operation, or (low, high).

    Raises ScenarioError if there is no result.

    >>> import iosched as io
    >>> job = io.workloads.dd(count=20)
    >>> p = time_budget({name: io.simulate(io.Machine(scheduler=name), job) for name in ("noop", "cfq")})
    >>> p.axes[0].get_xlabel()
    'time of one write (ms)'
    """
    if not results:
        raise ScenarioError("time_budget: no result was given; give a mapping such as {'cfq': result}.")
    published = dict(published or {})
    figure = Picture(figsize=(12, 2.4 + 0.8 * len(results)), layout="constrained")
    ax = figure.add_subplot()
    budgets = {name: r.time_budget.set_index("what").per_op_s * 1e3 for name, r in results.items()}
    parts = list(dict.fromkeys(part for b in budgets.values() for part in b.index))
    parts.sort(key=_budget_order)
    left = np.zeros(len(results))
    names = list(results)
    styles = _budget_styles(parts)
    for part in parts:
        width = np.array([float(budgets[name].get(part, 0.0)) for name in names])
        if width.max() > 0:
            style = {"edgecolor": "white", "lw": 0.8, "height": 0.6, "label": reason_words(part)}
            ax.barh(names, width, left=left, **styles[part], **style)
            left += width
    for y, total in enumerate(left):
        ax.text(total + 0.01 * left.max(), y, f"{total:.3g} ms", va="center", fontsize=13)
    shown = False
    for y, name in enumerate(names):
        if name in published:
            low, high = (v * 1e3 for v in band(published[name]))
            label = None if shown else "published"
            ax.plot([low, high], [y + 0.38] * 2, color=INK, marker="D", ms=8, lw=3, label=label)
            shown = True
    ax.set_xlim(0, 1.12 * left.max())
    ax.invert_yaxis()
    one = operation_name(next(iter(results.values())))
    ax.set_xlabel(f"time of one {one} (ms)")
    ax.set_title(f"Where the time of one {one} goes")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def _budget_order(part: str) -> tuple[int, str]:
    order = {"device busy": 0, "host (CPU, wake-ups)": 1, "hand-over": 2}
    return order.get(part, 3), part


def _budget_styles(parts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Plain colours for work, a hatched one for each queue that is waited for."""
    out: dict[str, dict[str, Any]] = {
        "device busy": {"color": BLUE},
        "host (CPU, wake-ups)": {"color": GREY},
        "hand-over": {"color": SKY},
    }
    hatches = ("//", "\\\\", "..", "xx", "||", "--")
    idle = [part for part in parts if part not in out]
    for k, part in enumerate(idle):
        journal = "for jbd2" in part or "for xfs log" in part
        out[part] = {"color": RED if journal else ORANGE, "hatch": hatches[k % len(hatches)]}
    return out
