"""The page cache: dirty limits, the flusher, fsync beside it; and real kernels with a writer beside a reader."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import python
from hypothesis import given, settings
from hypothesis import strategies as st

import iosched as io
from iosched.data import data_file
from iosched.engine import codes as c
from iosched.errors import ScenarioError
from iosched.programs import compile_scenario
from iosched.validate import validate_kernel
from iosched.workloads import dd, fio, random_reader, sequential_reader, sequential_writer

MIB = 2**20
NO_HOST = io.Host(**dict.fromkeys(
    ("request_us", "request_mq_us", "wakeup_us", "ext4_us", "xfs_us", "raw_us", "read_us", "copy_us", "ahead_us",
     "dirty_us", "clean_us", "written_us"), 0))  # fmt: skip
SLOW = io.devices.sata(completion_us=0.001, bandwidth_MBs=100.0)
LIMITS = io.Memory(dirty_background_bytes=8 * MIB, dirty_bytes=16 * MIB)


def machine(**options) -> io.Machine:
    """A raw device of 100 MB/s, at most 16 MiB of dirty memory, and processors that cost no time."""
    given = {"kernel": "6.1", "device": SLOW, "filesystem": "raw", "scheduler": "none", "host": NO_HOST,
             "memory": LIMITS, "wbt_lat_usec": 0}  # fmt: skip
    return io.Machine(**(given | options))


def writer(**options) -> io.workloads.Fio:
    """A buffered writer of 64 KiB operations."""
    return sequential_writer(**({"bs": "64k", "fdatasync": 0, "runtime": 4.0, "size": "8G"} | options))


def cache(result: io.Result) -> np.record:
    """The page cache's books."""
    return result.state.caches[0]


def events(result: io.Result, kind: int, task: int | None = None) -> np.ndarray:
    """A run's trace rows of one kind, by one task."""
    rows = result.trace[result.trace["kind"] == kind]
    return rows if task is None else rows[rows["task"] == task]


# ---------------------------------------------------------------------------------------------------------------------
# the background threshold, age, and the dirty limit, by hand


def test_below_the_background_threshold_nothing_is_written():
    result = io.simulate(machine(), dd(bs="1M", count=8, oflag=""))
    assert cache(result).dirty == 8 * MIB // 4096
    assert result.iostat().frame["w/s"].iloc[0] == 0


def test_the_flusher_begins_when_the_threshold_is_passed():
    """A write of 16 pages takes 15 x 10 us, 2048 pages 19.2 ms; the next one crosses, to a slice of 0.75 ms."""
    host = io.Host(**{**{f: 0 for f in NO_HOST.__dataclass_fields__ if f.endswith("_us")}, "dirty_us": 10.0})
    result = io.simulate(machine(host=host), dd(bs="64k", count=400, oflag=""), trace=True)
    first = events(result, c.TR_ISSUE)[0]
    assert first["at"] / c.SEC == pytest.approx(128 * 150e-6, abs=1e-3)


def test_a_write_of_the_page_cache_costs_only_its_copying():
    """16 pages, the first of which belongs to the write itself: 15 x 10 us."""
    host = io.Host(**{**{f: 0 for f in NO_HOST.__dataclass_fields__ if f.endswith("_us")}, "dirty_us": 10.0})
    result = io.simulate(machine(host=host), dd(bs="64k", count=100, oflag=""))
    assert result.jobs.latency_mean_s[0] == pytest.approx(150e-6)
    assert result.jobs.elapsed_s[0] == pytest.approx(100 * 150e-6)


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline", "bfq"])
def test_at_the_limit_a_writer_is_held_to_what_the_device_writes(scheduler):
    result = io.simulate(machine(scheduler=scheduler), writer(runtime=20.0))
    dirty = cache(result).dirty + cache(result).writeback
    assert result.jobs.bytes_per_s[0] == pytest.approx(100e6, rel=0.03)
    assert (cache(result).background + cache(result).limit) / 2 < dirty <= cache(result).limit + 64
    assert cache(result).pauses > 100


def test_the_dirty_pages_settle_around_the_set_point():
    """Over ten seconds, looked at every half second: between the free run and the limit, near the middle of the two."""
    seen = []
    for until in np.arange(5.0, 10.0, 0.5):
        row = cache(io.simulate(machine(), writer(runtime=20.0), until=float(until)))
        seen.append((row.dirty + row.writeback) / row.limit)
    assert max(seen) < 1.0 and min(seen) > 0.75
    assert np.mean(seen) == pytest.approx(0.875, abs=0.06)


def test_the_measured_bandwidth_is_the_devices():
    result = io.simulate(machine(), writer(runtime=20.0))
    assert cache(result).bandwidth * 4096 == pytest.approx(100e6, rel=0.05)


def test_two_writers_get_the_same():
    result = io.simulate(machine(), writer(numjobs=2, runtime=20.0))
    one, other = result.jobs.bytes_per_s
    assert one == pytest.approx(other, rel=0.1)
    assert one + other == pytest.approx(100e6, rel=0.04)


def test_what_is_dirty_for_thirty_seconds_is_written_at_the_next_look():
    """A look every 5 s: written at 30 or 35 s after it was dirtied, not before."""
    work = [dd(bs="1M", count=1, oflag=""), random_reader(rate=4096.0, runtime=50.0)]
    assert io.simulate(machine(), work, until=29.9).iostat().frame["w/s"].iloc[0] == 0
    later = io.simulate(machine(), work, until=35.5)
    assert cache(later).written == MIB // 4096 and cache(later).dirty == 0
    never = io.simulate(machine(memory=io.Memory(dirty_writeback_centisecs=0)), work, until=45.0)
    assert cache(never).written == 0
    young = io.simulate(machine(memory=io.Memory(dirty_expire_centisecs=200)), work, until=5.5)
    assert cache(young).written == MIB // 4096


# ---------------------------------------------------------------------------------------------------------------------
# what the flusher sends


def test_the_flusher_writes_a_file_in_order_and_in_large_requests():
    result = io.simulate(machine(), writer(runtime=1.0), trace=True)
    sent = events(result, c.TR_ISSUE)
    assert (np.diff(sent["place"]) > 0).all()
    assert np.median(sent["length"]) == 2 * SLOW.max_sectors_kb
    assert (sent["cmd_flags"] & 0xFFFF == c.F_BACKGROUND).all()


def test_files_take_turns_of_at_least_four_mebibytes():
    result = io.simulate(machine(), writer(numjobs=2, runtime=3.0), trace=True)
    place = events(result, c.TR_QUEUE)["place"]
    turns = np.flatnonzero(np.abs(np.diff(place)) > 1 << 20)
    assert len(turns) > 10
    chunk = np.diff(place[np.concatenate([[0], turns + 1])][::2]) * 512  # how far one file came in one turn
    assert np.median(chunk) >= 4 * MIB


@pytest.mark.parametrize("files", [1, 2, 3])
def test_new_files_get_blocks_in_windows_in_the_order_in_which_they_are_written_back(files):
    """Delayed allocation: a file by itself lies in one piece, files that grow side by side in windows of 8 MiB."""
    result = io.simulate(machine(filesystem="ext4"), writer(numjobs=files, runtime=2.0), trace=True)
    flusher = len(result.state.tasks) - 1
    sent = events(result, c.TR_QUEUE, flusher)
    place, end = sent["place"].astype(int), (sent["place"] + sent["length"]).astype(int)
    jumps = 1 + np.flatnonzero(place[1:] != end[:-1])
    new = [i for i in jumps if place[i] not in end[:i]]  # the others go into the rest of a window
    assert len(jumps) == 0 if files == 1 else len(new) > 3
    assert all((place[i] - place[0]) % (8 * MIB // 512) == 0 for i in new)
    assert (np.sort(place)[1:] >= np.sort(end)[:-1]).all(), "no block twice"


def test_writeback_is_async_and_the_roots_unless_cgroups_write_back_for_themselves():
    groups = {"cgroups": ["a", "b"]}
    jobs = [writer(cgroup="a", runtime=1.0), writer(cgroup="b", runtime=1.0)]
    plain = io.simulate(machine(**groups), jobs, trace=True)
    assert plain.task_name(2) == "flusher" and plain.state.tasks[2].group == 0
    own = replace(LIMITS, cgroup_writeback=True)
    apart = io.simulate(machine(memory=own, **groups), jobs, trace=True)
    assert [apart.scenario.machine.cgroups.paths[t.group] for t in apart.state.tasks[2:]] == ["a", "b"]
    for task in (2, 3):
        assert len(events(apart, c.TR_QUEUE, task)) > 10


def test_a_legacy_pool_lets_a_batcher_have_half_as_many_requests_again():
    """nr_requests 8: the flusher fills the pool, goes on to 12, and sleeps until it is below 8."""
    device = io.devices.sata(completion_us=0.001, bandwidth_MBs=100.0, queue_depth=1)
    m = machine(kernel="4.19", scheduler="noop", device=device, nr_requests=8, memory=io.Memory())
    result = io.simulate(m, writer(runtime=2.0, size="1G"), trace=True)
    change = {c.TR_GET: 1, c.TR_COMPLETE: -1}
    steps = [change[k] for k in result.trace["kind"] if k in change]
    assert np.cumsum(steps).max() == 12


# ---------------------------------------------------------------------------------------------------------------------
# fsync


@pytest.mark.parametrize("filesystem", ["raw", "xfs", "ext4"])
def test_an_fsync_at_the_end_leaves_nothing_dirty(filesystem):
    result = io.simulate(machine(filesystem=filesystem), dd(bs="64k", count=640, oflag="", conv="fsync"))
    assert cache(result).written == cache(result).dirtied == 640 * 16
    assert result.jobs.elapsed_s[0] == pytest.approx(640 * 65536 / 100e6, rel=0.03)


def test_an_fsync_waits_for_what_the_flusher_has_sent():
    """The last write of the data is done before the process ends, whoever sent it."""
    result = io.simulate(machine(), dd(bs="64k", count=320, oflag="", conv="fsync"), trace=True)
    both = {int(e["task"]) for e in events(result, c.TR_ISSUE)}
    assert both == {0, 1}
    assert int(result.state.tasks[0].end) >= int(events(result, c.TR_COMPLETE)["at"].max())


def test_a_commit_waits_for_the_data_of_new_blocks_that_are_under_writeback():
    """Whoever commits waits for another file's data: jbd2's commit block goes out after all that was sent before it."""
    m = machine(filesystem="ext4")
    result = io.simulate(m, [writer(runtime=3.0), dd(bs=4096, count=40, start=1.0)], until=3.0, trace=True)
    flusher, jbd2 = len(result.state.tasks) - 1, len(result.state.tasks) - 2
    assert result.task_name(flusher) == "flusher" and result.task_name(jbd2) == "jbd2"
    got, done = events(result, c.TR_GET, flusher), events(result, c.TR_COMPLETE)
    ended = dict(zip(done["request"].tolist(), done["at"].tolist(), strict=True))
    log = events(result, c.TR_GET, jbd2)
    commits = log[1:][(np.diff(log["at"]) > 0)]  # the commit block follows the completion of the log blocks
    assert len(commits) >= 10
    for log_at, commit_at in zip(log["at"][:-1], log["at"][1:], strict=True):
        if commit_at > log_at:
            pending = [ended.get(int(e["request"]), c.NEVER) for e in got if e["at"] < log_at]
            if max(pending, default=0) > commit_at:
                assert log_at in commits["at"]  # a commit block, followed by the next transaction's log


def test_a_buffered_writer_is_committed_every_five_seconds():
    m = machine(filesystem="ext4", memory=io.Memory())
    result = io.simulate(m, [dd(bs=4096, count=1, oflag=""), random_reader(rate=4096.0, runtime=20.0)])
    mount = 1  # jbd2 has lived before (Ext4.quiet_before)
    assert result.state.journals[0].commits - mount == 1
    busy = io.simulate(m, writer(rate=1e6, runtime=21.0))
    assert busy.state.journals[0].commits - mount == 4


# ---------------------------------------------------------------------------------------------------------------------
# conservation, memory, speed


work = st.lists(
    st.one_of(
        st.builds(lambda bs, n, fsync, g: dd(bs=bs, count=n, oflag="", conv="fsync" if fsync else "", cgroup=g),
                  st.sampled_from([512, 4096, 65536, MIB]), st.integers(1, 60), st.booleans(), st.sampled_from("ab")),
        st.builds(lambda size, every, over, g: fio("write", "16k", size, fdatasync=every, overwrite=over, runtime=0.3,
                  cgroup=g), st.sampled_from(["64k", "1M", "40M"]), st.sampled_from([0, 3]), st.booleans(),
                  st.sampled_from("ab")),
        st.builds(lambda rw, g: fio(rw, "16k", "64M", runtime=0.2, cgroup=g), st.sampled_from(["read", "randread"]),
                  st.sampled_from("ab")),
        st.builds(lambda n: dd(bs=4096, count=n), st.integers(1, 20)),
    ),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    work=work,
    scheduler=st.sampled_from(["noop", "none", "deadline", "mq-deadline", "cfq", "bfq"]),
    filesystem=st.sampled_from(["raw", "ext4", "xfs"]),
    limits=st.sampled_from([(1, 2), (4, 64), (0, 1)]),
    wbt=st.sampled_from([0, 500, 75_000]),
    own=st.booleans(),
    write_cache=st.booleans(),
    until=st.one_of(st.none(), st.floats(1e-3, 0.3)),
)
def test_every_page_that_became_dirty_is_dirty_under_writeback_or_clean(
    work, scheduler, filesystem, limits, wbt, own, write_cache, until
):
    """The page cache's laws (and all others) hold at the end and at any moment; check_laws runs inside."""
    memory = io.Memory(dirty_background_bytes=limits[0] * MIB, dirty_bytes=limits[1] * MIB, cgroup_writeback=own,
                       dirty_background_ratio=0)  # fmt: skip
    m = io.Machine(kernel="4.19", device=io.devices.sata(write_cache=write_cache), filesystem=filesystem,
                   scheduler=scheduler, memory=memory, cgroups=["a", "b"], wbt_lat_usec=wbt)  # fmt: skip
    result = io.simulate(m, work, until=until)
    if until is None:
        for row, job in zip(result.jobs.itertuples(), result.scenario.jobs, strict=True):
            assert row.bytes == row.operations * job.bs
        written = sum(int(r.bytes) for r, j in zip(result.jobs.itertuples(), result.scenario.jobs, strict=True)
                      if getattr(j, "cached", False))  # fmt: skip
        assert int(cache(result).dirtied) * 4096 <= written + 4096 * len(work)


def test_pages_written_again_while_dirty_are_not_dirtied_twice():
    result = io.simulate(machine(), fio("write", "16k", "64k", fdatasync=0, loops=100, runtime=5.0))
    assert result.jobs.operations[0] == 400
    assert cache(result).dirtied == cache(result).dirty == 16


def test_memory_does_not_grow_with_what_is_written():
    def size(seconds: float) -> int:
        s = compile_scenario(io.Scenario(machine(), [writer(runtime=seconds, size="512G")]))
        return sum(getattr(s, name).nbytes for name in vars(s) if hasattr(getattr(s, name), "nbytes"))

    assert size(1.0) == size(600.0) < 5e6


def test_a_writer_and_the_flusher_wait_while_the_log_blocks_of_their_inode_are_under_way():
    """On a disk whose queue is full of writes the log blocks take a quarter of a second and more; so does the write
    that meets them, and only on a file system with a journal."""
    longest = {}
    for fs in ("ext4", "xfs"):
        desk = io.Machine(kernel="4.19", device=io.devices.hdd_model(), scheduler="noop", filesystem=fs,
                          memory=io.Memory(size_mb=600))  # fmt: skip
        result = io.simulate(desk, writer(bs="1M", runtime=6.0, size="4G"))
        longest[fs] = result.jobs.latency_max_s.iloc[0]
    assert longest["ext4"] > 0.2 > 0.06 > longest["xfs"]


@pytest.mark.parametrize("scheduler", ["mq-deadline", "bfq"])
def test_a_minute_of_a_mix_on_a_disk_takes_less_than_half_a_second(scheduler):
    import time

    m = io.Machine(kernel="6.1", device=io.devices.wd5000lplx(), scheduler=scheduler, memory=io.Memory(size_mb=2000))
    jobs = [sequential_reader(bs="128k", runtime=60.0, size="40G"), writer(bs="1M", runtime=60.0, size="20G")]
    io.simulate(m, jobs, until=0.1)
    begin = time.process_time()
    io.simulate(m, jobs)
    assert time.process_time() - begin < 0.5


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="the peak is read from /proc")
def test_a_minute_of_100_megabytes_a_second_stays_under_300_megabytes_of_memory():
    """In a process of its own: the interpreter, the compiled engine and the run. (getrusage would also
    count the process that forked it, which may have compiled the engine.)"""
    code = """
import iosched as io
m = io.Machine(kernel="6.1", device=io.devices.wd5000lplx(), scheduler="mq-deadline")
r = io.simulate(m, [io.workloads.sequential_writer(bs="4k", fdatasync=0, size="20G", runtime=60.0)])
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(r.bytes_per_s * 60, 1024 * int(peak))
"""
    written, resident = map(float, python(code).split())
    assert written > 60 * 95e6
    assert resident < 300e6


def test_a_minute_of_a_writer_beside_a_reader_takes_about_a_second():
    """Loose: the machine may be busy."""
    import time

    m = io.Machine(kernel="6.1", device=io.devices.sata(bandwidth_MBs=200.0), scheduler="mq-deadline")
    jobs = [writer(bs="4k", runtime=60.0, size="16G"), sequential_reader(runtime=60.0, size="64G")]
    io.simulate(m, jobs, until=0.1)
    begin = time.process_time()
    io.simulate(m, jobs, until=60.0)
    assert time.process_time() - begin < 1.5


# ---------------------------------------------------------------------------------------------------------------------
# bad input


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: io.Memory(dirty_background_ratio=20), ("dirty_background_ratio: 20", "dirty_ratio, 20", "20 % of")),
        (lambda: io.Memory(dirty_bytes=MIB), ("dirty_background_ratio: 10", "dirty_bytes, 1048576", "1048576 bytes")),
        (lambda: io.Memory(dirty_background_bytes=2**40), ("dirty_background_bytes", "dirty_ratio")),
        (lambda: io.Memory(dirty_ratio=0, dirty_background_ratio=0), ("dirty_ratio: 0", "32 pages")),
        (lambda: io.Memory(dirty_ratio=101), ("dirty_ratio: 101", "0 to 100")),
        (lambda: io.Memory(dirty_expire_centisecs=0), ("dirty_expire_centisecs: 0", "1 to")),
        (lambda: io.Memory(dirty_rato=5), ("dirty_rato", "dirty_ratio")),
        (lambda: io.Machine(memory=4096), ("memory: 4096", "iosched.Memory")),
        (lambda: fio("randwrite", fdatasync=0), ("fio.fdatasync: 0", "random places")),
        (lambda: fio("randwrite", fdatasync=2), ("fio.fdatasync: 2", "random places")),
    ],
)
def test_limits_that_cannot_be_are_refused_in_one_sentence(make, words):
    with pytest.raises(ScenarioError) as caught:
        make()
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "\n" not in text and text.endswith(".")


# ---------------------------------------------------------------------------------------------------------------------
# real kernels


@pytest.fixture(scope="module")
def comparison():
    """The rows of buffered writers beside a reader on devices without seeks."""
    return validate_kernel(data_file("kernel/writers.csv"))


def test_every_row_of_a_writer_beside_a_reader_is_compared(comparison):
    assert len(comparison.rows) == 22 and comparison.skipped == []


def test_throughputs_are_off_by_at_most_5_percent_in_the_median_and_28_at_most(comparison):
    """A machine of one instruction a nanosecond, whose processor the writer keeps busy: CPU costs were chosen with
    several of these rows in view, so this holds a fit. The worst is the writers' share under BFQ."""
    errors = comparison.errors()
    assert np.median(errors) <= 0.05
    assert errors.max() <= 0.28


def test_writers_alone_are_within_three_percent_where_nothing_throttles_them(comparison):
    own = [row for row in comparison.rows if row["run_id"].startswith("sata") and row["metric"] == "write_bw_MBs"]
    errors = [abs(row["error"]) for row in own if row["scheduler"] != "bfq"]
    assert len(errors) == 4 and max(errors) <= 0.03


def test_the_orderings_of_the_real_rows_come_out(comparison):
    """BFQ gives the reader most and the writers least; throttling at 2 ms changes nothing beside a single server."""
    mb = {(row["run_id"], row["metric"]): (row["measured"], row["simulated"]) for row in comparison.rows}
    for k in (0, 1):
        for other in ("none", "mq-deadline"):
            bfq, plain = "sata_bfq_2W_wbt0", f"sata_{other}_2W_wbt0"
            assert mb[bfq, "read_bw_MBs"][k] > 4 * mb[plain, "read_bw_MBs"][k]
            assert mb[bfq, "write_bw_MBs"][k] < mb[plain, "write_bw_MBs"][k] / 4
            with_wbt = mb[f"sata_{other}_2W_wbt2000", "write_bw_MBs"][k]
            assert with_wbt == pytest.approx(mb[plain, "write_bw_MBs"][k], rel=0.01)


def test_files_of_one_job_take_turns_an_operation_each():
    """Fifty files of 2 MiB, 64 KiB at a time: each is written once, and none is ahead of another by more than one."""
    job = fio("write", "64k", "100M", nrfiles=50, fdatasync=0, loops=1)
    whole = io.simulate(machine(memory=io.Memory()), job)
    files = whole.state.files[whole.state.files.flusher != c.NONE]
    assert len(files) == 50 and (files.dirtied == 2 * MIB // 4096).all()
    part = io.simulate(machine(memory=io.Memory()), fio("write", "64k", "100M", nrfiles=50, fdatasync=0, loops=2,
                       rate=64e6), until=0.5)  # fmt: skip
    assert np.ptp(part.state.files.dirtied) <= 16


def test_a_scenario_file_has_memory_throttling_and_buffered_writers(tmp_path, capsys):
    from iosched.cli import main

    path = tmp_path / "s.toml"
    path.write_text("""
[machine]
kernel = "6.1"
wbt_lat_usec = 75000
[machine.memory]
size_mb = 512
dirty_ratio = 10
dirty_background_ratio = 5
[[job]]
bs = "1M"
count = 100
oflag = ""
""")
    assert main(["run", str(path)]) == 0
    assert "104857600 bytes" in capsys.readouterr().out
    path.write_text(path.read_text().replace("dirty_background_ratio = 5", "dirty_background_ratio = 50"))
    assert main(["run", str(path)]) == 2
    assert "dirty_background_ratio: 50 is not below dirty_ratio, 10" in capsys.readouterr().err


def test_the_result_shows_what_is_dirty_and_who_was_held():
    row = io.simulate(machine(wbt_lat_usec=2_000), writer(runtime=2.0)).writeback.iloc[0]
    assert row.limit_bytes == 2 * row.background_bytes == 16 * MIB
    assert row.background_bytes < row.dirty_bytes + row.under_writeback_bytes <= row.limit_bytes
    assert row.pauses > 0 and 0 < row.paused_s < 2.1 and row.wbt_target_us == 2_000
    assert row.written_bytes + row.dirty_bytes + row.under_writeback_bytes == pytest.approx(2 * 100e6, rel=0.1)
