"""A file that several tasks read piece by piece: who takes the next piece, and the client that asks for them.

Locally each task helps itself. An NFS client asks for pieces ahead of what its reader has consumed, a burst at a time,
has no more than `slots` of them on their way, and gets the answers over a link, one after the other. Source: thread 4
and spec block-layer 2.2; what a client of the time did (a read-ahead of 15 RPCs, 16 slots) is recalled there.
"""

from .clock import schedule
from .codes import EV_REPLY, NONE, T_WAIT_READ, T_WAIT_WORK
from .jit import jit
from .lists import pop_front, push_back, push_front
from .wakeups import wake

IN_FLIGHT, UPTODATE, MARKED = 1, 2, 4  # bits of a page


@jit
def take(s, task):
    """Give the task its next piece, and return how long (ns) it has to wait before it may read it; NONE when the file
    is over. A task without a piece to read sleeps until the client asks for one."""
    t = s.tasks[task]
    m = s.teams[t.team]
    k = t.piece if m.fixed != 0 else m.next
    if k >= m.pieces or m.over != 0:
        return NONE
    if m.client != 0 and k >= m.sent:
        t.state = T_WAIT_WORK
        if m.fixed == 0:
            rest(s, m, task)
        return 0
    if m.fixed != 0:
        t.piece += m.n_tasks
    else:
        m.next += 1
    t.read_at = k * m.piece_bytes
    t.read_to = min(t.read_at + m.piece_bytes, m.length)
    due = m.begin + k * m.interval
    if m.client != 0:
        due = s.pieces[m.first_piece + k].at
    return max(due - s.sim[0].now, 0)


@jit
def rest(s, m, task):
    """A thread without work: the one that rests last is woken first, or last."""
    node = s.sim[0].first_task_node + task
    if m.newest_first != 0:
        push_front(s, m.idle, node)
    else:
        push_back(s, m.idle, node)


@jit
def ask(s, team):
    """The client asks for what its read-ahead wants, as far as it has slots."""
    m = s.teams[team]
    while m.asked < m.pieces and m.consumed + m.ahead >= m.asked + m.burst:
        m.asked += m.burst
    while m.sent < min(m.asked, m.pieces) and m.sent - m.replied < m.slots:
        task = m.first_task + m.sent % m.n_tasks
        m.send_free = max(m.send_free, s.sim[0].now) + m.send_ns
        s.pieces[m.first_piece + m.sent].at = m.send_free
        m.sent += 1
        if m.fixed == 0:
            node = pop_front(s, m.idle)
            if node == NONE:
                continue
            task = node - s.sim[0].first_task_node
        if s.tasks[task].state == T_WAIT_WORK:
            wake(s, task)


@jit
def reply(s, task):
    """The piece goes to the client: behind the answers before it on the link. Without a client it is where it is."""
    t = s.tasks[task]
    m = s.teams[t.team]
    nbytes = min(m.piece_bytes, m.length - (t.read_to - 1) // m.piece_bytes * m.piece_bytes)
    m.bytes += nbytes
    m.end = s.sim[0].now
    if m.client == 0:
        return
    k = m.first_piece + (t.read_to - 1) // m.piece_bytes
    m.link_free = max(m.link_free, s.sim[0].now) + m.link_ns * nbytes // m.piece_bytes
    row = s.pieces[k]
    row.at = m.link_free + m.delay_ns
    row.next = NONE
    if m.link_tail == NONE:
        m.link_head = k
        schedule(s, row.at, EV_REPLY, t.team)
    else:
        s.pieces[m.link_tail].next = k
    m.link_tail = k


@jit
def reply_arrived(s, team):
    """The client begins, or has another piece; its reader goes on as far as there is no gap."""
    m = s.teams[team]
    if m.link_head != NONE:
        row = s.pieces[m.link_head]
        row.done = 1
        m.replied += 1
        m.link_head = row.next
        if row.next == NONE:
            m.link_tail = NONE
        else:
            schedule(s, s.pieces[row.next].at, EV_REPLY, team)
    while m.consumed < m.pieces and s.pieces[m.first_piece + m.consumed].done != 0:
        m.consumed += 1
    m.end = s.sim[0].now
    ask(s, team)
    if m.consumed == m.pieces:
        m.over = 1
        for task in range(m.first_task, m.first_task + m.n_tasks):
            if s.tasks[task].state == T_WAIT_WORK:
                wake(s, task)


@jit
def pages_read(s, reader, first, n):
    """A bio of the team's came back: its pages are there, and whoever waits for one of them wakes up."""
    for p in range(first, first + n):
        s.pages[p].n = (s.pages[p].n & MARKED) | UPTODATE
    m = s.teams[s.tasks[reader].team]
    for task in range(m.first_task, m.first_task + m.n_tasks):
        t = s.tasks[task]
        if t.state == T_WAIT_READ and first <= t.awaited < first + n:
            t.awaited = NONE
            wake(s, task)
