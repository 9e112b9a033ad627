"""B-WF2Q+: which of several queues and groups is served next, in proportion to weights (spec bfq 1.2).

Every queue and every group but the root is an entity in one of the three service trees (one a priority class) of the
group above it. Entity `i` is queue `i`; entities of groups come behind all queues. An entity is in a tree's active
list, in its idle list (it left before its time was up, and is remembered so that it cannot cheat by coming back), or it
is the group's entity in service. Lists stand in for trees: they hold as many rows as processes do I/O.
"""

from ..engine.codes import NONE
from ..engine.jit import jit
from ..engine.lists import insert_sorted, push_front, remove
from .bfq_tables import BE, IDLE, IDLE_CLASS_DELAY, RT, TREES

SERVICE_SHIFT = 22  # one sector at weight 1 is 2^22 units of virtual time


@jit
def entity_node(s, e):
    """List node of entity `e` in its service tree."""
    return s.sim[0].first_bfq_node + e


@jit
def active_node(s, i):
    """List node of queue `i` in the device's list of active queues."""
    return s.sim[0].first_bfq_node + s.sim[0].n_bfq_queues + s.sim[0].n_bfq_groups + i


@jit
def woken_node(s, i):
    """List node of queue `i` among the queues that its waker wakes."""
    return s.sim[0].first_bfq_node + 2 * s.sim[0].n_bfq_queues + s.sim[0].n_bfq_groups + i


@jit
def group_entity(s, g):
    """Entity of group row `g`."""
    return s.sim[0].n_bfq_queues + g


@jit
def virtual_time(amount, weight):
    """Virtual time of `amount` sectors at a weight."""
    return (amount << SERVICE_SHIFT) // weight


@jit
def in_active(s, e):
    """Is the entity in the active list of its tree?"""
    row = s.bfq_entities[e]
    return s.nodes[entity_node(s, e)].list == s.bfq_trees[row.tree].active


@jit
def has_active(s, g):
    """Number of active entities in the group's trees; the one in service is not among them."""
    first = g * TREES
    return (
        s.lists[s.bfq_trees[first].active].count
        + s.lists[s.bfq_trees[first + 1].active].count
        + s.lists[s.bfq_trees[first + 2].active].count
    )


@jit
def jumped_vtime(s, tree):
    """The tree's virtual time, moved on to the earliest start if nobody is eligible."""
    earliest = tree.vtime
    n = s.lists[tree.active].head
    first = True
    while n != NONE:
        start = s.bfq_entities[n - entity_node(s, 0)].start
        if first or start < earliest:
            earliest = start
            first = False
        n = s.nodes[n].next
    return max(tree.vtime, earliest)


@jit
def first_eligible(s, tree):
    """Among the entities whose start has come, the one with the smallest finish; NONE in an empty tree."""
    vtime = jumped_vtime(s, tree)
    n = s.lists[tree.active].head
    while n != NONE:
        e = n - entity_node(s, 0)
        if s.bfq_entities[e].start <= vtime:
            return e
        n = s.nodes[n].next
    return NONE


@jit
def next_entity(s, g):
    """The group's next entity: classes in strict order."""
    for ioclass in (RT, BE, IDLE):
        e = first_eligible(s, s.bfq_trees[g * TREES + ioclass])
        if e != NONE:
            return e
    return NONE


@jit
def settle_vtime(s, g):
    """Let virtual time jump where nothing is in service."""
    if s.bfq_groups[g].serving != NONE:
        return
    for ioclass in range(TREES):
        tree = s.bfq_trees[g * TREES + ioclass]
        tree.vtime = jumped_vtime(s, tree)


@jit
def apply_weight(s, e):
    """A changed weight counts from the next insertion on."""
    row = s.bfq_entities[e]
    weight = row.base_weight * row.coeff
    if row.counted != 0:
        s.bfq_trees[row.tree].weights += weight - row.weight
    row.weight = weight


@jit
def enqueue(s, e, shifted):
    """Into the active list, with the finish that its budget gives."""
    row = s.bfq_entities[e]
    tree = s.bfq_trees[row.tree]
    apply_weight(s, e)
    row.finish = row.start + virtual_time(row.budget, row.weight)
    if shifted and tree.vtime > row.finish:
        ahead = (tree.vtime - row.finish) // row.coeff
        row.start += ahead
        row.finish += ahead
    insert_sorted(s, tree.active, entity_node(s, e), row.finish)
    if e < s.sim[0].n_bfq_queues:
        node = active_node(s, e)
        remove(s, node)
        push_front(s, s.bfq[s.bfq_queues[e].dev].active, node)


@jit
def activate(s, e, residual):
    """The entity enters. One that went idle not by its own fault (`residual`) starts where it had stopped, moved up to
    virtual time if that is too far behind."""
    row = s.bfq_entities[e]
    tree = s.bfq_trees[row.tree]
    begin = tree.vtime
    shifted = False
    if residual and tree.vtime > row.finish:
        shifted = True
        begin = row.finish
    if row.counted != 0:
        remove(s, entity_node(s, e))
        row.start = max(begin, row.finish)
    else:
        row.start = begin
        tree.weights += row.weight
        row.counted = 1
    enqueue(s, e, shifted)


@jit
def requeue(s, e):
    """Insert again: an entity in service starts anew behind the service it got, another one keeps its start."""
    row = s.bfq_entities[e]
    if s.bfq_groups[row.group].serving == e:
        row.finish = row.start + virtual_time(row.service, row.weight)
        row.start = row.finish
        row.service = 0
    remove(s, entity_node(s, e))
    enqueue(s, e, False)


@jit
def come_back(s, e):
    """The entity leaves service and enters anew behind those that are here, to whom virtual time may jump."""
    row = s.bfq_entities[e]
    tree = s.bfq_trees[row.tree]
    tree.vtime = jumped_vtime(s, tree)
    row.start = max(row.start + virtual_time(row.service, row.weight), tree.vtime)
    row.service = 0
    enqueue(s, e, False)


@jit
def activate_up(s, e, residual, always):
    """Activate or requeue the entity and every group above it as far as something changes for them.

    The group of a queue that is kept although it is empty (5.3, spec 1.9) does not go on where it was, if a queue
    beside the group is waiting, but comes back: so the queue that preempted it is next, as every anatomy log and the
    dd rows of 5.3 to 5.10 in a child cgroup show. Between groups nothing asks for that, and weights would be void.
    """
    kept_empty = always and e < s.sim[0].n_bfq_queues and s.bfq_queues[e].queued == 0
    while True:
        row = s.bfq_entities[e]
        g = row.group
        before = next_entity(s, g)
        beside = before < s.sim[0].n_bfq_queues <= e
        if kept_empty and beside and s.bfq_groups[g].serving == e and not in_active(s, e):
            come_back(s, e)
        elif s.bfq_groups[g].serving == e or in_active(s, e):
            requeue(s, e)
        else:
            activate(s, e, residual)
        settle_vtime(s, g)
        after = next_entity(s, g)
        if s.bfq_groups[g].parent == NONE:
            return
        up = group_entity(s, g)
        s.bfq_entities[up].budget = s.bfq_entities[after].budget
        waits = in_active(s, up) or s.bfq_groups[s.bfq_entities[up].group].serving == up
        if before == after and waits and not always:
            return
        e = up


@jit
def deactivate_up(s, e):
    """The entity leaves, and with it every group that becomes empty by that.

    Who leaves without being in service got what it got by injection, which ends no slot: its finish counts that service
    once, here. Counted again each time, its place in line would run away: a sequential reader beside a random one in
    another group kept 0.05 of its rate, and 5.6.4 with a write cache had one state in dbench where its rows have two.
    """
    while True:
        row = s.bfq_entities[e]
        g = row.group
        tree = s.bfq_trees[row.tree]
        row.finish = row.start + virtual_time(row.service, row.weight)
        if s.bfq_groups[g].serving == e:
            s.bfq_groups[g].serving = NONE
        else:
            row.service = 0
        remove(s, entity_node(s, e))
        if row.finish > tree.vtime:
            insert_sorted(s, tree.idle, entity_node(s, e), row.finish)
        else:
            forget(tree, row)
        settle_vtime(s, g)
        if s.bfq_groups[g].parent == NONE:
            return
        up = group_entity(s, g)
        if has_active(s, g) > 0 or s.bfq_groups[g].serving != NONE:
            following = next_entity(s, g)
            if following != NONE:
                s.bfq_entities[up].budget = s.bfq_entities[following].budget
                activate_up(s, up, False, True)
            return
        e = up


@jit
def forget(tree, row):
    """The entity's weight counts no longer."""
    tree.weights -= row.weight
    row.counted = 0


@jit
def forget_idle(s, tree):
    """Drop remembered entities whose time is up."""
    n = s.lists[tree.idle].head
    while n != NONE and s.nodes[n].key <= tree.vtime:
        remove(s, n)
        forget(tree, s.bfq_entities[n - entity_node(s, 0)])
        n = s.lists[tree.idle].head


@jit
def charge(s, e, amount):
    """Book `amount` sectors of service at every level."""
    while True:
        row = s.bfq_entities[e]
        tree = s.bfq_trees[row.tree]
        row.service += amount
        tree.vtime += virtual_time(amount, tree.weights)
        forget_idle(s, tree)
        if s.bfq_groups[row.group].parent == NONE:
            return
        e = group_entity(s, row.group)


@jit
def choose_next(s, d):
    """Walk down from the root and take the next queue into service; NONE when no queue is active."""
    c = s.bfq[d]
    g = c.root
    while True:
        settle_vtime(s, g)
        e = NONE
        if s.sim[0].now - c.idle_class_at > IDLE_CLASS_DELAY:
            e = first_eligible(s, s.bfq_trees[g * TREES + IDLE])
            if e != NONE:
                c.idle_class_at = s.sim[0].now
        if e == NONE:
            e = next_entity(s, g)
        if e == NONE:
            return NONE
        s.bfq_groups[g].serving = e
        if e < s.sim[0].n_bfq_queues:
            remove(s, entity_node(s, e))
            return e
        g = e - s.sim[0].n_bfq_queues
        if has_active(s, g) == 1:
            remove(s, entity_node(s, e))


@jit
def leave_service(s, e):
    """Nothing is in service on the way from the root to this entity; the groups' service starts from zero again."""
    while True:
        g = s.bfq_entities[e].group
        s.bfq_groups[g].serving = NONE
        if s.bfq_groups[g].parent == NONE:
            return
        e = group_entity(s, g)
        s.bfq_entities[e].service = 0
