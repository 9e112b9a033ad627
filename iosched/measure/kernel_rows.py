"""Tables of real-kernel runs: one CSV row is one run, its conditions first, then one column a metric.

The columns are those of `data/kernel/*.csv` (see `data/README.md` for how the runs were made). A row becomes a machine
and its jobs, or a reason why it cannot be simulated.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ..cgroups import Cgroup, Cgroups
from ..devices import Channels, ConstantTime
from ..errors import ScenarioError
from ..filesystems import XFS, Ext4, Raw
from ..host import Host
from ..kernels import Kernel
from ..scenario import Machine
from ..schedulers import SCHEDULERS, with_tunables
from ..workloads import Job, dbench, dd
from .disk_rows import TUNABLE, disk_of
from .reader_rows import LATENCY_TARGET, channels_of, reader_jobs, target_of
from .shared_rows import SHARED, shared_jobs
from .writer_rows import FORTY, FORTY_DIRTY_US, WORDS, largest_kb, memory_of, read_ahead_kb, wbt_of, writer_jobs

REQUIRED = ("kernel", "device", "completion_us", "scheduler", "filesystem", "workload")
METRICS = ("time_per_write_us", "throughput_MBs", "read_clat_mean_us", "lat_mean_us",
           "read_bw_MBs", "write_bw_MBs", "bw_MBs")  # of dd, dbench, readers, and writers beside a reader  # fmt: skip
NEUTRAL_WORDS = (
    "qmode=1",
    "qmode=2",
    "legacy",
    "mq",
    "cg=v1",
    "cg=v2",
    "wbt_set=0",
)  # said by other columns, or without effect here
WORKLOAD = re.compile(r"(?:dd|dsyncw)_(?:dsync_)?bs(\d+)_n(\d+)")
FOUR = re.compile(r"dsyncw_x4_bs(\d+)_n(\d+)_(1fs|4part)")
DBENCH = re.compile(r"dbench(?:4_)?(\d+)(?:clients?)?_t(\d+)")
SECOND = re.compile(r"t\d+")
QUANTUM = re.compile(r"quantum=(\d+)")
KNOWN_WORDS = (LATENCY_TARGET, TUNABLE, QUANTUM, WORDS)
LAYOUT = re.compile(r"dd:(\S+) jbd2:(\S+)")
REPEAT_SPEED = {"icount_shift1": 0.5, "icount_shift2": 0.25}


@dataclass(frozen=True)
class KernelRun:
    """One row: who it is, what was measured (`metric`: time_per_write_us, dbench's throughput_MBs in 10^6 bytes a
    second, or a reader's mean latency), and the conditions as the CSV has them."""

    run_id: str
    conditions: dict[str, str]
    measured: float
    metric: str = METRICS[0]

    @property
    def time_per_write_us(self) -> float:
        """The measured time of a write; NaN for anything else."""
        return self.measured if self.metric == METRICS[0] else float("nan")

    @property
    def machine_key(self) -> tuple[str, str]:
        """(kernel, device): rows that share their host costs."""
        return self.conditions["kernel"], self.conditions["device"]

    @property
    def without_scheduler(self) -> bool:
        """Is it a row that the host costs may be fitted on?"""
        return self.conditions["scheduler"] in ("noop", "none")

    @property
    def on_disk(self) -> bool:
        """Had the device positions?"""
        try:
            return disk_of(self.conditions) is not None
        except (KeyError, ValueError):
            return True

    @property
    def never_idles(self) -> bool:
        """Is it a row that dbench's CPU may be fitted on?"""
        return self.conditions["scheduler"] in ("noop", "none", "deadline", "mq-deadline")


class Unmodelled(Exception):
    """A condition that this version cannot simulate; the text is the reason."""


def read_kernel_csv(path: str | Path) -> tuple[list[KernelRun], list[dict[str, str]]]:
    """(runs, skipped rows with the reason) of a CSV file with the time of dd's writes or dbench's throughput.

    Rows of role `disk` and `window` are counters of the same run, those of role `t1`, `t2`, ... its seconds, and no
    runs of their own. Raises ScenarioError for a file that is not such a table.
    """
    path = Path(path)
    if not path.is_file():
        raise ScenarioError(f"FILE: {str(path)!r} is not a file; give a CSV table of kernel runs.")
    try:
        with path.open(newline="", encoding="utf-8-sig") as f:
            reader = csv.DictReader(f)
            header = reader.fieldnames or []
            rows = list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ScenarioError(f"FILE: {path.name!r} is not a CSV table ({error}).") from None
    missing = [name for name in REQUIRED if name not in header]
    if missing:
        raise ScenarioError(f"FILE: {path.name!r} lacks the column {missing[0]!r}; needed are {', '.join(REQUIRED)}.")
    metrics = [name for name in METRICS if name in header]
    if not metrics:
        raise ScenarioError(
            f"FILE: {path.name!r} lacks the column {METRICS[0]!r} (or {METRICS[1]!r} of dbench); needed are "
            f"{', '.join((*REQUIRED, METRICS[0]))}."
        )
    runs, skipped = [], []
    for number, row in enumerate(rows, start=2):
        row = {k: (v or "").strip() for k, v in row.items() if isinstance(k, str) and not isinstance(v, list)}
        run_id = row.get("run_id") or f"line {number}"
        if row.get("role") in ("disk", "window") or SECOND.fullmatch(row.get("role") or ""):
            continue
        together = [name for name in SHARED if shared_jobs(row) and row.get(name)]  # of such the throughput counts
        metric = next((name for name in (*together, *metrics) if row.get(name)), metrics[0])
        try:
            measured = float(row[metric])
            if not 1e-3 < measured < 1e12:
                raise ValueError
        except ValueError:
            skipped.append({"run_id": run_id, "reason": f"{metric} is {row[metric]!r}, not a {metric.split('_')[0]}"})
            continue
        runs.append(KernelRun(run_id, row, measured, metric))
    return runs, skipped


def scenario_of(run: KernelRun, host: Host) -> tuple[Machine, list[Job]]:
    """The machine and the jobs of a row. Raises Unmodelled with the reason if a condition is not known here."""
    row = run.conditions
    try:
        kernel = Kernel(row["kernel"])
        placement, jobs = workload_of(row)
        machine = Machine(
            kernel=row["kernel"],
            device=device_of(row, kernel),
            filesystem=filesystem_of(row, placement, kernel),
            scheduler=scheduler_of(row, kernel),
            host=host,
            cgroups=cgroups_of(
                row, {g for job in jobs for g in (job.cgroup, *getattr(job, "cgroups", ()))} | {placement}
            ),
            **writeback_of(row, kernel),
        )
    except ScenarioError as error:
        raise Unmodelled(str(error)) from None
    return machine, jobs


def writeback_of(row: dict[str, str], kernel: Kernel) -> dict[str, object]:
    """Dirty limits and writeback throttling of a row with buffered writers; nothing for any other."""
    if writer_jobs(row) is None:
        return {}
    return {"memory": memory_of(row), "wbt_lat_usec": wbt_of(row)}


def host_of(row: dict[str, str], host: Host) -> Host:
    """The host at this row's speed and tick: gips=N in other_tunables, icount shifts in repeat, HZ by kernel."""
    speed = REPEAT_SPEED.get(row.get("repeat", ""), 1.0)
    for word in row.get("other_tunables", "").split():
        if word.startswith("gips="):
            speed = _number(word[5:], "other_tunables gips")
        elif word not in NEUTRAL_WORDS and not any(known.fullmatch(word) for known in KNOWN_WORDS):
            raise Unmodelled(f"other_tunables {word!r} is not modelled")
    if not 1e-3 <= speed <= 1e3:
        raise Unmodelled(f"other_tunables gips={speed:g} is not a speed from 0.001 to 1000")
    hz = 1000 if row["kernel"].startswith("4.19") or "hz1000" in row["kernel"] else 250
    if row["workload"] == FORTY:
        host = replace(host, dirty_us=FORTY_DIRTY_US)
    return replace(host, speed=host.speed * speed, hz=hz, cpus=1)


def cgroups_of(row: dict[str, str], paths: set[str]) -> Cgroups:
    """The groups, with the random reader's io.latency target."""
    target = target_of(row)
    return Cgroups([Cgroup(p, io_latency_us=target if p == "tgt" else None) for p in sorted(paths)])


def device_of(row: dict[str, str], kernel: Kernel) -> ConstantTime:
    """Disks, and devices without seeks; null_blk of 4.19 was measured to send a second flush instead of a FUA write."""
    try:
        disk = disk_of(row)
    except (KeyError, ValueError) as error:
        raise Unmodelled(f"device {row['device']!r}: its parameters are incomplete or no numbers ({error})") from None
    if disk is not None:
        return replace(
            disk,
            queue_depth=int(_number(row.get("hw_queue_depth") or "32", "hw_queue_depth")),
            rotational=bool(_flag(row, "rotational", 1)),
            read_ahead_kb=read_ahead_kb(row),
        )
    reads = any(jobs(row) is not None for jobs in (reader_jobs, writer_jobs, shared_jobs))
    channels = channels_of(row) if reads else None
    if channels is None and (reads or row["device"] not in ("null_blk", "scsi_debug")):
        raise Unmodelled(f"device {row['device'].partition(':')[0]!r} is not known")
    write_cache = _flag(row, "write_cache", 0)
    if row["device"] == "scsi_debug" and write_cache:
        raise Unmodelled("scsi_debug's flush takes 48 ms whatever is asked; avoid it with a write cache")
    return (Channels if reads else ConstantTime)(
        **(channels or {}),
        completion_us=_number(row["completion_us"], "completion_us"),
        queue_depth=int(_number(row.get("hw_queue_depth") or "32", "hw_queue_depth")),
        rotational=bool(_flag(row, "rotational", 1)),
        write_cache=bool(write_cache),
        tells_depth=row["device"] == "scsi_debug",
        fua=kernel >= "5.0",
        max_sectors_kb=largest_kb(row),
        read_ahead_kb=read_ahead_kb(row),
    )


def filesystem_of(row: dict[str, str], jbd2_cgroup: str, kernel: Kernel) -> Ext4 | XFS | Raw:
    """ext4, xfs or raw."""
    if row["filesystem"] == "ext4" and row["scheduler"] == "bfq":
        # the first writes of every BFQ run show a scheduler that has not met jbd2 yet, and count the reads before them
        return Ext4(jbd2_cgroup=jbd2_cgroup, quiet_before=None, creation_reads=3 if kernel < "5.10" else 5)
    if row["filesystem"] == "ext4":
        return Ext4(jbd2_cgroup=jbd2_cgroup)
    if row["filesystem"] == "xfs":
        return XFS(worker_cgroup=jbd2_cgroup)
    if row["filesystem"] == "raw":
        return Raw()
    raise Unmodelled(f"filesystem {row['filesystem']!r} is not modelled")


def scheduler_of(row: dict[str, str], kernel: Kernel) -> object:
    """The scheduler with the tunables that its columns give."""
    name = row["scheduler"]
    if name not in SCHEDULERS:
        raise Unmodelled(f"scheduler {name!r} is not modelled")
    known = SCHEDULERS[name][0].__dataclass_fields__
    tunables: dict[str, object] = {}
    for column in ("slice_idle_us", "group_idle_us", "low_latency"):
        if row.get(column, "") != "" and column in known:
            tunables[column] = _number(row[column], column)
    quantum = QUANTUM.search(row.get("other_tunables", ""))
    if quantum and "quantum" in known:
        tunables["quantum"] = _whole(quantum[1])
    if "low_latency" in tunables:
        tunables["low_latency"] = bool(tunables["low_latency"])
    return with_tunables(name, kernel, tunables)


def workload_of(row: dict[str, str]) -> tuple[str, list[Job]]:
    """(cgroup of jbd2, jobs)."""
    readers = reader_jobs(row) or writer_jobs(row) or shared_jobs(row)
    if readers is not None:
        return "/", list(readers)
    layout = row.get("same_cgroup_as_jbd2", "yes")
    match = FOUR.fullmatch(row["workload"])
    if match:
        if layout not in ("4 children", "yes"):
            raise Unmodelled(f"same_cgroup_as_jbd2 {layout!r} is not modelled for four writers")
        parts = range(4) if match[3] == "4part" else [0] * 4
        groups = [f"g{i + 1}" if layout == "4 children" else "/" for i in range(4)]
        sizes = {"bs": _whole(match[1]), "count": _whole(match[2])}
        return "/", [dd(**sizes, cgroup=g, partition=p) for g, p in zip(groups, parts, strict=True)]
    match = WORKLOAD.fullmatch(row["workload"])
    run = DBENCH.fullmatch(row["workload"])
    if not match and not run:
        raise Unmodelled(f"workload {row['workload']!r} is not modelled")
    if layout in ("yes", "no", ""):
        writer, jbd2 = ("child" if layout == "no" else "/"), "/"
    else:
        placed = LAYOUT.fullmatch(layout)
        if not placed:
            raise Unmodelled(f"same_cgroup_as_jbd2 {layout!r} is not a layout such as 'dd:a/b jbd2:root'")
        writer, jbd2 = placed[1], placed[2]
    if run:
        return jbd2, [dbench(clients=_whole(run[1]), runtime=_whole(run[2]), cgroup=writer)]
    half = int(row["device"] == "null+hdd_model")  # the file system had one half of the disk
    return jbd2, [dd(bs=_whole(match[1]), count=_whole(match[2]), cgroup=writer, partition=half)]


def _number(text: str, column: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise Unmodelled(f"{column} {text!r} is not a number")
    return value


def _whole(digits: str) -> int:
    return int(digits[:20])  # more digits are refused by the range, fewer are all


def _flag(row: dict[str, str], column: str, default: int) -> int:
    value = row.get(column, "")
    if value == "":
        return default
    if value not in ("0", "1", "0.0", "1.0"):
        raise Unmodelled(f"{column} {value!r} is neither 0 nor 1")
    return int(float(value))


def measured_on(runs: Iterable[KernelRun]) -> list[tuple[str, str]]:
    """The distinct (kernel, device) pairs, in order of appearance."""
    return list(dict.fromkeys(run.machine_key for run in runs))
