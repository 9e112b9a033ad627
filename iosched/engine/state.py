"""The tables of a run: record arrays, one row a thing. Inside Numba a row is a reference, outside it is plain NumPy.

`State` is a NamedTuple of the arrays below; every compiled function takes it as its first argument `s`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..schedulers import cfq, deadline
from .codes import IDLE_REASONS, NEVER, NONE, TIMERS_PER_DEVICE


def _ints(names: str) -> np.dtype:
    return np.dtype([(name, np.int64) for name in names.split()])


SIM = _ints(
    "now seq heap_n events live error cpus wakeup_ns request_ns free_request free_bio requests_made trace_on trace_n"
)
DEVICE = _ints(
    "scheduler legacy asynchronous_run servers depth completion_ns flush_ns write_cache fua rotational max_sectors "
    "nr_requests tags_used in_flight busy_servers in_system queued run_pending starved_runs flush_pending_index "
    "flush_running flush_data flush_pending_since fifo dispatch_list server_queue waiters flush_pending0 flush_pending1 "
    "flush_served accounted_at idle_row idle_since area_in_system area_in_flight busy_ns held_ns empty_ns served_ns "
    "sojourn_ns arrived completed merges flushes sectors_in sectors_out sectors_read sectors_written read_requests "
    "write_requests"
)
EVENT = _ints("at seq kind index")
TIMER = _ints("at seq")
TASK = _ints(
    "pc state outstanding group dev file journal plugged plug_list left ioprio ioclass op_start done_ops done_bytes "
    "latency_sum latency_max latency_min end"
)
OP = _ints("code a b")
FILE = _ints("first position dirty_from dirty_to mapped_to cached_to direct_left journal metadata created tid")
JOURNAL = _ints("first sectors head running committing committed requested mask blocks sent commits task waiters")
REQUEST = _ints(
    "serial dev task op sector nr cmd_flags bios last_bio queue steps start issued earliest data_done fifo_time elevator "
    "pool state"
)
BIO = _ints("task sector nr start next")
NODE = _ints("prev next list key")
LIST = _ints("head tail count")
GROUP = _ints("parent")
POOL = _ints("sync asynchronous")
IDLE = _ints("windows total_ns held_ns empty_ns fired fired_held")
TRACE = _ints("at kind task request place length cmd_flags dev")

HISTOGRAM_BINS = 1024


class State(NamedTuple):
    """Everything a run knows. See the dtypes of this module for the columns."""

    sim: np.ndarray
    devices: np.ndarray
    heap: np.ndarray
    timers: np.ndarray
    tasks: np.ndarray
    ops: np.ndarray
    files: np.ndarray
    journals: np.ndarray
    requests: np.ndarray
    bios: np.ndarray
    nodes: np.ndarray
    lists: np.ndarray
    groups: np.ndarray
    pools: np.ndarray
    idle: np.ndarray
    histogram: np.ndarray
    cpu_free: np.ndarray
    trace: np.ndarray
    deadline: np.ndarray
    deadline_class: np.ndarray
    cfq: np.ndarray
    cfq_groups: np.ndarray
    cfq_trees: np.ndarray
    cfq_contexts: np.ndarray
    cfq_queues: np.ndarray
    cfq_async: np.ndarray


def table(dtype: np.dtype, rows: int) -> np.ndarray:
    """A zeroed record array; a recarray so that rows have attributes without Numba too."""
    return np.zeros(rows, dtype).view(np.recarray)


class ListIds:
    """Hands out list numbers while a state is being laid out."""

    def __init__(self) -> None:
        self.n = 0

    def new(self) -> int:
        self.n += 1
        return self.n - 1


def allocate(
    *,
    n_devices: int,
    n_tasks: int,
    ops: np.ndarray,
    n_files: int,
    n_journals: int,
    n_groups: int,
    n_requests: int,
    n_bios: int,
    cpus: int,
    trace_rows: int,
    with_cfq: bool,
    with_deadline: bool,
) -> State:
    """Tables of the given sizes with every link set to "none" and every list empty.

    Node numbers: request `i` owns 2i (by sector) and 2i+1 (by arrival), then one a CFQ queue, one a CFQ group, and one
    a task at the very end.
    """
    cfq_devices = n_devices if with_cfq else 0
    n_cfq_queues = cfq_devices * (2 * n_tasks + n_groups * 2 + 2)
    n_cfq_groups = cfq_devices * n_groups
    s = State(
        sim=table(SIM, 1),
        devices=table(DEVICE, n_devices),
        heap=table(EVENT, n_tasks + n_requests + n_devices + 8),
        timers=table(TIMER, n_devices * TIMERS_PER_DEVICE),
        tasks=table(TASK, n_tasks),
        ops=ops,
        files=table(FILE, n_files),
        journals=table(JOURNAL, max(n_journals, 1)),
        requests=table(REQUEST, n_requests),
        bios=table(BIO, n_bios),
        nodes=table(NODE, 2 * n_requests + n_cfq_queues + n_cfq_groups + n_tasks),
        lists=table(LIST, 0),
        groups=table(GROUP, n_groups),
        pools=table(POOL, n_devices * n_groups),
        idle=table(IDLE, n_devices * n_tasks * len(IDLE_REASONS)),
        histogram=np.zeros((n_tasks, HISTOGRAM_BINS), np.int64),
        cpu_free=np.zeros(max(cpus, 1), np.int64),
        trace=table(TRACE, trace_rows),
        deadline=table(deadline.DEVICE_DTYPE, n_devices if with_deadline else 0),
        deadline_class=table(deadline.CLASS_DTYPE, n_devices * deadline.CLASSES if with_deadline else 0),
        cfq=table(cfq.DEVICE_DTYPE, cfq_devices),
        cfq_groups=table(cfq.GROUP_DTYPE, n_cfq_groups),
        cfq_trees=table(cfq.TREE_DTYPE, n_cfq_groups * cfq.TREES),
        cfq_contexts=table(cfq.CONTEXT_DTYPE, cfq_devices * n_tasks),
        cfq_queues=table(cfq.QUEUE_DTYPE, n_cfq_queues),
        cfq_async=np.full((n_cfq_groups, 17), NONE, np.int64),
    )
    ids = ListIds()
    for dev in s.devices:
        for name in "fifo dispatch_list server_queue waiters flush_pending0 flush_pending1 flush_served".split():
            dev[name] = ids.new()
        dev.flush_running = NONE
        dev.idle_row = NONE
    for t in s.tasks:
        t.plug_list = ids.new()
        t.file = NONE
        t.journal = NONE
        t.latency_min = NEVER
    for j in s.journals:
        j.waiters = ids.new()
        j.running = 1
    for row in s.deadline_class:
        for name in "sorted_read sorted_write fifo_read fifo_write".split():
            row[name] = ids.new()
        row.next_read = row.next_write = NONE
    for c in s.cfq:
        c.group_list = ids.new()
        c.active = c.active_task = c.serving_group = NONE
        c.hw_tag = -1
    for tree in s.cfq_trees:
        tree.list = ids.new()
    for q in s.cfq_queues:
        q.sorted = ids.new()
        q.fifo = ids.new()
    s.cfq_contexts.queue = NONE
    lists = table(LIST, ids.n)
    lists.head = lists.tail = NONE
    s.nodes.prev = s.nodes.next = s.nodes.list = NONE
    s.timers.at = NEVER
    s.requests.bios = np.arange(1, n_requests + 1)
    s.requests.bios[-1] = NONE
    s.bios.next = np.arange(1, n_bios + 1)
    s.bios.next[-1] = NONE
    return s._replace(lists=lists)
