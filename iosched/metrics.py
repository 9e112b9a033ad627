"""What a sweep shows of a run: numbers read straight from the engine's tables, as the views of `Result` show them."""

from __future__ import annotations

from collections.abc import Callable

from .engine import codes as c
from .engine.state import State
from .scenario import Scenario

NS = 1e-9


def _elapsed(scenario: Scenario, s: State, job: int) -> float:
    """Seconds from the job's start (the end of dbench's warm-up) to its end, or to the end of the run."""
    t = s.tasks[job]
    one = scenario.jobs[job]
    ended = t.end if t.state == c.T_DONE else s.sim[0].now
    return max(int(ended - s.sim[0].epoch) * NS - (one.start + getattr(one, "warmup_s", 0.0)), 0.0)


def _ratio(a: float, b: float) -> float:
    return a / b if b else float("nan")


def _operations(scenario: Scenario, s: State) -> int:
    return int(s.tasks.done_ops[: len(scenario.jobs)].sum())


def _time_per_op(scenario: Scenario, s: State) -> float:
    return _ratio(_elapsed(scenario, s, 0), int(s.tasks[0].done_ops))


def _bytes_per_s(scenario: Scenario, s: State) -> float:
    return sum(_ratio(int(s.tasks[i].done_bytes), _elapsed(scenario, s, i)) for i in range(len(scenario.jobs)))


def _idles_per_op(scenario: Scenario, s: State) -> float:
    windows = len(s.tasks) * len(c.IDLE_REASONS)
    return float(s.idle.fired_held[:windows].sum() / max(_operations(scenario, s), 1))


def _latency_mean(scenario: Scenario, s: State) -> float:
    return _ratio(int(s.tasks[0].latency_sum) * NS, int(s.tasks[0].done_ops))


def _latency_max(scenario: Scenario, s: State) -> float:
    return int(s.tasks[0].latency_max) * NS


def _requests_per_op(scenario: Scenario, s: State) -> float:
    return _ratio(int(s.devices[0].read_requests + s.devices[0].write_requests), _operations(scenario, s))


def _utilisation(scenario: Scenario, s: State) -> float:
    return _ratio(int(s.devices[0].busy_ns + s.devices[0].held_ns), int(s.sim[0].now - s.sim[0].epoch))


METRICS: dict[str, Callable[[Scenario, State], float]] = {
    "time_per_op_s": _time_per_op,  # of the first job
    "bytes_per_s": _bytes_per_s,  # of all jobs together
    "idles_per_op": _idles_per_op,
    "elapsed_s": lambda scenario, s: int(s.sim[0].now - s.sim[0].epoch) * NS,
    "operations": _operations,
    "latency_mean_s": _latency_mean,  # of the first job
    "latency_max_s": _latency_max,  # of the first job
    "requests_per_op": _requests_per_op,
    "utilisation": _utilisation,  # share of the time in which a request is in the block layer, as %util
}

__all__ = ["METRICS"]
