"""Which code gives a result: a hash over every source and every data file that a run depends on."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from .data import data_file
from .engine.jit import PACKAGE, source_hash

DATA = ("hosts.csv", "dbench_flushes.csv", "dbench_tiny_flushes.csv", "dbench_operations.csv")


def simulation_sources(package: Path = PACKAGE) -> list[Path]:
    """The files beside the engine and the schedulers that turn a scenario into tables and tables into numbers."""
    return sorted(package.glob("*.py"))


@cache
def code_hash() -> str:
    """Hash of all that turns a scenario into numbers, and of the versions that compile it.

    >>> len(code_hash())
    16
    """
    digest = hashlib.sha256(source_hash().encode())
    for path in [*simulation_sources(), *(data_file(name) for name in DATA)]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


__all__ = ["code_hash", "simulation_sources"]
