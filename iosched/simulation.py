"""Run a scenario: compile it, turn the event loop, check the laws, wrap the tables into a Result."""

from __future__ import annotations

import numpy as np

from .engine import codes as c
from .engine.loop import run
from .engine.state import State
from .errors import EngineError, ScenarioError, number
from .laws import check_laws
from .programs import compile_scenario
from .result import Result
from .samples import Samples
from .scenario import Machine, Scenario
from .workloads import Job

CHUNK_EVENTS = 1_000_000  # between two chunks a run can be interrupted and progress is shown
TRACE_ROWS = 1 << 16
LONGEST = 30 * 24 * 3600 * c.SEC  # beyond this the sums over requests and time leave 64 bits
TASK_WAITS = {
    c.T_WAIT_IO: "an I/O",
    c.T_WAIT_SLOT: "an I/O",
    c.T_WAIT_READ: "an I/O",
    c.T_WAIT_WORK: "work",
    c.T_WAIT_COMMIT: "a journal commit",
    c.T_SLEEP: "a wake-up",
    c.T_WAIT_TAG: "a free request",
    c.T_WAIT_PAGES: "its pages to be written",
}


def simulate(
    machine: Machine,
    jobs: list[Job] | tuple[Job, ...] | Job,
    *,
    until: float | None = None,
    trace: bool = False,
    interval_s: float = 1.0,
    progress: bool = False,
) -> Result:
    """Simulate the jobs on the machine and return what tools would have shown.

    `until` stops the clock after that many seconds; otherwise the run ends with the last job. `trace=True` keeps every
    event (about 64 bytes each), which `Result.events` and `Result.timeline` need; without it memory does not grow with
    the run. Every `interval_s` the counters are kept that `Result.vmstat` and `Result.iostat` show (at most 4096 times:
    of a longer run every second, fourth, ... one). `progress=True` shows a bar. A run is exactly repeatable.

    Raises ScenarioError for input that cannot be simulated or can never make progress.

    >>> import iosched as io
    >>> r = io.simulate(io.Machine(kernel="4.19", scheduler="noop"), [io.workloads.dd(count=100)])
    >>> int(r.jobs.operations.iloc[0])
    100
    """
    scenario = Scenario(machine, jobs)
    length = None if until is None else round(number("until", until, 1e-9, 30 * 24 * 3600, "seconds") * c.SEC)
    every = round(number("interval_s", interval_s, 1e-6, 86400, "seconds") * c.SEC)
    s = compile_scenario(scenario, TRACE_ROWS if trace else 0)
    epoch = int(s.sim[0].epoch)
    samples = Samples(s, every)
    stop_at = epoch + (LONGEST if length is None else length)
    chunks: list[np.ndarray] = []
    with _bar(progress, scenario) as bar:
        while True:
            due = epoch + samples.due_ns
            stop = run(s, min(stop_at, due), CHUNK_EVENTS)
            bar.update(int(s.tasks.done_ops[: len(scenario.jobs)].sum()) - bar.n)
            if trace and s.sim[0].trace_n:
                chunks.append(s.trace[: s.sim[0].trace_n].copy())
                s.sim[0].trace_n = 0
            if stop == c.STOP_TIME and due < stop_at:
                samples.take(s)
            elif stop not in (c.STOP_BUDGET, c.STOP_TRACE_FULL):
                break
    if stop == c.STOP_TIME and length is None:
        raise ScenarioError("until: the jobs take more than 30 simulated days; give until=..., or fewer operations.")
    if stop == c.STOP_STUCK:
        raise ScenarioError(_stuck(s, scenario))
    check_laws(s, stop)
    samples.take(s)
    return Result(scenario, s, np.concatenate(chunks) if chunks else s.trace[:0] if trace else None, samples)


def _bar(progress: bool, scenario: Scenario):
    """A tqdm bar over the jobs' operations, or one that shows nothing."""
    from tqdm.auto import tqdm

    return tqdm(
        total=sum(getattr(job, "count", 0) for job in scenario.jobs) or None,
        unit="op",
        disable=not progress,
        leave=False,
    )


def _stuck(s: State, scenario: Scenario) -> str:
    """Who waits for what, when nothing can happen any more."""
    waits = [
        f"{job.name} waits for {TASK_WAITS.get(int(s.tasks[i].state), 'nothing')}"
        for i, job in enumerate(scenario.jobs)
        if s.tasks[i].state != c.T_DONE
    ]
    return f"scenario: it can never make progress ({'; '.join(waits)}); give at least one task something to do."


__all__ = ["EngineError", "simulate"]
