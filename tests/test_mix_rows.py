"""Real-kernel rows of a buffered writer beside a sequential reader on disks (`data/kernel/mix.csv`)."""

from __future__ import annotations

import csv
import itertools
from collections import defaultdict

import numpy as np
import pytest
from helpers import ROOT

from iosched.data import data_file
from iosched.host import Host
from iosched.measure.disk_rows import disk_of
from iosched.measure.kernel_rows import read_kernel_csv, scenario_of
from iosched.measure.writer_rows import FORTY, memory_of, writer_jobs
from iosched.simulation import simulate
from iosched.validate import validate_kernel

TABLE = data_file("kernel/mix.csv")
READER, WRITER = ("read", "rd"), ("write", "wr")
SOURCE = ROOT.parent / "shared" / "data" / "kernel" / "mix.csv"


@pytest.fixture(scope="module")
def rows():
    """(conditions, measured, simulated) of every row, in the table's order."""
    compared = validate_kernel(TABLE)
    assert compared.skipped == []
    runs, _ = read_kernel_csv(TABLE)
    return [(run.conditions, row["measured"], row["simulated"]) for run, row in zip(runs, compared.rows, strict=True)]


def errors(rows, roles=READER + WRITER) -> np.ndarray:
    """Absolute relative errors of the rows about these parties."""
    return np.array([abs(simulated / measured - 1) for row, measured, simulated in rows if row["role"] in roles])


def test_every_run_is_compared_its_reader_and_its_writer(rows):
    assert len(errors(rows, READER)) == len(errors(rows, WRITER)) == 62 + 6


def test_throughputs_are_off_by_at_most_15_percent_in_the_median(rows):
    assert np.median(errors(rows)) <= 0.15


def test_the_writers_are_off_by_at_most_7_percent_in_the_median_and_the_readers_by_25(rows):
    assert np.median(errors(rows, WRITER)) <= 0.07
    assert np.median(errors(rows, READER)) <= 0.25


def test_where_reads_and_pieces_of_the_cache_take_turns_the_median_read_takes_four_turns_of_the_platter():
    runs, _ = read_kernel_csv(TABLE)
    run = next(r for r in runs if r.run_id == "wbf2b_noop_w0" and r.conditions["role"] == "read")
    simulated = simulate(*scenario_of(run, Host())).latency_percentile(0, 50)
    assert simulated == pytest.approx(1e-6 * float(run.conditions["lat_p50_us"]), rel=0.02)


# ---------------------------------------------------------------------------------------------------------------------
# orderings: pairs of conditions that differ in one knob


def knobs(row) -> tuple:
    """What can be turned: scheduler, low_latency, WBT, the drive's cache and its policy, depth; and who is meant."""
    words = dict(w.split("=") for w in row["other_tunables"].split() if "=" in w)
    low_latency = row["low_latency"] if row["scheduler"] == "bfq" else ""
    wbt = words.get("wbt_set") or words.get("wbt_lat_usec") or ""
    cache = row["write_cache"] + words.get("hdd_destage", "")
    party = "reader" if row["role"] in READER else "writer"
    return row["device"], party, row["scheduler"], low_latency, wbt, cache, row["hw_queue_depth"]


def clear_orderings(rows, percentile: float) -> list[bool]:
    """Of each pair of conditions that differ in one knob and by more than their own repeats and so many percent of all
    repeats of that party do: is the same one ahead in the model?"""
    groups = defaultdict(list)
    for row, measured, simulated in rows:
        groups[knobs(row)].append((measured, simulated))
    spread = defaultdict(list)
    own = {}
    for key, found in groups.items():
        measured = [m for m, _ in found]
        own[key] = max(measured) / min(measured) - 1
        if len(measured) > 1:
            spread[key[1]].append(own[key])
    verdicts = []
    for pair in itertools.combinations(groups, 2):
        a, b = sorted(pair, key=lambda key: np.mean([m for m, _ in groups[key]]))
        if sum(x != y for x, y in zip(a, b, strict=True)) != 1 or a[1] != b[1]:
            continue
        gap = min(m for m, _ in groups[b]) / max(m for m, _ in groups[a]) - 1
        if gap > max(own[a], own[b], np.percentile(spread[a[1]], percentile)):
            verdicts.append(np.mean([s for _, s in groups[b]]) > np.mean([s for _, s in groups[a]]))
    return verdicts


def test_of_the_orderings_beyond_nine_in_ten_repeats_spread_19_of_20_come_out(rows):
    found = clear_orderings(rows, 90)
    assert len(found) > 80 and np.mean(found) >= 0.95


def test_of_the_orderings_beyond_three_in_four_repeats_spread_9_of_10_come_out(rows):
    found = clear_orderings(rows, 75)
    assert len(found) > 100 and np.mean(found) >= 0.9


def mean(rows, k: int, party: tuple[str, ...], run_id: str) -> float:
    """Mean over a run's repeats: measured (1) or simulated (2)."""
    return float(np.mean([row[k] for row in rows if row[0]["run_id"] == run_id and row[0]["role"] in party]))


@pytest.mark.parametrize("k", [1, 2])
def test_without_a_write_cache_throttling_gives_the_reader_ten_times_as_much_for_a_quarter_of_the_writers(rows, k):
    for scheduler in ("noop", "dl", "mqd", "none"):
        off, on = f"wb_hddwt_{scheduler}_w0", f"wb_hddwt_{scheduler}_w75000"
        assert mean(rows, k, READER, on) > 8 * mean(rows, k, READER, off)
        assert 0.7 < mean(rows, k, WRITER, on) / mean(rows, k, WRITER, off) < 0.9


@pytest.mark.parametrize("k", [1, 2])
def test_a_drive_that_destages_in_turns_leaves_no_scheduler_more_than_ten_megabytes_a_second_to_the_reader(rows, k):
    for scheduler in ("noop", "dl", "mqd", "cfq", "bfq0", "bfq1"):
        run = f"wbf2b_{scheduler}_w75000" if scheduler in ("dl", "cfq") else f"wbf2b_{scheduler}_w0"
        assert mean(rows, k, READER, run) < 10.5
    assert mean(rows, k, READER, "wbf2a_bfq1_w0") > 50  # where a piece of the cache is one command more


@pytest.mark.parametrize("k", [1, 2])
def test_cfq_and_bfq_share_the_disk_and_the_others_leave_it_to_the_writer(rows, k):
    for fair in ("cfq", "bfq0", "bfq1"):
        assert mean(rows, k, READER, f"wb_hddwt_{fair}_w0") > 20 * mean(rows, k, READER, "wb_hddwt_noop_w0")


# ---------------------------------------------------------------------------------------------------------------------
# the rows themselves


def row(**given) -> dict[str, str]:
    """A row with these conditions."""
    return {"kernel": "4.19.44", "device": "null+hdd_model", "other_tunables": "", "scheduler": "noop",
            "workload": "bufwrite+seqread", "repeat": "seed1", "batch": "f1"} | given  # fmt: skip


def test_a_repeats_jitter_delays_the_reader():
    reader, writer = writer_jobs(row(repeat="jitter3100us"))
    assert (reader.start, writer.start, writer.runtime) == (2.0031, 0.0, 15.0)
    assert writer_jobs(row())[0].start == 2.0


def test_forty_files_are_written_for_five_seconds_and_for_three_on_an_ssd():
    reader, writer = writer_jobs(row(workload=FORTY, device="simblk_x:mode=1"))
    assert (reader.rw, reader.runtime, writer.nrfiles, writer.runtime) == ("read", 5.0, 40, 5.0)
    ssd = row(workload=FORTY, device="simblk_x:mode=0;nserv=1")
    assert writer_jobs(ssd)[1].runtime == 3.0
    assert memory_of(ssd).size_mb > 4 * memory_of(row()).size_mb


def test_a_row_names_the_drives_policy():
    words = "hdd=2 hdd_wcache_kb=32768 hdd_destage={} hdd_ncq_age_ms=50"
    policies = [disk_of(row(other_tunables=words.format(k))).destage for k in (1, 2)]
    assert policies == ["equal", "turns"]


@pytest.mark.skipif(not SOURCE.is_file(), reason="the source of the table is not here")
def test_the_table_is_the_source_without_the_rows_of_other_tables():
    with SOURCE.open(newline="") as f:
        source = [r for r in csv.DictReader(f) if r["workload"] in ("bufwrite+seqread", FORTY)]
    with TABLE.open(newline="") as f:
        own = list(csv.DictReader(f))
    assert len(own) == 210 and len(source) == 228
    wanted = [{k: r[k] for k in own[0]} for r in source if r["device"] != "null_blk"]
    assert own == wanted
