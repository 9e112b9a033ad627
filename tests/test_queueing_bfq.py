"""The closed form of BFQ: against the simulator, the real kernels' rows, and cases worked out by hand."""

from __future__ import annotations

import itertools
import random
import time

import numpy as np
import pytest
from helpers import python

import iosched as io
from iosched.data import data_file
from iosched.host import fitted_host
from iosched.measure.kernel_rows import Unmodelled, host_of, read_kernel_csv, scenario_of

VERSIONS = ["4.19", "5.0", "5.1", "5.2", "5.3", "5.4", "5.6.4+p1", "5.6.4+p1p2", "5.10", "5.12", "5.13", "5.15", "5.17",
            "5.19", "6.1", "6.2", "6.12"]  # fmt: skip
LAYOUTS = [("/", "/"), ("a", "/"), ("a/b", "/"), ("a", "a"), ("a/b", "a"), ("a", "a/b"), ("a", "c"), ("/", "a")]
HOST = io.Host(request_mq_us=3, wakeup_us=4, ext4_us=40, xfs_us=25)
ONE_WRITE = (3 * (100 + 3) + 3 * 4 + 5 * 4 + 40) * 1e-6  # s: three requests, their hand-overs, five wake-ups, ext4


def machine(kernel="5.10", jbd2="/", filesystem=None, device=None, **tunables):
    """BFQ of a version under ext4, at round host costs; the device rotates unless said otherwise."""
    return io.Machine(
        kernel=kernel.split("+")[0],
        device=device or io.devices.null(completion_us=100),
        filesystem=filesystem or io.Ext4(jbd2_cgroup=jbd2, quiet_before=None),
        scheduler=io.BFQ(kernel=kernel, **tunables),
        cgroups=["a", "a/b", "c"],
        host=HOST,
    )


def dd(cgroup="a", count=300, **options):
    return io.workloads.dd(cgroup=cgroup, count=count, **options)


def deviation(vm, job):
    """Relative error of the time an operation, closed form against simulator."""
    return abs(float(io.closed_form(vm, job).time_per_op) / io.simulate(vm, [job]).time_per_op - 1)


# ---------------------------------------------------------------------------------------------------------------------
# against the simulator and the real kernels


@pytest.fixture(scope="module")
def rows():
    """(measured, simulated, calculated) seconds of a write, of every one-writer row of BFQ that can be simulated; None
    where the closed form refuses."""
    found = []
    for run in read_kernel_csv(data_file("kernel/dd.csv"))[0]:
        if run.conditions["scheduler"] != "bfq":
            continue
        try:
            vm, jobs = scenario_of(run, host_of(run.conditions, fitted_host(run.conditions["kernel"])))
        except Unmodelled:
            continue
        if len(jobs) > 1:
            continue
        try:
            calculated = float(io.closed_form(vm, jobs).time_per_op)
        except io.ScenarioError:
            calculated = None
        found.append((run.time_per_write_us * 1e-6, io.simulate(vm, jobs).time_per_op, calculated))
    return found


def test_every_one_writer_row_is_answered(rows):
    assert len(rows) > 690
    assert all(calculated is not None for _, _, calculated in rows)


def test_on_the_kernels_rows_it_is_the_simulator_to_one_in_10_000_in_98_of_100_and_to_1_percent_in_all(rows):
    errors = np.array([abs(calculated / simulated - 1) for _, simulated, calculated in rows])
    assert np.median(errors) < 1e-6
    assert np.percentile(errors, 98) < 1e-4
    assert errors.max() < 0.01


def test_against_the_real_kernels_it_is_as_far_off_as_the_simulator(rows):
    measured, simulated, calculated = np.array(rows, float).T
    by_formula, by_simulator = np.abs(calculated / measured - 1), np.abs(simulated / measured - 1)
    assert np.median(by_formula) < 0.01
    for percentile in (50, 90, 95):
        assert np.percentile(by_formula, percentile) == pytest.approx(np.percentile(by_simulator, percentile), abs=1e-3)


@pytest.mark.parametrize("kernel", VERSIONS)
def test_each_version_agrees_in_every_cgroup_layout_and_on_both_kinds_of_device(kernel):
    errors = {}
    for (group, log), low_latency, rotational, completion in itertools.product(LAYOUTS, (0, 1), (0, 1), (50, 700)):
        device = io.devices.null(completion_us=completion, rotational=bool(rotational))
        vm = machine(kernel, log, device=device, low_latency=bool(low_latency))
        errors[group, log, low_latency, rotational, completion] = deviation(vm, dd(group))
    worst = max(errors, key=errors.get)
    assert errors[worst] < 0.01, worst


def random_case(draw: random.Random):
    """A machine and a dd from all that the closed form takes."""
    group, log = draw.choice(LAYOUTS)
    kernel = draw.choice(VERSIONS)
    tunables = {
        "slice_idle": draw.choice([0, 1, 4, 8, 8, 20]),
        "low_latency": draw.random() < 0.5,
        "timeout_sync": draw.choice([10, 125, 125, 250]),
        "max_budget": draw.choice([0, 0, 0, 100, 1000]),
        "strict_guarantees": draw.random() < 0.05,
    }
    if io.BFQ(kernel=kernel).version(None) >= "5.3" and draw.random() < 0.3:
        tunables["waker_rules"] = io.WakerRules(
            window_us=draw.choice([200, 4000]),
            long_think_time=draw.random() < 0.5,
            detections=draw.choice([1, 2, 3, 5]),
            selection=draw.choice(["none", "own request", "waker's request"]),
            inject_woken=draw.random() < 0.5,
            timeout_slices=draw.choice([0, 128]),
            challenge=draw.random() < 0.5,
            direct_dispatch=draw.random() < 0.2,
            replace_at_once=draw.random() < 0.5,
        )
    ext4 = io.Ext4(jbd2_cgroup=log, quiet_before=draw.choice([None, 0.1, 3.0]), creation_reads=draw.choice([0, 3]))
    device = io.devices.null(
        completion_us=draw.uniform(20, 3000),
        rotational=draw.random() < 0.6,
        write_cache=draw.random() < 0.25,
        fua=draw.random() < 0.7,
    )
    fs = io.XFS(log_writer="worker", worker_cgroup=log) if draw.random() < 0.15 else ext4
    oflag, conv = draw.choice([("dsync", None)] * 5 + [("direct,dsync", None), (None, "fsync"), ("direct", "fsync")])
    job = dd(group, draw.choice([50, 300, 1000]), bs=draw.choice([512, 4096, 8192]), oflag=oflag, conv=conv,
             ioprio=draw.choice([4, 4, 2, 6]), start=draw.choice([0, 0, 0.5]))  # fmt: skip
    return machine(kernel, filesystem=fs, device=device, **tunables), job


@pytest.mark.parametrize("seed", range(4))
def test_any_machine_that_it_takes_agrees_within_one_percent(seed):
    draw = random.Random(seed)
    errors = []
    for _ in range(80):
        vm, job = random_case(draw)
        try:
            io.closed_form(vm, job)
        except io.ScenarioError as refused:
            assert "beyond the closed form" in str(refused)
            continue
        errors.append(deviation(vm, job))
    assert len(errors) > 70
    assert np.median(errors) < 1e-5 and max(errors) < 0.01


def test_its_parts_and_waits_are_those_of_the_simulator():
    vm, job = machine("5.1", low_latency=False), dd(count=1000)
    form, run = io.closed_form(vm, job), io.simulate(vm, [job])
    budget = run.time_budget.set_index("what").per_op_s
    assert form.idles_per_op == pytest.approx(run.idles_per_op)
    assert form.service_s == pytest.approx(budget["device busy"])
    assert form.idle_for_dd_s == pytest.approx(budget["idling for dd (slice_idle)"], rel=1e-3)
    assert form.idle_for_log_s == pytest.approx(budget["idling for jbd2 (slice_idle)"], rel=1e-3)
    assert sum(form.parts.values()) == pytest.approx(form.time_per_op)
    assert sum(form.why_idle.values()) == pytest.approx(form.idles_per_op)
    assert sum(form.arrivals.values()) == pytest.approx(3), "data, log, commit"


def test_compiled_and_plain_python_give_the_same_answer():
    code = (
        "import iosched as io; vm = io.Machine(kernel='5.10', scheduler=io.BFQ(low_latency=False)); "
        "print(repr(float(io.closed_form(vm, io.workloads.dd(cgroup='user.slice', count=300)).time_per_op)))"
    )
    assert python(code) == python(code, NUMBA_DISABLE_JIT="1")


# ---------------------------------------------------------------------------------------------------------------------
# by hand


def test_5_1_on_flash_idles_8_ms_once_a_write_for_dd():
    """Acceptance check 1: dd's group makes the scenario asymmetric. Of the 8 ms, dd's wake-up, jbd2's, and 40 % of
    ext4's CPU have passed when jbd2's request comes."""
    vm = machine("5.1", device=io.devices.null(rotational=False), low_latency=False)
    form = io.closed_form(vm, dd(count=1000))
    assert form.time_per_op == pytest.approx(ONE_WRITE + 8e-3 - (4 + 4 + 0.4 * 40) * 1e-6)
    assert 60e3 < form.bytes_per_s < 62e3
    assert form.why_idle == {("dd", "a cgroup with requests"): 1.0}


def test_5_1_on_a_rotating_device_idles_for_jbd2_too_once_that_counts_as_io_bound():
    """120 timely requests make jbd2 I/O bound, two a write: from write 61 on it is idled for "for throughput"."""
    form = io.closed_form(machine("5.1", low_latency=False), dd(count=1000))
    assert form.why_idle["dd", "a cgroup with requests"] == pytest.approx(1, abs=0.01)
    assert form.why_idle["log", "for throughput"] == pytest.approx(1 - 60 / 1000, abs=0.01)


@pytest.mark.parametrize("kernel", ["5.12", "5.17", "6.1"])
def test_wakers_end_the_idling_after_three_detections(kernel):
    """Since 5.12: jbd2 is confirmed as dd's waker after a few writes, and then no write waits."""
    vm = machine(kernel, low_latency=False)
    waits = {count: float(io.closed_form(vm, dd(count=count)).idles_per_op) * count for count in (10, 1000)}
    assert waits[10] == pytest.approx(waits[1000])
    assert 1 <= waits[1000] <= 4
    form = io.closed_form(vm, dd(count=1000), exact_start=False)
    assert form.idles_per_op < 1e-6 and form.time_per_op == pytest.approx(ONE_WRITE, rel=1e-6)
    assert form.arrivals["dd", "injected as waker or woken"] > 0.9


@pytest.mark.parametrize("kernel", VERSIONS)
def test_without_slice_idle_and_on_flash_in_one_cgroup_it_is_the_ceiling(kernel):
    """Acceptance check 2. (Since 5.12 the only busy queue is idled for, but the other then preempts it.)"""
    flash = io.devices.null(completion_us=100, rotational=False)
    assert io.closed_form(machine(kernel, slice_idle=0), dd()).time_per_op == pytest.approx(ONE_WRITE)
    vm = machine(kernel, device=flash, low_latency=False)
    assert io.closed_form(vm, dd("/")).time_per_op == pytest.approx(ONE_WRITE)


def test_a_weight_raised_dd_is_idled_for_20_ms_since_5_1():
    waits = {kernel: io.closed_form(machine(kernel), dd(count=50)) for kernel in ("5.0", "5.1")}
    longest = {kernel: float(form.idle_for_dd_s / form.idles_per_op) for kernel, form in waits.items()}
    assert longest["5.0"] < 8e-3 < 19e-3 < longest["5.1"] < 20e-3


def test_a_switched_waker_rule_changes_the_probability_of_idling():
    """Patch 1 tests the waker's request, not the empty queue's; patch 2 looks for wakers of short thinkers too."""
    chance = {kernel: float(io.closed_form(machine(kernel, low_latency=False), dd(count=1000)).idles_per_op)
              for kernel in ("5.6", "5.6.4+p1p2")}  # fmt: skip
    by_rules = machine("5.6", low_latency=False, waker_rules=io.WakerRules(
        window_us=200, detections=2, long_think_time=False, replace_at_once=True))  # fmt: skip
    assert chance["5.6.4+p1p2"] < chance["5.6"]
    assert float(io.closed_form(by_rules, dd(count=1000)).idles_per_op) == chance["5.6.4+p1p2"]


# ---------------------------------------------------------------------------------------------------------------------
# promises


def test_a_small_grid_is_its_points_one_by_one():
    vm = machine("5.2", low_latency=False)
    over = {
        "scheduler.slice_idle": [[0], [4], [8]],
        "device.completion_us": [50, 500],
    }
    grid = io.closed_form(vm, dd(), over=over)
    for i, slice_idle in enumerate((0, 4, 8)):
        for k, completion in enumerate((50, 500)):
            one = vm.with_(**{"scheduler.slice_idle": slice_idle, "device.completion_us": completion})
            single = io.closed_form(one, dd())
            assert grid.time_per_op[i, k] == single.time_per_op
            for key, chance in single.why_idle.items():
                assert grid.why_idle[key][i, k] == chance


def test_versions_and_flags_are_axes():
    form = io.closed_form(
        machine(), dd(), over={"scheduler.kernel": [["5.1"], ["6.1"]], "scheduler.low_latency": [False, True]}
    )
    assert form.shape == (2, 2)
    assert form.idles_per_op[1].max() < 0.1 < 0.9 < form.idles_per_op[0, 0]


def test_ten_thousand_points_are_quick_and_are_the_single_points():
    vm = machine("5.10", low_latency=False)
    over = {
        "scheduler.slice_idle": np.linspace(0, 16, 100),
        "device.completion_us": np.geomspace(50, 2000, 100)[:, None],
    }
    io.closed_form(vm, dd())  # compiled, or loaded
    start = time.process_time()
    grid = io.closed_form(vm, dd(count=1000), over=over)
    assert time.process_time() - start < 6, "of both cores, on a machine that others use"
    draw = np.random.default_rng(0)
    for i, k in draw.integers(0, 100, (40, 2)):
        point = {"scheduler.slice_idle": float(over["scheduler.slice_idle"][k]),
                 "device.completion_us": float(over["device.completion_us"][i, 0])}  # fmt: skip
        assert grid.time_per_op[i, k] == io.closed_form(vm.with_(**point), dd(count=1000)).time_per_op


def test_what_it_does_not_cover_it_refuses():
    with pytest.raises(io.ScenarioError, match=r"ioclass.*'idle'.*one class"):
        io.closed_form(machine(), dd(ioclass="idle"))
    with pytest.raises(io.ScenarioError, match="more than one request at once"):
        io.closed_form(machine(), dd(bs="4M"))
    with pytest.raises(io.ScenarioError, match="more than one request at once"):
        io.closed_form(machine(device=io.devices.null(max_sectors_kb=8)), dd())
    strict = machine(filesystem=io.XFS(), strict_guarantees=True)
    with pytest.raises(io.ScenarioError, match="more than one request at once"):
        io.closed_form(strict, dd(bs="8k", oflag=None, conv="fsync"))
    with pytest.raises(io.ScenarioError, match=r"ioprio: 3.*merge"):
        io.closed_form(machine("6.1"), dd("/", ioprio=3))
