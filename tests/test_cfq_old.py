"""CFQ of 2.6.24 to 2.6.32, anticipatory and plugged queues: their rules, seen in traces."""

from __future__ import annotations

import pytest

import iosched as io
from iosched.engine import codes as c
from iosched.schedulers.cfq_old import OldCFQ

SIZE = 4 * 2**20


def machine(kernel: str = "2.6.27", scheduler="cfq", hz: int = 100, **host) -> io.Machine:
    return io.Machine(
        kernel=kernel,
        scheduler=scheduler,
        device=io.devices.sata(rotational=True),
        host=io.Host(hz=hz, cpus=0, speed=4, **host),
    )


def traced(vm: io.Machine, **job):
    options = {"threads": 4, "burst": 8, "ahead": 8, "slots": 64, "direct": True, "own_files": True}
    return io.simulate(vm, io.workloads.nfs_read("64k", SIZE, **{**options, **job}), trace=True)


def ends(result, how: int):
    """Times at which idle windows of disk 0 ended in this way, in ns."""
    t = result.trace
    return t["at"][(t["kind"] == c.TR_IDLE_END) & (t["cmd_flags"] == how)]


@pytest.mark.parametrize(("hz", "ticks"), [(100, 1), (250, 2), (300, 2), (1000, 8)])
def test_slice_idle_is_hz_over_125_ticks_and_at_least_one(hz, ticks):
    assert OldCFQ().slice_idle_ticks(hz) == ticks


@pytest.mark.parametrize("hz", [100, 250, 1000])
def test_a_timer_fires_on_a_tick_after_the_last_but_one_and_not_after_the_last(hz):
    result = traced(machine(hz=hz))
    fired = ends(result, c.END_FIRED)
    tick = c.SEC // hz
    assert len(fired) > 3 and not (fired % tick).any()
    t = result.trace
    windows = t[(t["kind"] == c.TR_IDLE_END) & (t["cmd_flags"] == c.END_FIRED) & (t["length"] == c.IDLE_SLICE)]
    length = windows["at"] - windows["place"]
    n = OldCFQ().slice_idle_ticks(hz)
    assert (length > (n - 1) * tick).all() and (length <= n * tick).all()


def test_a_close_request_that_comes_while_cfq_idles_preempts_at_once():
    """Piece by piece: each arrives in the window of the thread before, once its seeks are known (three samples)."""
    result = traced(machine(), burst=1, ahead=1, wake="oldest")
    assert len(ends(result, c.END_PREEMPTED)) > 40
    assert len(ends(result, c.END_FIRED)) <= 3 * 4


def test_a_close_request_that_was_there_before_is_held_back():
    assert traced(machine()).idling.fired_held.sum() > 10


def test_while_a_queue_has_a_request_in_flight_nobody_elses_is_sent():
    """Depth 1 across tasks: the loss is not in the device's queue (spec block-layer trap 30)."""
    t = traced(machine(), network_MBs=None).trace
    owner, inside, mixed = None, 0, 0
    for kind, task in zip(t["kind"].tolist(), t["task"].tolist()):
        if kind == c.TR_ISSUE:
            mixed += inside > 0 and task != owner
            owner, inside = task, inside + 1
        elif kind == c.TR_COMPLETE:
            inside -= 1
    issued = int((t["kind"] == c.TR_ISSUE).sum())
    assert mixed < 0.2 * issued


@pytest.mark.parametrize(
    ("kernel", "rule"),
    [("2.6.24", "none"), ("2.6.29", "none"), ("2.6.30", "close"), ("2.6.31", "close"), ("2.6.32", "merge")],
)
def test_what_a_version_does_about_cooperators(kernel, rule):
    assert OldCFQ().rule(io.Machine(kernel=kernel).version) == rule
    assert OldCFQ(cooperators="first").rule(io.Machine(kernel=kernel).version) == "first"


def test_cooperators_and_merged_queues_take_the_stalls_away_and_close_takes_some():
    stalls = {
        rule: int(traced(machine(scheduler=OldCFQ(cooperators=rule))).idling.fired_held.sum())
        for rule in ("none", "first", "close", "merge")
    }
    assert stalls["first"] < stalls["none"] / 3 and stalls["merge"] < stalls["none"] / 3
    assert stalls["first"] <= stalls["close"] < stalls["none"]


def test_threads_of_one_io_context_have_one_queue():
    result = traced(machine(), io_context="shared", parent_context=True)
    assert int(result.state.cfq_queues.used.sum()) == 1
    assert result.idling.fired_held.sum() == 0


def test_anticipatory_waits_for_a_reader_far_from_the_others():
    """Two readers of files far apart: after each read it waits for the same one's next."""
    far = [io.workloads.shared_reader("64k", "2G", threads=1, direct=True, name=name) for name in ("a", "b")]
    vm = machine(hz=1000).with_(device=io.devices.Disk(queue_depth=1))
    on, off = (io.simulate(vm.with_(scheduler=io.Anticipatory(antic_expire=ms)), far, until=0.5) for ms in (None, 0))
    assert on.idling.windows.sum() > 20 and off.idling.windows.sum() == 0
    assert on.shared_reads.bytes.sum() > 3 * off.shared_reads.bytes.sum()


def test_with_commands_to_spare_in_the_disk_anticipatory_has_nothing_to_wait_for():
    """The last process still has a read inside when the other's is asked for (spec block-layer section 3)."""
    far = [io.workloads.shared_reader("64k", "2G", threads=1, direct=True, name=name) for name in ("a", "b")]
    vm = machine(hz=1000, scheduler="anticipatory").with_(device=io.devices.Disk(queue_depth=32))
    assert io.simulate(vm, far, until=0.5).idling.windows.sum() == 0


def test_a_plugged_queue_waits_for_four_requests_a_waiting_task_or_three_milliseconds():
    """A reader that reads ahead and then thinks: its read-ahead stays in the queue until the tick after 3 ms."""
    vm = machine(scheduler="noop", hz=1000)
    result = io.simulate(vm, io.workloads.shared_reader("128k", SIZE, threads=1, thinktime_us=20_000), trace=True)
    t = result.trace
    inserted = {r: at for at, k, r in zip(t["at"], t["kind"], t["request"]) if k == c.TR_INSERT}
    waited = [int(at - inserted[r]) for at, k, r in zip(t["at"], t["kind"], t["request"]) if k == c.TR_ISSUE]
    assert max(waited) == pytest.approx(3e6, abs=1e6)
    assert min(waited) < 1e5


def test_new_kernels_do_not_plug_queues():
    assert io.simulate(io.Machine(), io.workloads.shared_reader(size=SIZE)).state.devices[0].queue_plugs == 0
