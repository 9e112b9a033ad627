"""dbench with one client: its load flush by flush, through the same turns as dd's writes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..errors import ScenarioError
from ..loads import read_load
from ..scenario import Machine
from ..schedulers import BFQ, CFQ
from ..workloads import Dbench
from . import bfq_state as tables
from .bfq import check, points_of, run, steps_of, waits_of
from .bfq_state import NEW_FILES_LOG, OLD_LOG, PAGE, SECTORS
from .chain import Chain
from .knobs import Knobs, S


def load_form(machine: Machine, job: Dbench, k: Knobs, chain: Chain) -> tuple[list[np.ndarray], np.ndarray]:
    """The fields of `ClosedForm` in its order, and BFQ's chances, of the flushes since the warm-up."""
    load = flushes_of(machine, job, k)
    steps = [*chain.data, *chain.loop, *chain.tail]
    shape = np.broadcast_shapes(*(np.shape(v) for v in vars(k).values()))
    turns = isinstance(machine.scheduler, BFQ) and {"dd", "log"} <= {step.task for step in steps if step.visible}
    if turns:
        check(machine, job, k, steps)
    else:  # nobody waits, so it is all the same whether the scheduler sees a request
        for part in ("data", "loop", "tail"):
            setattr(chain, part, [replace(step, visible=False) for step in getattr(chain, part)])
    point = points_of(machine, job, k, shape, turns)
    if not turns:
        reads = sum(step.host + step.device + step.runs * k.wakeup for step in chain.begin)
        point.start += np.broadcast_to(reads, shape).ravel().astype(int)
        point.reads = 0
    rows = steps_of(machine, job, k, chain, point, shape)
    counts, sums = run(point, rows, load)
    flushes, commits = sums.flushes.reshape(shape), sums.commits.reshape(shape)
    if np.any(flushes == 0):
        raise ScenarioError(f"dbench.runtime: {job.runtime} s are over before the first flush; give more.")
    waits = waits_of(counts, sums.flushes, shape)

    def mean(what: str) -> np.ndarray:
        """Of a flush: the data, a commit or what takes its place."""
        data, commit, rest = (sum(getattr(s, what) for s in part) for part in (chain.data, chain.loop, chain.tail))
        return data + rest + commits / flushes * (commit - rest)

    cpu = mean("host") + sums.operations.reshape(shape) / flushes * k.operation
    parts = [mean("device"), cpu, mean("runs") * k.wakeup, waits.for_dd, waits.for_log]
    time = sums.elapsed.reshape(shape) / flushes
    whole = time / sum(parts)  # the flush that began in the warm-up
    rate = sums.counted.reshape(shape) / flushes / (time / S)
    return [time / S, rate, waits.idles, *(part * whole / S for part in parts)], waits.chances


def flushes_of(machine: Machine, job: Dbench, k: Knobs) -> np.recarray:
    """The load as the table of `bfq_runs.run_load`. A page is written again where the last new one was written.

    Raises ScenarioError under CFQ, whose recursion is another, and where a flush is not one request, or none.
    """
    if isinstance(machine.scheduler, CFQ):
        raise ScenarioError("scheduler: dbench under CFQ is beyond the closed form; simulate() it.")
    steps = read_load(job.load)
    pages = -(-steps.dirty // PAGE)
    new = np.maximum.accumulate(np.where(steps.rewrite == 0, np.arange(len(steps)), 0))
    if steps.rewrite[0] != 0 or np.any(pages == 0):
        raise ScenarioError(
            "dbench.load: flushes without dirty pages are beyond the closed form; give each some, the first new ones."
        )
    largest = int(max(pages.max(), NEW_FILES_LOG)) * PAGE
    if np.any(np.asarray(k.max_bytes) < largest):
        raise ScenarioError(
            f"device.max_sectors_kb: a flush of more than one request is beyond the closed form; give at least "
            f"{largest // 1024}, or simulate()."
        )
    load = np.zeros(len(steps), tables.LOAD).view(np.recarray)
    for name in ("operations", "counted", "rewrite", "sets_time"):
        load[name] = steps[name]
    load.data = SECTORS * np.where(steps.rewrite == 0, pages, np.minimum(pages, pages[new]))
    load.log = SECTORS * np.where(steps.rewrite == 0, NEW_FILES_LOG, OLD_LOG)
    return load
