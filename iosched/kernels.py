"""Kernel versions: what changes with them is decided here by comparing, and named where it is used."""

from __future__ import annotations

import re
from functools import total_ordering

from .errors import ScenarioError

OLD = (2, 6, 24), (2, 6, 32)  # thread 4's time: readers only
NEW = (4, 0), (6, 12)


@total_ordering
class Kernel:
    """A version such as "4.19" or "6.1.176", compared by its first two numbers; of 2.6 by its first three.

    >>> Kernel("4.19.44") >= "4.6", Kernel("4.4") >= "4.6", Kernel("2.6.27.5") < "2.6.28"
    (True, False, True)
    """

    def __init__(self, version: str | Kernel) -> None:
        text = str(version) if isinstance(version, (str, Kernel)) else ""  # 4.10 as a number would be 4.1
        match = re.fullmatch(r"(\d+)\.(\d+)(?:\.(\d+))?(?:\.\d+)?(?:[-+~][\w.+~-]*)?", text)
        if not match:
            raise ScenarioError(f"kernel: {version!r} is not a version; give one such as '4.19' or '6.1.176'.")
        self.text = text
        self.numbers: tuple[int, ...] = (int(match[1]), int(match[2]))
        if self.numbers == (2, 6) and match[3]:
            self.numbers += (int(match[3]),)
        if not (OLD[0] <= self.numbers <= OLD[1] or NEW[0] <= self.numbers <= NEW[1]):
            raise ScenarioError(f"kernel: {version!r} is not modelled; allowed are 2.6.24 to 2.6.32 and 4.0 to 6.12.")

    @property
    def old(self) -> bool:
        """Is it of thread 4's time: a clock of ticks, plugged queues, no cgroups, readers only?"""
        return self.numbers <= OLD[1]

    def __eq__(self, other: object) -> bool:
        return self.numbers == Kernel(other).numbers  # type: ignore[arg-type]

    def __lt__(self, other: str | Kernel) -> bool:
        return self.numbers < Kernel(other).numbers

    def __hash__(self) -> int:
        return hash(self.numbers)

    def __repr__(self) -> str:
        return f"Kernel({self.text!r})"

    def __str__(self) -> str:
        return self.text
