"""How a task reads its piece of a shared file: through a page cache that all tasks share, or past it.

Read-ahead is kept with the open file: tasks that share it carry on one another's windows, tasks with files of their own
each see a stream with gaps. Source: spec block-layer section 10; the history of a page that is missed in the middle of
a stream (`context`, since 2.6.31) is recalled.
"""

from . import block
from .codes import F_RAHEAD, NONE, PAGE, PAGE_SECTORS, READ, T_WAIT_READ
from .jit import jit
from .pieces import IN_FLIGHT, MARKED, UPTODATE
from .places import place_of
from .pool import wait_list
from .wakeups import compute_behind, wake_first
from .windows import first_size, next_size

PAGES_A_BURST = 32  # pages that are found, or copied, in one go of the processor


@jit
def through_cache(s, task):
    """read(2) of the task's piece. True when its bytes are copied."""
    t = s.tasks[task]
    m = s.teams[t.team]
    w = s.windows[t.window]
    while True:
        if t.sent_to < t.send_to:
            if not send(s, task):
                return False
            continue
        if t.read_at >= t.read_to:
            w.prev = (t.read_to - 1) // PAGE
            return True
        page = t.read_at // PAGE
        row = s.pages[m.first_page + page]
        last = (t.read_to + PAGE - 1) // PAGE
        if row.n == 0:
            missing(s, task, m, w, page, last - page)
        elif row.n & MARKED:
            row.n &= ~MARKED
            marked(s, task, m, w, page, last - page)
        elif row.n & UPTODATE:
            if copy(s, task, page, last):
                return False
        else:
            t.awaited = m.first_page + page
            t.state = T_WAIT_READ
            return False


@jit
def copy(s, task, page, last):
    """Copy the pages that are there. True when that takes time."""
    t = s.tasks[task]
    m = s.teams[t.team]
    stop = page
    while stop < last and stop < page + PAGES_A_BURST and s.pages[m.first_page + stop].n == UPTODATE:
        stop += 1
    t.read_at = min(stop * PAGE, t.read_to)
    if m.copy_ns == 0:
        return False
    compute_behind(s, task, m.copy_ns * (stop - page))
    return True


@jit
def missing(s, task, m, w, page, wanted):
    """A page that is not there: the next window where one was expected, a first window at the beginning of a stream,
    what the pages before it say, or only what was asked for."""
    if page == w.end and w.end > 0:
        following(s, task, m, w)
    elif page == 0 or wanted > m.pages or (page >= w.prev and page - w.prev <= 1):
        first(s, task, m, w, page, wanted)
    elif m.context == 0 or not history(s, task, m, w, page, wanted):
        open_window(s, task, m, page, page + wanted, NONE)


@jit
def marked(s, task, m, w, page, wanted):
    """The page with the marker is reached: the window after the last one, or, for another's marker, one behind what is
    cached from here on."""
    if page == w.marker or page == w.end:
        following(s, task, m, w)
        return
    stop = page + 1
    while stop * PAGE < m.length and stop - page <= m.pages and s.pages[m.first_page + stop].n != 0:
        stop += 1
    if stop - page > m.pages or stop * PAGE >= m.length:
        return
    size = next_size(stop - page + wanted, m.pages)
    enter(s, task, m, w, stop, size, size)


@jit
def first(s, task, m, w, page, wanted):
    """The first window of a stream: what is asked for, and some ahead."""
    if m.context == 0:
        wanted = min(wanted, m.pages)  # a kernel of that time reads no larger window
    size = first_size(wanted, max(m.pages, wanted))
    enter(s, task, m, w, page, size, size - wanted if size > wanted else size)


@jit
def following(s, task, m, w):
    """The window behind the last one."""
    size = next_size(w.end - w.begin, m.pages)
    enter(s, task, m, w, w.end, size, size)


@jit
def history(s, task, m, w, page, wanted):
    """Pages cached right before a miss make it part of a stream: a window as long as they are. False: there are not
    more of them than are asked for."""
    n = 0
    while n < m.pages and page - n > 0 and s.pages[m.first_page + page - n - 1].n != 0:
        n += 1
    if n <= wanted:
        return False
    if n >= page:
        n *= 2
    enter(s, task, m, w, page, min(n + wanted, m.pages), 1)
    return True


@jit
def enter(s, task, m, w, begin, size, ahead):
    """A new window of the open file; the page `ahead` pages before its end carries the marker."""
    w.begin = begin
    w.end = begin + size
    w.marker = w.end - ahead
    open_window(s, task, m, begin, w.end, w.marker)


@jit
def open_window(s, task, m, begin, end, marker):
    """The pages that `send` submits now, as far as the file goes: those that nobody else has read or claimed."""
    t = s.tasks[task]
    t.sent_to = begin
    t.paid = NONE
    t.send_to = min(end, (m.length + PAGE - 1) // PAGE)
    t.marker = marker


@jit
def send(s, task):
    """Find memory for the pages of the window that nobody has read or asked for, then send them, a bio at a time; from
    then on others see them. True when there are no more."""
    t = s.tasks[task]
    m = s.teams[t.team]
    while t.sent_to < t.send_to:
        p = t.sent_to
        if s.pages[m.first_page + p].n != 0:
            t.sent_to += 1
            continue
        sector = place_of(s.files[t.file], p * PAGE)
        most = min(t.send_to - p, room_in_bio(s, m, sector) // PAGE_SECTORS)
        n = 1
        while n < most and s.pages[m.first_page + p + n].n == 0:
            n += 1
        if t.paid == NONE:
            t.paid = p
            if m.ahead_ns > 0:
                compute_behind(s, task, m.ahead_ns * missing_pages(s, m, p, t.send_to))
                return False
        if t.paid < p + n:
            t.paid = p + n
            if m.bio_ns > 0:
                compute_behind(s, task, m.bio_ns)
                return False
        d = disk_of(s, m, sector)
        t.reading = m.first_page + p
        sent = block.submit_bio(s, d, task, READ, sector_on(m, sector), n * PAGE_SECTORS, F_RAHEAD)
        t.reading = NONE
        if not sent:
            t.waited = d + 1
            return False
        t.waited = 0
        s.devices[d].head_at = sector + n * PAGE_SECTORS
        for k in range(p, p + n):
            s.pages[m.first_page + k].n = IN_FLIGHT | (MARKED if k == t.marker else 0)
        t.sent_to = p + n
    if t.waited > 0:
        hand_on(s, t)
    return True


@jit
def missing_pages(s, m, begin, end):
    """How many pages of the window nobody has read or asked for."""
    n = 0
    for p in range(begin, end):
        if s.pages[m.first_page + p].n == 0:
            n += 1
    return n


@jit
def hand_on(s, t):
    """The request for which the task was woken is not needed any more: others have asked for its pages."""
    lst = wait_list(s, t.waited - 1, t.group, READ, 0)
    t.waited = 0
    if s.lists[lst].count > 0:
        wake_first(s, lst)


@jit
def direct(s, task):
    """O_DIRECT: the piece straight from the disks, in bios as large as they take. True when all is submitted."""
    t = s.tasks[task]
    m = s.teams[t.team]
    while t.read_at < t.read_to:
        sector = place_of(s.files[t.file], t.read_at)
        nr = min((t.read_to - t.read_at) // 512, room_in_bio(s, m, sector))
        d = disk_of(s, m, sector)
        if not block.submit_bio(s, d, task, READ, sector_on(m, sector), nr, 0):
            return False
        s.devices[d].head_at = sector + nr
        t.read_at += nr * 512
    return True


# ---------------------------------------------------------------------------------------------------------------------
# one disk, or a pair

SINGLE, STRIPED, MIRRORED = 0, 1, 2


@jit
def room_in_bio(s, m, sector):
    """Sectors that a bio from here on may have."""
    room = s.devices[0].max_sectors
    if m.bio_sectors > 0:
        room = min(room, m.bio_sectors)
    if m.layout == STRIPED:
        room = min(room, m.stripe_sectors - sector % m.stripe_sectors)
    return room


@jit
def disk_of(s, m, sector):
    """Which disk reads a sector of the volume: its stripe's, or of a mirror's the one whose last read ended nearest."""
    if m.layout == STRIPED:
        return sector // m.stripe_sectors % m.disks
    best = 0
    if m.layout == MIRRORED:
        for d in range(1, m.disks):
            if abs(s.devices[d].head_at - sector) < abs(s.devices[best].head_at - sector):
                best = d
    return best


@jit
def sector_on(m, sector):
    """Where that is on the disk."""
    if m.layout != STRIPED:
        return sector
    row = sector // m.stripe_sectors
    return row // m.disks * m.stripe_sectors + sector % m.stripe_sectors
