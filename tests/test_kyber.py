"""kyber: percentiles and depths by hand, tokens, who gains, and what a real 5.10 and 6.1 took for a write."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iosched as io
from iosched.data import data_file
from iosched.engine import codes as c
from iosched.errors import ScenarioError
from iosched.programs import compile_scenario
from iosched.schedulers import kyber
from iosched.validate import validate_kernel
from iosched.workloads import dd, fio, random_reader, sequential_writer

MS = c.MSEC
ONE_SERVER = io.devices.sata(completion_us=100.0, bandwidth_MBs=100.0)
python = lambda f: getattr(f, "py_func", f)  # noqa: E731


def machine(**options) -> io.Machine:
    """One server of 100 us and 100 MB/s under kyber."""
    given = {"kernel": "6.1", "device": ONE_SERVER, "filesystem": "raw", "scheduler": "kyber", "wbt_lat_usec": 0,
             "memory": io.Memory(size_mb=2**16, dirty_background_bytes=2**20)}  # fmt: skip
    return io.Machine(**(given | options))


def depths(state) -> list[int]:
    """Depths of the two domains."""
    return [int(row.depth) for row in state.kyber_domains]


def mix(scheduler: object, seconds: float = 8.0):
    """A buffered writer that fills every queue, and a random reader beside it. 500 writes take longer than the second
    after which a histogram is looked at, so depths change once a second."""
    jobs = [sequential_writer(bs="1M", fdatasync=0, size="64G", runtime=seconds), random_reader(runtime=seconds)]
    return io.simulate(machine(scheduler=scheduler), jobs)


# ---------------------------------------------------------------------------------------------------------------------
# by hand (spec block-layer section 6)


@pytest.mark.parametrize(
    ("latencies_ms", "percent", "bucket"),
    [([0.4] * 500, 99, 0), ([0.6] * 500, 90, 1), ([0.4] * 450 + [9.0] * 50, 90, 0), ([0.4] * 449 + [9.0] * 51, 90, 7),
     ([2.0] * 500, 99, 3), ([2.1] * 500, 99, 4), ([0.4] * 499, 99, c.NONE)],
)  # fmt: skip
def test_a_percentile_is_a_quarter_of_the_target(latencies_ms, percent, bucket):
    s = compile_scenario(io.Scenario(machine(), dd(count=1)))
    for latency in latencies_ms:
        python(kyber.count)(s, 0, round(latency * MS), 2 * MS)
    assert python(kyber.percentile)(s, 0, percent) == bucket


def test_the_domains_begin_with_all_their_tokens():
    s = compile_scenario(io.Scenario(machine(), dd(count=1)))
    assert depths(s) == [256, 128]
    assert [int(row.batch) for row in s.kyber_domains] == [16, 8]
    assert [int(row.target) for row in s.kyber_domains] == [2 * MS, 10 * MS]


def test_what_is_not_sync_leaves_a_quarter_of_the_tags():
    """64 tags: the flusher has at most 48 requests."""
    job = sequential_writer(bs="1M", fdatasync=0, size="64G", runtime=1.0)
    result = io.simulate(machine(), job, trace=True)
    change = {c.TR_GET: 1, c.TR_COMPLETE: -1}
    assert np.cumsum([change[k] for k in result.trace["kind"] if k in change]).max() == 48


# ---------------------------------------------------------------------------------------------------------------------
# what it does


def test_a_missed_read_target_takes_depth_from_good_writes_and_never_from_bad_ones():
    """Writes with a target they meet give way, step by step, to one at a time; with one they miss they keep all."""
    assert depths(mix(io.Kyber(write_lat_nsec=10 * c.SEC)).state)[kyber.WRITES] == 1
    assert depths(mix(io.Kyber(write_lat_nsec=1 * MS)).state)[kyber.WRITES] == 128


def test_while_targets_are_met_nothing_changes():
    state = mix(io.Kyber(read_lat_nsec=c.SEC, write_lat_nsec=10 * c.SEC)).state
    assert depths(state) == [256, 128]


def test_the_reader_gains_against_no_scheduler():
    with_kyber, without = mix(io.Kyber(write_lat_nsec=10 * c.SEC)), mix("none")
    assert with_kyber.jobs.latency_p50_s[1] < without.jobs.latency_p50_s[1] / 4


@settings(max_examples=40, deadline=None)
@given(
    read=st.sampled_from([1000, 2_000_000, 10**9]),
    write=st.sampled_from([1000, 10_000_000, 10**9]),
    depth=st.integers(1, 40),
    filesystem=st.sampled_from(["raw", "ext4", "xfs"]),
    write_cache=st.booleans(),
)
def test_every_run_obeys_the_laws_and_gives_its_tokens_back(read, write, depth, filesystem, write_cache):
    jobs = [dd(bs=4096, count=20), fio("randwrite", direct=True, iodepth=8, ioengine="libaio", runtime=0.2),
            sequential_writer(bs="64k", fdatasync=0, runtime=0.2), random_reader(runtime=0.2)]  # fmt: skip
    device = io.devices.sata(queue_depth=depth, write_cache=write_cache)
    m = machine(scheduler=io.Kyber(read_lat_nsec=read, write_lat_nsec=write), device=device, filesystem=filesystem)
    s = io.simulate(m, jobs).state
    held = s.requests[
        (s.requests.state >= c.R_DISPATCHED) & (s.requests.state <= c.R_ISSUED) & (s.requests.elevator == 1)
    ]
    assert int(s.kyber_domains.used.sum()) == len(held)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: io.Machine(kernel="4.11", scheduler="kyber"), ("'kyber' does not exist in kernel 4.11",)),
        (lambda: io.Machine(kernel="4.19", scheduler="kyber"), ("kyber of kernel 4.19", "4.20 or later")),
        (lambda: io.Kyber(read_lat_nsec=0), ("read_lat_nsec: 0", "8 to")),
        (lambda: io.Kyber(read_lat_usec=2000), ("read_lat_usec", "read_lat_nsec")),
    ],
)
def test_what_a_kernel_could_not_be_given_is_refused_in_one_sentence(make, words):
    with pytest.raises(ScenarioError) as caught:
        make()
    text = str(caught.value)
    assert all(word in text for word in words) and "\n" not in text and text.endswith("."), text


def test_a_dsync_write_takes_what_a_real_kernel_measured():
    """One request at a time, so that nothing but kyber's CPU, which is not modelled, sets it apart from none."""
    keep = lambda run: run.conditions["scheduler"] in ("none", "kyber") and run.conditions["kernel"] >= "5"  # noqa: E731
    own = [row for row in validate_kernel(data_file("kernel/dd.csv"), keep=keep).rows if row["scheduler"] == "kyber"]
    errors = np.abs([row["error"] for row in own])
    assert len(errors) > 40 and np.median(errors) <= 0.03 and np.percentile(errors, 95) <= 0.12
