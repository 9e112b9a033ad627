"""The explorer of thread 1 without a browser, and the exercises of notebook 2. Every control is moved."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from helpers import answer, other_value, said

import iosched as io
from iosched.schedulers import BFQ, waker_rules
from iosched.threads import dbench as thread
from iosched.threads import wakers

pytest.importorskip("ipywidgets")

from iosched import widgets
from iosched.widgets import dbench as module
from iosched.widgets import exercises, machines
from iosched.widgets.course_canvas import PARTS

RULE = "scheduler.waker_rules."


@pytest.fixture
def explorer():
    return widgets.dbench_explorer(predict_first=False)


def headline(explorer) -> str:
    return explorer.canvas.headline.get_text()


def levels(axes) -> list[float]:
    """Where the dashed lines, which are what was published, stand."""
    return [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"]


# ---------------------------------------------------------------------------------------------------------------------
# moving everything


def test_there_is_a_widget_for_every_waker_rule(explorer):
    assert {name for name in explorer.controls if name.startswith(RULE)} == {
        RULE + f.name for f in fields(io.WakerRules)
    }


@pytest.mark.parametrize("preset", ["thread 1: 5.6.4", "thread 1: 5.6.4 and both patches"])
def test_moving_any_control_changes_the_answer_or_says_why_not(explorer, preset):
    explorer.preset.value = preset
    for name, widget in explorer.controls.items():
        explorer.reset.click()
        rate = explorer.result.throughput_MBs
        widget.value = other_value(widget)
        same = abs(explorer.result.throughput_MBs / rate - 1) <= 5e-4
        assert not same or said(explorer).endswith("."), f"{name} changed no number and gave no reason"
        assert headline(explorer).startswith(f"BFQ of {explorer.version}: {explorer.result.throughput_MBs:.3g} MB/s")


def test_every_value_of_every_choice_is_simulated_as_it_stands(explorer):
    for name, widget in explorer.controls.items():
        for value in getattr(widget, "options", ()):
            explorer.reset.click()
            widget.value = value
            alone = io.simulate(explorer.machine, explorer.job)
            assert explorer.result.throughput_MBs == alone.throughput_MBs, (name, value)


def test_a_rule_moves_the_picture(explorer):
    explorer.controls[RULE + "selection"].value = "waker's request"
    before = explorer.picture.value
    explorer.controls[RULE + "long_think_time"].value = False
    canvas = explorer.canvas
    assert explorer.picture.value != before
    assert explorer.machine.scheduler.waker_rules == waker_rules("5.6.4+p1p2")
    second, rate = canvas.now.get_data()
    assert rate.tolist() == pytest.approx((explorer.result.course.bytes_per_s * 1e-6).tolist()[: len(second)])
    assert canvas.ghost.get_ydata()[-1] < 0.5 * rate[-1], "the ghost is the slow state of patch 1 alone"
    tops = [max(y for bars in canvas.parts.values() for _, y in bars.get_paths()[x].vertices) for x in (0, 1)]
    assert tops[0] > 2 * tops[1], "and so is the fsync that is left of the one now"


def test_the_parts_of_an_fsync_add_up_to_the_time_from_one_to_the_next(explorer):
    _, budget, idles = explorer._drawn()
    assert set(budget) <= set(PARTS)
    counted = explorer.result.jobs
    assert sum(budget.values()) == pytest.approx(1e3 * counted.elapsed_s[0] / counted.operations[0])
    assert idles == pytest.approx(explorer.result.idles_per_op)


def test_the_lanes_show_jbd2_held_back_and_the_window_that_fires(explorer):
    bars = {name: len(b.get_paths()) for name, b in explorer.canvas.bars.items()}
    assert bars["waits 1"] and bars["idle, fired"] and not bars["injected"]
    explorer.preset.value = "thread 1: 5.6.4 and both patches"
    bars = {name: len(b.get_paths()) for name, b in explorer.canvas.bars.items()}
    assert bars["injected"] and not bars["idle, fired"]


def test_several_clients_have_a_lane_together(explorer):
    explorer.controls["dbench.clients"].value = 4
    names = [t.get_text() for t in explorer.canvas.lane_axes.get_yticklabels()]
    assert names == ["kept idle for", "device", "other clients", "jbd2", "dbench 1"]
    assert len(explorer.result.jobs) == 4


# ---------------------------------------------------------------------------------------------------------------------
# the version sets the rules


@pytest.mark.parametrize("version", module.VERSIONS)
def test_a_version_brings_its_rules(explorer, version):
    explorer.controls["scheduler.kernel"].value = version
    alone = io.simulate(replace(wakers.thread_machine()[0], scheduler=BFQ(kernel=version)), thread.job())
    assert explorer.rules is None
    assert explorer.result.throughput_MBs == alone.throughput_MBs


def test_without_wakers_their_rules_are_grey_and_say_why(explorer):
    explorer.controls["scheduler.kernel"].value = "5.1"
    assert "knows no wakers" in said(explorer) and explorer.controls[RULE + "detect"].disabled
    assert explorer.canvas.known.get_text() == "no waker is looked for"
    explorer.controls["scheduler.kernel"].value = "5.12"
    explorer.controls[RULE + "detect"].value = False
    assert explorer.controls[RULE + "detections"].disabled and not explorer.controls[RULE + "detect"].disabled


def test_while_selection_asks_the_wrong_queue_the_other_rules_say_so(explorer):
    explorer.controls[RULE + "long_think_time"].value = False
    assert "a waker is never served while selection" in said(explorer)
    assert "dbench's waker is jbd2" in said(explorer)


def test_without_idling_no_rule_has_a_pause_to_work_in(explorer):
    explorer.controls["scheduler.slice_idle"].value = 0
    explorer.controls[RULE + "selection"].value = "waker's request"
    assert "no queue is waited for" in said(explorer)


# ---------------------------------------------------------------------------------------------------------------------
# presets, published values, prediction


@pytest.mark.parametrize("name", list(machines.dbench_presets()))
def test_presets_are_their_machines(explorer, name):
    explorer.preset.value = name
    preset = machines.dbench_presets()[name]
    alone = io.simulate(preset.machine, replace(thread.job(), cgroup=preset.cgroup))
    assert explorer.machine == preset.machine
    assert explorer.result.throughput_MBs == alone.throughput_MBs
    assert levels(explorer.canvas.curve_axes) == pytest.approx([80, 200])


def test_what_was_published_stands_beside_every_number(explorer):
    canvas = explorer.canvas
    assert levels(canvas.curve_axes) == pytest.approx([80, 200])
    assert levels(canvas.budget_axes) == pytest.approx([448_057 / 80e3, 448_057 / 200e3])
    assert levels(canvas.idle_axes) == pytest.approx([(448_057 / 80e3 - 448_057 / 200e3) / 8])


def test_a_measured_preset_shows_the_real_kernel(explorer):
    explorer.preset.value = "measured at 600 us: 5.6.4 and patch 1"
    crosses = [line for line in explorer.canvas.curve_axes.lines if line.get_marker() == "x"]
    assert crosses[0].get_ydata().tolist() == wakers.measured_course("5.6.4+p1", wakers.MEASURED_RUN)
    assert crosses[0].get_xdata()[0] == 4, "the warm-up of three seconds is not in it"


def test_nothing_moves_before_the_prediction():
    explorer = widgets.dbench_explorer()
    assert explorer.result is None and levels(explorer.canvas.curve_axes) == []
    before = explorer.picture.value
    explorer.controls["scheduler.slice_idle"].value = 1
    assert explorer.picture.value == before and said(explorer).startswith("Predict first")
    explorer.reset.click()
    explorer.prediction.number.value = 200
    explorer.prediction.button.click()
    assert "times too high" in said(explorer) and explorer.canvas.guess.get_ydata() == [200, 200]


def test_an_unknown_preset_is_one_sentence():
    with pytest.raises(io.ScenarioError, match=r"did you mean 'thread 1: 5\.6\.4'"):
        widgets.dbench_explorer("thread 1: 5.6.3")


# ---------------------------------------------------------------------------------------------------------------------
# code and files


def test_the_code_runs_and_is_the_same_machine(explorer, capsys):
    explorer.controls[RULE + "detections"].value = 5
    explorer.controls["dbench.cgroup"].value = "/"
    explorer.code_button.click()
    space: dict = {}
    exec(explorer.code.value, space)
    assert space["vm"] == explorer.machine
    assert space["result"].throughput_MBs == explorer.result.throughput_MBs
    assert "MB/sec" in capsys.readouterr().out


def test_exports_are_written(explorer, tmp_path):
    table = explorer.export("csv", tmp_path).read_text().splitlines()
    assert table[0] == "second,counted,bytes_per_s" and len(table) == 1 + len(explorer.table)
    assert "throughput (MB/s)" in explorer.export("svg", tmp_path).read_text()


# ---------------------------------------------------------------------------------------------------------------------
# exercises


def test_the_rule_that_closes_the_gap_is_the_one_that_the_ablation_says():
    table = thread.ablation().set_index("rule")
    full = thread.FULL_SPEED * table.last_MB_s["both patches"]
    right = [name for name in exercises.RULES if table.last_MB_s[name] >= full] or [exercises.NO_RULE]
    e = widgets.dbench_exercise(2)
    for name in (*exercises.RULES, exercises.NO_RULE):
        text = answer(e, name)
        assert e.solved == (name in right), name
        if name in exercises.RULES:
            assert f"{table.MB_s[name]:.0f} MB/s on average" in text


def test_a_cure_that_the_thread_denies_is_not_sold_as_one():
    e = widgets.dbench_exercise(2)
    text = answer(e, "patch 1: the waker's request decides")
    assert not e.solved or "a real 5.6.4 agrees with the thread" in text


def test_the_other_exercises_have_answers():
    first, third, fourth = (widgets.dbench_exercise(k) for k in (1, 3, 4))
    assert "Right. 448,057 bytes" in answer(first, 0.42)
    assert "more than a factor of two" in answer(first, 2.0)
    assert answer(third, third.check).startswith("Right. In the last seconds, with its waker rules alone")
    assert 4 <= fourth.check <= 9 and answer(fourth, fourth.check).startswith("Right.")
