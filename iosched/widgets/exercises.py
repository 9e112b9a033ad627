"""The exercises of the notebooks. Their answers are simulated here, out of the reader's sight."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from .. import closed_form, simulate
from ..filesystems import XFS, Ext4
from ..result import Result
from ..schedulers import OldCFQ, waker_rules
from ..threads import dbench, dsync, nfs, wakers, writeback
from ..workloads import dd
from .learn import Exercise, exercise

# choices of the second exercise and what each changes; one of them alone brings the speed back
CURES = {
    "slice_idle = 0": {"scheduler.slice_idle": 0},
    "group_idle = 0": {"scheduler.group_idle": 0},
    "NCQ depth 1": {"device.queue_depth": 1},
    "a solid-state drive": {"device.rotational": False},
    "XFS instead of ext4": {"filesystem": XFS()},
}


def dsync_exercise(number: int) -> Exercise:
    """Exercise `number` (1 to 4) of notebook 1, on thread 0's 4.19 machine under CFQ."""
    return (_slow_device, _which_cure, _nested_groups, _slice_idle_for)[number - 1]()


def _slow_device() -> Exercise:
    vm = dsync.machine("vm-4.19").with_(scheduler="cfq")
    slow = vm.with_(**{"device.completion_us": 10 * vm.device.completion_us})
    return exercise(
        "A device ten times as slow (completion_us 908 instead of 91). How long does a write take under CFQ?",
        simulate(slow, dsync.job()).time_per_op * 1e3,
        unit="ms",
        why="Only the device's 0.27 ms grow tenfold. The 8 ms stay, so CFQ costs a slow device less, in proportion.",
    )


def _which_cure() -> Exercise:
    vm = dsync.machine("vm-4.19").with_(scheduler="cfq")
    speed = {name: simulate(vm.with_(**change), dsync.job(count=300)).bytes_per_s for name, change in CURES.items()}
    return exercise(
        "Which of these alone brings dd back to full speed?",
        max(speed, key=speed.__getitem__),
        choices=list(CURES),
        why="XFS of 4.19 writes its log from dd's own context: one queue, and it answers while it is waited for.",
    )


def _nested_groups() -> Exercise:
    vm = dsync.machine("vm-4.19").with_(scheduler="cfq", cgroups=["a/b"], filesystem=Ext4(jbd2_cgroup="a"))
    return exercise(
        "dd runs in a/b and jbd2 in a. How many idle windows does a write wait out?",
        float(closed_form(vm, dd(cgroup="a/b")).idles_per_op.round()),
        tolerance=0,
        why="a is an ancestor of a/b, so jbd2 may preempt dd; dd may not preempt jbd2. The depth does not matter.",
    )


def _slice_idle_for() -> Exercise:
    noop = simulate(dsync.machine("vm-4.19"), dsync.job()).time_per_op
    return exercise(
        "With which slice_idle, above 0, does dd get exactly 200 kB/s under CFQ?",
        512 / 200e3 * 1e3 - noop * 1e3,
        unit="ms",
        why="512 B at 200 kB/s are 2.56 ms a write; what noop needs is gone already, the rest may be idled.",
    )


# ---------------------------------------------------------------------------------------------------------------------
# notebook 2


def dbench_exercise(number: int) -> Exercise:
    """Exercise `number` (1 to 4) of notebook 2, on thread 1's machine.

    >>> dbench_exercise(2).answer.options[0]
    "patch 1: the waker's request decides"
    """
    return (_idles_an_fsync, _which_rule, _rule_of_the_cure, _when_it_is_lost)[number - 1]()


def _idles_an_fsync() -> Exercise:
    return exercise(
        "An fsync's share of the load is 448,057 bytes. How long is that at 200 MB/s, how long at 80 MB/s? If the "
        "difference is idling alone, how many windows of 8 ms does an fsync wait out on average?",
        wakers.published_idles(),
        why="448,057 bytes are 2.24 ms at 200 MB/s and 5.60 ms at 80 MB/s; the 3.36 ms between are 0.42 windows.",
    )


RULES = {name: changes for name, changes in dbench.ABLATION.items() if len(changes) == 1}  # one rule each
NO_RULE = "none of them alone"


@cache
def with_rule(name: str) -> Result:
    """5.6.4 with one of its waker rules changed (kept)."""
    changes = dbench.ABLATION[name]
    rules = replace(waker_rules(dbench.VANILLA), **changes)
    return wakers.counted(*wakers.thread_machine(dbench.VANILLA, rules))


def closes(name: str) -> bool:
    """Does this one rule bring 5.6.4 to full speed?"""
    return wakers.closes_the_gap(with_rule(name))


def _which_rule() -> Exercise:
    def answer(name: str) -> str:
        result = with_rule(name)
        return (
            f"Simulated: {result.throughput_MBs:.0f} MB/s on average, {wakers.last_seconds(result):.0f} in the last "
            f"seconds, {result.idles_per_op:.2f} idles an fsync"
        )

    def check(name: str) -> bool | str:
        if name == NO_RULE:
            return not any(map(closes, RULES)) or "One of them does, in the model; try again."
        return closes(name) or f"{answer(name)}. The gap stays open; try again."

    def why(name: str) -> str:
        if name == NO_RULE:
            return (
                "A waker must be found, and it must be served: each patch brings one of the two. (Patch 1 alone is a "
                "coin: see above.)"
            )
        return (
            f"{answer(name)}. On this device, that is: the thread says that patch 1 alone is not enough, and a real "
            "5.6.4 agrees with the thread. See above how a microsecond decides."
        )

    return exercise(
        "Which single rule closes the gap, changed by itself in 5.6.4?",
        check,
        choices=[*RULES, NO_RULE],
        why=why,
    )


CURES_OF_5_12 = {
    "its waker rules": ("5.6.4", "5.12"),
    "everything but its waker rules": ("5.12", "5.6.4"),
}


def _rule_of_the_cure() -> Exercise:
    def speed(version: str, rules: str) -> float:
        return wakers.last_seconds(wakers.counted(*wakers.thread_machine(version, waker_rules(rules))))

    fast = {name: speed(*pair) for name, pair in CURES_OF_5_12.items()}
    full = dbench.FULL_SPEED * wakers.last_seconds(wakers.under("5.6.4+p1p2"))
    cures = [name for name, value in fast.items() if value >= full]
    right = "each of the two" if len(cures) == 2 else cures[0] if cures else "neither"
    words = ", ".join(f"{name} alone: {value:.0f} MB/s" for name, value in fast.items())
    return exercise(
        "BFQ of 5.12 is cured. Is it by its waker rules, or by what else changed (think time, preemption, ...)?",
        right,
        choices=[*CURES_OF_5_12, "each of the two", "neither"],
        why=f"In the last seconds, with {words}. It samples think time at real pauses only, and a newcomer may preempt "
        "where waiting is not worth it. Its waker rules alone do here what patch 1 does: they toss a coin.",
    )


def _when_it_is_lost() -> Exercise:
    result = wakers.under("5.6.4")
    frame = result.course
    slow = frame.second[frame.bytes_per_s < 0.5 * frame.bytes_per_s.max()]
    return exercise(
        "low_latency raises the weight of new queues for a while, which hides the loss. In which second after the "
        "start does 5.6.4 fall below half its speed?",
        float(slow.min() + 1),
        unit="s",
        tolerance=0.15,
        why="Until just before it both queues are weight-raised. It is why a short benchmark shows nothing.",
    )


def nfs_exercise(number: int) -> Exercise:
    """Exercise `number` (1 to 3) of notebook 5, on thread 4's server."""
    return (_one_thread, _which_share, _ticks)[number - 1]()


def _one_thread() -> Exercise:
    alone = simulate(nfs.machine(), nfs.job(threads=1)).shared_reads.bytes_per_s.iloc[0]
    return exercise(
        "The administrator sets the number of nfsd threads to 1. How many MB/s does dd get under CFQ, without patches?",
        float(alone) * 1e-6,
        unit="MB/s",
        why="One thread is one queue: when CFQ waits for it, it is the one that sends the next request.",
    )


SHARES = {
    "CLONE_IO for kthreads": {"io_context": "clone_io"},
    "CLONE_IO, and kthreadd has read something": {"io_context": "clone_io", "parent_context": True},
    "twice as many threads": {"threads": 16},
    "half as many threads": {"threads": 4},
}


def _which_share() -> Exercise:
    speed = {
        name: float(simulate(nfs.machine(), nfs.job(size=200 * 2**20, **change)).shared_reads.bytes_per_s.iloc[0])
        for name, change in SHARES.items()
    }
    return exercise(
        "Which of these brings the stream to the speed of the network?",
        max(speed, key=speed.__getitem__),
        choices=list(SHARES),
        why="Only an io_context that is there can be shared; then all threads have one queue.",
    )


def _ticks() -> Exercise:
    return exercise(
        "How long, in ms, does CFQ of 2.6.27 at most keep the disk idle for a queue, with HZ=250 and default tunables?",
        1e3 * OldCFQ().slice_idle_ticks(250) / 250,
        unit="ms",
        why="slice_idle is HZ/125 ticks, two of 4 ms here; with HZ=100 that would be none, so it is one, of 10 ms.",
    )


# ---------------------------------------------------------------------------------------------------------------------
# notebook 3


def writeback_exercise(number: int) -> Exercise:
    """Exercise `number` (1 to 3) of notebook 3, on thread 3's first system.

    >>> writeback_exercise(2).answer.options[0]
    'CFQ, write cache off'
    """
    return (_sweep, _which_mix, _windows)[number - 1]()


def _sweep() -> Exercise:
    disk = writeback.machine("wd").device
    rate = float(disk.zones_MBs[len(disk.zones_MBs) // 2])
    return exercise(
        "The write cache holds 32 MiB, the disk writes 112 MB/s. How long may a read have to wait for a full cache?",
        disk.cache_kb * 1024 / rate / 1e3,
        unit="ms",
        why="That is where fio's groups of 250 and 500 ms come from; no scheduler can take back what the disk has.",
    )


MIXES = {
    "CFQ, write cache off": "cfq, no write cache",
    "deadline, WBT off, write cache on": "deadline, wbt 0",
    "deadline, WBT at 75 ms, write cache on": "deadline, wbt 75000",
    "deadline, WBT at 75 ms, write cache off": "deadline, wbt 75000, no write cache",
}


def _which_mix() -> Exercise:
    got = {words: writeback.reader_MBs("wd", experiment) for words, experiment in MIXES.items()}
    return exercise(
        "Which of these gives the reader the most?",
        max(got, key=got.__getitem__),
        choices=list(MIXES),
        why="WBT sees how long reads take inside the disk, and holds writes back; but only if the disk cannot hide "
        "them in its cache. Each alone does less.",
    )


def _windows() -> Exercise:
    return exercise(
        "fio says that 1.56 % of the 4 KiB reads took longer than 1 ms. How large is a readahead window, if each of "
        "them is waited for once?",
        4 / 0.0156,
        unit="KiB",
        why="One read in 64 waits: 64 pages, 256 KiB. fio told the kernel that it reads in sequence, which doubles "
        "read_ahead_kb.",
    )
