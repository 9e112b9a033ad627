"""The journal of a file system: one running transaction, one commit at a time, commits shared by all who wait.

Source: spec block-layer section 9. ext4's jbd2 and XFS's log worker are tasks like any other; what they do to the
device stands in their programs (`iosched/programs.py`), what they know of transactions stands here.
"""

from .codes import NONE, T_SLEEP, T_WAIT_PAGES
from .jit import jit
from .lists import push_back, remove
from .wakeups import wake, wake_first

TAGS_PER_DESCRIPTOR = 250  # metadata blocks that one 4 KiB descriptor block of jbd2 can name


@jit
def dirty(s, fi, bits):
    """The file's inode block, and the shared blocks of `bits`, join the running transaction."""
    f = s.files[fi]
    j = s.journals[f.journal]
    j.mask |= bits
    if f.tid != j.running:
        f.tid = j.running
        j.inodes += 1


@jit
def dirty_others(s, fi, blocks):
    """So many metadata blocks besides the file's own join the running transaction; they are the same ones each time."""
    j = s.journals[s.files[fi].journal]
    j.others = max(j.others, blocks)


@jit
def request_commit(s, ji, tid):
    """Ask for the commit of a transaction and wake the journal's task if it sleeps."""
    j = s.journals[ji]
    if j.requested < tid:
        j.requested = tid
        if s.tasks[j.task].state == T_SLEEP:
            wake(s, j.task)


@jit
def take_transaction(s, ji):
    """Lock the running transaction and open the next; its size is descriptor(s) plus one block a dirty buffer."""
    j = s.journals[ji]
    j.committing = j.running
    j.running += 1
    buffers = j.others + j.inodes
    bits = j.mask
    while bits != 0:
        bits &= bits - 1
        buffers += 1
    j.mask = 0
    j.inodes = 0
    j.others = 0
    j.blocks = buffers + (buffers + TAGS_PER_DESCRIPTOR - 1) // TAGS_PER_DESCRIPTOR
    j.sent = 0
    j.commits += 1


@jit
def is_logged(s, fi):
    """Is the file's inode block just being written to the log? Who wants to change it waits for that (recalled; the
    longest writes of the mixed rows are as long as a log write takes to get through the queues)."""
    f = s.files[fi]
    j = s.journals[f.journal]
    return j.logging != 0 and f.tid == j.committing


@jit
def writes_log(s, task):
    """Is this the journal's task, with log blocks under way?"""
    t = s.tasks[task]
    if t.journal == NONE:
        return False
    j = s.journals[t.journal]
    return j.logging != 0 and j.task == task


@jit
def wait_for_log(s, task, ji):
    """Put a writer in the list of those who wait for the log blocks."""
    push_back(s, s.journals[ji].writers, s.sim[0].first_task_node + task)


@jit
def log_written(s, ji):
    """The log blocks of the committing transaction are on the device."""
    j = s.journals[ji]
    j.logging = 0
    while s.lists[j.writers].count > 0:
        wake_first(s, j.writers)


@jit
def ordered_written(s, ji):
    """One file's ordered data is on the device: with the last one the commit goes on."""
    j = s.journals[ji]
    j.ordered_left -= 1
    if j.ordered_left == 0 and s.tasks[j.task].state == T_WAIT_PAGES:
        wake(s, j.task)


@jit
def log_place(s, ji, nr):
    """Where the next `nr` sectors of the log go; the log is a ring."""
    j = s.journals[ji]
    if j.head + nr > j.first + j.sectors:
        j.head = j.first
    place = j.head
    j.head += nr
    return place


@jit
def wait_for_commit(s, task, ji):
    """Put the task in the journal's wait list."""
    push_back(s, s.journals[ji].waiters, s.sim[0].first_task_node + task)


@jit
def commit_done(s, ji):
    """The transaction is on the device: wake everybody who waited for it or for an older one."""
    j = s.journals[ji]
    j.committed = j.committing
    n = s.lists[j.waiters].head
    first_task = s.sim[0].first_task_node
    while n != NONE:
        following = s.nodes[n].next
        task = n - first_task
        if s.files[s.tasks[task].file].tid <= j.committed:
            remove(s, n)
            wake(s, task)
        n = following
