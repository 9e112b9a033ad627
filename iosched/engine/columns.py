"""How a table's columns are declared."""

from __future__ import annotations

import numpy as np


def columns(names: str) -> np.dtype:
    """A record type of int64 columns from their names.

    >>> columns("at seq").names
    ('at', 'seq')
    """
    return np.dtype([(name, np.int64) for name in names.split()])
