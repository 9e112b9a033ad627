"""Processes that read one file: every byte once, in turns or as they come, and real kernels' rows of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import iosched as io
from iosched import programs
from iosched.data import data_file
from iosched.measure.kernel_rows import read_kernel_csv, scenario_of
from iosched.validate import compare

TABLE = data_file("kernel/rrread.csv")
reader, nfs_read = io.workloads.shared_reader, io.workloads.nfs_read
SIZE = 8 * 2**20


@pytest.fixture(scope="module")
def runs():
    return read_kernel_csv(TABLE)[0]


@pytest.fixture(scope="module")
def comparison(runs):
    return compare(runs)


# ---------------------------------------------------------------------------------------------------------------------
# real kernels


def test_every_row_is_compared_by_its_throughput_and_none_sets_a_host_cost(runs, comparison):
    assert len(comparison.rows) == len(runs) == 362 and comparison.skipped == []
    assert {row["metric"] for row in comparison.rows} == {"bw_MBs"}
    assert not any(row["fitted"] for row in comparison.rows)


def test_half_of_the_rows_are_within_2_percent_and_of_cfq_deadline_and_noop_on_419_too(comparison):
    assert np.median(comparison.errors()) <= 0.02
    for name in ("cfq", "deadline", "noop"):
        own = [abs(row["error"]) for row in comparison.rows if row["scheduler"] == name and row["kernel"] == "4.19.44"]
        assert len(own) > 25 and np.median(own) <= 0.02


def test_of_two_runs_that_differ_in_the_scheduler_alone_the_faster_one_is_faster(runs, comparison):
    """Where they differ by a fifth or more; the exceptions are bistable rows, and a disk of depth 1."""
    groups: dict[tuple, list] = {}
    for run, row in zip(runs, comparison.rows, strict=True):
        q = run.conditions
        key = tuple(q[name] for name in ("kernel", "device", "workload", "hw_queue_depth", "repeat"))
        groups.setdefault(key, []).append((row["measured"], row["simulated"]))
    pairs = [(a, b) for rows in groups.values() for a, b in combinations(rows, 2) if abs(a[0] / b[0] - 1) > 0.2]
    right = [(a[0] > b[0]) == (a[1] > b[1]) for a, b in pairs]
    assert len(pairs) > 80 and np.mean(right) > 0.95


def test_cgroups_of_their_own_cost_a_real_and_a_simulated_cfq_a_third_or_more(runs, comparison):
    for run, row in zip(runs, comparison.rows, strict=True):
        q = run.conditions
        idles = q["slice_idle_us"] == "8000" or q["group_idle_us"] == "8000"
        if q["scheduler"] == "cfq" and idles and "shfd" in q["workload"] and "n1_" not in q["workload"]:
            apart = "owncgroup" in q["workload"]
            assert (row["measured"] < 75) == (row["simulated"] < 75) == apart, run.run_id


def test_who_begins_first_decides_what_two_readers_in_turns_get(runs, monkeypatch):
    """A row that is 58 % off comes out with the other reader first: their order stays as it was at the beginning."""
    run = next(r for r in runs if r.run_id == "t4big_1M_n2_dl")
    vm, jobs = scenario_of(run, io.host.fitted_host("4.19"))
    fill = programs.fill_teams

    def rate() -> float:
        return float(io.simulate(vm, jobs).shared_reads.bytes_per_s.iloc[0]) / 1e6

    def other_first(s, scenario):
        fill(s, scenario)
        s.tasks[0].piece, s.tasks[1].piece = 1, 0

    in_order = rate()
    monkeypatch.setattr(programs, "fill_teams", other_first)
    assert rate() == pytest.approx(run.measured, rel=0.02) and in_order > 1.5 * run.measured


# ---------------------------------------------------------------------------------------------------------------------
# what is read


@pytest.mark.parametrize("scheduler", ["noop", "cfq", "deadline", "bfq", "mq-deadline", "none"])
@pytest.mark.parametrize("options", [{}, {"direct": True}, {"own_files": True}, {"order": "turns"}, {"client": True}])
def test_every_byte_is_read_once_whoever_reads_it(scheduler, options):
    result = io.simulate(io.Machine(scheduler=scheduler), reader("64k", SIZE, threads=3, **options))
    assert int(result.state.devices[0].sectors_read) == SIZE // 512
    assert int(result.shared_reads.bytes.iloc[0]) == int(result.jobs.bytes.sum()) == SIZE


@pytest.mark.parametrize("kernel", ["2.6.24", "2.6.27", "2.6.29", "2.6.30", "2.6.32"])
@pytest.mark.parametrize("scheduler", ["noop", "cfq", "deadline", "anticipatory"])
def test_the_old_kernels_read_every_byte_once_too(kernel, scheduler):
    vm = io.Machine(kernel=kernel, scheduler=scheduler, device=io.devices.sata(rotational=True), volume=io.Volume())
    result = io.simulate(vm, nfs_read("32k", SIZE))
    assert int(result.state.devices.sectors_read.sum()) == SIZE // 512


def test_an_odd_end_of_the_file_is_read_too():
    result = io.simulate(io.Machine(), reader("64k", SIZE + 5000, threads=2))
    assert int(result.shared_reads.bytes.iloc[0]) == SIZE + 5000


def test_processes_in_turns_read_as_many_pieces_each():
    result = io.simulate(io.Machine(scheduler="noop"), reader("64k", SIZE, threads=4, order="turns"))
    assert result.jobs.operations.tolist() == [32, 32, 32, 32]


def test_a_rate_is_kept():
    result = io.simulate(io.Machine(scheduler="noop"), reader("64k", SIZE, threads=4, rate=20e6))
    assert float(result.shared_reads.bytes_per_s.iloc[0]) == pytest.approx(20e6, rel=0.02)


def test_the_link_limits_the_client():
    vm = io.Machine(scheduler="noop", device=io.devices.nvme())
    for network in (10.0, 50.0, 95.4):
        result = io.simulate(vm, nfs_read("32k", SIZE, network))
        assert float(result.shared_reads.bytes_per_s.iloc[0]) == pytest.approx(network * 1e6, rel=0.03)


def test_the_newest_sleeper_serves_most_where_few_threads_are_needed():
    vm = io.Machine(scheduler="noop", device=io.devices.nvme(), host=io.Host(cpus=0, speed=100))
    for wake, fewest in (("newest", 0.0), ("oldest", 0.5)):
        result = io.simulate(vm, nfs_read("32k", SIZE, 20.0, burst=1, ahead=1, threads=4, wake=wake))
        assert result.jobs.operations.min() <= result.jobs.operations.max() * (fewest if wake == "newest" else 1)
        assert wake == "newest" or result.jobs.operations.min() >= fewest * result.jobs.operations.max()


def test_think_time_is_added_to_each_piece():
    quick, slow = (
        io.simulate(io.Machine(scheduler="noop"), reader("64k", SIZE, threads=1, direct=True, thinktime_us=us)).elapsed
        for us in (0, 1000)
    )
    assert slow - quick == pytest.approx(128 * 1e-3, rel=0.05)


def test_a_run_is_repeatable_and_a_trace_changes_nothing():
    vm = io.Machine(kernel="2.6.27", device=io.devices.sata(rotational=True), volume=io.Volume())
    first, second = (io.simulate(vm, nfs_read("32k", SIZE), trace=trace) for trace in (True, False))
    assert first.elapsed == second.elapsed


def test_a_printed_result_says_what_dd_would():
    result = io.simulate(io.Machine(scheduler="noop"), reader(size=SIZE, threads=2, name="team"))
    assert "team (2): 8388608 bytes (8.4 MB, 8.0 MiB) copied" in str(result)


def test_a_shared_read_in_a_scenario_file(tmp_path):
    from iosched.scenario_file import read_scenario

    path = tmp_path / "nfs.toml"
    path.write_text(
        '[machine]\nkernel = "2.6.27"\nscheduler = "cfq"\n[machine.volume]\nstripe_kb = 64\n'
        '[[job]]\nkind = "nfs_read"\nsize = "4M"\nthreads = 4\n'
    )
    scenario = read_scenario(path)
    assert scenario.machine.volume.disks == 2 and len(scenario.jobs) == 4
