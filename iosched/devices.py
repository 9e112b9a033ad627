"""Devices: what a command costs once the driver has sent it.

`null()` is null_blk-like: every command has its own timer, served in parallel up to the queue depth. `single()` serves
one command after another. Both take the same time for every command, so that what a scheduler does stands out.
`sata()` and `nvme()` also move the data: channels with a fixed time a command and a bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ScenarioError, unknown
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
    read_ahead_kb: int = knob(128, "read ahead of a sequential reader", "KiB", 4, 32767, integer=True,
                              sysfs="queue/read_ahead_kb")  # fmt: skip

    def __post_init__(self) -> None:
        check(self, "device.")
        for name in ("max_sectors_kb", "read_ahead_kb"):
            if getattr(self, name) % 4:
                raise ScenarioError(f"device.{name}: {getattr(self, name)} is not allowed; give a multiple of 4.")


@named
@dataclass(frozen=True)
class Channels(ConstantTime):
    """A device whose `servers` channels each work on one command: `completion_us`, and the time of moving its data.

    A 4 KiB read of one channel with 60 us and 500 MB/s takes 68.2 us, a read of 128 KiB 322 us.
    """

    bandwidth_MBs: float = knob(500.0, "of one channel", "10^6 bytes/s", 0.1, 1e6, slider=(50, 5000, "log"))


def null(completion_us: float = 100.0, queue_depth: int = 32, **options: object) -> ConstantTime:
    """A null_blk-like device: parallel up to `queue_depth`, `completion_us` a command. Options as `ConstantTime`.

    >>> null(completion_us=50, rotational=False).completion_us
    50
    """
    return _build(ConstantTime, completion_us=completion_us, queue_depth=queue_depth, **options)


def single(completion_us: float = 100.0, queue_depth: int = 32, **options: object) -> ConstantTime:
    """A single server: one command at a time, the others wait inside the device. Options as `ConstantTime`.

    >>> single(completion_us=50).servers
    1
    """
    return _build(ConstantTime, completion_us=completion_us, queue_depth=queue_depth, servers=1, **options)


def sata(**options: object) -> Channels:
    """A SATA SSD, the `sata` model of the kernel measurements: one channel, 60 us and 500 MB/s. Options as `Channels`.

    >>> sata().queue_depth, sata().rotational
    (32, False)
    """
    preset = {"completion_us": 60.0, "bandwidth_MBs": 500.0, "servers": 1, "queue_depth": 32, "rotational": False}
    return _build(Channels, **(preset | options))


def nvme(**options: object) -> Channels:
    """An NVMe SSD, the `nvme` model of the kernel measurements: 8 channels, each 70 us and 400 MB/s. Options as
    `Channels`.

    >>> nvme(queue_depth=1023).servers
    8
    """
    preset = {"completion_us": 70.0, "bandwidth_MBs": 400.0, "servers": 8, "queue_depth": 256, "rotational": False}
    return _build(Channels, **(preset | options))


def _build(kind: type[ConstantTime], **options: object) -> ConstantTime:
    for name in options:
        if name not in kind.__dataclass_fields__:
            raise unknown("device option", name, kind.__dataclass_fields__)
    return kind(**options)  # type: ignore[arg-type]


__all__ = ["Channels", "ConstantTime", "null", "nvme", "sata", "single"]


def __dir__() -> list[str]:
    return __all__
