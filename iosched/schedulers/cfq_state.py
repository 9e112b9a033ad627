"""What CFQ knows: its tables, the estimators that feed on them, and the small questions asked of a queue.

Source: spec block-layer 1.1 to 1.7. One row of `s.cfq` a device, `s.cfq_groups` a (device, cgroup), `s.cfq_trees` seven
a group, `s.cfq_queues` a queue, `s.cfq_contexts` a (device, task), which is what the kernel calls cic. Times are ns,
places sectors.
"""

from __future__ import annotations

from ..engine.codes import F_IDLE, F_SYNC, MSEC, NONE, WRITE
from ..engine.columns import columns
from ..engine.jit import jit
from .estimators import fold_think_time

# priority classes, workload types, and the seven service trees of a group: [BE, RT] x [ASYNC, SYNC_NOIDLE, SYNC], IDLE
BE, RT, IDLE = 0, 1, 2
ASYNC, SYNC_NOIDLE, SYNC = 0, 1, 2
TREES = 7
IDLE_TREE_INDEX = 6

SERVICE_SHIFT = 12  # vdisktime and vfraction: 1.0 is 4096
GROUP_ADD_DELAY = 200_000_000  # vdisktime units behind the last group, slice mode
IDLE_CLASS_DELAY = 200 * MSEC
SEEK_THRESHOLD = 800  # sectors
CLOSE_THRESHOLD = 8192  # sectors
SMALL_NONROTATIONAL = 64  # sectors
HW_QUEUE_MIN = 5
HW_SAMPLES = 50
THINK_VALID = 80  # samples are fixed point: the third one reaches 84
HISTORY_BITS = 0xFFFFFFFF

THINK = "last_end ttime_samples ttime_total ttime_mean"
DEVICE_COLUMNS = columns(
    "quantum fifo_expire_sync fifo_expire_async back_seek_max back_seek_penalty slice_sync slice_async slice_async_rq "
    "slice_idle group_idle low_latency target_latency ancestor_preempts jiffy group_list active active_task "
    "serving_group serving_class serving_type workload_expires busy_queues busy_sync rq_queued in_driver "
    "in_flight_sync in_flight_async hw_tag est_depth hw_samples last_position last_delayed_sync min_vdisktime "
    "chosen cooperators since_28 least_idle"
)
GROUP_COLUMNS = columns(
    "parent weight leaf_weight nr_active children_weight vfraction vdisktime on_tree nr_queues busy_avg_be "
    "busy_avg_rt busy_avg_idle saved_slice saved_type saved_class dispatched seen " + THINK
)
TREE_COLUMNS = columns("list " + THINK)
CONTEXT_COLUMNS = columns("queue seek_samples seek_total seek_mean last_request_pos " + THINK)
QUEUE_COLUMNS = columns(
    "used dev group sync task ioprio ioclass sorted fifo next_rq queued_sync queued_async dispatched dispatch_start "
    "slice_start slice_end allocated_slice slice_resid slice_dispatch seek_history last_request_pos tree merge_into "
    "refs prio_pending on_rr wait_request must_dispatch must_alloc_slice fifo_expire idle_window slice_new coop "
    "split_coop deep wait_busy meta_pending"
)
ASYNC_COLUMNS = columns("queue")  # seventeen a group: [BE, RT] x 8 levels, and the idle class
ASYNC_SLOTS = 17


# ---------------------------------------------------------------------------------------------------------------------
# estimators


@jit
def update_think_time(record_, now, idle):
    """Fold one think time into a record (1.5): weight 1/8, a sample counts at most twice the idle parameter."""
    fold_think_time(record_, min(now - record_.last_end, 2 * idle))


@jit
def think_time_big(record_, limit):
    """The mean is valid (three samples) and larger than `limit` ns (1.5)."""
    return record_.ttime_samples > THINK_VALID and record_.ttime_mean > limit


@jit
def seeky(q):
    """More than 4 of the last 32 requests were far from the one before (1.6)."""
    bits = q.seek_history & HISTORY_BITS
    count = 0
    while bits != 0:
        bits &= bits - 1
        count += 1
    return count > 4


@jit
def update_seek_history(s, q, r):
    """Shift one bit into the queue's seek history (1.6)."""
    dev = s.devices[q.dev]
    far = False
    if dev.rotational != 0:
        distance = 0
        if q.last_request_pos != 0:
            distance = abs(r.sector - q.last_request_pos)
        far = distance > SEEK_THRESHOLD
    else:
        far = r.nr < SMALL_NONROTATIONAL
    q.seek_history = (q.seek_history << 1) & HISTORY_BITS
    if far:
        q.seek_history |= 1


# ---------------------------------------------------------------------------------------------------------------------
# queues


@jit
def is_noidle_write(r):
    """SYNC without IDLE on a write: fsync data and jbd2 in 4.19, not O_DIRECT (section 0)."""
    return r.op == WRITE and (r.cmd_flags & F_SYNC) != 0 and (r.cmd_flags & F_IDLE) == 0


@jit
def new_queue(s, d, group, task, sync, ioprio, ioclass):
    """Take a free queue record and initialise it (1.3)."""
    i = 0
    while s.cfq_queues[i].used != 0:
        i += 1
    q = s.cfq_queues[i]
    first_seen(s, group)
    q.used = 1
    q.dev = d
    q.group = group
    q.task = task
    q.sync = sync
    q.ioprio = ioprio
    q.ioclass = ioclass
    q.next_rq = NONE
    q.queued_sync = 0
    q.queued_async = 0
    q.dispatched = 0
    q.slice_resid = 0
    q.slice_dispatch = 0
    q.slice_end = 0
    q.slice_start = 0
    q.seek_history = 0
    q.last_request_pos = 0
    q.tree = NONE
    q.merge_into = NONE
    q.refs = 0
    q.prio_pending = 0
    q.on_rr = 0
    q.wait_request = 0
    q.must_dispatch = 0
    q.must_alloc_slice = 0
    q.fifo_expire = 0
    q.idle_window = 1 if sync != 0 and ioclass != IDLE else 0
    q.slice_new = 0
    q.coop = 0
    q.split_coop = 0
    q.deep = 0
    q.wait_busy = 0
    q.meta_pending = 0
    return i


@jit
def first_seen(s, g):
    """A group's think-time records, and those of its trees, count from its first request on (1.5)."""
    group = s.cfq_groups[g]
    if group.seen == 0:
        group.seen = 1
        group.last_end = s.sim[0].now
        for k in range(TREES):
            s.cfq_trees[g * TREES + k].last_end = s.sim[0].now


@jit
def release_queue(s, i):
    """Give the record back once no process and no request needs it; who was to be merged into it goes where it went."""
    q = s.cfq_queues[i]
    if q.sync != 0 and q.refs == 0 and q.on_rr == 0 and q.dispatched == 0 and s.cfq[q.dev].active != i:
        q.used = 0
        for j in range(s.sim[0].n_cfq_queues):
            if s.cfq_queues[j].merge_into == i:
                s.cfq_queues[j].merge_into = q.merge_into


@jit
def queue_node(s, i):
    """The list node of queue `i`: behind the two of every request."""
    return 2 * s.sim[0].n_requests + i


@jit
def group_node(s, g):
    """The list node of group `g`."""
    return 2 * s.sim[0].n_requests + s.sim[0].n_cfq_queues + g


@jit
def workload_type(q):
    """ASYNC, SYNC_NOIDLE or SYNC (1.7)."""
    if q.sync == 0:
        return ASYNC
    return SYNC if q.idle_window != 0 else SYNC_NOIDLE


@jit
def tree_index(q):
    """Which of its group's seven trees the queue belongs in now."""
    if q.ioclass == IDLE:
        return IDLE_TREE_INDEX
    return q.ioclass * 3 + workload_type(q)


@jit
def slice_used(s, q):
    """The slice has begun (a completion was seen) and is over."""
    return q.slice_new == 0 and s.sim[0].now >= q.slice_end


@jit
def should_idle(s, d, q):
    """Is it worth keeping the device for this queue (1.10)? The last clause waits for the last queue of a tree."""
    c = s.cfq[d]
    if c.slice_idle == 0 or q.ioclass == IDLE:
        return False
    if q.idle_window != 0 and not (s.devices[d].rotational == 0 and c.hw_tag != 0):
        return True
    tree = s.cfq_trees[q.tree]
    return s.lists[tree.list].count == 1 and q.sync != 0 and not think_time_big(tree, c.slice_idle)
