"""dbench's load as a sequence of flushes: what is written, counted and done from one fsync to the next.

A load table is a CSV file with one flush a row, in the order of the load file: `dirty_bytes` (of the flushed file),
`counted_bytes` (all bytes read and written since the flush before, what dbench's MB/s are made of), `operations` since
the flush before, and, where known, `rewrite` (1: one write into pages that were flushed before, nothing else) and
`sets_time` (1: the file's time was set by hand before). `SHIPPED` names the tables of `data/`.
"""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path

import numpy as np

from .data import data_file
from .engine.tables import STEP
from .errors import ScenarioError

NEEDED = ("dirty_bytes", "counted_bytes", "operations")
OPTIONAL = ("rewrite", "sets_time")
LARGEST = 1 << 40
SHIPPED = {  # None: dbench 4.0's own
    None: "dbench_flushes.csv",
    "client": "dbench_flushes.csv",
    "client-tiny": "dbench_tiny_flushes.csv",
}


def read_load(path: str | Path | None = None) -> np.recarray:
    """The flushes of a load table, or of a shipped one by its name, as the engine's table of steps.

    Raises ScenarioError, naming column and line, for a file that is not such a table.

    >>> load = read_load()
    >>> len(load), int(load.counted[1])
    (5553, 4096)
    """
    path = data_file(SHIPPED[path]) if path in SHIPPED else Path(path)
    try:
        stat = path.stat()
    except OSError as error:
        raise ScenarioError(
            f"dbench.load: {str(path)!r} cannot be read ({error.strerror}); give a table, 'client' or 'client-tiny'."
        ) from None
    return _read(path, stat.st_mtime_ns)


@lru_cache(maxsize=16)
def _read(path: Path, mtime: int) -> np.recarray:
    """The table of a file as it was at this time."""
    try:
        with path.open(newline="", encoding="utf-8") as f:
            reader = csv.DictReader(f)
            header = reader.fieldnames or []
            rows = list(reader)
    except OSError as error:
        raise ScenarioError(f"dbench.load: {str(path)!r} cannot be read ({error.strerror}).") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ScenarioError(f"dbench.load: {path.name!r} is not a CSV table ({error}).") from None
    for name in NEEDED:
        if name not in header:
            raise ScenarioError(
                f"dbench.load: {path.name!r} lacks the column {name!r}; needed are {', '.join(NEEDED)}, "
                f"known besides {', '.join(OPTIONAL)}."
            )
    for name in header:
        if name not in NEEDED + OPTIONAL:
            raise ScenarioError(
                f"dbench.load: {path.name!r} has the column {name!r}; allowed are {', '.join(NEEDED + OPTIONAL)}."
            )
    if not rows:
        raise ScenarioError(f"dbench.load: {path.name!r} has no flushes; give at least one row.")
    steps = np.zeros(len(rows), STEP).view(np.recarray)
    columns = {"dirty_bytes": "dirty", "counted_bytes": "counted"}
    for name in header:
        steps[columns.get(name, name)] = [_whole(path, n, name, row[name]) for n, row in enumerate(rows, start=2)]
    if not steps.dirty.any():
        raise ScenarioError(f"dbench.load: {path.name!r} has no dirty bytes anywhere, so nothing is ever flushed.")
    steps.setflags(write=False)
    return steps


def _whole(path: Path, line: int, column: str, text: str | None) -> int:
    """A whole number of a cell."""
    high = 1 if column in OPTIONAL else LARGEST
    try:
        value = int(text or "")
        if not 0 <= value <= high:
            raise ValueError
    except ValueError:
        raise ScenarioError(
            f"dbench.load: {path.name!r} line {line} has {text!r} as {column}; give a whole number from 0 to {high}."
        ) from None
    return value


__all__ = ["SHIPPED", "read_load"]
