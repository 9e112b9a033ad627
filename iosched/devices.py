"""Devices: what a command costs once the driver has sent it.

`null()` is null_blk-like: every command has its own timer, served in parallel up to the queue depth. `single()` serves
one command after another. Both take the same time for every command, so that what a scheduler does stands out. `sata()`
and `nvme()` also move the data: channels with a fixed time a command and a bandwidth. An `SSD` has dies, a write buffer
and a link; `samsung_970_pro()`, `plextor_m5s()` and the disk `hitachi_7k750()` are those of thread 2. A `Disk` has an
arm, a platter and caches; `wd5000lplx()`, `st500lm012()` and `m4_ssd()` are those of thread 3, `hdd_model()` and
`simblk_disk()` the models of the kernel measurements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .engine.codes import CHOICES, RANKS
from .errors import ScenarioError, number, unknown
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
    tells_depth: bool = knob(True, "the driver tells writeback throttling its depth (SCSI, so SATA); null_blk and NVMe "
                             "do not, and nr_requests stands for it")  # fmt: skip
    rotational: bool = knob(True, "queue/rotational", sysfs="queue/rotational")
    write_cache: bool = knob(False, "a write-back cache that the kernel sees", sysfs="queue/write_cache")
    flush_us: float | None = knob(None, "time of a cache flush; None: as any command", "us", 0.001, 1e9, optional=True)
    fua: bool = knob(True, "FUA writes need no second flush", sysfs="queue/fua")
    hw_queues: int = knob(1, "hardware queues, each with queue_depth tags of its own", "queues", 1, 1024, integer=True)
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
    write_MBs: float | None = knob(None, "of one channel, in writes; None: as reads", "10^6 bytes/s", 0.1, 1e6,
                                   optional=True)  # fmt: skip
    reads_first: bool = knob(False, "a free channel takes waiting reads before writes")
    scsi: bool = knob(False, "its driver is the SCSI layer (libata), which runs the queue after every command")


@named
@dataclass(frozen=True)
class SSD(ConstantTime):
    """Flash behind one link. A read keeps its die busy for `completion_us` (dies by address, so that reads meet at one
    now and then), then its data cross the link at `read_MBs`.

    A write crosses the link into the buffer and is acknowledged `write_us` later, as long as there is room. The buffer
    is programmed in pieces of `program_kb`, one a die at a time, at `write_MBs` when all dies are at it; a read that
    meets its die there waits. A flush programs what is left, and then takes `flush_us` for the tables; what comes
    meanwhile stalls, inside, or outside where a flush is not queueable. A controller that recognises no more than so
    many sequential `streams` (0: any number) moves other reads at `cold_MBs`, but for their first page.

    Raises ScenarioError for what cannot be.

    >>> SSD(servers=8, write_MBs=512, program_kb=64).program_us
    1024.0
    """

    completion_us: float = knob(60.0, "a read of a die", "us", 0.001, 1e9, slider=(10, 1000, "log"))
    servers: int = knob(32, "dies", "dies", 1, 4096, integer=True)
    rotational: bool = knob(False, "queue/rotational", sysfs="queue/rotational")
    write_cache: bool = knob(True, "a write-back cache that the kernel sees", sysfs="queue/write_cache")
    flush_us: float | None = knob(2000.0, "saving the tables at a flush; None: as a read", "us", 0.001, 1e9,
                                  optional=True)  # fmt: skip
    flush_queueable: bool = knob(False, "a flush may be inside the SSD beside other commands")
    read_MBs: float = knob(3500.0, "of the link", "10^6 bytes/s", 0.1, 1e6, slider=(100, 10000, "log"))
    write_MBs: float = knob(2300.0, "of all dies programming", "10^6 bytes/s", 0.1, 1e6)
    write_us: float = knob(10.0, "until a write in the buffer is acknowledged", "us", 0, 1e9)
    buffer_kb: int = knob(65536, "size of the write buffer", "KiB", 4, 1 << 24, integer=True)
    program_kb: int = knob(64, "what a die programs at a time", "KiB", 4, 1 << 16, integer=True)
    streams: int = knob(0, "sequential streams that the controller recognises; 0: any number", "", 0, 256, integer=True)
    cold_MBs: float | None = knob(None, "of reads that belong to none of them; None: as others", "10^6 bytes/s", 0.1,
                                  1e6, optional=True)  # fmt: skip

    @property
    def program_us(self) -> float:
        """How long a die programs a piece."""
        return self.servers * self.program_kb * 1024 / self.write_MBs


@named
@dataclass(frozen=True)
class Exponential(ConstantTime):
    """A device whose commands take exponential times with mean `completion_us`, drawn from `seed`; flushes take
    `flush_us`. With one server it is the M of queueing theory, which its textbook formulas can be held against."""

    seed: int = knob(1, "of the drawn times", "", 1, 2**31 - 57, integer=True)


MOST_ZONES = 64
FOREVER_US = 1e9


@named
@dataclass(frozen=True)
class Disk(ConstantTime):
    """A disk with positions. `completion_us` is the electronics' part of a command.

    A command takes the arm's move (`seek_ms`), the wait for the platter, whose angle is that of the time, and the
    transfer at its zone's rate; `zones_MBs` are sustained rates (10^6 bytes/s) of zones of equal capacity from the
    outer edge inwards, switches between tracks included. With rpm 0 and no seeks it is an SSD of one channel.

    NCQ takes the command whose sectors the arm reaches first ("shortest"), the nearest one, the oldest ("order"), or
    for up to `stream_ms` one that goes on where the disk reads ahead ("stream"), then the oldest; a command older than
    `ncq_age_ms` goes first. Writes are acknowledged by the write cache while there is room, with `write_cache=False`
    (hdparm -W0) by the medium. The cache is destaged in pieces when no command has come for `destage_quiet_ms`, or when
    it is more than half full; beside waiting commands its pieces come "last", take part in NCQ's choice as one command
    more ("equal"), take turns with them ("turns"), go "first", or are "patient": equal, but once commands have had the
    arm for `destage_patience_ms` without a break, a piece goes first, and with the arm at the cached writes those that
    follow it are what NCQ reaches soonest. A flush is done when the cache is empty; on SATA nothing else is inside the
    disk meanwhile. After a read the disk reads on into one of its `segments` until the arm is needed.

    Source: flushes and depth as spec block-layer sections 8 and 11 have them; destaging and NCQ's order are the drive's
    own affair (section 13), so they are knobs.

    Raises ScenarioError for a disk that cannot exist.

    >>> Disk(rpm=7200).turn_s
    0.008333333333333333
    """

    completion_us: float = knob(100.0, "the electronics' part of a command", "us", 0.001, 1e9,
                                slider=(10, 5000, "log"))  # fmt: skip
    servers: int = knob(1, "arms", "arms", 1, 1, integer=True)
    queue_depth: int = knob(32, "commands inside the disk (NCQ depth)", "commands", 1, 32, integer=True,
                            sysfs="device/queue_depth", slider=(1, 32, "log"))  # fmt: skip
    write_cache: bool = knob(True, "a volatile write cache (hdparm -W)", sysfs="queue/write_cache")
    fua: bool = knob(False, "FUA writes go past the cache and need no second flush (libata: off)", sysfs="queue/fua")
    flush_queueable: bool = knob(False, "a flush may be inside the disk beside other commands (SATA: not)")
    scsi: bool = knob(True, "its driver is the SCSI layer (libata), which runs the queue after every command")
    capacity_GB: float = knob(500.0, "size", "10^9 bytes", 0.05, 100_000)
    rpm: float = knob(7200.0, "turns a minute; 0: no moving parts", "1/min", 0, 60_000, slider=(4200, 15000))
    rotation: str = knob("angle", "how long the platter takes: by its angle, or drawn", choices=("angle", "drawn"))
    seed: int = knob(1, "of the drawn delays", "", 1, 2**31 - 57, integer=True)
    seek_settle_ms: float = knob(2.8, "of the shortest seek", "ms", 0, 1000)
    seek_root_ms: float = knob(17.2, "times the square root of the distance (1: the whole way)", "ms", 0, 1000)
    seek_linear_ms: float = knob(0.0, "times the distance", "ms", 0, 1000)
    zones_MBs: tuple[float, ...] = (120.0, 115.0, 110.0, 104.0, 97.0, 89.0, 79.0, 66.0)
    heads: int = knob(2, "surfaces", "", 1, 64, integer=True)
    head_switch_ms: float = knob(1.0, "to the next surface of a cylinder", "ms", 0, 100)
    track_switch_ms: float = knob(1.0, "to the next cylinder, in a sequential transfer", "ms", 0, 100)
    write_MBs: float | None = knob(None, "of the medium where there is no platter; None: as reads", "10^6 bytes/s", 0.1,
                                   1e6, optional=True)  # fmt: skip
    bus_MBs: float = knob(300.0, "to and from the disk's memory", "10^6 bytes/s", 0.1, 1e6)
    copy_MBs: float | None = knob(None, "a command's data are copied at this rate before the arm sets out (models in "
                                  "memory); None: at once", "10^6 bytes/s", 0.1, 1e6, optional=True)  # fmt: skip
    ack_us: float | None = knob(None, "until the cache takes a write; None: completion_us", "us", 0, 1e9, optional=True)
    command_overlap: bool = knob(True, "the electronics prepare a command while the arm works on another")
    read_grace_us: float = knob(0.0, "a read that goes on within this time does not wait for the platter", "us", 0,
                                FOREVER_US)  # fmt: skip
    write_grace_us: float = knob(0.0, "the same of a write", "us", 0, FOREVER_US)
    ncq_choice: str = knob("shortest", "which command is next", choices=CHOICES)
    ncq_age_ms: float = knob(2000.0, "age from which a command goes first; 0: never", "ms", 0, 1e6, slider=(0, 5000))
    stream_ms: float = knob(300.0, "how long ncq_choice stream goes on with one", "ms", 0, 1e6)
    cache_kb: int = knob(16384, "size of the write cache", "KiB", 4, 1 << 22, integer=True)
    cache_extents: int = knob(256, "separate pieces that the cache can hold", "", 1, 65536, integer=True)
    destage: str = knob("equal", "rank of destaging beside commands", choices=RANKS)
    destage_kb: int = knob(512, "most that is destaged at a time", "KiB", 4, 1 << 20, integer=True)
    destage_patience_ms: float = knob(40.0, "how long commands have the arm before a piece goes first, at rank "
                                      "patient", "ms", 0, 1e6)  # fmt: skip
    destage_quiet_ms: float = knob(0.0, "time without a command before destaging begins", "ms", 0, 1e6)
    segments: int = knob(16, "read-ahead segments; 0: none", "", 0, 256, integer=True)
    segment_kb: int = knob(1024, "size of a segment", "KiB", 4, 1 << 20, integer=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        zones = self.zones_MBs
        if not isinstance(zones, Iterable) or isinstance(zones, (str, bytes)) or np.ndim(zones) == 0:
            zones = (zones,)
        object.__setattr__(self, "zones_MBs", tuple(number("device.zones_MBs", z, 0.1, 1e6, "MB/s") for z in zones))
        if not 1 <= len(self.zones_MBs) <= MOST_ZONES:
            raise ScenarioError(
                f"device.zones_MBs: {len(self.zones_MBs)} are not allowed; give 1 to {MOST_ZONES} zones."
            )
        for outer, inner in zip(self.zones_MBs, self.zones_MBs[1:], strict=False):
            if inner > outer:
                raise ScenarioError(
                    f"device.zones_MBs: {inner:g} after {outer:g} is out of order; rates fall from the outer zone "
                    "inwards."
                )
        self._check_moving_parts()
        if self.write_cache and self.cache_kb < self.max_sectors_kb:
            raise ScenarioError(
                f"device.cache_kb: {self.cache_kb} is less than the largest request; give at least max_sectors_kb = "
                f"{self.max_sectors_kb}, or write_cache=False."
            )

    def _check_moving_parts(self) -> None:
        seeks = ("seek_settle_ms", "seek_root_ms", "seek_linear_ms", "head_switch_ms", "track_switch_ms")
        for name in seeks:
            if self.rpm == 0 and getattr(self, name):
                raise ScenarioError(
                    f"device.rpm: 0 is a device without moving parts, yet {name} is {getattr(self, name):g}; give "
                    f"{name}=0, or rpm of 60 or more."
                )
        if 0 < self.rpm < 60:
            raise ScenarioError(f"device.rpm: {self.rpm:g} is too slow; give 60 or more, or 0 for no moving parts.")
        if self.rpm == 0 and self.heads > 1:
            raise ScenarioError(f"device.heads: {self.heads} heads are not allowed without a platter (rpm 0); give 1.")
        if self.rpm > 0 and self.write_MBs is not None:
            raise ScenarioError(
                f"device.write_MBs: {self.write_MBs:g} is not allowed with a platter, which writes as fast as it "
                "reads; give None."
            )
        widest = max(self.track_sectors) * self.heads
        if self.rpm > 0 and widest * len(self.zones_MBs) > self.sectors:
            raise ScenarioError(
                f"device.capacity_GB: {self.capacity_GB:g} is less than a cylinder a zone; give at least "
                f"{widest * len(self.zones_MBs) * 512e-9:.2g}."
            )

    @property
    def sectors(self) -> int:
        """Its 512-byte sectors."""
        return round(self.capacity_GB * 1e9) // 512

    @property
    def turn_s(self) -> float:
        """Seconds of a turn; 0 without a platter."""
        return 60 / self.rpm if self.rpm else 0.0

    @property
    def track_sectors(self) -> tuple[int, ...]:
        """Sectors of a track in each zone: what passes in a turn and the switch that follows it."""
        if not self.rpm:
            return tuple(np.diff([0, *self.zone_ends]).tolist())
        switch = ((self.heads - 1) * self.head_switch_ms + self.track_switch_ms) / self.heads * 1e-3
        return tuple(max(round(rate * 1e6 * (self.turn_s + switch) / 512), 1) for rate in self.zones_MBs)

    @property
    def zone_ends(self) -> tuple[int, ...]:
        """Where each zone ends, in sectors."""
        n = len(self.zones_MBs)
        return tuple(self.sectors * (i + 1) // n for i in range(n))

    def seek_ms(self, distance: np.ndarray | float) -> np.ndarray:
        """The seek curve; `distance` 1 is the whole way of the arm.

        >>> float(Disk().seek_ms(1.0))
        20.0
        """
        return self.seek_settle_ms + self.seek_root_ms * np.sqrt(distance) + self.seek_linear_ms * np.asarray(distance)

    def mean_seek_s(self, part: float = 1.0) -> float:
        """Mean seek time between random places of the outermost `part` of the capacity, the number of tracks a zone
        inversely as its rate."""
        tracks = np.cumsum([0.0, *(1 / rate for rate in self.zones_MBs)])
        places = (np.arange(1000) + 0.5) / 1000 * part
        radius = np.interp(places, np.linspace(0, 1, len(tracks)), tracks / tracks[-1])
        return float(self.seek_ms(np.abs(radius[:, None] - radius)).mean() * 1e-3)

    def random_read_s(self, bs: int = 4096, part: float = 1.0) -> float:
        """Closed form of a random read of `bs` bytes by itself: electronics, mean seek, half a turn, transfer.

        >>> round(Disk(seek_root_ms=0, zones_MBs=100, head_switch_ms=0, track_switch_ms=0).random_read_s(10**5), 4)
        0.0081
        """
        n = math.ceil(len(self.zones_MBs) * part)
        s_a_byte = self.turn_s / 512 / np.array(self.track_sectors) if self.rpm else 1e-6 / np.array(self.zones_MBs)
        transfer = bs * float(s_a_byte[:n].mean())
        return self.completion_us * 1e-6 + self.mean_seek_s(part) + self.turn_s / 2 + transfer


def null(completion_us: float = 100.0, queue_depth: int = 32, **options: object) -> ConstantTime:
    """A null_blk-like device: parallel up to `queue_depth`, `completion_us` a command. Options as `ConstantTime`.

    >>> null(completion_us=50, rotational=False).completion_us
    50
    """
    own = {"completion_us": completion_us, "queue_depth": queue_depth, "tells_depth": False}
    return _build(ConstantTime, **(own | options))


def single(completion_us: float = 100.0, queue_depth: int = 32, **options: object) -> ConstantTime:
    """A single server: one command at a time, the others wait inside the device. Options as `ConstantTime`.

    >>> single(completion_us=50).servers
    1
    """
    return _build(ConstantTime, completion_us=completion_us, queue_depth=queue_depth, servers=1, **options)


def exponential(completion_us: float = 100.0, servers: int = 1, **options: object) -> Exponential:
    """`servers` servers with exponential times of mean `completion_us`. Options as `Exponential`.

    >>> exponential(seed=7).servers
    1
    """
    return _build(Exponential, completion_us=completion_us, servers=servers, **options)


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
    preset = {"completion_us": 70.0, "bandwidth_MBs": 400.0, "servers": 8, "queue_depth": 256, "rotational": False,
              "tells_depth": False}  # fmt: skip
    return _build(Channels, **(preset | options))


# What thread 3 does not say of its disks: a 2.5 inch data sheet's 12 ms average and 20 ms full-stroke seek and 1 ms
# from track to track (Hitachi 5K320, SATA OEM specification, section 4.4.2). How they destage and when a command is too
# old is nobody's specification (spec block-layer section 13): both let what the cache holds wait for 15 ms of commands.
_MOBILE = {"capacity_GB": 500.0, "seek_settle_ms": 2.8, "seek_root_ms": 17.2, "destage": "patient",
           "destage_patience_ms": 15.0, "ncq_age_ms": 600.0}  # fmt: skip


def wd5000lplx(**options: object) -> Disk:
    """Thread 3's first disk, a WD Black Mobile: 7200 rpm, depth 32, 32 MB of cache, SATA 6 Gb/s. Options as `Disk`.

    Its rate in the middle is fitted to the thread's idle system, where readahead windows of 256 KiB were waited for
    2 ms, a little more or less (`iosched.threads.writeback`).

    >>> wd5000lplx().queue_depth
    32
    """
    preset = {"rpm": 7200.0, "queue_depth": 32, "cache_kb": 32768, "bus_MBs": 550.0,
              "zones_MBs": (138.0, 134.0, 128.0, 121.0, 112.0, 102.0, 90.0, 75.0)}  # fmt: skip
    return _build(Disk, **(_MOBILE | preset | options))


def st500lm012(**options: object) -> Disk:
    """Thread 3's second disk, a Seagate (Samsung Spinpoint M8): 5400 rpm, depth 31, 8 MB of cache, SATA 3 Gb/s
    (reviews of the model name both). Options as `Disk`.

    >>> st500lm012().turn_s
    0.011111111111111112
    """
    preset = {"rpm": 5400.0, "queue_depth": 31, "cache_kb": 8192, "bus_MBs": 270.0,
              "zones_MBs": (108.0, 105.0, 100.0, 94.0, 88.0, 80.0, 70.0, 58.0)}  # fmt: skip
    return _build(Disk, **(_MOBILE | preset | options))


def m4_ssd(**options: object) -> Channels:
    """Thread 3's third device, a Crucial M4 of 128 GB: reads as fast as SATA 6 Gb/s, 200 MB/s in writes (as the thread
    saw on an idle system), a write cache, reads before writes. Options as `Channels`.

    >>> m4_ssd().rotational
    False
    """
    preset = {"completion_us": 20.0, "bandwidth_MBs": 550.0, "write_MBs": 200.0, "write_cache": True, "fua": False,
              "queue_depth": 31, "reads_first": True, "scsi": True}  # fmt: skip
    return sata(**(preset | options))


def samsung_970_pro(**options: object) -> SSD:
    """Thread 2's NVMe SSD (named by its author for the same script, 6 September 2019). Options as `SSD`.

    The maker's figures for the 1 TB model: 3500 and 2700 MB/s, 15,000 reads of 4 KiB a second at depth 1 (60 us and the
    host) and 500,000 at depth 128, which 35 dies of 60 us give. A flush: 3.5 ms an fsync were published for its
    predecessor, the 960 Pro (Percona, 18 July 2018); here 2 ms after programming the buffer.

    >>> samsung_970_pro().queue_depth
    1023
    """
    preset = {"completion_us": 60.0, "servers": 35, "queue_depth": 1023, "read_MBs": 3500.0, "write_MBs": 2700.0,
              "buffer_kb": 1 << 20, "flush_queueable": True}  # fmt: skip
    return _build(SSD, **(preset | options))


def plextor_m5s(**options: object) -> SSD:
    """Thread 2's SATA SSD, a Plextor PX-256M5S. Options as `SSD`.

    520 and 390 MB/s, 8 channels and 73,000 reads of 4 KiB a second are the maker's; 506 MB/s and 5.1 ms a random read
    beside seven sequential readers were measured with the thread's script (2 September 2019). Its 39 ms beside fifteen
    are two and a half times what thirty windows of 256 KiB take at that rate. That the controller knows `streams`
    sequential streams and delivers others at `cold_MBs` is the assumption that makes up for it; the rate is the one
    figure of the thread's tables that is fitted for this device.

    >>> plextor_m5s().servers
    8
    """
    preset = {"completion_us": 95.0, "servers": 8, "queue_depth": 32, "read_MBs": 515.0, "write_MBs": 390.0,
              "buffer_kb": 65536, "streams": 8, "cold_MBs": 125.0, "fua": False}  # fmt: skip
    return _build(SSD, **(preset | options))


def hitachi_7k750(**options: object) -> Disk:
    """Thread 2's disk, a Hitachi HTS72755 (Travelstar 7K750, 7200 rpm). Options as `Disk`.

    Seeks as in the data sheet of its family (12 ms average, 20 ms full stroke). The thread's
    4.5 s of a random read beside fifteen sequential readers say that the disk goes on with what it reads ahead for
    300 ms before it takes the oldest command: the one figure that is fitted for this device. Otherwise it takes
    commands in order: 157 ms and 11.5 MB/s were measured with the same script later (6 September 2019).

    >>> hitachi_7k750().turn_s
    0.008333333333333333
    """
    preset = {"rpm": 7200.0, "queue_depth": 31, "cache_kb": 16384, "ncq_choice": "stream", "ncq_age_ms": 0.0,
              "stream_ms": 300.0}  # fmt: skip
    return _build(Disk, **(_MOBILE | preset | options))


_MODEL = {"seek_settle_ms": 0.5, "seek_root_ms": 14.5, "zones_MBs": 150.0, "heads": 1, "head_switch_ms": 0.0,
          "track_switch_ms": 0.0, "segments": 0, "command_overlap": False, "write_cache": False,
          "read_grace_us": FOREVER_US, "flush_queueable": True, "tells_depth": False, "scsi": False,
          "capacity_GB": 34.359738368}  # fmt: skip


def hdd_model(**options: object) -> Disk:
    """The disk of the 4.19 measurements (`null+hdd_model`): 150 MB/s, 7200 rpm, commands of 50 us one after another;
    contiguous reads stream, contiguous writes only within 20 us. Options as `Disk`.

    >>> hdd_model(ncq_age_ms=50).zones_MBs
    (150.0,)
    """
    preset = {"completion_us": 50.0, "queue_depth": 31, "write_grace_us": 20.0, "ncq_age_ms": 250.0}
    return _build(Disk, **(_MODEL | preset | options))


def simblk_disk(**options: object) -> Disk:
    """The disk of the 6.1 measurements (`simblk`, mode 1): 150 MB/s, seeks of 0.8 to 14 ms by the square root of the
    distance, and a drawn rotational delay for every access that does not go on where the last one ended. Options as
    `Disk`.

    >>> simblk_disk(ncq_choice="order").rotation
    'drawn'
    """
    preset = {"completion_us": 200.0, "rotation": "drawn", "seek_settle_ms": 0.8, "seek_root_ms": 13.2,
              "write_grace_us": FOREVER_US, "ncq_choice": "nearest", "ncq_age_ms": 0.0, "bus_MBs": 1e6}  # fmt: skip
    return _build(Disk, **(_MODEL | preset | options))


def _build(kind: type[ConstantTime], **options: object) -> ConstantTime:
    for name in options:
        if name not in kind.__dataclass_fields__:
            raise unknown("device option", name, kind.__dataclass_fields__)
    return kind(**options)  # type: ignore[arg-type]


__all__ = [
    "Channels",
    "ConstantTime",
    "Disk",
    "SSD",
    "Exponential",
    "exponential",
    "hdd_model",
    "hitachi_7k750",
    "m4_ssd",
    "null",
    "nvme",
    "plextor_m5s",
    "samsung_970_pro",
    "sata",
    "simblk_disk",
    "single",
    "st500lm012",
    "wd5000lplx",
]


def __dir__() -> list[str]:
    return __all__
