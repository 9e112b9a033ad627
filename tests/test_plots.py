"""Pictures: labels with units, the published value beside the modelled one, nothing left behind."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib import colors
from matplotlib.figure import Figure

import iosched as io
from iosched import plots
from iosched.engine import codes as c
from iosched.plots import base
from iosched.simulation import simulate
from iosched.sweeps import sweep


def machine(scheduler="cfq", kernel="4.19", filesystem="ext4", **device):
    return io.Machine(kernel=kernel, device=io.devices.null(**device), filesystem=filesystem, scheduler=scheduler)


def traced(count=40, vm=None, **options):
    return simulate(vm or machine(), io.workloads.dd(count=count, cgroup="user.slice", **options), trace=True)


@pytest.fixture(scope="module")
def cfq():
    return traced()


@pytest.fixture(scope="module")
def grid():
    over = {"scheduler.slice_idle": [0, 4, 8], "scheduler.group_idle": [0, 8]}
    return sweep(machine(), io.workloads.dd(count=40, cgroup="user.slice"), over=over)


def words(figure: Figure) -> str:
    """Every text that stands in a figure."""
    return " | ".join(t.get_text() for t in figure.findobj(mpl.text.Text) if t.get_text())


def ready(figure: Figure) -> Figure:
    """The figure after it was drawn, which is when it may fail."""
    figure.canvas.draw()
    return figure


# ---------------------------------------------------------------------------------------------------------------------
# timeline


def test_the_lanes_of_a_cfq_write(cfq):
    found = plots.lanes(cfq)
    assert [cfq.task_name(t) for t in found.tasks] == ["dd", "jbd2"]
    assert [what for _, _, _, what in found.serving] == ["4 KiB", "8 KiB", "4 KiB"]
    assert [task for task, *_ in found.serving] == [0, 1, 1]
    paid = [(task, b - a) for task, _, a, b, how in found.idles if how == c.END_FIRED and b < found.end]
    assert len(paid) == 1 and paid[0][0] == 1, "one window is waited out, and it is for jbd2"
    assert 7.9e6 < paid[0][1] <= 8e6
    waited = [(task, b - a) for task, a, b, _ in found.waiting if b - a > 1e6]
    assert len(waited) == 1 and waited[0][0] == 0, "it is dd that waits"


def test_a_timeline_says_how_long_and_for_whom(cfq):
    figure = ready(cfq.timeline())
    text = words(figure)
    assert "cfq: one write took 8.3" in text and "kept idle until the timer fired" in text
    assert "ms for jbd2: timer fired" in text
    assert figure.axes[0].get_xlabel() == "time since the write began (ms)"
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["kept idle for", "device", "jbd2", "dd"]
    assert "close-up" in figure.axes[1].get_xlabel(), "the 0.3 ms after 8 ms of idling need one"


@pytest.mark.parametrize("scheduler", ["noop", "deadline", "none", "mq-deadline"])
def test_timelines_of_the_other_schedulers(scheduler):
    result = traced(vm=machine(scheduler))
    found = plots.lanes(result)
    assert not found.idles and len(found.serving) == 3
    assert len(ready(result.timeline()).axes) == 1


def test_a_flush_sequence_is_shown():
    found = plots.lanes(traced(vm=machine("noop", write_cache=True)))
    assert [s[3] for s in found.serving] == ["4 KiB", "8 KiB", "flush", "4 KiB FUA"]
    assert "cache flush" in words(ready(traced(vm=machine("cfq", write_cache=True)).timeline()))


@pytest.mark.parametrize("filesystem", ["xfs", "raw"])
def test_one_task_has_one_lane(filesystem):
    result = traced(vm=machine(filesystem=filesystem))
    ready(result.timeline())
    assert len(plots.lanes(result).tasks) == 1


def test_many_tasks_and_several_operations():
    vm = machine().with_(cgroups=list("abcd"))
    jobs = [io.workloads.dd(count=20, cgroup=g, partition=i) for i, g in enumerate("abcd")]
    result = simulate(vm, jobs, trace=True)
    figure = ready(result.timeline(operations=2))
    assert "2 writes took" in words(figure)
    labels = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    assert labels[2:] == [*(f"jbd2 {i}" for i in (4, 3, 2, 1)), *(f"dd {i}" for i in (4, 3, 2, 1))]


def test_every_operation_can_be_drawn(cfq):
    for operation in (0, 1, 38, 39):
        found = plots.lanes(cfq, operation)
        assert 0 < found.end - found.start < 2e7
        for _, a, b, _ in found.waiting + found.serving:
            assert found.start <= a <= b <= found.end


def test_a_timeline_without_trace_or_operation_is_one_sentence(cfq):
    with pytest.raises(io.ScenarioError, match="trace=True"):
        simulate(machine(), io.workloads.dd(count=3)).timeline()
    with pytest.raises(io.ScenarioError, match="operation 40 to 40 did not happen; the run had 0 to 39"):
        cfq.timeline(40)
    nothing = replace(cfq, trace=cfq.trace[:5])
    with pytest.raises(io.ScenarioError, match="no operation"):
        nothing.timeline()


# ---------------------------------------------------------------------------------------------------------------------
# the other pictures


def test_the_time_budget_adds_up_and_shows_what_was_published(cfq):
    results = {"noop": traced(vm=machine("noop")), "cfq": cfq}
    figure = ready(plots.time_budget(results, published={"cfq": 512 / 60e3, "noop": (512 / 2e6, 512 / 1.5e6)}))
    ax = figure.axes[0]
    assert ax.get_xlabel() == "time of one write (ms)"
    bars = {}
    for patch in ax.patches:
        row = round(patch.get_y() + patch.get_height() / 2)
        bars[row] = bars.get(row, 0) + patch.get_width()
    for row, result in enumerate(results.values()):
        assert bars[row] == pytest.approx(result.time_per_op * 1e3, rel=0.01)
    assert "published" in words(figure) and "idling for jbd2" in words(figure)
    marks = [line.get_xdata() for line in ax.lines]
    assert marks[1].tolist() == pytest.approx([512 / 60, 512 / 60])


def test_a_knob_curve_has_units_dots_line_band_and_ghost():
    job = io.workloads.dd(count=40, cgroup="user.slice")
    over = {"scheduler.slice_idle": [0, 4, 8]}
    frame = sweep(machine(), job, over=over, closed_form=True)
    ghost = sweep(machine(completion_us=1000), job, over=over)
    published = {"thread, CFQ": 60e3, "thread, noop": (1.5e6, 2e6)}
    figure = ready(plots.knob_curve(frame, "scheduler.slice_idle", published=published, ghost=ghost))
    ax = figure.axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("slice_idle (ms)", "throughput (kB/s)")
    text = words(figure)
    for label in ("simulated", "closed form", "before", "thread, CFQ", "thread, noop"):
        assert label in text
    levels = [line.get_ydata()[0] for line in ax.lines if str(line.get_label()).startswith("thread")]
    assert levels == pytest.approx([60, (1500 * 2000) ** 0.5])
    curve = next(line for line in ax.lines if line.get_label() == "closed form")
    assert curve.get_ydata()[1] != curve.get_ydata()[1], "0 means off: the line breaks after it"


def test_a_knob_curve_with_two_knobs_and_a_logarithmic_axis():
    job = io.workloads.dd(count=20, cgroup="user.slice")
    frame = sweep(machine(), job, over={"scheduler": ["noop", "cfq"], "device.completion_us": [50, 500, 5000]})
    ax = ready(plots.knob_curve(frame, "device.completion_us", hue="scheduler")).axes[0]
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert "scheduler = noop" in words(ax.figure)


def test_a_heatmap_marks_what_was_published(grid):
    figure = ready(plots.grid_heatmap(grid, published={(8, 8): 512 / 60e3, (0, 0): (512 / 2e6, 512 / 1.5e6)}))
    ax = figure.axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("slice_idle (ms)", "group_idle (ms)")
    assert figure.axes[1].get_ylabel() == "time of one write (ms)"
    assert "(8, 8): published 8.53, simulated 8." in words(figure)
    assert "(0, 0): published 0.256 to 0.341, simulated 0." in words(figure)
    with pytest.raises(io.ScenarioError, match="not a point of the grid"):
        plots.grid_heatmap(grid, published={(3, 3): 1.0})


def claims_table() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"id": "a", "published": 60e3, "simulated": 61e3, "closed_form": 61e3, "role": "predicted", "unit": "B/s"},
            {"id": "b", "published": [1.5e6, 2e6], "simulated": 1.7e6, "closed_form": None, "role": "fitted"},
            {"id": "c", "published": 1.0, "simulated": 1.0, "role": "predicted", "unit": "bool"},
            {"id": "d", "published": 60e3, "simulated": None, "role": "predicted", "unit": "B/s"},
            {"id": "e", "published": 5.0, "simulated": 4.0, "role": "predicted", "unit": "x", "verdict": "off"},
        ]
    )


def test_a_reproduction_tells_fitted_from_predicted():
    figure = ready(plots.reproduction(claims_table()))
    ax = figure.axes[0]
    assert ax.get_xlabel() == "modelled / published" and ax.get_xscale() == "log"
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b", "e"], "yes-or-no claims have no ratio"
    for label in ("simulated, predicted", "simulated, fitted", "closed form", "within 5 %", "published", "off"):
        assert label in words(figure)
    fitted = next(line for line in ax.lines if line.get_label() == "simulated, fitted")
    assert fitted.get_markerfacecolor() == "white"


def test_the_threads_own_table_can_be_drawn():
    from iosched import threads

    figure = ready(plots.reproduction(threads.table(threads.reproduce("dsync"))))
    assert "60 KB/s" in words(figure)


def test_a_validation_scatter_has_bands_and_errors():
    frame = pd.DataFrame({"measured": [390.0, 8371.0], "simulated": [391.0, 8000.0], "scheduler": ["noop", "cfq"]})
    figure = ready(plots.validation_scatter(frame))
    upper, lower = figure.axes
    assert upper.get_xscale() == upper.get_yscale() == "log"
    assert lower.get_xlabel() == "measured: time of one write (us)" and lower.get_ylabel() == "error (%)"
    for label in ("±2 %", "±6 %", "noop", "cfq", "2 runs"):
        assert label in words(figure)


def test_bad_input_is_one_sentence(grid):
    with pytest.raises(io.ScenarioError, match=r"did you mean 'scheduler\.slice_idle'"):
        plots.knob_curve(grid, "slice_idle")
    with pytest.raises(io.ScenarioError, match="time_per_op_s"):
        plots.grid_heatmap(grid, value="time_per_op")
    with pytest.raises(io.ScenarioError, match="no result"):
        plots.time_budget({})
    with pytest.raises(io.ScenarioError, match="simulated"):
        plots.reproduction(pd.DataFrame({"id": [], "published": [], "role": []}))
    with pytest.raises(io.ScenarioError, match="no row"):
        plots.validation_scatter(pd.DataFrame({"measured": [], "simulated": []}))


# ---------------------------------------------------------------------------------------------------------------------
# manners


def test_no_figure_is_left_behind(cfq, grid):
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    for figure in (
        cfq.timeline(),
        plots.time_budget({"cfq": cfq}),
        plots.grid_heatmap(grid),
        plots.knob_curve(grid, "scheduler.slice_idle", hue="scheduler.group_idle"),
        plots.reproduction(claims_table()),
        plots.validation_scatter(pd.DataFrame({"measured": [1.0], "simulated": [1.0]})),
    ):
        ready(figure)
        assert isinstance(figure, Figure)
    assert plt.get_fignums() == before


def test_the_users_settings_are_left_alone(cfq):
    before = dict(mpl.rcParams)
    cfq.timeline()._repr_png_()
    assert dict(mpl.rcParams) == before


def test_a_notebook_shows_a_picture_without_pyplot(cfq):
    data, size = cfq.timeline()._repr_png_()
    assert data.startswith(b"\x89PNG") and size["width"] > 800


def test_type_is_large_and_colours_differ(cfq, grid):
    figure = ready(plots.knob_curve(grid, "scheduler.slice_idle", hue="scheduler.group_idle"))
    sizes = [t.get_fontsize() for t in figure.findobj(mpl.text.Text) if t.get_text()]
    assert min(sizes) >= 12
    used = [base.BLUE, base.ORANGE, base.GREEN, base.RED, base.PURPLE, base.SKY, base.YELLOW]
    grey = sorted(0.299 * r + 0.587 * g + 0.114 * b for r, g, b in (colors.to_rgb(name) for name in used))
    assert len(set(used)) == len(used) and grey[-1] - grey[0] > 0.4


def test_the_same_picture_is_the_same_file(cfq, tmp_path):
    files = []
    for name in ("a.svg", "b.svg"):
        files.append(plots.save(cfq.timeline(), tmp_path / name).read_bytes())
    assert files[0] == files[1]
    ET.fromstring(files[0])


def test_importing_the_package_loads_no_pictures():
    code = "import sys, iosched; print([m for m in ('matplotlib', 'seaborn', 'ipywidgets') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


# ---------------------------------------------------------------------------------------------------------------------
# dbench: several timelines, cooperation, throughput, rules


@pytest.fixture(scope="module")
def dbench_runs():
    from iosched.threads import wakers

    return {version: wakers.under(version) for version in ("5.6.4", "5.12")}


def test_timelines_stand_below_one_another_on_one_time_axis(dbench_runs):
    figure = ready(plots.timelines(dbench_runs))
    assert [ax.get_title("left").split(":")[0] for ax in figure.axes] == ["5.6.4", "5.12"]
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    assert figure.axes[1].get_xlabel() == "time since the fsync began (ms)"
    assert "7.99 ms for jbd2: timer fired" in words(figure)
    assert "injected" in words(figure) and "kept idle until the timer fired" in words(figure)
    with pytest.raises(io.ScenarioError, match="no result was given"):
        plots.timelines({})


def test_a_typical_operation_is_as_long_as_the_others_at_the_end(dbench_runs):
    trace = dbench_runs["5.6.4"].trace
    own = trace[trace["task"] == 0]
    starts = own["at"][own["kind"] == c.TR_OP_START]
    ends = own["at"][own["kind"] == c.TR_OP_END]
    late = ends > trace["at"][-1] - 4 * c.SEC
    k = plots.typical_operation(dbench_runs["5.6.4"])
    assert ends[k] - starts[k] == pytest.approx(pd.Series(ends - starts[: len(ends)])[late].median(), rel=0.02)
    with pytest.raises(io.ScenarioError, match="no operation of the first job ended"):
        plots.typical_operation(simulate(machine(), io.workloads.dd(), until=1e-4, trace=True))


def test_injected_is_what_is_issued_while_another_is_waited_for(dbench_runs):
    found = plots.lanes(dbench_runs["5.12"], plots.typical_operation(dbench_runs["5.12"]))
    assert {task for task, *_ in found.injected} == {1}, "jbd2's requests"
    for _, issued, _, _ in found.injected:
        assert any(task == 0 and a <= issued < b for task, _, a, b, _ in found.idles), "while dbench is waited for"
    slow = plots.lanes(dbench_runs["5.6.4"], plots.typical_operation(dbench_runs["5.6.4"]))
    assert slow.injected == []


def test_cooperation_names_the_steps_and_who_wakes_whom(dbench_runs):
    text = words(ready(plots.cooperation(dbench_runs["5.12"])))
    for said in ("data", "log", "commit", "wakes jbd2", "wakes dbench"):
        assert said in text


def test_a_course_shows_warm_up_published_and_measured(dbench_runs):
    figure = ready(plots.course(dbench_runs, {"published": 80e6}, {"5.6.4": [70.0] * 5}))
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert lines["published"].get_ydata()[0] == pytest.approx(80)
    assert lines["5.6.4: real kernel"].get_xdata().tolist() == [4, 5, 6, 7, 8]
    assert len(lines["5.12"].get_xdata()) == 19, "whole seconds, the warm-up included"
    with pytest.raises(io.ScenarioError, match=r"did you mean '5\.6\.4'"):
        plots.course(dbench_runs, measured={"5.6.5": [1.0]})
    with pytest.raises(io.ScenarioError, match="no result was given"):
        plots.course({})


def test_rates_have_a_bar_a_rule_and_the_published_lines():
    frame = pd.DataFrame({"rule": ["a", "b"], "MB_s": [70.0, 200.0], "last_MB_s": [50.0, 199.0], "idles": [0.29, 0]})
    ax = ready(plots.rates(frame, {"published": 80e6})).axes[0]
    assert [bar.get_width() for bar in ax.patches] == [70, 200]
    assert ax.get_xlabel() == "throughput (MB/s)" and "0.29 idles an fsync" in words(ax.figure)
    with pytest.raises(io.ScenarioError, match="rates: column"):
        plots.rates(frame.drop(columns="idles"))


def test_rules_colour_what_is_new():
    table = pd.DataFrame({"5.3": ["200", "no"], "5.12": ["4000", "no"]}, index=["window_us", "x"])
    ax = ready(plots.rules(table)).axes[0]
    new = [patch.get_xy() for patch in ax.patches if colors.same_color(patch.get_facecolor()[:3], base.ORANGE)]
    assert new == [(1 - 0.48, -0.46)]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["window_us", "x"]


def test_throughputs_of_tens_of_megabytes_are_in_megabytes():
    frame = pd.DataFrame({"scheduler.slice_idle": [0, 8], "bytes_per_s": [200e6, 80e6]})
    ax = ready(plots.knob_curve(frame, "scheduler.slice_idle", published=80e6)).axes[0]
    assert ax.get_ylabel() == "throughput (MB/s)" and 200 in ax.lines[0].get_ydata()
