"""Many scenarios at once: threads of this process, or any executor; what was measured before comes from a cache.

Threads share the work, not processes and not `prange`: the compiled event loop runs without Python's lock (the GIL), so
threads run scenarios side by side, start in microseconds and share one copy of the compiled code; and the loop is a
plain cached function, which a parallel Numba region that captured it would have to compile again in every process. Only
filling a scenario's tables and reading its results (about 1 ms a point) is done one at a time.

An executor (`concurrent.futures.Executor`: processes, Dask's `client.get_executor()`, MPI, ...) gets the points in
batches. A batch that a lost worker took along is sent again; the others stay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from .engine import codes as c
from .engine.loop import run
from .errors import ScenarioError, number, unknown
from .laws import check_laws
from .metrics import METRICS
from .programs import compile_scenario
from .results_cache import ResultsCache
from .scenario import Scenario
from .versions import code_hash

CHUNK_EVENTS = 200_000  # between two chunks (about 20 ms) a point looks whether it shall stop
LARGEST_BATCH = 64  # points that travel to a worker together
LOOK_S = 1.0  # between two looks whether to stop
ATTEMPTS = 4  # of a batch, each on another worker if one is lost
Row = list[float]


class Cancelled(RuntimeError):
    """The sweep was told to stop. With a cache, what was finished is kept and a second call goes on there."""


def run_many(
    scenarios: Sequence[Scenario],
    metrics: Sequence[str] = ("time_per_op_s",),
    *,
    until: float | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    cache: str | Path | bool = False,
    progress: bool = False,
    stop: Event | None = None,
) -> list[Row]:
    """The metrics (keys of `METRICS`, SI units) of every scenario, in order.

    `until` ends each after so many simulated seconds. `workers` threads share them (None: one a core), or an `executor`
    does, whose workers must have this very version of iosched. `cache` (a folder, or True for the user's) keeps every
    result under the scenario, the code and `until`; a call that was interrupted goes on from there. Setting `stop` from
    another thread ends it with `Cancelled`.

    Raises ScenarioError for unknown metrics, a scenario that can never make progress, or workers of another version.

    >>> from iosched import Machine, workloads
    >>> run_many([Scenario(Machine(scheduler="noop"), [workloads.dd(count=n)]) for n in (5, 6)], ["operations"])
    [[5], [6]]
    """
    from tqdm.auto import tqdm

    for name in metrics:
        if name not in METRICS:
            raise unknown("metrics", name, METRICS)
    length = None if until is None else round(number("until", until, 1e-9, 1e9, "seconds") * c.SEC)
    threads = thread_count(workers)
    kept = ResultsCache(cache) if cache else None
    rows: list[Row | None] = [None] * len(scenarios)
    wanted = list(metrics)
    if kept:
        wanted = list(METRICS)  # any other choice of metrics finds them later
        keys = [kept.key(scenario, length) for scenario in scenarios]
        rows = [kept.get(key) for key in keys]
    todo = [i for i, row in enumerate(rows) if row is None]
    known = len(scenarios) - len(todo)
    with tqdm(total=len(scenarios), initial=known, unit="point", disable=not progress, leave=False) as bar:

        def done(i: int, row: Row) -> None:
            rows[i] = row
            if kept:
                kept.put(keys[i], row)
            bar.update()

        work = _Work(scenarios, wanted, length, stop or Event(), done)
        try:
            if executor:
                _through(executor, work, todo)
            else:
                _here(work, todo, threads)
        finally:
            if kept:
                kept.close()
    if kept:
        chosen = [wanted.index(name) for name in metrics]
        return [[row[k] for k in chosen] for row in rows]  # type: ignore[index]
    return rows  # type: ignore[return-value]


def thread_count(workers: int | None) -> int:
    """Threads to use: as many as asked for, or one a core that this process may use."""
    if workers is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(number("workers", workers, 1, 1024, "threads", integer=True))


def measure(scenario: Scenario, metrics: Sequence[str], length: int | None = None, stop: Event | None = None) -> Row:
    """Run one scenario and read the metrics straight from the engine's tables, without a Result around them.

    `length` in simulated ns ends the run (None: the last job does). Raises Cancelled if `stop` ended it before.

    >>> from iosched import Machine, workloads
    >>> measure(Scenario(Machine(scheduler="noop"), [workloads.dd(count=10)]), ["operations", "idles_per_op"])
    [10, 0.0]
    """
    s = compile_scenario(scenario)
    stop_at = c.NEVER - 1 if length is None else int(s.sim[0].epoch) + length
    why = c.STOP_BUDGET
    while why == c.STOP_BUDGET and not (stop is not None and stop.is_set()):
        why = run(s, stop_at, CHUNK_EVENTS)
    if why == c.STOP_BUDGET:
        raise Cancelled("the sweep was stopped before its last point.")
    if why == c.STOP_STUCK:
        raise ScenarioError("scenario: it can never make progress; give at least one task something to do.")
    check_laws(s, why)
    return [METRICS[name](scenario, s) for name in metrics]


@dataclass(frozen=True)
class _Work:
    """What all points have in common, and what is called with each that is done."""

    scenarios: Sequence[Scenario]
    metrics: list[str]
    length: int | None
    stop: Event
    done: Callable[[int, Row], None]


def _here(work: _Work, todo: list[int], threads: int) -> None:
    """On threads of this process. An error or an interrupt ends the running points early; finished ones count."""
    with ThreadPoolExecutor(threads, thread_name_prefix="iosched-sweep") as pool:
        futures = {pool.submit(measure, work.scenarios[i], work.metrics, work.length, work.stop): i for i in todo}
        try:
            for future in as_completed(list(futures)):
                row = future.result()
                work.done(futures.pop(future), row)
        except BaseException:
            work.stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            for future, i in futures.items():
                if not future.cancelled() and future.exception() is None:
                    work.done(i, future.result())
            raise


def _through(executor: Executor, work: _Work, todo: list[int]) -> None:
    """On an executor's workers, in batches; where the executor itself is lost, the rest is done here."""
    size = max(1, min(LARGEST_BATCH, len(todo) // 32))
    sent: dict[Future, tuple[list[int], int]] = {}

    def send(batch: list[int], attempt: int) -> None:
        scenarios = [work.scenarios[i] for i in batch]
        sent[executor.submit(measure_batch, code_hash(), scenarios, work.metrics, work.length)] = batch, attempt

    try:
        for k in range(0, len(todo), size):
            send(todo[k : k + size], 1)
        while sent:
            finished, _ = wait(sent, timeout=LOOK_S, return_when=FIRST_COMPLETED)
            if work.stop.is_set():
                raise Cancelled("the sweep was stopped before its last point.")
            for future in finished:
                batch, attempt = sent.pop(future)
                try:
                    rows = future.result()
                except BrokenExecutor:
                    _here(work, batch, thread_count(None))
                except Exception as error:
                    if not _lost(error) or attempt == ATTEMPTS:
                        raise
                    send(batch, attempt + 1)
                else:
                    for i, row in zip(batch, rows):
                        work.done(i, row)
    except BaseException:
        for future in sent:
            future.cancel()
        raise


def _lost(error: Exception) -> bool:
    """Did a worker go, and not the work fail? Dask's KilledWorker is known by its name: Dask need not be there."""
    return isinstance(error, (CancelledError, ConnectionError)) or type(error).__name__ in (
        "KilledWorker",
        "FutureCancelledError",
        "CommClosedError",
    )


def measure_batch(version: str, scenarios: list[Scenario], metrics: list[str], length: int | None) -> list[Row]:
    """What a worker does. Raises ScenarioError if its code is not that of the caller."""
    mine = code_hash()
    if version != mine:
        raise ScenarioError(
            f"executor: its workers run another version of iosched ({mine}, here it is {version}); install this one."
        )
    return [measure(scenario, metrics, length) for scenario in scenarios]


__all__ = ["Cancelled", "Row", "measure", "measure_batch", "run_many", "thread_count"]
