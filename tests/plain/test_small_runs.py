"""Short runs as plain Python: closed form, priorities, shares, limits; a wrong rule shows within seconds."""

from __future__ import annotations

import pytest

import iosched as io
from iosched.engine import codes as c
from iosched.engine.loop import run
from iosched.laws import check_laws
from iosched.programs import compile_scenario

SLOW = {"completion_us": 100}


def ended(machine: io.Machine, *jobs) -> object:
    """The tables at the end of a run."""
    s = compile_scenario(io.Scenario(machine, jobs))
    stop = run(s, c.NEVER - 1, c.NEVER)
    assert stop in (c.STOP_DONE, c.STOP_ERROR)
    check_laws(s, stop)
    return s


MACHINES = {
    "noop": {"scheduler": "noop"},
    "deadline, write cache": {"scheduler": "deadline", "device": io.devices.null(write_cache=True, **SLOW)},
    "noop, no FUA": {"scheduler": "noop", "device": io.devices.null(write_cache=True, fua=False, **SLOW)},
    "none, XFS, write cache": {"kernel": "5.10", "scheduler": "none", "filesystem": "xfs",
                               "device": io.devices.null(write_cache=True, flush_us=700, **SLOW)},
    "kyber, raw": {"kernel": "5.10", "scheduler": "kyber", "filesystem": "raw"},
    "cfq": {"scheduler": "cfq"},
    "cfq, before 4.6": {"kernel": "4.4", "scheduler": "cfq"},
    "cfq, group_idle alone": {"scheduler": io.CFQ(slice_idle=0, group_idle=3)},
    "cfq, slice_idle alone": {"scheduler": io.CFQ(slice_idle=5, group_idle=0)},
    "bfq of 4.19": {"scheduler": io.BFQ(low_latency=False)},
    "bfq of 5.1": {"kernel": "5.1", "scheduler": io.BFQ(low_latency=False)},
    "bfq of 5.2": {"kernel": "5.2", "scheduler": io.BFQ()},
    "bfq of 5.6": {"kernel": "5.6", "scheduler": io.BFQ(low_latency=False)},
    "bfq of 6.1": {"kernel": "6.1", "scheduler": io.BFQ(low_latency=False)},
}  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_a_short_dd_takes_what_the_closed_form_says(name):
    machine = io.Machine(**{"device": io.devices.null(**SLOW), **MACHINES[name]})
    count = 150 if "bfq" in name else 40
    dd = io.workloads.dd(count=count, cgroup="user.slice")
    s = ended(machine, dd)
    time = int(s.sim[0].now - s.sim[0].epoch) * 1e-9 / count
    assert time == pytest.approx(float(io.closed_form(machine, dd).time_per_op), rel=0.01)


def test_reads_of_three_classes_are_served_class_by_class():
    machine = io.Machine(kernel="6.1", scheduler="mq-deadline", filesystem="raw",
                         device=io.devices.null(queue_depth=1, **SLOW), nr_requests=256)  # fmt: skip
    jobs = [io.workloads.fio("randread", size=4096 * 6, direct=True, loops=1, ioengine="libaio", iodepth=6, ioclass=k)
            for k in ("idle", "best-effort", "realtime")]  # fmt: skip
    s = ended(machine, *jobs)
    idle, best_effort, realtime = (int(s.tasks[k].latency_sum) for k in range(3))
    assert realtime < 0.8 * best_effort < 0.8 * 0.8 * idle


def test_an_idle_class_that_has_aged_is_served_before_a_busy_one_is_through():
    aging = io.MqDeadline(prio_aging_expire=5)
    jobs = [io.workloads.fio("randread", direct=True, runtime=0.05, ioengine="libaio", iodepth=4, ioclass=k)
            for k in ("idle", "best-effort")]  # fmt: skip
    done = []
    for scheduler in (aging, io.MqDeadline(prio_aging_expire=10_000)):
        machine = io.Machine(kernel="6.1", scheduler=scheduler, filesystem="raw",
                             device=io.devices.null(queue_depth=1, **SLOW), nr_requests=256)  # fmt: skip
        done.append(int(ended(machine, *jobs).tasks[0].done_ops))
    assert done[0] > 1.5 * done[1]


def readers(scheduler, kernel="4.19", groups=("a", "b"), weights=(1000, 250), prios=(4, 4), runtime=0.5):
    """Bytes read by two sequential readers side by side."""
    cgroups = [io.Cgroup(g, weight=w, bfq_weight=w) for g, w in zip(("a", "b"), weights)]
    machine = io.Machine(kernel, io.devices.single(500), "raw", scheduler, cgroups=cgroups)
    jobs = [io.workloads.fio("read", "64k", direct=True, runtime=runtime, cgroup=g, ioprio=p)
            for g, p in zip(groups, prios)]  # fmt: skip
    s = ended(machine, *jobs)
    return [int(s.tasks[k].done_bytes) for k in range(2)]


def test_under_cfq_groups_share_by_weight():
    heavy, light = readers(io.CFQ(low_latency=False, slice_sync=20))
    assert 2.4 < heavy / light < 6


def test_under_cfq_a_higher_priority_gets_longer_slices():
    high, low = readers("cfq", groups=("a", "a"), prios=(0, 7))
    assert high > 1.5 * low


@pytest.mark.parametrize("kernel", ["5.1", "6.1"])
def test_under_bfq_groups_share_by_weight(kernel):
    heavy, light = readers(io.BFQ(low_latency=False), kernel=kernel)
    assert 2.4 < heavy / light < 6


def test_a_single_server_takes_one_command_after_the_other_and_the_driver_its_time():
    device = io.devices.single(100, queue_depth=4, max_sectors_kb=4)
    host = io.Host(request_us=7, wakeup_us=0, raw_us=0, read_us=0, cpus=0)
    machine = io.Machine(scheduler="noop", filesystem="raw", device=device, host=host)
    read = io.workloads.fio("randread", size=4096 * 16, direct=True, loops=1, ioengine="libaio", iodepth=16)
    s = ended(machine, read)
    assert int(s.sim[0].now - s.sim[0].epoch) == 16 * 107_000


def test_a_commit_is_a_descriptor_its_blocks_and_a_commit_block():
    """17 KB a write: 8 sectors of data, 16 of log, 8 of commit block (spec block-layer section 9)."""
    s = ended(io.Machine(scheduler="noop", device=io.devices.null(**SLOW)), io.workloads.dd(count=40))
    assert 32 <= int(s.devices[0].sectors_written) / 40 < 36
