"""A pair of disks under one file system, as thread 4's server had."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ScenarioError
from .knobs import check, knob, named

LAYOUTS = ("striped", "mirrored")


@named
@dataclass(frozen=True)
class Volume:
    """`disks` equal disks (the machine's device, each with a scheduler of its own), striped or mirrored. Read only, and
    by `SharedReader` jobs only.

    A mirror reads from the disk whose last read ended nearest. `bio_kb` is the largest bio that reaches the disks
    (None: as large as a request): thread 4's had 7.3 KiB on average. `Result.iostat` has a row a disk,
    `Result.time_budget` and `idling` speak of the first.

    >>> Volume(stripe_kb=64).read_ahead_kb(128)
    256
    """

    layout: str = knob("striped", "how sectors are spread", choices=LAYOUTS)
    disks: int = knob(2, "disks", "disks", 2, 16, integer=True)
    stripe_kb: int = knob(64, "that go to a disk in one piece", "KiB", 4, 1 << 20, integer=True)
    ahead_kb: int | None = knob(None, "read-ahead; None: two rows of stripes, if a disk has less", "KiB", 4,
                                1 << 20, integer=True, optional=True)  # fmt: skip
    bio_kb: int | None = knob(None, "largest bio", "KiB", 4, 1 << 20, integer=True, optional=True)

    def __post_init__(self) -> None:
        check(self, "volume.")
        for name in ("stripe_kb", "bio_kb", "ahead_kb"):
            if (getattr(self, name) or 4) % 4:
                raise ScenarioError(f"volume.{name}: {getattr(self, name)} is not allowed; give a multiple of 4.")

    def read_ahead_kb(self, device_kb: int) -> int:
        """Read-ahead of the volume: two rows of stripes, or more if a disk has more (recalled of md)."""
        if self.ahead_kb is not None:
            return self.ahead_kb
        return max(device_kb, 2 * self.disks * self.stripe_kb) if self.layout == "striped" else device_kb
