"""The engine: laws, repeatability, hand-worked cycles, limits."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import python
from hypothesis import given, settings
from hypothesis import strategies as st

import iosched as io
from iosched.engine import codes as c
from iosched.engine.loop import run
from iosched.errors import EngineError
from iosched.laws import check_laws
from iosched.programs import compile_scenario

NO_HOST = io.Host(request_us=0, request_mq_us=0, wakeup_us=0, ext4_us=0, xfs_us=0, raw_us=0)

TRACE = """
import hashlib
import iosched as io
m = io.Machine(kernel="4.19", device=io.devices.null(completion_us=100, write_cache={wc}), scheduler="{scheduler}",
               filesystem="{fs}")
jobs = [io.workloads.dd(count=25, cgroup="user.slice"), io.workloads.dd(count=15, bs=9000, partition={partition})]
r = io.simulate(m, jobs, trace=True)
print(len(r.trace), hashlib.sha256(r.trace.tobytes()).hexdigest())
"""


@pytest.mark.parametrize(
    ("scheduler", "fs", "wc", "partition"),
    [
        ("cfq", "ext4", False, 0),
        ("cfq", "ext4", True, 1),
        ("cfq", "raw", False, 0),
        ("noop", "xfs", True, 0),
        ("none", "ext4", True, 0),
        ("deadline", "ext4", False, 1),
        ("mq-deadline", "raw", True, 1),
    ],
)
def test_the_trace_is_the_same_with_and_without_the_compiler_and_from_run_to_run(scheduler, fs, wc, partition):
    code = TRACE.format(scheduler=scheduler, fs=fs, wc=wc, partition=partition)
    plain = python(code, NUMBA_DISABLE_JIT="1")
    assert int(plain.split()[0]) > 300
    assert python(code) == plain
    assert python(code) == plain


machines = st.builds(
    lambda scheduler, fs, device, kernel, cpus: io.Machine(
        kernel="5.15" if scheduler in ("none", "mq-deadline") and kernel else "4.19",
        scheduler=scheduler,
        filesystem=fs,
        device=device,
        host=io.Host(cpus=cpus),
        cgroups=["a", "a/b", "c"],
        nr_requests=None,
    ),
    st.sampled_from(["noop", "none", "deadline", "mq-deadline", "cfq"]),
    st.sampled_from(["ext4", "xfs", "raw"]),
    st.builds(
        io.devices.ConstantTime,
        completion_us=st.floats(1, 5000),
        servers=st.integers(1, 8),
        queue_depth=st.integers(1, 40),
        rotational=st.booleans(),
        write_cache=st.booleans(),
        fua=st.booleans(),
        flush_us=st.none() | st.floats(1, 20000),
        max_sectors_kb=st.sampled_from([4, 128, 1280]),
    ),
    st.booleans(),
    st.integers(0, 2),
)
jobs = st.builds(
    io.workloads.Dd,
    bs=st.sampled_from([512, 4096, 5120, 65536, 1 << 20]),
    count=st.integers(1, 12),
    oflag=st.sampled_from(["dsync", "sync", "direct", "direct,dsync"]),
    conv=st.sampled_from(["", "fsync"]),
    cgroup=st.sampled_from(["/", "a", "a/b", "c"]),
    partition=st.integers(0, 2),
    ioprio=st.integers(0, 7),
    ioclass=st.sampled_from(["best-effort", "realtime", "idle"]),
    start=st.floats(0, 0.05),
)


@settings(max_examples=150, deadline=None)
@given(machine=machines, work=st.lists(jobs, min_size=1, max_size=6))
def test_every_run_obeys_the_laws_and_does_what_was_asked(machine, work):
    result = io.simulate(machine, work)  # check_laws runs inside
    assert list(result.jobs.operations) == [job.count for job in work]
    assert list(result.jobs.bytes) == [job.count * job.bs for job in work]
    dev = result.state.devices[0]
    assert int(dev.in_system) == int(dev.in_flight) == int(dev.tags_used) == 0
    written = 512 * int(dev.sectors_written)
    assert written >= sum(job.count * job.bs for job in work)
    assert result.time_budget.seconds.sum() == pytest.approx(result.elapsed, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(machine=machines, work=st.lists(jobs, min_size=1, max_size=4), budget=st.integers(1, 40))
def test_a_run_cut_into_pieces_is_the_same_run(machine, work, budget):
    scenario = io.Scenario(machine, work)
    whole, pieces = compile_scenario(scenario), compile_scenario(scenario)
    run(whole, c.NEVER - 1, c.NEVER)
    while run(pieces, c.NEVER - 1, budget) == c.STOP_BUDGET:
        pass
    for name in ("sim", "devices", "tasks", "requests", "idle", "journals"):
        assert np.array_equal(getattr(whole, name), getattr(pieces, name)), name


@settings(max_examples=40, deadline=None)
@given(machine=machines, work=st.lists(jobs, min_size=1, max_size=4), until=st.floats(1e-5, 0.05))
def test_the_laws_hold_at_whatever_moment_the_clock_is_stopped(machine, work, until):
    result = io.simulate(machine, work, until=until)
    assert result.elapsed <= until + 1e-9
    assert result.elapsed >= until - 1e-9 or list(result.jobs.operations) == [job.count for job in work]


def test_a_broken_law_is_an_engine_error_that_names_it(vm, child_dd):
    s = compile_scenario(io.Scenario(vm, [child_dd]))
    stop = run(s, c.NEVER - 1, c.NEVER)
    check_laws(s, stop)
    for table, column, law in (
        ("devices", "sojourn_ns", "Little's law"),
        ("devices", "sectors_out", "sectors in = sectors out"),
        ("devices", "completed", "requests in = requests out"),
        ("devices", "busy_ns", "busy + held + empty"),
    ):
        getattr(s, table)[column] += 1
        with pytest.raises(EngineError, match=law.replace("+", r"\+")):
            check_laws(s, stop)
        getattr(s, table)[column] -= 1
    s.devices.served_ns += 10**15
    with pytest.raises(EngineError, match="device time served"):
        check_laws(s, stop)


def test_a_completion_that_comes_too_early_or_twice_stops_the_run(vm, child_dd):
    s = compile_scenario(io.Scenario(vm, [child_dd]))
    run(s, int(s.sim[0].epoch) + 60_000, c.NEVER)  # the data write is in the device
    completion = [i for i in range(int(s.sim[0].heap_n)) if s.heap[i].kind == c.EV_COMPLETE]
    s.heap[completion[0]].at -= 50_000
    assert run(s, c.NEVER - 1, c.NEVER) == c.STOP_ERROR
    with pytest.raises(EngineError, match="before it was served"):
        check_laws(s, c.STOP_ERROR)


# ---------------------------------------------------------------------------------------------------------------------
# hand-worked cycles: device times only, no CPU


@pytest.mark.parametrize(
    ("fs", "write_cache", "fua", "commands"),
    [
        ("ext4", False, True, 3),  # data, log, commit block
        ("ext4", True, True, 4),  # data, log, flush, commit block with FUA
        ("ext4", True, False, 5),  # and a second flush for the FUA
        ("xfs", False, True, 2),  # data, log
        ("xfs", True, True, 3),
        ("xfs", True, False, 4),
    ],
)
def test_without_cpu_a_write_takes_its_commands_one_after_another(fs, write_cache, fua, commands):
    device = io.devices.null(completion_us=100, write_cache=write_cache, fua=fua)
    m = io.Machine(kernel="4.19", device=device, filesystem=fs, scheduler="noop", host=NO_HOST)
    result = io.simulate(m, [io.workloads.dd(count=64)])
    assert result.time_per_op == pytest.approx(commands * 100e-6, rel=1e-12)


def test_a_raw_device_reads_each_page_once_before_eight_partial_writes():
    m = io.Machine(device=io.devices.null(completion_us=100), filesystem="raw", scheduler="noop", host=NO_HOST)
    result = io.simulate(m, [io.workloads.dd(count=80)])
    assert int(result.state.devices[0].read_requests) == 10
    assert result.time_per_op == pytest.approx((8 + 1) / 8 * 100e-6, rel=1e-12)
    whole_pages = io.simulate(m, [io.workloads.dd(bs=4096, count=80)])
    assert int(whole_pages.state.devices[0].read_requests) == 0


def test_an_append_writes_34_sectors_on_average_and_three_requests(vm):
    result = io.simulate(vm.with_(scheduler="noop"), [io.workloads.dd(count=800)])
    dev = result.state.devices[0]
    # data 8, commit 8, log 16; every eighth allocates (log 32), and the first creates the file (log 48)
    assert int(dev.sectors_written) == 800 * (8 + 8) + 700 * 16 + 99 * 32 + 48
    assert int(dev.write_requests) == 3 * 800
    assert int(dev.merges) == 700 * 1 + 99 * 3 + 5


def test_the_log_block_counts_agree_with_the_disk_counters_of_a_real_kernel():
    # 4.19, 1000 writes: 34,032 sectors in 3,001 requests; one request of 16 sectors is not dd's
    result = io.simulate(io.Machine(scheduler="noop"), [io.workloads.dd(count=1000)])
    assert int(result.state.devices[0].sectors_written) == 34_032 - 16
    assert int(result.state.devices[0].write_requests) == 3_001 - 1


def test_processes_on_one_file_system_share_commits():
    m = io.Machine(device=io.devices.null(completion_us=100), scheduler="noop", host=NO_HOST)
    result = io.simulate(m, [io.workloads.dd(count=100) for _ in range(4)])
    commits = int(result.state.journals[0].commits) - 1
    assert 100 <= commits <= 110
    apart = io.simulate(m, [io.workloads.dd(count=100, partition=p) for p in range(4)])
    assert sum(int(j.commits) - 1 for j in apart.state.journals) == 400


@pytest.mark.parametrize(("depth", "servers"), [(1, 8), (8, 1)])
def test_one_slot_or_one_server_makes_a_parallel_device_serial(depth, servers):
    device = io.devices.ConstantTime(completion_us=100, queue_depth=depth, servers=servers)
    m = io.Machine(device=device, filesystem="raw", scheduler="noop", host=NO_HOST)
    result = io.simulate(m, [io.workloads.dd(bs=4096, count=50, partition=p) for p in range(5)])
    assert result.elapsed == pytest.approx(5 * 50 * 100e-6, rel=1e-12)
    assert result.iostat().frame["%util"].iloc[0] == pytest.approx(100)


def test_a_parallel_device_serves_independent_writers_at_once():
    m = io.Machine(device=io.devices.null(completion_us=100), filesystem="raw", scheduler="noop", host=NO_HOST)
    result = io.simulate(m, [io.workloads.dd(bs=4096, count=50, partition=p) for p in range(5)])
    assert result.elapsed == pytest.approx(50 * 100e-6, rel=1e-12)
    assert result.iostat().frame["aqu-sz"].iloc[0] == pytest.approx(5)


def test_flushes_of_several_writers_are_shared():
    device = io.devices.null(completion_us=100, write_cache=True, flush_us=1000)
    m = io.Machine(device=device, filesystem="raw", scheduler="noop", host=NO_HOST)
    result = io.simulate(m, [io.workloads.dd(bs=4096, count=50, partition=p) for p in range(4)])
    # in each round the first flush starts at once, and the three writes that complete meanwhile share the second
    assert int(result.state.devices[0].flushes) == 2 * 50


def test_a_large_direct_write_is_split_at_the_largest_request_and_never_exceeds_the_pool():
    device = io.devices.null(completion_us=100, max_sectors_kb=128, queue_depth=4)
    m = io.Machine(kernel="5.10", device=device, filesystem="raw", scheduler="none", host=NO_HOST)
    result = io.simulate(m, [io.workloads.dd(bs=1 << 20, count=3, oflag="direct")])
    assert int(result.state.devices[0].write_requests) == 3 * 8
    assert result.time_per_op == pytest.approx(2 * 100e-6)  # eight requests through four tags


def test_a_write_behind_an_fsync_at_the_end_costs_one_commit():
    m = io.Machine(device=io.devices.null(completion_us=100), scheduler="noop", host=NO_HOST)
    result = io.simulate(m, [io.workloads.dd(bs=4096, count=1000, oflag="", conv="fsync")])
    assert int(result.state.journals[0].commits) - 1 == 1
    assert int(result.state.devices[0].write_requests) == 4 + 2  # 4 MB in 1280 KiB requests, log, commit


def test_without_a_trace_the_tables_do_not_grow_with_the_run(vm):
    sizes = []
    for count in (10, 5000):
        s = io.simulate(vm, [io.workloads.dd(count=count)]).state
        sizes.append(sum(t.nbytes for t in vars(s).values() if isinstance(t, np.ndarray)))
    assert sizes[0] == sizes[1]


def test_a_trace_longer_than_its_buffer_is_complete(vm):
    result = io.simulate(vm.with_(scheduler="noop"), [io.workloads.dd(count=8000)], trace=True)
    assert len(result.trace) > 70_000
    ends = result.trace[result.trace["kind"] == c.TR_OP_END]
    assert list(ends["place"]) == list(range(8000))
    assert (np.diff(result.trace["at"]) >= 0).all()


def test_percentiles_of_the_latency_are_within_six_percent(vm):
    result = io.simulate(vm, [io.workloads.dd(count=500, cgroup="user.slice")], trace=True)
    exact = result.trace["length"][result.trace["kind"] == c.TR_OP_END] * 1e-9
    for percent in (50, 90, 99):
        assert result.latency_percentile(0, percent) == pytest.approx(np.percentile(exact, percent), rel=0.07)
    row = result.jobs.iloc[0]
    assert row.latency_mean_s == pytest.approx(exact.mean())
    assert (row.latency_min_s, row.latency_max_s) == (pytest.approx(exact.min()), pytest.approx(exact.max()))


def test_percentiles_never_leave_the_range_of_the_latencies():
    result = io.simulate(io.Machine(scheduler="noop"), [io.workloads.dd(count=50, bs=4096)])
    row = result.jobs.iloc[0]
    for percent in (50, 90, 99):
        assert row.latency_min_s <= row[f"latency_p{percent}_s"] <= row.latency_max_s


def test_utilisation_counts_requests_that_the_scheduler_holds_back(vm, child_dd):
    iostat = io.simulate(vm, [child_dd]).iostat().frame.iloc[0]
    assert iostat["%util"] > 98 and iostat["aqu-sz"] == pytest.approx(iostat["%util"] / 100, abs=0.02)


def test_several_jobs_say_whose_lines_they_print(vm):
    work = [io.workloads.dd(count=3, name="web", cgroup="user.slice"), io.workloads.dd(count=3, name="db")]
    text = repr(io.simulate(vm, work))
    assert "[web in user.slice]" in text and "[db in /]" in text


@pytest.mark.parametrize(
    "case",
    [
        # a loop that never waits, and one write that is many bios
        (io.Machine(kernel="4.19", scheduler="noop", host=NO_HOST), {"count": 40_000, "oflag": "", "conv": "fsync"}),
        (
            io.Machine(
                kernel="4.19",
                scheduler="noop",
                nr_requests=65536,
                device=io.devices.ConstantTime(max_sectors_kb=4, queue_depth=65536),
            ),
            {"bs": "64M", "count": 2, "oflag": "direct"},
        ),
    ],
)
def test_no_task_keeps_the_event_loop_to_itself_and_the_trace_stays_within_its_buffer(case):
    machine, options = case
    result = io.simulate(machine, [io.workloads.dd(**options)], trace=True)
    ends = result.trace["kind"] == c.TR_OP_END
    assert int(ends.sum()) == result.jobs.operations.iloc[0]
    stopped = io.simulate(machine, [io.workloads.dd(**options)], until=1e-6)
    assert stopped.elapsed <= 1.0001e-6


def test_a_fua_write_that_needs_no_flush_holds_up_nobodys_flush():
    machine = io.Machine(
        kernel="6.1", scheduler="mq-deadline", filesystem="raw", device=io.devices.ConstantTime(write_cache=True)
    )
    work = [io.workloads.dd(bs=4096, count=50)]
    work += [io.workloads.dd(bs=4096, count=3000, oflag="direct,dsync", start=3e-5 * i) for i in range(4)]
    assert io.simulate(machine, work).jobs.latency_max_s.iloc[0] < 2e-3


def test_a_crowd_in_one_cgroup_does_not_hold_up_another_cgroups_requests():
    machine = io.Machine(
        kernel="4.19",
        scheduler="noop",
        filesystem="raw",
        nr_requests=4,
        device=io.devices.ConstantTime(queue_depth=4096),
        host=NO_HOST,
        cgroups=["a", "b"],
    )
    alone = io.workloads.dd(bs="1M", count=40, oflag="direct", cgroup="b")
    crowd = [io.workloads.dd(bs="1M", count=400, oflag="direct", cgroup="a", partition=1) for _ in range(50)]
    quiet = io.simulate(machine, [alone]).jobs.latency_mean_s.iloc[0]
    assert io.simulate(machine, [alone, *crowd]).jobs.latency_mean_s.iloc[0] < 1.2 * quiet


def test_a_copied_state_runs_on_its_own_tables(vm):
    import copy
    import pickle

    s = compile_scenario(io.Scenario(vm, [io.workloads.dd(count=5)]))
    for other in (copy.deepcopy(s), pickle.loads(pickle.dumps(s))):
        run(other, c.NEVER - 1, c.NEVER)
        assert (int(s.tasks[0].done_ops), int(other.tasks[0].done_ops)) == (0, 5)


def test_files_of_one_partition_alternate_in_extents_and_never_overlap():
    work = [io.workloads.dd(bs="1M", count=5, oflag="direct") for _ in range(3)]
    trace = io.simulate(io.Machine(scheduler="noop"), work, trace=True).trace
    issued = trace[(trace["kind"] == c.TR_ISSUE) & (trace["task"] < 3)]
    sectors = np.concatenate([np.arange(r["place"], r["place"] + r["length"]) for r in issued])
    assert len(sectors) == len(np.unique(sectors)) == 3 * 5 * 2048
    assert sectors.max() - sectors.min() + 1 == 3 * 5 * 2048  # side by side, without gaps


def test_days_of_simulated_time_are_refused_before_the_sums_leave_64_bits():
    machine = io.Machine(filesystem="raw", scheduler="noop", device=io.devices.single(completion_us=1e9, queue_depth=1))
    with pytest.raises(io.ScenarioError, match="30 simulated days"):
        io.simulate(machine, [io.workloads.dd(count=3000, oflag="direct") for _ in range(56)])


def test_a_trace_without_events_is_an_empty_table(vm, child_dd):
    assert len(io.simulate(vm, [child_dd], until=1e-9, trace=True).events) <= 1
