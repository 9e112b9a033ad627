"""Where the time went, and the laws that every run must obey.

`account` is called before anything changes that it integrates: requests in the system, in the device, and who is being
idled for. All sums are integers, so Little's law holds exactly or the engine is wrong.
"""

from .codes import (
    END_FIRED,
    N_IDLE_REASONS,
    NONE,
    TR_IDLE_BEGIN,
    TR_IDLE_END,
)
from .jit import jit
from .trace import record


@jit
def account(s, d):
    """Bring the time integrals of device `d` up to now.

    Elapsed time splits exactly into: the device has work (`busy`), it has none although requests wait (`held`, by an
    idle window or by the hand-over to kblockd), it has none because nobody asked (`empty`).
    """
    dev = s.devices[d]
    now = s.sim[0].now
    dt = now - dev.accounted_at
    if dt == 0:
        return
    if dev.queue_plugs != 0 and dev.in_system > 0:
        ticked = in_ticks(s, dev.accounted_at)
        dev.ticked_busy_ns += ticked
        dev.ticked_area_in_system += ticked * dev.in_system
    dev.accounted_at = now
    dev.area_in_system += dt * dev.in_system
    if dev.in_flight > 0:
        dev.busy_ns += dt
    elif dev.in_system > 0:
        dev.held_ns += dt
        if dev.idle_row != NONE:
            s.idle[dev.idle_row].held_ns += dt
    else:
        dev.empty_ns += dt
        if dev.idle_row != NONE:
            s.idle[dev.idle_row].empty_ns += dt


@jit
def in_ticks(s, since):
    """How long ago that is by a clock of ticks, as the disk statistics of kernels before 2.6.39 (recalled)."""
    tick = s.sim[0].tick_ns
    return (s.sim[0].now // tick - since // tick) * tick


@jit
def idle_begin(s, d, task, reason, until):
    """The device is kept for `task` from now on."""
    account(s, d)
    dev = s.devices[d]
    n_tasks = s.sim[0].n_tasks
    row = (d * n_tasks + task) * N_IDLE_REASONS + reason
    dev.idle_row = row
    dev.idle_since = s.sim[0].now
    s.idle[row].windows += 1
    record(s, TR_IDLE_BEGIN, task, NONE, until, reason, 0, d)


@jit
def idle_end(s, d, how):
    """The window of device `d` is over; `how` says why (END_*)."""
    dev = s.devices[d]
    row = dev.idle_row
    if row == NONE:
        return
    account(s, d)
    dev.idle_row = NONE
    idle = s.idle[row]
    now = s.sim[0].now
    idle.total_ns += now - dev.idle_since
    if how == END_FIRED:
        idle.fired += 1
        if dev.queued > 0:
            idle.fired_held += 1
    record(
        s, TR_IDLE_END, (row // N_IDLE_REASONS) % s.sim[0].n_tasks, NONE, dev.idle_since, row % N_IDLE_REASONS, how, d
    )
