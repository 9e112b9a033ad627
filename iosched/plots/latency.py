"""Latency distributions on a logarithmic scale, and io.latency's depths over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..engine import codes as c
from ..errors import ScenarioError
from .base import BLUE, GREEN, GREY, INK, ORANGE, PALE, PURPLE, RED, SKY, Picture, draw_published, plain_ticks, styled

if TYPE_CHECKING:
    from ..result import Result

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, GREY)
PERCENTS = np.array([0.1, *np.arange(0.5, 100, 0.5), 99.9])
MARKED = (50.0, 90.0, 99.0)


def distribution(result: Result, job: int = 0) -> np.ndarray:
    """Latencies in ms of a job's operations at the percentiles `PERCENTS`.

    >>> import iosched as io
    >>> r = io.simulate(io.Machine(kernel="5.3", scheduler="none"), io.workloads.random_reader(runtime=0.01))
    >>> bool((np.diff(distribution(r)) >= 0).all())
    True
    """
    return 1e3 * np.array([result.latency_percentile(job, float(p)) for p in PERCENTS])


@styled
def latencies(results: Mapping[str, Result], published: Mapping[str, float] | None = None, job: int = 0) -> Picture:
    """How many of a job's operations took no longer than so many ms, one curve a result; dots at the 50th, 90th and
    99th percentile, a diamond at the mean.

    `published` maps a result's name to the published mean in seconds: a dashed line in the colour of the curve.

    Raises ScenarioError if there is no result, or if one has no finished operation.

    >>> import iosched as io
    >>> r = io.simulate(io.Machine(kernel="5.3", scheduler="none"), io.workloads.random_reader(runtime=0.01))
    >>> latencies({"alone": r}, {"alone": 1e-4}).axes[0].get_xscale()
    'log'
    """
    if not results:
        raise ScenarioError("latencies: no result was given; give a mapping such as {'none': result}.")
    figure = Picture(figsize=(13, 6), layout="constrained")
    ax = figure.add_subplot()
    for k, (name, result) in enumerate(results.items()):
        if not int(result.state.tasks[job].done_ops):
            raise ScenarioError(f"latencies: no operation of {name!r} came to its end; simulate longer.")
        colour = COLOURS[k % len(COLOURS)]
        mean = 1e3 * float(result.jobs.latency_mean_s.iloc[job])
        ax.plot(distribution(result, job), PERCENTS, color=colour, label=f"{name}: mean {mean:.3g} ms")
        ax.plot([1e3 * result.latency_percentile(job, p) for p in MARKED], MARKED, "o", color=colour, mec="white")
        ax.plot([mean], [50], "D", color=colour, mec=INK)
        if published and name in published:
            draw_published(
                ax, published[name], 1e3, f"published: {1e3 * published[name]:g} ms", horizontal=False, colour=colour
            )
    ax.set_xscale("log")
    plain_ticks(ax.xaxis)
    ax.set(xlabel="latency of a read (ms)", ylabel="of all reads (%)", ylim=(0, 101))
    ax.set_title("How long does a read take? (dots: percentiles 50, 90, 99; diamond: mean)")
    ax.grid(color=PALE, lw=0.8)
    ax.legend(loc="center left", bbox_to_anchor=(0.02, 0.75))
    return figure


@styled
def depths(results: Mapping[str, Result], cgroup: str, limit_s: float | None = None) -> Picture:
    """How many requests io.latency lets a cgroup have in flight, over time (traced results).

    `limit_s` marks where the thread's run ends.

    Raises ScenarioError if there is no result, or one without a trace.

    >>> import iosched as io
    >>> from iosched.threads import io_latency
    >>> vm, jobs = io_latency.scenario(device="sata", control="io.latency", interferers="direct readers", n=2)
    >>> r = io.simulate(vm.with_(scheduler="none"), jobs[1:], until=0.1, trace=True)
    >>> depths({"sata": r}, "other0").axes[0].get_yscale()
    'log'
    """
    if not results:
        raise ScenarioError("depths: no result was given; give a mapping such as {'sata': result}.")
    figure = Picture(figsize=(13, 5), layout="constrained")
    ax = figure.add_subplot()
    for k, (name, result) in enumerate(results.items()):
        at, depth = depth_steps(result, cgroup)
        ax.step(at, depth, where="post", color=COLOURS[k % len(COLOURS)], label=name)
    if limit_s is not None:
        ax.axvline(limit_s, color=RED, ls="--", lw=2, label="the thread's run ends")
    ax.set_yscale("log", base=2)
    plain_ticks(ax.yaxis)
    ax.yaxis.set_major_locator(_powers())
    ax.set(xlabel="time (s)", ylabel="requests in flight, at most", title=f"What io.latency leaves to {cgroup}")
    ax.grid(color=PALE, lw=0.8)
    ax.legend(loc="upper right")
    return figure


def depth_steps(result: Result, cgroup: str) -> tuple[np.ndarray, np.ndarray]:
    """(seconds, depth) of each change, from the queue's own depth at the beginning to the end of the run."""
    if result.trace is None:
        raise ScenarioError("depths: the result has no trace; simulate with trace=True.")
    s = result.state
    row = result.scenario.machine.cgroups.index(cgroup)
    changes = result.trace[(result.trace["kind"] == c.TR_DEPTH) & (result.trace["length"] == row)]
    epoch, now = int(s.sim[0].epoch), int(s.sim[0].now)
    at = np.concatenate([[0.0], (changes["at"] - epoch) / c.SEC, [(now - epoch) / c.SEC]])
    most = int(s.devices[0].queue_tags)
    depth = np.concatenate([[most], np.where(changes["place"] == 0, most, changes["place"])])
    return at, np.append(depth, depth[-1])


def _powers():
    """Ticks at powers of two."""
    from matplotlib.ticker import LogLocator

    return LogLocator(base=2)


__all__ = ["depths", "distribution", "latencies"]
