"""deadline (legacy path) and mq-deadline (blk-mq), with the priority classes of mq-deadline since 5.14.

Source: spec block-layer section 4. Reads against writes, not sync against async: an fsync's data is a write here.
`s.deadline` has one row a device, `s.deadline_class` three a device (BE, RT, IDLE in the engine's numbering), of which
kernels before 5.14 and legacy deadline use the first alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.codes import MSEC, NONE, READ, WRITE
from ..engine.columns import columns
from ..engine.jit import jit
from ..engine.lists import insert_sorted, push_back, remove
from ..knobs import check, knob, named

BE, RT, IDLE = 0, 1, 2
CLASSES = 3

DEVICE_COLUMNS = columns(
    "read_expire write_expire writes_starved fifo_batch front_merges prio_aging_expire classes last_dir batching "
    "starved"
)
CLASS_COLUMNS = columns("sorted_read sorted_write fifo_read fifo_write next_read next_write pending queued")


@named
@dataclass(frozen=True)
class Deadline:
    """Legacy deadline's tunables (4.3), kernels before 5.0.

    >>> Deadline(writes_starved=1).fifo_batch
    16
    """

    read_expire: float = knob(500, "deadline of a read", "ms", 0, 2**31, sysfs="read_expire")
    write_expire: float = knob(5000, "deadline of a write", "ms", 0, 2**31, sysfs="write_expire")
    writes_starved: int = knob(2, "read batches before a write batch", "batches", -(2**31), 2**31, integer=True,
                               sysfs="writes_starved")  # fmt: skip
    fifo_batch: int = knob(16, "requests a batch", "requests", 0, 2**31, integer=True, sysfs="fifo_batch")
    front_merges: bool = knob(True, "look for front merges", sysfs="front_merges")

    def __post_init__(self) -> None:
        check(self, "scheduler.")

    def fill(self, s, d: int, priority_classes: bool) -> None:
        """Write the tunables of device `d` into the engine's tables."""
        dl = s.deadline[d]
        dl.read_expire = round(self.read_expire * MSEC)
        dl.write_expire = round(self.write_expire * MSEC)
        dl.writes_starved = self.writes_starved
        dl.fifo_batch = self.fifo_batch
        dl.front_merges = int(self.front_merges)
        dl.classes = int(priority_classes)
        dl.last_dir = WRITE


@named
@dataclass(frozen=True)
class MqDeadline(Deadline):
    """mq-deadline's tunables (4.3); prio_aging_expire and the priority classes exist since 5.14.

    >>> MqDeadline().read_expire
    500
    """

    prio_aging_expire: float | None = knob(None, "age at which a lower class is served after all (10000)", "ms", 0,
                                           2**31, optional=True, sysfs="prio_aging_expire")  # fmt: skip

    def fill(self, s, d: int, priority_classes: bool) -> None:
        """As for deadline, and the aging of lower classes."""
        super().fill(s, d, priority_classes)
        age = 10_000 if self.prio_aging_expire is None else self.prio_aging_expire
        s.deadline[d].prio_aging_expire = round(age * MSEC)


@jit
def class_of(s, ri):
    """Row of `deadline_class` for a request; one class for all before 5.14 (4.2)."""
    r = s.requests[ri]
    if s.deadline[r.dev].classes == 0:
        return r.dev * CLASSES
    return r.dev * CLASSES + s.tasks[r.task].ioclass


@jit
def sorted_list(row, op):
    """The sector-ordered list of a direction."""
    return row.sorted_read if op == READ else row.sorted_write


@jit
def fifo_list(row, op):
    """The arrival-ordered list of a direction."""
    return row.fifo_read if op == READ else row.fifo_write


@jit
def merge_list(s, d, task, op):
    """Sorted list in which a new bio may find a request to join."""
    ioclass = s.tasks[task].ioclass if s.deadline[d].classes != 0 else BE
    return sorted_list(s.deadline_class[d * CLASSES + ioclass], op)


@jit
def insert(s, ri):
    """Into the sector list and the fifo of its direction, with its deadline (4.1)."""
    r = s.requests[ri]
    dl = s.deadline[r.dev]
    i = class_of(s, ri)
    r.queue = i
    row = s.deadline_class[i]
    r.fifo_time = s.sim[0].now + (dl.read_expire if r.op == READ else dl.write_expire)
    push_back(s, fifo_list(row, r.op), 2 * ri + 1)
    insert_sorted(s, sorted_list(row, r.op), 2 * ri, r.sector)
    row.pending += 1
    row.queued += 1


@jit
def withdraw(s, ri):
    """Take a pending request out; its sector successor is next in its direction (4.1)."""
    r = s.requests[ri]
    row = s.deadline_class[r.queue]
    after = s.nodes[2 * ri].next
    if r.op == READ and row.next_read == ri:
        row.next_read = after >> 1 if after != NONE else NONE
    elif r.op == WRITE and row.next_write == ri:
        row.next_write = after >> 1 if after != NONE else NONE
    remove(s, 2 * ri)
    remove(s, 2 * ri + 1)
    row.pending -= 1


@jit
def request_grew(s, ri, front):
    """After a front merge the request's place has changed."""
    if front:
        r = s.requests[ri]
        remove(s, 2 * ri)
        insert_sorted(s, sorted_list(s.deadline_class[r.queue], r.op), 2 * ri, r.sector)


@jit
def merged_away(s, ri):
    """A pending request was merged into its neighbour: it will never complete by itself."""
    s.deadline_class[s.requests[ri].queue].queued -= 1


@jit
def dispatch(s, d):
    """One request (4.1, 4.2): aged lower classes first, then the highest class that has anything outstanding."""
    dl = s.deadline[d]
    if dl.classes == 0:
        return dispatch_class(s, d, d * CLASSES)
    now = s.sim[0].now
    busy = 0
    for i in range(CLASSES):
        if s.deadline_class[d * CLASSES + i].queued > 0:
            busy += 1
    if busy >= 2:
        for i in (BE, IDLE):
            ri = aged_request(s, d * CLASSES + i, now - dl.prio_aging_expire, dl)
            if ri != NONE:
                return take(s, ri)
    for i in (RT, BE, IDLE):
        row = s.deadline_class[d * CLASSES + i]
        ri = dispatch_class(s, d, d * CLASSES + i)
        if ri != NONE or row.queued > 0:
            return ri
    return NONE


@jit
def aged_request(s, i, latest, dl):
    """Oldest request of a class that was inserted at or before `latest`, reads first."""
    row = s.deadline_class[i]
    head = s.lists[row.fifo_read].head
    if head != NONE and s.requests[head >> 1].fifo_time - dl.read_expire <= latest:
        return head >> 1
    head = s.lists[row.fifo_write].head
    if head != NONE and s.requests[head >> 1].fifo_time - dl.write_expire <= latest:
        return head >> 1
    return NONE


@jit
def dispatch_class(s, d, i):
    """Go on with the batch, or choose a direction and where to start in it (4.1)."""
    dl = s.deadline[d]
    row = s.deadline_class[i]
    if row.pending == 0:
        return NONE
    following = row.next_read if dl.last_dir == READ else row.next_write
    if following != NONE and dl.batching < dl.fifo_batch:
        dl.batching += 1
        return take(s, following)
    reads = s.lists[row.fifo_read].count > 0
    writes = s.lists[row.fifo_write].count > 0
    direction = READ
    if reads:
        if writes:
            if dl.starved >= dl.writes_starved:
                direction = WRITE
            dl.starved += 1
    else:
        direction = WRITE
    if direction == WRITE:
        dl.starved = 0
    following = row.next_read if direction == READ else row.next_write
    oldest = s.lists[fifo_list(row, direction)].head >> 1
    if following == NONE or s.sim[0].now >= s.requests[oldest].fifo_time:
        following = oldest
    dl.last_dir = direction
    dl.batching = 1
    return take(s, following)


@jit
def take(s, ri):
    """Dispatch the request; the one after it by sector becomes next_rq of its direction."""
    r = s.requests[ri]
    row = s.deadline_class[r.queue]
    if r.op == READ:
        row.next_read = ri
    else:
        row.next_write = ri
    withdraw(s, ri)
    return ri


@jit
def completed(s, ri):
    """The class has one request less outstanding (4.2): a lower class that waited for that may go now."""
    r = s.requests[ri]
    s.deadline_class[r.queue].queued -= 1
    return s.deadline[r.dev].classes != 0 and s.devices[r.dev].queued > 0
