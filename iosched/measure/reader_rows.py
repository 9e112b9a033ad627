"""Rows about readers: a random reader (role tgt or rnd) beside sequential ones (int or seq); the mean latency of each.

`rand4kbuf_vs_4seqR_buf64k`: fio jobs of 4 KiB at random places, and four of 64 KiB in sequence, both through the page
cache, for 3 s (4 s on 4.19). `think_randread4k_t1000us_vs_1seqR`: the same with one sequential reader, and sleeps
between random reads; `think_read64k_...`: 64 KiB in sequence in their place. `seqgreedy_vs_8rand4096_think500`: a
program that reads 2 GiB once in O_DIRECT pieces of 128 KiB, beside eight with sleeps of 500 us; `seqgreedyx16` keeps
sixteen pieces in flight (and reads for 8 s), `_2cgroups` puts both into children of the root.
"""

from __future__ import annotations

import re

from ..workloads import Fio, fio
from .disk_rows import COPIED_MBs, words_of

MIX = re.compile(r"rand4k(buf|direct)_vs_(\d+)seqR_(buf|direct)64k")
THINK = re.compile(r"think_(randread4k|read64k)_t(\d+)us_vs_(\d+)seqR")
GREEDY = re.compile(r"seqgreedy(?:x(\d+))?_vs_(\d*)rand4096_think(\d+)(_2cgroups)?")
LATENCY_TARGET = re.compile(r"io\.latency=(\d+)us")
PLACES = {
    "nfs": "sequential",
    "rr": "sequential",
    "tgt": "random",
    "rnd": "random",
    "int": "sequential",
    "seq": "sequential",
}  # role -> name of its jobs


def reader_jobs(row: dict[str, str]) -> list[Fio] | None:
    """The fio jobs of a row, or None if it is about something else."""
    seconds = 4.0 if row["kernel"].startswith("4.19") else 3.0
    apart = row.get("same_cgroup_as_jbd2") == "tgt:tgt,int:int"
    random = {"rw": "randread", "bs": 4096, "name": "random", "cgroup": "tgt" if apart else "/"}
    sequential = {"rw": "read", "bs": 65536, "size": "4G", "name": "sequential", "cgroup": "int" if apart else "/"}
    if match := MIX.fullmatch(row["workload"]):
        random["direct"], sequential["direct"] = match[1] == "direct", match[3] == "direct"
        n = int(match[2][:3])
    elif match := THINK.fullmatch(row["workload"]):
        random["thinktime_us"] = float(match[2][:9])
        if match[1] == "read64k":
            random |= {"rw": "read", "bs": 65536, "direct": True}
        n = int(match[3][:3])
    elif match := GREEDY.fullmatch(row["workload"]):
        seconds, n = 8.0 if match[1] else 3.0, 1
        random |= {"direct": True, "thinktime_us": float(match[3][:9]), "numjobs": int(match[2][:3] or 1)}
        sequential |= {"direct": True, "bs": 131072, "size": "2G", "loops": 1}
        if match[1]:
            sequential |= {"ioengine": "libaio", "iodepth": int(match[1][:4])}
        if match[4]:
            random["cgroup"], sequential["cgroup"] = "tgt", "int"
    else:
        return None
    jobs = [fio(**random, size="4G", runtime=seconds)]  # type: ignore[arg-type]
    jobs += [fio(**sequential, numjobs=n, runtime=seconds)] if n else []  # type: ignore[arg-type]
    return jobs[::-1] if row["device"] == "null+hdd_model" else jobs  # where the sequential reader's file lies outside


def channels_of(row: dict[str, str]) -> dict[str, object] | None:
    """Servers and bandwidth of a device model without seeks; None for any other device."""
    if row["device"] == "null_blk":
        return {"servers": 1024, "bandwidth_MBs": COPIED_MBs}
    words = words_of(row["device"])
    if words.get("mode") == "0":
        return {"servers": int(words["nserv"]), "bandwidth_MBs": float(words["bw_mbps"])}
    if words.get("hdd") == "1" and words.get("hdd_rpm") == words.get("hdd_seek_max_us") == "0":
        return {"servers": 1, "bandwidth_MBs": float(words["hdd_kbps"]) / 1000}
    return None


def target_of(row: dict[str, str]) -> float | None:
    """io.latency's target of the random reader's cgroup in us; None without one."""
    match = LATENCY_TARGET.search(row.get("other_tunables", ""))
    return float(match[1]) or None if match else None
