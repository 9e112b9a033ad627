"""Real-kernel rows: how far off the simulator is, what the fit may see, and how tables are read."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from iosched.cli import main
from iosched.data import data_file
from iosched.devices import null
from iosched.errors import ScenarioError
from iosched.filesystems import Ext4
from iosched.measure.hostfit import fit_host, hosts_table
from iosched.measure.kernel_rows import read_kernel_csv, scenario_of
from iosched.queueing import closed_form
from iosched.scenario import Machine
from iosched.simulation import simulate
from iosched.validate import compare, validate_kernel
from iosched.workloads import dd

TABLE = data_file("kernel/dd.csv")
FOUR_UNDER_BFQ = ("four_f_bfq_ll0", "four_f_old_bfq_ll0", "four_f_bfq_ll1", "fourl_f_bfq_ll0", "fourl_f_bfq_ll1")
SCHEDULERS = ("noop", "none", "deadline", "mq-deadline", "cfq")


def in_419(run) -> bool:
    """The rows that the issue names: 4.19 on constant-time devices, without BFQ and kyber."""
    return run.conditions["kernel"] == "4.19.44" and run.conditions["scheduler"] in SCHEDULERS


@pytest.fixture(scope="module")
def comparison():
    """All 4.19 rows, simulated."""
    return validate_kernel(TABLE, keep=in_419)


def test_every_row_of_419_is_compared(comparison):
    runs, _ = read_kernel_csv(TABLE)
    assert len(comparison.rows) == sum(in_419(run) for run in runs) == 268
    assert comparison.skipped == []


def test_the_time_of_a_write_is_off_by_at_most_1_percent_in_the_median_and_5_at_the_95th_percentile(comparison):
    errors = comparison.errors()
    assert np.median(errors) <= 0.01
    assert np.percentile(errors, 95) <= 0.05


def test_cfq_alone_is_off_by_at_most_2_percent_in_the_median_and_5_at_the_95th_percentile(comparison):
    errors = np.array([abs(row["error"]) for row in comparison.rows if row["scheduler"] == "cfq"])
    assert len(errors) == 187
    assert np.median(errors) <= 0.02
    assert np.percentile(errors, 95) <= 0.05


def test_host_costs_are_fitted_on_rows_without_a_scheduler_only(comparison):
    fitted = {row["scheduler"] for row in comparison.rows if row["fitted"]}
    assert fitted == {"noop", "none"}
    runs, _ = read_kernel_csv(TABLE)
    own = [run for run in runs if in_419(run) and run.conditions["device"] == "null_blk"]
    without = [run for run in own if run.without_scheduler]
    assert fit_host(own) == fit_host(without)


def test_the_number_of_idles_a_write_is_the_measured_one():
    """Idles are read off the measured time against the same condition under noop, in units of the idle that applies."""
    runs, _ = read_kernel_csv(TABLE)
    checked = 0
    host = compare([run for run in runs if in_419(run) and run.without_scheduler]).hosts
    for run in runs:
        row = run.conditions
        if not in_419(run) or row["scheduler"] != "cfq" or row["filesystem"] != "ext4" or row["write_cache"] == "1":
            continue
        machine, jobs = scenario_of(run, host[run.machine_key][0])
        wait_us = float(row["slice_idle_us"]) or float(row["group_idle_us"])
        if wait_us < 1000:
            continue
        base = simulate(machine.with_(scheduler="noop"), jobs).time_per_op * 1e6
        measured = (run.time_per_write_us - base) / wait_us
        simulated = simulate(machine, jobs).idles_per_op
        assert round(simulated) == round(measured), run.run_id
        assert simulated == pytest.approx(measured, abs=0.06), run.run_id
        checked += 1
    assert checked > 100


def test_the_closed_form_is_within_3_percent_of_the_simulator_on_the_same_rows(comparison):
    runs, _ = read_kernel_csv(TABLE)
    simulated = {(row["run_id"], row["measured"]): row["simulated"] for row in comparison.rows}
    worst = 0.0
    for run in runs:
        if in_419(run):
            from iosched.measure.kernel_rows import host_of

            host = comparison.hosts[run.machine_key][0]
            machine, jobs = scenario_of(run, host_of(run.conditions, host))
            exact = float(closed_form(machine, jobs).time_per_op) * 1e6
            worst = max(worst, abs(exact / simulated[run.run_id, run.time_per_write_us] - 1))
    assert worst <= 0.03


def test_other_kernels_without_idling_are_predicted_within_a_few_percent():
    """mq-deadline of 5.1 to 6.1, one writer: hosts fitted on none."""
    keep = lambda run: (  # noqa: E731
        run.conditions["kernel"] in ("5.1.15", "5.2.1", "5.6.4", "5.10.218", "6.1.176")
        and run.conditions["scheduler"] in ("none", "mq-deadline")
        and "x4" not in run.conditions["workload"]
    )
    errors = validate_kernel(TABLE, keep=keep).errors()
    assert len(errors) > 150
    assert np.median(errors) <= 0.01 and np.percentile(errors, 95) <= 0.05


def test_the_shipped_hosts_are_what_the_shipped_rows_give():
    runs, _ = read_kernel_csv(TABLE)
    with data_file("hosts.csv").open(newline="") as f:
        shipped = list(csv.DictReader(f))
    made = hosts_table([run for run in runs if run.conditions["device"] == "null_blk"])
    assert [row["kernel"] for row in shipped] == [row["kernel"] for row in made]
    for a, b in zip(shipped, made, strict=True):
        for cost in ("request_us", "request_mq_us", "wakeup_us", "ext4_us"):
            assert float(a[cost]) == pytest.approx(float(b[cost]), abs=0.6), (a["kernel"], cost)


# ---------------------------------------------------------------------------------------------------------------------
# other tables

HEADER = (
    "run_id,kernel,device,completion_us,hw_queue_depth,rotational,write_cache,filesystem,scheduler,slice_idle_us,"
    "group_idle_us,low_latency,other_tunables,same_cgroup_as_jbd2,workload,role,repeat,time_per_write_us\n"
)


def rows(*lines: str) -> str:
    """A table from lines."""
    return HEADER + "\n".join(lines) + "\n"


def test_other_layouts_times_and_kernels_are_simulated(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text(
        rows(
            "n,4.14.1,null_blk,250,32,1,0,ext4,noop,,,,,no,dd_dsync_bs512_n200,,seed1,830",
            "deep,4.14.1,null_blk,250,32,1,0,ext4,cfq,3000,0,,,dd:x/y/z jbd2:x,dd_dsync_bs512_n200,,seed1,3810",
            "old,4.4.0,null_blk,100,32,1,0,ext4,cfq,8000,8000,,,no,dd_dsync_bs512_n200,,seed1,15500",
        )
    )
    result = validate_kernel(path)
    assert [row["run_id"] for row in result.rows] == ["n", "deep", "old"]
    assert result.errors().max() < 0.03
    assert "fitted" in result.hosts["4.14.1", "null_blk"][1] and "shipped" in result.hosts["4.4.0", "null_blk"][1]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a,4.19,floppy,100,32,1,0,ext4,noop,,,,,no,dd_dsync_bs512_n9,,,300", "device 'floppy'"),
        ("a,4.19,null_blk,100,32,1,0,ext4,elevator9,,,,,no,dd_dsync_bs512_n9,,,300", "scheduler 'elevator9'"),
        ("a,4.19,null_blk,100,32,1,0,zfs,noop,,,,,no,dd_dsync_bs512_n9,,,300", "filesystem 'zfs'"),
        ("a,4.19,null_blk,100,32,1,0,ext4,noop,,,,,no,fio_rand,,,300", "workload 'fio_rand'"),
        ("a,4.19,null_blk,100,32,1,0,ext4,noop,,,,turbo=9,no,dd_dsync_bs512_n9,,,300", "other_tunables 'turbo=9'"),
        ("a,4.19,null_blk,100,32,1,0,ext4,noop,,,,,sideways,dd_dsync_bs512_n9,,,300", "same_cgroup_as_jbd2"),
        ("a,2.6.18,null_blk,100,32,1,0,ext4,noop,,,,,no,dd_dsync_bs512_n9,,,300", "kernel"),
        ("a,5.10,null_blk,100,32,1,0,ext4,cfq,,,,,no,dd_dsync_bs512_n9,,,300", "cfq"),
        ("a,4.19,null_blk,soon,32,1,0,ext4,noop,,,,,no,dd_dsync_bs512_n9,,,300", "completion_us 'soon'"),
        ("a,4.19,null_blk,-5,32,1,0,ext4,noop,,,,,no,dd_dsync_bs512_n9,,,300", "completion_us"),
        ("a,4.19,null_blk,100,32,1,0,ext4,noop,,,,,no,dd_dsync_bs512_n9,,,", "time_per_write_us"),
        ("a,4.19,null_blk,100,nan,1,0,ext4,noop,,,,,no,dd_dsync_bs512_n9,,,300", "hw_queue_depth 'nan'"),
        ("a,4.19,null_blk,100,32,1,0,ext4,noop,,,,gips=0,no,dd_dsync_bs512_n9,,,300", "gips=0"),
        ("a,4.19,null_blk,100,32,1,0,ext4,noop,,,,,no,dd_dsync_bs512_n9,,,1e-320", "time_per_write_us"),
        ("a,4.19,null_blk,100,32,1,0,ext4,noop,,,,,dd:a//b jbd2:root,dd_dsync_bs512_n9,,,300", "a//b"),
        ("a,4.19,null_blk,100,32,maybe,0,ext4,noop,,,,,no,dd_dsync_bs512_n9,,,300", "rotational 'maybe'"),
    ],
)
def test_unknown_conditions_are_skipped_with_the_reason(tmp_path, line, reason, capsys):
    path = tmp_path / "odd.csv"
    path.write_text(rows(line))
    assert main(["validate", "kernel", str(path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["compared"] == 0 and answer["median"] is None
    (skipped,) = answer["skipped"]
    assert skipped["run_id"] == "a" and reason in skipped["reason"]


def test_the_json_has_the_promised_shape(tmp_path, capsys):
    path = tmp_path / "two.csv"
    path.write_text(
        rows(
            "x,4.19.44,null_blk,100,32,1,0,ext4,noop,,,,,no,dd_dsync_bs512_n200,,seed1,380.4",
            "y,4.19.44,null_blk,100,32,1,0,ext4,cfq,8000,8000,,,no,dd_dsync_bs512_n200,,seed1,8371",
        )
    )
    assert main(["validate", "kernel", str(path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {"compared", "skipped", "median", "p90", "p95", "worst"}
    assert answer["compared"] == 2 and 0 <= answer["median"] <= answer["p90"] <= answer["p95"] < 0.02
    assert {tuple(w) for w in answer["worst"]} == {("run_id", "role", "metric", "measured", "simulated", "error")}
    assert abs(answer["worst"][0]["error"]) >= abs(answer["worst"][1]["error"])


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "run_id;kernel\n"])
def test_a_file_that_is_no_such_table_is_refused_in_one_sentence(tmp_path, text, capsys):
    path = tmp_path / "no.csv"
    path.write_text(text)
    assert main(["validate", "kernel", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "lacks the column" in error


def test_a_missing_file_is_refused(capsys):
    assert main(["validate", "kernel", "nowhere.csv"]) == 2
    assert "nowhere.csv" in capsys.readouterr().err


def test_a_table_without_usable_rows_cannot_be_fitted():
    with pytest.raises(ScenarioError, match="no noop or none row"):
        fit_host([])


def test_a_commit_waits_for_the_data_of_every_writer_with_new_blocks_in_it():
    machine = Machine(kernel="5.1", device=null(completion_us=100), filesystem=Ext4(), scheduler="bfq",
                      cgroups=["a", "b", "c", "d"])  # fmt: skip
    writers = [dd(bs=8192, count=20, oflag="dsync", cgroup=g) for g in "abcd"]
    events = simulate(machine, writers, trace=True).events
    own = events[events.task == "jbd2"]
    logs = own[(own.event == "D") & (own.sectors > 8)].time_s
    commits = own[(own.event == "D") & (own.sectors == 8)].time_s
    data = events[events.task.str.startswith("dd")].drop_duplicates(["request", "event"])
    queued, done = (data[data.event == e].set_index("request").time_s for e in "GC")
    late = 0
    for log, commit in zip(logs, commits, strict=True):
        under_way = [r for r in queued.index if queued[r] < log <= done[r]]
        assert all(done[r] <= commit for r in under_way)
        late += len(under_way)
    assert late > 20  # BFQ's idling lets them wait for each other


def test_four_writers_in_four_cgroups_of_a_real_5_1_take_as_long_under_bfq():
    compared = validate_kernel(
        TABLE, keep=lambda run: run.run_id in FOUR_UNDER_BFQ and run.conditions["kernel"] == "5.1.15"
    )
    assert len(compared.rows) == 4 * len(FOUR_UNDER_BFQ)
    assert compared.errors().max() < 0.15 and np.median(compared.errors()) < 0.03
