"""BFQ against real kernels, pattern by pattern, and against what its own rules promise.

The patterns are those of `dd oflag=dsync bs=512` on a constant-time device, measured on real kernels under a
deterministic clock (../shared/data: kernel/dd.csv, kernel/dd_per_write.csv, anatomy/, README.md). Their first writes
show that BFQ had not met jbd2 before.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import iosched as io
from iosched.cgroups import Cgroup, Cgroups
from iosched.data import data_file
from iosched.engine import codes as c
from iosched.errors import ScenarioError
from iosched.host import fitted_host
from iosched.kernels import Kernel
from iosched.measure.kernel_rows import host_of, read_kernel_csv, scenario_of
from iosched.schedulers import BFQ, WakerRules, waker_rules
from iosched.validate import compare, validate_kernel

ROOT = Path(__file__).resolve().parent.parent
MS = 1000.0  # us


def measured_ext4(kernel: str, **options: object) -> io.filesystems.Ext4:
    """The file system of the measurements: BFQ has not seen jbd2 yet, and dd's file is the first one created."""
    reads = 5 if Kernel(kernel) >= "5.10" else 3  # reads_reqs of the rows with role=disk
    return io.filesystems.Ext4(quiet_before=None, creation_reads=reads, **options)


def run(
    version: str,
    count: int = 300,
    completion_us: float = 100,
    *,
    rotational: bool = True,
    cgroup: str = "user.slice",
    write_cache: bool = False,
    trace: bool = True,
    **tunables: object,
) -> io.Result:
    """dd oflag=dsync bs=512 on a constant-time device under BFQ."""
    machine = io.Machine(
        kernel=version,
        scheduler=BFQ(**tunables),
        device=io.devices.null(
            completion_us, rotational=rotational, write_cache=write_cache, fua=not version.startswith("4.")
        ),
        filesystem=measured_ext4(version),
    )
    return io.simulate(machine, [io.workloads.dd(count=count, cgroup=cgroup)], trace=trace)


def latencies_us(result: io.Result) -> np.ndarray:
    """Latency of each write."""
    trace = result.trace
    return trace[(trace["kind"] == c.TR_OP_END) & (trace["task"] == 0)]["length"] / 1000


def pattern(result: io.Result) -> list[tuple[str, int]]:
    """Runs of writes with no idle (.), one (1) or two (2) of 8 ms, or one of 20 ms (R): [("1", 2), (".", 298)]."""

    def kind(us: float) -> str:
        extra = us - 3 * result.scenario.machine.device.completion_us
        if extra < 4 * MS:
            return "."
        if extra < 13 * MS:
            return "1"
        return "2" if extra < 19 * MS else "R"

    return [(k, len(list(g))) for k, g in itertools.groupby(map(kind, latencies_us(result)))]


# ---------------------------------------------------------------------------------------------------------------------
# the patterns of real kernels


@pytest.mark.parametrize("completion_us, idles", [(50, 21), (100, 19), (500, 12), (2000, 6)])
def test_5_10_idles_on_the_first_writes_only_and_on_fewer_the_slower_the_device(completion_us, idles):
    """dd_per_write.csv, 5.10.218 seq_kid_ll0_c*: until dd's mean think time has passed 8 ms, then injection begins."""
    assert pattern(run("5.10", 100, completion_us, low_latency=False)) == [("1", idles), (".", 100 - idles)]


@pytest.mark.parametrize("low_latency, kind", [(False, "1"), (True, "R")])
def test_6_1_idles_on_two_writes_and_never_again(low_latency, kind):
    """dd_per_write.csv, 6.1.176: then jbd2 is known as dd's waker. Under weight raising each idle is 20 ms, not 8."""
    assert pattern(run("6.1", low_latency=low_latency)) == [(kind, 2), (".", 298)]


@pytest.mark.parametrize(
    "completion_us, measured",
    [
        (50, ".1 11 .65 11 .59 15 .6 122 .1 19 .1 110 .1"),
        (100, ".1 11 .65 11 .59 15 .6 120 .1 18 .1 18 .1 18 .1 18 .1 11 .17 16 .1"),
        (500, ".1 11 .65 11 .59 15 .6 113 .1 14 .1 14 .1 14 .1 14 .1 14 .1 14 .1"),
    ],
)
def test_5_10_in_the_root_cgroup_idles_in_the_measured_bursts(completion_us, measured):
    """dd_per_write.csv, 5.10.218 seq_root_ll0_c*, the first writes: budgets of 512 sectors run out, 120 timely requests
    set the I/O-bound flag, and idling on dd's queue comes and goes with its mean think time."""
    runs = pattern(run("5.10", 300, completion_us, cgroup="/", low_latency=False))
    wanted = [(word[0], int(word[1:])) for word in measured.split()]
    assert runs[: len(wanted)] == wanted


def test_5_10_raised_waits_20_ms_once():
    """dd_per_write.csv, 5.10.218 seq_kid_ll1_c100."""
    assert pattern(run("5.10", low_latency=True)) == [(".", 1), ("R", 1), (".", 298)]


@pytest.mark.parametrize("suffix, first", [("", 16), ("+p1", 16)])
def test_5_6_idles_on_about_16_writes_with_and_without_patch_1(suffix, first):
    """dd_per_write.csv, 5.6.4 ds_kid_ll0_r1_c100_w0."""
    (kind, n), rest = pattern(run(f"5.6.4{suffix}", low_latency=False))
    assert kind == "1" and abs(n - first) <= 2 and rest == (".", 300 - n)


def test_both_patches_of_thread_1_end_the_idling_after_two_writes():
    """dd_per_write.csv, 5.6.4+p1p2 ds_kid_ll0_r1_c100_w0."""
    assert pattern(run("5.6.4+p1p2", low_latency=False)) == [("1", 2), (".", 298)]


LASTING = [
    ("5.10.218", "ext4_kid_bfq_ll0_si8000_c2000_r1_q32_w0"),
    ("5.10.218", "ext4_kid_bfq_ll0_si8000_c500_r1_q32_w0"),
    ("5.6.4", "dd_bfq_kid_ll0_r1_c500_w0"),
    ("5.6.4+p1", "dd_bfq_kid_ll0_r1_c500_w0"),
]


@pytest.fixture(scope="module")
def lasting() -> dict[tuple[str, str], tuple[float, io.Result, io.Result]]:
    """Measured us a write, the run simulated with hosts fitted on none, and the same without idling."""
    runs = read_kernel_csv(data_file("kernel/dd.csv"))[0]
    hosts = compare([run for run in runs if run.without_scheduler]).hosts
    found = {}
    for run in runs:
        key = run.conditions["kernel"], run.run_id
        if key in LASTING:
            host, _ = hosts.get(run.machine_key, (fitted_host(key[0]), ""))
            machine, jobs = scenario_of(run, host_of(run.conditions, host))
            without = io.simulate(machine.with_(**{"scheduler.slice_idle_us": 0}), jobs)
            found[key] = run.time_per_write_us, io.simulate(machine, jobs, trace=True), without
    return found


@pytest.mark.parametrize("key", LASTING)
def test_in_a_child_cgroup_each_write_waits_for_jbd2_from_120_writes_after_the_first_second_to_the_end(lasting, key):
    """The limits learnt anew after a second let dd's queue be waited for once or twice more. 120 writes later jbd2's
    queue counts as I/O bound, and the group of dd, which comes back as new, finds it in service each time."""
    _, result, _ = lasting[key]
    *before, (quiet, pause), (kind, rest) = pattern(result)
    assert (quiet, pause, kind) == (".", 120, "1") and rest > 200
    assert 1 < latencies_us(result)[: 1000 - rest - pause].sum() / 1e6 < 1.2
    held = result.idling.groupby("waited_for").fired_held.sum()
    assert held["jbd2"] == pytest.approx(rest, abs=1)
    assert held["dd"] == pytest.approx(sum(n for kind, n in before if kind == "1"), abs=1)


@pytest.mark.parametrize("key", LASTING)
def test_the_lasting_wait_for_jbd2_costs_what_it_costs_on_the_real_kernel(lasting, key):
    measured_us, result, without = lasting[key]
    assert 1e6 * result.time_per_op == pytest.approx(measured_us, rel=0.02)
    implied = (measured_us / 1e6 - without.time_per_op) / 8e-3
    assert result.idles_per_op == pytest.approx(implied, rel=0.03)


def test_with_both_patches_nothing_of_that_is_left():
    """5.6.4+p1p2 of the same row: 1606 us a write."""
    result = run("5.6.4+p1p2", 1000, 500, low_latency=False, trace=False)
    assert result.idles_per_op < 0.01


def test_4_19_goes_from_no_idle_to_one_to_two():
    """Anatomy of 4.19.44: the I/O-bound flag is set after 120 timely requests, of which jbd2 sends two a write."""
    runs = pattern(run("4.19", 200, low_latency=False))
    assert [kind for kind, _ in runs[:4]] == ["1", ".", "1", "2"]
    assert [n for _, n in runs[1:3]] == [59, 59]


def test_5_1_idles_once_a_write_on_flash_and_twice_from_write_61_on_a_rotational_disk():
    """README.md, thread 0's BFQ on its own kernels: 61.2 and 31.4 kB/s."""
    assert pattern(run("5.1", low_latency=False, rotational=False)) == [("1", 300)]
    runs = pattern(run("5.1", low_latency=False))
    assert runs[-1] == ("2", 239) and sum(n for _, n in runs[:-1]) == 61


def test_5_2_alternates_fast_and_slow_seconds_on_flash():
    """README.md: the injection limit is reset every second, and 5.2 never takes a baseline."""
    result = run("5.2", 6000, low_latency=False, rotational=False)
    ends = np.cumsum(latencies_us(result)) / 1e6
    slow = np.diff(ends, prepend=0) > 0.005
    shares = [slow[(ends >= t) & (ends < t + 1)].mean() for t in range(4)]
    assert (np.array(shares) > 0.5).tolist() == [True, False, True, False]


def test_5_2_raised_waits_20_ms_in_bursts_of_about_16_writes():
    """README.md: while dd is soft real-time, 300 ms, it is idled upon; then jbd2 preempts it."""
    runs = pattern(run("5.2", 600, low_latency=True))
    bursts = [n for kind, n in runs if kind == "R"]
    assert {kind for kind, _ in runs} == {".", "R"}
    assert len(bursts) >= 3 and all(13 <= n <= 18 for n in bursts)


# ---------------------------------------------------------------------------------------------------------------------
# acceptance checks of the specification (section 8b)


def test_one_idle_a_write_is_61_kilobytes_a_second():
    """Check 1, closed form: 512 bytes in one slice_idle, three completions and some CPU; measured 61.2 kB/s."""
    result = run("5.1", 1000, low_latency=False, rotational=False, trace=False)
    assert 512 / (8e-3 + 3 * 1e-4 + 1e-4) < result.bytes_per_s < 512 / (8e-3 + 3 * 1e-4)


def test_without_slice_idle_nothing_is_waited_for():
    """Check 2."""
    result = run("5.10", 200, slice_idle=0, trace=False)
    assert result.idling.empty


def test_in_one_cgroup_on_flash_nothing_is_waited_for():
    """Check 2."""
    assert pattern(run("5.1", 200, cgroup="/", low_latency=False, rotational=False)) == [(".", 200)]


def kBs_of(kernel: str, run_id: str) -> tuple[float, float]:
    """kB/s of dd in a row of the real kernel, and simulated."""
    wanted = lambda run: run.conditions["kernel"] == kernel and (run.run_id == run_id or run.without_scheduler)  # noqa: E731
    (row,) = (row for row in validate_kernel(data_file("kernel/dd.csv"), keep=wanted).rows if row["run_id"] == run_id)
    return 512e3 / row["measured"], 512e3 / row["simulated"]


@pytest.mark.parametrize("low_latency, measured_kBs", [(0, 44), (1, 102)])
def test_5_2_loses_nine_tenths_on_a_rotational_disk(low_latency, measured_kBs):
    """Check 3. The specification's toy says 60 to 90 kB/s with low_latency off and on; a real 5.2.1 in the same place
    gives 44 and 102 (two idles a write once jbd2 is I/O bound; bursts of 20 ms), and those are held here."""
    measured, simulated = kBs_of("5.2.1", f"10k_kid_bfq_ll{low_latency}_si8000_c100_r1_w0")
    assert measured == pytest.approx(measured_kBs, rel=0.02)
    assert simulated == pytest.approx(measured, rel=0.1)
    assert simulated < 0.1 * run("5.2", 1000, slice_idle=0, trace=False).bytes_per_s / 1e3


def test_boosted_injection_reaches_80_to_90_percent_of_the_ceiling():
    """Check 4, low_latency=0: the boost was merged in 5.3, whose real kernel gives 1120 kB/s of mq-deadline's 1355."""
    measured, simulated = kBs_of("5.3.1", "10k_kid_bfq_ll0_si8000_c100_r1_w0")
    ceiling, modelled_ceiling = kBs_of("5.3.1", "ext4_kid_mqd_c100_r1_w0")
    assert 0.8 <= measured / ceiling <= 0.9
    assert 0.8 <= simulated / modelled_ceiling <= 0.9


def test_boosted_injection_does_not_help_raised_queues():
    """Check 4, low_latency=1. The specification says below 100 kB/s; a real 5.3.1 gives 115, and that is held here."""
    measured, simulated = kBs_of("5.3.1", "10k_kid_bfq_ll1_si8000_c100_r1_w0")
    assert measured == pytest.approx(115, rel=0.01)
    assert simulated == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("low_latency", [False, True])
def test_live_wakers_reach_85_percent_of_the_ceiling(low_latency):
    """Check 5."""
    ceiling = run("6.1", 10_000, slice_idle=0, trace=False).bytes_per_s
    assert run("6.1", 10_000, low_latency=low_latency, trace=False).bytes_per_s > 0.85 * ceiling


@pytest.mark.parametrize("kernel", ["4.19", "5.10", "6.1"])
@pytest.mark.parametrize("weight", [100, 300, 1000])
def test_sequential_streams_share_sectors_as_their_groups_weights(kernel, weight):
    """Checks 8 and 9: 1:1, 3:1 and 10:1 with low_latency off."""
    groups = Cgroups([Cgroup("a", bfq_weight=weight), Cgroup("b", bfq_weight=100)])
    machine = io.Machine(kernel=kernel, scheduler=BFQ(low_latency=False), filesystem="raw",
                         device=io.devices.single(700), cgroups=groups)  # fmt: skip
    jobs = [io.workloads.dd(bs="128k", count=10**6, oflag="direct", cgroup=g) for g in ("a", "b")]
    a, b = io.simulate(machine, jobs, until=40).jobs.bytes
    assert a / b == pytest.approx(weight / 100, rel=0.08)


def test_a_new_queue_is_raised_for_as_long_as_an_initial_peak_rate_gives():
    """Check 10: reference rate x 7 s over two thirds of that rate = 10.5 s; 3.75 s on flash (reference 2.5 s)."""
    for rotational, seconds in ((True, 10.5), (False, 3.75)):
        machine = io.Machine(kernel="4.19", scheduler=BFQ(slice_idle=0), device=io.devices.null(rotational=rotational))
        state = io.simulate(machine, [io.workloads.dd(count=1)]).state
        assert state.bfq_queues[0].coeff == 30
        assert state.bfq_queues[0].raised_for / c.SEC == pytest.approx(seconds, rel=1e-3)


# ---------------------------------------------------------------------------------------------------------------------
# rules, one by one


def test_slots_follow_the_priority_of_the_process():
    """Equal groups, ionice levels 0 and 7 in one group: weights 80 and 10."""
    machine = io.Machine(kernel="5.10", scheduler=BFQ(low_latency=False), filesystem="raw",
                         device=io.devices.single(700), cgroups=["a"])  # fmt: skip
    jobs = [io.workloads.dd(bs="128k", count=10**6, oflag="direct", cgroup="a", ioprio=p) for p in (0, 7)]
    high, low = io.simulate(machine, jobs, until=60).jobs.bytes
    assert high / low == pytest.approx(8, rel=0.12)


def test_realtime_goes_first_within_a_group():
    """Classes are served in strict order inside one group (1.2)."""
    machine = io.Machine(kernel="5.10", scheduler=BFQ(low_latency=False), filesystem="raw",
                         device=io.devices.single(700), cgroups=["a"])  # fmt: skip
    jobs = [
        io.workloads.dd(bs="128k", count=10**6, oflag="direct", cgroup="a", ioclass=k)
        for k in ("realtime", "best-effort")
    ]
    realtime, other = io.simulate(machine, jobs, until=10).jobs.bytes
    assert realtime > 20 * other


def test_strict_guarantees_always_waits():
    """8 ms after each write, whatever slice_idle says (5.1: later kernels still inject)."""
    result = run("5.1", 50, strict_guarantees=True, slice_idle=0, low_latency=False)
    assert latencies_us(result).min() > 8 * MS


@pytest.mark.parametrize(
    "rules, cured",
    [
        (waker_rules("5.10"), False),  # the test that looks at the wrong request
        (WakerRules(window_us=200, detections=2, long_think_time=False, selection="own request"), False),
        (WakerRules(window_us=10, long_think_time=False), False),  # too short a window finds nobody
        (WakerRules(long_think_time=False, detections=2), True),
        (waker_rules("5.6.4+p1p2"), True),
    ],
)
def test_each_waker_rule_can_be_switched_by_itself(rules, cured):
    """5.10 in a child cgroup with dd's first 19 idles: only a rule that sees dd short, and is served, saves them."""
    idles = sum(n for kind, n in pattern(run("5.10", 100, low_latency=False, waker_rules=rules)) if kind != ".")
    assert (idles <= 3) == cured


def test_another_kernels_bfq_runs_under_this_kernel():
    """One disk under many versions, which no real machine can do."""
    assert pattern(run("5.10", low_latency=False, kernel="6.1")) == [("1", 2), (".", 298)]


def test_versions_have_the_waker_rules_of_the_version_map():
    """Spec 2.1, row by row."""
    assert not waker_rules("5.2").detect
    assert (waker_rules("5.4").window_us, waker_rules("5.4").selection) == (200, "own request")
    assert waker_rules("5.6.4+p1").selection == "waker's request" and waker_rules("5.6.4+p1").long_think_time
    assert not waker_rules("5.6.4+p1p2").long_think_time
    assert (waker_rules("5.12").window_us, waker_rules("5.12").detections) == (4000, 3)
    assert waker_rules("5.13").inject_woken and waker_rules("5.16").direct_dispatch
    assert waker_rules("5.17").timeout_slices == 128 and not waker_rules("5.17").direct_dispatch
    assert waker_rules("6.1").challenge and waker_rules("5.15.107") == waker_rules("6.1")


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: io.Machine(kernel="5.2", scheduler=BFQ(waker_rules=WakerRules())), "5.2"),
        (lambda: io.Machine(kernel="4.4", scheduler="bfq"), "4.4"),
        (lambda: io.Machine(kernel="5.2+p1", scheduler="bfq"), "5.3 to 5.11"),
        (lambda: BFQ(slice_idle=8, slice_idle_us=1000), "give one of the two"),
        (lambda: BFQ(waker_rules="5.12"), "WakerRules"),
        (lambda: BFQ(timeout_sync=0), "timeout_sync"),
        (lambda: WakerRules(selection="mine"), "selection"),
        (lambda: io.Machine(kernel="5.10", scheduler=BFQ(kernel="4.19", waker_rules=WakerRules())), "4.19"),
        (lambda: Cgroups([Cgroup("a", bfq_weight=0)]), "bfq_weight"),
        (lambda: Cgroups([Cgroup("a", bfq_weight=1001)]), "bfq_weight"),
    ],
)
def test_what_a_kernel_could_not_be_given_is_refused_in_one_sentence(make, words):
    with pytest.raises(ScenarioError, match=re.escape(words)):
        make()


# ---------------------------------------------------------------------------------------------------------------------
# engine


PLAIN = """
import hashlib, sys
sys.path.insert(0, {tests!r})
import test_bfq
print(test_bfq.fingerprint(*{args!r}))
"""


def fingerprint(kernel: str, low_latency: bool, rotational: bool, write_cache: bool) -> str:
    """Hash of every event of a short run."""
    result = run(kernel, 60, low_latency=low_latency, rotational=rotational, write_cache=write_cache)
    return hashlib.sha256(np.ascontiguousarray(result.trace).tobytes()).hexdigest()


@pytest.mark.parametrize(
    "args",
    [
        ("4.19", False, True, False),
        ("5.2", True, True, False),
        ("5.10", False, False, True),
        ("6.1", True, True, False),
    ],
)
def test_compiled_and_plain_python_give_the_same_trace(args):
    plain = subprocess.run(
        [sys.executable, "-c", PLAIN.format(tests=str(Path(__file__).parent), args=args)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    assert plain.stdout.strip() == fingerprint(*args)


# ---------------------------------------------------------------------------------------------------------------------
# all rows of the measurements


def test_time_per_write_of_all_measured_rows_is_right():
    """As `iosched validate kernel` finds it (0.7 and 7.2 %; the issue asks for 3 and 15 %)."""
    wanted = lambda run: run.conditions["scheduler"] == "bfq" or run.without_scheduler  # noqa: E731
    rows = validate_kernel(data_file("kernel/dd.csv"), keep=wanted).rows
    errors = [abs(row["error"]) for row in rows if row["scheduler"] == "bfq"]
    assert len(errors) == 785
    assert np.median(errors) <= 0.01
    assert np.quantile(errors, 0.9) <= 0.10
    alone = [abs(row["error"]) for row in rows if row["scheduler"] == "bfq" and not row["run_id"].startswith("four")]
    assert len(alone) == 705 and np.quantile(alone, 0.95) <= 0.05
