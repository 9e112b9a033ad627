"""Where buffered writers compute for long, tasks share the processors as under CFS."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers import python

import iosched as io
from iosched.workloads import sequential_reader, sequential_writer

COSTS = ("request_us", "request_mq_us", "wakeup_us", "ext4_us", "xfs_us", "raw_us", "read_us", "copy_us", "ahead_us",
         "dirty_us", "clean_us", "written_us")  # fmt: skip
ROOMY = io.Memory(size_mb=2**20)  # nobody is held, and nothing is written back
RATE = 16 * 4096 / 15 / 5e-6  # bytes/s at 5 us a page; the first of 16 is the system call's own
FREE = replace(io.Host(), **dict.fromkeys(COSTS, 0.0))


def machine(host: io.Host, **options) -> io.Machine:
    """A fast device under none, with memory for any writer."""
    given = {"kernel": "6.1", "device": io.devices.nvme(), "filesystem": "raw", "scheduler": "none",
             "memory": ROOMY, "wbt_lat_usec": 0}  # fmt: skip
    return io.Machine(host=host, **(given | options))


def writers(n: int) -> list:
    """Buffered writers of 64 KiB for a second."""
    return [sequential_writer(bs="64k", fdatasync=0, size="8G", runtime=1.0, name=f"writer {i}") for i in range(n)]


@pytest.mark.parametrize(("cpus", "tasks"), [(1, 1), (1, 2), (1, 5), (2, 2), (2, 3), (4, 3)])
def test_writers_use_all_processors_and_share_them_equally(cpus, tasks):
    result = io.simulate(machine(replace(FREE, dirty_us=5.0, cpus=cpus)), writers(tasks))
    rates = result.jobs.bytes_per_s.to_numpy()
    busy = min(cpus, tasks)
    assert rates.sum() == pytest.approx(busy * RATE, rel=0.02)
    assert rates == pytest.approx([rates.mean()] * tasks, rel=0.03)


@pytest.mark.parametrize("n", [1, 3])
def test_a_reader_that_computes_all_the_time_gets_its_part_of_the_processor(n):
    host = replace(FREE, dirty_us=5.0, ahead_us=20.0)
    reader = sequential_reader(bs="128k", size="64G", runtime=1.0)
    result = io.simulate(machine(host), [reader, *writers(n)])
    rates = result.jobs.bytes_per_s.to_numpy()
    assert rates[0] == pytest.approx(4096 / 20e-6 / (n + 1), rel=0.08)
    assert rates[1:] == pytest.approx([RATE / (n + 1)] * n, rel=0.08)


def test_a_reader_that_sleeps_most_of_the_time_is_not_slowed_by_a_writer_that_never_does():
    """It is behind in virtual time, so that it takes the processor when it wakes up."""
    device = io.devices.sata(completion_us=2000.0)
    host = replace(FREE, dirty_us=5.0, read_us=20.0)
    reader = io.workloads.random_reader(direct=True, runtime=1.0)
    alone = io.simulate(machine(host, device=device), [reader]).jobs.operations.iloc[0]
    beside = io.simulate(machine(host, device=device), [reader, *writers(1)]).jobs.operations.iloc[0]
    assert beside > 0.95 * alone


def test_a_writers_bursts_make_a_reader_late_for_the_disks_arm():
    """With a processor of its own the reader always asks in time, and the arm stays with it until a write is aged."""
    rates = []
    for cpus in (1, 4):
        desk = io.Machine(kernel="4.19", device=io.devices.hdd_model(), scheduler="none", wbt_lat_usec=75_000,
                          host=io.Host(cpus=cpus, hz=1000), memory=io.Memory(size_mb=600))  # fmt: skip
        reader = sequential_reader(bs="128k", size="2G", runtime=8.0, start=2.0)
        writer = sequential_writer(bs="1M", fdatasync=0, size="4G", runtime=10.0)
        rates.append(io.simulate(desk, [reader, writer]).jobs.bytes_per_s.iloc[0])
    assert rates[1] > 1.4 * rates[0]


def test_a_run_with_a_writer_is_the_same_with_and_without_the_compiler():
    code = """
import hashlib
import iosched as io
m = io.Machine(kernel="4.19", device=io.devices.hdd_model(write_cache=True, destage="turns"), scheduler="bfq",
               host=io.Host(cpus=2), memory=io.Memory(dirty_background_bytes=2**22, dirty_bytes=2**23))
jobs = [io.workloads.fio("read", "128k", "64M", runtime=0.4), io.workloads.fio("write", "64k", "64M", runtime=0.4)]
r = io.simulate(m, jobs, trace=True)
print(len(r.trace), hashlib.sha256(r.trace.tobytes()).hexdigest())
"""
    plain = python(code, NUMBA_DISABLE_JIT="1")
    assert int(plain.split()[0]) > 300
    assert plain == python(code)
