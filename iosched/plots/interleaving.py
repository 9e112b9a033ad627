"""A stream served by several tasks, looked at on one disk: whose request it serves, who waits, whom it is kept for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..engine import codes as c
from ..errors import ScenarioError, number
from .base import INK, RED, Picture, styled
from .operation import Lanes, _idle_windows, _lane_legend, _requests_of, draw_lanes

if TYPE_CHECKING:
    from ..result import Result

LOOK_BACK = 4000  # trace rows before the picture in which what is open may have begun


def stream_lanes(result: Result, seconds: float = 0.08, disk: int | None = None) -> Lanes:
    """What one disk did in so many seconds in the middle of the run, with all tasks of the first shared file. None is
    the disk that was kept idle for longest.

    Raises ScenarioError without a trace, for a disk that is not there or a run without a shared file.

    >>> import iosched as io
    >>> job = io.workloads.shared_reader(threads=2, size="8M")
    >>> len(stream_lanes(io.simulate(io.Machine(scheduler="noop"), job, trace=True)).tasks)
    2
    """
    trace = result._need_trace()
    number("seconds", seconds, 1e-6, 3600, "s")
    disks = len(result.state.devices)
    if disk is None:
        disk = int(result.state.idle.total_ns.reshape(disks, -1).sum(axis=1).argmax())
    if disk not in range(disks):
        raise ScenarioError(f"disk: {disk!r} is not there; give 0 to {disks - 1}.")
    if result.shared_reads.empty:
        raise ScenarioError("stream_lanes: no file of this run is read by several processes; give a shared_reader.")
    trace = trace[trace["dev"] == disk]
    at = trace["at"]
    start = int(at[len(at) // 2])
    out = Lanes(start, start + round(seconds * c.SEC), list(range(int(result.shared_reads.threads.iloc[0]))))
    begin, stop = np.searchsorted(at, (out.start, out.end))
    piece = trace[max(begin - LOOK_BACK, 0) : stop + LOOK_BACK]
    for owner, inserted, issued, done, _ in _requests_of(piece):
        if inserted < issued and issued > out.start and inserted < out.end:
            out.waiting.append((owner, max(inserted, out.start), min(issued, out.end), ""))
        if done > out.start and issued < out.end:
            out.serving.append((owner, max(issued, out.start), min(done, out.end), ""))
    out.idles = [
        (task, reason, max(a, out.start), min(b, out.end), how)
        for task, reason, a, b, how in _idle_windows(piece)
        if b > out.start and a < out.end
    ]
    return out


@styled
def interleaving(results: Mapping[str, Result], seconds: float = 0.08, disk: int | None = None) -> Picture:
    """One disk under each of several runs: a lane a thread, pale while its request waits, full while the disk has it;
    "kept idle for" is whom the scheduler waits for, red where that lasts until the timer fires.

    Raises ScenarioError as `stream_lanes`, or if there is no result.

    >>> import iosched as io
    >>> job = io.workloads.shared_reader(threads=2, size="8M")
    >>> runs = {name: io.simulate(io.Machine(scheduler=name), job, trace=True) for name in ("noop", "deadline")}
    >>> len(interleaving(runs, 0.01).axes)
    2
    """
    if not results:
        raise ScenarioError("interleaving: no result was given; give a mapping such as {'cfq': result}.")
    every = [stream_lanes(result, seconds, disk) for result in results.values()]
    rows = [len(found.tasks) + 2 for found in every]
    figure = Picture(figsize=(14, 1.6 + sum(0.34 * n + 0.55 for n in rows)), layout="constrained")
    axes = figure.subplots(len(every), 1, squeeze=False, height_ratios=rows)[:, 0]
    for ax, found, (name, result) in zip(axes, every, results.items(), strict=True):
        draw_lanes(ax, found, [result.task_name(t) for t in found.tasks])
        rate = float(result.shared_reads.bytes_per_s.iloc[0]) * 1e-6
        lost = sum(b - a for _, _, a, b, how in found.idles if how == c.END_FIRED) * 1e-6
        ax.set_title(f"{name}: {rate:.1f} MB/s" + (f"; {lost:.0f} ms of this waited in vain" if lost else ""))
        ax.tick_params(axis="y", labelsize=11)
    axes[-1].set_xlabel("time (ms)")
    figure.legend(handles=_lane_legend(every), loc="outside lower center", ncols=3, frameon=False)
    return figure


@styled
def dd_rates(
    simulated: Mapping[str, float], published: Mapping[str, float], form: Mapping[str, float] | None = None
) -> Picture:
    """Throughputs as bars, with what was published (and the closed form) beside them; all in bytes/s, by name.

    >>> dd_rates({"cfq": 37e6}, {"cfq": 36.4e6}).axes[0].get_xlabel()
    'throughput (MB/s)'
    """
    figure = Picture(figsize=(14, 1.8 + 0.55 * len(simulated)), layout="constrained")
    ax = figure.add_subplot()
    y = np.arange(len(simulated))[::-1]
    ax.barh(y, [v * 1e-6 for v in simulated.values()], height=0.6, label="simulated")
    mark = {"marker": "|", "color": INK, "markersize": 22, "mew": 3}
    for points, style, label in (
        (published, {"marker": "D", "color": RED}, "published"),
        (form or {}, mark, "closed form"),
    ):
        shown = [(points[name] * 1e-6, k) for k, name in zip(y, simulated, strict=True) if name in points]
        if shown:
            ax.plot(*zip(*shown, strict=True), ls="", label=label, **style)
    ax.set_yticks(y, list(simulated))
    ax.set_xlabel("throughput (MB/s)")
    ax.grid(axis="x", alpha=0.4)
    ax.set_axisbelow(True)
    ax.legend(loc="upper right", framealpha=0.9)
    return figure
