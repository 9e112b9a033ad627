"""What VALIDATION.md rests on: published claims, real kernels, formulas and theory, each against the simulator.

`collect` computes everything from the data (minutes, on all cores), `write` keeps it in docs/validation/results.json
and renders the page and its figures from that file alone. The file carries a hash of every source and data file that a
number of it depends on, comments and docstrings left out, so that a page of older code can be told (`stale`).
"""

from __future__ import annotations

import ast
import hashlib
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from . import ledger, theory
from .data import data_file
from .engine.jit import PACKAGE
from .errors import ScenarioError
from .measure.kernel_rows import KernelRun, Unmodelled, read_kernel_csv, scenario_of
from .runner import thread_count
from .threads import THREADS, reproduce
from .validate import compare

DIGITS = 6  # significant, of the numbers that are kept
NOT_IN_NUMBERS = ("plots", "widgets", "cli.py", "bench.py", "validation.py", "validation_page.py", "reports.py")
FORM_METRICS = ("time_per_write_us", "throughput_MBs")  # what the closed form can say of a row


def kernel_files() -> list[str]:
    """The tables of real-kernel runs, by name."""
    return sorted(path.stem for path in data_file("kernel").glob("*.csv"))


def collect(workers: int | None = None, progress: bool = False) -> dict[str, Any]:
    """Everything the page says, as JSON: sources (a hash), claims, kernel, closed_form, skipped, theory."""
    from tqdm.auto import tqdm

    tasks: list[tuple[str, Any]] = [("kernel", name) for name in kernel_files()]
    tasks += [("claims", name) for name in THREADS]
    tasks += [("theory", k) for k in range(len(theory.LAWS))]
    out: dict[str, Any] = {"sources": sources_hash(), "kernel": [], "closed_form": [], "skipped": [], "theory": []}
    outcomes = []
    with ProcessPoolExecutor(thread_count(workers), multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(_one, kind, what) for kind, what in tasks]
        for (kind, _), future in zip(tasks, tqdm(futures, unit="part", disable=not progress, leave=False)):
            found = future.result()
            if kind == "claims":
                outcomes += found
            elif kind == "theory":
                out["theory"] += found
            else:
                for key, rows in found.items():
                    out[key] += rows
    out["claims"] = [rounded(entry.as_json()) for entry in ledger.ledger(outcomes)]
    shown = ("id", "statement", "unit", "published", "simulated", "closed_form", "role", "stated", "verdict")
    out["published"] = [rounded({key: outcome.as_json()[key] for key in shown}) for outcome in outcomes]
    return out


def _one(kind: str, what: Any) -> Any:
    """One part of it, in a process of its own."""
    if kind == "claims":
        return reproduce(what)
    if kind == "theory":
        return theory_rows(what)
    return kernel_rows(what)


# Tables and the beginning of the runs on which something was chosen (data/README.md): CPU costs of writeback on all
# `writers`, the way between the files on `mix`'s disk of turns
FITTED = {"writers": "", "mix": "wbf2b"}


def theory_rows(law: int) -> list[dict[str, Any]]:
    """The checks of one law."""
    found = theory.LAWS[law](theory.REPLICATIONS, theory.SEED + law)
    return [rounded({**vars(check), "inside": check.inside}) for check in found]


def kernel_rows(name: str, prefix: str = "") -> dict[str, list[dict[str, Any]]]:
    """The runs of a table (of kernels whose version begins with `prefix`): measured, simulated, by formula."""
    runs, skipped = read_kernel_csv(data_file(f"kernel/{name}.csv"))
    runs = [run for run in runs if run.conditions["kernel"].startswith(prefix)]
    comparison = compare(runs, skipped)
    fitted_runs = (FITTED[name],) if name in FITTED else ()
    by_id = {(row["kernel"], row["run_id"], row["metric"], row["measured"]): row for row in comparison.rows}
    forms = []
    for run in runs:
        row = by_id.get((run.conditions["kernel"], run.run_id, run.metric, run.measured))
        if row is None or run.metric not in FORM_METRICS:
            continue
        value, reason = formula_of(run, comparison.hosts[run.machine_key][0])
        forms.append({"file": name, "run_id": run.run_id, "simulated": row["simulated"], "formula": value,
                      "scheduler": row["scheduler"], "reason": reason})  # fmt: skip
    return {
        "kernel": [
            rounded({"file": name, **row, "fitted": row["fitted"] or row["run_id"].startswith(fitted_runs)})
            for row in comparison.rows
        ],
        "skipped": [{"file": name, **row} for row in comparison.skipped],
        "closed_form": [rounded(row) for row in forms],
    }


def formula_of(run: KernelRun, host: Any) -> tuple[float | None, str]:
    """The closed form's answer in the row's unit, or why it has none."""
    from .measure.kernel_rows import host_of
    from .queueing import closed_form

    try:
        form = closed_form(*scenario_of(run, host_of(run.conditions, host)))
    except (ScenarioError, Unmodelled) as reason:
        return None, str(reason).partition(":")[0]
    value = form.time_per_op * 1e6 if run.metric == FORM_METRICS[0] else form.bytes_per_s * 1e-6
    return float(value), ""


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its numbers to `DIGITS` significant digits, as JSON has them."""
    return {k: _round(v) for k, v in row.items()}


def _round(value: Any) -> Any:
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
    if isinstance(value, list):
        return [_round(one) for one in value]
    return value


# ---------------------------------------------------------------------------------------------------------------------
# is it of this code?


def sources_hash(package: Path = PACKAGE, data: Path | None = None) -> str:
    """Hash of every module that a number depends on, as its syntax tree without docstrings, and of every data file."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if not name.startswith(NOT_IN_NUMBERS):
            digest.update(f"{name}\0{_meaning(path)}\0".encode())
    folder = data or data_file("claims.csv").parent
    for path in sorted(folder.rglob("*.csv")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _meaning(path: Path) -> str:
    """A module's syntax tree as text, without docstrings, comments and layout."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value.value = ""
    return ast.dump(tree)


def read(folder: Path) -> dict[str, Any]:
    """The kept results. Raises ScenarioError if there are none."""
    path = folder / "results.json"
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {key: _rows(value) if isinstance(value, dict) else value for key, value in kept.items()}
    except (OSError, ValueError) as error:
        raise ScenarioError(f"validation: {path.name!r} cannot be read ({error}); run `iosched validate`.") from None


def _rows(table: dict[str, list]) -> list[dict[str, Any]]:
    return [dict(zip(table["columns"], row)) for row in table["rows"]]


def keep(results: dict[str, Any], folder: Path) -> None:
    """Write the results, the names of a table's columns once and one row a line, so that versions can be compared."""
    parts = []
    for key, value in results.items():
        if isinstance(value, list):
            columns = list(value[0]) if value else []
            rows = ",\n".join(json.dumps(list(row.values()), separators=(",", ":")) for row in value)
            parts.append(f'"{key}": {{"columns": {json.dumps(columns)}, "rows": [\n{rows}\n]}}')
        else:
            parts.append(f'"{key}": {json.dumps(value)}')
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def stale(results: dict[str, Any]) -> str:
    """Why the results are not those of this code and data; empty if they are."""
    now = sources_hash()
    if results.get("sources") == now:
        return ""
    return (
        f"VALIDATION.md was made by other code or data ({results.get('sources')}, here {now}); run `iosched validate`."
    )


__all__ = ["collect", "keep", "kernel_files", "kernel_rows", "read", "rounded", "sources_hash", "stale", "theory_rows"]
