"""Kernel versions: what changes with them is decided here by comparing, and named where it is used."""

from __future__ import annotations

import re
from functools import total_ordering

from .errors import ScenarioError

OLDEST, NEWEST = (4, 0), (6, 12)


@total_ordering
class Kernel:
    """A version such as "4.19" or "6.1.176", compared by its first two numbers.

    >>> Kernel("4.19.44") >= "4.6", Kernel("4.4") >= "4.6"
    (True, False)
    """

    def __init__(self, version: str | Kernel) -> None:
        text = str(version) if isinstance(version, (str, Kernel)) else ""  # 4.10 as a number would be 4.1
        match = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)?(?:[-+~][\w.+~-]*)?", text)
        if not match:
            raise ScenarioError(f"kernel: {version!r} is not a version; give one such as '4.19' or '6.1.176'.")
        self.text = text
        self.major_minor = (int(match[1]), int(match[2]))
        if not OLDEST <= self.major_minor <= NEWEST:
            raise ScenarioError(f"kernel: {version!r} is not modelled; allowed are 4.0 to 6.12.")

    def __eq__(self, other: object) -> bool:
        return self.major_minor == Kernel(other).major_minor  # type: ignore[arg-type]

    def __lt__(self, other: str | Kernel) -> bool:
        return self.major_minor < Kernel(other).major_minor

    def __hash__(self) -> int:
        return hash(self.major_minor)

    def __repr__(self) -> str:
        return f"Kernel({self.text!r})"

    def __str__(self) -> str:
        return self.text
