"""The tables of the closed form of BFQ, and the numbers in them: one row a point of the grid, two queues a point.

Integers throughout: ns and 512-byte sectors.
"""

from __future__ import annotations

import numpy as np

from ..engine.columns import columns
from ..engine.jit import jit
from ..schedulers.bfq_tables import (
    FEATURES,
    WAKER_COLUMNS,
)

PAGE, SECTORS = 4096, 8  # bytes and sectors of a page
FIRST_LOG, NEW_LOG, OLD_LOG = 6, 4, 2  # blocks of jbd2's log write: new file, new block, neither
NEW_FILES_LOG = 9  # the same after the files that dbench made: descriptor, the flushed file's five, three of others
DATA, LOG, FIXED, PASSES = 0, 1, 2, 3  # a step: dd's pages, the log's blocks, so many sectors, nothing that BFQ sees
LOADED = 4  # or what dbench's load says

TOO_IDLE, TIMEOUT, EXHAUSTED, NO_MORE, PREEMPTED = 0, 1, 2, 3, 4  # why a slot ends
ALONE, WEIGHTS, GROUPS, THROUGHPUT, RAISED, STRICT = 0, 1, 2, 3, 4, 5  # why BFQ idles
REASONS = (
    "the only busy queue",
    "queues of different weights",
    "a cgroup with requests",
    "for throughput",
    "weight-raised, others not",
    "strict_guarantees",
)
WAITS, PREEMPTS, BY_LIMIT, BY_WAKER, DIRECT, OPEN = 0, 1, 2, 3, 4, 5  # what becomes of a request
FATES = ("waits", "preempts", "injected by limit", "injected as waker or woken", "sent directly", "no window")
N_REASONS, N_FATES = len(REASONS), len(FATES)
WAITED = N_REASONS + N_FATES  # column of the ns waited, behind the counts of reasons and of fates

POINT = columns(
    "metadata operation counting stop data "
    "slice_idle think_limit soft_pause jiffy timeout_sync user_max_budget strict low_latency rotational wakeup bs "
    "direct count skipped start quiet mount loop tail reads read_ns log_size apart same_group uneven0 uneven1 "
    "uneven weight0 weight1 child0 child1 group0 group1 " + FEATURES + " " + WAKER_COLUMNS
)
STEP = columns("host task service kind nr runs")
LOAD = columns("operations counted data log rewrite sets_time")  # a flush of dbench's; data and log in sectors
SUMS = columns("flushes commits operations counted elapsed")  # of dbench, since the warm-up
QUEUE = columns(
    "used child plain group_weight weight coeff nr dispatched busy wait residual max_budget budget service io_bound "
    "timely io_start tot_idle short samples total mean_think last_end limit last_serv decreased waker tentative "
    "detections detection_start budget_timeout raised_at raised_for raised_before soft_next soft_update "
    "idle_backlogged service_backlogged service_raised e_active e_counted e_weight e_budget e_service e_start "
    "e_finish"
)
SCHEDULER = columns(
    "until jiffies in_service busy raised_busy in_driver last_completion last_completed last_task max_budget "
    "budgets_assigned last_budget_start last_idling_start vtime serving latest rate rate_samples rate_sectors "
    "rate_sequential rate_first rate_last_dispatch rate_biggest wait_dispatch waited injected arrived_empty why fate "
    "direct position mapped head data log"
)
STATE = np.dtype([*SCHEDULER.descr, ("q", QUEUE, (2,))])


@jit
def tick(p, c, now):
    """The time as jiffies show it."""
    if now < c.jiffies or now >= c.jiffies + p.jiffy:
        c.jiffies = now // p.jiffy * p.jiffy
    return c.jiffies
