"""The saturated mix in closed form: its limits by hand, its regimes against the simulator, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import iosched as io
from iosched.errors import ScenarioError

w, devices = io.workloads, io.devices
HOST = io.Host(cpus=0)  # as many processors as wanted: none is the bottleneck
LEGACY = ("deadline", "cfq", "noop", io.CFQ(slice_async=400, slice_async_rq=8))
DISKS = ("wd5000lplx", "st500lm012", "hdd_model", "simblk_disk")


def machine(
    scheduler="mq-deadline", disk: str = "hdd_model", wbt: float | None = 0.0, nr: int | None = None, **options
):
    """A disk without a write cache that takes commands in their order, and a gigabyte of memory."""
    device = getattr(devices, disk)(**({"write_cache": False, "ncq_choice": "order", "queue_depth": 1} | options))
    return io.Machine(
        kernel="4.19" if scheduler in LEGACY else "6.1", scheduler=scheduler, device=device, nr_requests=nr, host=HOST,
        wbt_lat_usec=wbt, memory=io.Memory(size_mb=1024),
    )  # fmt: skip


def work(readers: int = 1, writers: int = 1, **options):
    return [w.sequential_writer(bs="1M", fdatasync=0, size="4G", runtime=60) for _ in range(writers)] + [
        w.sequential_reader(**({"size": "4G", "runtime": 60} | options)) for _ in range(readers)
    ]


def simulated(vm: io.Machine, jobs) -> tuple[float, float]:
    """(read, written) bytes a second of the simulator, from second 15 on."""
    rows = io.simulate(vm, jobs, until=60, interval_s=15).iostat(15, "old").frame.iloc[1:]
    return rows["rkB/s"].mean() * 1024, rows["wkB/s"].mean() * 1024


# ---------------------------------------------------------------------------------------------------------------------
# limits


def test_a_cycle_without_moves_shares_the_rate_by_bytes():
    vm = machine("deadline", seek_settle_ms=0.0, seek_root_ms=0.0, rpm=60_000, queue_depth=1, completion_us=0.001)
    mix = io.saturated_mix(vm, work())
    window, write = 2 * 2 * 128 * 1024, 16 * 2**20
    assert mix.read_share == pytest.approx(window / (window + write))
    assert mix.read_bytes_per_s + mix.write_bytes_per_s == pytest.approx(150e6, rel=0.02)


def test_depth_one_without_a_scheduler_is_a_read_and_a_write_in_turns():
    vm = machine("none")
    mix = io.saturated_mix(vm, work())
    window, write = 256 * 1024, 1280 * 1024
    assert (mix.writes, mix.read_share) == (1, pytest.approx(window / (window + write)))
    assert mix.cycle_s == pytest.approx((window + write) / (mix.read_bytes_per_s + mix.write_bytes_per_s))
    assert mix.stall_s == pytest.approx(mix.cycle_s - window / 150e6 - 50e-6)


@pytest.mark.parametrize("depth", [8, 16, 31])
def test_without_a_scheduler_a_reader_has_two_of_the_devices_commands(depth):
    mix = io.saturated_mix(machine("none", queue_depth=depth), work())
    assert mix.writes == depth - 2
    assert mix.read_share == pytest.approx(2 * 256 / (2 * 256 + (depth - 2) * 1280))


def test_batches_of_deadline_are_fifo_batch_and_whole_batches_behind_a_deep_queue():
    over = {"device.queue_depth": np.array([1, 8, 16, 17, 31])[:, None], "scheduler.fifo_batch": [16, 64]}
    mix = io.saturated_mix(machine("deadline"), work(), over)
    assert mix.writes.tolist() == [[16, 64], [16, 64], [16, 64], [32, 64], [32, 64]]


@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("scheduler", ["deadline", "mq-deadline"])
@pytest.mark.parametrize(("depth", "age_ms"), [(8, 250.0), (31, 250.0), (31, 1000.0)])
def test_on_a_disk_that_takes_what_is_near_a_reader_gets_no_less_than_its_age_allows(disk, scheduler, depth, age_ms):
    vm = machine(scheduler, disk, nr=64, queue_depth=depth, ncq_choice="nearest", ncq_age_ms=age_ms)
    least = io.mix_bounds(vm, work()).least_read
    assert 0 < least <= simulated(vm, work())[0]
    assert least < 512 * 1024 / (age_ms * 1e-3)


def test_nothing_is_guaranteed_where_reads_never_age_or_the_scheduler_promises_nothing():
    for vm in (machine(queue_depth=31, ncq_choice="nearest", ncq_age_ms=0.0), machine("none", queue_depth=31)):
        assert io.mix_bounds(vm, work()).least_read == 0


def test_a_lower_target_of_wbt_gives_the_reader_more_and_the_writer_less():
    vm = machine(disk="wd5000lplx", queue_depth=31)
    mix = io.saturated_mix(vm, work(), {"wbt_lat_usec": [500e3, 150e3, 75e3, 40e3, 1e3]})
    assert (np.diff(mix.read_bytes_per_s) >= 0).all() and (np.diff(mix.write_bytes_per_s) <= 0).all()
    assert mix.writes[0] == 23 - 12 + 1 and mix.writes[-1] == 1


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline", "cfq"])
def test_faster_moves_are_better_for_both(scheduler):
    seeks = np.array([20.0, 10.0, 5.0, 0.0])
    vm = machine(scheduler, nr=64 if scheduler == "mq-deadline" else None)
    mix = io.saturated_mix(vm, work(), {"device.seek_root_ms": seeks})
    assert (np.diff(mix.read_bytes_per_s) > 0).all() and (np.diff(mix.write_bytes_per_s) > 0).all()


def test_bfq_charges_async_sectors_three_times():
    mix = io.saturated_mix(machine(io.BFQ(low_latency=False), nr=64), work())
    assert mix.read_bytes_per_s == pytest.approx(3 * mix.write_bytes_per_s)


def test_longer_slices_shift_the_shares_of_cfq():
    mix = io.saturated_mix(machine("cfq"), work(), {"scheduler.slice_sync": [20.0, 100.0, 150.0]})
    assert (np.diff(mix.read_share) > 0).all()


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline", "deadline", "cfq"])
@pytest.mark.parametrize("disk", DISKS)
def test_nothing_exceeds_the_bounds(scheduler, disk):
    vm, jobs = machine(scheduler, disk), work()
    bounds, mix = io.mix_bounds(vm, jobs), io.saturated_mix(vm, jobs)
    assert mix.read_bytes_per_s + mix.write_bytes_per_s < bounds.total
    read, written = simulated(vm, jobs)
    assert read + written < bounds.total * 1.001 and read < bounds.read * 1.001


def test_the_bounds_hold_where_there_is_no_form():
    for vm in (machine("bfq", queue_depth=31, ncq_choice="shortest"), machine("kyber", queue_depth=31)):
        with pytest.raises(ScenarioError):
            io.saturated_mix(vm, work())
        read, written = simulated(vm, work())
        assert read + written < io.mix_bounds(vm, work()).total * 1.001


# ---------------------------------------------------------------------------------------------------------------------
# against the simulator

REGIMES = {
    "none": ({"scheduler": "none"}, (1, 2, 8, 16, 31)),
    "deadline": ({"scheduler": "deadline"}, (1, 2, 4, 8, 16, 31)),
    "mq-deadline": ({"scheduler": "mq-deadline", "nr": 64}, (1, 2, 4, 8, 16, 31)),
    "mq-deadline, few requests": ({"scheduler": "mq-deadline"}, (1, 2)),
    "mq-deadline, two commands to choose from": ({"scheduler": "mq-deadline", "ncq_choice": "shortest"}, (2,)),
    "cfq": ({"scheduler": "cfq"}, (1,)),
    "bfq": ({"scheduler": io.BFQ(low_latency=False), "nr": 64}, (1,)),
}


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("disk", DISKS)
def test_the_form_gives_the_simulators_bytes_a_second_within_25_percent(regime, disk):
    options, depths = REGIMES[regime]
    for depth in depths:
        vm = machine(**({"disk": disk, "queue_depth": depth} | options))
        mix = io.saturated_mix(vm, work())
        read, written = simulated(vm, work())
        assert (depth, mix.read_bytes_per_s) == (depth, pytest.approx(read, rel=0.25))
        assert (depth, mix.write_bytes_per_s) == (depth, pytest.approx(written, rel=0.25))


@pytest.mark.parametrize("target_us", [75e3, 300e3])
@pytest.mark.parametrize("disk", DISKS)
def test_under_wbt_the_form_is_within_25_percent(disk, target_us):
    for depth in (2, 4, 8, 16, 31):
        vm = machine(disk=disk, wbt=target_us, queue_depth=depth)
        mix = io.saturated_mix(vm, work())
        read, written = simulated(vm, work())
        assert (depth, mix.read_bytes_per_s) == (depth, pytest.approx(read, rel=0.25))
        assert (depth, mix.write_bytes_per_s) == (depth, pytest.approx(written, rel=0.25))


@pytest.mark.parametrize(("scheduler", "depth"), [("none", 31), ("deadline", 1), ("deadline", 8)])
def test_several_readers_and_writers_share_in_the_same_way(scheduler, depth):
    vm, jobs = machine(scheduler, queue_depth=depth, capacity_GB=100.0), work(2, 2)
    mix = io.saturated_mix(vm, jobs)
    read, written = simulated(vm, jobs)
    assert mix.read_bytes_per_s == pytest.approx(read, rel=0.25)
    assert mix.write_bytes_per_s == pytest.approx(written, rel=0.25)


@pytest.mark.parametrize("scheduler", ["deadline", "cfq"])
def test_a_stall_is_what_the_slowest_read_of_a_cycle_waits(scheduler):
    vm = machine(scheduler)
    mix = io.saturated_mix(vm, work())
    reads = mix.read_bytes_per_s * mix.cycle_s / 4096
    assert io.simulate(vm, work(), until=60).latency_percentile(1, 100 * (1 - 0.7 / reads)) == pytest.approx(
        mix.stall_s, rel=0.2
    )


# ---------------------------------------------------------------------------------------------------------------------
# what is beyond it


@pytest.mark.parametrize(
    ("vm", "jobs", "field"),
    [
        (io.Machine(device=devices.sata()), work(), "device"),
        (io.Machine(device=devices.m4_ssd()), work(), "device"),
        (machine(), work(0), "jobs"),
        (machine(), work(1, 0), "jobs"),
        (machine(), [*work(), w.dd()], "'dd'"),
        (machine(), [*work(), w.random_reader()], "'random reader'"),
        (machine(), work(thinktime_us=5.0), "jobs"),
        (machine(), work(rate=1e6), "jobs"),
        (machine(), work(ioprio=1), "jobs"),
        (machine(), [*work(), w.sequential_reader(size="4G", cgroup="user.slice")], "jobs"),
        (machine("noop"), work(), "scheduler"),
        (machine("kyber"), work(), "scheduler"),
        (machine("bfq"), work(), "nr_requests"),
        (machine("bfq", nr=64, queue_depth=8), work(), "queue_depth"),
        (machine("cfq", queue_depth=8), work(), "queue_depth"),
        (machine("cfq"), work(2), "one reader"),
        (machine(io.CFQ(slice_async=400, slice_async_rq=8)), work(), "slice_async"),
        (machine("none", queue_depth=31, ncq_choice="shortest"), work(), "ncq_choice"),
        (machine(queue_depth=4, ncq_choice="nearest", wbt=75e3), work(), "ncq_choice"),
        (machine("none", queue_depth=4), work(), "queue_depth"),
        (machine(queue_depth=31, wbt=75e3), work(2), "readers"),
        (machine(write_cache=True), work(), "write_cache"),
    ],
)
def test_what_is_beyond_the_form_is_refused_in_a_sentence(vm, jobs, field):
    with pytest.raises(ScenarioError) as error:
        io.saturated_mix(vm, jobs)
    text = str(error.value)
    assert field in text and text.endswith(".") and "\n" not in text and "simulate()" in text


@pytest.mark.parametrize(
    ("over", "field"),
    [
        ({"device.queue_depth": [0]}, "queue_depth"),
        ({"scheduler.fifo_batsch": [1]}, "fifo_batch"),
        ({"scheduler.fifo_batch": [1, 2], "device.ncq_age_ms": [1, 2, 3]}, "broadcast"),
        ({"wbt_lat_usec": []}, "wbt_lat_usec"),
        ({5: [1]}, "over"),
    ],
)
def test_a_grid_is_checked_like_a_machine(over, field):
    with pytest.raises(ScenarioError, match=field):
        io.saturated_mix(machine(), work(), over)


def test_a_grid_is_the_same_as_its_points():
    over = {"device.queue_depth": np.array([1, 8])[:, None], "scheduler.fifo_batch": [4, 16, 64]}
    grid = io.saturated_mix(machine("deadline"), work(), over)
    for i, depth in enumerate((1, 8)):
        for j, batch in enumerate((4, 16, 64)):
            vm = machine("deadline", queue_depth=depth).with_(**{"scheduler.fifo_batch": batch})
            assert io.saturated_mix(vm, work()).cycle_s == grid.cycle_s[i, j]
