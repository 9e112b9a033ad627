"""Where the package's data files are: beside the code in an installed wheel, in `data/` of a checkout."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent


def data_file(name: str) -> Path:
    """Path of a data file that the package ships.

    Raises FileNotFoundError, naming the file, if it is in neither place.

    >>> data_file("claims.csv").name
    'claims.csv'
    """
    for folder in (_HERE / "_data", _HERE.parent / "data"):
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(f"iosched's data file {name!r} is missing; reinstall the package.")
