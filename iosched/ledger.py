"""Every claim of the five threads with its status: what came out, or why nothing can.

`data/ledger.csv` lists all 409 claims as published. A claim that a thread's module evaluates (`data/claims.csv`) has
that module's outcome; some follow from others by arithmetic (column `derived`, a formula of claims); for the rest the
ledger says why there is nothing to compare. A thread joins by its module and its rows in claims.csv, nothing else.
"""

from __future__ import annotations

import ast
import csv
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from .data import data_file
from .errors import ScenarioError
from .threads import STATED, Outcome, claims, show

STATUSES = ("reproduced", "off", "relation holds", "relation does not hold", "as stated", "not modelled")
TOLERANCE = 0.05  # of a derived figure whose parts say nothing larger
ID = re.compile(r"[TF]\d-[\w.]+")


@dataclass(frozen=True)
class Entry:
    """One claim of the ledger: what was published (`low` to `high` in `unit`), `simulated`, `role` and `status`."""

    id: str
    thread: str
    metric: str
    scheduler: str
    condition: str
    low: float | None
    high: float | None
    unit: str
    role: str
    simulated: float | None
    ratio: float | None
    status: str
    reason: str

    def as_json(self) -> dict[str, Any]:
        """One object a claim."""
        return dict(vars(self))


@cache
def rows() -> tuple[dict[str, str], ...]:
    """The claims as published.

    >>> len(rows())
    409
    """
    with data_file("ledger.csv").open(newline="", encoding="utf-8") as f:
        return tuple(csv.DictReader(f))


def ledger(outcomes: Iterable[Outcome]) -> list[Entry]:
    """The status of each claim, given what the threads' modules made of theirs.

    >>> {entry.status for entry in ledger([])}
    {'not modelled'}
    """
    known = {outcome.claim.id: outcome for outcome in outcomes}
    modelled = {claim_id[:2] for claim_id in known}
    return [_entry(row, known, modelled) for row in rows()]


def _entry(row: dict[str, str], known: dict[str, Outcome], modelled: set[str]) -> Entry:
    outcome = known.get(row["id"])
    if outcome is not None:
        claim = outcome.claim
        reason = "" if outcome.verdict == "reproduced" else outcome.reason or claim.note
        figures = (claim.low, claim.high, claim.unit, claim.role, outcome.simulated, outcome.ratio)
        return _of(row, *figures, _status(outcome), reason)
    low, high, unit = _number(row["low"]), _number(row["high"]), row["unit"]
    if row["derived"]:
        parts = [known.get(one) for one in ID.findall(row["derived"])]
        if all(part is not None and part.simulated is not None for part in parts):
            return _derived(row, low, high, {part.claim.id: part for part in parts if part})
    reason = row["reason"]
    if not reason and "T" + row["thread"] not in modelled:
        reason = f"not modelled yet: thread {row['thread']} has no module"
    elif not reason:
        reason = "the thread's module does not read this figure off a run"
    return _of(row, low, high, unit, "", None, None, "not modelled", reason)


def _derived(row: dict[str, str], low: float | None, high: float | None, parts: dict[str, Outcome]) -> Entry:
    """A claim that follows from others: the formula of what was simulated, held against what was published."""
    simulated = float(formula(row["derived"], lambda name: parts[name].simulated))
    low = 0.0 if low is None else low
    high = low if high is None else high
    nearest = min(max(simulated, low), high)
    ratio = simulated / nearest if nearest else float(simulated == 0) or float("inf")
    allowed = max([TOLERANCE, *(part.claim.tolerance for part in parts.values())])
    holds = abs(ratio - 1) <= allowed + 1e-9
    yes = row["unit"] == "bool"
    status = ("relation holds" if holds else "relation does not hold") if yes else "reproduced" if holds else "off"
    role = "fitted" if {part.claim.role for part in parts.values()} == {"fitted"} else "predicted"
    reason = f"derived: {row['derived']}"
    notes = [f"{k}: {p.reason or p.claim.note}" for k, p in parts.items() if p.verdict == "off" and not holds]
    return _of(row, low, high, row["unit"], role, simulated, ratio, status, "; ".join([reason, *notes]))


def _status(outcome: Outcome) -> str:
    """The verdict of a thread's module, in the ledger's words."""
    if outcome.simulated is None:
        return "not modelled"
    good = outcome.verdict == "reproduced"
    if good and outcome.claim.quantity in STATED:
        return "as stated"
    if outcome.claim.unit == "bool":
        return "relation holds" if good else "relation does not hold"
    return "reproduced" if good else "off"


def _of(row: dict[str, str], *rest: Any) -> Entry:
    return Entry(row["id"], row["thread"], row["metric"], row["scheduler"], row["condition"], *rest)


def _number(text: str) -> float | None:
    return float(text) if text else None


OPERATORS: dict[type, Callable] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Lt: operator.lt, ast.Gt: operator.gt,
}  # fmt: skip


def formula(text: str, value: Callable[[str], float | None]) -> float:
    """The value of a formula of claims: + - * / < > abs() and numbers.

    >>> formula("(T0-028 - T0-026) / 10", {"T0-028": 30.0, "T0-026": 10.0}.get)
    2.0
    """
    names: dict[str, str] = {}

    def name(match: re.Match) -> str:
        names[f"claim{len(names)}"] = match[0]
        return f"claim{len(names) - 1}"

    def of(node: ast.AST) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return value(names[node.id])
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](of(node.left), of(node.right))
        if isinstance(node, ast.Compare):
            return OPERATORS[type(node.ops[0])](of(node.left), of(node.comparators[0]))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "abs":
            return abs(of(node.args[0]))
        raise ScenarioError(f"ledger.derived: {text!r} is no formula of claims.")

    return of(ast.parse(ID.sub(name, text), mode="eval").body)


def counts(entries: list[Entry]) -> dict[str, dict[str, int]]:
    """Claims by thread and status; the last row is all of them.

    >>> counts(ledger([]))["all"]["not modelled"]
    409
    """
    found = {key: dict.fromkeys(STATUSES, 0) for key in (*sorted({e.thread for e in entries}), "all")}
    for entry in entries:
        for key in (entry.thread, "all"):
            found[key][entry.status] += 1
    return found


def text(entries: list[Entry]) -> str:
    """Every claim on a line, and the counts below."""
    lines = []
    for e in entries:
        published = "" if e.low is None else show(e.low, e.unit)
        if e.high is not None and e.high != e.low:
            published += f" to {show(e.high, e.unit)}"
        came_out = "" if e.simulated is None else f"{show(e.simulated, e.unit)}"
        ratio = "" if e.ratio is None or e.unit == "bool" else f"{e.ratio:.3f}"
        words = (e.id, e.status, e.role, published, came_out, ratio, " ".join([e.metric, e.scheduler, e.condition]))
        lines.append("{:8} {:23} {:10} {:>22} {:>16} {:>8}  {}".format(*words).rstrip())
        if e.reason:
            lines.append(f"{'':9}{e.reason}")
    found = counts(entries)["all"]
    lines.append("")
    lines.append(f"{len(entries)} claims: " + ", ".join(f"{n} {status}" for status, n in found.items()))
    return "\n".join(lines)


def evaluated() -> list[Outcome]:
    """The outcomes of every thread that has a module."""
    from .threads import THREADS, reproduce

    return [outcome for thread in THREADS if claims(thread) for outcome in reproduce(thread)]


__all__ = ["STATUSES", "Entry", "counts", "evaluated", "formula", "ledger", "rows", "text"]
