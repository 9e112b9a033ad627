"""The mailing-list threads and their claims: published figure, simulated figure, closed form, verdict.

The figures stand in `data/claims.csv`, one claim a line with its source. Each thread's module names the machines, the
experiments, and how a quantity is read off a result. A claim is *fitted* when its figure set a parameter (at most the
baseline row of each machine), *predicted* otherwise.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..data import data_file
from ..errors import unknown

if TYPE_CHECKING:
    import pandas as pd

# quantities that are read off a setting, a version's rule or plain arithmetic: true or not, but no run predicts them
STATED = {
    "default slice_idle",
    "default group_idle",
    "bytes",
    "detection window",
    "detections needed",
    "detections forgotten after",
    "longest short think time",
    "waker served while idling",
    "short thinkers have wakers",
    "job as stated",
    "wbt by default",
    "default wbt_lat_usec",
    "queue_depth",
    "bytes read",
    "bytes written",
}

THREADS = ("dsync", "dbench", "io-latency", "writeback", "nfs")


@dataclass(frozen=True)
class Claim:
    """One published figure: `low`..`high` in `unit`, allowed to be off by the fraction `tolerance` on either side; a
    tolerance of 1 or more is a factor, 1 + tolerance up or down."""

    id: str
    thread: str
    who: str
    date: str
    machine: str
    experiment: str
    quantity: str
    low: float
    high: float
    unit: str
    tolerance: float
    role: str
    kernel_run: str
    statement: str
    note: str


@dataclass(frozen=True)
class Outcome:
    """A claim next to what came out. None where there is nothing to compare; `reason` then says why."""

    claim: Claim
    simulated: float | None
    closed_form: float | None
    kernel: float | None
    reason: str = ""

    @property
    def ratio(self) -> float | None:
        """Simulated over the nearest published value; 1 anywhere inside a published range."""
        if self.simulated is None:
            return None
        nearest = min(max(self.simulated, self.claim.low), self.claim.high)
        if nearest == 0:
            return 1.0 if self.simulated == 0 else float("inf")
        return self.simulated / nearest

    @property
    def verdict(self) -> str:
        """reproduced, off, or not modelled."""
        if self.simulated is None:
            return "not modelled"
        allowed = self.claim.tolerance + 1e-9
        apart = abs(self.ratio - 1)
        if self.claim.tolerance >= 1:
            apart = max(self.ratio, 1 / self.ratio if self.ratio else float("inf")) - 1
        return "reproduced" if apart <= allowed else "off"

    def as_json(self) -> dict[str, Any]:
        """One object a claim, as `iosched reproduce --json` prints it."""
        c = self.claim
        published = c.low if c.low == c.high else [c.low, c.high]
        return {
            "id": c.id,
            "thread": c.thread,
            "statement": c.statement,
            "machine": c.machine,
            "experiment": c.experiment,
            "quantity": c.quantity,
            "unit": c.unit,
            "published": published,
            "simulated": self.simulated,
            "closed_form": self.closed_form,
            "real_kernel": self.kernel,
            "ratio": self.ratio,
            "role": c.role,
            "tolerance": c.tolerance,
            "stated": c.quantity in STATED,
            "verdict": self.verdict,
            "reason": self.reason or c.note,
        }


@cache
def claims(thread: str) -> tuple[Claim, ...]:
    """The claims of a thread in the order of the file.

    >>> claims("dsync")[0].id
    'T0-001'
    """
    thread_module(thread)
    with data_file("claims.csv").open(newline="", encoding="utf-8") as f:
        rows = [row for row in csv.DictReader(f) if row["thread"] == thread]
    return tuple(Claim(**{**row, **{k: float(row[k]) for k in ("low", "high", "tolerance")}}) for row in rows)


def thread_module(thread: str) -> ModuleType:
    """The module of a thread; ScenarioError for an unknown name."""
    if thread not in THREADS:
        raise unknown("thread", thread, THREADS)
    return import_module(f".{thread.replace('-', '_')}", __name__)


def reproduce(thread: str, *, on_claim: Callable[[Outcome], None] | None = None) -> list[Outcome]:
    """Simulate and calculate every claim of a thread. `on_claim` is called after each, for a progress display.

    >>> outcomes = reproduce("dsync")
    >>> {o.verdict for o in outcomes if o.claim.id == "T0-001"}
    {'reproduced'}
    """
    module = thread_module(thread)
    outcomes = []
    for claim in claims(thread):
        outcome = module.evaluate(claim)
        outcomes.append(outcome)
        if on_claim:
            on_claim(outcome)
    return outcomes


def table(outcomes: list[Outcome]) -> pd.DataFrame:
    """The reproduction table, one row a claim."""
    import pandas as pd

    return pd.DataFrame([o.as_json() for o in outcomes])


def text(outcomes: list[Outcome]) -> str:
    """The reproduction table for a terminal, with the counts of fitted and predicted claims below it."""
    header = (
        "id",
        "claim",
        "published",
        "simulated",
        "closed form",
        "real kernel",
        "ratio",
        "allowed",
        "role",
        "verdict",
    )
    rows: list[Sequence[str]] = [header]
    for o in outcomes:
        c = o.claim
        low, high = show(c.low, c.unit), show(c.high, c.unit)
        published = low if low == high else f"{low} to {high}"
        ratio = "" if o.ratio is None else f"{o.ratio:.3f}"
        values = [show(v, c.unit) for v in (o.simulated, o.closed_form, o.kernel)]
        allowed = f"{c.tolerance:.0%}" if c.tolerance < 1 else f"factor {1 + c.tolerance:g}"
        rows.append((c.id, c.statement, published, *values, ratio, allowed, c.role, o.verdict))
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(header))]
    lines = ["  ".join(str(cell).ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * w for w in widths))
    for o in outcomes:
        said = o.reason or o.claim.note
        if o.verdict != "reproduced" or (said and o.claim.role == "predicted"):
            lines.append(f"{o.claim.id}: {o.verdict}: {said}")
    return "\n".join([*lines, "", counts(outcomes)])


def counts(outcomes: list[Outcome]) -> str:
    """One line: how many claims of each kind hold."""
    parts = []
    stated = [o for o in outcomes if o.claim.quantity in STATED]
    for role in ("fitted", "predicted"):
        mine = [o for o in outcomes if o.claim.role == role and o.claim.quantity not in STATED]
        good = sum(o.verdict == "reproduced" for o in mine)
        missing = sum(o.verdict == "not modelled" for o in mine)
        figures = len(
            {(o.claim.machine, o.claim.experiment, o.claim.quantity) for o in mine if o.simulated is not None}
        )
        parts.append(
            f"{role}: {good} of {len(mine) - missing} reproduced ({figures} different quantities), "
            f"{missing} not modelled"
        )
    right = sum(o.verdict == "reproduced" for o in stated)
    return "; ".join([*parts, f"settings, rules and arithmetic as stated: {right} of {len(stated)}"])


def show(value: float | None, unit: str) -> str:
    """A value with its unit as a person reads it.

    >>> show(60400, "B/s"), show(0.008371, "s"), show(1, "bool"), show(None, "s")
    ('60.4 kB/s', '8.371 ms', 'yes', '')
    """
    if value is None:
        return ""
    if unit == "bool":
        return "yes" if value else "no"
    if unit == "B/s":
        from ..ddline import rate

        return rate(value)
    if unit == "s":
        return f"{value:.4g} s" if value >= 0.1 else f"{value * 1e3:.4g} ms"
    if unit in ("count", "x", "blocks"):
        return f"{value:.4g}{' ' + unit if unit != 'count' else ''}"
    return f"{value:,.5g} {unit}" if value < 1e5 else f"{value:,.0f} {unit}"


__all__ = ["THREADS", "Claim", "Outcome", "claims", "counts", "reproduce", "show", "table", "text"]
