"""Weights under CFQ and BFQ, io.max, io.cost: shares, limits, and what a kernel could not be given."""

from __future__ import annotations

import numpy as np
import pytest

import iosched as io
from iosched.workloads import fio, random_reader, sequential_reader

HOST = io.Host(speed=4, cpus=0)  # as many processors as wanted
READERS = {"direct": True, "bs": "128k", "size": "4G", "runtime": 5.0}
SCHEDULERS = {"cfq": ("4.19", lambda: io.CFQ()), "bfq 4.19": ("4.19", lambda: io.BFQ(low_latency=False)),
              "bfq 5.10": ("5.10", lambda: io.BFQ(low_latency=False))}  # fmt: skip


def two_groups(which: str, device, jobs, a: int = 100, b: int = 100) -> np.ndarray:
    """Bytes of each job in groups "a" and "b" of these weights."""
    kernel, scheduler = SCHEDULERS[which]
    groups = [io.Cgroup("a", weight=a, bfq_weight=a), io.Cgroup("b", weight=b, bfq_weight=b)]
    vm = io.Machine(kernel=kernel, device=device, scheduler=scheduler(), filesystem="raw", cgroups=groups)
    return io.simulate(vm, jobs).jobs.bytes.to_numpy()


def readers(**options) -> list:
    """A sequential reader in each group."""
    return [sequential_reader(**READERS | options, cgroup=g, name=g) for g in "ab"]


@pytest.mark.parametrize("which", SCHEDULERS)
def test_300_to_100_is_three_to_one_on_a_disk(which):
    a, b = two_groups(which, io.devices.hdd_model(), readers(), 300, 100)
    assert a / b == pytest.approx(3, rel=0.1)


@pytest.mark.parametrize("direct", [False, True], ids=["buffered", "direct"])
@pytest.mark.parametrize("which", SCHEDULERS)
def test_300_to_100_is_three_to_one_on_an_ssd(which, direct):
    """Direct ones have one request at a time, and who is heavier takes the device from the other at each."""
    a, b = two_groups(which, io.devices.sata(), readers(direct=direct), 300, 100)
    assert a / b == pytest.approx(3, rel=0.12)


@pytest.mark.parametrize("device", [io.devices.hdd_model(), io.devices.sata()], ids=["disk", "ssd"])
@pytest.mark.parametrize("which", SCHEDULERS)
def test_two_equal_groups_get_the_same(which, device):
    a, b = two_groups(which, device, readers())
    assert a / b == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("which", ["cfq", "bfq 5.10"])
def test_a_seeky_group_and_a_sequential_one_share_the_time(which):
    """Each gets about half of what it has alone: of bytes, one gets a hundredth of the other. (BFQ of 4.19 does not
    wait for a seeky queue among equal groups, so that one loses.)"""
    jobs = [random_reader(direct=True, size="4G", runtime=5.0, cgroup="a", name="a"), readers()[1]]
    device = io.devices.hdd_model()
    alone = np.array([two_groups(which, device, [job])[0] for job in jobs])
    shares = two_groups(which, device, jobs) / alone
    assert (shares > 0.25).all() and (shares < 0.75).all()
    assert shares.sum() == pytest.approx(1, abs=0.2)


# ---------------------------------------------------------------------------------------------------------------------
# io.max


def limited(jobs, groups, **options):
    """Jobs on a fast device without a scheduler."""
    return io.simulate(
        io.Machine(kernel="5.4", device=io.devices.nvme(), scheduler="none", cgroups=groups, host=HOST, **options), jobs
    ).jobs


@pytest.mark.parametrize(
    ("limit", "bytes_per_s"), [({"rbps": 10e6}, 10e6), ({"riops": 500}, 500 * 4096), ({"rbps": 1e6, "riops": 1e4}, 1e6)]
)
def test_io_max_is_kept_and_others_do_not_feel_it(limit, bytes_per_s):
    jobs = [random_reader(direct=True, runtime=3.0, cgroup=g) for g in "ab"]
    held, free = limited(jobs, [io.Cgroup("a", **limit), "b"]), limited(jobs, ["a", "b"])
    assert held.bytes[0] / 3 == pytest.approx(bytes_per_s, rel=0.02)
    assert held.bytes[1] == pytest.approx(free.bytes[1], rel=0.02)


def test_a_held_read_waits_for_its_slice():
    held = limited(random_reader(direct=True, runtime=2.0, cgroup="a"), [io.Cgroup("a", rbps=10e6)])
    assert 0.05 < held.latency_max_s[0] < 0.11  # slices of 100 ms


def test_reads_and_writes_have_limits_of_their_own_and_children_share_their_parents():
    jobs = [sequential_reader(cgroup="a/x", runtime=2.0), sequential_reader(cgroup="a/y", runtime=2.0),
            fio("write", direct=True, cgroup="a/x", runtime=2.0)]  # fmt: skip
    rates = limited(jobs, [io.Cgroup("a", rbps=20e6, wbps=5e6), "a/x", "a/y"]).bytes / 2e6
    assert rates[:2].sum() == pytest.approx(20, rel=0.05) and rates[2] == pytest.approx(5, rel=0.05)
    assert rates[0] == pytest.approx(rates[1], rel=0.1)


def test_a_bio_larger_than_a_slice_goes_through_in_the_end():
    held = limited(fio("read", "1M", direct=True, runtime=4.0, cgroup="a"), [io.Cgroup("a", rbps=1e6)])
    assert held.bytes[0] / 4 == pytest.approx(1e6, rel=0.4) and held.operations[0] >= 3


# ---------------------------------------------------------------------------------------------------------------------
# io.cost


def cost(a: int, b: int, settings: io.IOCost | None, kinds: str = "ss", **options) -> io.Result:
    """Four processes in each of two groups, direct, on an SSD without a scheduler."""
    vm = io.Machine(kernel="5.10", device=io.devices.sata(), scheduler="none", filesystem="raw", io_cost=settings,
                    cgroups=[io.Cgroup("a", io_weight=a), io.Cgroup("b", io_weight=b)])  # fmt: skip
    jobs = []
    for group, kind in zip("ab", kinds, strict=True):
        shared = {"direct": True, "numjobs": 4, "runtime": 4.0, "cgroup": group, "name": group} | options
        jobs.append(sequential_reader(bs="64k", **shared) if kind == "s" else random_reader(**shared))
    return io.simulate(vm, jobs)


def bytes_of(result: io.Result) -> np.ndarray:
    """Bytes of each group."""
    return result.jobs.groupby("cgroup").bytes.sum().to_numpy()


@pytest.mark.parametrize(("a", "b"), [(300, 100), (100, 100), (1000, 100)])
def test_at_a_vrate_of_100_percent_equal_readers_share_by_weight(a, b):
    got = bytes_of(cost(a, b, io.IOCost(min=100, max=100)))
    assert got[0] / got[1] == pytest.approx(a / b, rel=0.05)


def test_the_linear_model_decides_what_100_percent_is():
    """Preset ssd: a sequential bio of 64 KiB costs 16 pages of 488.6 MB/s and the rest of 1/8932 s."""
    page = 4096 / 488636629
    a_second = 1 / (16 * page + (1 / 8932 - page))
    total = bytes_of(cost(100, 100, io.IOCost(min=100, max=100))).sum() / 4
    assert total == pytest.approx(a_second * 65536, rel=0.1)
    half = bytes_of(cost(100, 100, io.IOCost(min=50, max=50))).sum() / 4
    assert half == pytest.approx(total / 2, rel=0.05)


def test_random_readers_share_the_modelled_time_not_the_bytes():
    seeky, sequential = bytes_of(cost(100, 100, io.IOCost(min=100, max=100), "rs"))
    page = 4096 / 488636629
    wanted = 4096 * (16 * page + 1 / 8932 - page) / (65536 / 8518)
    assert seeky / sequential == pytest.approx(wanted, rel=0.15)


def test_vrate_rises_while_somebody_waits_and_the_device_is_not_busy():
    result = cost(300, 100, io.IOCost())
    assert result.state.iocost[0].vrate > 1_500_000
    assert bytes_of(result).sum() > 1.15 * bytes_of(cost(300, 100, io.IOCost(min=100, max=100))).sum()


def test_vrate_falls_where_reads_miss_their_target():
    loose, tight = (cost(300, 100, io.IOCost(rpct=pct, rlat_us=500)).io_cost.vrate_percent[0] for pct in (0, 95))
    assert tight < 0.7 * loose


def test_what_an_idle_group_leaves_the_others_have():
    alone = bytes_of(cost(100, 100, io.IOCost(min=100, max=100), "rs", runtime=2.0))
    slow = cost(100, 100, io.IOCost(min=100, max=100), "rs", runtime=2.0, thinktime_us=20_000.0)
    assert bytes_of(slow)[0] < alone[0]
    rest = cost(100, 10_000, io.IOCost(min=100, max=100), "rs", runtime=2.0)
    assert bytes_of(rest)[1] > 1.5 * alone[1]


def test_the_root_is_never_held():
    vm = io.Machine(kernel="5.10", device=io.devices.sata(), scheduler="none", filesystem="raw",
                    io_cost=io.IOCost(min=10, max=10), cgroups=["a"])  # fmt: skip
    held, free = (
        io.simulate(vm, sequential_reader(direct=True, bs="64k", cgroup=g, runtime=1.0)).jobs.bytes[0] for g in "a/"
    )
    assert free > 4 * held


# ---------------------------------------------------------------------------------------------------------------------
# what a kernel could not be given


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: io.Machine(kernel="5.3", io_cost=io.IOCost()), "io_cost: kernel 5.3 has no io.cost"),
        (lambda: io.Machine(kernel="5.10", io_cost=True), "io_cost: True is not one"),
        (lambda: io.Machine(kernel="5.10", io_cost=io.IOCost(), cgroups=io.Cgroups(["a"], version=1)), "cgroup v1"),
        (lambda: io.IOCost(min=200, max=100), "io_cost.min: 200 is above max"),
        (lambda: io.IOCost(rpct=101), "io_cost.rpct: 101"),
        (lambda: io.IOCost(preset="tape"), "io_cost.preset: 'tape' is unknown"),
        (lambda: io.Cgroups([io.Cgroup("a", rbps=0)]), r"cgroups\['a'\].rbps: 0"),
        (lambda: io.Cgroups([io.Cgroup("/", riops=5)]), "the root has no limits"),
        (lambda: io.Cgroups([io.Cgroup("a", io_weight=0)]), r"cgroups\['a'\].io_weight: 0"),
    ],
)
def test_what_cannot_be_gets_one_sentence(build, said):
    with pytest.raises(io.ScenarioError, match=said):
        build()
