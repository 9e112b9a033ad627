"""io.max (blkio.throttle on cgroup v1): a cap on a cgroup's bytes and operations a second, reads and writes apart.

A group may send what its limits allow for the time since its slice began, rounded up to whole slices of 100 ms, so that
it goes in bursts. Rows of `s.limits` are (device, group, direction). The kernel queues the bio and lets its task go on;
here the task sleeps, which is the same for whoever waits for its I/O. Source: spec bfq-and-controllers section 4.2.
"""

from .clock import schedule
from .codes import EV_LIMIT, MSEC, NONE, SEC, T_WAIT_TAG, WRITE
from .jit import jit
from .lists import pop_front, push_back
from .wakeups import wake

SLICE = 100 * MSEC


@jit
def admit(s, d, task, op, nr):
    """Charge a bio to its task's group and all above it. False: one is at its limit, and the task sleeps."""
    t = s.tasks[task]
    if t.gate == NONE:
        t.gate = t.group
        t.gate_nr = nr
    while s.groups[t.gate].parent != NONE:
        row = row_of(s, d, t.gate, op)
        m = s.limits[row]
        if m.bps > 0 or m.iops > 0:
            now = s.sim[0].now
            if s.lists[m.waiters].count == 0 and now - m.charged_at > SLICE:
                m.start = now
                m.bytes = m.ios = 0
            if s.lists[m.waiters].count > 0 or delay(m, now, 512 * nr) > 0:
                push_back(s, m.waiters, s.sim[0].first_task_node + task)
                t.state = T_WAIT_TAG
                arm(s, row)
                return False
            charge(m, now, 512 * nr)
        t.gate = s.groups[t.gate].parent
    return True


@jit
def row_of(s, d, group, op):
    """Row of a group's reads or writes."""
    return 2 * (d * s.sim[0].n_groups + group) + (1 if op == WRITE else 0)


@jit
def delay(m, now, nbytes):
    """How long (ns) such a bio must wait; 0 if it fits."""
    elapsed = now - m.start
    rounded = (elapsed // SLICE + 1) * SLICE
    wait = 0
    if m.bps > 0:
        extra = m.bytes + nbytes - m.bps * rounded // SEC
        if extra > 0:
            wait = extra * SEC // m.bps + rounded - elapsed
    if m.iops > 0:
        extra = m.ios + 1 - m.iops * rounded // SEC
        if extra > 0:
            wait = max(wait, extra * SEC // m.iops + rounded - elapsed)
    return wait


@jit
def charge(m, now, nbytes):
    """The bio goes; of the slices that are over nothing is carried on but what was sent too early."""
    m.bytes += nbytes
    m.ios += 1
    m.charged_at = now
    slices = (now - m.start) // SLICE
    if slices > 0:
        m.start += slices * SLICE
        m.bytes = max(m.bytes - m.bps * slices * SLICE // SEC, 0)
        m.ios = max(m.ios - m.iops * slices * SLICE // SEC, 0)


@jit
def arm(s, row):
    """Look again when the first who waits may go."""
    m = s.limits[row]
    if m.timer == 0:
        m.timer = 1
        task = s.lists[m.waiters].head - s.sim[0].first_task_node
        now = s.sim[0].now
        schedule(s, now + max(delay(m, now, 512 * s.tasks[task].gate_nr), 1), EV_LIMIT, row)


@jit
def timer_fired(s, row):
    """Let go who fits, in order."""
    m = s.limits[row]
    m.timer = 0
    now = s.sim[0].now
    while s.lists[m.waiters].count > 0:
        task = s.lists[m.waiters].head - s.sim[0].first_task_node
        t = s.tasks[task]
        if delay(m, now, 512 * t.gate_nr) > 0:
            arm(s, row)
            return
        pop_front(s, m.waiters)
        charge(m, now, 512 * t.gate_nr)
        t.gate = s.groups[t.gate].parent
        wake(s, task)
