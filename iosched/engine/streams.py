"""fio-like streams: where the next operation goes, and reading through the page cache with its readahead.

No page is found in the cache twice (fio invalidates it, and its files are larger than memory); what a buffered
sequential reader finds there is what readahead brought. Source: spec block-layer section 10, traps 20 and 28.
"""

from . import block, iolatency, slots
from .codes import F_RAHEAD, NONE, PAGE, PAGE_SECTORS, READ, T_WAIT_SLOT
from .jit import jit
from .places import extent_end, place_of
from .wakeups import compute_behind
from .windows import first_size, next_size

PAGES_A_BURST = 4  # after so many pages another task may have the processor
MULTIPLIER, MODULUS = 48_271, 2_147_483_647  # Park and Miller's generator: no product leaves 64 bits


@jit
def draw(st, n):
    """A number from 0 to n - 1, n below 2**60, from the stream's own generator."""
    st.generator = st.generator * MULTIPLIER % MODULUS
    high = st.generator - 1
    st.generator = st.generator * MULTIPLIER % MODULUS
    return (high * (MODULUS - 1) + st.generator - 1) % n


@jit
def next_place(s, task):
    """Put the file's position where the next operation goes: 0. Else how long (ns) its rate makes it wait, or NONE when
    the stream is over."""
    t = s.tasks[task]
    st = s.streams[t.stream]
    f = s.files[t.file]
    now = s.sim[0].now
    if now >= t.stop_at or t.left == 0:
        return NONE
    if st.due > now:
        return min(st.due, t.stop_at) - now
    t.left -= 1
    if st.interval > 0:
        st.due += st.interval
    if st.nrfiles > 1:
        f = next_file(s, task, st)
    if st.random != 0:
        f.position = draw(st, st.length // st.step) * st.step // st.grain * st.grain
        f.mapped_to = min(f.mapped_to, f.position)
    elif f.position + st.step > st.length:
        f.position = st.end = st.sent = st.allocated = 0
    else:
        return 0
    f.dirty_from = f.dirty_to = f.position
    return 0


@jit
def next_file(s, task, st):
    """Files take turns, an operation each: the task's own, then the stream's others."""
    t = s.tasks[task]
    t.file = task if st.next_file == 0 else st.more_files + st.next_file - 1
    st.next_file = (st.next_file + 1) % st.nrfiles
    return s.files[t.file]


@jit
def buffered_read(s, task, nbytes):
    """read(2) through the page cache, a window's worth of pages a step. True when the bytes are copied.

    The page with the marker starts the next window before anything is waited for, so that a reader which waits for one
    window has the next in flight. A cgroup that io.latency holds at its lowest depth reads page by page (recalled; a
    real 4.19 with a target of 200 us sends 5,000 whole windows in four seconds, and 6,000 single pages at their end).
    """
    t = s.tasks[task]
    st = s.streams[t.stream]
    f = s.files[t.file]
    if st.reading == 0:
        st.reading = 1
        st.left = nbytes
    while True:
        if st.allocated < st.end and st.ahead_ns > 0:
            pages = min(st.end - st.allocated, PAGES_A_BURST)
            st.allocated += pages
            compute_behind(s, task, st.ahead_ns * pages)
            return False
        if st.sent < st.end and not send_window(s, task):
            return False
        if st.left == 0:
            st.reading = 0
            return True
        page = f.position // PAGE
        if page >= st.end:
            if iolatency.congested(s, t.dev, t.group):
                open_window(s, st, page, 1, 0)
            else:
                first_window(s, st, page, (st.left + f.position % PAGE + PAGE - 1) // PAGE)
            continue
        if page == st.marker:
            st.marker = NONE
            if not iolatency.congested(s, t.dev, t.group):
                next_window(s, st)
            continue
        slot = st.first_slot + st.window
        if page < st.begin:
            slot = st.first_slot + 1 - st.window
        if s.slots[slot].left > 0:
            t.awaited = slot
            t.state = T_WAIT_SLOT
            return False
        stop = s.slots[slot].end
        if page < st.marker < stop:
            stop = st.marker
        size = min(st.left, stop * PAGE - f.position)
        f.position += size
        st.left -= size
        if st.copy_ns > 0:
            compute_behind(s, task, st.copy_ns * size // PAGE)
            return False


@jit
def first_window(s, st, page, wanted):
    """A page that is not there, at the start of a sequence: the pages asked for, and some ahead."""
    size = first_size(wanted, max(st.pages, wanted))
    ahead = size - wanted if size > wanted else size
    open_window(s, st, page, size, ahead)


@jit
def next_window(s, st):
    """The marked page is reached: the window after the last one, twice as large up to the limit."""
    size = st.end - st.begin
    size = next_size(size, max(size, st.pages))
    open_window(s, st, st.end, size, size)


@jit
def open_window(s, st, begin, size, ahead):
    """The window that `send_window` submits now; the page `ahead` pages before its end carries the marker."""
    st.begin = st.sent = st.allocated = begin
    st.end = min(begin + size, (st.length + PAGE - 1) // PAGE)
    st.window = 1 - st.window
    st.marker = begin + size - ahead
    if st.end * PAGE >= st.length:
        st.marker = NONE


@jit
def send_window(s, task):
    """Submit what is left of the window, in bios as large as the device takes. True when all is submitted."""
    t = s.tasks[task]
    st = s.streams[t.stream]
    f = s.files[t.file]
    slot = st.first_slot + st.window
    if t.slot == NONE:
        s.slots[slot].end = st.end
        slots.open_slot(s, task, slot)
    while st.sent < st.end:
        place = st.sent * PAGE
        nbytes = min(st.end * PAGE, extent_end(f, place)) - place
        nr = min(nbytes // 512, s.devices[t.dev].max_sectors // PAGE_SECTORS * PAGE_SECTORS)
        if not block.submit_bio(s, t.dev, task, READ, place_of(f, place), nr, F_RAHEAD):
            return False
        st.sent += nr // PAGE_SECTORS
    slots.close_slot(s, task)
    return True
