"""A disk's rules one by one: three requests by hand, the geometry, and the write cache against plain sets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iosched as io
from iosched.engine import block, disk_cache, flush, segments
from iosched.engine import codes as c
from iosched.engine.loop import run
from iosched.engine.platter import locate, moving, transfer
from iosched.engine.pool import get_request
from iosched.programs import compile_scenario

# a turn is 10 ms and a track 1000 sectors; 200 tracks, a seek takes 1 ms and 10 ms times the distance
BY_HAND = io.devices.Disk(
    capacity_GB=0.1024,
    rpm=6000,
    zones_MBs=51.2,
    heads=1,
    head_switch_ms=0,
    track_switch_ms=0,
    seek_settle_ms=1,
    seek_root_ms=0,
    seek_linear_ms=10,
    completion_us=100,
    segments=0,
    write_cache=False,
)
IDLE_HOST = io.Host(request_us=0, request_mq_us=0, wakeup_us=0, raw_us=0, read_us=0, copy_us=0, ahead_us=0)


def state_of(device: io.devices.Disk):
    """A machine with the disk, whose job never begins."""
    machine = io.Machine(kernel="5.15", device=device, scheduler="none", filesystem="raw", host=IDLE_HOST)
    return compile_scenario(io.Scenario(machine, [io.workloads.dd(count=1, start=1000.0)]))


@pytest.mark.parametrize(
    ("choice", "ends_ms"),
    [
        # on track 0 the first waits until 5.00; the third (track 20, 1.992 ms away) is reached at 13.00, the second
        # (track 100, 5.976 ms away) only at 20.00, from the third as from the first
        ("shortest", [5.08, 20.08, 13.08]),
        ("nearest", [5.08, 20.08, 13.08]),
        # in order, the way back from track 100 takes 4.984 ms and misses the turn at 23.00
        ("order", [5.08, 20.08, 33.08]),
    ],
)
def test_three_requests_by_hand(bench_of, choice, ends_ms):
    device = io.devices.Disk(**{**{f: getattr(BY_HAND, f) for f in BY_HAND.__dataclass_fields__}, "ncq_choice": choice})
    machine = io.Machine(kernel="5.15", device=device, scheduler="none", filesystem="raw", host=IDLE_HOST)
    bench = bench_of(machine, [io.workloads.dd(count=1, start=1000.0)])
    requests = [bench.request(0, c.READ, sector) for sector in (500, 100_000, 20_300)]
    block.run_queue(bench.s, 0)
    run(bench.s, 10**9, 10**6)
    assert [int(bench.s.requests[ri].earliest) / 1e6 for ri in requests] == ends_ms
    assert int(bench.s.devices[0].completed) == 3


@pytest.mark.parametrize(
    ("age_ms", "ends_ms"),
    [
        (0, [5.08, 13.08, 20.08]),  # whatever came first, the one that is reached first
        (5, [5.08, 20.08, 33.08]),  # the one of track 100 is the oldest, and aged when the first is done
    ],
)
def test_ncq_takes_what_it_reaches_first_unless_the_oldest_is_aged(bench_of, age_ms, ends_ms):
    device = replace(BY_HAND, ncq_choice="shortest", ncq_age_ms=age_ms)
    machine = io.Machine(kernel="5.15", device=device, scheduler="none", filesystem="raw", host=IDLE_HOST)
    bench = bench_of(machine, [io.workloads.dd(count=1, start=1000.0)])
    order = (500, 100_000, 20_300) if age_ms else (500, 20_300, 100_000)
    requests = [bench.request(0, c.READ, sector) for sector in order]
    block.run_queue(bench.s, 0)
    run(bench.s, 10**9, 10**6)
    assert [int(bench.s.requests[ri].earliest) / 1e6 for ri in requests] == ends_ms


def test_the_shortest_seek_takes_the_settle_time():
    s = state_of(BY_HAND)
    k = s.disks[0]
    locate(s, 0, 0, 0, 8)
    locate(s, 0, 1, 1000, 1008)  # the next track
    here = s.commands[0]
    k.at_sector, k.at_track, k.at_cylinder, k.at_radius = 8, here.track, here.cylinder, here.radius
    assert moving(k, here) == 0
    assert 1_000_000 < moving(k, s.commands[1]) < 1_100_000  # settle of 1 ms, and a 200th of 10 ms


@settings(max_examples=200, deadline=None)
@given(start=st.integers(0, 3_000_000), nr=st.integers(1, 2560))
def test_where_a_transfer_ends_the_platter_stands_as_if_it_had_begun_there(start, nr):
    s = state_of(io.devices.wd5000lplx(capacity_GB=2.0))
    k = s.disks[0]
    locate(s, 0, 0, start, start + nr)
    locate(s, 0, 1, start + nr, start + nr)
    a, b = s.commands[0], s.commands[1]
    if a.zone == b.zone:
        passed = transfer(s, 0, a.zone, start, start + nr, c.READ)
        left = (int(b.angle) - int(a.angle) - passed) % int(k.turn_ns)
        switch = int(k.track_switch_ns) if a.track != b.track else 0
        assert left <= switch + 5  # nothing is lost but a switch that comes before the next sector, and a track's ns
        assert passed >= nr * int(s.zones[a.zone].sector_ps) // 1000


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["put", "put", "piece"]), st.integers(0, 60), st.integers(1, 12)), max_size=40
    )
)
def test_the_cache_holds_the_union_of_what_was_written_and_not_destaged(steps):
    s = state_of(io.devices.wd5000lplx(destage_kb=4))
    k = s.disks[0]
    model: set[int] = set()
    for what, first, nr in steps:
        if what == "put":
            disk_cache.put(s, 0, first, first + nr)
            model |= set(range(first, first + nr))
        elif model:
            n = disk_cache.next_extent(s, 0)
            at = int(s.nodes[n].key)
            disk_cache.take_piece(s, 0, n)
            model -= set(range(at, at + int(k.piece)))
            disk_cache.piece_written(s, 0)
            k.at_sector = at
        held, n, last = set(), int(s.lists[k.dirty].head), -1
        while n != c.NONE:
            extent = s.extents[disk_cache.extent_of(s, n)]
            assert last < s.nodes[n].key < extent.end
            held |= set(range(int(s.nodes[n].key), int(extent.end)))
            last, n = int(extent.end), int(s.nodes[n].next)
        assert held == model and len(model) == k.held
        assert k.taken == k.written + k.overwritten + k.held


def test_a_read_hits_the_buffer_as_far_as_the_read_ahead_has_come_and_misses_what_was_written_since():
    s = state_of(io.devices.wd5000lplx(segments=2, segment_kb=512))
    segments.begin(s, 0, 0, 0, 8, 0)
    assert segments.find(s, 0, 8, 16) == 8  # nothing has passed yet
    s.sim[0].now = 3_000_000
    assert segments.find(s, 0, 8, 16) == 16
    assert segments.find(s, 0, 5000, 5008) == 5000
    segments.halt(s, 0)
    end = int(s.segments[0].end)
    assert segments.find(s, 0, end - 8, end + 8) == end  # its beginning is there
    segments.forget(s, 0, 8, 9)
    assert segments.find(s, 0, 8, 16) == 8


def test_one_flush_runs_at_a_time_and_who_comes_meanwhile_waits_for_the_next(bench):
    b = bench(io.Noop(), groups=("/", "/"), write_cache=True)
    for task in (0, 1):
        flush.begin(b.s, get_request(b.s, 0, task, c.WRITE, 1000 * task, 8, c.F_SYNC | c.F_PREFLUSH))
    dev = b.s.devices[0]
    assert dev.flush_running != c.NONE
    assert sum(int(r.op) == c.FLUSH and int(r.state) != c.R_FREE for r in b.s.requests) == 1
