"""io.latency: a cgroup that misses its target makes the others send less, one step every half second.

It looks at bios, before the scheduler. A group's bios in flight are limited by its depth, which follows a number that
its parent keeps (the cookie): a group with a target lowers it where its latency is too high, and its siblings halve
their depth when they next submit. Rows of `s.latency` are groups (device-major); a device's first row is the root,
which is a parent only. Source: spec bfq-and-controllers section 3, block-layer section 7b.
"""

from .clock import schedule
from .codes import EV_LATENCY, F_META, MSEC, NEVER, NONE, SEC, T_WAIT_TAG, TR_DEPTH
from .jit import jit
from .lists import pop_front, push_back
from .trace import record
from .wakeups import wake

ROOT = 0
UNLIMITED = NEVER
COOKIE = 1_000_000  # what a parent's cookie stands at while nobody misses a target
BETWEEN_STEPS = 500 * MSEC
GOOD_SAMPLES = 5  # fewer do not raise the cookie
FORGET_AFTER = 5 * SEC  # without a step the group that lowered the cookie has no say any more
MOST_DEBT = 250 * MSEC  # that one return to user space pays


# ---------------------------------------------------------------------------------------------------------------------
# a bio comes


@jit
def admit(s, d, task, flags):
    """Take a place in each group from the task's own up to the root. False: a group is full, and the task sleeps in its
    list until it is given the place. Metadata passes (it would hold up others), and pays later."""
    t = s.tasks[task]
    now = s.sim[0].now
    if t.climb == NONE:
        t.climb = t.group
        t.asked_at = now
        if s.devices[d].latency_timer == 0:
            s.devices[d].latency_timer = 1
            schedule(s, now + SEC, EV_LATENCY, d)
    while t.climb != ROOT:
        gi = row_of(s, d, t.climb)
        follow_parent(s, d, t.climb)
        g = s.latency[gi]
        if flags & F_META == 0 and (g.inflight >= g.depth or s.lists[g.waiters].count > 0):
            push_back(s, g.waiters, s.sim[0].first_task_node + task)
            t.state = T_WAIT_TAG
            return False
        g.inflight += 1
        t.climb = s.groups[t.climb].parent
    return True


@jit
def track(s, task, bi):
    """The bio that was admitted: its latency counts from when it asked."""
    t = s.tasks[task]
    b = s.bios[bi]
    b.tracked = 1
    b.start = t.asked_at
    t.climb = NONE


@jit
def row_of(s, d, group):
    """Row of a group on a device."""
    return d * s.sim[0].n_groups + group


@jit
def follow_parent(s, d, group):
    """See whether the parent's cookie moved since the group last looked, and change the depth by one step."""
    g = s.latency[row_of(s, d, group)]
    p = s.latency[row_of(s, d, s.groups[group].parent)]
    if g.seen == p.cookie:
        return
    down = p.cookie < g.seen
    g.seen = p.cookie
    most = s.devices[d].queue_tags
    if down:
        if g.target > 0 and (g.target <= p.scale_latency or 20 * g.samples <= p.children_samples):
            return
        if g.depth == 1:
            g.use_delay += 1
        else:
            g.depth = max(min(g.depth, most) // 2, 1)
    elif p.cookie >= COOKIE:
        g.depth = UNLIMITED
        g.use_delay = g.delay = 0
    elif g.depth == 1 and g.use_delay > 0:
        g.use_delay -= 1
    elif g.depth != UNLIMITED:
        g.depth = min(g.depth + max(most // 16, 1), most)
    record(s, TR_DEPTH, NONE, NONE, 0 if g.depth == UNLIMITED else g.depth, group, 0, d)
    let_in(s, d, group)


@jit
def let_in(s, d, group):
    """Give free places to those who wait longest, and wake them."""
    g = s.latency[row_of(s, d, group)]
    while g.inflight < g.depth and s.lists[g.waiters].count > 0:
        task = pop_front(s, g.waiters) - s.sim[0].first_task_node
        g.inflight += 1
        s.tasks[task].climb = s.groups[group].parent
        wake(s, task)


# ---------------------------------------------------------------------------------------------------------------------
# a bio is done


@jit
def bio_done(s, d, group, latency, flags):
    """Give the places back, and count the latency in each group with a target. What was let through at once is charged
    to a group that is at its lowest depth and still in the way."""
    while group != ROOT:
        g = s.latency[row_of(s, d, group)]
        g.inflight -= 1
        if flags & F_META != 0:
            if g.use_delay > 0:
                g.delay += max(0, g.target - latency)
        elif g.target > 0:
            g.total += 1
            if latency >= g.target:
                g.missed += 1
            g.elapsed += latency
            if s.sim[0].now - g.window_start >= g.window:
                window_over(s, d, group)
        let_in(s, d, group)
        group = s.groups[group].parent


@jit
def meets_target(s, d, target, total, missed, elapsed):
    """Rotational: the mean. Else the 90th percentile."""
    if s.devices[d].rotational != 0:
        return elapsed <= target * total
    return missed < max(total // 10, 1)


@jit
def window_over(s, d, group):
    """Judge the window, and everything since the last step; make the next step if half a second has passed."""
    g = s.latency[row_of(s, d, group)]
    p = s.latency[row_of(s, d, s.groups[group].parent)]
    now = s.sim[0].now
    total = g.total
    missed = g.missed
    elapsed = g.elapsed
    g.total = g.missed = g.elapsed = 0
    g.window_start = now
    good = meets_target(s, d, g.target, total, missed, elapsed)
    if good and p.cookie >= COOKIE:
        return
    g.all_total += total
    g.all_missed += missed
    g.all_elapsed += elapsed
    p.children_samples += g.all_total - g.samples
    g.samples = g.all_total
    if now - p.changed_at < BETWEEN_STEPS:
        return
    if good and meets_target(s, d, g.target, g.all_total, g.all_missed, g.all_elapsed):
        if g.all_total < GOOD_SAMPLES:
            return
        if p.scale_group == group:
            p.changed_at = now
            raise_cookie(s, d, p)
    elif p.scale_latency == 0 or p.scale_latency >= g.target:
        p.changed_at = now
        if p.scale_latency != g.target:
            p.scale_group = group
            p.scale_latency = g.target
        lower_cookie(s, d, p)
    g.all_total = g.all_missed = g.all_elapsed = 0


@jit
def lower_cookie(s, d, p):
    """A quarter of the queue a step; one by one beyond a queue's length, and no further than two."""
    most = s.devices[d].queue_tags
    step = 1 if COOKIE - p.cookie > most else max(most // 4, 1)
    p.cookie = max(p.cookie - step, COOKIE - 2 * most)


@jit
def raise_cookie(s, d, p):
    """A sixteenth of the queue a step; one by one where it is lower than a queue's length."""
    most = s.devices[d].queue_tags
    step = 1 if COOKIE - p.cookie > most else max(most // 16, 1)
    p.cookie = min(p.cookie + step, COOKIE)


@jit
def timer_fired(s, d):
    """Once a second while there is I/O: forget who lowered a cookie and has been silent, let it rise by itself then."""
    s.devices[d].latency_timer = 0
    for group in range(s.sim[0].n_groups):
        p = s.latency[row_of(s, d, group)]
        if p.scale_group == NONE:
            raise_cookie(s, d, p)
        elif s.sim[0].now - p.changed_at >= FORGET_AFTER:
            p.scale_group = NONE
            p.scale_latency = 0


# ---------------------------------------------------------------------------------------------------------------------
# the task


@jit
def congested(s, d, group):
    """Is one of the task's groups at its lowest depth and still in the way? Readahead stops for it."""
    if s.devices[d].io_latency == 0:
        return False
    while group != ROOT:
        if s.latency[row_of(s, d, group)].use_delay > 0:
            return True
        group = s.groups[group].parent
    return False


@jit
def debt(s, d, group):
    """Nanoseconds to wait on the way back to user space: the largest debt among the task's groups, which is paid so."""
    longest = 0
    while group != ROOT:
        g = s.latency[row_of(s, d, group)]
        longest = max(longest, min(g.delay, MOST_DEBT))
        g.delay = 0
        group = s.groups[group].parent
    return longest
