"""fio's jobs in the engine's operations, and their rows in its tables (`engine/streams.py`, `engine/slots.py`)."""

from __future__ import annotations

from .engine import codes as c
from .engine.state import State
from .filesystems import Raw
from .fio import Fio
from .scenario import Machine, Scenario

ADVICE = 2  # fio tells the kernel that a file is read sequentially, which doubles its readahead (spec bfq trap 26)
WINDOWS = 2  # of a buffered reader: the one it waits for and the next

Program = list[tuple[int, int, int]]


def fio_program(machine: Machine, job: Fio, write_ns: int, sync: Program) -> Program:
    """One fio process: place, operation, sleep, again. `write_ns` is the file system's CPU of a write, `sync` an
    fdatasync.

    fio's own CPU stands between two operations, and the copying of what was read in the operation.
    """
    host = machine.host
    think: Program = []
    if job.thinktime_us:
        think = [(c.OP_PAUSE, round((job.thinktime_us + host.scaled("wakeup_us")) * c.USEC), 0)]
    compute = c.OP_OWE if job.cached else c.OP_CPU
    begin: Program = [(c.OP_NEXT_IO, job.bs, 0), (compute, round(host.scaled("read_us") * c.USEC), 0)]
    transfer = transfer_program(machine, job)
    if job.ioengine == "libaio":
        body: Program = [(c.OP_TAKE_SLOT, job.bs, 0), *transfer, (c.OP_SUBMITTED, 0, 0)]
    elif job.writes:
        waits = [(c.OP_WAIT, 0, 0)] if job.direct else []
        every = [(c.OP_SKIP_UNLESS_NTH, job.fdatasync, len(sync)), *sync] if job.fdatasync else []
        body = [(c.OP_START, 0, 0), (compute, write_ns, 0), *transfer, *waits, *every, (c.OP_END, job.bs, 0)]
    else:
        waits = [] if job.reads_ahead else [(c.OP_WAIT, 0, 0)]
        copy = [] if job.direct or job.reads_ahead else [(c.OP_CPU, copied_pages(job) * copy_ns(machine), 0)]
        body = [(c.OP_START, 0, 0), *transfer, *waits, *copy, (c.OP_END, job.bs, 0)]
    return [*begin, *body, *think, (c.OP_JUMP, 0, 0)]


def transfer_program(machine: Machine, job: Fio) -> Program:
    """The read or write itself; what is larger than a request goes through a plug."""
    if job.writes and not job.direct:
        partial = isinstance(machine.filesystem, Raw) and job.bs % c.PAGE
        reads = [(c.OP_READ_PAGE, job.bs, 0), (c.OP_WAIT, 0, 0)] if partial else []
        return [*reads, (c.OP_CACHED_WRITE if job.cached else c.OP_BUFFERED_WRITE, job.bs, 0)]
    if job.reads_ahead:
        return [(c.OP_BUFFERED_READ, job.bs, 0)]
    nbytes = job.bs if job.direct else copied_pages(job) * c.PAGE
    one: Program = [(c.OP_DIRECT_WRITE if job.writes else c.OP_DIRECT_READ, nbytes, 0)]
    if nbytes > 1024 * machine.device.max_sectors_kb:
        return [(c.OP_PLUG, 0, 0), *one, (c.OP_UNPLUG, 0, 0)]
    return one


def copied_pages(job: Fio) -> int:
    """Pages of the page cache that an operation touches."""
    return -(-job.bs // c.PAGE)


def copy_ns(machine: Machine) -> int:
    """CPU time of copying a page."""
    return round(machine.host.scaled("copy_us") * c.USEC)


def slots_of(job: object) -> int:
    """I/Os that the job may have in flight besides the one its process waits for."""
    if not isinstance(job, Fio):
        return 0
    return job.iodepth if job.ioengine == "libaio" else WINDOWS if job.reads_ahead else 0


def fill_streams(s: State, scenario: Scenario) -> None:
    """One stream a fio job, with its slots and its file."""
    row = first = 0
    for i, job in enumerate(scenario.jobs):
        if not isinstance(job, Fio):
            continue
        t, st, f = s.tasks[i], s.streams[row], s.files[i]
        t.stream = row
        t.left = job.operations
        t.stop_at = round((job.start + job.runtime) * c.SEC)
        st.random, st.step, st.length = int(job.random), job.bs, job.file_size
        st.nrfiles = job.nrfiles
        st.grain = c.PAGE if job.random and not job.direct and not job.writes else 1
        st.pages = ADVICE * scenario.machine.device.read_ahead_kb * 1024 // c.PAGE
        st.generator = job.seed
        st.copy_ns = copy_ns(scenario.machine)
        st.ahead_ns = round(scenario.machine.host.scaled("ahead_us") * c.USEC)
        st.due = round(job.start * c.SEC)
        st.interval = 0 if job.rate is None else round(job.bs / job.rate * c.SEC)
        st.first_slot, st.free, st.finished = first, c.NONE, c.NONE
        if job.ioengine == "libaio":
            st.depth, st.free = job.iodepth, first
            s.slots.next[first : first + job.iodepth] = range(first + 1, first + job.iodepth + 1)
            s.slots.next[first + job.iodepth - 1] = c.NONE
        if job.overwrite or not job.writes:
            f.metadata, f.created, f.mapped_to = 0, 1, job.size
        row, first = row + 1, first + slots_of(job)
