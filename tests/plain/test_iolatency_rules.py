"""io.latency's rules one by one, on a SATA device (32 requests): statistics, steps of the cookie, depths, debts."""

from __future__ import annotations

import pytest

import iosched as io
from iosched.cgroups import Cgroup
from iosched.engine import codes as c
from iosched.engine import iolatency as rules
from iosched.workloads import random_reader

MS = c.MSEC
ROOT, OTHER, TARGET = 0, 1, 2  # rows of "/", "i" and "t"


@pytest.fixture
def bench(bench_of):
    """Make a bench of two groups, of which "t" has a target, with a reader in each."""

    def make(rotational: bool = False, target_us: float = 1000):
        machine = io.Machine(
            kernel="5.10",
            scheduler="none",
            filesystem="raw",
            device=io.devices.sata(rotational=rotational),
            cgroups=["i", Cgroup("t", io_latency_us=target_us)],
        )
        return bench_of(machine, [random_reader(cgroup="t"), random_reader(cgroup="i", runtime=1)])

    return make


def window(b, at_ms: float, latencies_us: list[float]) -> None:
    """Bios of the group with the target end, the last one at `at_ms`."""
    for k, us in enumerate(latencies_us):
        b.at(at_ms * 1000 if k == len(latencies_us) - 1 else 0)
        b.s.latency[TARGET].inflight += 1
        rules.bio_done(b.s, 0, TARGET, round(us * 1000), 0)


def below(b) -> int:
    """How far the root's cookie is below its default."""
    return rules.COOKIE - int(b.s.latency[ROOT].cookie)


def test_a_window_is_sixteen_targets_within_a_tenth_and_a_whole_second(bench):
    for target_us, ms in ((10, 100), (20_000, 320), (1e6, 1000)):
        assert bench(target_us=target_us).s.latency[TARGET].window == ms * MS


@pytest.mark.parametrize(
    ("rotational", "latencies", "missed"),
    [
        (False, [900] * 19 + [5000], False),  # 90 % of flash's bios decide: one in twenty does not matter
        (False, [900] * 8 + [5000] * 2, True),
        (False, [1000] * 10, True),  # the target itself is missed
        (True, [900] * 19 + [2900], False),  # on a disk the mean decides, 1000
        (True, [900] * 19 + [2901], True),
    ],
)
def test_flash_is_judged_by_its_90th_percentile_and_a_disk_by_its_mean(bench, rotational, latencies, missed):
    b = bench(rotational)
    window(b, 100, latencies)
    assert (below(b) > 0) == missed


def test_a_miss_lowers_the_cookie_by_a_quarter_of_the_queue_every_half_second(bench):
    b = bench()
    for ms, steps in ((99, 0), (100, 1), (300, 1), (599, 1), (700, 2), (1300, 3)):
        window(b, ms, [5000] * 10)
        assert below(b) == 8 * steps
    assert b.s.latency[ROOT].scale_group == TARGET and b.s.latency[ROOT].scale_latency == MS


def test_beyond_a_queues_length_it_sinks_one_by_one_and_no_further_than_two(bench):
    b = bench()
    p = b.s.latency[ROOT]
    seen = []
    for _ in range(60):
        rules.lower_cookie(b.s, 0, p)
        seen.append(below(b))
    assert seen[:7] == [8, 16, 24, 32, 40, 41, 42] and seen[-1] == 64


def test_the_group_that_lowered_it_raises_it_by_a_sixteenth_when_five_bios_were_fast(bench):
    b = bench()
    window(b, 100, [5000] * 10)
    window(b, 700, [100] * 4)
    assert below(b) == 8
    window(b, 800, [100])
    assert below(b) == 6


def test_a_group_halves_its_depth_when_it_submits_and_not_before(bench):
    b = bench()
    window(b, 100, [5000] * 10)
    assert b.s.latency[OTHER].depth == rules.UNLIMITED
    assert rules.admit(b.s, 0, 1, 0)
    assert b.s.latency[OTHER].depth == 16 and b.s.latency[OTHER].inflight == 1


def test_two_steps_between_two_submissions_count_as_one(bench):
    b = bench()
    window(b, 100, [5000] * 10)
    window(b, 700, [5000] * 10)
    rules.follow_parent(b.s, 0, OTHER)
    assert b.s.latency[OTHER].depth == 16


def test_at_depth_one_the_next_steps_make_it_use_delay_and_the_way_up_takes_that_first(bench):
    b = bench()
    g, p = b.s.latency[OTHER], b.s.latency[ROOT]
    for depth, delay in ((16, 0), (8, 0), (4, 0), (2, 0), (1, 0), (1, 1), (1, 2)):
        rules.lower_cookie(b.s, 0, p)
        rules.follow_parent(b.s, 0, OTHER)
        assert (g.depth, g.use_delay) == (depth, delay)
    assert rules.congested(b.s, 0, OTHER)
    for depth, delay in ((1, 1), (1, 0), (3, 0), (5, 0)):
        rules.raise_cookie(b.s, 0, p)
        rules.follow_parent(b.s, 0, OTHER)
        assert (g.depth, g.use_delay) == (depth, delay)
    p.cookie = rules.COOKIE
    rules.follow_parent(b.s, 0, OTHER)
    assert g.depth == rules.UNLIMITED and not rules.congested(b.s, 0, OTHER)


def test_a_full_group_sends_to_sleep_and_a_completion_wakes_in_order(bench):
    b = bench()
    g = b.s.latency[OTHER]
    g.depth, g.inflight = 1, 1
    assert not rules.admit(b.s, 0, 1, 0)
    assert b.s.tasks[1].state == c.T_WAIT_TAG
    rules.bio_done(b.s, 0, OTHER, 1000, 0)
    assert b.s.tasks[1].state == c.T_READY and b.s.tasks[1].climb == ROOT
    assert g.inflight == 1  # the place is the sleeper's already
    assert rules.admit(b.s, 0, 1, 0) and g.inflight == 1


def test_metadata_passes_a_full_group(bench):
    b = bench()
    b.s.latency[OTHER].depth, b.s.latency[OTHER].inflight = 1, 1
    assert rules.admit(b.s, 0, 1, c.F_META)
    assert b.s.latency[OTHER].inflight == 2


def test_what_metadata_took_is_paid_once_and_never_more_than_a_quarter_second(bench):
    """A debt is the group's own target less the latency, while the group is in the way; without a target it is none."""
    b = bench(target_us=1e6)
    g = b.s.latency[TARGET]
    g.inflight = 2
    rules.bio_done(b.s, 0, TARGET, 100 * MS, c.F_META)
    assert rules.debt(b.s, 0, TARGET) == 0
    g.use_delay = 1
    rules.bio_done(b.s, 0, TARGET, 990 * MS, c.F_META)
    assert (rules.debt(b.s, 0, TARGET), rules.debt(b.s, 0, TARGET)) == (10 * MS, 0)
    g.inflight = 1
    rules.bio_done(b.s, 0, TARGET, 100 * MS, c.F_META)
    assert rules.debt(b.s, 0, TARGET) == 250 * MS


def test_the_timer_forgets_a_silent_group_after_five_seconds_and_lets_the_cookie_rise(bench):
    b = bench()
    window(b, 100, [5000] * 10)
    b.at(5_000_000)
    rules.timer_fired(b.s, 0)
    assert b.s.latency[ROOT].scale_group == TARGET
    b.at(5_100_000)
    rules.timer_fired(b.s, 0)
    assert b.s.latency[ROOT].scale_group == c.NONE and below(b) == 8
    rules.timer_fired(b.s, 0)
    assert below(b) == 6
