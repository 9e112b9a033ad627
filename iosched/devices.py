"""Devices: what a command costs once the driver has sent it.

`null()` is null_blk-like: every command has its own timer, served in parallel up to the queue depth. `single()` serves
one command after another. Both take the same time for every command, so that what a scheduler does stands out.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ScenarioError
from .knobs import check, knob, named


@named
@dataclass(frozen=True)
class ConstantTime:
    """A device whose every command takes the same time.

    `completion_us` is the device's own time; the driver's and the interrupt's CPU belong to the `Host`. A volatile
    write cache that the kernel sees (`write_cache`) makes it send flushes, which take `flush_us` (as any
    command if None); without `fua` a FUA write is followed by a second flush (so was null_blk of 4.19 measured).

    >>> ConstantTime(completion_us=100, servers=1).queue_depth
    32
    """

    completion_us: float = knob(100.0, "time of a command", "us", 0.001, 1e9, slider=(10, 5000, "log"))
    servers: int = knob(
        1024, "commands worked on at once; 1 serves one after another", "commands", 1, 65536, integer=True
    )
    queue_depth: int = knob(32, "commands the device accepts (NCQ depth, hardware tags)", "commands", 1, 65536,
                            integer=True, sysfs="device/queue_depth", slider=(1, 64, "log"))  # fmt: skip
    rotational: bool = knob(True, "queue/rotational", sysfs="queue/rotational")
    write_cache: bool = knob(False, "a write-back cache that the kernel sees", sysfs="queue/write_cache")
    flush_us: float | None = knob(None, "time of a cache flush; None: as any command", "us", 0.001, 1e9, optional=True)
    fua: bool = knob(True, "FUA writes need no second flush", sysfs="queue/fua")
    max_sectors_kb: int = knob(1280, "largest request", "KiB", 4, 32767, integer=True, sysfs="queue/max_sectors_kb")

    def __post_init__(self) -> None:
        check(self, "device.")
        if self.max_sectors_kb % 4:
            raise ScenarioError(f"device.max_sectors_kb: {self.max_sectors_kb} is not allowed; give a multiple of 4.")


def null(completion_us: float = 100.0, queue_depth: int = 32, **options: object) -> ConstantTime:
    """A null_blk-like device: parallel up to `queue_depth`, `completion_us` a command. Options as `ConstantTime`.

    >>> null(completion_us=50, rotational=False).completion_us
    50
    """
    return _build(completion_us=completion_us, queue_depth=queue_depth, **options)


def single(completion_us: float = 100.0, queue_depth: int = 32, **options: object) -> ConstantTime:
    """A single server: one command at a time, the others wait inside the device. Options as `ConstantTime`.

    >>> single(completion_us=50).servers
    1
    """
    return _build(completion_us=completion_us, queue_depth=queue_depth, servers=1, **options)


def _build(**options: object) -> ConstantTime:
    from .errors import unknown

    for name in options:
        if name not in ConstantTime.__dataclass_fields__:
            raise unknown("device option", name, ConstantTime.__dataclass_fields__)
    return ConstantTime(**options)  # type: ignore[arg-type]


__all__ = ["ConstantTime", "null", "single"]


def __dir__() -> list[str]:
    return __all__
