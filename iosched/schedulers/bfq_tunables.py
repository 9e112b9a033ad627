"""BFQ's tunables under their sysfs names, and how they and a kernel version fill the engine's tables (spec bfq 7)."""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.codes import MSEC, NONE, SEC
from ..errors import ScenarioError
from ..kernels import Kernel
from ..knobs import check, knob, named
from .bfq_tables import (
    ASYNC_SLOTS,
    DEFAULT_BUDGET,
    REFERENCE_RATE_FLASH,
    REFERENCE_RATE_ROTATIONAL,
    TREES,
)
from .bfq_versions import features
from .bfq_wakers import WakerRules


@named
@dataclass(frozen=True)
class BFQ:
    """BFQ's tunables, with the names and units of `/sys/block/DEV/queue/iosched/` (spec 7), and its rules' version.

    `kernel` runs the BFQ of another version under the machine's kernel ("5.6.4+p1" and "5.6.4+p1p2" are 5.6.4 with the
    two patches of thread 1); `waker_rules` replaces that version's rules on wakers.

    >>> BFQ(slice_idle=0, low_latency=False).max_budget
    0
    """

    slice_idle: float | None = knob(None, "keep the device idle for a queue (8)", "ms", 0, 1e6, optional=True,
                                    sysfs="slice_idle", slider=(0, 16, "linear"))  # fmt: skip
    slice_idle_us: float | None = knob(None, "slice_idle in us", "us", 0, 1e9, optional=True, sysfs="slice_idle_us")
    timeout_sync: float = knob(125, "length of a slot", "ms", 1, 1e6, sysfs="timeout_sync")
    max_budget: int = knob(0, "most sectors of a slot; 0: what the device does in timeout_sync", "sectors", 0, 2**31,
                           integer=True, sysfs="max_budget")  # fmt: skip
    strict_guarantees: bool = knob(False, "always idle, one request in the device", sysfs="strict_guarantees")
    low_latency: bool = knob(True, "raise the weight of interactive and soft real-time queues", sysfs="low_latency")
    fifo_expire_sync: float = knob(125, "age at which a sync request jumps its queue", "ms", 1, 1e6,
                                   sysfs="fifo_expire_sync")  # fmt: skip
    fifo_expire_async: float = knob(250, "the same for async", "ms", 1, 1e6, sysfs="fifo_expire_async")
    back_seek_max: int = knob(16384, "largest backward step considered", "KiB", 0, 2**31, integer=True,
                              sysfs="back_seek_max")  # fmt: skip
    back_seek_penalty: int = knob(2, "a backward step costs so many times", "", 1, 2**20, integer=True,
                                  sysfs="back_seek_penalty")  # fmt: skip
    kernel: str | None = None
    waker_rules: WakerRules | None = None

    def __post_init__(self) -> None:
        check(self, "scheduler.")
        if self.slice_idle is not None and self.slice_idle_us not in (None, 1000 * self.slice_idle):
            raise ScenarioError(
                f"scheduler.slice_idle: {self.slice_idle} ms and slice_idle_us={self.slice_idle_us} differ; "
                "give one of the two."
            )
        if self.waker_rules is not None and not isinstance(self.waker_rules, WakerRules):
            raise ScenarioError(f"scheduler.waker_rules: {self.waker_rules!r} is not allowed; give WakerRules(...).")
        if self.kernel is not None:
            features(Kernel(self.kernel))

    def version(self, kernel: Kernel) -> Kernel:
        """Whose rules are in force on a machine of this kernel."""
        return kernel if self.kernel is None else Kernel(self.kernel)

    def check_version(self, kernel: Kernel) -> None:
        """Refuse wakers where the version has none."""
        version = self.version(kernel)
        if self.waker_rules is not None and self.waker_rules.detect and version < "5.3":
            raise ScenarioError(
                f"scheduler.waker_rules: BFQ of kernel {version} knows no wakers; they came with 5.3. "
                "Give WakerRules(detect=False), or the BFQ of a later kernel with BFQ(kernel=...)."
            )
        features(version)

    def idle_ns(self) -> int:
        """slice_idle in ns; strict_guarantees raises it to 8 ms."""
        us = self.slice_idle_us
        if us is None:
            us = 8000 if self.slice_idle is None else 1000 * self.slice_idle
        return max(round(1000 * us), 8 * MSEC if self.strict_guarantees else 0)

    def fill(self, s, d: int, rotational: bool, kernel: Kernel, hz: int, weights: list[int]) -> None:
        """Write tunables, version and cgroup weights of device `d` into the engine's tables."""
        c = s.bfq[d]
        c.slice_idle = self.idle_ns()
        c.jiffy = SEC // hz
        c.timeout_sync = max(round(self.timeout_sync * MSEC) // c.jiffy, 1) * c.jiffy
        c.user_max_budget = self.max_budget
        c.max_budget = DEFAULT_BUDGET
        c.strict = int(self.strict_guarantees)
        c.low_latency = int(self.low_latency)
        c.fifo_sync = round(self.fifo_expire_sync * MSEC)
        c.fifo_async = round(self.fifo_expire_async * MSEC)
        c.back_seek_max = 2 * self.back_seek_max
        c.back_seek_penalty = self.back_seek_penalty
        values, rules = features(self.version(kernel))
        for name, value in values.items():
            setattr(c, name, value)
        (rules if self.waker_rules is None else self.waker_rules).fill(c)
        c.hw_tag = -1
        c.ncq_flash = int(not rotational)
        c.rate = 2 * (REFERENCE_RATE_ROTATIONAL if rotational else REFERENCE_RATE_FLASH) // 3
        c.in_service = c.waited_rq = c.last_completed = NONE
        c.last_completion = -SEC
        c.burst_group = NONE
        c.burst_at = -SEC
        n_groups = int(s.sim[0].n_groups)
        c.root = d * n_groups
        for g, weight in enumerate(weights):
            row = c.root + g
            parent = int(s.groups[g].parent)
            s.bfq_groups[row].parent = NONE if parent == NONE else c.root + parent
            s.bfq_groups[row].serving = s.bfq_groups[row].last_created = NONE
            e = s.bfq_entities[int(s.sim[0].n_bfq_queues) + row]
            e.group = s.bfq_groups[row].parent
            e.tree = e.group * TREES
            e.weight = e.base_weight = weight
            e.coeff = 1
        s.bfq_async.queue[c.root * ASYNC_SLOTS : (c.root + n_groups) * ASYNC_SLOTS] = NONE
