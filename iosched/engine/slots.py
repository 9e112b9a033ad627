"""Several I/Os of one task at once: each has a slot, which counts its bios.

An asynchronous engine has as many slots as its iodepth; a buffered reader has two, one a readahead window in flight.
"""

from .codes import NONE, T_WAIT_SLOT
from .jit import jit
from .wakeups import wake


@jit
def open_slot(s, task, slot):
    """Bios that the task submits from now on belong to the slot; it is not done before `close_slot`."""
    row = s.slots[slot]
    row.task = task
    row.left = 1
    row.start = s.sim[0].now
    s.tasks[task].slot = slot


@jit
def close_slot(s, task):
    """All bios of the task's open slot are submitted."""
    slot = s.tasks[task].slot
    s.tasks[task].slot = NONE
    drop(s, slot)


@jit
def drop(s, slot):
    """One bio less to wait for; with the last one the I/O is done, and the task wakes if it waits for it."""
    row = s.slots[slot]
    row.left -= 1
    if row.left > 0:
        return
    t = s.tasks[row.task]
    st = s.streams[t.stream]
    if st.depth > 0:
        row.next = st.finished
        st.finished = slot
    if t.state == T_WAIT_SLOT and (t.awaited == NONE or t.awaited == slot):
        t.awaited = NONE
        wake(s, row.task)


@jit
def take(s, task):
    """Open a free slot for an asynchronous I/O; False: the task waits until one is done."""
    t = s.tasks[task]
    st = s.streams[t.stream]
    slot = st.free
    if slot == NONE:
        t.state = T_WAIT_SLOT
        return False
    st.free = s.slots[slot].next
    st.busy += 1
    open_slot(s, task, slot)
    return True


@jit
def finished(s, task):
    """Free a slot whose I/O is done and return it, or NONE."""
    st = s.streams[s.tasks[task].stream]
    slot = st.finished
    if slot != NONE:
        row = s.slots[slot]
        st.finished = row.next
        row.next = st.free
        st.free = slot
        st.busy -= 1
    return slot
