"""Rows of processes that read one file together, `rrread_*`: the throughput of all of them.

`rrread_n8_bs128k_shfd_buf_dyn_think0_rate95MBs` (4.19): eight processes and pieces of 128 KiB, through one open file
(`ownfd`: each its own), buffered or direct; each takes the next piece (`static`: every eighth), sleeps `think` us after
it, and none begins before 95 MB/s allow; `owncgroup`: each in a cgroup of its own; `cloneio`: with one io_context.
`rrread_chunk32k_np8_win16_sharedfd_any_client330us` (6.1): a client that has 16 pieces asked for and takes 330 us for
each; any process serves the next (`rr`: every eighth).
"""

from __future__ import annotations

import re

from ..workloads import SharedReader, shared_reader

LOCAL = re.compile(
    r"rrread_n(\d+)_bs(\d+)k_(ownfd|shfd)_(direct|buf)_(static|dyn)_think(\d+)(_cloneio)?(_owncgroup)?(?:_rate(\d+)MBs)?"
)
SERVED = re.compile(r"rrread_chunk(\d+)k_np(\d+)_win(\d+)_(own|shared)fd_(rr|any)_client(\d+)us")
SHARED = ("bw_MBs", "throughput_MBs")  # the columns that have it
READ = 1536 * 131072  # bytes, where a row has no count of its own
SERVED_BYTES = 64 * 2**20  # from the rows' own MB/s and seconds
SLACK_US = 50  # by which Linux prolongs an ordinary process's sleep; the rows of 4.19 show none


def shared_jobs(row: dict[str, str]) -> list[SharedReader] | None:
    """The readers of a row, or None if it is about something else."""
    if match := LOCAL.fullmatch(row["workload"]):
        n, bs = int(match[1][:3]), int(match[2][:6]) * 1024
        pieces = float(row.get("ops_ops") or 0)
        options: dict[str, object] = {
            "order": "turns" if match[5] == "static" else "free",
            "own_files": match[3] == "ownfd",
            "direct": match[4] == "direct",
            "thinktime_us": float(match[6][:9]),
            "rate": float(match[9][:6]) * 1e6 if match[9] else None,
            "cgroups": tuple(f"g{k + 1}" for k in range(n)) if match[8] else (),
        }
        if match[7]:
            options |= {"io_context": "clone_io", "parent_context": True}
        return [shared_reader(bs, round(pieces * bs) or READ, threads=n, name="sequential", **options)]
    if match := SERVED.fullmatch(row["workload"]):
        client = float(match[6][:9])
        return [
            shared_reader(
                int(match[1][:6]) * 1024, SERVED_BYTES, threads=int(match[2][:3]), name="sequential",
                client=True, burst=1, ahead=int(match[3][:4]), slots=int(match[3][:4]), own_files=match[4] == "own",
                order="turns" if match[5] == "rr" else "free", client_us=client + SLACK_US if client else 0.0,
            )
        ]  # fmt: skip
    return None
