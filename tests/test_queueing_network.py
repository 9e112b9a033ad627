"""Closed networks hold against what is known by hand, against `mva`, and against the simulator."""

import numpy as np
import pytest

import iosched as io
from iosched.queueing import classes, mva, network, positioning_s, shared


def test_one_station_is_the_machine_repairman():
    n = np.arange(1, 40)
    net, loop = network(n, [1e-4], 3e-4, servers=4), mva(n, 1e-4, 3e-4, 4)
    assert net.throughput == pytest.approx(loop.throughput)
    assert net.response_s == pytest.approx(loop.response_s)


def test_two_equal_stations_halve_nobodys_rate():
    """n processes at two equal stations: n/(n + 1) of the one station's rate (balanced network)."""
    n = np.array([1, 2, 5, 20])
    assert network(n, [1e-3, 1e-3]).throughput == pytest.approx(n / (n + 1) * 1e3)


def test_a_depth_limit_moves_the_waiting_out_of_the_device():
    free, held = network(64, [1e-4], servers=8), network(64, [1e-4], servers=8, depth=8)
    assert held.throughput == pytest.approx(free.throughput)
    assert held.inside_s == pytest.approx(1e-4)
    assert held.response_s == pytest.approx(free.response_s)
    assert held.waiting_s == pytest.approx(held.response_s - held.inside_s)


def test_a_depth_below_the_servers_costs_throughput():
    assert network(64, [1e-4], servers=8, depth=2).throughput == pytest.approx(2e4)


def test_hundreds_of_processes_keep_their_digits():
    net = network(2000, [1e-5, 2e-4], 1e-3, servers=[1, 64], depth=1023)
    assert net.throughput == pytest.approx(1e5, rel=1e-6)
    assert net.throughput * (net.response_s + 1e-3) == pytest.approx(2000, rel=1e-9)  # Little's law


@pytest.mark.parametrize("depth", [1, 4, 32])
def test_the_simulator_keeps_the_balance_of_a_depth_limit(depth):
    """32 random readers on 8 channels: as many a second as the formula says once all channels are busy."""
    host = io.Host(speed=1000, cpus=0, read_us=0, copy_us=0)
    device = io.devices.nvme(queue_depth=depth, bandwidth_MBs=1e6, completion_us=100)
    vm = io.Machine(kernel="5.2", device=device, scheduler="none", host=host)
    jobs = [io.workloads.random_reader(direct=True, numjobs=32, runtime=0.4)]
    simulated = io.simulate(vm, jobs).jobs.operations.sum() / 0.4
    assert simulated == pytest.approx(float(network(32, [100e-6], servers=8, depth=depth).throughput), rel=0.02)


def test_classes_of_equal_service_are_one_class():
    apart, together = classes([2, 3], [1e-3, 1e-3], [2e-3, 2e-3]), mva(5, 1e-3, 2e-3)
    assert apart.throughput.sum() == pytest.approx(float(together.throughput))


def test_a_random_reader_waits_for_the_windows_of_fifteen_others():
    """Thread 2 by hand: thirty windows of 256 KiB at 515 MB/s are 15 ms, on 3.5 GB/s 2 ms."""
    window = 256 * 1024
    for rate, wanted in ((515e6, 15.3e-3), (3.5e9, 2.2e-3)):
        reader = classes([1, 30], [60e-6, window / rate], [5e-6, 0])
        assert reader.response_s[0] == pytest.approx(wanted, rel=0.05)


def test_weights_share_and_limits_pass_the_rest_on():
    assert shared(400, [300, 100]) == pytest.approx([300, 100])
    assert shared(100, [1, 1, 2], [10, 100, 100]) == pytest.approx([10, 30, 60])
    assert shared(100, [1, 1], [10, 20]) == pytest.approx([10, 20])


def test_a_deeper_queue_shortens_the_way_of_the_arm():
    disk = io.devices.Disk(rpm=7200)
    times = [positioning_s(disk, depth) for depth in (1, 4, 16)]
    assert times[0] > times[1] > times[2] > disk.seek_settle_ms * 1e-3
    assert times[0] + disk.completion_us * 1e-6 == pytest.approx(disk.random_read_s(), rel=0.02)
    assert positioning_s(io.devices.Disk(ncq_choice="order"), 16) == pytest.approx(times[0], rel=0.01)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: network(0, [1e-3]), "n"),
        (lambda: network(4, [0.0]), "demands_s"),
        (lambda: network(4, [1e-3], servers=[1, 2]), "servers"),
        (lambda: network(4, [1e-3], depth=0), "depth"),
        (lambda: classes([1], [1e-3, 1e-3]), "counts, service_s, think_s"),
        (lambda: shared(1.0, [1, 1], [1.0]), "limits"),
        (lambda: positioning_s(io.devices.nvme()), "disk"),
    ],
)
def test_bad_input_names_the_field(call, field):
    with pytest.raises(io.ScenarioError, match=f"^{field}"):
        call()
