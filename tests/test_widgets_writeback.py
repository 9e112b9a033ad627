"""The explorer of thread 3 without a browser, and the exercises of notebook 3. Every control is moved."""

from __future__ import annotations

import time

import pytest
from helpers import answer, other_value, said

from iosched.threads import mixes
from iosched.threads import writeback as thread

pytest.importorskip("ipywidgets")

from iosched import widgets
from iosched.widgets import exercises
from iosched.widgets import writeback as module

FAST_S = 0.3  # of the processor, for a turn that leaves the axes as they are


@pytest.fixture
def explorer():
    return widgets.writeback_explorer(predict_first=False)


def test_moving_any_control_changes_the_answer_or_says_why_not(explorer):
    for name, widget in explorer.controls.items():
        explorer.reset.click()
        rate = explorer.result.reader_MBs
        widget.value = other_value(widget)
        same = abs(explorer.result.reader_MBs / rate - 1) <= 5e-4
        assert not same or said(explorer).endswith("."), f"{name} changed no number and gave no reason"


def test_what_is_shown_is_what_the_machine_and_the_jobs_give(explorer):
    explorer.controls["device.write_cache"].value = False
    alone = mixes.watch(explorer.machine, explorer.job, step_s=module.STEP_S, until_s=module.SHOWN_S)
    assert explorer.result.reader_MBs == alone.reader_MBs
    assert explorer.canvas.headline.get_text().startswith(f"cfq: reader {alone.reader_MBs:.3g} MB/s")
    assert explorer.canvas.now["reader"].get_ydata().tolist() == alone.seconds.read_MBs.tolist()
    assert explorer.canvas.ghost["reader"].get_ydata()[-1] < explorer.canvas.now["reader"].get_ydata()[-1]


def test_every_preset_is_an_experiment_of_the_thread_with_its_figures(explorer):
    for system, experiment in thread.SETUPS:
        explorer.preset.value = f"{thread.WORDS[system]}, {experiment}"
        assert (explorer.system, explorer.experiment) == (system, experiment)
        assert explorer.machine == thread.machine(system, experiment)
        dashed = [line for line in explorer.canvas.course_axes.lines if line.get_linestyle() == "--"]
        assert len(dashed) == len(thread.published(system, experiment))
    explorer.controls["cgroup"].value = "user.slice"
    assert explorer.experiment == "" and not explorer.canvas.standing[0]


def test_choosing_a_disk_brings_its_system(explorer):
    explorer.controls["wbt_lat_usec"].value = "20000"
    explorer.controls["disk"].value = "Seagate 5400 rpm"
    assert (explorer.machine.kernel, explorer.machine.device.queue_depth) == ("4.9", 31)
    assert explorer.job[0].cgroup == "/" and explorer.machine.wbt_lat_usec is None
    assert explorer.controls["wbt_lat_usec"].disabled and "4.9" in said(explorer)


def test_a_scheduler_that_the_kernel_does_not_have_goes_back_to_cfq(explorer):
    explorer.controls["scheduler"].value = "bfq"
    explorer.controls["kernel"].value = "4.9"
    assert explorer.machine.scheduler_name == "cfq" and "CFQ" in said(explorer)


def test_limits_the_wrong_way_round_are_said_in_a_sentence(explorer):
    before = explorer.result
    explorer.controls["memory.dirty_background_ratio"].value = 30
    assert "dirty_background_ratio" in said(explorer) and explorer.result is before


def test_a_turn_is_answered_fast(explorer):
    slider = explorer.controls["memory.dirty_ratio"]
    slider.value = 21
    began = time.process_time()
    slider.value = 22
    assert time.process_time() - began < FAST_S


def test_predict_first_locks_until_a_number_is_given():
    explorer = widgets.writeback_explorer()
    assert explorer.result is None and explorer.canvas.standing == ((), (), False)
    explorer.prediction.number.value = 50
    explorer.prediction.button.click()
    assert "you said 50" in said(explorer)
    assert explorer.canvas.guess.get_ydata()[0] == 50


def test_the_code_makes_the_same_machine(explorer):
    explorer.preset.value = "WD 7200 rpm, deadline, wbt 75000"
    explorer.code_button.click()
    names: dict = {}
    exec(explorer.code.value.replace("io.simulate(", "(").replace("print(result)", ""), names)
    assert names["vm"] == explorer.machine
    assert list(names["result"][1]) == explorer.job


def test_the_curve_is_exported(explorer, tmp_path):
    assert explorer.export("csv", tmp_path).read_text().startswith("second,read_MBs,written_MBs")


def test_the_exercises_have_their_answers():
    sweep, which, window = map(widgets.writeback_exercise, (1, 2, 3))
    assert answer(sweep, 300).startswith("Right") and not answer(sweep, 30).startswith("Right")
    assert which.check == "deadline, WBT at 75 ms, write cache off" and which.check in exercises.MIXES
    assert answer(window, 256).startswith("Right")
