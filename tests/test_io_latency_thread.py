"""Thread 2: what came out of its tables, and why."""

from __future__ import annotations

import time

import pytest

import iosched as io
from iosched.engine import codes as c
from iosched.threads import claims, io_latency, reproduce

DEVICES = tuple(io_latency.DEVICES)
OFF = {"T2-015", "T2-038", "T2-056"}  # each with its reason in the table


@pytest.fixture(scope="module")
def outcomes():
    return {o.claim.id: o for o in reproduce("io-latency")}


def test_every_claim_of_the_thread_is_in_the_table(outcomes):
    assert list(outcomes) == [f"T2-{i:03d}" for i in range(1, 60)]


def test_all_but_three_claims_come_out_and_those_say_why(outcomes):
    off = {o.claim.id for o in outcomes.values() if o.verdict != "reproduced"}
    assert off <= OFF
    assert all(outcomes[i].claim.note for i in off)


def test_at_most_one_figure_of_each_table_of_a_device_is_fitted():
    fitted = {(claim.machine, claim.experiment) for claim in claims("io-latency") if claim.role == "fitted"}
    assert fitted == {
        ("sata", "buffered readers, none"), ("hdd", "buffered readers, none"), ("hdd", "direct writers, none")
    }  # fmt: skip


@pytest.mark.parametrize("interferers", ["buffered readers", "direct writers"])
@pytest.mark.parametrize("device", DEVICES)
def test_bfq_is_far_below_no_control_and_io_latency_is_not(device, interferers):
    none, latency, bfq = (io_latency.latency_s(device, f"{interferers}, {name}") for name in io_latency.CONTROLS)
    assert bfq < none / 2
    assert latency == pytest.approx(none, rel=0.1)


@pytest.mark.parametrize("device", DEVICES)
def test_direct_readers_do_without_any_controller_what_the_thread_ascribes_to_io_latency(device):
    alike = [io_latency.latency_s(device, f"direct readers, {name}") for name in ("none", "io.latency")]
    assert alike[0] == pytest.approx(alike[1], rel=0.1)
    assert alike[0] < io_latency.latency_s(device, "buffered readers, none") / 10


def test_devices_are_in_the_order_of_the_table():
    for control in io_latency.CONTROLS:
        nvme, sata, hdd = (io_latency.latency_s(d, f"buffered readers, {control}") for d in DEVICES)
        assert nvme < sata < hdd


def test_in_two_seconds_the_depth_stays_at_two_or_more_and_holds_nobody():
    for device, least in (("sata", 2), ("nvme", 63)):
        result = io_latency.run(device, "direct readers, io.latency")
        table = result.io_latency.set_index("cgroup").depth.drop("target")
        assert table.min() == least


def test_the_disks_read_outlasts_the_two_seconds():
    result = io_latency.run("hdd", "buffered readers, none")
    assert result.jobs.operations[0] == 1 and result.jobs.latency_mean_s[0] > 2
    assert result.state.tasks[0].state == c.T_DONE


def test_the_reader_under_bfq_costs_the_others_throughput():
    price = io_latency.price().set_index(["device", "control"]).others_MBs
    for device in ("nvme", "hdd"):
        assert price[device, "bfq"] < 0.8 * price[device, "none"]


def test_the_formulas_are_within_a_factor_of_two_where_nobody_controls(outcomes):
    for o in outcomes.values():
        if o.claim.quantity == "target latency" and "bfq" not in o.claim.experiment and o.closed_form:
            assert 0.5 < o.closed_form / o.simulated < 2, o.claim.id


def test_two_seconds_of_fifteen_readers_on_nvme_take_a_second_and_a_half_and_no_more_memory():
    began = time.process_time()
    result = io_latency.simulated(seconds=2.0)
    took = time.process_time() - began
    assert result.state.sim[0].events > 1_000_000
    assert took < 1.5 * 4  # others may share this machine
    assert len(result.state.requests) == len(io_latency.simulated(seconds=0.2).state.requests)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"device": "floppy"}, "device"),
        ({"control": "cgroup"}, "control"),
        ({"interferers": "writers"}, "interferers"),
        ({"n": -1}, "n"),
        ({"seconds": 0}, "seconds"),
        ({"control": "io.latency", "target_us": 0}, "cgroups"),
    ],
)
def test_bad_input_names_the_field(changes, field):
    with pytest.raises(io.ScenarioError, match=f"^{field}"):
        io_latency.scenario(**changes)
