"""Tasks run little programs: rows of (code, a, b), so that a new workload needs no new compiled code.

A task runs until it has to wait (for I/O, a commit, a free request, a processor), and goes on when it is woken. An
operation that may have to be tried again (no free request) leaves the program counter where it is and keeps its
progress in the file or the journal.
"""

from . import block, iolatency, journal, pagecache, piece_reads, pieces, slots, streams
from .clock import schedule
from .codes import (
    E_BAD_OP,
    EV_TASK,
    F_IDLE,
    F_META,
    F_PREFLUSH,
    F_SYNC,
    FLUSH,
    HISTOGRAM_BINS,
    META_BLOCK_BITMAP,
    META_DIRECTORY,
    META_GROUP_DESC,
    META_INODE_BITMAP,
    NEVER,
    NONE,
    OP_BUFFERED_READ,
    OP_BUFFERED_WRITE,
    OP_CACHED_WRITE,
    OP_COMMIT,
    OP_CPU,
    OP_DIRECT_READ,
    OP_DIRECT_WRITE,
    OP_END,
    OP_EXIT,
    OP_FLUSH,
    OP_JUMP,
    OP_LOG_BLOCKS,
    OP_LOG_COMMIT_BLOCK,
    OP_LOG_DONE,
    OP_LOG_ORDERED,
    OP_LOG_SLEEP,
    OP_LOG_TAKE,
    OP_LOG_WRITE,
    OP_LOOP,
    OP_NEXT_IO,
    OP_NEXT_STEP,
    OP_OWE,
    OP_PAUSE,
    OP_PIECE_DIRECT,
    OP_PIECE_READ,
    OP_PLUG,
    OP_READ_BLOCK,
    OP_READ_PAGE,
    OP_REPLY,
    OP_SKIP,
    OP_SKIP_IF_CLEAN,
    OP_SKIP_UNLESS_NTH,
    OP_START,
    OP_STEP_WRITE,
    OP_SUBMITTED,
    OP_SYNC_PAGES,
    OP_TAKE_PIECE,
    OP_TAKE_SLOT,
    OP_UNPLUG,
    OP_WAIT,
    OP_WAIT_PAGES,
    OP_WRITE_PAGES,
    OP_WRITEBACK,
    PAGE,
    PAGE_SECTORS,
    READ,
    SEC,
    T_DONE,
    T_READY,
    T_SLEEP,
    T_WAIT_COMMIT,
    T_WAIT_IO,
    T_WAIT_SLOT,
    T_YIELDED,
    TR_OP_END,
    TR_OP_START,
    WRITE,
)
from .files import allocate_blocks, dirty_inode
from .iowait import enter_io_wait, leave_io_wait, waits_for_io
from .jit import jit
from .places import extent_end, place_of
from .trace import record
from .wakeups import compute

OTHER_BLOCKS = 3  # metadata blocks of other files' changes since the flush before: the log writes of a real 5.6.4 after
# new files hold 7 to 10 blocks besides the descriptor, mostly 8, of which 5 are the flushed file's own
OPS_A_TURN = 512  # operations that a task may run without waiting before the event loop has its turn
BIOS_A_TURN = 256  # and bios that one operation may submit

HISTOGRAM_SUB = 6  # bits: each power of two of latency has 64 bins, as in fio, so that a percentile is known to 0.8 %


@jit
def latency_bin(ns):
    """Bin of a latency in the logarithmic histogram."""
    exponent = 0
    while (ns >> exponent) >= (2 << HISTOGRAM_SUB):
        exponent += 1
    return exponent * (1 << HISTOGRAM_SUB) + (ns >> exponent)


@jit
def run_task(s, task):
    """Execute the task's program until it waits."""
    t = s.tasks[task]
    t.state = T_READY
    leave_io_wait(s, task)
    turn = 0
    while t.state == T_READY:
        turn += 1
        if turn > OPS_A_TURN:
            yield_turn(s, task)
            return
        op = s.ops[t.pc]
        code = op.code
        if t.owed > 0 and not runs_ahead(code):
            pagecache.pay(s, task)
            return
        if code == OP_CPU:
            t.pc += 1
            if op.a > 0:
                compute(s, task, op.a)
                return
        elif code == OP_WAIT:
            t.pc += 1
            if t.outstanding > 0:
                t.state = T_WAIT_IO
        elif code == OP_START:
            t.pc += 1
            t.op_start = s.sim[0].now + t.owed
            record(s, TR_OP_START, task, NONE, t.done_ops, 0, 0, t.dev)
        elif code == OP_END:
            t.pc += 1
            end_operation(s, task, op.a)
            pause(s, task, debt(s, task))
        elif code == OP_LOOP:
            t.left -= 1
            t.pc = op.a if t.left > 0 else t.pc + 1
        elif code == OP_JUMP:
            t.pc = op.a
        elif code == OP_BUFFERED_WRITE:
            t.pc += 1
            buffered_write(s, t.file, op.a)
        elif code == OP_OWE:
            t.pc += 1
            t.owed += op.a
        elif code == OP_CACHED_WRITE:
            if pagecache.cached_write(s, task, op.a):
                t.pc += 1
        elif code == OP_WRITEBACK:
            pagecache.writeback(s, task)
        elif code == OP_SYNC_PAGES:
            if pagecache.sync_pages(s, task, op.a):
                t.pc += 1
        elif code == OP_WAIT_PAGES:
            if pagecache.wait_for_pages(s, task):
                t.pc += 1
        elif code == OP_LOG_ORDERED:
            if pagecache.wait_for_ordered(s, task):
                t.pc += 1
        elif code == OP_PLUG:
            t.pc += 1
            t.plugged = 1
        elif code == OP_UNPLUG:
            t.pc += 1
            t.plugged = 0
            block.unplug(s, t.dev, task)
        elif code == OP_WRITE_PAGES:
            if write_pages(s, task, op.a):
                t.pc += 1
        elif code == OP_COMMIT:
            t.pc += 1
            f = s.files[t.file]
            if s.journals[f.journal].committed < f.tid:
                t.pc += op.b
                t.state = T_WAIT_COMMIT
                journal.wait_for_commit(s, task, f.journal)
                journal.request_commit(s, f.journal, f.tid)
        elif code == OP_LOG_SLEEP:
            t.pc += 1
            j = s.journals[t.journal]
            if j.requested <= j.committed:
                t.state = T_SLEEP
        elif code == OP_LOG_TAKE:
            t.pc += 1
            journal.take_transaction(s, t.journal)
            pagecache.note_ordered(s, t.journal)
        elif code == OP_LOG_BLOCKS:
            if s.caches[t.dev].flushers > 0:
                s.journals[t.journal].logging = 1
            if log_blocks(s, task, op.a):
                t.pc += 1
        elif code == OP_LOG_COMMIT_BLOCK:
            if log_write(s, task, t.journal, PAGE_SECTORS, op.a):
                t.pc += 1
        elif code == OP_LOG_DONE:
            t.pc += 1
            journal.commit_done(s, t.journal)
        elif code == OP_LOG_WRITE:
            if log_write(s, task, t.journal, op.b, op.a):
                t.pc += 1
        elif code == OP_FLUSH:
            if block.submit_bio(s, t.dev, task, FLUSH, 0, 0, F_PREFLUSH | F_SYNC):
                t.pc += 1
        elif code == OP_READ_BLOCK:
            if block.submit_bio(s, t.dev, task, READ, op.a, PAGE_SECTORS, F_META):
                t.pc += 1
        elif code == OP_READ_PAGE:
            if read_page(s, task, op.a):
                t.pc += 1
        elif code == OP_DIRECT_WRITE:
            if direct_io(s, task, WRITE, op.a, op.b | F_SYNC | F_IDLE):
                t.pc += 1
        elif code == OP_DIRECT_READ:
            if direct_io(s, task, READ, op.a, op.b):
                t.pc += 1
        elif code == OP_BUFFERED_READ:
            if streams.buffered_read(s, task, op.a):
                t.pc += 1
        elif code == OP_NEXT_IO:
            next_io(s, task, op.a)
        elif code == OP_TAKE_SLOT:
            reap(s, task, op.a)
            if slots.take(s, task):
                t.pc += 1
        elif code == OP_SUBMITTED:
            t.pc += 1
            slots.close_slot(s, task)
            pause(s, task, debt(s, task))
        elif code == OP_PAUSE:
            t.pc += 1
            pause(s, task, op.a)
        elif code == OP_SKIP_UNLESS_NTH:
            t.pc += 1 if (t.done_ops + 1) % op.a == 0 else 1 + op.b
        elif code == OP_TAKE_PIECE:
            length = pieces.take(s, task)
            if length == NONE:
                end_task(s, task)
                return
            if t.state == T_READY:
                t.pc += 1
                pause(s, task, length)
        elif code == OP_PIECE_READ:
            if piece_reads.through_cache(s, task):
                t.pc += 1
        elif code == OP_PIECE_DIRECT:
            if piece_reads.direct(s, task):
                t.pc += 1
        elif code == OP_REPLY:
            t.pc += 1
            pieces.reply(s, task)
        elif code == OP_NEXT_STEP:
            if s.sim[0].now >= t.stop_at:
                end_task(s, task)
                return
            t.pc += 1
            length = next_step(s, task, op.a)
            if length > 0:
                compute(s, task, length)
                return
        elif code == OP_STEP_WRITE:
            t.pc += 1
            step_write(s, task)
        elif code == OP_SKIP_IF_CLEAN:
            f = s.files[t.file]
            t.pc += 1 if f.changed != 0 else 1 + op.a
            f.changed = 0
        elif code == OP_SKIP:
            t.pc += 1 + op.a
        elif code == OP_EXIT:
            end_task(s, task)
        else:
            s.sim[0].error = E_BAD_OP
            return
    if waits_for_io(t):
        enter_io_wait(s, task)


@jit
def runs_ahead(code):
    """May a task that owes CPU time do this before it has paid? Nobody else sees it."""
    if code == OP_START or code == OP_OWE or code == OP_CACHED_WRITE or code == OP_END or code == OP_NEXT_IO:
        return True
    return code == OP_LOOP or code == OP_JUMP or code == OP_SKIP_UNLESS_NTH or code == OP_WRITEBACK


@jit
def end_task(s, task):
    """The process is over."""
    s.tasks[task].state = T_DONE
    s.tasks[task].end = s.sim[0].now
    s.sim[0].live -= 1


@jit
def yield_turn(s, task):
    """Go on at the same time, but behind whatever else happens now: no task keeps the event loop to itself."""
    s.tasks[task].state = T_YIELDED
    schedule(s, s.sim[0].now, EV_TASK, task)


@jit
def pause(s, task, length):
    """Sleep so many ns; none goes on at once."""
    if length > 0:
        s.tasks[task].state = T_YIELDED
        schedule(s, s.sim[0].now + length, EV_TASK, task)


@jit
def debt(s, task):
    """Nanoseconds that io.latency makes the task wait on its way back to user space."""
    t = s.tasks[task]
    return iolatency.debt(s, t.dev, t.group) if s.devices[t.dev].io_latency != 0 else 0


@jit
def next_io(s, task, nbytes):
    """Begin the stream's next operation, wait for the time its rate gives it, or end when it is over."""
    t = s.tasks[task]
    if t.owed > 0 and s.sim[0].now + t.owed >= t.stop_at:
        pagecache.pay(s, task)
        return
    length = streams.next_place(s, task)
    if length == 0:
        t.pc += 1
    elif length > 0:
        pause(s, task, length)
    else:
        reap(s, task, nbytes)
        if s.streams[t.stream].busy == 0:
            end_task(s, task)
        else:
            t.state = T_WAIT_SLOT


@jit
def reap(s, task, nbytes):
    """Book the operations of an asynchronous engine that are done, and free their slots."""
    t = s.tasks[task]
    slot = slots.finished(s, task)
    while slot != NONE:
        t.op_start = s.slots[slot].start
        end_operation(s, task, nbytes)
        slot = slots.finished(s, task)


@jit
def end_operation(s, task, nbytes):
    """Book one operation of the workload."""
    t = s.tasks[task]
    latency = s.sim[0].now + t.owed - t.op_start
    t.done_ops += 1
    t.done_bytes += nbytes
    t.latency_sum += latency
    t.latency_max = max(t.latency_max, latency)
    t.latency_min = min(t.latency_min, latency)
    b = latency_bin(latency)
    s.histogram[task * HISTOGRAM_BINS + min(b, HISTOGRAM_BINS - 1)].n += 1
    record(s, TR_OP_END, task, NONE, t.done_ops - 1, latency, 0, t.dev)


# ---------------------------------------------------------------------------------------------------------------------
# files


@jit
def buffered_write(s, fi, nbytes):
    """write(2): the bytes are in the page cache, the inode in the running transaction (section 9)."""
    f = s.files[fi]
    f.dirty_from = min(f.dirty_from, f.position)
    f.position += nbytes
    f.dirty_to = f.position
    dirty_inode(s, fi)


# ---------------------------------------------------------------------------------------------------------------------
# a load file, flush by flush


@jit
def next_step(s, task, ns_an_operation):
    """Take the next flush of the load, at its end the first again; returns the CPU time (ns) of the operations before
    it. What was counted during the warm-up is forgotten when that is over."""
    t = s.tasks[task]
    if t.counting_from > 0 and s.sim[0].now >= t.counting_from:
        t.counting_from = 0
        t.done_ops = t.done_bytes = t.latency_sum = t.latency_max = 0
        t.latency_min = NEVER
        for b in range(task * HISTOGRAM_BINS, (task + 1) * HISTOGRAM_BINS):
            s.histogram[b].n = 0
    t.step = t.step + 1 if t.step + 1 < t.n_steps else 0
    return s.steps[t.first_step + t.step].operations * ns_an_operation


@jit
def step_write(s, task):
    """The operations before a flush are done: book their bytes, and leave the flushed file's pages dirty.

    A new or longer file allocates blocks, and the files that came and went since the flush before dirty blocks of their
    own. A page written again in place changes the inode only through its time, which moves once a timer tick: within
    the same tick there is nothing to commit (measured: four of five rewrites of a real 5.6.4 are data writes alone).
    """
    t = s.tasks[task]
    step = s.steps[t.first_step + t.step]
    f = s.files[t.file]
    now = s.sim[0].now
    book_bytes(s, t, step.counted)
    tick = now // s.sim[0].tick_ns
    length = (step.dirty + PAGE - 1) // PAGE * PAGE
    if step.rewrite == 0:
        if f.position + length > f.size_limit:
            f.position = f.mapped_to = 0
        f.last_from = f.position
        f.position += length
        if f.metadata != 0:
            journal.dirty(s, t.file, META_DIRECTORY | META_INODE_BITMAP | META_BLOCK_BITMAP | META_GROUP_DESC)
            journal.dirty_others(s, t.file, OTHER_BLOCKS)
            f.changed = 1
    elif f.metadata != 0 and (tick != f.tick or step.sets_time != 0):
        journal.dirty(s, t.file, 0)
        f.changed = 1
    f.tick = tick
    f.dirty_from = f.last_from
    f.dirty_to = min(f.last_from + length, f.position)


@jit
def book_bytes(s, t, nbytes):
    """Count bytes for the task and for the second that is running."""
    t.done_bytes += nbytes
    second = (s.sim[0].now - s.sim[0].epoch) // SEC
    if second < t.n_seconds:
        s.seconds[t.first_second + second].n += nbytes


@jit
def write_pages(s, task, flags):
    """Submit the dirty range as WRITE|SYNC in whole pages, in bios as large as the device takes. True when all is
    submitted."""
    t = s.tasks[task]
    f = s.files[t.file]
    max_bytes = s.devices[t.dev].max_sectors * 512
    turn = 0
    while f.dirty_from < f.dirty_to:
        turn += 1
        if turn > BIOS_A_TURN:
            yield_turn(s, task)
            return False
        start = f.dirty_from // PAGE * PAGE
        end = (f.dirty_to + PAGE - 1) // PAGE * PAGE
        if end > f.mapped_to and f.metadata != 0:
            f.ordered_tid = s.journals[f.journal].running
        allocate_blocks(s, t.file, end)
        end = min(end, start + max_bytes, extent_end(f, start))
        if not block.submit_bio(s, t.dev, task, WRITE, place_of(f, start), (end - start) // 512, flags):
            return False
        f.dirty_from = end
    f.dirty_from = f.position
    f.dirty_to = f.position
    return True


@jit
def read_page(s, task, nbytes):
    """A write into part of a page of a block device reads that page first, unless it is cached (section 9, raw)."""
    t = s.tasks[task]
    f = s.files[t.file]
    end = f.position + nbytes
    page = f.position // PAGE * PAGE
    while page < end:
        partial = page < f.position or page + PAGE > end
        if partial and page >= f.cached_to:
            if not block.submit_bio(s, t.dev, task, READ, place_of(f, page), PAGE_SECTORS, 0):
                return False
            f.cached_to = page + PAGE
        page += PAGE
    f.cached_to = max(f.cached_to, page)
    return True


@jit
def direct_io(s, task, op, nbytes, flags):
    """O_DIRECT: the bytes go straight to or from the device, split at its largest request."""
    t = s.tasks[task]
    f = s.files[t.file]
    max_bytes = s.devices[t.dev].max_sectors * 512
    if f.direct_left == 0:
        f.direct_left = nbytes
    turn = 0
    while f.direct_left > 0:
        turn += 1
        if turn > BIOS_A_TURN:
            yield_turn(s, task)
            return False
        size = min(f.direct_left, max_bytes, extent_end(f, f.position) - f.position)
        if not block.submit_bio(s, t.dev, task, op, place_of(f, f.position), size // 512, flags):
            return False
        f.position += size
        f.direct_left -= size
    if op == WRITE:
        dirty_inode(s, t.file)
        allocate_blocks(s, t.file, f.position)
    return True


# ---------------------------------------------------------------------------------------------------------------------
# log


@jit
def log_blocks(s, task, flags):
    """Write the descriptor and the metadata of the locked transaction, 4 KiB a bio; the plug merges them."""
    t = s.tasks[task]
    j = s.journals[t.journal]
    while j.sent < j.blocks:
        if not log_write(s, task, t.journal, PAGE_SECTORS, flags):
            return False
        j.sent += 1
    return True


@jit
def log_write(s, task, ji, nr, flags):
    """One bio at the head of the log."""
    j = s.journals[ji]
    place = journal.log_place(s, ji, nr)
    if block.submit_bio(s, s.tasks[task].dev, task, WRITE, place, nr, flags):
        return True
    j.head = place
    return False
