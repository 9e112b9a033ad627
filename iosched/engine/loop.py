"""The event loop: take what happens next, let it happen, until the jobs are done or the caller's limit is reached."""

from numba import types

from ..schedulers import policy
from . import block, dirty, disk, fair, iocost, iolatency, iomax, pagecache, pieces, ssd, tasks, wbt
from .account import account
from .clock import drop_first, first_timer
from .codes import (
    EV_COMMIT,
    EV_COMPLETE,
    EV_COST,
    EV_DISK,
    EV_FLUSHER,
    EV_LATENCY,
    EV_LIMIT,
    EV_PERIOD,
    EV_PROGRAMMED,
    EV_READ,
    EV_REPLY,
    EV_TASK,
    EV_UNPLUG,
    EV_WBT,
    NEVER,
    NONE,
    OK,
    STOP_BUDGET,
    STOP_DONE,
    STOP_ERROR,
    STOP_STUCK,
    STOP_TIME,
    STOP_TRACE_FULL,
    TIMERS_PER_DEVICE,
)
from .jit import entry, jit, jit_enabled
from .memory import state_at


def run(state, stop_at, budget):
    """Run until every job has ended, simulated time reaches `stop_at` (ns), or `budget` events were handled.

    Returns a STOP_* code. The state is complete at every return: calling again goes on where it stopped.
    """
    if jit_enabled():
        return _run_compiled(state.address, stop_at, budget)
    return _loop(state, stop_at, budget)


@jit
def _loop(s, stop_at, budget):
    """Take what happens next and let it happen."""
    sim = s.sim[0]
    while True:
        if sim.error != OK:
            return STOP_ERROR
        if sim.live == 0:
            return STOP_DONE
        if budget <= 0:
            return STOP_BUDGET
        if sim.trace_on != 0 and sim.trace_n + sim.trace_margin > sim.trace_rows:
            return STOP_TRACE_FULL
        timer = first_timer(s)
        at = NEVER
        if sim.heap_n > 0:
            at = s.heap[0].at
        fires = False
        if timer != NONE:
            row = s.timers[timer]
            fires = row.at < at or (row.at == at and row.seq < s.heap[0].seq)
            if fires:
                at = row.at
        if at == NEVER:
            return STOP_STUCK
        if at > stop_at:
            advance(s, stop_at)
            return STOP_TIME
        budget -= 1
        sim.events += 1
        sim.now = at
        if fires:
            s.timers[timer].at = NEVER
            if timer < sim.first_cpu_timer:
                fire(s, timer // TIMERS_PER_DEVICE)
            else:
                compute(s, timer - sim.first_cpu_timer)
            continue
        first = s.heap[0]
        kind = first.kind
        index = first.index
        drop_first(s)
        if kind == EV_TASK:
            run_task(s, index)
        elif kind == EV_COMPLETE:
            block.complete(s, index)
        elif kind == EV_READ:
            ssd.read_done(s, index)
        elif kind == EV_PROGRAMMED:
            ssd.programmed(s, index)
        elif kind == EV_DISK:
            disk.arm_event(s, index)
        elif kind == EV_LATENCY:
            iolatency.timer_fired(s, index)
        elif kind == EV_FLUSHER:
            dirty.timer_fired(s, index)
        elif kind == EV_COMMIT:
            pagecache.commit_due(s, index)
        elif kind == EV_LIMIT:
            iomax.timer_fired(s, index)
        elif kind == EV_COST:
            iocost.timer_fired(s, index)
        elif kind == EV_PERIOD:
            iocost.period_over(s, index)
        elif kind == EV_WBT:
            wbt.window_over(s, index)
        elif kind == EV_REPLY:
            pieces.reply_arrived(s, index)
        elif kind == EV_UNPLUG:
            block.unplug_due(s, index)
        else:
            s.devices[index].run_pending = 0
            block.run_queue(s, index)


@jit
def run_task(s, task):
    """The task goes on until it waits; then no queue of the time before 2.6.39 stays plugged."""
    tasks.run_task(s, task)
    if s.sim[0].queue_plugs != 0:
        block.unplug_for(s, task)


@jit
def fire(s, d):
    """A scheduler's timer ran out: its rule first, then a dispatch by kblockd."""
    policy.timer_fired(s, d)
    block.schedule_run(s, d)


@jit
def compute(s, k):
    """A processor looks at its task, which goes on if it is done computing."""
    task = fair.look(s, k)
    if task != NONE:
        run_task(s, task)
        fair.go_on(s, k)


@jit
def advance(s, at):
    """Move the clock to `at` without an event, and bring the books up to it."""
    s.sim[0].now = max(s.sim[0].now, at)
    for d in range(s.sim[0].n_devices):
        account(s, d)


@entry
def _run_compiled(address, stop_at, budget):
    """The loop on the tables whose addresses stand at `address`."""
    return _loop(state_at(address), stop_at, budget)


def compile_run():
    """Compile the loop, or load it from the cache, without running anything."""
    _run_compiled.compile((types.intp, types.int64, types.int64))
