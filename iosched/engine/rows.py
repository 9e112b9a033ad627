"""Tables whose columns and rows are read and written by name, as NumPy's recarrays, but several times quicker.

A recarray looks every name up in Python before it falls back on the field; these look at the field first. Most of what
it takes to fill a scenario's tables, and of a run without Numba, is such look-ups.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Row(np.void):
    """One row; writing a name changes the table."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except (KeyError, ValueError):
            raise AttributeError(f"there is no column {name!r}; the columns are {self.dtype.names}.") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class Table(np.ndarray):
    """Rows of one kind; a name is a column, as a plain array over the same memory."""

    def __getattr__(self, name: str) -> np.ndarray:
        try:
            return np.ndarray.__getitem__(self, name).view(np.ndarray)
        except (IndexError, ValueError):
            raise AttributeError(f"there is no column {name!r}; the columns are {self.dtype.names}.") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def row_dtype(columns: np.dtype) -> np.dtype:
    """The same columns, whose scalars are `Row`s."""
    return np.dtype((Row, columns))


__all__ = ["Row", "Table", "row_dtype"]
