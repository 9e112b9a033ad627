"""io.cost: each cgroup may use its weight's share of the device's time, as a linear model of the device counts it.

A bio costs so much a page, and more if it begins far from where its group's last one ended. The device's clock (vnow)
runs at `vrate`; a group's own clock advances by cost over share, and a bio waits until the device's clock has reached
it. Every period idle groups drop out, those that use less than their share lend the rest, and vrate follows what the
device shows: down while requests wait for tags or miss the latency targets, up while it does not and somebody waits.
Rows of `s.shares` are (device, group), of `s.cost_models` the presets. Source: spec bfq-and-controllers section 4.1;
the lending is the spec's rule for groups below one parent.
"""

from .clock import schedule
from .codes import EV_COST, EV_PERIOD, F_META, NONE, PAGE_SECTORS, SEC, T_WAIT_TAG, WRITE
from .jit import jit
from .lists import pop_front, push_back
from .wakeups import wake

ONE = 1 << 16  # of a share
FULL = 1_000_000  # of vrate: 100 %
FAR = 4096 * PAGE_SECTORS  # sectors: beyond this a bio is a random one
SWITCH_AFTER = 10 * SEC  # at a vrate of 500 % or more the next faster preset is taken, at 10 % or less the slower


# ---------------------------------------------------------------------------------------------------------------------
# a bio comes


@jit
def admit(s, d, task, op, flags, sector, nr):
    """Charge the bio to its task's group. False: the group has used its share, and the task sleeps."""
    t = s.tasks[task]
    if t.cost_paid != 0 or s.groups[t.group].parent == NONE:
        return True
    gi = row_of(s, d, t.group)
    g = s.shares[gi]
    begin_period(s, d)
    activate(s, d, t.group)
    cost = cost_of(s, d, g, op, sector, nr)
    if flags & F_META != 0:
        pay(s, d, t.group, cost)
    elif s.lists[g.waiters].count > 0 or not affordable(s, d, t.group, cost):
        t.cost = cost
        push_back(s, g.waiters, s.sim[0].first_task_node + task)
        t.state = T_WAIT_TAG
        arm(s, d, t.group)
        return False
    else:
        pay(s, d, t.group, cost)
    t.cost_paid = 1
    g.last_end = sector + nr
    return True


@jit
def merged(s, d, group, op, sector, nr):
    """A bio that joins a request costs its pages, and does not wait."""
    if s.groups[group].parent != NONE:
        activate(s, d, group)
        m = s.cost_models[s.iocost[d].model]
        pay(s, d, group, pages(nr) * (m.write_page if op == WRITE else m.read_page))
        s.shares[row_of(s, d, group)].last_end = sector + nr


@jit
def row_of(s, d, group):
    """Row of a group on a device."""
    return d * s.sim[0].n_groups + group


@jit
def pages(nr):
    """Pages of so many sectors, at least one."""
    return max((nr + PAGE_SECTORS - 1) // PAGE_SECTORS, 1)


@jit
def cost_of(s, d, g, op, sector, nr):
    """Nanoseconds of the device that the model counts for a bio."""
    m = s.cost_models[s.iocost[d].model]
    far = g.last_end == NONE or abs(sector - g.last_end) > FAR
    if op == WRITE:
        return pages(nr) * m.write_page + (m.write_rand if far else m.write_seq)
    return pages(nr) * m.read_page + (m.read_rand if far else m.read_seq)


@jit
def vnow(s, d):
    """The device's clock."""
    k = s.iocost[d]
    return k.vbase + (s.sim[0].now - k.vbase_at) * k.vrate // FULL


@jit
def share(s, d, group):
    """The group's share of the device: the product of the shares among the active groups of each level, in use."""
    part = ONE
    while s.groups[group].parent != NONE:
        g = s.shares[row_of(s, d, group)]
        group = s.groups[group].parent
        part = part * g.inuse // max(s.shares[row_of(s, d, group)].children, 1)
    return max(part, 1)


@jit
def affordable(s, d, group, cost):
    """Does the group's clock stay behind the device's? One that lent some of its weight takes it back step by step."""
    g = s.shares[row_of(s, d, group)]
    now = vnow(s, d)
    while g.vtime + cost * ONE // share(s, d, group) > now:
        if g.inuse >= g.weight:
            return False
        use_weight(s, d, group, min(g.inuse + max(g.weight // 4, 1), g.weight))
    return True


@jit
def pay(s, d, group, cost):
    """The group's clock advances."""
    g = s.shares[row_of(s, d, group)]
    g.vtime += cost * ONE // share(s, d, group)
    g.used += cost
    g.ios += 1


@jit
def activate(s, d, group):
    """The group and those above it take part; one that comes anew may spend half a period's share at once."""
    while s.groups[group].parent != NONE:
        g = s.shares[row_of(s, d, group)]
        if g.active != 0:
            return
        g.active = 1
        g.vtime = max(g.vtime, vnow(s, d) - margin(s, d))
        use_weight(s, d, group, g.weight)
        group = s.groups[group].parent


@jit
def margin(s, d):
    """Half a period of the device's clock."""
    k = s.iocost[d]
    return s.cost_models[k.model].period // 2 * k.vrate // FULL


@jit
def use_weight(s, d, group, weight):
    """The group counts with this weight among its siblings."""
    g = s.shares[row_of(s, d, group)]
    s.shares[row_of(s, d, s.groups[group].parent)].children += weight - g.inuse
    g.inuse = weight


@jit
def arm(s, d, group):
    """Look again when the device's clock has come to what the first who waits costs."""
    g = s.shares[row_of(s, d, group)]
    if g.timer == 0:
        g.timer = 1
        task = s.lists[g.waiters].head - s.sim[0].first_task_node
        ahead = g.vtime + s.tasks[task].cost * ONE // share(s, d, group) - vnow(s, d)
        schedule(s, s.sim[0].now + max(ahead * FULL // s.iocost[d].vrate, 0) + 1, EV_COST, row_of(s, d, group))


@jit
def let_go(s, row):
    """Let go who can be afforded, in order."""
    g = s.shares[row]
    d = row // s.sim[0].n_groups
    group = row % s.sim[0].n_groups
    while s.lists[g.waiters].count > 0:
        task = s.lists[g.waiters].head - s.sim[0].first_task_node
        t = s.tasks[task]
        if not affordable(s, d, group, t.cost):
            g.short = 1
            arm(s, d, group)
            return
        pop_front(s, g.waiters)
        pay(s, d, group, t.cost)
        t.cost_paid = 1
        wake(s, task)


@jit
def timer_fired(s, row):
    """The clock has come so far, if the rate and the shares have stayed."""
    s.shares[row].timer = 0
    let_go(s, row)


# ---------------------------------------------------------------------------------------------------------------------
# what the device shows


@jit
def request_done(s, ri):
    """Did the request meet its latency target?"""
    r = s.requests[ri]
    k = s.iocost[r.dev]
    late = s.sim[0].now - r.start
    if r.op == WRITE:
        k.writes += 1
        k.writes_late += 1 if late > k.wlat else 0
    else:
        k.reads += 1
        k.reads_late += 1 if late > k.rlat else 0


@jit
def waits_for_tag(s, d, task):
    """The task sleeps for a tag: the device has more than it can take."""
    t = s.tasks[task]
    if t.tag_asked_at == 0:
        t.tag_asked_at = s.sim[0].now


@jit
def has_tag(s, d, task):
    """The wait is over; the bio is paid for no more."""
    t = s.tasks[task]
    t.cost_paid = 0
    if t.tag_asked_at > 0:
        s.iocost[d].waited += s.sim[0].now - t.tag_asked_at
        t.tag_asked_at = 0


@jit
def begin_period(s, d):
    """Periods pass while there is I/O."""
    k = s.iocost[d]
    if k.ticking == 0:
        k.ticking = 1
        k.vbase = vnow(s, d)
        k.vbase_at = s.sim[0].now
        schedule(s, s.sim[0].now + s.cost_models[k.model].period, EV_PERIOD, d)


@jit
def period_over(s, d):
    """Who was idle drops out, who used little lends, and vrate follows."""
    k = s.iocost[d]
    sim = s.sim[0]
    k.vbase = vnow(s, d)
    k.vbase_at = sim.now
    length = s.cost_models[k.model].period
    capacity = max(length * k.vrate // FULL, 1)
    live = 0
    short = 0
    lagging = 0
    for group in range(sim.n_groups):
        g = s.shares[row_of(s, d, group)]
        if g.active == 0 or s.groups[group].parent == NONE:
            continue
        waits = s.lists[g.waiters].count > 0
        short += 1 if waits or g.short != 0 else 0
        lagging += 1 if g.ios == 0 and waits and g.inuse >= g.weight else 0
        if g.ios == 0 and not waits and not has_active_child(s, d, group):
            use_weight(s, d, group, 0)
            g.active = 0
            continue
        live += 1
        g.vtime = max(g.vtime, k.vbase - margin(s, d))
    lend(s, d, capacity)
    adjust(s, d, length, short, lagging)
    for group in range(sim.n_groups):
        g = s.shares[row_of(s, d, group)]
        g.used = g.ios = g.short = 0
        if s.lists[g.waiters].count > 0:
            let_go(s, row_of(s, d, group))
    k.reads = k.reads_late = k.writes = k.writes_late = k.waited = 0
    k.ticking = 0
    if live > 0:
        begin_period(s, d)


@jit
def has_active_child(s, d, group):
    """Is one of its children active?"""
    return s.shares[row_of(s, d, group)].children > 0


@jit
def lend(s, d, capacity):
    """A group without children that used less than its share keeps what it used, as if that were half of what it may;
    its siblings have the rest."""
    for group in range(s.sim[0].n_groups):
        g = s.shares[row_of(s, d, group)]
        if g.active == 0 or g.short != 0 or s.lists[g.waiters].count > 0 or has_active_child(s, d, group):
            continue
        wanted = min(2 * g.used * ONE // capacity, ONE - 1)
        if wanted < share(s, d, group):
            parent = s.groups[group].parent
            above = share(s, d, parent)
            others = s.shares[row_of(s, d, parent)].children - g.inuse
            if others > 0 and above > wanted:
                use_weight(s, d, group, min(max(others * wanted // (above - wanted), 1), g.weight))


@jit
def adjust(s, d, length, short, lagging):
    """Move vrate: the longer the device is (or is not) busy, the larger the step."""
    k = s.iocost[d]
    late = over(k.reads_late, k.reads, k.rpct, 100) or over(k.writes_late, k.writes, k.wpct, 100)
    near = over(k.reads_late, k.reads, k.rpct, 75) or over(k.writes_late, k.writes, k.wpct, 75)
    if 20 * k.waited > length or late:
        k.busy_level = max(k.busy_level, 0) + 1
    elif 4 * 20 * k.waited <= 3 * length and not near and lagging == 0:
        k.busy_level = min(k.busy_level, 0) - (1 if short > 0 else 0)
        if short == 0:
            k.busy_level = 0
    else:
        k.busy_level = 0
    step = rate_step(abs(k.busy_level))
    if k.busy_level > 0:
        k.vrate = k.vrate * (100 - step) // 100
    else:
        k.vrate = k.vrate * (100 + step) // 100
    k.vrate = min(max(k.vrate, k.vrate_min), k.vrate_max)
    switch_model(s, d)


@jit
def over(late, total, pct, part):
    """Are more late than `part` % of those that may be? Without a percentage there is no target."""
    return pct > 0 and late * 100 * 100 > total * (100 - pct) * part


@jit
def rate_step(level):
    """Percent by which vrate changes after so many periods in a row."""
    if level < 4:
        return 0
    if level < 20:
        return 1
    if level < 36:
        return 2
    if level < 44:
        return 4
    if level < 52:
        return 8
    return 16


@jit
def switch_model(s, d):
    """A preset that fits the device badly for ten seconds gives way to the next."""
    k = s.iocost[d]
    now = s.sim[0].now
    m = s.cost_models[k.model]
    other = NONE
    if k.vrate >= 5 * FULL:
        other = m.faster
    elif k.vrate <= FULL // 10:
        other = m.slower
    if other == NONE:
        k.misfits_since = 0
    elif k.misfits_since == 0:
        k.misfits_since = now
    elif now - k.misfits_since >= SWITCH_AFTER:
        k.model = other
        k.vrate = FULL
        k.misfits_since = 0
