"""The page cache's memory and its limits: the files of /proc/sys/vm, by their names.

Source: spec block-layer section 10.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ScenarioError
from .knobs import check, knob, named

PAGE = 4096
MEBIBYTE = 2**20


@named
@dataclass(frozen=True)
class Memory:
    """How much may be dirty, and for how long. The `_bytes` limits override the ratios where they are not 0.

    `size_mb` is what the ratios refer to: free memory and the page cache together, most of a machine's memory. The
    kernel halves a background limit that is not below the other one without a word; here that is refused. So is a ratio
    of one's own beside the bytes: in the kernel writing one of the two sets the other to 0.

    `cgroup_writeback` sends what a cgroup dirtied in its own name (cgroup v2 with the memory controller, on file
    systems that support it); otherwise all is sent in the root's. The limits are the machine's in both cases.

    >>> Memory(size_mb=1000).limits_pages
    (25600, 51200)
    """

    size_mb: int = knob(4096, "free memory and page cache", "MiB", 16, 2**24, integer=True, slider=(256, 65536, "log"))
    dirty_background_ratio: float = knob(10, "dirty memory from which the flusher writes", "%", 0, 100,
                                         sysfs="/proc/sys/vm/dirty_background_ratio")  # fmt: skip
    dirty_ratio: float = knob(20, "dirty memory at which writers are held", "%", 0, 100,
                              sysfs="/proc/sys/vm/dirty_ratio")  # fmt: skip
    dirty_background_bytes: int = knob(0, "the same in bytes; 0: the ratio counts", "bytes", 0, 2**44, integer=True,
                                       sysfs="/proc/sys/vm/dirty_background_bytes")  # fmt: skip
    dirty_bytes: int = knob(0, "the same in bytes; 0: the ratio counts", "bytes", 0, 2**44, integer=True,
                            sysfs="/proc/sys/vm/dirty_bytes")  # fmt: skip
    dirty_expire_centisecs: int = knob(3000, "age at which pages are written whatever the limits", "1/100 s", 1, 10**7,
                                       integer=True, sysfs="/proc/sys/vm/dirty_expire_centisecs")  # fmt: skip
    dirty_writeback_centisecs: int = knob(500, "how often the flusher looks for such pages; 0: never", "1/100 s", 0,
                                          10**7, integer=True,
                                          sysfs="/proc/sys/vm/dirty_writeback_centisecs")  # fmt: skip
    cgroup_writeback: bool = knob(False, "writeback belongs to the cgroup that dirtied the pages")

    def __post_init__(self) -> None:
        check(self, "memory.")
        for ratio in ("dirty_background_ratio", "dirty_ratio"):
            self._check_one_of_two(ratio, ratio.replace("ratio", "bytes"))
        background, limit = self.limits_pages
        if limit < 32:
            raise ScenarioError(
                f"memory.{self._name('dirty')}: {self._value('dirty')} is less than 32 pages of {PAGE} bytes; give"
                " more."
            )
        if background >= limit:
            raise ScenarioError(
                f"memory.{self._name('dirty_background')}: {self._value('dirty_background')} is not below "
                f"{self._name('dirty')}, {self._value('dirty')}; give less than {limit * PAGE} bytes, "
                f"{100 * limit * PAGE / (self.size_mb * MEBIBYTE):.3g} % of size_mb."
            )

    def _check_one_of_two(self, ratio: str, in_bytes: str) -> None:
        """The ratio beside the bytes is 0, as in the kernel, or was not given."""
        if getattr(self, in_bytes) and getattr(self, ratio) not in (0, type(self).__dataclass_fields__[ratio].default):
            raise ScenarioError(
                f"memory.{ratio}: {getattr(self, ratio)} is not allowed beside {in_bytes}, {getattr(self, in_bytes)}; "
                "give one of the two."
            )

    def _name(self, kind: str) -> str:
        """Which of its two files sets a limit."""
        return f"{kind}_bytes" if getattr(self, f"{kind}_bytes") else f"{kind}_ratio"

    def _value(self, kind: str) -> object:
        return getattr(self, self._name(kind))

    @property
    def limits_pages(self) -> tuple[int, int]:
        """(background limit, dirty limit) in pages of 4 KiB."""
        pages = []
        for kind in ("dirty_background", "dirty"):
            of_memory = getattr(self, f"{kind}_ratio") / 100 * self.size_mb * MEBIBYTE
            pages.append(int(getattr(self, f"{kind}_bytes") or of_memory) // PAGE)
        return pages[0], pages[1]


__all__ = ["Memory"]
