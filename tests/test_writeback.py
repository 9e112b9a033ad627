"""Thread 3: a reader beside a buffered writer. Every claim, the orderings, and what must not be fitted."""

from __future__ import annotations

from dataclasses import replace

import pytest

import iosched as io
from iosched import plots
from iosched.errors import ScenarioError
from iosched.threads import mixes, reproduce
from iosched.threads import writeback as thread

# T3-008, T3-034 and T3-036 chose what no idle disk shows: two constants of the disks' firmware and the page cache's
# size; the others set idle rates
FITTED = {"T3-004", "T3-008", "T3-021", "T3-022", "T3-034", "T3-036", "T3-043", "T3-045"}
HISTORY = {"T3-037", "T3-038"}
WITHIN_A_QUARTER = {
    *("T3-007", "T3-009", "T3-010", "T3-040", "T3-044"),  # MB/s
    *("T3-013", "T3-014", "T3-016", "T3-017", "T3-018", "T3-019", "T3-051"),  # fio's groups beside the writer
    *("T3-050", "T3-052", "T3-053"),
}


@pytest.fixture(scope="module")
def outcomes():
    return {o.claim.id: o for o in reproduce("writeback")}


def test_every_claim_of_the_thread_is_there(outcomes):
    assert list(outcomes) == [f"T3-{n:03d}" for n in range(1, 57)]


def test_every_claim_is_reproduced_or_explained(outcomes):
    for o in outcomes.values():
        assert o.verdict == "reproduced" or o.reason or o.claim.note, o.claim.id
        assert (o.verdict == "not modelled") == (o.claim.id in HISTORY)


def test_what_is_fitted_says_so(outcomes):
    assert {name for name, o in outcomes.items() if o.claim.role == "fitted"} == FITTED
    assert all(outcomes[name].claim.note for name in FITTED)


def test_the_predicted_throughputs_and_tails_are_within_a_quarter(outcomes):
    for name in WITHIN_A_QUARTER:
        assert outcomes[name].claim.role == "predicted"
        assert outcomes[name].verdict == "reproduced", name


def test_the_orderings_of_the_first_disk_are_the_threads():
    """deadline without WBT is below deadline with WBT, that below CFQ, that below BFQ; CFQ and deadline with WBT are
    below what they get without write cache."""
    reader = {experiment: thread.reader_MBs("wd", experiment) for experiment in thread.EXPERIMENTS}
    assert reader["deadline, wbt 0"] < reader["deadline, wbt 75000"] < reader["cfq"] < reader["bfq"]
    assert reader["cfq"] < reader["cfq, no write cache"]
    assert reader["deadline, wbt 75000"] < reader["deadline, wbt 75000, no write cache"]
    assert reader["cfq"] < thread.writer_MBs("wd", "cfq")
    without_cache = "deadline, wbt 75000, no write cache"
    assert reader[without_cache] > thread.writer_MBs("wd", without_cache)


def test_one_disk_squeezes_the_reader_and_the_other_starves_the_writer():
    assert thread.reader_MBs("wd", "cfq") < 0.25 * thread.reader_MBs("wd", "idle read")
    assert thread.reader_MBs("seagate", "cfq") > 0.8 * thread.reader_MBs("seagate", "idle read")
    assert all(mix.without_writes() > 0.5 for mix in thread.runs("seagate", "cfq"))


@pytest.mark.parametrize("system", ["wd", "seagate"])
def test_under_cfq_the_cgroup_decides_who_starves_not_the_disk(system):
    def beside(group: str) -> mixes.Mix:
        return mixes.watch(thread.machine(system), [thread.reader(group), thread.writer(group)], until_s=15.0)

    apart, together = beside("user.slice"), beside("/")
    assert apart.writer_MBs > 2 * apart.reader_MBs
    assert together.reader_MBs > 5 * together.writer_MBs


def test_a_driver_that_runs_the_queue_after_every_command_lets_the_reader_preempt():
    """Without it the flusher is chosen only when the reader has asked already, and gets in at the end of each slice."""
    device = replace(thread.machine("seagate").device, scsi=False)
    machine = thread.machine("seagate").with_(device=device)
    jobs = [thread.reader("/"), thread.writer("/")]
    as_it_is, otherwise = (mixes.watch(m, jobs, until_s=12.0) for m in (thread.machine("seagate"), machine))
    assert otherwise.writer_MBs > 3 * as_it_is.writer_MBs


def test_devices_and_hosts_are_the_same_under_every_scheduler():
    for system, experiment in thread.SETUPS:
        base, changed = thread.machine(system), thread.machine(system, experiment)
        assert changed.host == base.host and changed.memory == base.memory
        assert replace(changed.device, write_cache=True) == base.device
    wd, seagate = (thread.SYSTEMS[name].device for name in ("wd", "seagate"))
    same = ("destage", "destage_patience_ms", "destage_quiet_ms", "ncq_age_ms", "ncq_choice", "seek_root_ms")
    assert all(getattr(wd, name) == getattr(seagate, name) for name in same)


def test_watching_is_simulating_up_to_the_readers_end():
    jobs = [thread.reader("user.slice", size=2**26), thread.writer("user.slice")]
    mix = mixes.watch(thread.machine("wd"), jobs, step_s=0.1)
    end = float(mix.result.elapsed)
    alone = io.simulate(thread.machine("wd"), jobs, until=end)
    assert mix.result.jobs.operations[0] == alone.jobs.operations[0] == 2**26 // 4096
    assert mix.result.jobs.latency_max_s[0] == alone.jobs.latency_max_s[0]
    assert (mix.seconds.read_MBs * 0.1).sum() == pytest.approx(2**26 * 1e-6, rel=0.01)


def test_fios_groups_add_up_to_the_slow_reads():
    mix = thread.runs("wd", "cfq")[0]
    jobs = mix.result.jobs
    assert mix.slower_than(1) == pytest.approx(sum(mix.buckets().values()))
    assert 0 < mix.slower_than(250) < mix.slower_than(50) < mix.slower_than(1) < 100 / 64 + 0.1
    assert jobs.latency_p99_s[0] * 1e3 > 1


def test_an_unknown_system_or_experiment_is_refused():
    with pytest.raises(ScenarioError, match="system"):
        thread.machine("nvme")
    with pytest.raises(ScenarioError, match="deadline, wbt 0"):
        thread.machine("wd", "deadline, wbt")


def test_the_table_and_the_buckets_are_drawn_beside_what_was_published():
    picture = plots.shares(thread.table())
    assert picture.axes[0].get_yticklabels()[0].get_text() == "WD 7200 rpm, cfq"
    columns = ("published_reader", "published_writer")
    assert len(picture.axes[0].patches) == sum(thread.table()[name].notna().sum() for name in columns)
    said = thread.published_buckets("idle read")
    assert said[4] == pytest.approx(0.98)
    panel = plots.latency_buckets({"idle": thread.modelled_buckets("wd", "idle read")}, {"idle": said}).axes[0]
    assert len(panel.lines[0].get_xdata()) == len(said)
    with pytest.raises(ScenarioError, match="at least one"):
        plots.latency_buckets({}, {})
    with pytest.raises(ScenarioError, match="writer_MBs"):
        plots.shares(thread.table().drop(columns="writer_MBs"))
