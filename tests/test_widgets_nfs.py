"""The explorer of thread 4 without a browser, and the exercises of notebook 5. Every control is moved."""

from __future__ import annotations

import pytest
from helpers import answer, other_value, said

import iosched as io

pytest.importorskip("ipywidgets")

from iosched import widgets
from iosched.widgets import exercises


@pytest.fixture(scope="module")
def explorer():
    return widgets.nfs_explorer(predict_first=False)


def test_moving_any_control_changes_the_answer_or_says_why_not(explorer):
    for name, widget in explorer.controls.items():
        explorer.reset.click()
        rate = explorer._number(explorer.result)
        widget.value = other_value(widget)
        same = abs(explorer._number(explorer.result) / rate - 1) <= 5e-4
        assert not same or said(explorer).endswith("."), f"{name} changed no number and gave no reason"


def test_the_sliders_point_is_the_result_and_the_published_lines_are_the_threads(explorer):
    explorer.reset.click()
    canvas = explorer.canvas
    assert canvas.now.get_ydata()[0] == pytest.approx(explorer._number(explorer.result))
    levels = {line.get_ydata()[0] for line in canvas.curve_axes.lines if line.get_linestyle() == "--"}
    assert {36.4, 84.2} <= {round(level, 1) for level in levels}


def test_hz_takes_slice_idle_along_and_says_so(explorer):
    explorer.reset.click()
    explorer.controls["host.hz"].value = 250
    assert explorer.controls["scheduler.slice_idle"].value == 8
    assert "2 of 4 ms" in said(explorer)


def test_without_cfq_its_knobs_are_grey(explorer):
    explorer.reset.click()
    explorer.controls["scheduler"].value = "deadline"
    assert explorer.controls["scheduler.slice_idle"].disabled and explorer.controls["scheduler.cooperators"].disabled


def test_the_code_of_a_machine_makes_it_again(explorer):
    explorer.reset.click()
    names: dict = {}
    code = widgets.code_of(explorer.machine, explorer.job).replace("print(result)", "")
    exec(compile(code, "code", "exec"), names)
    assert names["vm"] == explorer.machine
    assert names["result"].elapsed == io.simulate(explorer.machine, explorer.job).elapsed


def test_nothing_is_shown_before_the_prediction():
    asked = widgets.nfs_explorer()
    assert asked.result is None and "number" in said(asked)


def test_the_exercises_take_the_right_answer_and_no_other():
    first = exercises.nfs_exercise(1)
    assert first.check > 80
    second = exercises.nfs_exercise(2)
    assert second.check == "CLONE_IO, and kthreadd has read something"
    assert answer(exercises.nfs_exercise(3), 8.0) != answer(exercises.nfs_exercise(3), 10.0)
    assert exercises.nfs_exercise(3).check == 8
