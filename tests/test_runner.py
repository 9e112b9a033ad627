"""Samples, replications, executors, the cache: other ways to the same numbers; and what cannot be done is said."""

from __future__ import annotations

import io as io_text
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pandas as pd
import pytest
from helpers import ROOT

import iosched as io
from iosched import points, runner, versions
from iosched.cli import main
from iosched.results_cache import ResultsCache, canonical
from iosched.runner import Cancelled, run_many
from iosched.sweeps import sweep, to_xarray

DD = io.workloads.dd(count=20, cgroup="user.slice")
VM = io.Machine(kernel="4.19", device=io.devices.null(completion_us=100), scheduler="cfq")
OVER = {"scheduler.slice_idle": [0, 3, 8], "device.completion_us": [50, 200, 333.25]}
DRAWN = io.Machine(device=io.devices.exponential(), filesystem="raw", scheduler="noop")
READER = io.workloads.random_reader(direct=True, runtime=0.05)


class Failing(Executor):
    """Runs everything at once, but the first calls end with the given errors."""

    def __init__(self, *errors):
        self.errors, self.calls = list(errors), 0

    def submit(self, function, *args):
        self.calls += 1
        future = Future()
        try:
            if self.errors:
                raise self.errors.pop(0)
            future.set_result(function(*args))
        except BaseException as error:
            future.set_exception(error)
        return future


# --- points --------------------------------------------------------------------------------------------------------


def test_samples_lie_in_their_ranges_and_follow_the_seed():
    over = {"device.completion_us": io.Range(10, 1000, log=True), "device.queue_depth": io.Range(1, 4, integer=True),
            "scheduler": ["noop", "cfq"]}  # fmt: skip
    frames = [sweep(VM, DD, over, samples=16, seed=seed, metrics=["operations"]) for seed in (1, 1, 2)]
    assert frames[0].equals(frames[1]) and not frames[0].equals(frames[2])
    assert frames[0]["device.completion_us"].between(10, 1000).all()
    assert set(frames[0]["device.queue_depth"]) == {1, 2, 3, 4}
    assert set(frames[0].scheduler) == {"noop", "cfq"}
    assert abs(np.median(frames[0]["device.completion_us"]) - 100) < 40  # even in the logarithm


@pytest.mark.parametrize("sampler", points.SAMPLERS)
def test_every_sampler_spreads_evenly(sampler):
    drawn = points.points_of({"x": io.Range(0, 1)}, samples=64, sampler=sampler)
    assert np.histogram([p[0] for p in drawn], 4, (0, 1))[0] == pytest.approx([16] * 4, abs=2)


@pytest.mark.parametrize("samples", [None, 7])
def test_the_parts_of_a_sweep_are_the_whole(samples):
    over = {"a": [1, 2, 3], "b": [10, 20, 30, 40]}
    whole = list(points.points_of(over, samples))
    assert [p for i in range(5) for p in points.points_of(over, samples, part=(i, 5))] == whole


def test_a_grid_too_large_for_memory_is_refused_with_its_size_and_the_way_out(monkeypatch):
    monkeypatch.setattr(points, "free_memory", lambda: 10**9)
    over = {"device.completion_us": range(1, 10**6), "host.wakeup_us": range(10**6)}
    with pytest.raises(io.ScenarioError, match=r"999,999,000,000 points need about 5,999,994 GB.*part=\(0, ") as caught:
        sweep(VM, DD, over)
    parts = int(str(caught.value).split("part=(0, ")[1].split(")")[0])
    assert len(points.points_of(over, part=(0, parts))) * points.BYTES_A_POINT <= 10**9


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: io.Range(3, 3), "empty"),
        (lambda: io.Range(0, 3, log=True), "logarithm"),
        (lambda: sweep(VM, DD, {"device.completion_us": io.Range(1, 2)}), "give samples="),
        (lambda: sweep(VM, DD, OVER, samples=0), "samples: 0"),
        (lambda: sweep(VM, DD, OVER, samples=4, sampler="sobl"), "did you mean 'sobol'"),
        (lambda: sweep(VM, DD, OVER, part=3), r"part: 3 .*\(i, n\)"),
        (lambda: sweep(VM, DD, OVER, part=(2, 2)), r"part\[0\]: 2"),
        (lambda: sweep(VM, DD, OVER, replications=2), "nothing in this scenario is drawn"),
        (lambda: sweep(DRAWN, READER, {"device.seed": [1]}, replications=2), "seed"),
        (lambda: sweep(VM, DD, {"memory.dirty_rati": [10]}), "did you mean 'dirty_ratio'"),
        (lambda: sweep(VM, DD, OVER, cache="/dev/null/x"), "cache: '/dev/null/x' cannot keep results"),
        (lambda: io.summarise(sweep(VM, DD, {"job.bs": [512]})), "one replication"),
    ],
)
def test_what_cannot_be_swept_is_one_sentence(call, words):
    with pytest.raises(io.ScenarioError, match=words):
        call()


# --- replications --------------------------------------------------------------------------------------------------


def test_replications_differ_among_each_other_and_share_their_luck_across_points():
    frame = sweep(DRAWN, READER, {"device.servers": [1, 2]}, replications=4, metrics=["latency_mean_s"], seed=5)
    values = frame.latency_mean_s.to_numpy().reshape(2, 4)
    assert len(set(values[0])) == 4
    assert (values[0] == values[1]).all()  # one reader at a time: a second server changes nothing but the luck would
    again = sweep(DRAWN, READER, {"device.servers": [1, 2]}, replications=4, metrics=["latency_mean_s"], seed=5)
    assert again.equals(frame)


def test_the_interval_of_the_mean_holds_the_true_one():
    frame = sweep(DRAWN.with_(host=io.Host(read_us=0, raw_us=0, request_us=0, wakeup_us=0)), READER,
                  {"device.completion_us": [100, 300]}, replications=20, metrics=["latency_mean_s"])  # fmt: skip
    table = io.summarise(frame, level=0.99)
    for row, mean in zip(table.itertuples(), (100e-6, 300e-6)):
        assert row.latency_mean_s_low < mean < row.latency_mean_s_high
        assert row.latency_mean_s_high - row.latency_mean_s_low < 0.2 * mean


def test_a_grid_becomes_a_dataset():
    pytest.importorskip("xarray")
    frame = sweep(VM, DD, OVER, metrics=["time_per_op_s"])
    cube = to_xarray(frame)
    assert cube.sizes == {"scheduler.slice_idle": 3, "device.completion_us": 3}
    row = frame.iloc[4]
    at = {k: row[k] for k in OVER}
    assert float(cube.time_per_op_s.sel(at)) == row.time_per_op_s


# --- executors -----------------------------------------------------------------------------------------------------


def test_processes_give_the_same_bits():
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        assert sweep(VM, DD, OVER, executor=pool).equals(sweep(VM, DD, OVER))


def test_a_lost_worker_costs_only_its_points(monkeypatch):
    run = []
    batch = runner.measure_batch
    monkeypatch.setattr(runner, "measure_batch", lambda *args: run.extend(args[1]) or batch(*args))
    executor = Failing(ConnectionError("the worker has gone"), ConnectionError("again"))
    assert sweep(VM, DD, OVER, executor=executor).equals(sweep(VM, DD, OVER))
    assert executor.calls == 9 + 2 and len(run) == 9


def test_where_the_executor_itself_is_lost_the_rest_is_done_here():
    executor = Failing(*[BrokenProcessPool("all gone")] * 5)
    assert sweep(VM, DD, OVER, executor=executor).equals(sweep(VM, DD, OVER))


def test_a_worker_that_is_lost_time_and_again_is_no_endless_loop():
    with pytest.raises(ConnectionError):
        sweep(VM, DD, {"job.bs": [512]}, executor=Failing(*[ConnectionError()] * 100))


def test_workers_of_another_version_are_refused(monkeypatch):
    batch = runner.measure_batch
    monkeypatch.setattr(runner, "measure_batch", lambda _, *rest: batch("0123456789abcdef", *rest))
    with pytest.raises(io.ScenarioError, match=r"another version of iosched .*0123456789abcdef"):
        sweep(VM, DD, OVER, executor=Failing())


def test_the_version_is_that_of_everything_a_run_depends_on(tmp_path):
    names = {path.name for path in versions.simulation_sources()}
    assert {"programs.py", "host.py", "devices.py", "metrics.py", "laws.py"} <= names
    (tmp_path / "a.py").write_text("")
    assert versions.simulation_sources(tmp_path) == [tmp_path / "a.py"]


def test_dask_gives_the_same_bits_and_a_killed_worker_costs_only_its_points():
    distributed = pytest.importorskip("distributed")
    over = {"scheduler.slice_idle": range(8), "device.completion_us": np.linspace(50, 500, 40)}
    vm, dd = VM, io.workloads.dd(count=200, cgroup="user.slice")
    with (
        distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        pid = next(iter(client.run(os.getpid).values()))
        killer = threading.Timer(0.5, os.kill, (pid, 9))
        killer.start()
        frame = sweep(vm, dd, over, executor=client.get_executor())
        killer.join()
    assert frame.equals(sweep(vm, dd, over))


# --- cache ---------------------------------------------------------------------------------------------------------


def test_a_second_sweep_comes_from_the_cache_with_the_same_bits(tmp_path, monkeypatch):
    frame = sweep(VM, DD, OVER, cache=tmp_path)
    monkeypatch.setattr(runner, "measure", lambda *_: pytest.fail("a point was run again"))
    assert sweep(VM, DD, OVER, cache=tmp_path).equals(frame)
    other = sweep(VM, DD, OVER, cache=tmp_path, metrics=["operations"])
    assert other.operations.tolist() == [20] * 9


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path, monkeypatch):
    measure = runner.measure
    run = []

    def breaking(scenario, *args):
        if len(run) == 4:
            raise KeyboardInterrupt
        run.append(scenario)
        return measure(scenario, *args)

    monkeypatch.setattr(runner, "measure", breaking)
    with pytest.raises(KeyboardInterrupt):
        sweep(VM, DD, OVER, cache=tmp_path, workers=1)
    kept = ResultsCache(tmp_path)
    n = kept.db.execute("SELECT count(*) FROM results").fetchone()[0]
    assert 3 <= n <= 4
    run_again = []
    monkeypatch.setattr(runner, "measure", lambda s, *args: run_again.append(s) or measure(s, *args))
    assert sweep(VM, DD, OVER, cache=tmp_path).equals(sweep(VM, DD, OVER))
    assert len(run_again) == 9 - n + 9  # the second sweep of the comparison has no cache


def test_a_killed_sweep_leaves_a_whole_cache(tmp_path):
    code = (
        "import iosched as io, os\n"
        "from iosched import results_cache, runner\n"
        "results_cache.COMMIT_S = 0.0\n"
        "vm = io.Machine(scheduler='cfq')\n"
        "measure, calls = runner.measure, []\n"
        "def dying(*args):\n"
        "    calls.append(args)\n"
        "    return measure(*args) if len(calls) < 30 else os._exit(9)\n"
        "runner.measure = dying\n"
        "dd, over = io.workloads.dd(count=300), {'device.completion_us': range(1, 99)}\n"
        f"io.sweep(vm, dd, over, cache={str(tmp_path)!r}, workers=1)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 9
    kept = ResultsCache(tmp_path)
    assert kept.db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    scenario = io.Scenario(
        io.Machine(scheduler="cfq", device=io.devices.null(completion_us=1)), io.workloads.dd(count=300)
    )
    assert kept.get(kept.key(scenario, None)) == runner.measure(scenario, list(runner.METRICS))


def test_two_processes_share_a_cache(tmp_path):
    code = (
        "import iosched as io\n"
        "from iosched import results_cache\n"
        "results_cache.COMMIT_S = 0.0\n"
        "vm = io.Machine(scheduler='cfq')\n"
        "dd, over = io.workloads.dd(count=20), {'device.completion_us': range(1, 100)}\n"
        f"f = io.sweep(vm, dd, over, cache={str(tmp_path)!r})\n"
        "print(f.time_per_op_s.sum())"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    both = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=env, stdout=subprocess.PIPE) for _ in range(2)]
    first, second = (p.communicate()[0] for p in both)
    assert first == second != b"" and [p.returncode for p in both] == [0, 0]
    assert ResultsCache(tmp_path).db.execute("SELECT count(*) FROM results").fetchone()[0] == 99


def test_the_key_knows_code_scenario_seed_length_and_the_content_of_a_load(tmp_path, monkeypatch):
    def key(machine=VM, job=DD, length=None):
        return ResultsCache.key(io.Scenario(machine, job), length)

    keys = [key(), key(length=5), key(VM.with_(**{"host.speed": 2})), key(job=io.workloads.dd(count=21)), key(DRAWN),
            key(DRAWN.with_(**{"device.seed": 2})), key(VM.with_(cgroups={"user.slice": 100}))]  # fmt: skip
    assert len(set(keys)) == len(keys) and key() == keys[0]
    load = tmp_path / "load.csv"
    made = []
    for dirty in (512, 1024):
        load.write_text(f"dirty_bytes,counted_bytes,operations\n{dirty},10,1\n")
        made.append(canonical(io.workloads.dbench(load=str(load))))
    assert made[0] != made[1]
    monkeypatch.setattr("iosched.results_cache.code_hash", lambda: "other")
    assert key() != keys[0]


def test_a_sweep_can_be_stopped_and_keeps_what_was_done(tmp_path, monkeypatch):
    stop, measure, calls = threading.Event(), runner.measure, []

    def stopping(*args):
        calls.append(args)
        if len(calls) == 6:
            stop.set()
        return measure(*args)

    monkeypatch.setattr(runner, "measure", stopping)
    with pytest.raises(Cancelled):
        sweep(VM, DD, {"device.completion_us": range(1, 1000)}, cache=tmp_path, stop=stop, workers=1)
    assert len(calls) < 100  # of 999; how many are on their way when it stops is a matter of threads
    assert 1 <= ResultsCache(tmp_path).db.execute("SELECT count(*) FROM results").fetchone()[0] <= 6


def test_run_many_takes_any_scenarios():
    scenarios = [io.Scenario(VM, DD), io.Scenario(DRAWN, READER)]
    rows = run_many(scenarios, ["operations", "elapsed_s"])
    assert rows[0][0] == 20 and rows[1][1] >= 0.05


# --- the command line ----------------------------------------------------------------------------------------------

TOML = """
[machine]
scheduler = "cfq"
[[job]]
count = 10
cgroup = "user.slice"
"""


def test_a_scenario_file_is_swept_into_csv(tmp_path, capsys):
    path = tmp_path / "scenario.toml"
    path.write_text(TOML)
    fields = ["scheduler.slice_idle=0:8:4", "device.rotational=true,false", "kernel=4.10,4.19"]
    assert main(["sweep", str(path), *fields, "--metrics", "operations,time_per_op_s"]) == 0
    frame = pd.read_csv(io_text.StringIO(capsys.readouterr().out), dtype={"kernel": str})
    assert len(frame) == 12 and frame.operations.eq(10).all()
    assert frame["scheduler.slice_idle"].unique().tolist() == [0, 4, 8]
    assert frame.kernel.unique().tolist() == ["4.10", "4.19"]


@pytest.mark.parametrize(
    ("field", "words"), [("scheduler.slice_idle", "FIELD=VALUES"), ("scheduler.slce_idle=1", "slice_idle")]
)
def test_bad_fields_on_the_command_line_are_one_sentence(tmp_path, capsys, field, words):
    path = tmp_path / "scenario.toml"
    path.write_text(TOML)
    assert main(["sweep", str(path), field]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1
