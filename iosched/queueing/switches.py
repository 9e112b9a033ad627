"""Who waits for whom under CFQ, cycle by cycle: the group rule, the idle windows and the think-time records.

Source: spec block-layer 1.4 to 1.11 and 1.19. Every value may be an array over the points of a grid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..cgroups import is_ancestor_or_same, normalise
from ..errors import ScenarioError
from ..filesystems import Ext4
from ..scenario import Machine
from ..workloads import Dd
from .chain import FIRST_LOG, Chain, Step
from .knobs import MS, PAGE, Flag, Knobs, S, Values

NEVER = -np.inf

# think-time records (spec block-layer 1.5)
KEEP = 7 / 8
FULL = 256  # fixed point of 1.0
SAMPLES_REST = 249  # where floor((7 samples + 256)/8) comes to rest
SAMPLES_VALID = 80
SMALL_NONROTATIONAL = 64  # sectors; a smaller request counts as a seek on a device without positions (1.6)
HW_QUEUE_MIN = 5  # up to so many requests at once CFQ does not look for NCQ (1.16)
SEEKY = 4  # more seeks than this among the last 32 requests
MOST_CYCLES = 128  # cycles of the recursion; the rest of a longer run repeats their mean
SETTLED = 40  # cycles without a change after which a recursion of weight 1/8 is at rest, to 5 in 1,000


class Waits(NamedTuple):
    """Idling an operation: waits, and ns waited for the window of dd or of the log's writer; of BFQ also the chances
    (whose window, why it is open and what becomes of a request, *grid)."""

    idles: Values
    for_dd: Values
    for_log: Values
    chances: np.ndarray | None = None


def cfq_waits(machine: Machine, job: Dd, k: Knobs, chain: Chain, count: Values) -> Waits:
    """CFQ's idling an operation. Without a second task that the scheduler sees, the queue that is idled for itself gets
    the next request (1.19: XFS before 5.14, raw devices), and nobody waits."""
    steps, cycles = chain.loop, count
    if not job.synchronous:
        steps, cycles = chain.loop + chain.tail, 1
    if not {"dd", "log"} <= {step.task for step in steps if step.visible and np.any(step.requests)}:
        return Waits(0.0, 0.0, 0.0)
    _check_batches(machine, job, steps)
    switches = Switches(machine, job, k)
    if not switches.can_wait:
        return Waits(0.0, 0.0, 0.0)
    _check_slices(machine, k, steps)
    commands, rest = _visible(steps)
    if not switches.new_log:
        switches.live_through_mount(commands)
    if not job.synchronous:
        switches.after_writes(k.count, chain.loop, machine.scheduler.nanoseconds("slice_sync", 100))
    waits = _mean_waits(switches, commands, rest, cycles)
    return waits if job.synchronous else Waits(*(w / k.count for w in waits[:3]))


def _check_batches(machine: Machine, job: Dd, steps: list[Step]) -> None:
    """Where the recursion holds: few requests at once, where their number would change more than the think times."""
    most = 1 if "direct" in job.oflags else np.inf if machine.device.rotational else HW_QUEUE_MIN
    if any(np.any(step.requests > most) for step in steps if step.task == "dd"):
        raise ScenarioError(
            f"dd.bs: it makes more than {most} requests at once, which is beyond the closed form of CFQ with a journal "
            "(oflag=direct, or a device that does not rotate); simulate()."
        )


def _check_slices(machine: Machine, k: Knobs, steps: list[Step]) -> None:
    """Where the recursion holds: slices that outlast a cycle, and a log write in one piece."""
    half = machine.scheduler.nanoseconds("slice_sync", 100) / 2
    longest = max(np.max(step.device) for step in steps if step.visible)
    for name, value in (("scheduler.slice_idle", k.slice_idle), ("scheduler.group_idle", k.group_idle),
                        ("device.completion_us (of all requests of a write)", longest)):  # fmt: skip
        if np.any(value > half):
            raise ScenarioError(
                f"{name}: {np.max(value) / MS:g} ms is beyond the closed form; give at most half of slice_sync "
                f"({half / MS:g} ms), or simulate()."
            )
    if np.any(np.asarray(k.max_bytes) < FIRST_LOG * PAGE):
        raise ScenarioError(
            f"device.max_sectors_kb: {int(np.min(k.max_bytes)) // 1024} KiB split the log's writes, which is beyond "
            f"the closed form of CFQ; give at least {FIRST_LOG * PAGE // 1024} KiB, or simulate()."
        )


class Visible(NamedTuple):
    """Commands that CFQ sees: time since the last one (or the start of the cycle) was back, whose, how long they take,
    and how many samples they make."""

    gap: Values
    task: str
    device: Values
    samples: Samples


def _visible(steps: list[Step]) -> tuple[list[Visible], Values]:
    """The commands of a cycle that CFQ sees, and the time after the last; what bypasses CFQ is only time to it."""
    found: list[Visible] = []
    gap: Values = 0.0
    for step in steps:
        gap = gap + step.host
        if step.visible and np.any(step.requests):
            found.append(Visible(gap, step.task, step.device, Samples.of(step.requests)))
            gap = 0.0
        else:
            gap = gap + step.device
    return found, gap


def _mean_waits(switches: Switches, commands: list[Visible], rest: Values, count: Values) -> Waits:
    """Mean of the waits over `count` operations: those of the first cycles one by one, the rest at the later cycles'
    mean, weighted by sin² so that a pattern of about ten cycles that does not fit the window does not show."""
    limit = int(min(np.max(count), 4 if switches.transient_only else MOST_CYCLES))
    seen = np.empty((limit, 3, *np.broadcast_shapes(np.shape(count), switches.shape)))
    now: Values = switches.start
    n = same = 0
    while n < limit and same < SETTLED:
        now, row = switches.cycle(now, commands, rest)
        for column in range(3):
            seen[n, column] = row[column]
        same = same + 1 if n and np.abs(seen[n] - seen[n - 1]).max() < 1.0 else 0
        n += 1
    seen = seen[:n]
    settled = seen[-1:] if same >= SETTLED or switches.transient_only else seen[n // 4 :]
    weight = np.sin(np.pi * (np.arange(len(settled)) + 0.5) / len(settled)) ** 2
    steady = np.tensordot(weight / weight.sum(), settled, 1)
    if np.all(np.isinf(count)):
        return Waits(*steady)
    cycles = np.arange(n).reshape(n, *(1,) * (seen.ndim - 1))
    first = np.where(cycles < count, seen, 0.0).sum(0)
    return Waits(*((first + steady * np.maximum(count - n, 0)) / count))


def _not(flag: Flag) -> Flag:
    return not flag if isinstance(flag, bool) else ~flag


class Samples(NamedTuple):
    """What requests that arrive together do to a think-time record: weight kept, and added for each ns."""

    count: int | None  # None: not the same whole number everywhere
    kept: Values
    added: Values

    @classmethod
    def of(cls, requests: Values) -> Samples:
        """Samples of so many requests (an average may be broken)."""
        kept = KEEP**requests
        most = np.max(requests)
        whole = most == np.min(requests) and most == int(most) and most < SAMPLES_REST
        return cls(int(most) if whole else None, kept, FULL * (1 - kept))


class Owner:
    """A process or a cgroup, which CFQ knows since its first request."""

    def __init__(self) -> None:
        self.first: Values | None = None

    def since(self, now: Values) -> Values:
        """When CFQ got to know it; now, if it does not know it yet."""
        if self.first is None:
            self.first = now
        return self.first


class ThinkTime:
    """A think-time record (1.5), for all points at once: total and samples in fixed point, the last completion. It
    begins when `owner` (its process, or its cgroup) sends a first request."""

    def __init__(self, most: Values, owner: Owner) -> None:
        self.most = most  # a sample counts at most twice the idle parameter
        self.owner = owner
        self.last: Values | None = None
        self.total: Values = 0.0
        self.samples: Values = 0

    def update(self, now: Values, new: Samples, mask: Flag = True) -> None:
        """Fold the time since the last completion in, once a request; where `mask` says so."""
        last = self.owner.since(now) if self.last is None else self.last
        total = new.kept * self.total + new.added * np.minimum(now - last, self.most)
        samples = self.samples
        if new.count is None:
            samples = new.kept * samples + SAMPLES_REST * (1 - new.kept)
        else:
            for _ in range(new.count):
                samples = (7 * samples + FULL) // 8
        if mask is not True:
            total, samples = np.where(mask, total, self.total), np.where(mask, samples, self.samples)
        self.total, self.samples = total, samples

    def completed(self, now: Values, mask: Flag = True) -> None:
        """A sync request of this record is back."""
        self.last = (
            now if mask is True else np.where(mask, now, self.owner.since(now) if self.last is None else self.last)
        )

    def big(self, limit: Values) -> Flag:
        """The mean is valid (three samples) and above `limit`."""
        if isinstance(self.samples, int) and self.samples <= SAMPLES_VALID:
            return False
        return np.asarray(self.total > limit * self.samples) & (self.samples > SAMPLES_VALID)


class Trees:
    """The SYNC and the SYNC_NOIDLE tree in which a queue may sit; `in_sync` says in which it does, point by point."""

    def __init__(self, most: Values, owner: Owner) -> None:
        self.owner = owner
        self.sync, self.noidle = ThinkTime(most, owner), ThinkTime(most, owner)

    def update(self, now: Values, new: Samples, in_sync: Flag) -> None:
        """Requests enter the queue: the record of its tree learns of them."""
        self.owner.since(now)
        if isinstance(in_sync, bool):
            (self.sync if in_sync else self.noidle).update(now, new)
        else:
            self.sync.update(now, new, in_sync)
            self.noidle.update(now, new, ~in_sync)

    def completed(self, now: Values, in_sync: Flag) -> None:
        """A request of the queue is back."""
        if isinstance(in_sync, bool):
            (self.sync if in_sync else self.noidle).completed(now)
        else:
            self.sync.completed(now, in_sync)
            self.noidle.completed(now, ~in_sync)

    def big(self, limit: Values, in_sync: Flag) -> Flag:
        """Is the think time of the queue's tree big?"""
        if isinstance(in_sync, bool):
            return (self.sync if in_sync else self.noidle).big(limit)
        return np.where(in_sync, self.sync.big(limit), self.noidle.big(limit))


class Switches:
    """CFQ between dd and the writer of the log: the state of both queues, cycle by cycle, for all points at once.

    The two take turns, so exactly one of them is active, has nothing pending and is perhaps idled for when the other's
    request arrives. What is kept: until when (`until`, -inf when no timer runs), whether CFQ would idle for it by
    slice_idle (`worth`), in which tree each queue sits, dd's idle_window, and the think-time records.
    """

    def __init__(self, machine: Machine, job: Dd, k: Knobs) -> None:
        cfq, fs = machine.scheduler, machine.filesystem
        log_group = fs.jbd2_cgroup if isinstance(fs, Ext4) else fs.worker_cgroup
        ancestors = cfq.group_rule(machine.version >= "4.6")
        self.log_group_may = _group_may_preempt(log_group, job.cgroup, ancestors)
        self.dd_group_may = _group_may_preempt(job.cgroup, log_group, ancestors)
        self.realtime, self.idle_class = job.ioclass == "realtime", job.ioclass == "idle"
        self.same_trees = normalise(job.cgroup) == normalise(log_group) and job.ioclass == "best-effort"
        self.direct = "direct" in job.oflags and not self.idle_class
        self.rotational = bool(machine.device.rotational)
        self.small = (not self.rotational) & (np.asarray(k.bs) < SMALL_NONROTATIONAL * 512)

        self.slice_idle, self.group_idle, self.wakeup = k.slice_idle, k.group_idle, k.wakeup
        self.slices, self.groups = np.asarray(k.slice_idle) > 0, np.asarray(k.group_idle) > 0
        self.armable = self.groups | self.rotational  # 1.11, while NCQ is not known (1.16)
        self.always_armable = bool(np.all(self.armable))
        self.group_length = np.where(self.groups, k.group_idle, NEVER)
        self.shape = np.broadcast_shapes(*(np.shape(v) for v in vars(k).values()))

        twice = 2 * k.slice_idle
        log_owner, same_group = Owner(), normalise(job.cgroup) == normalise(log_group)
        self.log_trees, self.dd_context = Trees(twice, log_owner), ThinkTime(twice, Owner())
        self.dd_trees = self.log_trees if self.same_trees else Trees(twice, log_owner if same_group else Owner())
        self.quiet = fs.quiet_before if isinstance(fs, Ext4) else None
        self.new_log = self.quiet is None  # else a commit at the mount has made CFQ know jbd2
        self.start: Values = k.start

        self.first = True
        self.writes: Values = 0  # of dd
        self.window: Flag = not self.idle_class  # dd's idle_window
        self.dd_sync: Flag = self.window
        self.log_sync: Flag = self.new_log
        self.until: Values = NEVER
        self.worth: Flag = False
        self.expired: Flag = False
        self.active = ""

    @property
    def can_wait(self) -> bool:
        """Is there any idling at all?"""
        return bool(np.any((self.slices | self.groups) & self.armable))

    @property
    def transient_only(self) -> bool:
        """Both queues in one noidle tree: after the start each preempts the other at once (1.8 rule 9)."""
        return self.same_trees and not self.direct

    def live_through_mount(self, commands: list[Visible]) -> None:
        """jbd2 has committed once and been quiet when the jobs begin: the records know it (Ext4.quiet_before)."""
        now: Values = 0.0
        self.active, self.log_sync = "log", True
        for gap, task, device, samples in commands:
            if task == "log":
                now = self.serve_again(now + gap, device, samples)
        self.start = self.start + (self.quiet or 0.0) * S + np.maximum(now, self.until)
        self.active, self.log_sync, self.until = "", False, NEVER

    def after_writes(self, count: Values, loop: list[Step], slice_sync: float) -> None:
        """dd has written alone, up to its last operation. Direct writes have taught its record short think times, and
        small ones are found seeky at the fifth, but the queue moves to the noidle tree only with its next slice."""
        host = sum(step.host for step in loop)
        elapsed = (count - 1) * (host + sum(step.device for step in loop))
        self.start = self.start + elapsed
        self.writes = count - 1
        if self.direct:
            self.dd_trees.completed(self.start - host, True)
            self.dd_trees.update(self.start, Samples.of(np.minimum(count - 1, 99)), True)
            self.window = self.slices & ~(self.small & (elapsed > slice_sync) & (count > SEEKY))

    def cycle(self, now: Values, commands: list[Visible], rest: Values) -> tuple[Values, tuple[Values, Values, Values]]:
        """One operation from `now` on: (end, (waits, ns waited for dd, ns waited for the log))."""
        waited: dict[str, Values] = {"dd": 0.0, "log": 0.0}
        waits: Values = 0
        for gap, task, device, samples in commands:
            now = now + gap
            if self.active == task:
                now = self.serve_again(now, device, samples)
                continue
            preempts = self.dd_arrives(now, samples) if task == "dd" else self.log_arrives(now, samples)
            if self.active and preempts is not True:
                wait = np.maximum(self.until - now, 0.0)
                if preempts is not False:
                    wait = np.where(preempts, 0.0, wait)
                held = wait > 0
                waited[self.active] = wait
                waits = waits + held
                now = now + wait + self.wakeup * held
            now = now + device
            self.active = task
            if not self.needless(task):
                self.completed(now, task)
        self.first = False
        return now + rest, (waits, waited["dd"], waited["log"])

    def needless(self, task: str) -> bool:
        """Is nothing to be known of this queue, because the other preempts it at once, always?"""
        if self.direct or self.first or self.realtime or self.idle_class:
            return False
        return self.log_group_may if task == "dd" else self.dd_group_may

    # -----------------------------------------------------------------------------------------------------------------
    # arrivals (1.4 to 1.8)

    def dd_arrives(self, now: Values, samples: Samples) -> Flag:
        """dd's data enters CFQ; may it preempt the log's queue?"""
        self.dd_sync = self.window  # which tree: by the flag as it was before this request (1.4 step 2)
        if not self.needless("dd"):
            self.dd_trees.update(now, samples, self.dd_sync)
        self.writes = self.writes + 1
        self.update_idle_window(now, samples)
        if not self.active or self.idle_class or not self.dd_group_may:
            return False
        if self.realtime:
            if self.direct:
                self.dd_sync = np.where(self.gone(now), self.dd_sync, self.window)
            return True
        if self.window is False and self.log_sync is False:
            return True
        kept = self.slices & _not(self.log_trees.big(self.slice_idle, self.log_sync)) & _not(self.together)
        preempts = _not(self.log_sync | self.window) | ~kept
        if self.direct:
            self.dd_sync = np.where(preempts & ~self.gone(now), self.window, self.dd_sync)
        return preempts

    def update_idle_window(self, now: Values, samples: Samples) -> None:
        """A noidle write (fsync's data) ends it; a direct writer keeps it while it comes back in time (1.7)."""
        if not self.direct:
            self.window = False
            return
        self.dd_context.update(now, samples)
        known = self.dd_context.samples > SAMPLES_VALID
        window = np.where(known, _not(self.dd_context.big(self.slice_idle)), self.window)
        self.window = window & self.slices & ~(self.small & (self.writes > SEEKY))

    def log_arrives(self, now: Values, samples: Samples) -> Flag:
        """The log write enters CFQ; may it preempt dd's queue?"""
        self.log_sync = self.first and self.new_log
        if not self.needless("log"):
            self.log_trees.update(now, samples, self.log_sync)
        if self.idle_class:
            return True
        if self.realtime or not self.log_group_may:
            return False
        if self.dd_sync is False:
            return True
        kept = np.where(self.rotational & self.window, self.slices, self.worth & _not(self.together))
        preempts = _not(self.dd_sync) | ~kept
        if self.log_sync:
            self.log_sync = ~preempts | self.gone(now)
        return preempts

    def gone(self, now: Values) -> Flag:
        """Has the queue that was active expired before this arrival, so that there is nothing to preempt?"""
        return self.expired | ((self.until <= now) & (self.until > NEVER))

    @property
    def together(self) -> Flag:
        """Are both queues in one tree? Then neither is its last (1.10)."""
        return self.same_trees & (self.dd_sync == self.log_sync)

    def serve_again(self, now: Values, device: Values, samples: Samples) -> Values:
        """The log's next request (jbd2's commit block) finds its own queue active and goes at once. It is no larger
        than a page, so the running timer is not cancelled (1.4 step 6); if it fires meanwhile, the queue expires."""
        done = now + device
        if not self.needless("log"):
            self.log_trees.update(now, samples, self.log_sync)
            fires = (self.until > now) & (self.until < done)
            self.completed(done, self.active)
            self.until, self.expired = np.where(fires, NEVER, self.until), fires
            if self.log_sync is not False:  # expired, it belongs to the tree that it would enter now
                self.log_trees.noidle.completed(done, fires)
        return done

    # -----------------------------------------------------------------------------------------------------------------
    # completion and idling (1.10, 1.11)

    def completed(self, now: Values, task: str) -> None:
        """The active queue is empty: is it worth waiting for, by slice_idle, else by group_idle?"""
        trees, in_sync, kept = self.log_trees, self.log_sync, np.False_
        if task == "dd":
            trees, in_sync, kept = self.dd_trees, self.dd_sync, self.rotational & np.asarray(self.window)
            self.dd_context.completed(now)
        trees.completed(now, in_sync)
        self.worth = self.slices & (kept | _not(trees.big(self.slice_idle, in_sync)))
        by_group = np.where(trees.big(self.group_idle, in_sync), NEVER, self.group_length)
        self.expired = False
        self.until = now + np.where(self.worth, self.slice_idle, by_group)
        if not self.always_armable or (task == "dd" and self.idle_class):
            self.until = np.where(self.armable & (task == "log" or not self.idle_class), self.until, NEVER)


def _group_may_preempt(newcomer: str, active: str, ancestors: bool) -> bool:
    """Groups isolate (1.8 rule 6): since 4.6 an ancestor may preempt its descendants, before only the same group."""
    return is_ancestor_or_same(newcomer, active) if ancestors else normalise(newcomer) == normalise(active)
