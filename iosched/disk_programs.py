"""Compile a disk or an SSD into the engine's tables: zones, arm and caches (`engine/disk.py`), dies and buffer
(`engine/ssd.py`)."""

from __future__ import annotations

from .devices import FOREVER_US, SSD, ConstantTime, Disk
from .engine import codes as c
from .engine.platter import RADIUS
from .engine.state import State


def device_rows(device: ConstantTime, disks: int = 1) -> dict[str, int]:
    """How many rows of each kind such devices need; none for one without parts. Only a disk by itself is written to."""
    if isinstance(device, SSD):
        return {"n_dies": device.servers, "n_segments": device.streams}
    if not isinstance(device, Disk):
        return {}
    return {
        "n_zones": len(device.zones_MBs),
        "n_extents": device.cache_extents if device.write_cache else 0,
        "n_segments": device.segments * disks,
    }


def fill_disk(s: State, d: int, device: Disk) -> None:
    """The disk's row, its zones, and the free list of its cache."""
    s.devices[d].disk = 1
    s.devices[d].flush_exclusive = int(not device.flush_queueable)
    k = s.disks[d]
    k.turn_ns = round(device.turn_s * c.SEC)
    k.drawn_delay = int(device.rotation == "drawn")
    k.generator = device.seed
    k.settle_ns, k.root_ns, k.linear_ns = (
        round(ms * c.MSEC) for ms in (device.seek_settle_ms, device.seek_root_ms, device.seek_linear_ms)
    )
    k.heads = device.heads
    k.head_switch_ns = round(device.head_switch_ms * c.MSEC)
    k.track_switch_ns = round(device.track_switch_ms * c.MSEC)
    k.sectors, k.zones_n = device.sectors, len(device.zones_MBs)
    k.overlaps = int(device.command_overlap)
    k.choice = c.CHOICES.index(device.ncq_choice)
    k.stream_ns = round(device.stream_ms * c.MSEC)
    k.age_ns = round(device.ncq_age_ms * c.MSEC)
    k.read_grace_ns, k.write_grace_ns = (
        c.NEVER if us >= FOREVER_US else round(us * c.USEC) for us in (device.read_grace_us, device.write_grace_us)
    )
    if device.write_MBs is not None:
        k.write_ps = round(512e6 / device.write_MBs)
    if device.copy_MBs is not None:
        k.copy_ps = round(512e6 / device.copy_MBs)
    k.bus_ps = round(512e6 / device.bus_MBs)
    k.ack_ns = round((device.completion_us if device.ack_us is None else device.ack_us) * c.USEC)
    k.piece_sectors = 2 * device.destage_kb
    k.rank = c.RANKS.index(device.destage)
    k.quiet_ns = round(device.destage_quiet_ms * c.MSEC)
    k.patience_ns = round(device.destage_patience_ms * c.MSEC)
    k.segments_n, k.segment_sectors = device.segments, 2 * device.segment_kb
    if device.write_cache and d == 0:
        k.cache_sectors = 2 * device.cache_kb
        k.free_extent = 0
        s.extents.next = range(1, device.cache_extents + 1)
        s.extents.next[-1] = c.NONE
    fill_zones(s, device)
    k.at_sector = c.NONE


def fill_zones(s: State, device: Disk) -> None:
    """Zones of about equal capacity, each of whole cylinders but the last."""
    k = s.disks[0]
    pass_ns = int(k.heads * k.turn_ns + (k.heads - 1) * k.head_switch_ns + k.track_switch_ns)
    first = cylinder = 0
    for z, tracks, end, rate in zip(s.zones, device.track_sectors, device.zone_ends, device.zones_MBs, strict=True):
        whole = tracks * device.heads
        z.first, z.track_sectors, z.cylinder, z.unwound = first, tracks, cylinder, cylinder * pass_ns
        z.sector_ps = int(k.turn_ns) * 1000 // tracks if k.turn_ns else round(512e6 / rate)
        z.sectors = device.sectors - first if end == device.sectors else max(round((end - first) / whole), 1) * whole
        z.radius_span = -(-int(z.sectors) // whole)
        first, cylinder = first + int(z.sectors), cylinder + int(z.radius_span)
    s.zones.radius = s.zones.cylinder * RADIUS // cylinder
    s.zones.radius_span = s.zones.radius_span * RADIUS // cylinder


def fill_ssd(s: State, device: SSD) -> None:
    """The SSD's row and its dies."""
    s.devices[0].ssd = 1
    s.devices[0].flush_exclusive = int(not device.flush_queueable)
    k = s.ssds[0]
    k.link_ps = round(512e6 / device.read_MBs)
    k.cold_ps = round(512e6 / (device.read_MBs if device.cold_MBs is None else device.cold_MBs))
    k.ack_ns = round(device.write_us * c.USEC)
    k.program_ns = round(device.program_us * c.USEC)
    k.piece_sectors, k.buffer_sectors = 2 * device.program_kb, 2 * device.buffer_kb
    k.streams = device.streams
    s.segments.end = c.NONE
