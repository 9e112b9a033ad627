"""Sweeps: the same numbers as single runs, in order, whatever the number of threads; and clear errors."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import iosched as io
from iosched.scenario import Scenario
from iosched.simulation import simulate
from iosched.sweeps import METRICS, Cancelled, measure, scenario_at, sweep

JOB = io.workloads.dd(count=40, cgroup="user.slice")
VM = io.Machine(kernel="4.19", device=io.devices.null(completion_us=100), scheduler="cfq")


def test_a_grid_is_the_single_runs_in_order():
    frame = sweep(VM, JOB, over={"scheduler.slice_idle": [0, 3, 8], "device.completion_us": [50, 200]})
    points = [(s, c) for s in (0, 3, 8) for c in (50, 200)]
    assert list(frame[["scheduler.slice_idle", "device.completion_us"]].itertuples(index=False, name=None)) == points
    for row, (slice_idle, completion) in zip(frame.itertuples(index=False), points):
        machine = VM.with_(**{"scheduler.slice_idle": slice_idle, "device.completion_us": completion})
        result = simulate(machine, JOB)
        assert row[2:] == (result.time_per_op, result.bytes_per_s, result.idles_per_op)


def test_every_metric_is_what_the_result_shows():
    result = simulate(VM, JOB)
    row = sweep(VM, JOB, over={"scheduler.slice_idle": [8]}, metrics=list(METRICS)).iloc[0]
    job = result.jobs.iloc[0]
    assert row.time_per_op_s == result.time_per_op
    assert row.bytes_per_s == result.bytes_per_s
    assert row.idles_per_op == result.idles_per_op
    assert row.elapsed_s == result.elapsed
    assert row.operations == 40
    assert row.latency_mean_s == job.latency_mean_s
    assert row.latency_max_s == job.latency_max_s
    assert row.requests_per_op == pytest.approx(result.iostat().frame["w/s"].iloc[0] * result.elapsed / 40)
    assert row.utilisation == pytest.approx(result.iostat().frame["%util"].iloc[0] / 100)


def test_several_jobs_are_added_up():
    vm = VM.with_(cgroups=["a", "b"])
    jobs = [io.workloads.dd(count=20, cgroup=g, partition=i) for i, g in enumerate("ab")]
    frame = sweep(vm, jobs, over={"job.bs": [512, 4096]})
    result = simulate(vm, [io.workloads.dd(bs=4096, count=20, cgroup=g, partition=i) for i, g in enumerate("ab")])
    assert frame.bytes_per_s.iloc[1] == pytest.approx(result.bytes_per_s, rel=1e-12)


def test_threads_change_nothing():
    over = {"scheduler.slice_idle": range(9), "scheduler.group_idle": range(0, 9, 2)}
    one, four = (sweep(VM, JOB, over=over, workers=n) for n in (1, 4))
    assert one.equals(four)


def test_whole_parts_change_together():
    over = {"kernel": ["5.10"], "scheduler": ["none", "mq-deadline"], "filesystem": ["ext4", io.XFS()]}
    frame = sweep(VM, JOB, over=over)
    assert frame.scheduler.tolist() == ["none", "none", "mq-deadline", "mq-deadline"]
    assert scenario_at(VM, JOB, {"kernel": "5.10", "scheduler": "none"}).machine.host == io.Machine(kernel="5.10").host


def test_numpy_values_are_plain_values():
    frame = sweep(VM, JOB, over={"device.queue_depth": np.array([1, 32]), "device.rotational": np.array([True, False])})
    assert len(frame) == 4 and frame.time_per_op_s.gt(0).all()


def test_a_knob_of_a_named_job():
    jobs = [io.workloads.dd(count=10, name="a"), io.workloads.dd(count=10, name="b")]
    changed = scenario_at(VM, jobs, {"b.bs": 4096}).jobs
    assert [job.bs for job in changed] == [512, 4096]


def test_dbench_is_swept_over_clients_and_counts_from_the_end_of_its_warm_up():
    job = io.workloads.dbench(clients=2, runtime=5)
    vm = io.Machine(kernel="5.10", scheduler="mq-deadline")
    frame = sweep(vm, job, over={"dbench.clients": [1, 3]}, metrics=["bytes_per_s", "operations"])
    for row, n in zip(frame.itertuples(index=False), (1, 3)):
        result = simulate(vm, io.workloads.dbench(clients=n, runtime=5))
        assert row[1:] == (result.bytes_per_s, result.jobs.operations.sum())


def test_until_stops_the_clock():
    frame = sweep(VM, JOB, over={"scheduler.slice_idle": [8]}, metrics=["elapsed_s", "operations"], until=0.1)
    assert frame.elapsed_s.iloc[0] == pytest.approx(0.1) and 5 < frame.operations.iloc[0] < 15


def test_the_closed_form_beside_it():
    frame = sweep(
        VM, JOB, over={"scheduler": ["noop", "cfq"], "device.completion_us": [50, 100, 400]}, closed_form=True
    )
    error = frame.closed_form_time_per_op_s / frame.time_per_op_s - 1
    assert error.abs().max() < 0.03


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"scheduler.slce_idle": [1]}, ["slce_idle", "did you mean 'slice_idle'"]),
        ({"schedular.slice_idle": [1]}, ["did you mean 'scheduler.slice_idle'"]),
        ({"job.bz": [1]}, ["job.bz", "did you mean 'bs'"]),
        ({"kernl": ["4.19"]}, ["did you mean 'kernel'"]),
        ({"scheduler": "cfq"}, ["over['scheduler']", "one value", "list"]),
        ({"scheduler.slice_idle": 8}, ["one value"]),
        ({"scheduler.slice_idle": []}, ["over['scheduler.slice_idle']", "empty"]),
        ({}, ["names no knob"]),
        ({"scheduler.slice_idle": [8, -1]}, ["scheduler.slice_idle", "-1"]),
        ({"kernel": ["4.19", "5.10"]}, ["cfq", "does not exist in kernel 5.10"]),
        ({"scheduler": ["cfq", "noop"], "scheduler.slice_idle": [1]}, ["At scheduler='noop'"]),
        ({"dd.cgroup": ["user.slice", "nowhere"]}, ["nowhere"]),
    ],
)
def test_bad_grids_are_one_sentence(over, words):
    with pytest.raises(io.ScenarioError) as caught:
        sweep(VM, JOB, over=over)
    for word in words:
        assert word in str(caught.value)


def test_bad_metrics_and_workers():
    with pytest.raises(io.ScenarioError, match="did you mean 'time_per_op_s'"):
        sweep(VM, JOB, over={"job.bs": [512]}, metrics=["time_per_op"])
    with pytest.raises(io.ScenarioError, match="workers"):
        sweep(VM, JOB, over={"job.bs": [512]}, workers=0)


def test_a_bad_last_point_is_told_before_anything_runs(monkeypatch):
    monkeypatch.setattr(sys.modules["iosched.runner"], "measure", lambda *_: pytest.fail("a point was run"))
    with pytest.raises(io.ScenarioError):
        sweep(VM, JOB, over={"device.completion_us": [*range(1, 50), -1]})


def test_an_interrupt_stops_the_running_points(monkeypatch):
    """What Ctrl-C does: the main thread's wait ends with an error, and no thread goes on."""
    stops = []

    def interrupted(scenario, metrics, length, stop):
        stops.append(stop)
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["iosched.runner"], "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep(VM, JOB, over={"scheduler.slice_idle": range(9)}, workers=2)
    assert stops[0].is_set()
    assert not [t for t in threading.enumerate() if t.name.startswith("iosched-sweep")]


def test_a_stopped_point_comes_back_early():
    stop = threading.Event()
    stop.set()
    long = Scenario(VM, [io.workloads.dd(count=10**9)])
    with pytest.raises(Cancelled):
        measure(long, ["operations"], stop=stop)


def test_a_point_without_a_first_operation_is_not_a_number():
    frame = sweep(VM, JOB, over={"device.completion_us": [1e6]}, until=0.01, metrics=["time_per_op_s"])
    assert np.isnan(frame.time_per_op_s.iloc[0])


def test_progress_shows_a_bar(capsys):
    sweep(VM, JOB, over={"scheduler.slice_idle": [0, 8]}, progress=True)
    assert "point" in capsys.readouterr().err
