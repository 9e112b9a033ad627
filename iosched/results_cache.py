"""Results of runs on disk, under a key of the scenario with its seeds, the code, and how long it ran.

One SQLite file: its transactions are atomic and two processes may write at once, so a sweep that was killed has lost
at most the points of its last second, and none is ever half there.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from .engine.jit import cache_folder
from .errors import ScenarioError
from .scenario import Scenario
from .versions import code_hash

COMMIT_S = 1.0  # results are written together, at least so often
LOCK_S = 120.0  # another process may take so long over its own


class ResultsCache:
    """A folder's results. Raises ScenarioError, saying why, where they cannot be kept."""

    def __init__(self, folder: str | Path | bool) -> None:
        self.folder = cache_folder().parent / "results" if folder is True else Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.db = sqlite3.connect(self.folder / "results.sqlite3", timeout=LOCK_S, isolation_level=None)
            self.db.execute("CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, metrics TEXT) WITHOUT ROWID")
        except (OSError, sqlite3.Error) as error:
            raise ScenarioError(
                f"cache: {str(self.folder)!r} cannot keep results ({error}); give a folder that can be written."
            ) from None
        self.pending: list[tuple[str, str]] = []
        self.written = time.monotonic()

    @staticmethod
    def key(scenario: Scenario, length: int | None) -> str:
        """The key of a run of `length` simulated ns (None: to its end)."""
        whole = json.dumps([code_hash(), canonical(scenario), length], sort_keys=True)
        return hashlib.sha256(whole.encode()).hexdigest()

    def get(self, key: str) -> list[float] | None:
        """The metrics of a run that was done before."""
        found = self.db.execute("SELECT metrics FROM results WHERE key = ?", (key,)).fetchone()
        return None if found is None else json.loads(found[0])

    def put(self, key: str, row: list[float]) -> None:
        """Keep the metrics of a run. Floats come back to the last bit."""
        self.pending.append((key, json.dumps(row)))
        if time.monotonic() - self.written > COMMIT_S:
            self.flush()

    def flush(self) -> None:
        """Write what is pending, in one transaction."""
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany("INSERT OR REPLACE INTO results VALUES (?, ?)", self.pending)
        self.db.execute("COMMIT")
        self.pending.clear()
        self.written = time.monotonic()

    def close(self) -> None:
        """Write what is pending and let go of the file."""
        if self.pending:
            self.flush()
        self.db.close()


def canonical(value: Any) -> Any:
    """A value as JSON that is the same for equal values, and different for different ones.

    A load file stands for its content.

    >>> from iosched import CFQ
    >>> canonical(CFQ()) == canonical(CFQ()) != canonical(CFQ(slice_idle=0))
    True
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Path):
        return hashlib.sha256(value.read_bytes()).hexdigest()
    if isinstance(value, (list, tuple)):
        return [canonical(one) for one in value]
    if isinstance(value, dict):
        return sorted((str(k), canonical(v)) for k, v in value.items())
    content = {f.name: getattr(value, f.name) for f in fields(value)} if is_dataclass(value) else vars(value)
    if isinstance(content.get("load"), str) and Path(content["load"]).is_file():
        content |= {"load": Path(content["load"])}
    return [type(value).__name__, {k: canonical(v) for k, v in content.items()}]


__all__ = ["ResultsCache", "canonical"]
