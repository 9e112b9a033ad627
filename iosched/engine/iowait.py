"""Who sleeps for I/O, and since when, as the kernel counts it for vmstat."""

from .codes import NONE, T_WAIT_IO, T_WAIT_PAGES, T_WAIT_SLOT, T_WAIT_TAG
from .jit import jit


@jit
def waits_for_io(t):
    """Does the task sleep for its I/O, a request, or pages? One that asks an asynchronous engine for what is done, and
    one that waits for a commit, do not count (recalled)."""
    if t.state == T_WAIT_SLOT:
        return t.awaited != NONE
    return t.state == T_WAIT_IO or t.state == T_WAIT_TAG or t.state == T_WAIT_PAGES


@jit
def enter_io_wait(s, task):
    """The task sleeps for I/O from now on."""
    sim = s.sim[0]
    s.tasks[task].in_io_wait = 1
    sim.io_waiters += 1
    if sim.io_waiters == 1:
        sim.io_wait_since = sim.now


@jit
def leave_io_wait(s, task):
    """It does not any more."""
    sim = s.sim[0]
    t = s.tasks[task]
    if t.in_io_wait == 0:
        return
    t.in_io_wait = 0
    sim.io_waiters -= 1
    if sim.io_waiters == 0:
        sim.io_wait_ns += sim.now - sim.io_wait_since
