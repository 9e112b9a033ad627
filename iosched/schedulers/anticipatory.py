"""The anticipatory scheduler (until 2.6.32): after a read it waits for the same process's next one, unless another's is
close.

Source: spec block-layer section 3. Writes are refused on the kernels that have it, so that its other direction, and the
batches that take turns, are left out; so is what it learns from processes that exit.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.account import idle_begin, idle_end
from ..engine.clock import arm, cancel
from ..engine.codes import END_ARRIVAL, END_FIRED, END_PREEMPTED, F_PRIO, IDLE_ANTIC, NONE, SEC, T_DONE, T_IDLE
from ..engine.columns import columns
from ..engine.jit import jit
from ..engine.lists import insert_sorted, push_back, remove
from ..knobs import check, knob, named
from .estimators import fold_seek, fold_think_time, ticks
from .nearest import better_request

OFF, WAIT_REQ, WAIT_NEXT, FINISHED = range(4)
CLOSE = 8192  # sectors ahead that count as close before it waits; twice as many for each tick of waiting
BACK_SECTORS = 1 << 20

DEVICE_COLUMNS = columns(
    "jiffy read_expire antic_expire longest_think longest_delay back_seek_max back_seek_penalty sorted_sync "
    "sorted_async fifo_sync fifo_async next_sync checked status last_task finished antic_start last_sector"
)
CONTEXT_COLUMNS = columns(
    "queued dispatched last_end ttime_samples ttime_total ttime_mean seek_samples seek_total seek_mean last_request_pos"
)


@named
@dataclass(frozen=True)
class Anticipatory:
    """Its tunables, as in `/sys/block/DEV/queue/iosched/`; `antic_expire` None is HZ/150 ticks and at least one, 0
    turns anticipation off.

    >>> Anticipatory(antic_expire=0).read_expire
    125
    """

    read_expire: float = knob(125, "age at which a read is next", "ms", 0, 1e6, sysfs="read_expire")
    antic_expire: float | None = knob(None, "wait for a process's next read", "ms", 0, 1e6, optional=True,
                                      sysfs="antic_expire", slider=(0, 20, "linear"))  # fmt: skip

    def __post_init__(self) -> None:
        check(self, "scheduler.")

    def fill(self, s, d: int, hz: int) -> None:
        """Write the tunables of device `d` into the engine's tables, in ticks."""
        a = s.anticipatory[d]
        a.jiffy = SEC // hz
        a.read_expire = round(self.read_expire * hz) // 1000
        a.antic_expire = max(hz // 150, 1) if self.antic_expire is None else round(self.antic_expire * hz) // 1000
        a.longest_think, a.longest_delay = max(hz // 50 - 1, 1), hz // 50
        a.back_seek_max, a.back_seek_penalty = BACK_SECTORS, 2
        a.next_sync = a.last_task = NONE


@jit
def context_of(s, d, task):
    """The record of the task's io_context on the device."""
    return s.antic_contexts[d * s.sim[0].n_tasks + s.tasks[task].ioc]


@jit
def merge_list(s, d):
    """Pending reads, in order of sectors."""
    return s.anticipatory[d].sorted_sync


@jit
def insert(s, ri):
    """A read arrives: its process's history is updated, and a wait may be over."""
    r = s.requests[ri]
    d = r.dev
    a = s.anticipatory[d]
    context = context_of(s, d, r.task)
    learn(a, context, r, ticks(s, a))
    r.fifo_time = ticks(s, a) + a.read_expire
    push_back(s, a.fifo_sync, 2 * ri + 1)
    insert_sorted(s, a.sorted_sync, 2 * ri, r.sector)
    context.queued += 1
    a.next_sync = ri if a.next_sync == NONE else better_request(s, a, a.next_sync, ri, a.last_sector, F_PRIO)
    if (a.status == WAIT_REQ or a.status == WAIT_NEXT) and breaks(s, d, ri):
        idle_end(s, d, END_ARRIVAL if s.tasks[r.task].ioc == s.tasks[a.last_task].ioc else END_PREEMPTED)
        cancel(s, d, T_IDLE)
        a.status = FINISHED
        s.devices[d].kicked = 1


@jit
def learn(a, context, r, now):
    """Think time (none while it has anything to do here) and seek distance of the process."""
    think = 0
    if context.queued == 0 and context.dispatched == 0 and context.ttime_samples > 0:
        think = min(now - context.last_end, a.longest_think)
    fold_think_time(context, think)
    fold_seek(context, abs(r.sector - context.last_request_pos) if context.seek_samples > 0 else 0)
    context.last_request_pos = r.sector + r.nr


@jit
def withdraw(s, ri):
    """Take a pending read out; its neighbour by sector is next."""
    r = s.requests[ri]
    a = s.anticipatory[r.dev]
    if a.next_sync == ri:
        after, before = s.nodes[2 * ri].next, s.nodes[2 * ri].prev
        if after == NONE or before == NONE:
            other = before if after == NONE else after
            a.next_sync = NONE if other == NONE else other >> 1
        else:
            a.next_sync = better_request(s, a, after >> 1, before >> 1, r.sector, F_PRIO)
    remove(s, 2 * ri)
    remove(s, 2 * ri + 1)
    context_of(s, r.dev, r.task).queued -= 1


@jit
def request_grew(s, ri, front):
    """After a front merge the request's place has changed."""
    if front:
        r = s.requests[ri]
        remove(s, 2 * ri)
        insert_sorted(s, s.anticipatory[r.dev].sorted_sync, 2 * ri, r.sector)


@jit
def dispatch(s, d):
    """The expired oldest, or the next by sector; none while it waits for the process of the last one."""
    a = s.anticipatory[d]
    ri = a.next_sync
    if ri == NONE or a.status == WAIT_REQ or a.status == WAIT_NEXT:
        return NONE
    now = ticks(s, a)
    first = s.lists[a.fifo_sync].head >> 1
    if now - a.checked >= a.read_expire and now >= s.requests[first].fifo_time:
        a.checked = now
        ri = first
    elif a.antic_expire > 0 and a.status == OFF and a.last_task != NONE and not breaks(s, d, ri):
        a.status = WAIT_REQ
        if a.finished != 0:
            wait_for_next(s, d)
        return NONE
    a.next_sync = ri
    withdraw(s, ri)
    r = s.requests[ri]
    context_of(s, d, r.task).dispatched += 1
    a.last_task = r.task
    a.finished = 0
    a.status = OFF
    a.last_sector = r.sector + r.nr
    return ri


@jit
def breaks(s, d, ri):
    """Is there no point in waiting for the last process, with this read at hand?"""
    a = s.anticipatory[d]
    r = s.requests[ri]
    last = context_of(s, d, a.last_task)
    if s.tasks[r.task].ioc == s.tasks[a.last_task].ioc or s.tasks[a.last_task].state == T_DONE:
        return True
    if a.finished != 0 and ticks(s, a) - a.antic_start >= a.antic_expire:
        return True
    if last.queued > 0 or last.dispatched > 0 or is_close(s, a, last, r.sector):
        return True
    return last.ttime_mean > a.antic_expire


@jit
def is_close(s, a, last, sector):
    """Nearer than the last process's own reads are from each other, or than a limit that grows as it waits."""
    delta = CLOSE
    if a.status == WAIT_NEXT and a.finished != 0:
        delay = ticks(s, a) - a.antic_start
        if delay > a.longest_delay or delay > a.antic_expire:
            return True
        delta = CLOSE << delay
    ahead = sector - a.last_sector
    return -delta // 2 <= ahead <= delta or abs(ahead) < last.seek_mean


@jit
def completed(s, ri):
    """A read came back; if it was the last process's, the wait for its next one begins."""
    r = s.requests[ri]
    d = r.dev
    a = s.anticipatory[d]
    context = context_of(s, d, r.task)
    context.dispatched -= 1
    context.last_end = ticks(s, a)
    if a.last_task != NONE and s.tasks[r.task].ioc == s.tasks[a.last_task].ioc:
        a.finished = 1
        a.antic_start = ticks(s, a)
        if a.status == WAIT_REQ:
            wait_for_next(s, d)
    return s.lists[a.sorted_sync].count > 0 and a.status != WAIT_NEXT


@jit
def wait_for_next(s, d):
    """Keep the device for the last process."""
    a = s.anticipatory[d]
    a.status = WAIT_NEXT
    at = (a.antic_start + a.antic_expire) * a.jiffy
    idle_begin(s, d, a.last_task, IDLE_ANTIC, at)
    arm(s, d, T_IDLE, at)


@jit
def timer_fired(s, d):
    """It did not come; kblockd dispatches afterwards."""
    a = s.anticipatory[d]
    if a.status == WAIT_NEXT:
        idle_end(s, d, END_FIRED)
        a.status = FINISHED
