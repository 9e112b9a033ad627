"""Writeback throttling: how many writes may be in flight follows the latency of reads (spec block-layer section 7).

Writes take a place before they take a request, and give it back when they are done; O_DIRECT writes and the log writes
of newer kernels are exempt, reads are only observed. Every 100 ms the fastest read of the window is held against the
target: too slow halves the depth, fast enough doubles it again. How many places a write may see depends on who asks:
everybody waits for an fsync or a writer that is held at the dirty limit, nobody for background writeback.
"""

from . import throttle
from .clock import schedule
from .codes import (
    EV_WBT,
    F_BACKGROUND,
    F_IDLE,
    F_META,
    F_PRIO,
    F_SYNC,
    MSEC,
    NEVER,
    NONE,
    READ,
    T_WAIT_TAG,
    WRITE,
)
from .jit import jit
from .lists import pop_front, push_back
from .wakeups import wake

WINDOW = 100 * MSEC
READ_RECENTLY = 100 * MSEC
BASE_DEPTH = 16
FEWEST_READS, FEWEST_WRITES = 1, 3  # in a window that can be judged
UNKNOWN_WINDOWS = 5  # in a row, from which the depth goes back to where it started
OK, EXCEEDED, UNKNOWN, UNKNOWN_WRITES = 0, 1, 2, 3


# ---------------------------------------------------------------------------------------------------------------------
# depth


@jit
def set_depth(w):
    """The three limits of the present step: all writes, writes without reads around, background writes beside reads."""
    w.scaled_max = 0
    if w.queue_depth == 1:
        w.max_depth = 1 if w.step > 0 else 2
        if w.step <= 0:
            w.scaled_max = 1
    else:
        base = min(BASE_DEPTH, w.queue_depth)
        if w.step > 0:
            w.max_depth = 1 + ((base - 1) >> min(w.step, 31))
        else:
            most = 3 * w.queue_depth // 4
            w.max_depth = 1 + ((base - 1) << min(-w.step, 31))
            if w.step < 0 and w.max_depth > most:
                w.max_depth = most
                w.scaled_max = 1
    if w.max_depth <= 2:
        w.normal = w.max_depth
        w.background = 1
    else:
        w.normal = (w.max_depth + 1) // 2
        w.background = (w.max_depth + 3) // 4


@jit
def limit_of(s, d, flags):
    """Writes in flight up to which one with these flags may join."""
    w = s.wbt[d]
    now = s.sim[0].now
    if flags & (F_SYNC | F_META | F_PRIO) != 0 or throttle.held_recently(s.caches[d], now):
        return w.max_depth
    if flags & F_BACKGROUND != 0 or now - w.last_read < READ_RECENTLY:
        return w.background
    return w.normal


@jit
def is_throttled(op, flags):
    """Writes, but for those both SYNC and IDLE."""
    return op == WRITE and flags & (F_SYNC | F_IDLE) != F_SYNC | F_IDLE


# ---------------------------------------------------------------------------------------------------------------------
# a bio comes


@jit
def admit(s, d, task, op, flags):
    """Give a write its place. False: there is none, or others wait already; the task sleeps until it is given one."""
    w = s.wbt[d]
    t = s.tasks[task]
    if op == READ:
        w.last_read = s.sim[0].now
    if not is_throttled(op, flags) or t.wbt_place != 0:
        return True
    if w.timer == 0:
        start_window(s, d)
    if s.lists[w.waiters].count == 0 and w.inflight < limit_of(s, d, flags):
        w.inflight += 1
        t.wbt_place = 1
        return True
    w.throttled += 1
    t.wbt_flags = flags
    t.state = T_WAIT_TAG
    push_back(s, w.waiters, s.sim[0].first_task_node + task)
    return False


@jit
def let_in(s, d):
    """Give free places to those who wait longest, each up to its own limit."""
    w = s.wbt[d]
    while s.lists[w.waiters].count > 0:
        task = s.lists[w.waiters].head - s.sim[0].first_task_node
        if w.inflight >= limit_of(s, d, s.tasks[task].wbt_flags):
            return
        pop_front(s, w.waiters)
        w.inflight += 1
        s.tasks[task].wbt_place = 1
        wake(s, task)


# ---------------------------------------------------------------------------------------------------------------------
# a request


@jit
def issued(s, ri):
    """The driver has the request; the first read while none is watched is."""
    r = s.requests[ri]
    w = s.wbt[r.dev]
    if r.op == READ and w.oldest_read == NONE:
        w.oldest_read = ri
        w.oldest_issued = s.sim[0].now


@jit
def done(s, ri):
    """The device has finished the request: count it for the window, and give its place back."""
    r = s.requests[ri]
    w = s.wbt[r.dev]
    now = s.sim[0].now
    if r.op == READ:
        w.last_read = now
        w.reads += 1
        w.shortest_read = min(w.shortest_read, now - r.issued)
        if w.oldest_read == ri:
            w.oldest_read = NONE
    elif r.op == WRITE:
        w.writes += 1
    leave(s, ri)


@jit
def leave(s, ri):
    """The request gives its place back, if it has one."""
    r = s.requests[ri]
    if r.wbt != 0:
        r.wbt = 0
        free_place(s, r.dev)


@jit
def hand_back(s, task):
    """A task that was given a place has nothing to write any more: somebody else wrote those pages meanwhile."""
    t = s.tasks[task]
    if t.wbt_place != 0:
        t.wbt_place = 0
        free_place(s, t.dev)


@jit
def free_place(s, d):
    """One write less. Sleepers wake once there is room for several, half the background depth. A write cache that
    nobody is held for is filled in bursts, drained to the last write in between."""
    w = s.wbt[d]
    w.inflight -= 1
    room = w.normal
    if s.devices[d].write_cache != 0 and not throttle.held_recently(s.caches[d], s.sim[0].now):
        room = 0
    if w.inflight > 0 and w.inflight >= room:
        return
    if w.inflight == 0 or room - w.inflight >= w.background // 2:
        let_in(s, d)


# ---------------------------------------------------------------------------------------------------------------------
# the window


@jit
def start_window(s, d):
    """Count from now on; the window is shorter the lower the depth: 100 ms / sqrt(step + 1)."""
    w = s.wbt[d]
    w.timer = 1
    w.reads = w.writes = 0
    w.shortest_read = NEVER
    w.window = WINDOW
    if w.step > 0:
        w.window = WINDOW * 16 // square_root((w.step + 1) * 256)
    schedule(s, s.sim[0].now + w.window, EV_WBT, d)


@jit
def square_root(n):
    """The integer square root."""
    root = 0
    while (root + 1) * (root + 1) <= n:
        root += 1
    return root


@jit
def window_over(s, d):
    """Judge the window, change the depth by a step, and begin the next one while there is something to watch."""
    w = s.wbt[d]
    w.timer = 0
    w.windows += 1
    verdict = judge(s, d)
    if verdict == EXCEEDED:
        w.exceeded += 1
        scale_down(w, True)
    elif verdict == OK or verdict == UNKNOWN_WRITES:
        scale_up(s, d)
    else:
        w.unknown += 1
        if w.unknown >= UNKNOWN_WINDOWS:
            if w.step > 0:
                scale_up(s, d)
            elif w.step < 0:
                scale_down(w, False)
    if w.step != 0 or w.inflight > 0:
        start_window(s, d)


@jit
def judge(s, d):
    """Was the window good for reads? One fast read is enough to say yes."""
    w = s.wbt[d]
    now = s.sim[0].now
    if w.oldest_read != NONE:
        age = now - w.oldest_issued
        if age > w.window or (age > w.target and w.reads == 0):
            return EXCEEDED
    if w.reads < FEWEST_READS or w.writes < FEWEST_WRITES:
        if w.writes > 0 or w.inflight > 0 or throttle.held_recently(s.caches[d], now):
            return UNKNOWN_WRITES
        return UNKNOWN
    return EXCEEDED if w.shortest_read > w.target else OK


@jit
def scale_down(w, hard):
    """A step down; a `hard` one goes from above the start to the start at once."""
    if w.max_depth == 1 and w.step >= 0:  # below 0 it is the cap of a device of depth 2, which has a way back
        return
    if w.step < 0 and hard:
        w.step = 0
    else:
        w.step += 1
    w.unknown = 0
    set_depth(w)


@jit
def scale_up(s, d):
    """A step up, unless the depth is as large as it may become; sleepers look again."""
    w = s.wbt[d]
    if w.scaled_max != 0:
        return
    w.step -= 1
    w.unknown = 0
    set_depth(w)
    let_in(s, d)
