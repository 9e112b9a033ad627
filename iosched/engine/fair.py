"""The processor where tasks compute for long: CFS, the kernel's fair scheduler, in runs with buffered writers.

Every task has a virtual time, the time it has computed. The one with the least runs; a tick takes the processor from
it after its part of 6 ms. Who wakes up is put at most 3 ms before the others, and takes the processor at once only
from a task that is more than 1 ms ahead of it: so a writer that wakes from its pause keeps a reader waiting that has
computed as much as all others, and a disk's arm is gone when that reader asks for more. Interrupts and kblockd (a
worker of high priority) take their time from whoever runs. Source: the kernel's documentation of CFS, and its default
times (recalled), which grow with the logarithm of the number of processors.
"""

from .clock import schedule
from .codes import EV_TASK, NEVER, NONE
from .jit import jit

LATENCY = 6_000_000  # ns in which every task runs once
LEAST = 750_000  # ns that a task runs at least before another's turn
LEAD = 1_000_000  # ns by which a task must be behind to take the processor when it wakes up


@jit
def run_for(s, task, length):
    """The task computes for `length` ns and then goes on with its program."""
    t = s.tasks[task]
    sim = s.sim[0]
    t.need += length
    if t.computing != 0:
        return  # it has the processor now, and is asked when it gives way
    sim.runnable += 1
    t.queued = 1
    t.vruntime = max(t.vruntime, sim.least_vruntime - sim.fair * LATENCY // 2)
    last = 0
    for k in range(sim.fair_cpus):
        p = s.processors[k]
        if p.running == NONE:
            take_next(s, k)
            return
        settle(s, k)
        if s.tasks[p.running].vruntime > s.tasks[s.processors[last].running].vruntime:
            last = k
    p = s.processors[last]
    if s.tasks[p.running].vruntime - t.vruntime > sim.fair * LEAD:
        p.gives_way = 1
        if p.deciding == 0:
            give_way(s, last)
    for k in range(sim.fair_cpus):
        set_timer(s, k)


@jit
def settle(s, k):
    """Book what the running task has computed until now."""
    p = s.processors[k]
    sim = s.sim[0]
    if p.running == NONE:
        return
    t = s.tasks[p.running]
    ran = max(sim.now - p.since, 0)
    t.need -= ran
    t.vruntime += ran
    p.ran += ran
    p.since += ran
    least = t.vruntime
    if sim.runnable > 0:
        least = min(least, s.tasks[first_in_line(s)].vruntime)
    sim.least_vruntime = max(sim.least_vruntime, least)


@jit
def first_in_line(s):
    """The waiting task with the least virtual time, or NONE."""
    best = NONE
    for i in range(s.sim[0].n_tasks):
        if s.tasks[i].queued != 0 and (best == NONE or s.tasks[i].vruntime < s.tasks[best].vruntime):
            best = i
    return best


@jit
def take_next(s, k):
    """The processor goes on with the first in line, or has nothing to do."""
    p = s.processors[k]
    sim = s.sim[0]
    p.gives_way = 0
    p.ran = 0
    p.running = first_in_line(s) if sim.runnable > 0 else NONE
    if p.running != NONE:
        sim.runnable -= 1
        t = s.tasks[p.running]
        t.queued = 0
        t.computing = 1
        p.since = max(sim.now, p.interrupted_until)
    set_timer(s, k)


@jit
def give_way(s, k):
    """The running task goes back into the line."""
    t = s.tasks[s.processors[k].running]
    t.computing = 0
    t.queued = 1
    s.sim[0].runnable += 1
    take_next(s, k)


@jit
def set_timer(s, k):
    """When the processor looks again: at the end of what the task computes, or at a tick if others wait."""
    p = s.processors[k]
    sim = s.sim[0]
    timer = s.timers[sim.first_cpu_timer + k]
    if p.running == NONE or p.deciding != 0:
        timer.at = NEVER
        return
    at = p.since + s.tasks[p.running].need
    if sim.runnable > 0:
        at = min(at, (sim.now // sim.tick_ns + 1) * sim.tick_ns)
    sim.seq += 1
    timer.at = at
    timer.seq = sim.seq


@jit
def look(s, k):
    """The timer of the processor fired. Returns the task that is done computing and goes on now, or NONE."""
    settle(s, k)
    p = s.processors[k]
    task = p.running
    t = s.tasks[task]
    if t.need > 0:
        if turn_is_over(s, k):
            give_way(s, k)
        else:
            set_timer(s, k)
        return NONE
    if t.nap > 0:
        schedule(s, (s.sim[0].now // s.sim[0].tick_ns + t.nap + 1) * s.sim[0].tick_ns, EV_TASK, task)
        t.nap = 0
        t.computing = 0
        take_next(s, k)
        return NONE
    if s.sim[0].now % s.sim[0].tick_ns == 0 and turn_is_over(s, k):
        p.gives_way = 1
    p.deciding = 1
    return task


@jit
def go_on(s, k):
    """The task has gone on: it wants to compute more, or sleeps."""
    p = s.processors[k]
    p.deciding = 0
    t = s.tasks[p.running]
    if t.need == 0:
        t.computing = 0
        take_next(s, k)
    elif p.gives_way != 0:
        give_way(s, k)
    else:
        set_timer(s, k)


@jit
def turn_is_over(s, k):
    """At a tick: has the task had its part, or is it that far ahead of the first in line?"""
    sim = s.sim[0]
    p = s.processors[k]
    if sim.runnable == 0:
        return False
    part = max(sim.fair * LATENCY // (1 + sim.runnable // sim.fair_cpus), sim.fair * LEAST)
    ahead = s.tasks[p.running].vruntime - s.tasks[first_in_line(s)].vruntime
    return p.ran > part or (p.ran >= sim.fair * LEAST and ahead > part)


@jit
def interrupted(s):
    """The processor that an interrupt or a worker of high priority takes: an idle one if there is one. What its task
    has computed is booked."""
    k = 0
    for i in range(s.sim[0].fair_cpus):
        if s.processors[i].running == NONE:
            k = i
    settle(s, k)
    return k


@jit
def hold_up(s, k, length):
    """Whoever runs there goes on so much later."""
    p = s.processors[k]
    if p.running != NONE:
        p.since = max(p.since, s.sim[0].now) + length
        set_timer(s, k)


@jit
def took(s, length):
    """An interrupt has had `length` ns of a processor just now: only a task that ran there feels it."""
    hold_up(s, interrupted(s), length)


@jit
def steal(s, length):
    """An interrupt or kblockd computes for `length` ns before any task goes on; returns when that is over."""
    k = interrupted(s)
    p = s.processors[k]
    p.interrupted_until = max(s.sim[0].now, p.interrupted_until) + length
    hold_up(s, k, length)
    return p.interrupted_until
