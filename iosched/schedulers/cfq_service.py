"""Whose turn it is in CFQ: expiry, service trees, slices, groups and the choice of workload.

Source: spec block-layer 1.12 (expiry, trees), 1.13 (groups) and 1.14 (workloads, slice lengths).
"""

from __future__ import annotations

from ..engine.clock import cancel
from ..engine.codes import NONE, SEC, T_IDLE, TR_EXPIRE
from ..engine.jit import jit
from ..engine.lists import insert_sorted, push_front, remove
from ..engine.trace import record
from .cfq_state import (
    ASYNC,
    BE,
    GROUP_ADD_DELAY,
    IDLE,
    IDLE_CLASS_DELAY,
    IDLE_TREE_INDEX,
    RT,
    SERVICE_SHIFT,
    TREES,
    group_node,
    queue_node,
    release_queue,
    seeky,
    tree_index,
)

# ---------------------------------------------------------------------------------------------------------------------
# expiry and the service trees (1.12)


@jit
def expire(s, d, timed_out):
    """End the active queue's turn (1.12): only a queue that was cut short (`timed_out`) banks the rest of its slice."""
    c = s.cfq[d]
    i = c.active
    if i == NONE:
        return
    q = s.cfq_queues[i]
    now = s.sim[0].now
    record(s, TR_EXPIRE, q.task, NONE, 0, 1 if timed_out else 0, 0, d)
    if q.wait_request != 0:
        cancel(s, d, T_IDLE)
    q.wait_request = 0
    q.wait_busy = 0
    if q.coop != 0 and seeky(q):
        q.split_coop = 1
    if timed_out:
        q.slice_resid = scaled_slice(s, d, q) if q.slice_new != 0 else q.slice_end - now
    charge_group(s, d, q)
    if q.next_rq == NONE:
        remove_from_rr(s, d, i)
    else:
        tree_insert(s, d, i, False)
    c.active = NONE
    c.active_task = NONE
    if q.next_rq == NONE:
        release_queue(s, i)


@jit
def add_to_rr(s, d, i):
    """An empty queue got a request: it becomes busy, with the idle_window flag it had before (1.4 step 2)."""
    c = s.cfq[d]
    q = s.cfq_queues[i]
    q.on_rr = 1
    c.busy_queues += 1
    if q.sync != 0:
        c.busy_sync += 1
    group = s.cfq_groups[q.group]
    tree_insert(s, d, i, False)
    group.nr_queues += 1
    if group.on_tree == 0:
        group_enters(s, d, q.group)


@jit
def remove_from_rr(s, d, i):
    """An expired queue without requests stops being busy (1.12)."""
    c = s.cfq[d]
    q = s.cfq_queues[i]
    remove(s, queue_node(s, i))
    q.on_rr = 0
    c.busy_queues -= 1
    if q.sync != 0:
        c.busy_sync -= 1
    group = s.cfq_groups[q.group]
    group.nr_queues -= 1
    if group.nr_queues == 0:
        group_leaves(s, q.group)
        group.saved_slice = 0


@jit
def tree_insert(s, d, i, front):
    """Place a queue in its service tree (1.12); the key is in ns."""
    c = s.cfq[d]
    q = s.cfq_queues[i]
    now = s.sim[0].now
    node = queue_node(s, i)
    remove(s, node)
    q.tree = q.group * TREES + tree_index(q)
    lst = s.cfq_trees[q.tree].list
    if q.ioclass == IDLE:
        tail = s.lists[lst].tail
        key = (s.nodes[tail].key if tail != NONE else now) + IDLE_CLASS_DELAY
    elif front:
        head = s.lists[lst].head
        s.nodes[node].key = (s.nodes[head].key if head != NONE else now) - SEC
        push_front(s, lst, node)
        return
    else:
        others = s.cfq_groups[q.group].nr_queues - 1
        key = now + others * (prio_slice(c, 1, 0) - prio_slice(c, q.sync, q.ioprio)) - q.slice_resid
        q.slice_resid = 0
    insert_sorted(s, lst, node, key)


# ---------------------------------------------------------------------------------------------------------------------
# slices (1.14)


@jit
def prio_slice(c, sync, ioprio):
    """Base slice of a priority: 180 ms at level 0, 100 at 4, 40 at 7 for sync queues (1.12)."""
    base = c.slice_sync if sync != 0 else c.slice_async
    return base + base // 5 * (4 - ioprio)


@jit
def scaled_slice(s, d, q):
    """Length of the queue's slice, shortened so that a round fits `target_latency` (1.14)."""
    c = s.cfq[d]
    length = prio_slice(c, q.sync, q.ioprio)
    if c.low_latency == 0:
        return length
    group = s.cfq_groups[q.group]
    queues = averaged_busy_queues(s, group, q.group, q.ioclass)
    expected = c.slice_sync * queues
    group_slice = c.target_latency * group.vfraction >> SERVICE_SHIFT
    if expected > group_slice:
        low = min(length, 2 * c.slice_idle * length // c.slice_sync)
        length = max(length * group_slice // expected, low)
    return length


@jit
def set_slice(s, d, q):
    """The slice starts now, at the first completion (1.11 step 3)."""
    length = scaled_slice(s, d, q)
    q.slice_start = s.sim[0].now
    q.slice_end = q.slice_start + length
    q.allocated_slice = length


@jit
def busy_in_class(s, g, ioclass):
    """Busy queues of one class in a group."""
    if ioclass == IDLE:
        return s.lists[s.cfq_trees[g * TREES + IDLE_TREE_INDEX].list].count
    first = g * TREES + ioclass * 3
    return (
        s.lists[s.cfq_trees[first].list].count
        + s.lists[s.cfq_trees[first + 1].list].count
        + s.lists[s.cfq_trees[first + 2].list].count
    )


@jit
def busy_average(group, ioclass):
    """The group's smoothed count of busy queues of a class."""
    if ioclass == BE:
        return group.busy_avg_be
    if ioclass == RT:
        return group.busy_avg_rt
    return group.busy_avg_idle


@jit
def averaged_busy_queues(s, group, g, ioclass):
    """Smooth the number of busy queues, quick to rise and slow to fall (1.14)."""
    busy = busy_in_class(s, g, ioclass)
    old = busy_average(group, ioclass)
    new = (3 * max(old, busy) + min(old, busy) + 2) // 4
    if ioclass == BE:
        group.busy_avg_be = new
    elif ioclass == RT:
        group.busy_avg_rt = new
    else:
        group.busy_avg_idle = new
    return new


# ---------------------------------------------------------------------------------------------------------------------
# groups (1.13) and workloads (1.14)


@jit
def iops_mode(c):
    """Groups are charged requests instead of time (1.13)."""
    return c.slice_idle == 0 and c.hw_tag != 0


@jit
def group_enters(s, d, g):
    """A group becomes busy: behind all others, and its share of the device is computed (1.13)."""
    c = s.cfq[d]
    group = s.cfq_groups[g]
    tail = s.lists[c.group_list].tail
    if tail != NONE:
        delay = IDLE_CLASS_DELAY // c.jiffy if iops_mode(c) else GROUP_ADD_DELAY
        group.vdisktime = s.nodes[tail].key + delay
    else:
        group.vdisktime = c.min_vdisktime
    activate_group(s, g)
    insert_sorted(s, c.group_list, group_node(s, g), group.vdisktime)
    group.on_tree = 1


@jit
def activate_group(s, g):
    """Count the group as active up the tree, and compute its share."""
    group = s.cfq_groups[g]
    newly = group.nr_active == 0
    group.nr_active += 1
    group.children_weight += group.leaf_weight
    child = g
    while newly and s.cfq_groups[child].parent != NONE:
        parent = s.cfq_groups[s.cfq_groups[child].parent]
        newly = parent.nr_active == 0
        parent.nr_active += 1
        parent.children_weight += s.cfq_groups[child].weight
        child = s.cfq_groups[child].parent
    compute_share(s, g)


@jit
def compute_share(s, g):
    """vfraction: the group's share of the device among the groups that are active now, in 1/4096 (1.13)."""
    group = s.cfq_groups[g]
    fraction = (1 << SERVICE_SHIFT) * group.leaf_weight // group.children_weight
    child = g
    while s.cfq_groups[child].parent != NONE:
        parent = s.cfq_groups[s.cfq_groups[child].parent]
        fraction = fraction * s.cfq_groups[child].weight // parent.children_weight
        child = s.cfq_groups[child].parent
    group.vfraction = max(fraction, 1)


@jit
def group_leaves(s, g):
    """The group has no busy queue left; its place in line is forgotten (1.13)."""
    group = s.cfq_groups[g]
    remove(s, group_node(s, g))
    group.on_tree = 0
    group.nr_active -= 1
    gone = group.nr_active == 0
    group.children_weight -= group.leaf_weight
    child = g
    while gone and s.cfq_groups[child].parent != NONE:
        parent = s.cfq_groups[s.cfq_groups[child].parent]
        parent.nr_active -= 1
        gone = parent.nr_active == 0
        parent.children_weight -= s.cfq_groups[child].weight
        child = s.cfq_groups[child].parent


@jit
def charge_group(s, d, q):
    """Charge the slice that ends to the group's vdisktime and save what is left of its workload's turn (1.13).

    The group enters the tree anew with it, and its share is computed again: otherwise the first of two equal groups
    would count as alone for ever, and get twice as much.
    """
    c = s.cfq[d]
    now = s.sim[0].now
    group = s.cfq_groups[q.group]
    if q.slice_start == 0 or q.slice_start == now:
        used = max(now - q.dispatch_start, c.jiffy)
    else:
        used = min(now - q.slice_start, q.allocated_slice)
    charge = used
    if iops_mode(c):
        charge = q.slice_dispatch
    elif q.sync == 0 and sync_queues(s, q.group) == 0:
        charge = q.allocated_slice
    group.vdisktime += (charge << (2 * SERVICE_SHIFT)) // group.vfraction
    if group.on_tree != 0:
        node = group_node(s, q.group)
        remove(s, node)
        compute_share(s, q.group)
        insert_sorted(s, c.group_list, node, group.vdisktime)
    left = c.workload_expires - now
    group.saved_slice = left if left > 0 else 0
    group.saved_type = c.serving_type
    group.saved_class = c.serving_class


@jit
def sync_queues(s, g):
    """Busy sync queues of a group, all classes but IDLE."""
    n = 0
    for ioclass in range(2):
        for kind in range(1, 3):
            n += s.lists[s.cfq_trees[g * TREES + ioclass * 3 + kind].list].count
    return n


@jit
def choose_group(s, d):
    """Smallest vdisktime is served next and resumes the workload it was at (1.13)."""
    c = s.cfq[d]
    now = s.sim[0].now
    g = s.lists[c.group_list].head - group_node(s, 0)
    group = s.cfq_groups[g]
    c.min_vdisktime = max(c.min_vdisktime, group.vdisktime)
    c.serving_group = g
    if group.saved_slice > 0:
        c.workload_expires = now + group.saved_slice
        c.serving_type = group.saved_type
        c.serving_class = group.saved_class
    else:
        c.workload_expires = now - 1


@jit
def serving_tree(c):
    """Row of the tree that is being served."""
    if c.serving_class == IDLE:
        return c.serving_group * TREES + IDLE_TREE_INDEX
    return c.serving_group * TREES + c.serving_class * 3 + c.serving_type


@jit
def choose_workload(s, d):
    """Class by priority, type by the smallest key, and how long this workload may stay (1.14)."""
    c = s.cfq[d]
    now = s.sim[0].now
    g = c.serving_group
    before = c.serving_class
    if busy_in_class(s, g, RT) > 0:
        c.serving_class = RT
    elif busy_in_class(s, g, BE) > 0:
        c.serving_class = BE
    else:
        c.serving_class = IDLE
        c.workload_expires = now + c.jiffy
        return
    if c.serving_class == before and s.lists[s.cfq_trees[serving_tree(c)].list].count > 0 and now <= c.workload_expires:
        return
    best = NONE
    best_key = 0
    for kind in range(3):
        head = s.lists[s.cfq_trees[g * TREES + c.serving_class * 3 + kind].list].head
        if head != NONE and (best == NONE or s.nodes[head].key < best_key):
            best = kind
            best_key = s.nodes[head].key
    c.serving_type = best
    group = s.cfq_groups[g]
    group_slice = c.target_latency * group.vfraction >> SERVICE_SHIFT
    count = s.lists[s.cfq_trees[serving_tree(c)].list].count
    busy = max(busy_average(group, c.serving_class), busy_in_class(s, g, c.serving_class))
    length = group_slice * count // busy
    if best == ASYNC:
        async_queues = s.lists[s.cfq_trees[g * TREES].list].count + s.lists[s.cfq_trees[g * TREES + 3].list].count
        length = min(length, c.target_latency * async_queues // c.busy_queues)
        length = length * c.slice_async // c.slice_sync
    else:
        length = max(length, 2 * c.slice_idle)
    c.workload_expires = now + max(length, 2 * c.jiffy)
