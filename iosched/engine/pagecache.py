"""Buffered writes and who writes them back: the writer, the flusher, fsync, a commit with ordered data.

The flusher is a kernel worker. It writes while more than the background threshold is dirty, and every
dirty_writeback_centisecs what has been dirty for longer than dirty_expire_centisecs: file by file in the order in which
they became dirty, a chunk each, under one plug. Source: spec block-layer sections 9 and 10.
"""

from . import block, files, journal, throttle, wbt
from .clock import schedule
from .codes import (
    EV_COMMIT,
    EV_TASK,
    F_BACKGROUND,
    NONE,
    PAGE,
    PAGE_SECTORS,
    T_SLEEP,
    T_WAIT_COMMIT,
    T_WAIT_PAGES,
    T_YIELDED,
    WRITE,
)
from .dirty import dirty_pages, keep_time, take_pages, to_the_end
from .jit import jit
from .places import extent_end, place_of
from .pool import wait_list
from .wakeups import compute, wake_first

CHUNK = 1024  # pages: a chunk is a multiple of 4 MiB
BIOS_A_TURN = 256
SLICE = 750_000  # ns: how long a writer or the flusher computes before others like it have the processor


# ---------------------------------------------------------------------------------------------------------------------
# the writer


@jit
def cached_write(s, task, nbytes):
    """write(2) of `nbytes` into the page cache. True when it returns; until then the task computes, or is held.

    The first page's CPU is that of the write itself. CPU time is owed and paid a slice at a time, so that a write of a
    page costs no event: the task's own clock is ahead of the run's by what it owes.
    """
    t = s.tasks[task]
    f = s.files[t.file]
    c = s.caches[t.dev]
    if t.writing == 0:
        if journal.is_logged(s, t.file):
            if t.owed > 0:
                pay(s, task)
            else:
                t.state = T_WAIT_COMMIT
                journal.wait_for_log(s, task, f.journal)
            return False
        t.writing = 1
        t.copying = nbytes
        t.copied_free = PAGE
        files.dirty_inode(s, t.file)
        promise_commit(s, f.journal)
    while True:
        if t.owed >= SLICE:
            pay(s, task)
            return False
        if t.dirtied >= t.dirty_share and not throttle.balance(s, task):
            return False
        if t.copying == 0:
            t.writing = 0
            return True
        size = min(t.copying, max(t.dirty_share - t.dirtied, 1) * PAGE)
        if c.dirty_ns > 0:
            size = min(size, max(SLICE // c.dirty_ns, 1) * PAGE)
        t.dirtied += dirty_pages(s, t.dev, t.file, f.position, f.position + size)
        f.position += size
        t.copying -= size
        t.owed += c.dirty_ns * max(size - t.copied_free, 0) // PAGE
        t.copied_free = 0


@jit
def pay(s, task):
    """Compute for as long as the task owes."""
    t = s.tasks[task]
    t.state = T_YIELDED
    compute(s, task, t.owed)
    t.owed = 0


@jit
def promise_commit(s, ji):
    """The running transaction is committed within the file system's commit interval (ext4: 5 s)."""
    j = s.journals[ji]
    if j.interval > 0 and j.timer == 0 and j.inodes > 0:
        j.timer = 1
        schedule(s, s.sim[0].now + j.interval, EV_COMMIT, ji)


@jit
def commit_due(s, ji):
    """The interval is over: commit what there is."""
    j = s.journals[ji]
    j.timer = 0
    if j.inodes > 0:
        journal.request_commit(s, ji, j.running)


# ---------------------------------------------------------------------------------------------------------------------
# writing back


@jit
def send_pages(s, task, fi, most, flags):
    """Submit the file's next dirty pages, at most so many, as one bio. Returns how many, or NONE if the task must wait
    for a request."""
    t = s.tasks[task]
    f = s.files[fi]
    start = f.taken % f.length
    pages = min(min(most, s.caches[t.dev].bio_pages), min(f.dirtied - f.taken, f.length - start))
    j = s.journals[f.journal]
    new = f.delayed != 0 and f.taken < f.length
    if new and journal.is_logged(s, fi):
        wbt.hand_back(s, task)
        block.unplug(s, t.dev, task)
        t.state = T_WAIT_COMMIT
        journal.wait_for_log(s, task, f.journal)
        lst = wait_list(s, t.dev, t.group, WRITE, flags)
        if s.lists[lst].count > 0:  # it may have been woken for a free request, which it does not take
            wake_first(s, lst)
        return NONE
    if new:
        pages = files.reserve_blocks(j, f, pages)
        place = f.place
    else:
        pages = min(pages, max((extent_end(f, start * PAGE) - start * PAGE) // PAGE, 1))
        place = place_of(f, start * PAGE)
    t.cleaning = fi
    sent = block.submit_bio(s, t.dev, task, WRITE, place, pages * PAGE_SECTORS, flags)
    t.cleaning = NONE
    if not sent:
        return NONE
    if new:
        f.place += pages * PAGE_SECTORS
        f.room -= pages
        files.allocate_blocks(s, fi, (f.taken + pages) * PAGE)
        promise_commit(s, f.journal)
    take_pages(s, t.dev, fi, pages)
    return pages


@jit
def writeback(s, task):
    """What a flusher does whenever it runs: bio after bio, until there is nothing to do and it sleeps."""
    t = s.tasks[task]
    w = s.flushers[t.flusher]
    c = s.caches[t.dev]
    turn = 0
    while True:
        if w.left > 0 and s.files[w.file].dirtied == s.files[w.file].taken:
            w.left = 0
        if w.left == 0 and not next_chunk(s, t.dev, w):
            t.plugged = 0
            wbt.hand_back(s, task)
            block.unplug(s, t.dev, task)
            if t.owed > 0:
                pay(s, task)
                return
            if oldest(s, t.flusher, 0) != NONE:
                keep_time(s, w, t.flusher)
            t.state = T_SLEEP
            return
        if t.owed >= SLICE:
            pay(s, task)
            return
        t.plugged = 1
        f = s.files[w.file]
        wanted = min(min(w.left, c.bio_pages), f.dirtied - f.taken)
        t.owed += c.clean_ns * max(wanted - w.paid, 0)
        w.paid = max(w.paid, wanted)
        turn += 1
        if turn > BIOS_A_TURN:
            t.state = T_YIELDED
            schedule(s, s.sim[0].now, EV_TASK, task)
            return
        sent = send_pages(s, task, w.file, wanted, F_BACKGROUND)
        if sent == NONE:
            return
        w.left -= sent
        w.paid = max(w.paid - sent, 0)


@jit
def next_chunk(s, d, w):
    """Choose the file to go on with, and how many of its pages: half a second's worth of the device, at most an eighth
    of the limit, in units of 4 MiB. False: nothing to do."""
    throttle.update_rates(s, d, False)
    c = s.caches[d]
    row = s.tasks[w.task].flusher
    fi = NONE
    if c.dirty > c.background:
        fi = oldest(s, row, 0)
    elif w.periodic != 0:
        fi = oldest(s, row, s.sim[0].now - c.expire)
        if fi == NONE:
            w.periodic = 0
    if fi == NONE:
        return False
    f = s.files[fi]
    w.file = fi
    w.left = (min(c.average // 2, c.limit // 8) + CHUNK) // CHUNK * CHUNK
    if f.dirtied - f.taken <= w.left:
        f.dirty_since = s.sim[0].now
    to_the_end(s, w, f)
    return True


@jit
def oldest(s, row, until):
    """The flusher's dirty file whose turn it is, among those dirty since `until` or longer (0: all); NONE if none."""
    found = NONE
    for fi in range(s.sim[0].n_files):
        f = s.files[fi]
        if f.flusher == row and f.dirtied > f.taken and (until == 0 or f.dirty_since <= until):
            if found == NONE or f.turn < s.files[found].turn:
                found = fi
    return found


@jit
def sync_pages(s, task, flags):
    """The data part of fsync: what is still dirty, as WRITE|SYNC in the caller's context. True when all is sent."""
    t = s.tasks[task]
    f = s.files[t.file]
    turn = 0
    while f.dirtied > f.taken:
        turn += 1
        if turn > BIOS_A_TURN:
            t.state = T_YIELDED
            schedule(s, s.sim[0].now, EV_TASK, task)
            return False
        if send_pages(s, task, t.file, f.dirtied - f.taken, flags) == NONE:
            return False
    wbt.hand_back(s, task)
    return True


@jit
def wait_for_pages(s, task):
    """Sleep until all that is under writeback now is on the device, whoever sent it. True if nothing is."""
    t = s.tasks[task]
    f = s.files[t.file]
    if f.cleaned == f.taken:
        return True
    f.waiter = task
    f.awaited = f.taken
    t.state = T_WAIT_PAGES
    return False


# ---------------------------------------------------------------------------------------------------------------------
# ordered data


@jit
def note_ordered(s, ji):
    """A transaction is locked: data of its new blocks that is under way, by writeback or in somebody's fsync, must be
    on the device before its commit block (data=ordered). Clients of a load file (dbench) are left out: with them some
    rows of real kernels come nearer and others, and published ones, go away; why is not known."""
    j = s.journals[ji]
    j.ordered_left = 0
    for fi in range(s.sim[0].n_files):
        f = s.files[fi]
        if f.delayed != 0 and f.journal == ji and f.tid == j.committing and f.cleaned < f.taken:
            f.ordered = f.taken
            j.ordered_left += 1
    for i in range(s.sim[0].n_tasks):
        t = s.tasks[i]
        if t.outstanding > 0 and t.file != NONE and t.n_steps == 0:
            f = s.files[t.file]
            if f.journal == ji and f.delayed == 0 and f.ordered_tid == j.committing:
                t.ordered = 1
                j.ordered_left += 1


@jit
def wait_for_ordered(s, task):
    """jbd2 sleeps until the ordered data is there. True if there is none left."""
    t = s.tasks[task]
    if s.journals[t.journal].ordered_left == 0:
        return True
    block.unplug(s, t.dev, task)
    t.state = T_WAIT_PAGES
    return False
