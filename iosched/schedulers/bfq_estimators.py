"""What BFQ measures: think time, I/O-boundness, seekiness, the device's queueing and peak rate (spec bfq 1.4-1.6)."""

from ..engine.codes import MSEC, NONE, SEC, T_DONE
from ..engine.jit import jit
from .bfq_tables import (
    BUDGETS_ASSIGNED_ENOUGH,
    DEFAULT_BUDGET,
    HISTORY_BITS,
    HW_SAMPLES,
    IDLE,
    MIN_BUDGET_SHARE,
    RATE_BUSY_GAP,
    RATE_GAP,
    RATE_LIMIT,
    RATE_MIN_WINDOW,
    RATE_SAMPLES,
    RATE_SHIFT,
    RATE_WINDOW,
    SEEK_THRESHOLD,
    SEEKY_BITS,
    SMALL_NONROTATIONAL,
    THINK_VALID,
    TIMELY_REQUESTS,
)


@jit
def jiffies(s, d):
    """The time as the tick sees it, in ns: deadlines and durations of BFQ mostly have its grain (spec trap 13)."""
    jiffy = s.bfq[d].jiffy
    return s.sim[0].now // jiffy * jiffy


@jit
def sample_think_time(s, c, q):
    """Fold one think time into the queue's mean (1.6): weight 1/8, a sample counts at most twice slice_idle.

    Since 5.12 only arrivals count that end a real pause: not those of a busy queue, and an idled-upon queue is busy.
    """
    if c.think_idle != 0 and (q.dispatched > 0 or q.busy != 0):
        return
    elapsed = min(s.sim[0].now - q.last_end, 2 * c.slice_idle)
    q.samples = (7 * q.samples + 256) // 8
    q.total_think = (7 * q.total_think + 256 * elapsed) // 8
    q.mean_think = (q.total_think + 128) // q.samples


@jit
def thinks_short(s, c, q, task):
    """Does the process come back within slice_idle (half of it since 5.12), as far as three samples tell (1.6)?"""
    if s.tasks[task].state == T_DONE:
        return False
    return q.samples <= THINK_VALID or q.mean_think <= c.slice_idle // c.think_divisor


@jit
def has_think_time(q):
    """Can this queue think at all: is it sync and not of the idle class?"""
    return q.sync != 0 and q.ioclass != IDLE


@jit
def arrived_in_time(s, c, q):
    """Does the request come within three slice_idle of the queue's last completion?"""
    return s.sim[0].now <= q.last_end + 3 * c.slice_idle


@jit
def count_timely(s, c, q):
    """Until 5.11 (1.6): 120 timely requests make the queue I/O bound; only a late one resets the count."""
    if q.io_bound != 0:
        return
    if not arrived_in_time(s, c, q):
        q.timely = 0
        return
    q.timely += 1
    if q.timely >= TIMELY_REQUESTS:
        q.io_bound = 1


@jit
def update_io_intensity(s, q):
    """Since 5.12 (1.6): I/O bound is who is idle for at most a fifth of the time; the window halves beyond 200 ms."""
    now = s.sim[0].now
    elapsed = now - q.io_start
    if q.queued == 0 and q.dispatched == 0:
        q.tot_idle += now - q.last_end
    q.io_bound = 1 if 5 * q.tot_idle <= elapsed else 0
    if elapsed > 200 * MSEC:
        q.io_start = now - elapsed // 2
        q.tot_idle //= 2


@jit
def far_from(s, d, last, r):
    """Is the request a seek (1.5)? A large request is none on a device that does not rotate."""
    if last == 0 or abs(r.sector - last) <= SEEK_THRESHOLD:
        return False
    return s.devices[d].rotational != 0 or r.nr < SMALL_NONROTATIONAL


@jit
def update_seek_history(s, d, q, r):
    """Shift one bit into the queue's history (1.5)."""
    q.seek_history = (q.seek_history << 1) & HISTORY_BITS
    if far_from(s, d, q.last_pos, r):
        q.seek_history |= 1


@jit
def seeky(q):
    """More than 19 of the last 32 requests were seeks (1.5)."""
    bits = q.seek_history
    count = 0
    while bits != 0:
        bits &= bits - 1
        count += 1
    return count > SEEKY_BITS


@jit
def totally_seeky(q):
    """All of the last 32 requests were seeks."""
    return q.seek_history == HISTORY_BITS


@jit
def update_hw_tag(s, d):
    """Does the device take several requests at once (1.5)? Asked at each completion, before it is counted."""
    c = s.bfq[d]
    c.max_in_driver = max(c.max_in_driver, c.in_driver)
    if c.hw_tag == 1 or c.in_driver + c.queued <= c.hw_threshold:
        return
    if c.hw_patient != 0 and c.in_service != NONE:
        q = s.bfq_queues[c.in_service]
        few = q.dispatched + q.queued < c.hw_threshold and c.in_driver < c.hw_threshold
        if q.short_think != 0 and few:
            return
    c.hw_samples += 1
    if c.hw_samples < HW_SAMPLES:
        return
    c.hw_tag = 1 if c.max_in_driver > c.hw_threshold else 0
    c.max_in_driver = 0
    c.hw_samples = 0
    c.ncq_flash = 1 if s.devices[d].rotational == 0 and c.hw_tag != 0 else 0


@jit
def device_budget(c):
    """Most that one slot may serve, in sectors (1.3): 16384 until the device's rate is known, or what the user set."""
    if c.user_max_budget > 0:
        return c.user_max_budget
    if c.budgets_assigned < BUDGETS_ASSIGNED_ENOUGH:
        return DEFAULT_BUDGET
    return c.max_budget


@jit
def smallest_budget(c):
    """The least that feedback goes down to (1.3)."""
    return device_budget(c) // MIN_BUDGET_SHARE


@jit
def update_peak_rate(s, d, r):
    """At each dispatch: keep a window of at least a second and evaluate it when it is full (1.4)."""
    c = s.bfq[d]
    now = s.sim[0].now
    if c.rate_samples == 0:
        open_window(s, c, r)
    elif now - c.rate_last_dispatch > RATE_GAP and c.in_driver == 0:
        evaluate_rate(s, d)
        open_window(s, c, r)
    else:
        c.rate_samples += 1
        c.rate_sectors += r.nr
        c.rate_biggest = max(c.rate_biggest, r.nr)
        near = c.in_driver > 0 or now - c.last_completion < RATE_BUSY_GAP
        if near and not far_from(s, d, c.last_position, r):
            c.rate_sequential += 1
        if now - c.rate_first >= RATE_WINDOW:
            evaluate_rate(s, d)
            open_window(s, c, r)
    c.rate_last_dispatch = now


@jit
def open_window(s, c, r):
    """The next window starts with this request."""
    c.rate_samples = 1
    c.rate_sectors = r.nr
    c.rate_sequential = 0
    c.rate_biggest = r.nr
    c.rate_first = s.sim[0].now


@jit
def evaluate_rate(s, d):
    """Fold the window's rate into the peak rate, if the window says anything (1.4)."""
    c = s.bfq[d]
    span = max(c.rate_last_dispatch, c.last_completion) - c.rate_first
    window = s.sim[0].now - c.rate_first
    if c.rate_samples < RATE_SAMPLES or window < RATE_MIN_WINDOW or span <= 0:
        return
    found = (c.rate_sectors << RATE_SHIFT) // max(span // 1000, 1)
    if found > RATE_LIMIT or (4 * c.rate_sequential < 3 * c.rate_samples and found <= c.rate):
        return
    weight = 9 * c.rate_sequential // c.rate_samples
    weight = min(8, weight * min(span, RATE_WINDOW) // RATE_WINDOW)
    divisor = 10 - weight
    c.rate = c.rate * (divisor - 1) // divisor + found // divisor
    if c.user_max_budget == 0:
        c.max_budget = max(c.rate * (c.timeout_sync // 1000) >> RATE_SHIFT, MIN_BUDGET_SHARE)


@jit
def check_rate_at_completion(s, d):
    """After a long pause a slow device shows itself: evaluate without a new window (1.4 step 5)."""
    c = s.bfq[d]
    gap = s.sim[0].now - c.last_completion
    if (
        c.rate_samples > 0
        and gap > RATE_BUSY_GAP
        and (c.rate_biggest << RATE_SHIFT) // (gap // 1000) < (1 << RATE_SHIFT) >> 10
    ):
        evaluate_rate(s, d)


@jit
def raised_duration(s, d, reference_rate, reference_time):
    """How long an interactive queue stays raised (1.13): the faster the device, the shorter; 3 to 25 s."""
    return min(max(reference_rate * reference_time // s.bfq[d].rate, 3 * SEC), 25 * SEC)
