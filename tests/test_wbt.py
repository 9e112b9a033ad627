"""Writeback throttling: depths by hand, windows and verdicts, who is exempt, defaults by kernel and scheduler."""

from __future__ import annotations

import numpy as np
import pytest

import iosched as io
from iosched.engine import codes as c
from iosched.engine import wbt
from iosched.engine.state import table
from iosched.errors import ScenarioError
from iosched.result import Result
from iosched.workloads import dd, fio, random_reader, sequential_writer

MIB = 2**20
plain = lambda f: getattr(f, "py_func", f)  # noqa: E731  as plain Python


def machine(target_us: float | None, **options) -> io.Machine:
    """One server of 200 us and 200 MB/s, and so much memory that no writer is held."""
    given = {"kernel": "6.1", "device": io.devices.sata(completion_us=200.0, bandwidth_MBs=200.0),
             "filesystem": "raw", "scheduler": "none", "wbt_lat_usec": target_us, "nr_requests": 64,
             "memory": io.Memory(size_mb=2**20, dirty_background_bytes=MIB)}  # fmt: skip
    return io.Machine(**(given | options))


def writer(**options) -> io.workloads.Fio:
    """A buffered writer that dirties faster than the device writes."""
    return sequential_writer(**({"bs": "1M", "fdatasync": 0, "size": "64G", "runtime": 2.0} | options))


def in_flight(result: Result, op: int = c.WRITE) -> np.ndarray:
    """Requests of a kind between their allocation and their completion, after each step."""
    t = result.trace
    own = np.isin(t["kind"], (c.TR_GET, c.TR_COMPLETE)) & (t["cmd_flags"] >> 16 == op)
    return np.cumsum(np.where(t["kind"][own] == c.TR_GET, 1, -1))


# ---------------------------------------------------------------------------------------------------------------------
# depths by hand (spec block-layer section 7)


@pytest.mark.parametrize(
    ("queue_depth", "step", "depths"),
    [
        (32, 0, (16, 8, 4)), (32, 1, (8, 4, 2)), (32, 2, (4, 2, 1)), (32, 3, (2, 2, 1)), (32, 4, (1, 1, 1)),
        (32, 9, (1, 1, 1)), (32, -1, (24, 12, 6)), (32, -2, (24, 12, 6)), (256, -2, (61, 31, 16)), (8, 0, (8, 4, 2)),
        (1, 0, (2, 2, 1)), (1, 1, (1, 1, 1)),
    ],
)  # fmt: skip
def test_the_three_limits_of_a_step(queue_depth, step, depths):
    w = table("wbt", 1)[0]
    w.queue_depth, w.step = queue_depth, step
    plain(wbt.set_depth)(w)
    assert (w.max_depth, w.normal, w.background) == depths


@pytest.mark.parametrize(("step", "window_ms"), [(0, 100), (1, 16 * 100 / 22), (3, 50), (8, 100 / 3)])
def test_the_window_shrinks_with_the_root_of_the_step(step, window_ms):
    """100 ms x 16 / isqrt((step + 1) x 256): isqrt(512) is 22."""
    root = plain(wbt.square_root)((step + 1) * 256)
    assert 100 * 16 / root == pytest.approx(window_ms)


# ---------------------------------------------------------------------------------------------------------------------
# who is on


@pytest.mark.parametrize(
    ("options", "target_us"),
    [
        ({"kernel": "6.1", "scheduler": "mq-deadline"}, 75_000),
        ({"kernel": "6.1", "scheduler": "none", "device": io.devices.sata()}, 2_000),
        ({"kernel": "6.1", "scheduler": "bfq"}, 0),
        ({"kernel": "4.19", "scheduler": "mq-deadline"}, 75_000),
        ({"kernel": "4.19", "scheduler": "cfq"}, 0),
        ({"kernel": "4.19", "scheduler": "deadline"}, 0),
        ({"kernel": "4.9", "scheduler": "none"}, 0),
        ({"kernel": "4.18", "scheduler": "cfq", "wbt_lat_usec": 75_000}, 75_000),
        ({"kernel": "6.1", "scheduler": "bfq", "wbt_lat_usec": 2_000}, 2_000),
        ({"kernel": "6.1", "scheduler": "none", "wbt_lat_usec": 0}, 0),
    ],
)
def test_the_default_is_by_device_and_off_under_cfq_and_bfq_unless_written(options, target_us):
    assert io.Machine(**options).wbt_target_us == target_us


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: io.Machine(kernel="4.9", wbt_lat_usec=75_000), ("wbt_lat_usec", "4.9", "came with 4.10")),
        (lambda: io.Machine(kernel="4.9", wbt_lat_usec=0), ("wbt_lat_usec", "came with 4.10")),
        (lambda: io.Machine(wbt_lat_usec=-2), ("wbt_lat_usec: -2", "0 to 1e+09 us")),
    ],
)
def test_a_target_that_a_kernel_could_not_be_given_is_refused_in_one_sentence(make, words):
    with pytest.raises(ScenarioError) as caught:
        make()
    text = str(caught.value)
    assert all(word in text for word in words) and "\n" not in text and text.endswith("."), text


# ---------------------------------------------------------------------------------------------------------------------
# what it does


def test_without_a_target_writes_fill_all_requests():
    result = io.simulate(machine(0), writer(), trace=True)
    assert in_flight(result).max() == 64


def test_background_writes_have_the_background_depth_and_grow_by_one_step_without_readers():
    """First 4 at once; after a window without reads 6, which is 3/4 of the device's queue as the largest depth."""
    result = io.simulate(machine(2_000), writer(), trace=True)
    early = result.trace[result.trace["at"] < 0.09 * c.SEC]
    row = result.state.wbt[0]
    assert in_flight(Result(result.scenario, result.state, early)).max() == 4
    assert (row.step, row.max_depth, row.scaled_max) == (-1, 24, 1)
    assert in_flight(result).max() == 6


def test_a_target_that_no_read_meets_takes_the_depth_back_and_then_down_to_one_write():
    """A read takes the device 200 us: the grown depth goes at once, then a step a window, and writes come singly."""
    result = io.simulate(machine(100), [writer(), random_reader(start=0.5, runtime=1.5)], trace=True)
    row = result.state.wbt[0]
    assert row.max_depth == 1 and row.step == 4 and row.exceeded >= 5
    late = result.trace[result.trace["at"] > 1.8 * c.SEC]
    assert np.ptp(in_flight(Result(result.scenario, result.state, late))) <= 2


@pytest.mark.parametrize(
    ("device", "queue_depth"), [(io.devices.sata(), 32), (io.devices.nvme(), 64), (io.devices.null(), 64)]
)
def test_where_the_driver_does_not_tell_its_depth_nr_requests_stands_for_it(device, queue_depth):
    from iosched.programs import compile_scenario

    s = compile_scenario(io.Scenario(machine(2_000, device=device), [writer()]))
    assert s.wbt[0].queue_depth == queue_depth


def test_reads_that_meet_the_target_leave_the_depth_alone():
    result = io.simulate(machine(75_000), [writer(), random_reader(runtime=2.0)])
    assert result.state.wbt[0].exceeded == 0 and result.state.wbt[0].step == -1


def test_the_reader_gains_and_the_writer_pays():
    jobs = [writer(), random_reader(runtime=2.0)]
    off, on = (io.simulate(machine(target), jobs) for target in (0, 2_000))
    assert on.jobs.latency_mean_s[1] < off.jobs.latency_mean_s[1] / 5
    assert on.state.caches[0].written < off.state.caches[0].written


def test_direct_writes_are_exempt_and_buffered_fsyncs_have_the_largest_depth():
    direct = fio("write", "64k", "1G", direct=True, ioengine="libaio", iodepth=48, runtime=0.5)
    assert io.simulate(machine(2_000), direct).state.wbt[0].throttled == 0
    device = io.devices.sata(completion_us=200.0, bandwidth_MBs=200.0, max_sectors_kb=128)
    synced = io.simulate(machine(2_000, device=device), dd(bs="8M", count=1, oflag="dsync"), trace=True)
    assert in_flight(synced).max() == 16


def test_with_a_write_cache_background_writes_go_in_bursts():
    """Filled to the limit, drained to the last, filled again; without a cache one write follows another."""
    device = {"completion_us": 200.0, "bandwidth_MBs": 200.0}
    with_cache = io.simulate(machine(2_000, device=io.devices.sata(write_cache=True, **device)), writer(), trace=True)
    without = io.simulate(machine(2_000), writer(), trace=True)
    empty = [np.mean(in_flight(r)[50:] == 0) for r in (with_cache, without)]
    assert empty[0] > 0.05 and empty[1] == 0


def test_a_writer_that_is_held_at_the_dirty_limit_has_the_largest_depth():
    """Somebody waits for these writes: 16 and then 24 at once instead of 4 and 6."""
    held = machine(2_000, memory=io.Memory(dirty_background_bytes=8 * MIB, dirty_bytes=64 * MIB))
    result = io.simulate(held, writer(), trace=True)
    assert result.state.caches[0].pauses > 0
    assert in_flight(result).max() == 24


def test_a_place_that_is_not_needed_any_more_goes_to_the_next():
    """The flusher writes what an fsync was let in for, and the other way round; the laws count the places."""
    memory = io.Memory(dirty_background_bytes=0, dirty_background_ratio=0, dirty_bytes=MIB)
    m = machine(500, kernel="4.19", scheduler="noop", memory=memory, device=io.devices.sata(write_cache=True))
    result = io.simulate(m, dd(bs=4096, count=6, oflag="", conv="fsync"))
    assert result.state.wbt[0].inflight == 0 and result.state.caches[0].written == 6


@pytest.mark.parametrize("queue_depth", range(1, 9))
def test_the_depth_comes_back_to_its_start_on_any_device(queue_depth):
    vm = io.Machine(kernel="4.19", scheduler="mq-deadline", device=io.devices.wd5000lplx(queue_depth=queue_depth))
    row = io.simulate(vm, [dd(count=2), dd(count=1, start=5.0)]).writeback.iloc[0]
    assert 0 < row.wbt_windows < 30
