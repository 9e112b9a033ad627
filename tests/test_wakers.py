"""Thread 1 rule by rule: the table of rules, runs of one version each, and the counted part of a run."""

from __future__ import annotations

from dataclasses import fields

import pytest

import iosched as io
from iosched.kernels import Kernel
from iosched.schedulers import WakerRules, waker_rules
from iosched.sweeps import sweep
from iosched.threads import dbench as thread
from iosched.threads import wakers


def test_the_table_has_every_rule_of_every_version():
    table = wakers.rules_of_versions()
    assert list(table.index) == [f.name for f in fields(WakerRules)]
    assert list(table.columns) == wakers.VERSIONS
    plain = [Kernel(v) for v in wakers.VERSIONS if "+" not in v]
    assert plain == sorted(plain)
    for version in wakers.VERSIONS:
        assert table[version]["selection"] == waker_rules(version).selection
    assert (table["5.6.4"] != table["5.6.4+p1"]).sum() == 1, "patch 1 is one rule"
    assert (table["5.6.4+p1"] != table["5.6.4+p1p2"]).sum() == 1, "so is patch 2"
    assert set(table["4.19"]) == {"no", "none", "-"}, "4.19 has none"


def test_5_6_finds_the_waker_and_does_not_use_it():
    result = wakers.under("5.6.4")
    assert wakers.found_wakers(result)["dbench"] == "jbd2"
    assert not wakers.closes_the_gap(result)
    assert wakers.closes_the_gap(wakers.under("5.12"))
    assert wakers.found_wakers(wakers.under("4.19")) == {"dbench": None, "jbd2": None}


def test_the_counted_part_lasts_as_long_as_dbench_counts():
    machine, job = wakers.thread_machine()
    counted, whole = wakers.counted(machine, job), io.simulate(machine, job)
    per_op = counted.jobs.elapsed_s[0] / counted.jobs.operations[0]
    assert counted.time_budget.per_op_s.sum() == pytest.approx(per_op, rel=1e-9)
    assert counted.throughput_MBs == whole.throughput_MBs
    assert whole.time_budget.seconds.sum() - counted.time_budget.seconds.sum() == pytest.approx(job.warmup_s, abs=1e-3)
    before = io.simulate(machine, job, until=job.warmup_s)
    assert counted.idling.windows.sum() == whole.idling.windows.sum() - before.idling.windows.sum()


def test_a_sweep_of_dbench_gives_its_own_throughput():
    machine, job = wakers.thread_machine()
    (row,) = sweep(machine, job, over={"scheduler.slice_idle": [0]}).itertuples()
    assert row.bytes_per_s == pytest.approx(io.simulate(machine.with_(**{"scheduler.slice_idle": 0}), job).bytes_per_s)


def test_published_values_are_those_of_the_claims():
    assert [(low * high) ** 0.5 for low, high in wakers.published().values()] == pytest.approx([80e6, 200e6])
    assert [1e3 * (low * high) ** 0.5 for low, high in wakers.published_times()] == pytest.approx([5.601, 2.240], 1e-3)


def test_a_run_without_rows_second_by_second_is_refused():
    with pytest.raises(io.ScenarioError, match=r"'nothing' of kernel 5\.6\.4 has no rows"):
        wakers.measured_course("5.6.4", "nothing")


def test_a_measured_course_has_the_mean_of_its_run():
    course = wakers.measured_course("5.6.4", wakers.MEASURED_RUN)
    assert sum(course) / len(course) == pytest.approx(73.9, rel=0.02)
    assert len(course) == pytest.approx(thread.job().runtime, abs=1)


def test_a_measured_course_is_in_the_order_of_its_seconds():
    course = wakers.measured_course("5.6.4", wakers.MEASURED_RUN)
    assert [round(rate) for rate in course[:4] + course[-2:]] == [229, 229, 96, 39, 57, 57]  # t1 to t4, t14 and t15
