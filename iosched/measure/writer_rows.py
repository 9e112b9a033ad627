"""Rows about buffered writers beside a reader: MB/s of each (role tgt or read, int or write).

`rand4kbuf_vs_2seqW_buf64k` (6.1, the raw device, 3 s): a random reader of 4 KiB through the page cache and two fio jobs
that write 64 KiB in sequence, with the dirty limits that `other_tunables` gives. `bufwrite+seqread` (4.19, ext4): a
program that writes 1 MiB at a time into one file for 8, 10 or 15 s; two seconds later (and the `jitter` of a repeat)
another reads 700 MiB, 128 KiB at a time, or until the first is over. `t3_seqread_vs_bufwrite40files_ext4` (6.1): fio's
sequential reader of 64 KiB, and a writer of 64 KiB in turns over 40 files, for 5 s, on an SSD for 3 s.
"""

from __future__ import annotations

import re

from ..memory import Memory
from ..workloads import Fio, fio

WRITERS = re.compile(r"rand4kbuf_vs_(\d+)seqW_buf64k")
MIXED = "bufwrite+seqread"
FORTY = "t3_seqread_vs_bufwrite40files_ext4"
JITTER = re.compile(r"jitter(\d+)us")
SECONDS = {"f1": 15, "f2": 10, "f3": 8}  # of a batch
LIMITS = re.compile(r"dirty_bytes=(\S+)|background=(\S+)")
WBT = re.compile(r"wbt_(?:lat_usec|set)=(\d+)")
WORDS = re.compile(rf"{LIMITS.pattern}|{WBT.pattern}")  # of other_tunables that are about writeback
ROLES = {
    "tgt": "random",
    "read": "reader",
    "rd": "reader",
    "int": "writer",
    "write": "writer",
    "wr": "writer",
}  # role -> name of its jobs
SCATTERED_KB = 672  # largest request of scattered pages: 168 segments; those rows write 666 KiB a request on average
GUEST_MB = 565  # 4.19's guest: four writers that hardly got the device had 113 MiB dirty, which is 20 % of so much
FORTY_DIRTY_US = 8.6  # CPU of a page on 6.1's ext4: the median write of 64 KiB of these rows took 138 us
LARGE_GUEST_MB = 2800  # the guest of the 40 files: it wrote 290 MB before its flusher began, 10 % of so much


def writer_jobs(row: dict[str, str]) -> list[Fio] | None:
    """The jobs of a row, or None if it is about something else."""
    apart = row.get("same_cgroup_as_jbd2") == "tgt:tgt,int:int"
    if match := WRITERS.fullmatch(row["workload"]):
        return [
            fio("randread", 4096, "4G", runtime=3, name="random", cgroup="tgt" if apart else "/"),
            fio("write", 65536, "4G", runtime=3, name="writer", cgroup="int" if apart else "/", fdatasync=0,
                numjobs=int(match[1][:2]) or 1),
        ]  # fmt: skip
    if row["workload"] == MIXED:
        seconds = SECONDS.get(row.get("batch", "")[:2], 8)
        jitter = JITTER.fullmatch(row.get("repeat", ""))
        start = 2 + 1e-6 * int(jitter[1][:9] if jitter else 0)
        return [
            fio("read", 131072, "700M", runtime=seconds - 2, loops=1, start=start, name="reader"),
            fio("write", 2**20, "1300M", runtime=seconds, name="writer", fdatasync=0),
        ]
    if row["workload"] == FORTY:
        seconds = 3.0 if "mode=0" in row["device"] else 5.0
        return [
            fio("read", 65536, "1G", runtime=seconds, name="reader"),
            fio("write", 65536, "4000M", nrfiles=40, runtime=seconds, name="writer", fdatasync=0),
        ]
    return None


def memory_of(row: dict[str, str]) -> Memory:
    """The dirty limits: those that the row gives, else those of 4.19's guest."""
    limits = [match.groups() for match in LIMITS.finditer(row.get("other_tunables", ""))]
    given = {name: int(float(value)) for pair in limits for name, value in
             zip(("dirty_bytes", "dirty_background_bytes"), pair, strict=True) if value}  # fmt: skip
    return Memory(**given) if given else Memory(size_mb=LARGE_GUEST_MB if row["workload"] == FORTY else GUEST_MB)


def wbt_of(row: dict[str, str]) -> float | None:
    """What was written into queue/wbt_lat_usec; None if nothing was."""
    match = WBT.search(row.get("other_tunables", ""))
    return float(match[1]) if match else None


def largest_kb(row: dict[str, str]) -> int:
    """max_sectors_kb, or what the segments of scattered pages allow."""
    return SCATTERED_KB if WRITERS.fullmatch(row["workload"]) else 1280


def read_ahead_kb(row: dict[str, str]) -> int:
    """queue/read_ahead_kb; fio's advice doubles it, the program of the mixed rows gives none."""
    return 64 if row["workload"] == MIXED else 128
