"""Readers of a shared file in the engine's operations, and their rows in its tables (`engine/pieces.py`)."""

from __future__ import annotations

from .engine import codes as c
from .engine.state import State
from .scenario import Machine, Scenario
from .shared import SharedReader
from .volumes import LAYOUTS

Program = list[tuple[int, int, int]]


def shared_program(machine: Machine, job: SharedReader) -> Program:
    """One of the processes: take a piece, read it, hand it over."""
    host = machine.host
    read: Program = [(c.OP_PIECE_READ, 0, 0)]
    if job.direct:
        read = [(c.OP_PLUG, 0, 0), (c.OP_PIECE_DIRECT, 0, 0), (c.OP_UNPLUG, 0, 0), (c.OP_WAIT, 0, 0)]
    cpu = round((host.scaled("read_us") + job.rpc_us) * c.USEC)
    body: Program = [(c.OP_TAKE_PIECE, 0, 0), (c.OP_START, 0, 0), (c.OP_CPU, cpu, 0), *read]
    body += [(c.OP_REPLY, 0, 0), (c.OP_END, job.bs, 0)]
    if job.thinktime_us:
        body += [(c.OP_PAUSE, round((job.thinktime_us + host.scaled("wakeup_us")) * c.USEC), 0)]
    return [*body, (c.OP_JUMP, 0, 0)]


def teams_of(scenario: Scenario) -> list[tuple[int, SharedReader, int]]:
    """(first task, job, tasks) of each shared file."""
    rows = [(i, job) for i, job in enumerate(scenario.jobs) if isinstance(job, SharedReader)]
    firsts = [(i, job) for i, job in rows if job.thread == 0]
    ends = [i for i, _ in firsts[1:]] + [rows[-1][0] + 1 if rows else 0]
    return [(i, job, end - i) for (i, job), end in zip(firsts, ends, strict=True)] if rows else []


def shared_rows(scenario: Scenario) -> dict[str, int]:
    """How many rows of each kind the teams need."""
    teams = teams_of(scenario)
    return {
        "n_teams": len(teams),
        "n_pieces": sum(job.pieces for _, job, _ in teams if job.client),
        "n_windows": sum(n if job.own_files else 1 for _, job, n in teams),
        "n_pages": sum(-(-job.size // c.PAGE) for _, job, _ in teams if not job.direct),
    }


def fill_teams(s: State, scenario: Scenario) -> None:
    """One row a team, with its pages, pieces and read-ahead."""
    machine = scenario.machine
    page = piece = window = 0
    for row, (first, job, n) in enumerate(teams_of(scenario)):
        m = s.teams[row]
        m.first_task, m.n_tasks, m.piece_bytes, m.length, m.pieces = first, n, job.bs, job.size, job.pieces
        m.fixed = int(job.order == "turns")
        m.newest_first = int(job.wake == "newest")
        m.begin = round(job.start * c.SEC)
        m.interval = 0 if job.rate is None else round(job.bs / job.rate * c.SEC)
        m.client, m.ahead, m.burst, m.slots = int(job.client), job.ahead_pieces, job.burst, job.slots
        m.send_ns = round(job.request_us * c.USEC)
        m.link_ns = round(job.client_us * c.USEC)
        if job.network_MBs is not None:
            m.link_ns += round(job.bs / job.network_MBs * c.USEC)
        m.delay_ns = round(job.latency_us * c.USEC)
        m.first_page, m.first_piece = page, piece
        m.context = int(machine.version >= "2.6.31")
        fill_volume(m, machine)
        m.copy_ns = round(machine.host.scaled("copy_us") * c.USEC)
        m.ahead_ns = round(machine.host.scaled("ahead_us") * c.USEC)
        m.bio_ns = round(machine.host.scaled("bio_us") * c.USEC)
        for k in range(n):
            t = s.tasks[first + k]
            t.team, t.file, t.piece = row, first, k
            t.window = window + (k if job.own_files else 0)
            if job.shares_context:
                t.ioc = first
        page += 0 if job.direct else -(-job.size // c.PAGE)
        piece += job.pieces if job.client else 0
        window += n if job.own_files else 1
        s.files[first].metadata = 0


def fill_volume(m, machine: Machine) -> None:
    """Where sectors are, and how far ahead is read."""
    volume, device = machine.volume, machine.device
    kb = device.read_ahead_kb
    m.disks = 1
    if volume is not None:
        kb = volume.read_ahead_kb(kb)
        m.disks, m.layout = volume.disks, 1 + LAYOUTS.index(volume.layout)
        m.stripe_sectors = 2 * volume.stripe_kb
        m.bio_sectors = 2 * (volume.bio_kb or 0)
    m.pages = kb * 1024 // c.PAGE
