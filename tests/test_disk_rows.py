"""Real-kernel rows on disks (`data/kernel/disks.csv`): how far off the simulator is, and what a disk makes of a mix."""

from __future__ import annotations

import numpy as np
import pytest

from iosched.data import data_file
from iosched.measure.disk_rows import disk_of
from iosched.validate import validate_kernel

TABLE = data_file("kernel/disks.csv")
ROW = {"other_tunables": "", "scheduler": "noop", "workload": "dd_dsync_bs512_n9"}


def has_two_states(row) -> bool:
    """Sixteen pieces in flight into a device of depth 1 under CFQ: two states, of which the model knows one."""
    return row["scheduler"] == "cfq" and row["run_id"].startswith(("t3q_", "t3q0_")) and "_qd1_" in row["run_id"]


@pytest.fixture(scope="module")
def comparison():
    """Every row, simulated."""
    return validate_kernel(TABLE)


def errors(rows) -> np.ndarray:
    """Absolute relative errors."""
    return np.array([abs(row["error"]) for row in rows])


def test_every_row_is_compared_and_none_sets_a_host_cost(comparison):
    assert len(comparison.rows) > 280 and comparison.skipped == []
    assert not any(row["fitted"] for row in comparison.rows)


def test_the_time_of_a_dsync_write_is_off_by_at_most_2_percent_in_the_median_and_7_at_the_95th_percentile(comparison):
    found = errors(row for row in comparison.rows if row["metric"] == "time_per_write_us")
    assert len(found) == 48
    assert np.median(found) <= 0.02 and np.percentile(found, 95) <= 0.07


def test_readers_on_419_without_bfq_are_off_by_at_most_2_percent_in_the_median_and_7_at_the_95th_percentile(comparison):
    found = errors(
        row
        for row in comparison.rows
        if row["metric"] == "lat_mean_us"
        and row["kernel"] == "4.19.44"
        and row["scheduler"] != "bfq"
        and not row["run_id"].endswith("_sn16")
    )
    assert len(found) > 150
    assert np.median(found) <= 0.02 and np.percentile(found, 95) <= 0.07


def test_all_rows_together_are_off_by_at_most_3_percent_in_the_median(comparison):
    assert np.median(comparison.errors()) <= 0.03


def test_the_nearest_first_disk_starves_a_random_reader_and_bfq_serves_it():
    found = validate_kernel(
        TABLE,
        keep=lambda run: (
            run.conditions["device"].startswith("simblk_hdd:")
            and run.conditions["workload"] == "rand4kbuf_vs_4seqR_buf64k"
            and run.conditions["role"] == "tgt"
        ),
    ).rows
    for what in ("measured", "simulated"):
        under_bfq = max(row[what] for row in found if row["scheduler"] == "bfq")
        under_deadline = min(row[what] for row in found if row["scheduler"] == "mq-deadline")
        assert under_deadline > 30 * under_bfq, what


def test_sixteen_pieces_at_depth_1_under_cfq_have_two_states_and_the_model_knows_one(comparison):
    """Real kernels mostly show 48 ms of the random reader, and in single repeats of the same run the model's 146."""
    rows = [row for row in comparison.rows if has_two_states(row)]
    slow = [row for row in rows if row["measured"] > 120_000]
    assert slow and errors(slow).max() < 0.05
    assert np.median(errors(rows)) > 0.5


def test_sixteen_pieces_in_flight_are_off_by_at_most_2_percent_in_the_median_and_12_at_the_90th_percentile(comparison):
    found = errors(row for row in comparison.rows if row["run_id"].endswith("_sn16") and not has_two_states(row))
    assert len(found) > 60
    assert np.median(found) <= 0.02 and np.percentile(found, 90) <= 0.12


def test_two_groups_under_cfq_share_a_disk_as_measured(comparison):
    found = [row for row in comparison.rows if row["run_id"].startswith("t3g_cfq")]
    assert len(found) == 12
    assert np.median(errors(found)) <= 0.05 and errors(found).max() <= 0.15


def test_a_row_names_its_disk():
    model = disk_of({**ROW, "device": "null+hdd_model", "other_tunables": "hdd=2 hdd_rpm=5400 hdd_wcache_kb=16384 mq"})
    assert (model.rpm, model.cache_kb, model.write_cache, model.write_grace_us) == (5400, 16384, True, 20)
    text = "simblk_x:mode=1;bw_mbps=110;seek_min_us=900;seek_max_us=14000;rpm=7200;ncq=0;wc_ns=50000;cache_kb=16384"
    drawn = disk_of({**ROW, "device": text})
    assert (drawn.zones_MBs, drawn.ncq_choice, drawn.ack_us, drawn.write_cache) == ((110.0,), "order", 50, True)
    assert (drawn.seek_settle_ms, drawn.seek_root_ms) == (0.9, 13.1)
    assert disk_of({**ROW, "device": "null_blk"}) is None


def test_a_disk_with_broken_parameters_is_skipped_with_the_reason(tmp_path):
    path = tmp_path / "broken.csv"
    header = "run_id,kernel,device,completion_us,filesystem,scheduler,workload,other_tunables,time_per_write_us\n"
    lines = [
        "a,6.1,simblk_x:mode=1;rpm=fast,200,ext4,none,dd_dsync_bs512_n9,,9000",
        "b,4.19,null+hdd_model,,ext4,noop,dd_dsync_bs512_n9,hdd_wcache_kb=9000 hdd_destage=7,9000",
    ]
    path.write_text(header + "\n".join(lines) + "\n")
    reasons = [row["reason"] for row in validate_kernel(path).skipped]
    assert len(reasons) == 2 and all("incomplete or no numbers" in reason for reason in reasons)
