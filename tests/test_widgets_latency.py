"""Thread 2's explorer: every control moves what it should, and says why where it does not."""

from __future__ import annotations

import pytest

pytest.importorskip("ipywidgets")

from helpers import said

import iosched as io
from iosched import plots, widgets
from iosched.threads import io_latency


@pytest.fixture(scope="module")
def explorer():
    """One explorer on the SATA SSD, without a prediction."""
    return widgets.latency_explorer(predict_first=False)


@pytest.fixture(autouse=True)
def start_again(explorer):
    explorer.reset.click()


def mean_ms(explorer) -> float:
    return 1e3 * float(explorer.result.jobs.latency_mean_s.iloc[0])


def test_it_begins_with_the_threads_set_up_and_shows_what_it_says(explorer):
    assert explorer.setup == io_latency.Setup(device="sata")
    assert "published: 39 ms" in [h.get_label() for h in explorer.canvas._static]
    assert bytes(explorer.picture.value).startswith(b"\x89PNG")


def test_bfq_helps_and_io_latency_says_why_it_does_not(explorer):
    before = mean_ms(explorer)
    explorer.controls["control"].value = "bfq"
    assert mean_ms(explorer) < before / 20
    explorer.controls["control"].value = "none"
    explorer.controls["control"].value = "io.latency"
    assert mean_ms(explorer) == pytest.approx(before, rel=0.05)
    assert "half second" in said(explorer)


def test_fewer_others_direct_others_and_nobody_are_each_faster(explorer):
    slow = mean_ms(explorer)
    explorer.controls["n"].value = 4
    fewer = mean_ms(explorer)
    explorer.controls["direct"].value = True
    small = mean_ms(explorer)
    explorer.controls["n"].value = 0
    assert slow > 2 * fewer > 4 * small > 4 * mean_ms(explorer)


def test_depth_needs_direct_reads(explorer):
    assert explorer.controls["depth"].disabled
    explorer.controls["direct"].value = True
    assert not explorer.controls["depth"].disabled
    explorer.controls["depth"].value = 16
    explorer.controls["direct"].value = False
    assert explorer.controls["depth"].value == 1 and "direct" in said(explorer)


def test_the_code_runs_and_gives_the_same(explorer):
    explorer.controls["control"].value = "bfq"
    explorer.controls["seconds"].value = 0.5
    space: dict = {}
    exec(explorer._code(), space)
    assert space["result"].jobs.latency_mean_s[0] == explorer.result.jobs.latency_mean_s[0]


def test_the_curve_can_be_exported(explorer, tmp_path):
    lines = explorer.export("csv", tmp_path).read_text().splitlines()
    assert lines[0] == "percent,latency_ms" and len(lines) > 200
    assert explorer.export("svg", tmp_path).read_text().startswith("<?xml")


def test_nothing_is_shown_before_the_prediction():
    locked = widgets.latency_explorer("thread 2: HDD")
    assert locked.result is None and locked.controls["control"].disabled
    locked.prediction.number.value = 100
    locked.prediction.button.click()
    assert locked.result is not None and "you" in said(locked)


def test_an_unknown_preset_is_refused():
    with pytest.raises(io.ScenarioError, match="preset"):
        widgets.latency_explorer("tape")


def test_pictures_need_something_to_show():
    with pytest.raises(io.ScenarioError, match="no result"):
        plots.latencies({})
    result = io_latency.simulated(device="hdd", interferers="nobody", seconds=0.1)
    with pytest.raises(io.ScenarioError, match="trace"):
        plots.depths({"hdd": result}, "target")
    axes = plots.latencies({"alone": result}, {"alone": 10e-3}).axes[0]
    assert axes.get_xlabel().endswith("(ms)") and "published: 10 ms" in [t.get_text() for t in axes.legend_.texts]
