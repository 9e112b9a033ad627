"""The tables of a run, allocated and empty.

`State` holds one `rows.Table` a table (columns in `tables.py`); its rows are read and written by name, by compiled
code, by the same code as plain Python, and by tests and results.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..schedulers import bfq_tables, cfq_state, deadline, kyber
from .codes import HISTOGRAM_BINS, IDLE_REASONS, NEVER, NONE, TIMERS_PER_DEVICE
from .rows import Table, row_dtype
from .tables import TABLES

ROWS = {name: row_dtype(columns) for name, columns in TABLES.items()}
# trace rows that are kept free, since one event may touch every request and submit a turn's bios
TRACE_MARGIN, TRACE_ROWS_A_REQUEST = 8192, 8


class State:
    """Everything a run knows: one attribute a table of `TABLES`.

    `address` is where compiled code finds the tables' addresses; the object must live as long as it is used.
    """

    def __init__(self, tables: dict[str, np.ndarray]) -> None:
        self.__dict__.update(tables)
        self._addresses = np.array([tables[name].ctypes.data for name in TABLES], np.intp)

    def __setstate__(self, state: dict[str, np.ndarray]) -> None:
        """A copy has tables of its own, at addresses of its own."""
        self.__init__({name: state[name] for name in TABLES})

    @property
    def address(self) -> int:
        """Address of the row of table addresses."""
        return self._addresses.ctypes.data


def table(name: str, rows: int) -> np.ndarray:
    """A zeroed table of at least one row, whose rows have attributes without Numba too."""
    return np.zeros(max(rows, 1), ROWS[name]).view(Table)


def allocate(*, ops: np.ndarray, steps: np.ndarray, **sizes: int) -> State:
    """The tables of a run: `ops` and `steps` as they are, the others empty (`empty_state`).

    Filling them takes longer than a short run does, so scenarios of the same sizes copy them from the last: as bytes,
    since NumPy copies records field by field.
    """
    if sizes["trace_rows"]:
        empty = empty_state(**sizes)
        tables = {name: getattr(empty, name) for name in TABLES}
    else:
        content, places = _kept_empty_state(**sizes)
        content = content.copy()
        tables = {name: Table(rows, ROWS[name], content, at) for name, (rows, at) in places.items()}
    return State(tables | {"ops": ops, "steps": steps})


def empty_state(
    *,
    n_devices: int,
    n_tasks: int,
    n_seconds: int,
    n_streams: int,
    n_slots: int,
    n_teams: int,
    n_pieces: int,
    n_windows: int,
    n_pages: int,
    n_files: int,
    n_journals: int,
    n_flushers: int,
    n_groups: int,
    n_requests: int,
    n_bios: int,
    cpus: int,
    trace_rows: int,
    with_cfq: bool,
    with_deadline: bool,
    with_kyber: bool,
    with_anticipatory: bool,
    with_bfq: bool,
    with_io_latency: bool,
    fair: bool = False,
    n_zones: int = 0,
    n_extents: int = 0,
    n_segments: int = 0,
    n_dies: int = 0,
    n_limits: int = 0,
    n_cost_models: int = 0,
    n_hardware_queues: int = 1,
) -> State:
    """Tables of the given sizes with every link set to "none" and every list empty.

    Node numbers: request `i` owns 2i (by sector) and 2i+1 (by arrival), then one a CFQ queue, one a CFQ group, one
    a BFQ entity and two more a BFQ queue, one a task, and one an extent of a disk's write cache at the very end.
    """
    fair_cpus = min(cpus, n_tasks) if fair else 0
    cfq_devices = n_devices if with_cfq else 0
    n_cfq_queues = cfq_devices * (2 * n_tasks + cfq_state.ASYNC_SLOTS * n_groups)
    n_cfq_groups = cfq_devices * n_groups
    bfq_devices = n_devices if with_bfq else 0
    n_bfq_queues = bfq_devices * 2 * n_tasks
    n_bfq_groups = bfq_devices * n_groups
    first_bfq_node = 2 * n_requests + n_cfq_queues + n_cfq_groups
    first_task_node = first_bfq_node + 3 * n_bfq_queues + n_bfq_groups
    margin = TRACE_MARGIN + TRACE_ROWS_A_REQUEST * n_requests
    rows = {
        "sim": 1,
        "devices": n_devices,
        "disks": n_devices if n_zones else 0,
        "ssds": n_devices if n_dies else 0,
        "dies": n_dies,
        "zones": n_zones,
        "commands": n_requests + 2 * n_devices if n_zones else 0,
        "extents": n_extents,
        "segments": n_segments,
        "heap": n_tasks
        + n_requests
        + n_dies
        + n_limits
        + n_groups
        + 4 * n_devices
        + n_journals
        + n_flushers
        + n_teams
        + 8,
        "timers": n_devices * TIMERS_PER_DEVICE + fair_cpus,
        "tasks": n_tasks,
        "seconds": n_seconds,
        "files": n_files,
        "journals": n_journals,
        "requests": n_requests,
        "bios": n_bios,
        "nodes": first_task_node + n_tasks + n_extents,
        "streams": n_streams,
        "slots": n_slots,
        "teams": n_teams,
        "pieces": n_pieces,
        "windows": n_windows,
        "pages": n_pages,
        "groups": n_groups,
        "latency": n_devices * n_groups if with_io_latency else 0,
        "limits": n_limits,
        "iocost": n_devices if n_cost_models else 0,
        "cost_models": n_cost_models,
        "shares": n_devices * n_groups if n_cost_models else 0,
        "hardware_queues": n_devices * n_hardware_queues,
        "caches": n_devices,
        "flushers": n_flushers,
        "wbt": n_devices,
        "pools": n_devices * n_groups,
        "idle": n_devices * n_tasks * len(IDLE_REASONS),
        "histogram": n_tasks * HISTOGRAM_BINS,
        "processors": cpus,
        "trace": trace_rows + margin if trace_rows else 0,
        "deadline": n_devices if with_deadline else 0,
        "deadline_class": n_devices * deadline.CLASSES if with_deadline else 0,
        "kyber": n_devices if with_kyber else 0,
        "kyber_domains": n_devices * kyber.DOMAINS if with_kyber else 0,
        "kyber_histograms": n_devices * kyber.DOMAINS * kyber.KINDS if with_kyber else 0,
        "kyber_buckets": n_devices * kyber.DOMAINS * kyber.KINDS * kyber.BUCKETS if with_kyber else 0,
        "anticipatory": n_devices if with_anticipatory else 0,
        "antic_contexts": n_devices * n_tasks if with_anticipatory else 0,
        "cfq": cfq_devices,
        "cfq_groups": n_cfq_groups,
        "cfq_trees": n_cfq_groups * cfq_state.TREES,
        "cfq_contexts": cfq_devices * n_tasks,
        "cfq_queues": n_cfq_queues,
        "cfq_async": n_cfq_groups * cfq_state.ASYNC_SLOTS,
        "bfq": bfq_devices,
        "bfq_groups": n_bfq_groups,
        "bfq_trees": n_bfq_groups * bfq_tables.TREES,
        "bfq_entities": n_bfq_queues + n_bfq_groups,
        "bfq_contexts": bfq_devices * n_tasks,
        "bfq_queues": n_bfq_queues,
        "bfq_async": n_bfq_groups * bfq_tables.ASYNC_SLOTS,
    }
    tables = {name: table(name, n) for name, n in rows.items()}
    tables["ops"], tables["steps"] = table("ops", 0), table("steps", 0)
    tables["lists"] = empty_lists(tables)
    s = State(tables)
    sim = s.sim[0]
    sim.n_devices, sim.n_tasks, sim.n_requests, sim.n_groups = n_devices, n_tasks, n_requests, n_groups
    sim.n_files = n_files
    sim.first_cpu_timer = n_devices * TIMERS_PER_DEVICE
    sim.n_timers, sim.n_cfq_queues = sim.first_cpu_timer + fair_cpus, n_cfq_queues
    sim.fair_cpus, sim.fair = fair_cpus, min(cpus, 8).bit_length() if fair_cpus else 0
    sim.n_bfq_queues, sim.n_bfq_groups, sim.first_bfq_node = n_bfq_queues, n_bfq_groups, first_bfq_node
    sim.first_task_node = first_task_node
    if trace_rows:
        sim.trace_margin, sim.trace_rows = margin, trace_rows + margin
    s.processors.running = NONE
    s.devices.flush_running = s.devices.idle_row = s.devices.parked = NONE
    s.tasks.file = s.tasks.journal = s.tasks.stream = s.tasks.slot = s.tasks.awaited = s.tasks.climb = NONE
    s.tasks.gate = s.shares.last_end = NONE
    s.tasks.ioc = np.arange(n_tasks)
    s.tasks.team = s.tasks.window = s.tasks.reading = NONE
    s.windows.marker = s.windows.prev = NONE
    s.teams.link_head = s.teams.link_tail = NONE
    s.tasks.cleaning = s.tasks.flusher = s.files.flusher = s.files.waiter = s.wbt.oldest_read = NONE
    s.caches.slept_at = s.wbt.last_read = -NEVER
    s.tasks.latency_min = NEVER
    s.journals.running = 1
    s.disks.serving = s.disks.flush = s.disks.ahead = s.disks.free_extent = NONE
    s.ssds.flush = NONE
    s.disks.look_at = NEVER
    s.deadline_class.next_read = s.deadline_class.next_write = NONE
    s.cfq.active = s.cfq.active_task = s.cfq.serving_group = NONE
    s.cfq.hw_tag = -1
    s.cfq_contexts.queue = s.cfq_async.queue = NONE
    s.bfq_contexts.queue = s.bfq_async.queue = NONE
    s.nodes.prev = s.nodes.next = s.nodes.list = NONE
    s.timers.at = NEVER
    s.requests.bios = np.arange(1, n_requests + 1)
    s.requests.bios[-1] = NONE
    s.bios.next = np.arange(1, n_bios + 1)
    s.bios.next[-1] = NONE
    return s


@lru_cache(maxsize=4)
def _kept_empty_state(**sizes: int) -> tuple[np.ndarray, dict[str, tuple[int, int]]]:
    """The bytes of all empty tables one after the other, and of each how many rows it has and where it begins."""
    empty = empty_state(**sizes)
    tables = {name: getattr(empty, name) for name in TABLES}
    begins = np.cumsum([0, *(one.nbytes for one in tables.values())])
    places = {name: (len(one), int(begin)) for (name, one), begin in zip(tables.items(), begins)}
    return np.concatenate([one.view(np.uint8, np.ndarray).ravel() for one in tables.values()]), places


LIST_COLUMNS = {
    "devices": "fifo dispatch_list server_queue waiters flush_pending0 flush_pending1 flush_served",
    "disks": "queue dirty waiting",
    "ssds": "waiting stalled",
    "tasks": "plug_list",
    "pools": "waiters_sync waiters_async",
    "journals": "waiters writers",
    "latency": "waiters",
    "limits": "waiters",
    "shares": "waiters",
    "wbt": "waiters",
    "teams": "idle",
    "anticipatory": "sorted_sync sorted_async fifo_sync fifo_async",
    "deadline_class": "sorted_read sorted_write fifo_read fifo_write",
    "kyber_domains": "fifo",
    "cfq": "group_list chosen",
    "cfq_trees": "list",
    "cfq_queues": "sorted fifo",
    "bfq": "active dispatch_list",
    "bfq_trees": "active idle",
    "bfq_queues": "sorted fifo woken",
}


def empty_lists(tables: dict[str, np.ndarray]) -> np.ndarray:
    """Number every list that the tables refer to, and return the empty list heads."""
    n = 0
    for name, column_names in LIST_COLUMNS.items():
        for column in column_names.split():
            rows = len(tables[name])
            tables[name][column] = np.arange(n, n + rows)
            n += rows
    lists = table("lists", n)
    lists.head = lists.tail = NONE
    return lists
