"""VALIDATION.md and its figures, written from the kept results alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .ledger import STATUSES
from .threads import show

PAGE = "VALIDATION.md"
FOLDER = "docs/validation"
LARGE = 0.10  # a group of rows whose 90th percentile is larger is told of under "where the model is wrong"
HOW = """# How far the model can be trusted

Made by `iosched validate` from the data in `data/`; every number stands in `docs/validation/results.json`. A test fails
when the code or the data are not those it was made with.

## How to read it

* *Published against modelled*: what people wrote on the mailing lists, machine by machine. **Fitted** means that the
  figure set a parameter, so that its agreement says nothing; **predicted** is everything else, and is what counts. Some
  predictions are weaker: a rule or constant was chosen with them in view (their notes and `docs/why.md` say which).
  A *relation* is a claim without a number ("XFS does not show it").
* *Real kernel against simulator*: the same workload on a real kernel under a virtual clock (`data/README.md`), whose
  device times are exact. Rows that set CPU costs are counted as fitted. Of `mix.csv`, memory, places of files, a page's
  cost on 6.1's ext4 and how the cache is destaged were inferred from some of its rows. An error is
  simulated / measured - 1.
* *Closed form against simulator*: two ways to the same number that share no event queue. Agreement says that the
  simulator does what its rules say, not that the rules are right.
* *Theory against simulator*: textbook results with random arrivals and service. The interval is Student's at 99 % over
  independent replications: about one check in a hundred may fall outside by chance.
* A figure outside its tolerance stays in the tables. The last list says where not to trust the model.
"""


def page(results: dict[str, Any]) -> str:
    """The whole page as Markdown."""
    parts = [HOW, claims_part(results), kernel_part(results), form_part(results), theory_part(results), wrong(results),
             every_claim(results)]  # fmt: skip
    return "\n".join(part.strip() + "\n" for part in parts)


def table(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table."""
    lines = [list(header), *[[str(cell) for cell in row] for row in rows]]
    text = ["| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines]
    text.insert(1, "|" + "---|" * len(lines[0]))
    return "\n".join(text)


def errors_of(rows: Iterable[dict[str, Any]]) -> np.ndarray:
    """Absolute errors."""
    return np.array([abs(row["error"]) for row in rows])


def spread(errors: np.ndarray) -> list[str]:
    """Count, median, 90th and 95th percentile, largest."""
    if not len(errors):
        return ["0", "", "", "", ""]
    return [str(len(errors)), *(f"{np.percentile(errors, q):.1%}" for q in (50, 90, 95, 100))]


SPREAD = ("rows", "median", "90th", "95th", "largest")


def claims_part(results: dict[str, Any]) -> str:
    """Published against modelled: counts."""
    entries = results["claims"]
    counts = []
    for thread in (*sorted({e["thread"] for e in entries}), "all"):
        mine = [e for e in entries if thread in (e["thread"], "all")]
        numbers = []
        for role in ("fitted", "predicted"):
            of = [e for e in mine if e["role"] == role and e["status"] in ("reproduced", "off")]
            numbers.append(f"{sum(e['status'] == 'reproduced' for e in of)} of {len(of)}")
        relations = [e for e in mine if e["status"].startswith("relation")]
        holding = sum(e["status"] == "relation holds" for e in relations)
        stated, missing = (sum(e["status"] == s for e in mine) for s in ("as stated", "not modelled"))
        counts.append((thread, len(mine), *numbers, f"{holding} of {len(relations)}", stated, missing))
    header = ("thread", "claims", "fitted: within tolerance", "predicted: within tolerance", "relations that hold",
              "rules and settings as stated", "not modelled")  # fmt: skip
    more = [p for p in results["published"] if not p["id"].startswith("T")]
    numbers = [p for p in more if p["verdict"] != "not modelled" and not p["stated"]]
    further = ", ".join(
        f"{role} {sum(p['verdict'] == 'reproduced' for p in of)} of {len(of)}"
        for role in ("fitted", "predicted")
        for of in [[p for p in numbers if p["role"] == role]]
    )
    return f"""
## Published against modelled

All {len(entries)} claims of the five threads have a status; they are listed at the end.

{table(header, counts)}

Later messages and commits of the same threads, {len(more)} claims, within tolerance: {further}.

![published and modelled]({FOLDER}/published.svg)
"""


def kernel_part(results: dict[str, Any]) -> str:
    """Real kernel against simulator, a table a file."""
    rows = results["kernel"]
    lines = []
    for file in sorted({row["file"] for row in rows}):
        mine = [row for row in rows if row["file"] == file]
        for fitted in (True, False):
            of = [row for row in mine if row["fitted"] == fitted]
            if of:
                lines.append((f"{file}.csv", "fitted" if fitted else "predicted", *spread(errors_of(of))))
    groups = []
    for file, scheduler in sorted({(row["file"], row["scheduler"]) for row in rows}):
        of = [row for row in rows if (row["file"], row["scheduler"]) == (file, scheduler) and not row["fitted"]]
        if of:
            groups.append((f"{file}.csv", scheduler, *spread(errors_of(of))))
    skipped: dict[tuple[str, str], int] = {}
    for row in results["skipped"]:
        key = (f"{row['file']}.csv", re.sub("'[^']*'", "of this kind", row["reason"].partition(":")[0]))
        skipped[key] = skipped.get(key, 0) + 1
    left = table(("table", "reason", "rows"), [(*k, n) for k, n in sorted(skipped.items())]) if skipped else "None."
    files = sorted({row["file"] for row in rows})
    pictures = "\n".join(f"![{file}]({FOLDER}/kernel-{file}.png)" for file in files)
    return f"""
## Real kernel against simulator

{len(rows)} rows of {len(files)} tables, fitted and predicted apart:

{table(("table", "", *SPREAD), lines)}

The predicted ones by scheduler:

{table(("table", "scheduler", *SPREAD), groups)}

Rows that were left out, by reason:

{left}

{pictures}
"""


def form_part(results: dict[str, Any]) -> str:
    """Closed form against simulator."""
    rows = results["closed_form"]
    lines = []
    for file, scheduler in sorted({(row["file"], row["scheduler"]) for row in rows}):
        of = [row for row in rows if (row["file"], row["scheduler"]) == (file, scheduler)]
        errors = np.array([abs(row["formula"] / row["simulated"] - 1) for row in of if row["formula"] is not None])
        lines.append((f"{file}.csv", scheduler, *spread(errors), sum(row["formula"] is None for row in of)))
    return f"""
## Closed form against simulator

On the same rows, formula / simulated - 1. A row that the formulas do not cover is refused, never guessed.

{table(("table", "scheduler", *SPREAD, "refused"), lines)}
"""


def theory_part(results: dict[str, Any]) -> str:
    """Theory against simulator."""
    rows = results["theory"]
    lines = []
    for row in rows:
        values = (show(row[k], row["unit"]) for k in ("theory", "mean", "low", "high"))
        lines.append((row["law"], row["quantity"], *values, "yes" if row["inside"] else "**no**"))
    inside = sum(row["inside"] for row in rows)
    return f"""
## Theory against simulator

{inside} of {len(rows)} inside the 99 % interval.

{table(("law", "quantity", "theory", "simulated", "low", "high", "inside"), lines)}

![theory and simulation]({FOLDER}/theory.svg)
"""


def wrong(results: dict[str, Any]) -> str:
    """Where the model is wrong: groups of rows with a wide spread, and the claims that do not come out."""
    rows = results["kernel"]
    lines = []
    for key in sorted({(r["file"], r["metric"], r["scheduler"], r["kernel"]) for r in rows}):
        of = [r for r in rows if (r["file"], r["metric"], r["scheduler"], r["kernel"]) == key]
        errors = errors_of(of)
        if np.percentile(errors, 90) > LARGE:
            worst = max(of, key=lambda r: abs(r["error"]))
            beyond = f"{int(np.sum(errors > LARGE))} of {len(of)}"
            lines.append((f"{key[0]}.csv", *key[1:], beyond, f"{worst['error']:+.0%} ({worst['run_id']})"))
    off = [e for e in results["claims"] if e["status"] in ("off", "relation does not hold")]
    claims = [(e["id"], _words(e), _published(e), show(e["simulated"], e["unit"]), e["reason"]) for e in off]
    missing: dict[str, int] = {}
    for e in results["claims"]:
        if e["status"] == "not modelled":
            missing[e["reason"]] = missing.get(e["reason"], 0) + 1
    reasons = sorted(missing.items(), key=lambda item: -item[1])
    return f"""
## Where the model is wrong

Groups of real-kernel rows in which one row in ten is off by more than {LARGE:.0%}:

{table(("table", "measure", "scheduler", "kernel", f"beyond {LARGE:.0%}", "worst"), lines)}

Claims that do not come out:

{table(("claim", "what", "published", "modelled", "why"), claims)}

What is not modelled, and why:

{table(("claims", "reason"), [(n, reason) for reason, n in reasons])}
"""


def every_claim(results: dict[str, Any]) -> str:
    """Each claim of the ledger on a line."""
    lines = []
    for e in results["claims"]:
        ratio = "" if e["ratio"] is None or e["unit"] == "bool" else f"{e['ratio']:.3f}"
        came_out = show(e["simulated"], e["unit"])
        lines.append((e["id"], _words(e), e["status"], e["role"], _published(e), came_out, ratio))
    return f"""
## Every claim

Statuses: {", ".join(STATUSES)}. Reasons stand in `iosched reproduce --all`.

{table(("claim", "what", "status", "role", "published", "modelled", "ratio"), lines)}
"""


def _words(entry: dict[str, Any]) -> str:
    return ", ".join(entry[k] for k in ("metric", "scheduler", "condition") if entry[k] and entry[k] != "-")


def _published(entry: dict[str, Any]) -> str:
    low, high = show(entry["low"], entry["unit"]), show(entry["high"], entry["unit"])
    return low if low == high or not high else f"{low} to {high}"


# ---------------------------------------------------------------------------------------------------------------------
# figures


def figures(results: dict[str, Any], folder: Path) -> list[Path]:
    """Draw every figure of the page; returns the files written."""
    import pandas as pd

    from . import plots

    folder.mkdir(parents=True, exist_ok=True)
    published = pd.DataFrame(results["published"])
    written = [plots.save(plots.reproduction(published), folder / "published.svg")]
    kernel = pd.DataFrame(results["kernel"])
    for file, rows in kernel.groupby("file"):
        unit = " or ".join(sorted(rows.metric.unique()))
        picture = plots.validation_scatter(rows.reset_index(drop=True), label=unit.replace("_", " "))
        written.append(plots.save(picture, folder / f"kernel-{file}.png"))
    written.append(plots.save(plots.theory(pd.DataFrame(results["theory"])), folder / "theory.svg"))
    return written


def write(results: dict[str, Any], root: Path) -> list[Path]:
    """The page, its figures and the results, below `root`."""
    from .validation import keep

    folder = root / FOLDER
    keep(results, folder)
    (root / PAGE).write_text(page(results), encoding="utf-8")
    return [root / PAGE, folder / "results.json", *figures(results, folder)]


__all__ = ["FOLDER", "PAGE", "figures", "page", "write"]
