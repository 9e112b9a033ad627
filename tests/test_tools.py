"""vmstat, iostat and fio's latencies of a run: their identities, and the look of the tools."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import iosched as io
from iosched.cli import main
from iosched.engine import codes as c
from iosched.errors import ScenarioError
from iosched.tools import COLUMNS, PERCENTILES, bin_start

w = io.workloads
MIX = [
    w.sequential_writer(bs="1M", fdatasync=0, size="4G", runtime=6),
    w.sequential_reader(size="4G", runtime=6),
    w.random_reader(direct=True, ioengine="libaio", iodepth=4, runtime=6, start=1.25),
]
MACHINES = {
    "disk, mq-deadline": {"kernel": "6.1", "scheduler": "mq-deadline", "device": io.devices.wd5000lplx()},
    "disk, cfq": {"kernel": "4.19", "scheduler": "cfq", "device": io.devices.hdd_model()},
    "ssd, none": {"kernel": "6.1", "scheduler": "none", "device": io.devices.sata()},
}


@pytest.fixture(scope="module", params=MACHINES)
def mix(request):
    """A writer and two readers for six seconds, with the trace."""
    machine = io.Machine(memory=io.Memory(size_mb=1024), **MACHINES[request.param])
    return io.simulate(machine, MIX, until=7.0, trace=True)


def rows_of(result, **options):
    return result.iostat(**options).frame


# ---------------------------------------------------------------------------------------------------------------------
# iostat


def test_littles_law_holds_over_the_whole_run(mix):
    dev = mix.state.devices[0]
    row = rows_of(mix, columns="old").iloc[0]
    requests_a_second = int(dev.completed) / mix.elapsed
    left = int(dev.in_system) * mix.elapsed  # at most, of those that the end of the run cut off
    assert abs(row["avgqu-sz"] - requests_a_second * row["await"] / 1000) * mix.elapsed <= left + 1e-6


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("rw", ["randread", "randwrite"])
def test_the_queue_is_the_rate_times_the_wait_in_every_interval_of_a_steady_run(rw, depth):
    job = w.fio(rw=rw, direct=True, ioengine="libaio", iodepth=depth, runtime=5)
    machine = io.Machine(kernel="6.1", scheduler="none", filesystem="raw", device=io.devices.sata())
    result = io.simulate(machine, job, until=5)
    letter = rw[4]
    for row in rows_of(result, interval_s=1, columns="new").to_dict("records"):
        assert row["aqu-sz"] == pytest.approx(row[f"{letter}/s"] * row[f"{letter}_await"] / 1000, rel=2e-3)
        assert row[f"{letter}areq-sz"] == 4 and row["%util"] <= 100


@pytest.mark.parametrize("interval_s", [1, 2, None])
def test_sums_over_the_intervals_are_what_the_device_moved(mix, interval_s):
    rows = rows_of(mix, interval_s=interval_s, columns="new")
    lengths = np.diff([0, *rows.time_s])
    dev = mix.state.devices[0]
    totals = {
        "r/s": dev.read_requests, "w/s": dev.write_requests, "f/s": dev.flushes, "rkB/s": dev.sectors_read / 2,
        "wkB/s": dev.sectors_written / 2,
    }  # fmt: skip
    for name, total in totals.items():
        assert (rows[name] * lengths).sum() == pytest.approx(int(total), rel=1e-9)
    merges = ((rows["rrqm/s"] + rows["wrqm/s"]) * lengths).sum()
    assert merges == pytest.approx(int(dev.merges), rel=1e-9)
    assert lengths.sum() == pytest.approx(mix.elapsed)


def test_no_device_is_busier_than_always(mix):
    for interval_s in (1, None):
        assert rows_of(mix, interval_s=interval_s)["%util"].between(0, 100 + 1e-9).all()


def test_the_trace_counts_the_same_requests_and_waits(mix):
    e = mix.trace
    begun = {int(r["request"]): int(r["at"]) for r in e[e["kind"] == c.TR_GET]}
    done = e[(e["kind"] == c.TR_COMPLETE) & (e["cmd_flags"] >> 16 == c.READ)]
    row = rows_of(mix, columns="new").iloc[0]
    assert row["r/s"] * mix.elapsed == pytest.approx(len(done))
    waits = [int(r["at"]) - begun[int(r["request"])] for r in done]
    assert row["r_await"] == pytest.approx(np.mean(waits) * 1e-6, rel=1e-9)


def test_columns_of_different_times_say_the_same_thing(mix):
    frames = {name: rows_of(mix, columns=name).iloc[0] for name in COLUMNS}
    assert frames["2008"]["rsec/s"] == 2 * frames["old"]["rkB/s"]
    assert frames["old"]["avgqu-sz"] == frames["new"]["aqu-sz"]
    requests = frames["old"]["r/s"] + frames["old"]["w/s"]
    kB = frames["new"]["rkB/s"] + frames["new"]["wkB/s"]
    assert frames["2008"]["avgrq-sz"] == pytest.approx(2 * kB / requests)
    assert frames["old"]["svctm"] == pytest.approx(10 * frames["old"]["%util"] / requests)
    for name, frame in frames.items():
        head = mix.iostat(columns=name).text.splitlines()[0].split()
        assert head[1:] == COLUMNS[name] == list(frame.index[2:])


# ---------------------------------------------------------------------------------------------------------------------
# vmstat


def test_blocks_in_and_out_are_what_reaches_the_device(mix):
    rows = mix.vmstat().frame
    lengths = np.diff([0, *rows.time_s])
    dev = mix.state.devices[0]
    read = int(dev.sectors_in_read) / 2
    assert (rows.bi * lengths).sum() == pytest.approx(read)
    assert ((rows.bi + rows.bo) * lengths).sum() == pytest.approx(int(dev.sectors_in) / 2)
    in_flight = int(dev.sectors_in - dev.sectors_out) / 2
    assert read - in_flight <= int(dev.sectors_read) / 2 <= read


def test_a_processors_time_is_busy_idle_or_waiting(mix):
    rows = mix.vmstat().frame
    assert (rows.sy + rows.id + rows.wa).to_numpy() == pytest.approx(100)
    assert (rows[["sy", "id", "wa"]] >= 0).all(axis=None)


def test_one_reader_waits_or_computes_and_is_one_who_waits():
    machine = io.Machine(kernel="6.1", scheduler="none", device=io.devices.single(completion_us=1000))
    rows = io.simulate(machine, w.random_reader(direct=True, runtime=3)).vmstat().frame
    assert rows.b.iloc[:3].tolist() == [1, 1, 1]
    assert rows.wa.iloc[0] == pytest.approx(100 - rows.sy.iloc[0]) and rows.wa.iloc[0] > 95
    thinker = io.simulate(machine, w.random_reader(direct=True, runtime=3, thinktime_us=9000.0)).vmstat().frame
    assert thinker.wa.iloc[0] == pytest.approx(10, abs=1) and thinker.id.iloc[0] == pytest.approx(90, abs=1)


def test_a_writer_within_the_limits_waits_for_nobody_and_a_held_one_does():
    def run(size_mb: int):
        machine = io.Machine(kernel="6.1", device=io.devices.wd5000lplx(), memory=io.Memory(size_mb=size_mb))
        return io.simulate(machine, w.sequential_writer(bs="1M", fdatasync=0, size="400M", loops=1)).vmstat().frame

    free, held = run(65536), run(256)
    assert (free.b == 0).all() and (free.bo == 0).all() and free.wa.max() == 0
    assert held.b.max() >= 1 and held.wa.max() > 20
    assert held.dirty_kB.max() + held.writeback_kB.max() <= 256 * 1024 * 0.21


def test_the_sum_of_dirty_pages_is_what_writeback_says(mix):
    last = mix.vmstat().frame.iloc[-1]
    state = mix.writeback.iloc[0]
    assert last.dirty_kB * 1024 == state.dirty_bytes and last.writeback_kB * 1024 == state.under_writeback_bytes


# ---------------------------------------------------------------------------------------------------------------------
# samples


def test_looking_at_the_counters_changes_nothing():
    runs = [io.simulate(io.Machine(), w.dd(count=300), interval_s=t, trace=True) for t in (1e-3, 0.1, 100)]
    assert all(np.array_equal(r.trace, runs[0].trace) for r in runs)
    assert [len(r.samples.rows) > 100 for r in runs] == [True, False, False]


def test_a_long_run_keeps_no_more_counters_than_a_short_one():
    result = io.simulate(io.Machine(scheduler="none", kernel="6.1"), w.dd(count=1, start=9000.0))
    assert len(result.samples.rows) < 4096 and result.samples.every_ns == 4 * c.SEC
    assert (np.diff([row.at_ns for row in result.samples.rows][:-1]) == 4 * c.SEC).all()
    with pytest.raises(ScenarioError, match="4 s"):
        result.vmstat(1)
    assert len(result.vmstat(8).frame) == math.ceil(result.elapsed / 8)


def test_a_run_that_takes_no_time_has_no_intervals():
    free = io.Host(**dict.fromkeys(("wakeup_us", "raw_us", "dirty_us"), 0.0))
    result = io.simulate(io.Machine(host=free, filesystem="raw"), w.dd(bs=4096, count=1, oflag=""))
    assert result.elapsed == 0
    assert len(result.vmstat().frame) == len(result.iostat(1).frame) == 0
    assert result.iostat(columns="old").frame["%util"].tolist() == [0.0]


@pytest.mark.parametrize("interval_s", [0.25, 1.5, -1, 0, math.nan, math.inf, "1", True])
def test_an_interval_that_was_not_kept_says_how_to_keep_it(interval_s):
    result = io.simulate(io.Machine(scheduler="noop"), w.dd(count=10))
    for view in (result.vmstat, result.iostat):
        with pytest.raises(ScenarioError, match="interval_s") as error:
            view(interval_s)
        assert str(error.value).endswith(".") and "\n" not in str(error.value)


def test_columns_that_no_iostat_has_are_refused():
    with pytest.raises(ScenarioError, match="did you mean 'old'"):
        io.simulate(io.Machine(scheduler="noop"), w.dd(count=10)).iostat(columns="odl")


# ---------------------------------------------------------------------------------------------------------------------
# fio


def latencies(result, job: int) -> np.ndarray:
    """Every operation's latency in s, from the trace."""
    e = result.trace
    return e["length"][(e["kind"] == c.TR_OP_END) & (e["task"] == job)] * 1e-9


def test_buckets_are_shares_of_all_operations(mix):
    buckets = mix.fio_latency().buckets
    assert buckets.groupby("job", sort=False).percent.sum().to_numpy() == pytest.approx(100)
    ns = {"nsec": 1e-9, "usec": 1e-6, "msec": 1e-3}
    for job, name in enumerate(mix.jobs.job):
        raw = latencies(mix, job)
        own = buckets[buckets.job == name]
        bounds = own.below.to_numpy() * own.unit.map(ns).to_numpy()
        below = np.cumsum(own.percent)
        for bound, share in zip(bounds[:-1], below[:-1], strict=True):
            low, high = ((raw < bound * f).mean() * 100 for f in (1 - 1 / 64, 1 + 1 / 64))
            assert low - 1e-9 <= share <= high + 1e-9


def test_percentiles_are_those_of_the_raw_latencies_within_the_histograms_resolution(mix):
    table = mix.fio_latency().percentiles
    for job, name in enumerate(mix.jobs.job):
        raw = latencies(mix, job)
        own = table[table.job == name]
        assert own.percent.tolist() == list(PERCENTILES)
        exact = np.percentile(raw, PERCENTILES, method="inverted_cdf")
        assert own.latency_s.to_numpy() == pytest.approx(exact, rel=1 / 127)


def test_each_bin_begins_where_the_one_before_ends():
    starts = bin_start(np.arange(c.HISTOGRAM_BINS))
    assert (np.diff(starts) > 0).all() and starts[0] == 0
    assert (np.diff(starts)[128:] / starts[128:-1]).max() <= 1 / 64
    assert starts[-1] > 1200 * c.SEC


def test_the_text_looks_like_fio():
    job = w.random_reader(direct=True, runtime=2)
    result = io.simulate(io.Machine(kernel="6.1", scheduler="none", device=io.devices.single(300)), job)
    lines = result.fio_latency().text.splitlines()
    assert lines[0] == "random reader: (groupid=0, jobs=1)" and lines[1].startswith("  read: IOPS=")
    assert "    clat percentiles (usec):" in lines and lines[-1] == "  lat (usec)   : 500=100.00%"
    assert sum(line.startswith("     | ") for line in lines) == 5


def test_a_job_without_an_operation_has_no_percentiles():
    result = io.simulate(io.Machine(), [w.dd(count=5), w.dd(count=1, start=50.0, name="late")], until=1.0)
    assert "late" in result.fio_latency().text
    assert result.fio_latency().percentiles.query("job == 'late'").latency_s.isna().all()


# ---------------------------------------------------------------------------------------------------------------------
# the command line

SCENARIO = """
[machine]
kernel = "6.1"
[machine.device]
kind = "sata"
[[job]]
kind = "fio"
rw = "randread"
direct = true
runtime = 2.0
"""


def test_the_command_line_prints_the_views(tmp_path, capsys):
    path = tmp_path / "s.toml"
    path.write_text(SCENARIO)
    assert main(["run", str(path), "--vmstat", "--iostat", "0.5", "--columns", "old", "--fio-latency"]) == 0
    out = capsys.readouterr().out
    assert out.count("avgqu-sz") == 5 and "procs ---" in out and "lat (usec)   : " in out
    assert main(["run", str(path), "--json", "--vmstat", "1", "--iostat", "--fio-latency"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert len(printed["vmstat"]) == 3 and printed["iostat_x"][0]["%util"] > 85
    assert sum(row["percent"] for row in printed["fio_latency"]["buckets"]) == pytest.approx(100)


@pytest.mark.parametrize("options", [["--vmstat", "nan"], ["--vmstat", "-1"], ["--iostat", "--columns", "newest"],
                                     ["--vmstat", "1", "--iostat", "1.5"]])  # fmt: skip
def test_a_view_that_cannot_be_is_refused_in_a_sentence(tmp_path, capsys, options):
    path = tmp_path / "s.toml"
    path.write_text(SCENARIO)
    assert main(["run", str(path), *options]) == 2
    assert capsys.readouterr().err.count("\n") == 1
