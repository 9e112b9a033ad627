"""Disks: closed forms, NCQ, the write cache, flushes, bad input, and the laws under any mix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers import python
from hypothesis import given, settings
from hypothesis import strategies as st

import iosched as io
from iosched.engine import codes as c
from iosched.errors import EngineError, ScenarioError
from iosched.laws import check_laws
from iosched.scenario_file import read_scenario

IDLE_HOST = io.Host(request_us=0, request_mq_us=0, wakeup_us=0, raw_us=0, read_us=0, copy_us=0, ahead_us=0)
PRESETS = [getattr(io.devices, name) for name in ("wd5000lplx", "st500lm012", "hdd_model", "simblk_disk")]
fio = io.workloads.fio


def on(device: io.devices.Disk, *jobs, until: float | None = None, scheduler: str = "none", **options) -> object:
    """Jobs on a raw device whose host costs nothing."""
    machine = io.Machine(kernel="5.15", device=device, scheduler=scheduler, filesystem="raw", host=IDLE_HOST)
    return io.simulate(machine, list(jobs), until=until, **options)


def part_of(device: io.devices.Disk, part: float) -> int:
    """So much of the capacity, in whole MiB."""
    return int(part * device.capacity_GB * 1e9) >> 20 << 20


def random_rate(device: io.devices.Disk, depth: int, rw: str = "randread") -> float:
    """Operations a second at random places of nine tenths of the disk."""
    job = fio(rw=rw, bs=4096, size=part_of(device, 0.9), direct=True, ioengine="libaio", iodepth=depth, runtime=150)
    return on(device, job, until=150).jobs.operations.iloc[0] / 150


def rate_MBs(device: io.devices.Disk, **job) -> float:
    """What one job moves, in 10^6 bytes/s."""
    job = {"bs": "1M", "size": part_of(device, 0.9), "direct": True, "runtime": 86400.0} | job
    return on(device, fio(**job), until=10).bytes_per_s * 1e-6


def requests_of(result) -> dict[int, list[tuple[int, int]]]:
    """(issued, completed) in ns of every request, by its serial number."""
    spans: dict[int, list[tuple[int, int]]] = {}
    issued: dict[int, int] = {}
    for row in result.trace:
        if row["kind"] == c.TR_ISSUE:
            assert row["request"] not in issued
            issued[row["request"]] = int(row["at"])
        elif row["kind"] == c.TR_COMPLETE:
            spans.setdefault(int(row["request"]), []).append((issued.pop(row["request"]), int(row["at"])))
    assert len(issued) == int(result.state.devices[0].in_flight)
    return spans


# ---------------------------------------------------------------------------------------------------------------------
# the medium


@pytest.mark.parametrize("preset", PRESETS)
def test_a_random_read_takes_electronics_mean_seek_half_a_turn_and_the_transfer(preset):
    device = preset()
    job = fio(rw="randread", bs=4096, size=part_of(device, 0.9), direct=True, runtime=86400.0)
    result = on(device, job, until=20_000 * device.random_read_s())
    assert result.jobs.operations.iloc[0] > 15_000
    assert result.time_per_op == pytest.approx(device.random_read_s(4096, 0.9), rel=0.02)


@pytest.mark.parametrize("preset", PRESETS[:2])
@pytest.mark.parametrize("job", [{}, {"bs": "128k"}, {"direct": False}, {"ioengine": "libaio", "iodepth": 4}])
def test_a_sequential_job_moves_at_the_outer_zones_rate(preset, job):
    device = preset()
    assert rate_MBs(device, rw="read", **job) == pytest.approx(device.zones_MBs[0], rel=0.01)


@pytest.mark.parametrize("preset", PRESETS[2:])
@pytest.mark.parametrize("job", [{}, {"bs": "128k"}, {"ioengine": "libaio", "iodepth": 4}])
def test_without_overlap_each_command_of_a_sequential_job_adds_its_electronics(preset, job):
    device = preset()
    size = 128 << 10 if "bs" in job else 1 << 20
    expected = size / (device.completion_us + size / device.zones_MBs[0])
    assert rate_MBs(device, rw="read", **job) == pytest.approx(expected, rel=0.01)


def test_a_pass_over_all_zones_takes_what_each_zones_rate_says():
    device = io.devices.wd5000lplx(capacity_GB=2.0)
    job = fio(rw="read", bs="1M", size=1_700 << 20, direct=True, loops=1, runtime=86400.0)
    bytes_of = np.diff(np.clip(np.arange(9) * 0.25e9, 0, job.size))
    assert on(device, job).elapsed == pytest.approx((bytes_of / device.zones_MBs).sum() * 1e-6, rel=0.01)


def test_without_a_write_cache_each_contiguous_write_by_itself_waits_for_a_turn():
    device = io.devices.wd5000lplx(write_cache=False)
    turn_and_transfer = device.turn_s + (128 << 10) / device.zones_MBs[0] * 1e-6
    expected = (128 << 10) * 1e-6 / turn_and_transfer
    assert rate_MBs(device, rw="write", bs="128k") == pytest.approx(expected, rel=0.05)
    assert rate_MBs(device, rw="write", bs="128k", ioengine="libaio", iodepth=8) > 5 * expected


def test_a_late_sequential_read_finds_its_data_in_a_segment():
    job = {"rw": "read", "bs": "64k", "size": "1G", "direct": True, "thinktime_us": 2000.0, "runtime": 5.0}
    with_segments, without = (on(io.devices.wd5000lplx(segments=n), fio(**job), until=5) for n in (16, 0))
    assert with_segments.state.disks[0].hits > 0.9 * with_segments.jobs.operations.iloc[0]
    turn = io.devices.wd5000lplx().turn_s
    assert with_segments.jobs.latency_mean_s.iloc[0] < 0.1 * turn < 0.5 * turn < without.jobs.latency_mean_s.iloc[0]


@pytest.mark.parametrize("preset", [*PRESETS[:2], io.devices.hdd_model, io.devices.simblk_disk])
def test_a_deeper_queue_never_makes_random_reads_slower(preset):
    rates = [random_rate(preset(queue_depth=depth, ncq_age_ms=2000.0), 32) for depth in (1, 2, 4, 8, 16, 32)]
    assert all(deeper > 0.985 * shallow for shallow, deeper in zip(rates, rates[1:], strict=False))
    assert rates[-1] > 1.5 * rates[0]


def test_an_age_shorter_than_a_round_takes_the_gain_away():
    """All 32 commands of a round are old, so that they go in the order of arrival."""
    old, fresh = (random_rate(io.devices.hdd_model(queue_depth=32, ncq_age_ms=age), 32) for age in (250.0, 2000.0))
    assert old == pytest.approx(random_rate(io.devices.hdd_model(queue_depth=1), 32), rel=0.02) and fresh > 2 * old


def test_shortest_positioning_time_beats_the_nearest_which_beats_the_order_of_arrival():
    shortest, nearest, order = (
        random_rate(io.devices.wd5000lplx(ncq_choice=choice), 32) for choice in ("shortest", "nearest", "order")
    )
    assert shortest > 1.05 * nearest > 1.1 * order


def test_no_command_waits_much_longer_than_the_age_at_which_it_goes_first():
    def worst(age_ms: float) -> float:
        device = io.devices.wd5000lplx(ncq_age_ms=age_ms)
        job = fio(rw="randread", size=part_of(device, 0.9), direct=True, ioengine="libaio", iodepth=16, runtime=100)
        return on(device, job, until=100).jobs.latency_max_s.iloc[0]

    assert worst(300) < 0.3 + 16 * 0.035 < worst(0)


# ---------------------------------------------------------------------------------------------------------------------
# the write cache


def test_writes_are_acknowledged_at_the_buss_rate_until_the_cache_is_full_then_at_the_mediums():
    device = io.devices.wd5000lplx()
    size = 1 << 20
    result = on(device, fio(rw="write", bs=size, size="1G", direct=True, loops=1, runtime=60.0), trace=True)
    ends = np.array(sorted(done for spans in requests_of(result).values() for _, done in spans))
    times = np.diff(ends) * 1e-9
    drained = device.zones_MBs[0] / device.bus_MBs  # while it fills
    full_after = device.cache_kb / 1024 / (1 - drained)
    early, late = times[: int(0.8 * full_after)], times[int(1.3 * full_after) :]
    assert early.mean() == pytest.approx(size / device.bus_MBs * 1e-6 + device.completion_us * 1e-6, rel=0.02)
    assert late.mean() == pytest.approx(size / device.zones_MBs[0] * 1e-6, rel=0.01)


def test_a_flush_is_done_when_everything_written_before_it_is_on_the_medium():
    device = io.devices.wd5000lplx()
    fast = on(device, io.workloads.dd(bs=1 << 20, count=16, oflag="direct"))
    safe = on(device, io.workloads.dd(bs=1 << 20, count=16, oflag="direct", conv="fsync"))
    medium = 16 * (1 << 20) / device.zones_MBs[0] * 1e-6
    assert fast.elapsed < 0.5 * medium < 0.98 * medium < safe.elapsed < 1.02 * medium + device.turn_s
    assert int(safe.state.disks[0].held) == 0 < int(fast.state.disks[0].held)
    assert int(safe.state.disks[0].written) == 16 << 11


@pytest.mark.parametrize("queueable", [False, True])
def test_on_sata_nothing_else_is_inside_the_disk_beside_a_flush(queueable):
    device = io.devices.wd5000lplx(flush_queueable=queueable)
    reader = fio(rw="randread", size="1G", direct=True, ioengine="libaio", iodepth=8, runtime=0.5)
    result = on(device, io.workloads.dd(bs=4096, count=15, oflag="direct,dsync"), reader, trace=True)
    flushes = {int(r["request"]) for r in result.trace if r["kind"] == c.TR_ISSUE and r["cmd_flags"] >> 16 == c.FLUSH}
    spans = {serial: span for serial, (span,) in requests_of(result).items()}
    beside = [
        serial
        for serial, (issued, done) in spans.items()
        for flush in flushes
        if serial != flush and issued < spans[flush][1] and spans[flush][0] < done
    ]
    assert flushes and bool(beside) == queueable


def test_fua_writes_go_past_the_cache_where_the_disk_knows_them():
    dd = io.workloads.dd(bs=4096, count=20, oflag="direct,dsync")
    machine = io.Machine(kernel="6.1", device=io.devices.wd5000lplx(fua=True), scheduler="none", filesystem="raw")
    known, unknown = (io.simulate(machine.with_(**{"device.fua": fua}), dd).state for fua in (True, False))
    assert int(known.disks[0].taken) == 0 == int(known.devices[0].flushes)
    assert int(unknown.disks[0].taken) == 160 and int(unknown.devices[0].flushes) == 20


def test_what_is_overwritten_in_the_cache_reaches_the_medium_once():
    device = io.devices.wd5000lplx(destage="last", destage_quiet_ms=1000.0)
    result = on(device, fio(rw="write", bs=4096, size=8192, direct=True, loops=50, runtime=60.0))
    disk = result.state.disks[0]
    assert (int(disk.taken), int(disk.overwritten), int(disk.held)) == (800, 784, 16)


def test_destaging_competes_with_reads_by_its_rank():
    def shares(rank: str, quiet_ms: float) -> tuple[float, float]:
        device = io.devices.wd5000lplx(destage=rank, destage_quiet_ms=quiet_ms, ncq_age_ms=2000.0)
        size = part_of(device, 0.4)
        reader = fio(rw="randread", size=size, direct=True, ioengine="libaio", iodepth=4, runtime=20)
        writer = fio(rw="write", bs="512k", size=size, direct=True, runtime=20)
        return tuple(on(device, reader, writer, until=20).jobs.bytes / 20)

    last, equal, first = shares("last", 20.0), shares("equal", 0.0), shares("first", 0.0)
    assert last[0] > 2 * equal[0] > 2 * first[0] * 0.9
    assert last[1] < equal[1] / 2


def test_a_stream_of_reads_lets_the_cache_wait_only_for_its_patience():
    """Pieces that are equal never come up against a stream, which costs the arm nothing; patient ones do, in time."""

    def rates(**options) -> np.ndarray:
        device = io.devices.wd5000lplx(ncq_age_ms=0.0, cache_kb=8192, **options)
        reader = fio(rw="read", bs="256k", size="8G", direct=True, ioengine="libaio", iodepth=2, runtime=10)
        writer = fio(rw="randwrite", bs="512k", size="8G", direct=True, ioengine="libaio", iodepth=16, runtime=10)
        return on(device, reader, writer, until=10).jobs.bytes.to_numpy() / 10e6

    equal, slow, quick = rates(destage="equal"), rates(destage_patience_ms=200.0), rates(destage_patience_ms=20.0)
    assert equal[1] < 2 and equal[0] > 120
    assert equal[0] > slow[0] > quick[0]
    assert 3 * slow[1] < quick[1]


def test_an_ssd_reads_as_fast_as_its_interface_and_writes_as_thread_3_saw():
    ssd = io.devices.m4_ssd()
    for rw, rate, bs in (("read", 550, 2**18), ("write", 200, 2**16)):
        job = fio(rw=rw, bs=bs, size="8G", direct=True, ioengine="libaio", iodepth=4, runtime=86400.0)
        expected = bs / (20e-6 + bs / rate / 1e6) * 1e-6
        assert on(ssd, job, until=5).bytes_per_s * 1e-6 == pytest.approx(expected, rel=0.01)


def test_a_device_that_prefers_reads_serves_them_before_older_writes():
    def read_latency(reads_first: bool) -> float:
        ssd = io.devices.m4_ssd(reads_first=reads_first)
        reader = fio(rw="randread", size="1G", direct=True, runtime=2)
        writer = fio(rw="write", bs="128k", size="1G", direct=True, ioengine="libaio", iodepth=8, runtime=2)
        return float(on(ssd, reader, writer, until=2).jobs.latency_mean_s[0])

    a_write = 20e-6 + 2**17 / 200e6
    assert read_latency(True) < 1.5 * a_write
    assert read_latency(False) > 6 * a_write


def test_in_turns_a_piece_of_the_cache_follows_each_command():
    """A reader with two commands in the disk, and writes that fill its cache: as many pieces as reads."""
    device = io.devices.hdd_model(write_cache=True, cache_kb=4096, destage="turns", destage_kb=512)
    reads = fio(rw="read", bs="128k", size="64M", direct=True, ioengine="libaio", iodepth=2, runtime=5.0)
    writes = fio(rw="write", bs="1M", size="1G", direct=True, ioengine="libaio", iodepth=8, runtime=5.0)
    result = on(device, reads, writes, until=5.0)
    pieces = int(result.state.disks[0].written) / (2 * 512)
    assert pieces == pytest.approx(result.jobs.operations.iloc[0], rel=0.1)


# ---------------------------------------------------------------------------------------------------------------------
# laws


disks = st.builds(
    lambda preset, options: preset(**options),
    st.sampled_from(PRESETS),
    st.fixed_dictionaries(
        {
            "queue_depth": st.integers(1, 32),
            "write_cache": st.booleans(),
            "fua": st.booleans(),
            "flush_queueable": st.booleans(),
            "cache_kb": st.sampled_from([1280, 4096, 16384]),
            "cache_extents": st.integers(1, 64),
            "destage": st.sampled_from(c.RANKS),
            "destage_kb": st.sampled_from([4, 128, 512]),
            "destage_quiet_ms": st.sampled_from([0.0, 1.0, 30.0]),
            "ncq_choice": st.sampled_from(c.CHOICES),
            "ncq_age_ms": st.sampled_from([0.0, 10.0, 250.0]),
            "segments": st.integers(0, 4),
            "segment_kb": st.sampled_from([4, 256, 1024]),
            "command_overlap": st.booleans(),
        }
    ),
)
readers_and_writers = st.builds(
    lambda rw, bs, depth, direct, sync, seed: fio(
        rw=rw, bs=bs, size="64M", seed=seed, runtime=0.3, **_engine(rw, depth, direct, sync)
    ),
    st.sampled_from(["read", "randread", "write", "randwrite"]),
    st.sampled_from([4096, 65536, 1 << 20]),
    st.integers(1, 40),
    st.booleans(),
    st.booleans(),
    st.integers(1, 1000),
)


def _engine(rw: str, depth: int, direct: bool, sync: bool) -> dict[str, object]:
    """Options of a job that fio would take."""
    if direct and not sync:
        return {"direct": True, "ioengine": "libaio", "iodepth": depth}
    return {"direct": direct, "fdatasync": int(rw.endswith("write"))}


@settings(max_examples=80, deadline=None)
@given(
    device=disks,
    work=st.lists(readers_and_writers, min_size=1, max_size=4),
    scheduler=st.sampled_from(["none", "mq-deadline", "bfq", "noop", "deadline", "cfq"]),
    filesystem=st.sampled_from(["raw", "ext4", "xfs"]),
)
def test_time_never_goes_back_and_every_request_completes_once(device, work, scheduler, filesystem):
    machine = io.Machine(kernel="4.19", device=device, scheduler=scheduler, filesystem=filesystem)
    result = io.simulate(machine, work, trace=True)  # the laws are checked inside
    assert (np.diff(result.trace["at"]) >= 0).all()
    spans = requests_of(result)
    assert all(len(span) == 1 and span[0][0] < span[0][1] for span in spans.values())
    assert len(spans) > 0


TRACE = """
import hashlib
import iosched as io
device = io.devices.{device}
m = io.Machine(kernel="4.19", device=device, scheduler="{scheduler}", filesystem="{fs}")
jobs = [io.workloads.dd(count=20), io.workloads.fio(rw="randread", size="64M", loops=1, runtime=0.2, direct=True),
        io.workloads.fio(rw="read", bs="64k", size="4M", loops=2),
        io.workloads.fio(rw="write", bs="64k", size="4M", loops=2, direct=True, ioengine="libaio", iodepth=8)]
r = io.simulate(m, jobs, trace=True)
print(len(r.trace), hashlib.sha256(r.trace.tobytes()).hexdigest())
"""


@pytest.mark.parametrize(
    ("device", "scheduler", "fs"),
    [
        ("wd5000lplx()", "cfq", "ext4"),
        ("st500lm012(capacity_GB=4, cache_kb=1280)", "none", "raw"),
        ("m4_ssd()", "mq-deadline", "xfs"),
        ("simblk_disk(write_cache=True)", "noop", "ext4"),
    ],
)
def test_the_trace_is_the_same_with_and_without_the_compiler(device, scheduler, fs):
    code = TRACE.format(device=device, scheduler=scheduler, fs=fs)
    plain = python(code, NUMBA_DISABLE_JIT="1")
    assert int(plain.split()[0]) > 300
    assert python(code) == plain


def test_a_disk_that_loses_cached_sectors_breaks_a_law():
    result = on(io.devices.wd5000lplx(), io.workloads.dd(bs=4096, count=3, oflag="direct"))
    for column, law in (("written", "sectors cached"), ("destage_ns", "the arm's time")):
        result.state.disks[column] += 10**12
        with pytest.raises(EngineError, match=law):
            check_laws(result.state, c.STOP_DONE)
        result.state.disks[column] -= 10**12


# ---------------------------------------------------------------------------------------------------------------------
# bad input, and files


@pytest.mark.parametrize(
    ("options", "field", "says"),
    [
        ({"rpm": 0}, "rpm", "seek_settle_ms"),
        ({"rpm": 5}, "rpm", "60"),
        ({"cache_kb": 1024}, "cache_kb", "1280"),
        ({"zones_MBs": (100, 120)}, "zones_MBs", "out of order"),
        ({"zones_MBs": ()}, "zones_MBs", "1 to 64"),
        ({"zones_MBs": (100, -1)}, "zones_MBs", "-1"),
        ({"zones_MBs": ("fast",)}, "zones_MBs", "fast"),
        ({"queue_depth": 33}, "queue_depth", "33"),
        ({"servers": 2}, "servers", "2"),
        ({"destage": "never"}, "destage", "last"),
        ({"ncq_choice": "sptf"}, "ncq_choice", "shortest"),
        ({"write_MBs": 100}, "write_MBs", "platter"),
        ({"capacity_GB": 0.05, "heads": 64}, "capacity_GB", "cylinder"),
        ({"seek_root_ms": -1}, "seek_root_ms", "-1"),
        ({"rpms": 7200}, "rpms", "rpm"),
    ],
)
def test_a_disk_that_cannot_exist_is_refused_in_a_sentence(options, field, says):
    with pytest.raises(ScenarioError) as error:
        io.devices.Disk(**options)
    assert field in str(error.value) and says in str(error.value)
    assert str(error.value).count(". ") == 0 and str(error.value).endswith(".")


def test_files_have_to_fit_on_the_disk():
    device = io.devices.wd5000lplx(capacity_GB=1.0)
    with pytest.raises(ScenarioError, match="larger than its"):
        on(device, fio(rw="read", size="2G", direct=True))
    with pytest.raises(ScenarioError, match="capacity_GB"):
        on(replace(device, capacity_GB=0.1), io.workloads.dd(count=1, partition=15))


def test_the_closed_form_of_dd_refuses_a_disk():
    with pytest.raises(ScenarioError, match="do not all take the same time"):
        io.closed_form(io.Machine(device=io.devices.wd5000lplx()), io.workloads.dd())


def test_a_scenario_file_can_name_a_disk(tmp_path):
    path = tmp_path / "disk.toml"
    path.write_text('[machine.device]\nkind = "st500lm012"\nncq_age_ms = 50\n[[job]]\ncount = 1\n')
    assert read_scenario(path).machine.device == io.devices.st500lm012(ncq_age_ms=50)
