"""dbench: its load, its clients, what it prints, real-kernel rows, and thread 1."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from helpers import ROOT, python

import iosched as io
from iosched.data import data_file
from iosched.errors import ScenarioError
from iosched.host import fitted_host
from iosched.loads import read_load
from iosched.measure.kernel_rows import read_kernel_csv
from iosched.schedulers import BFQ
from iosched.threads import claims, reproduce
from iosched.threads import dbench as thread
from iosched.validate import compare
from iosched.workloads import dbench

TABLE = data_file("kernel/dbench.csv")
SHARED = ROOT.parent / "shared" / "data" / "dbench_client_flushes.csv"


def machine(kernel: str = "5.6", scheduler: object = "mq-deadline", *, completion_us: float = 600, **device: object):
    """The measured guest at four instructions a nanosecond."""
    return io.Machine(
        kernel=kernel,
        scheduler=scheduler,
        device=io.devices.null(completion_us=completion_us, **device),
        host=fitted_host(kernel, 4),
        cgroups=["child"],
    )


# ---------------------------------------------------------------------------------------------------------------------
# the load


def test_the_load_counts_448053_bytes_a_flush():
    load = read_load()
    assert len(load) == 5553
    assert load.counted.mean() == pytest.approx(448_053, abs=1)
    assert load.operations.mean() == pytest.approx(82.5, abs=0.1)


@pytest.mark.skipif(not SHARED.exists(), reason="the measured sequence is not here")
def test_the_compact_load_has_the_bytes_and_operations_of_the_load_file():
    with SHARED.open(newline="") as f:
        rows = list(csv.DictReader(f))
    load = read_load()
    assert load.counted.tolist() == [int(r["written_since_last"]) + int(r["read_since_last"]) for r in rows]
    assert load.operations.tolist() == [int(r["ops_since_last"]) for r in rows]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dirty,counted_bytes,operations\n1,2,3\n", "lacks the column 'dirty_bytes'"),
        ("dirty_bytes,counted_bytes,operations,colour\n1,2,3,4\n", "has the column 'colour'"),
        ("dirty_bytes,counted_bytes,operations\n1,two,3\n", "line 2 has 'two' as counted_bytes"),
        ("dirty_bytes,counted_bytes,operations\n1,2,-3\n", "line 2 has '-3' as operations"),
        ("dirty_bytes,counted_bytes,operations,rewrite\n1,2,3,2\n", "line 2 has '2' as rewrite"),
        ("dirty_bytes,counted_bytes,operations\n", "has no flushes"),
        ("dirty_bytes,counted_bytes,operations\n0,2,0\n", "so nothing is ever flushed"),
    ],
)
def test_a_wrong_load_is_refused_in_one_sentence(tmp_path, text, words):
    path = tmp_path / "load.csv"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=r"^dbench\.load: ") as error:
        dbench(load=path)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_missing_load_is_refused():
    with pytest.raises(ScenarioError, match="cannot be read"):
        dbench(load="/nowhere/load.csv")


def test_more_clients_than_flushes_are_refused(tmp_path):
    path = tmp_path / "load.csv"
    path.write_text("dirty_bytes,counted_bytes,operations\n4096,4096,2\n")
    assert dbench(load=path).clients == 1
    with pytest.raises(ScenarioError, match="more than the load has flushes"):
        dbench(clients=2, load=path)


@pytest.mark.parametrize(
    "options",
    [{"clients": 0}, {"clients": -1}, {"clients": 57}, {"clients": 1.5}, {"runtime": 0}, {"warmup": -1}, {"colour": 1}],
)
def test_absurd_options_are_refused(options):
    with pytest.raises(ScenarioError, match=r"^dbench[. ]"):
        dbench(**options)


# ---------------------------------------------------------------------------------------------------------------------
# a run


def test_a_page_written_again_in_the_same_tick_needs_no_commit(tmp_path):
    path = tmp_path / "load.csv"
    path.write_text("dirty_bytes,counted_bytes,operations,rewrite\n" + "4096,4096,2,0\n" + 5000 * "4096,4096,2,1\n")
    result = io.simulate(machine(completion_us=100), dbench(runtime=1, load=path))
    flushes, commits = int(result.jobs.operations[0]), int(result.state.journals[0].commits)
    assert commits == pytest.approx(250, abs=3)  # one a tick of 4 ms
    assert flushes > 5 * commits


def test_clients_share_commits():
    one = io.simulate(machine(), dbench(runtime=1))
    four = io.simulate(machine(), dbench(clients=4, runtime=1))
    assert len(four.jobs) == 4
    a_flush = [int(r.state.journals[0].commits) / r.jobs.operations.sum() for r in (one, four)]
    assert a_flush[1] < 0.7 * a_flush[0]
    assert four.throughput_MBs > 2 * one.throughput_MBs


def test_the_warm_up_does_not_count():
    long = io.simulate(machine(), dbench(runtime=5))
    assert dbench(runtime=5).warmup_s == 1 and dbench(runtime=3).warmup_s == 0
    counted = long.course[long.course.counted]
    assert long.jobs.bytes[0] == pytest.approx(counted.bytes_per_s.sum(), rel=0.02)
    assert long.jobs.elapsed_s[0] == pytest.approx(5, abs=0.02)


def test_it_prints_what_dbench_prints():
    text = repr(io.simulate(machine(), dbench(clients=2, runtime=1)))
    assert " Operation " in text and " Flush " in text
    assert "MB/sec  2 clients  2 procs" in text


def test_the_plain_python_run_is_the_same_event_by_event():
    code = (
        "import iosched as io, hashlib; from iosched.schedulers import BFQ; "
        "m = io.Machine(kernel='5.6', scheduler=BFQ(), cgroups=['child']); "
        "r = io.simulate(m, io.workloads.dbench(clients=2, runtime=0.2, cgroup='child'), trace=True); "
        "print(len(r.trace), hashlib.sha256(r.trace.tobytes()).hexdigest())"
    )
    assert python(code) == python(code, NUMBA_DISABLE_JIT="1")


def test_a_write_cache_is_flushed_even_where_nothing_is_committed():
    result = io.simulate(machine(completion_us=100, write_cache=True), dbench(runtime=1))
    assert int(result.state.devices[0].flushes) == pytest.approx(int(result.jobs.operations[0]), abs=3)


# ---------------------------------------------------------------------------------------------------------------------
# real kernels


@pytest.fixture(scope="module")
def rows():
    """Every run of the shipped table."""
    return read_kernel_csv(TABLE)[0]


def errors_of(rows, keep) -> np.ndarray:
    """Absolute relative errors, with hosts fitted on the whole table."""
    kept = {id(run) for run in rows if keep(run)}
    comparison = compare(rows)
    assert comparison.skipped == []
    return np.array([abs(row["error"]) for run, row in zip(rows, comparison.rows, strict=True) if id(run) in kept])


def test_without_idling_ext4_is_within_2_percent_in_the_median_and_6_at_most(rows):
    errors = errors_of(rows, lambda run: run.never_idles and run.conditions["filesystem"] == "ext4")
    assert len(errors) > 30
    assert np.median(errors) < 0.01 and errors.max() < 0.06


def test_cfq_is_within_2_percent(rows):
    errors = errors_of(rows, lambda run: run.conditions["scheduler"] == "cfq")
    assert len(errors) == 14 and errors.max() < 0.02


def test_all_rows_are_within_3_percent_in_the_median(rows):
    errors = errors_of(rows, lambda run: True)
    assert len(errors) == 187 and np.median(errors) < 0.03


def test_eight_clients_share_commits_as_on_a_real_kernel():
    result = io.simulate(machine(), dbench(clients=8, runtime=3))
    assert result.throughput_MBs == pytest.approx(782.1, rel=0.05)


# ---------------------------------------------------------------------------------------------------------------------
# thread 1


@pytest.fixture(scope="module")
def outcomes():
    """All claims of the thread."""
    return {o.claim.id: o for o in reproduce("dbench")}


def test_80_and_200_MB_s_come_out_with_one_of_them_fitted(outcomes):
    assert outcomes["T1-002"].claim.role == "fitted"
    assert outcomes["T1-001"].claim.role == "predicted"
    assert outcomes["T1-001"].simulated == pytest.approx(80, rel=0.2)
    assert outcomes["T1-002"].simulated == pytest.approx(200, rel=0.01)


def test_every_claim_is_reproduced_or_explained(outcomes):
    assert len(outcomes) == len(claims("dbench"))
    for o in outcomes.values():
        if o.verdict != "reproduced":
            assert o.reason or o.claim.note, o.claim.id


def test_device_and_host_are_the_same_under_every_scheduler_and_patch():
    device = thread.machine().device
    for name, (kernel, changes, _) in thread.EXPERIMENTS.items():
        m, _ = thread.scenario(name)
        assert m.device == device and m.host == fitted_host(kernel, thread.MODERN_CORE)
        assert not [key for key in changes if key.startswith(("device", "host"))]


def test_weight_raising_hides_the_loss_at_first():
    course = thread.course()["bfq"]
    assert course[:4].min() > 0.9 * course[:4].max()
    assert course[8:].mean() < 0.4 * course[:4].mean()


def test_bfq_without_idling_loses_nothing():
    fast = io.simulate(machine(scheduler=BFQ(slice_idle=0)), dbench(runtime=3, cgroup="child")).throughput_MBs
    assert fast == pytest.approx(io.simulate(machine(), dbench(runtime=3)).throughput_MBs, rel=0.03)


def test_the_package_ships_the_load_and_the_rows():
    assert (ROOT / "data" / "dbench_flushes.csv").exists() and TABLE.exists()


def test_both_patches_cure_and_patch_2_without_a_live_test_does_not():
    frame = thread.ablation().set_index("rule")
    assert frame.MB_s["both patches"] == pytest.approx(200, rel=0.01)
    assert frame.MB_s["as in 5.6.4"] < 0.5 * frame.MB_s["both patches"]
    assert frame.MB_s["patch 2: short thinkers have wakers too"] < 0.5 * frame.MB_s["both patches"]
