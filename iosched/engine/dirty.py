"""The books of the page cache: which pages of a file are dirty, under writeback, or clean.

A file that is written in sequence, over its length again and again, needs three counters, not pages: pages dirtied,
taken by writeback, and cleaned since the run began. Between the last two lies what is under writeback, between the
first two what is dirty; counter modulo length is a place in the file. So memory does not grow with what is written.
The sums over the files stand in the row of the device (`caches`).
"""

from . import journal
from .clock import schedule
from .codes import EV_FLUSHER, F_BACKGROUND, NONE, PAGE, PAGE_SECTORS, T_SLEEP
from .jit import jit
from .wakeups import interrupt_work, wake


@jit
def dirty_pages(s, d, fi, start, end):
    """Bytes `start` to `end` of the file are written to; returns how many pages became dirty by it.

    A page is counted when its first byte is written. Where the whole file is dirty already, nothing is added.
    """
    f = s.files[fi]
    c = s.caches[d]
    pages = (end + PAGE - 1) // PAGE - (start + PAGE - 1) // PAGE
    pages = min(pages, f.length - (f.dirtied - f.taken))
    if pages > 0:
        if f.dirtied == f.taken:
            became_dirty(s, f)
        f.dirtied += pages
        c.dirtied += pages
        c.dirty += pages
        if c.dirty > c.background:
            wake_flushers(s, d)
    return pages


@jit
def became_dirty(s, f):
    """A clean file goes to the end of its flusher's list, and the flusher looks after it in five seconds."""
    f.dirty_since = s.sim[0].now
    w = s.flushers[f.flusher]
    to_the_end(s, w, f)
    keep_time(s, w, f.flusher)


@jit
def to_the_end(s, w, f):
    """The flusher comes to this file after all others."""
    w.turns += 1
    f.turn = w.turns


@jit
def keep_time(s, w, row):
    """Arm the flusher's periodic timer, unless it runs or dirty_writeback_centisecs is 0."""
    interval = s.caches[w.dev].interval
    if w.timer == 0 and interval > 0:
        w.timer = 1
        schedule(s, s.sim[0].now + interval, EV_FLUSHER, row)


@jit
def timer_fired(s, row):
    """Time to write what has been dirty too long."""
    w = s.flushers[row]
    w.timer = 0
    w.periodic = 1
    if s.tasks[w.task].state == T_SLEEP:
        wake(s, w.task)


@jit
def wake_flushers(s, d):
    """Too much is dirty: whoever of the flushers sleeps begins."""
    for row in range(s.caches[d].flushers):
        task = s.flushers[row].task
        if s.tasks[task].state == T_SLEEP:
            wake(s, task)


@jit
def take_pages(s, d, fi, pages):
    """Writeback of so many pages of the file has begun."""
    f = s.files[fi]
    c = s.caches[d]
    f.taken += pages
    c.dirty -= pages
    c.writeback += pages


@jit
def bio_done(s, d, fi, sectors, flags):
    """Pages are on the device: wake who waits for them, a writer in fsync or a commit with ordered data.

    The interrupt's CPU of an fsync's own pages is part of what an fsync costs (`Host.ext4_us`)."""
    f = s.files[fi]
    c = s.caches[d]
    pages = sectors // PAGE_SECTORS
    before = f.cleaned
    f.cleaned += pages
    c.writeback -= pages
    c.written += pages
    if flags & F_BACKGROUND != 0:
        interrupt_work(s, pages * c.written_ns)
    if f.waiter != NONE and f.cleaned >= f.awaited:
        task = f.waiter
        f.waiter = NONE
        wake(s, task)
    if before < f.ordered <= f.cleaned:
        journal.ordered_written(s, f.journal)
