"""CPU time and the waking of tasks.

A woken task runs `wakeup_ns` later; the CPU operation that it wakes up to is added to the same burst, so that a wake-up
costs one event. With `cpus` > 0 bursts queue for a processor, first come first served; where buffered writers compute
for long, as CFS has it (`fair.py`).
"""

from . import fair
from .clock import schedule
from .codes import EV_TASK, NONE, OP_CPU, T_DONE, T_READY, T_YIELDED, TR_WAKE
from .iowait import leave_io_wait
from .jit import jit
from .lists import pop_front
from .trace import record


@jit
def soonest(s):
    """The processor that is free first."""
    best = 0
    for k in range(1, s.sim[0].cpus):
        if s.processors[k].free_at < s.processors[best].free_at:
            best = k
    return best


@jit
def varied(sim, length):
    """A burst of `length` ns on average, drawn between (1 - spread) and (1 + spread) times that."""
    if sim.spread == 0:
        return length
    sim.generator = sim.generator * 48_271 % 2_147_483_647
    return length + length * sim.spread // 1000 * (sim.generator % 2001 - 1000) // 1000


@jit
def cpu_burst(s, length):
    """Time at which a burst of `length` ns that wants to start now is over; it goes ahead of background work."""
    sim = s.sim[0]
    length = varied(sim, length)
    if sim.cpus == 0:
        return sim.now + length
    p = s.processors[soonest(s)]
    waits = still_waiting(sim, p)
    p.free_at = sim.now + waits + length
    return p.free_at - p.background


@jit
def background_burst(s, length):
    """The same for a task that computes on and on, behind which nobody who wakes up has to wait."""
    sim = s.sim[0]
    length = varied(sim, length)
    if sim.cpus == 0:
        return sim.now + length
    p = s.processors[soonest(s)]
    waits = still_waiting(sim, p)
    p.background += length
    p.free_at = sim.now + waits + length
    return p.free_at


@jit
def still_waiting(sim, p):
    """Nanoseconds of work that the processor has before it; what is done is taken off the background last."""
    waits = max(p.free_at - sim.now, 0)
    p.background = min(p.background, waits)
    return waits


@jit
def compute(s, task, length):
    """The task goes on after a burst of `length` ns."""
    s.sim[0].cpu_ns += length
    if s.sim[0].fair != 0:
        fair.run_for(s, task, length)
    else:
        schedule(s, cpu_burst(s, length), EV_TASK, task)


@jit
def compute_behind(s, task, length):
    """The same for work behind which nobody who wakes up has to wait."""
    s.sim[0].cpu_ns += length
    s.tasks[task].state = T_YIELDED
    if s.sim[0].fair != 0:
        fair.run_for(s, task, length)
    else:
        schedule(s, background_burst(s, length), EV_TASK, task)


@jit
def kernel_burst(s, length):
    """When a burst of a kernel worker of high priority is over."""
    s.sim[0].cpu_ns += length
    if s.sim[0].fair != 0:
        return fair.steal(s, length)
    return cpu_burst(s, length)


@jit
def interrupt(s, length):
    """A completion took `length` ns of a processor just now: work that is running there ends later by as much."""
    sim = s.sim[0]
    sim.cpu_ns += length
    if sim.fair != 0:
        fair.took(s, length)
    elif sim.cpus > 0:
        p = s.processors[soonest(s)]
        if p.free_at > sim.now:
            p.free_at += length


@jit
def interrupt_work(s, length):
    """Work of `length` ns that an interrupt does on a processor from now on, before any task has it again."""
    sim = s.sim[0]
    sim.cpu_ns += length
    if sim.fair != 0:
        fair.steal(s, length)
    elif sim.cpus > 0:
        p = s.processors[soonest(s)]
        p.free_at = sim.now + still_waiting(sim, p) + length


@jit
def wake(s, task):
    """Make a sleeping task run again."""
    t = s.tasks[task]
    if t.state == T_READY or t.state == T_DONE or t.state == T_YIELDED:
        return
    t.state = T_READY
    leave_io_wait(s, task)
    length = s.sim[0].wakeup_ns
    op = s.ops[t.pc]
    if op.code == OP_CPU:
        length += op.a
        t.pc += 1
    record(s, TR_WAKE, task, NONE, 0, 0, 0, 0)
    compute(s, task, length)


@jit
def wake_first(s, lst):
    """Wake the task that has slept longest in a wait list."""
    n = pop_front(s, lst)
    if n != NONE:
        wake(s, n - s.sim[0].first_task_node)
