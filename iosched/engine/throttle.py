"""balance_dirty_pages: how fast a writer may dirty pages once there are many (spec block-layer section 10).

Below the middle between the background and the dirty threshold a writer runs freely. Above it, it sleeps after so many
pages for as long as its rate asks for. The rate follows what the device writes, times a factor that pulls the number of
dirty pages to the middle between that point and the limit. Rates are pages a second, pauses are timer ticks.

One device takes part in the writeback, so its share of the thresholds is the whole; and the thresholds stand still, so
that the limit which decays slowly towards them is the dirty threshold itself.
"""

from . import fair
from .clock import schedule
from .codes import EV_TASK, MSEC, NEVER, SEC, T_YIELDED
from .iowait import enter_io_wait
from .jit import jit

ONE = 1024  # of the position ratio
FIRST_RATE = 25_600  # pages a second: 100 MB/s, until something is measured
BETWEEN_UPDATES = 200 * MSEC
BANDWIDTH_PERIOD = 4096 * MSEC  # 3 s, rounded up to a power of two ticks
FEWEST_PAGES = 32  # between two looks at the limits


@jit
def log2(n):
    """The integer logarithm; that of 0 is 0."""
    k = 0
    while n >= 2 << k:
        k += 1
    return k


@jit
def free_run(c):
    """Dirty pages up to which nobody is held."""
    return (c.limit + c.background) // 2


@jit
def runs_free(c):
    """Are there so few dirty pages that nobody is held?"""
    return c.dirty + c.writeback <= free_run(c)


@jit
def position_ratio(c):
    """The rate's factor in 1024ths, from the dirty pages' distance to the set point: 2048 far below, 0 at the limit.

    A second factor brakes slowly over what the device writes in eight seconds beyond the set point.
    """
    dirty = c.dirty + c.writeback
    if dirty >= c.limit:
        return 0
    set_point = (free_run(c) + c.limit) // 2
    x = (set_point - dirty) * ONE // (c.limit - set_point + 1)
    ratio = min(max(ONE + x * x // ONE * x // ONE, 0), 2 * ONE)
    span = max(8 * c.average, 1)
    slow = (set_point + span - dirty) * ONE // span
    return ratio * max(slow, ONE // 4) // ONE


@jit
def update_rates(s, d, held):
    """Every 200 ms: what the device writes, and, where writers are `held`, the rate at which they may dirty."""
    c = s.caches[d]
    now = s.sim[0].now
    elapsed = now - c.updated_at
    if elapsed < BETWEEN_UPDATES:
        return
    written = c.written - c.written_before
    dirtied = c.dirtied - c.dirtied_before
    if elapsed <= SEC:
        if held:
            update_ratelimit(c, dirtied * SEC // elapsed)
        update_bandwidth(c, written, elapsed)
    c.updated_at = now
    c.written_before = c.written
    c.dirtied_before = c.dirtied


@jit
def update_bandwidth(c, written, elapsed):
    """Pages a second that the device writes: a mean over about four seconds, and a smoother one behind it."""
    before = c.bandwidth
    c.bandwidth = max((written * SEC + before * (BANDWIDTH_PERIOD - elapsed)) // BANDWIDTH_PERIOD, 1)
    if c.average > before and before >= c.bandwidth:
        c.average -= (c.average - before) // 8
    elif c.average < before and before <= c.bandwidth:
        c.average += (before - c.average) // 8
    c.average = max(c.average, 1)


@jit
def update_ratelimit(c, dirty_rate):
    """Move the rate a step towards the one at which writers would dirty just what the device writes."""
    rate = c.ratelimit
    task_rate = rate * position_ratio(c) // ONE + 1
    balanced = min(task_rate * c.bandwidth // max(dirty_rate, 1), c.bandwidth)
    set_point = (free_run(c) + c.limit) // 2
    if c.dirty + c.writeback < set_point:
        step = min(min(c.balanced, balanced), task_rate) - rate
    else:
        step = rate - max(max(c.balanced, balanced), task_rate)
    step = max(step, 0)
    step = ((step >> min(rate // (2 * step + 1), 62)) + 7) // 8
    c.balanced = max(balanced, 1)
    c.ratelimit = max(rate + step if rate < balanced else rate - step, 1)


@jit
def longest_pause(c, hz):
    """Ticks: 200 ms, or an eighth of the time in which the device writes what is dirty."""
    eighth = 1
    while eighth < 1 + hz // 8:
        eighth *= 2
    ticks = (c.dirty + c.writeback) // (1 + c.average // eighth) + 1
    return max(min(ticks, hz // 5), 1)


@jit
def balance(s, task):
    """The task has dirtied its share of pages: let it go on (True) or put it to sleep (False)."""
    t = s.tasks[task]
    c = s.caches[t.dev]
    tick_ns = s.sim[0].tick_ns
    hz = SEC // tick_ns
    now = (s.sim[0].now + t.owed) // tick_ns  # the task's own clock
    if runs_free(c):
        t.paused_at = now
        t.dirtied = 0
        t.dirty_share = 1 << (log2(c.limit - c.dirty - c.writeback) // 2)
        return True
    update_rates(s, t.dev, True)
    most = longest_pause(c, hz)
    rate = c.ratelimit * position_ratio(c) // ONE
    if rate == 0:  # at the limit: sleep and look again, with the same pages to pay for
        sleep(s, task, now, most)
        return False
    share, least = next_share(c, hz, most)
    period = hz * t.dirtied // rate
    pause = period - (now - t.paused_at)
    if pause < least:
        if pause < -hz:
            t.paused_at = now
            t.dirtied = 0
        elif period > 0:
            t.paused_at += period
            t.dirtied = 0
        else:
            t.dirty_share += t.dirtied
        return True
    paid = now
    if pause > most:
        paid += min(pause - most, most)
        pause = most
    t.dirtied = 0
    t.dirty_share = share
    t.paused_at = paid + pause
    sleep(s, task, now, pause)
    return False


@jit
def next_share(c, hz, most):
    """(pages until the task looks again, shortest pause worth a sleep): 10 ms of the rate, more where many share it."""
    t = hz // 100 + max(log2(c.average) - log2(c.ratelimit), 0) * hz // 100
    t = max(min(t, 1 + most // 2), 1)
    pages = c.ratelimit * t // hz
    if pages < FEWEST_PAGES:
        t = most
        pages = c.ratelimit * t // hz
        if pages > FEWEST_PAGES:
            pages = FEWEST_PAGES
            t = hz * FEWEST_PAGES // c.ratelimit
    return max(pages, 1), (1 + t // 2 if pages >= FEWEST_PAGES else max(t, 1))


@jit
def sleep(s, task, now, ticks):
    """Pay what is owed, then sleep: a timer of n ticks fires between n and n + 1 ticks later."""
    enter_io_wait(s, task)
    t = s.tasks[task]
    c = s.caches[t.dev]
    t.state = T_YIELDED
    if t.owed > 0 and s.sim[0].fair != 0:
        t.nap = ticks
        s.sim[0].cpu_ns += t.owed
        fair.run_for(s, task, t.owed)
    else:
        schedule(s, (now + ticks + 1) * s.sim[0].tick_ns, EV_TASK, task)
    t.owed = 0
    wakes_at = (now + ticks + 1) * s.sim[0].tick_ns
    c.slept_at = s.sim[0].now
    c.pauses += 1
    c.paused_ns += wakes_at - s.sim[0].now


@jit
def held_recently(c, now):
    """Did a writer sleep here within the last second? WBT looks at it."""
    return c.slept_at != -NEVER and now - c.slept_at < SEC
