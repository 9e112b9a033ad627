"""Widgets without a browser: setting a value must do what the mouse would do. Every control is moved."""

from __future__ import annotations

import io as streams
import json
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from helpers import answer, other_value, said

import iosched as io
from iosched.host import fitted_host

pytest.importorskip("ipywidgets")

from iosched import widgets
from iosched.plots.base import knob_metadata
from iosched.widgets import canvas as canvas_module
from iosched.widgets import dsync as explorer_module
from iosched.widgets import machines

VM = "thread 0 VM 4.19"


@pytest.fixture
def explorer():
    return widgets.dsync_explorer(VM, predict_first=False)


def headline(explorer) -> str:
    return explorer.canvas.headline.get_text()


# ---------------------------------------------------------------------------------------------------------------------
# moving everything


def test_moving_any_control_changes_the_answer_or_says_why_not(explorer):
    assert len(explorer.controls) == 11
    for name, widget in {**explorer.controls, "curve": explorer.curve}.items():
        explorer.reset.click()
        before = explorer.picture.value, headline(explorer)
        widget.value = other_value(widget)
        changed = (explorer.picture.value, headline(explorer)) != before
        assert changed or said(explorer), f"{name} did nothing and said nothing"
        if name not in ("curve",) and headline(explorer) == before[1]:
            assert said(explorer).endswith("."), f"{name} changed no number and gave no reason"
        assert "Traceback" not in said(explorer)


def test_every_value_of_every_choice_works(explorer):
    for name, widget in explorer.controls.items():
        for value in getattr(widget, "options", ()):
            explorer.reset.click()
            if value in widget.options:
                widget.value = value
            assert explorer.machine.scheduler_name == explorer.result.scenario.machine.scheduler_name, name


@pytest.mark.parametrize("scheduler", ["noop", "none", "deadline", "mq-deadline", "cfq"])
@pytest.mark.parametrize("filesystem", ["ext4", "xfs", "raw"])
def test_combinations_are_simulated_as_they_stand(explorer, scheduler, filesystem):
    explorer.controls["scheduler"].value = scheduler
    explorer.controls["filesystem"].value = filesystem
    explorer.controls["device.write_cache"].value = True
    alone = io.simulate(explorer.machine, explorer.job)
    assert explorer.result.time_per_op == alone.time_per_op
    assert f"{scheduler}: " in headline(explorer)


def test_the_story_of_the_thread(explorer):
    turn = explorer.controls
    assert 58e3 < explorer.result.bytes_per_s < 64e3
    turn["scheduler.slice_idle"].value = 0
    assert explorer.result.bytes_per_s < 64e3, "slice_idle = 0 alone is no cure"
    turn["scheduler.group_idle"].value = 0
    assert explorer.result.bytes_per_s > 1.4e6
    explorer.reset.click()
    turn["dd.cgroup"].value = "/"
    assert explorer.result.bytes_per_s > 1.4e6
    explorer.reset.click()
    turn["filesystem.jbd2_cgroup"].value = "user.slice"
    assert explorer.result.bytes_per_s > 1.4e6
    turn["dd.cgroup"].value = explorer_module.NESTED
    assert explorer.result.bytes_per_s < 64e3, "jbd2 in an ancestor may preempt dd, dd not jbd2"


# ---------------------------------------------------------------------------------------------------------------------
# what does not go together


def test_the_schedulers_follow_the_kernel(explorer):
    explorer.controls["kernel"].value = "5.10"
    assert explorer.controls["scheduler"].options == ("none", "bfq", "mq-deadline", "kyber")
    assert said(explorer) == "cfq does not exist in kernel 5.10, so the scheduler is now mq-deadline."
    assert explorer.machine.host == fitted_host("5.10", explorer.machine.host.speed)
    explorer.controls["kernel"].value = "4.4"
    assert "cfq" in explorer.controls["scheduler"].options


def test_tunables_that_the_scheduler_lacks_are_grey_and_say_so(explorer):
    explorer.controls["scheduler"].value = "noop"
    slider = explorer.controls["scheduler.slice_idle"]
    assert slider.disabled
    slider.value = 2
    assert said(explorer) == "noop has no slice_idle; choose cfq to turn it."
    explorer.controls["scheduler"].value = "cfq"
    assert not slider.disabled


def test_jbd2_is_only_on_ext4(explorer):
    explorer.controls["filesystem"].value = "xfs"
    assert explorer.controls["filesystem.jbd2_cgroup"].disabled
    explorer.controls["filesystem.jbd2_cgroup"].value = "user.slice"
    assert "no jbd2" in said(explorer)


def test_group_idle_counts_only_without_slice_idle(explorer):
    explorer.controls["scheduler.group_idle"].value = 3
    assert "slice_idle is above 0" in said(explorer)


def test_a_device_that_does_not_rotate_begins_with_slice_idle_0(explorer):
    explorer.controls["device.rotational"].value = False
    assert explorer.controls["scheduler.slice_idle"].value == 0
    assert "slice_idle = 0 ms" in said(explorer)
    assert explorer.result.bytes_per_s < 64e3


def test_the_depth_says_why_it_does_not_matter(explorer):
    explorer.controls["device.queue_depth"].value = 1
    assert "never has two at once" in said(explorer)


def test_an_impossible_machine_is_one_sentence(explorer, monkeypatch):
    def impossible(*_, **__):
        raise io.ScenarioError("device: it is a teapot.")

    monkeypatch.setattr(explorer_module, "simulate", impossible)
    before = explorer.picture.value
    explorer.controls["scheduler.slice_idle"].value = 1
    assert said(explorer) == "device: it is a teapot." and explorer.picture.value == before


# ---------------------------------------------------------------------------------------------------------------------
# one source for the sliders


@pytest.mark.parametrize("name", ["scheduler.slice_idle", "scheduler.group_idle", "device.completion_us"])
def test_sliders_come_from_the_knobs(explorer, name):
    meta, slider = knob_metadata(name), explorer.controls[name]
    low, high, scale = meta["slider"]
    assert slider.description == f"{name.rpartition('.')[2].removesuffix('_us')} ({meta['unit']})"
    assert meta["doc"] in slider.tooltip
    if scale == "log":
        assert (10**slider.min, 10**slider.max) == pytest.approx((low, high))
    else:
        assert (slider.min, slider.max) == (low, high)


def test_a_whole_number_on_a_logarithmic_scale_takes_powers_of_two(explorer):
    assert list(explorer.controls["device.queue_depth"].options) == [1, 2, 4, 8, 16, 32, 64]


# ---------------------------------------------------------------------------------------------------------------------
# presets, reset, ghost, published values


@pytest.mark.parametrize("name", list(widgets.presets()))
def test_presets_are_their_machines(explorer, name):
    explorer.preset.value = name
    preset = widgets.presets()[name]
    assert explorer.machine.kernel == preset.machine.kernel
    assert explorer.machine.host == preset.machine.host
    assert explorer.machine.scheduler_name == preset.machine.scheduler_name
    reference = io.simulate(preset.machine, io.workloads.dd(count=machines.WRITES, cgroup=preset.cgroup))
    assert explorer.result.time_per_op == pytest.approx(reference.time_per_op, rel=1e-3)
    labels = [t.get_text() for t in explorer.canvas.curve_axes.get_legend().get_texts()]
    assert all(label in labels for label in preset.published)


def test_what_was_published_is_a_line_at_its_place(explorer):
    levels = [line.get_ydata()[0] for line in explorer.canvas.curve_axes.lines if line.get_linestyle() == "--"]
    assert levels == pytest.approx([60, (1500 * 2000) ** 0.5])


def test_reset_brings_the_preset_back(explorer):
    first = explorer.picture.value, headline(explorer), explorer.machine
    for widget in explorer.controls.values():
        widget.value = other_value(widget)
    explorer.reset.click()
    assert (explorer.picture.value, headline(explorer), explorer.machine) == first


def test_the_ghost_is_the_curve_before_the_last_turn(explorer):
    canvas = explorer.canvas
    assert len(canvas.ghost.get_xdata()) == 0
    before = canvas.formula.get_ydata().copy()
    for value in (500, 1000):  # one drag of one slider
        explorer.controls["device.completion_us"].value = value
    assert np.array_equal(canvas.ghost.get_ydata(), before, equal_nan=True)
    slower = canvas.formula.get_ydata().copy()
    assert not np.array_equal(slower, before, equal_nan=True)
    explorer.controls["device.write_cache"].value = True
    assert np.array_equal(canvas.ghost.get_ydata(), slower, equal_nan=True)


def test_the_curve_can_run_over_every_knob(explorer):
    for x in explorer_module.CURVES:
        explorer.curve.value = x
        assert x in explorer.table and explorer.table.bytes_per_s.gt(0).all()
        error = explorer.table.closed_form_bytes_per_s / explorer.table.bytes_per_s - 1
        assert error.abs().max() < 0.1
    explorer.controls["scheduler"].value = "noop"
    explorer.curve.value = "scheduler.slice_idle"
    assert explorer.table.bytes_per_s.nunique() == 1, "noop has no slice_idle: a level line"


def test_artists_are_kept_and_the_size_is_fixed(explorer):
    canvas = explorer.canvas
    kept = [id(a) for a in (canvas.figure, canvas.dots, canvas.now, *canvas.bars.values())]
    explorer.controls["scheduler.slice_idle"].value = 3
    assert kept == [id(a) for a in (canvas.figure, canvas.dots, canvas.now, *canvas.bars.values())]
    assert explorer.picture.layout.height == f"{explorer.canvas.height}px"
    assert explorer.picture.value[16:24] == b"\x00\x00\x048\x00\x00\x02\x80", "1080 x 640, in the PNG's own header"
    assert canvas.now.get_xdata() == [3.0]


def test_the_png_is_one(explorer):
    import matplotlib.image

    pixels = matplotlib.image.imread(streams.BytesIO(explorer.picture.value))
    assert pixels.shape == (explorer.canvas.height, canvas_module.WIDTH, 3) and pixels.min() < 0.2 < 0.9 < pixels.max()


# ---------------------------------------------------------------------------------------------------------------------
# code and files


@pytest.mark.parametrize("name", list(widgets.presets()))
def test_the_code_runs_and_is_the_same_machine(explorer, name, capsys):
    explorer.preset.value = name
    explorer.controls["dd.cgroup"].value = explorer_module.NESTED
    explorer.controls["device.completion_us"].value = 123.456
    explorer.code_button.click()
    space: dict = {}
    exec(explorer.code.value, space)
    assert space["vm"] == explorer.machine
    assert space["result"].time_per_op == explorer.result.time_per_op
    assert "copied" in capsys.readouterr().out


def test_the_code_follows_the_sliders(explorer):
    explorer.code_button.click()
    explorer.controls["scheduler.slice_idle"].value = 3
    assert "slice_idle=3" in explorer.code.value


def test_code_of_a_machine_of_ones_own():
    host = io.Host(speed=2, wakeup_us=9)
    vm = io.Machine(scheduler="noop", host=host, cgroups=["a"], nr_requests=64, filesystem=io.XFS(log_writer="worker"))
    space: dict = {}
    exec(widgets.code_of(vm, io.workloads.dd(bs=4096, count=5, cgroup="a")), space)
    assert space["vm"] == vm


def test_exports_are_valid_files(explorer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for button in explorer.exports.values():
        button.click()
    assert said(explorer).startswith("Written: ")
    table = pd.read_csv("dsync-explorer.csv")
    assert table["bytes_per_s"].tolist() == pytest.approx(explorer.table.bytes_per_s.tolist())
    assert len(json.loads((tmp_path / "dsync-explorer.json").read_text())) == len(table)
    svg = (tmp_path / "dsync-explorer.svg").read_text()
    assert ET.fromstring(svg).tag.endswith("svg")
    assert "slice_idle (ms)" in svg and "cfq: " in svg and "published, cfq" in svg


def test_a_picture_after_an_export_is_whole(explorer, tmp_path):
    before = explorer.picture.value
    explorer.export("svg", tmp_path)
    explorer.controls["scheduler.slice_idle"].value = 2
    explorer.controls["scheduler.slice_idle"].value = 8
    explorer.reset.click()
    assert explorer.picture.value == before


def test_exports_that_cannot_be_written_are_one_sentence(explorer, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    explorer.exports["csv"].click()
    assert said(explorer) == "The file could not be written: No space left on device."
    with pytest.raises(io.ScenarioError, match="allowed: csv, svg, json"):
        explorer.export("pdf")


def test_an_unknown_preset_is_one_sentence():
    with pytest.raises(io.ScenarioError, match=r"did you mean 'thread 0 VM 4\.19'"):
        widgets.dsync_explorer("thread 0 VM 4.20")


# ---------------------------------------------------------------------------------------------------------------------
# predict, then reveal


def test_nothing_moves_before_the_prediction(tmp_path):
    explorer = widgets.dsync_explorer()
    assert all(widget.disabled for widget in explorer.controls.values())
    assert explorer.result is None and "Predict first" in explorer.canvas.veil.get_text()
    before = explorer.picture.value
    explorer.controls["scheduler.slice_idle"].value = 1
    assert explorer.picture.value == before and said(explorer).startswith("Predict first")
    with pytest.raises(io.ScenarioError, match="prediction"):
        explorer.export("csv", tmp_path)


def test_a_prediction_unlocks_and_is_drawn():
    explorer = widgets.dsync_explorer()
    explorer.prediction.number.value = 800
    explorer.prediction.button.click()
    assert not explorer.controls["scheduler"].disabled
    assert said(explorer).startswith("It is 6") and "times too high" in said(explorer)
    assert explorer.canvas.guess.get_ydata() == [800, 800]
    explorer.preset.value = machines.MEASURED
    assert len(explorer.canvas.guess.get_ydata()) == 0, "it was made for another machine"


def test_a_prediction_must_be_a_number_above_zero():
    explorer = widgets.dsync_explorer()
    explorer.prediction.button.click()
    assert "above 0" in explorer.prediction.feedback.value
    assert explorer.controls["scheduler"].disabled


@pytest.mark.parametrize(
    ("given", "words"),
    [(None, "no prediction"), (8.5, "within 10 %"), (80, "9.6 times too high"), (1, "8.4 times too low")],
)
def test_predictions_are_compared(given, words):
    prediction = widgets.predict("How long?", "ms")
    if given is not None:
        prediction.number.value = given
        prediction.button.click()
    assert words in prediction.reveal(8.36).value


# ---------------------------------------------------------------------------------------------------------------------
# exercises


def test_an_exercise_with_a_number():
    e = widgets.exercise("How long?", 8.36, unit="ms", why="One idle window.")
    assert "too high by more than a factor of two" in answer(e, 80) and not e.solved
    assert answer(e, 8.0) == "Right. One idle window." and e.solved
    assert "Close, but too low; allowed are 5%" in answer(e, 7)


def test_an_exercise_with_choices():
    e = widgets.exercise("Which?", "xfs", choices=["ext4", "xfs"])
    e.button.click()
    assert "Give an answer first" in e.feedback.value
    assert answer(e, "ext4") == "Not yet; try again."
    assert answer(e, "xfs") == "Right."
    with pytest.raises(io.ScenarioError, match="did you mean 'xfs'"):
        widgets.exercise("Which?", "xsf", choices=["ext4", "xfs"])


def test_an_exercise_with_a_word_and_with_a_function():
    assert answer(widgets.exercise("Who?", "jbd2"), " JBD2 ") == "Right."
    e = widgets.exercise("Name a scheduler.", lambda text: True if text == "cfq" else "Think of 2019.")
    assert answer(e, "noop") == "Think of 2019." and answer(e, "cfq") == "Right."


def test_answers_are_shown_as_text():
    e = widgets.exercise("Who?", lambda text: f"not {text}")
    e.answer.value = "<script>"
    e.button.click()
    assert "<script>" not in e.feedback.value
