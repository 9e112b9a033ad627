"""The exercises of the notebooks. Their answers are simulated here, out of the reader's sight."""

from __future__ import annotations

from .. import closed_form, simulate
from ..filesystems import XFS, Ext4
from ..threads import dsync
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
