"""io.cost's settings: the linear model of the device (io.cost.model) and the quality of service (io.cost.qos)."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ScenarioError
from .knobs import check, knob, named

SINCE = "5.4"
COEFFICIENTS = ("rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops")
# the kernel's presets and their latency targets in us (spec bfq-and-controllers section 4.1)
PRESETS: dict[str, tuple[tuple[int, ...], float]] = {
    "hdd": ((174019176, 41708, 370, 178075866, 42705, 378), 250_000.0),
    "ssd_qd1": ((245855193, 61575, 6946, 141365009, 33716, 26796), 25_000.0),
    "ssd": ((488636629, 8932, 8518, 427891549, 28755, 21940), 25_000.0),
    "ssd_fast": ((3102524156, 724816, 778122, 1742780862, 425702, 443193), 5_000.0),
}
PAGE = 4096


@named
@dataclass(frozen=True)
class IOCost:
    """io.cost of a device, enabled. Fields as in io.cost.qos and io.cost.model; latencies in us, percentages in %.

    `preset` None is what the kernel takes by itself: hdd where the device is rotational, ssd_qd1 at a queue depth of 1,
    else ssd, which gives way to ssd_fast after ten seconds at a vrate of 500 % (and comes back at 10 %). Coefficients
    of your own go on top of it and stay. Without `rpct` and `wpct` latencies are not looked at. A cgroup's weight is
    `Cgroup.io_weight`.

    Raises ScenarioError for a number out of range, or min above max.

    >>> round(IOCost(preset="hdd").costs("hdd")["read_rand"] * 1e-6, 2)  # ms of a random read besides its page
    2.68
    """

    preset: str | None = knob(None, "coefficients", choices=tuple(PRESETS), optional=True)
    rbps: float | None = knob(None, "bytes a second, sequential reads", "bytes/s", 1, 1e12, optional=True)
    rseqiops: float | None = knob(None, "sequential reads of a page", "1/s", 1, 1e9, optional=True)
    rrandiops: float | None = knob(None, "random reads of a page", "1/s", 1, 1e9, optional=True)
    wbps: float | None = knob(None, "bytes a second, sequential writes", "bytes/s", 1, 1e12, optional=True)
    wseqiops: float | None = knob(None, "sequential writes of a page", "1/s", 1, 1e9, optional=True)
    wrandiops: float | None = knob(None, "random writes of a page", "1/s", 1, 1e9, optional=True)
    rpct: float = knob(0.0, "reads that must meet rlat; 0: none", "%", 0, 100)
    rlat_us: float | None = knob(None, "latency target of reads; None: the preset's", "us", 1, 1e9, optional=True)
    wpct: float = knob(0.0, "writes that must meet wlat; 0: none", "%", 0, 100)
    wlat_us: float | None = knob(None, "latency target of writes; None: the preset's", "us", 1, 1e9, optional=True)
    min: float = knob(1.0, "least vrate", "%", 1, 10000)
    max: float = knob(10000.0, "greatest vrate", "%", 1, 10000)

    def __post_init__(self) -> None:
        check(self, "io_cost.")
        if self.min > self.max:
            raise ScenarioError(f"io_cost.min: {self.min:g} is above max, {self.max:g}; give a smaller one.")

    def models(self, rotational: bool, queue_depth: int) -> tuple[str, ...]:
        """Names of the presets that a device may have, the first one at the start."""
        if self.preset is not None:
            return (self.preset,)
        if rotational:
            return ("hdd",)
        if queue_depth == 1:
            return ("ssd_qd1",)
        own = any(getattr(self, name) is not None for name in COEFFICIENTS)
        return ("ssd",) if own else ("ssd", "ssd_fast")

    def latencies_us(self, preset: str) -> tuple[float, float]:
        """(rlat, wlat)."""
        usual = PRESETS[preset][1]
        return self.rlat_us or usual, self.wlat_us or usual

    def costs(self, preset: str) -> dict[str, int]:
        """Nanoseconds a page, and on top of it of a sequential and of a random bio, by direction."""
        values = dict(zip(COEFFICIENTS, PRESETS[preset][0], strict=True))
        values |= {name: getattr(self, name) for name in COEFFICIENTS if getattr(self, name) is not None}
        out = {}
        for direction, word in (("r", "read"), ("w", "write")):
            page = PAGE / values[f"{direction}bps"]
            out[f"{word}_page"] = round(page * 1e9)
            out[f"{word}_seq"] = round(max(1 / values[f"{direction}seqiops"] - page, 0) * 1e9)
            out[f"{word}_rand"] = round(max(1 / values[f"{direction}randiops"] - page, 0) * 1e9)
        return out


__all__ = ["IOCost"]
