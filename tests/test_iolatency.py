"""io.latency: depths over time, who is held back, what a real 4.19 showed, and what a kernel could not be given."""

from __future__ import annotations

import re

import numpy as np
import pytest

import iosched as io
from iosched.cgroups import Cgroup, Cgroups
from iosched.engine import codes as c
from iosched.errors import ScenarioError
from iosched.host import fitted_host
from iosched.workloads import Fio, fio, random_reader, sequential_reader


def run(jobs: list[Fio], groups: list, device=None, seconds: float = 2.0, trace: bool = False, **options) -> io.Result:
    """Jobs in cgroups on a 5.3 without a scheduler and a fast host."""
    machine = io.Machine(**({"kernel": "5.3", "scheduler": "none", "filesystem": "raw", "host": fitted_host("5.3", 4)}
                            | options), device=device or io.devices.sata(), cgroups=Cgroups(groups))  # fmt: skip
    return io.simulate(machine, jobs, until=seconds, trace=trace)


def target_and_readers(n: int = 15, *, direct: bool = True, together: bool = False, seconds: float = 2.0) -> list[Fio]:
    """A random reader in "t", and n sequential ones in groups of their own or all in "i"."""
    readers = [sequential_reader(direct=direct, cgroup="i" if together else f"i{k}", runtime=seconds, name=f"i{k}")
               for k in range(n)]  # fmt: skip
    return [random_reader(cgroup="t", runtime=seconds), *readers]


def groups(target_us: float | None = 10, n: int = 15) -> list:
    """The cgroups of `target_and_readers` that are apart."""
    return [Cgroup("t", io_latency_us=target_us), *(f"i{k}" for k in range(n))]


def depths(result: io.Result, group: str) -> list[tuple[float, int]]:
    """(seconds, depth) of each change of a group's depth; 0 is unlimited."""
    row = result.scenario.machine.cgroups.index(group)
    e = result.trace[(result.trace["kind"] == c.TR_DEPTH) & (result.trace["length"] == row)]
    return list(zip(((e["at"] - int(result.state.sim[0].epoch)) / c.SEC).tolist(), e["place"].tolist(), strict=True))


# ---------------------------------------------------------------------------------------------------------------------
# thread 2: two seconds are not enough


@pytest.mark.parametrize(
    ("device", "expected"),
    [(io.devices.sata(), [16, 8, 4, 2]), (io.devices.nvme(queue_depth=1023), [511, 255, 127, 63])],
)
@pytest.mark.parametrize("direct", [False, True])
def test_in_two_seconds_the_depth_is_halved_four_times(device, expected, direct):
    """Acceptance check 7 of spec bfq-and-controllers section 8b: never below 2 (SATA, 32) and 63 (NVMe, 1023)."""
    result = run(target_and_readers(direct=direct), groups(), device, trace=True)
    steps = depths(result, "i0")
    assert [depth for _, depth in steps] == expected
    assert [at for at, _ in steps] == pytest.approx([0.1, 0.6, 1.1, 1.6], abs=0.06)


@pytest.mark.parametrize("direct", [False, True])
def test_fifteen_groups_of_one_process_are_not_held_back_in_that_time(direct):
    with_target, without = (run(target_and_readers(direct=direct), groups(us)) for us in (10, None))
    assert with_target.jobs.latency_mean_s[0] == without.jobs.latency_mean_s[0]
    assert without.io_latency.empty


def test_who_has_the_target_is_never_limited():
    table = run(target_and_readers(), groups()).io_latency.set_index("cgroup")
    assert np.isnan(table.depth["t"]) and table.target_us["t"] == 10
    assert (table.depth.drop("t") == 2).all()


# ---------------------------------------------------------------------------------------------------------------------
# one group of many


def together(seconds: float, target_us: float | None = 200, **options) -> io.Result:
    """Four readers of 64 KiB in one group beside a random reader with a target."""
    readers = fio("read", "64k", "4G", direct=True, numjobs=4, cgroup="i", runtime=seconds, name="i")
    return run([random_reader(cgroup="t", runtime=seconds, direct=True), readers],
               [Cgroup("t", io_latency_us=target_us), "i"], seconds=seconds, **options)  # fmt: skip


def test_a_group_of_four_at_depth_one_has_one_request_in_flight():
    result = together(3.0, trace=True)
    trace = result.trace
    one = next(at for at, depth in depths(result, "i") if depth == 1)
    theirs = trace[trace["task"] > 0]
    in_flight = np.cumsum((theirs["kind"] == c.TR_ISSUE).astype(int) - (theirs["kind"] == c.TR_COMPLETE))
    later = (theirs["at"] - int(result.state.sim[0].epoch)) / c.SEC > one + 0.01
    assert in_flight[later].max() == 1
    assert in_flight[~later].max() == 4


def test_the_target_is_met_when_the_others_are_down_to_one():
    """Alone 68 us on the device; behind one read of 64 KiB at most 191 us more."""
    result = together(3.0, trace=True)
    ends = result.trace[(result.trace["kind"] == c.TR_OP_END) & (result.trace["task"] == 0)]
    seconds = (ends["at"] - int(result.state.sim[0].epoch)) / c.SEC
    latency = ends["length"] / 1000
    assert latency[seconds < 1].mean() > 800
    assert latency[seconds > 2.2].max() < 68.2 + 191.1 + 10


def test_a_group_shares_its_places_in_the_order_of_asking():
    done = together(4.0).jobs.operations[1:]
    assert done.max() - done.min() <= 5


def test_a_target_that_is_always_met_changes_nothing():
    def events(target_us: float | None) -> np.ndarray:
        return together(0.5, target_us, trace=True).trace

    assert np.array_equal(events(1e6), events(None))


def test_a_group_below_a_limited_one_is_limited_with_it():
    jobs = [random_reader(cgroup="t", runtime=3, direct=True),
            fio("read", "64k", direct=True, numjobs=4, cgroup="a/b", runtime=3, name="i")]  # fmt: skip
    result = run(jobs, [Cgroup("t", io_latency_us=200), "a/b"], seconds=3.0)
    table = result.io_latency.set_index("cgroup")
    assert table.depth["a"] == 1 and np.isnan(table.depth["a/b"])
    assert table.in_flight["a/b"] >= table.in_flight["a"] == 1


def test_the_root_is_never_held_back():
    jobs = [random_reader(cgroup="t", runtime=3, direct=True), fio("read", "64k", direct=True, numjobs=4, runtime=3)]
    result = run(jobs, [Cgroup("t", io_latency_us=200)], seconds=3.0)
    assert result.jobs.latency_p99_s[0] > 800e-6


def test_of_two_targets_the_stricter_one_decides():
    """The group with 10 us holds back the one with 100 ms, which is far from missing its own; not before that one's
    first window of 1 s is over, since until then it counts as a small part of the load."""
    jobs = [random_reader(cgroup=g, runtime=3.4, direct=True, numjobs=n) for g, n in (("t", 1), ("u", 4))]
    result = run(jobs, [Cgroup("t", io_latency_us=10), Cgroup("u", io_latency_us=1e5)], seconds=3.4, trace=True)
    assert depths(result, "t") == []
    assert [depth for _, depth in depths(result, "u")] == [16, 8, 4, 2, 1]
    assert depths(result, "u")[0][0] == pytest.approx(1.1, abs=0.06)


def test_when_the_group_with_the_target_is_gone_the_depth_comes_back_by_itself():
    """Five seconds of silence, then a sixteenth of the queue a second."""
    jobs = [random_reader(cgroup="t", runtime=1.3, direct=True),
            fio("read", "64k", direct=True, numjobs=4, cgroup="i", runtime=25)]  # fmt: skip
    result = run(jobs, [Cgroup("t", io_latency_us=200), "i"], seconds=25.0, trace=True)
    steps = depths(result, "i")
    down = [depth for at, depth in steps if at < 2]
    up = [(at, depth) for at, depth in steps if at > 2]
    assert down == [16, 8, 4]
    assert up[0][0] > 1.1 + 5 and np.diff([at for at, _ in up]) == pytest.approx(1, abs=0.01)
    # three steps down by 32/4 are 24 below the default, which 12 steps of 32/16 make good
    assert [depth for _, depth in up] == [4 + 2 * k for k in range(1, 12)] + [0]


# ---------------------------------------------------------------------------------------------------------------------
# real kernel


@pytest.mark.parametrize(
    ("target_us", "buffered", "random_us", "sequential_us"),
    [
        (None, False, 836, 836),
        (1000, False, 835, 836),
        (200, False, 388, 933),
        (1000, True, 1442, 627),
        (200, True, 471, 782),
    ],
)
def test_a_real_4_19_held_back_four_readers_in_one_group_just_so(target_us, buffered, random_us, sequential_us):
    """data/kernel/readers.csv, 4.19.44 on a device of 60 us and 500 MB/s, 4 s: mean latencies of both sides. Buffered
    with 200 us it depends on reading page by page while the group is in the way."""
    jobs = [random_reader(cgroup="t", runtime=4, direct=not buffered),
            fio("read", "64k", "4G", numjobs=4, direct=not buffered, cgroup="i", runtime=4, name="i")]  # fmt: skip
    result = run(jobs, [Cgroup("t", io_latency_us=target_us), "i"], seconds=4.0, kernel="4.19", host=None)
    rows = result.jobs
    sequential = (rows.latency_mean_s * rows.operations)[1:].sum() / rows.operations[1:].sum()
    assert rows.latency_mean_s[0] * 1e6 == pytest.approx(random_us, rel=0.05)
    assert sequential * 1e6 == pytest.approx(sequential_us, rel=0.03)


# ---------------------------------------------------------------------------------------------------------------------
# input


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Cgroups([Cgroup("a", io_latency_us=0)]), "a target of 0 is none"),
        (lambda: Cgroups([Cgroup("a", io_latency_us=-5)]), "io_latency_us: -5"),
        (lambda: Cgroups([Cgroup("a", io_latency_us="10ms")]), "io_latency_us: '10ms'"),
        (lambda: Cgroups([Cgroup("/", io_latency_us=10)]), "the root has no io.latency"),
        (lambda: Cgroups([Cgroup("a", io_latency_us=10)], version=1), "cgroup v1 has no io.latency"),
        (lambda: Cgroups([Cgroup("a", io_latency_us=10, leaf_weight=500)]), "cgroup v1 has no io.latency"),
        (lambda: Cgroups(["a"], version=3), "cgroups.version: 3"),
        (lambda: Cgroup("a", io_latency=10), "io_latency_us"),
        (
            lambda: io.Machine(kernel="4.18", scheduler="none", cgroups=[Cgroup("a", io_latency_us=10)]),
            "kernel 4.18 has no io.latency; it came with 4.19",
        ),
    ],
)
def test_what_a_kernel_could_not_be_given_is_refused_in_one_sentence(make, words):
    with pytest.raises(ScenarioError, match=re.escape(words)) as error:
        make()
    assert "\n" not in str(error.value)


def test_cgroups_show_their_targets():
    for one in (Cgroups([Cgroup("a", io_latency_us=10), "b"]), Cgroups({"a": 10}, version=2), Cgroups()):
        assert eval(repr(one), {"Cgroups": Cgroups, "Cgroup": Cgroup}) == one
