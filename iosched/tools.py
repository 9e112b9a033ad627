"""What the tools of thread 3 and 4 would have printed of a run: vmstat, iostat -x, and fio's latencies.

Each function returns a view: printing it looks like the tool, its tables are tidy (units in the names, or the tool's
own). What the model does not know stands as "-" in the text and is not in the table. Layouts follow the outputs of
the tools themselves: procps 3.3, sysstat 9 (of thread 4, 2008), 11 and 12, fio 3.33.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .engine import codes as c
from .engine.tasks import HISTOGRAM_SUB
from .errors import ScenarioError, number, unknown
from .samples import Sample

if TYPE_CHECKING:
    import pandas as pd

    from .result import Result

NS, MS = 1e-9, 1e-6  # s and ms a nanosecond
BRIEF = "r/s w/s rkB/s wkB/s f/s await aqu-sz %util".split()
COLUMNS = {
    "brief": BRIEF,
    "2008": "rrqm/s wrqm/s r/s w/s rsec/s wsec/s avgrq-sz avgqu-sz await svctm %util".split(),
    "old": "rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util".split(),
    "new": (
        "r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz "
        "d/s dkB/s drqm/s %drqm d_await dareq-sz f/s f_await aqu-sz %util"
    ).split(),
}
PERCENTILES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
BOUNDS = (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000)
BUCKETS = (  # unit, ns a unit, upper bounds; the last bucket has none
    ("nsec", 1, BOUNDS),
    ("usec", c.USEC, BOUNDS),
    ("msec", c.MSEC, (*BOUNDS, 2000, np.inf)),
)


@dataclass(frozen=True)
class View:
    """What one tool shows: `frame`, and the tool's own look when it is printed."""

    frame: pd.DataFrame
    text: str

    def __repr__(self) -> str:
        return self.text

    def as_json(self) -> list[dict]:
        """The table's rows."""
        return self.frame.to_dict("records")


# ---------------------------------------------------------------------------------------------------------------------
# intervals


def intervals(result: Result, interval_s: float | None) -> Iterator[tuple[Sample, Sample]]:
    """The samples at both ends of every interval, the rest of the run last; None: as the run kept them.

    Raises ScenarioError for an interval that is no multiple of that.
    """
    samples = result.samples
    if samples is None:
        raise ScenarioError("interval_s: this run kept no counters; simulate(..., interval_s=1) does.")
    steps = 1
    if interval_s is not None:
        number("interval_s", interval_s, 1e-6, 1e9, "seconds")
        steps = round(interval_s / NS / samples.every_ns)
        if steps < 1 or abs(steps * samples.every_ns - interval_s / NS) > 1:
            raise ScenarioError(
                f"interval_s: {interval_s:g} is not a multiple of the {samples.every_ns * NS:g} s at which this run "
                f"kept its counters; simulate(..., interval_s={interval_s:g}) keeps them so, for up to 4096 intervals."
            )
    rows = samples.rows
    ends = [row for row in rows if row.at_ns % (steps * samples.every_ns) == 0]
    if ends[-1] is not rows[-1]:
        ends.append(rows[-1])
    yield from zip(ends, ends[1:], strict=False)


# ---------------------------------------------------------------------------------------------------------------------
# vmstat


def vmstat(result: Result, interval_s: float | None = None) -> View:
    """`vmstat 1` of a run, one row an interval. Columns of the table: time_s (the interval's end), b, bi, bo (KiB/s),
    sy, id, wa (%; not with `Host(cpus=0)`), and of /proc/meminfo dirty_kB and writeback_kB.

    b counts who sleeps for I/O at the interval's end (readers, held writers, the flusher and jbd2 when they wait), bi
    and bo what was handed to the block layer meanwhile. sy is all CPU time that the model knows, wa the idle time of
    one processor during which somebody slept for I/O. What a run does not have (swap, the page cache's clean part,
    interrupts) is "-".

    Raises ScenarioError for an interval at which the run kept no counters.

    >>> import iosched as io
    >>> copy = io.workloads.sequential_writer(bs="1M", fdatasync=0, size="64M", loops=1)
    >>> vmstat(io.simulate(io.Machine(), copy)).frame[["bo", "dirty_kB"]].astype(int).values.tolist()
    [[0, 65536]]
    """
    import pandas as pd

    cpus = int(result.state.sim[0].cpus)
    rows = []
    for a, b in intervals(result, interval_s):
        length = b.at_ns - a.at_ns
        reads = int((b.devices.sectors_in_read - a.devices.sectors_in_read).sum())
        both = int((b.devices.sectors_in - a.devices.sectors_in).sum())
        row = {
            "time_s": b.at_ns * NS,
            "b": b.io_waiters,
            "bi": reads / 2 / (length * NS),
            "bo": (both - reads) / 2 / (length * NS),
        }
        if cpus:
            busy = min((b.cpu_ns - a.cpu_ns) / (length * cpus), 1.0)
            waits = min((b.io_wait_ns - a.io_wait_ns) / (length * cpus), 1 - busy)
            row |= {"sy": 100 * busy, "id": 100 * (1 - busy - waits), "wa": 100 * waits}
        row |= {
            "dirty_kB": int(b.caches.dirty.sum()) * c.PAGE // 1024,
            "writeback_kB": int(b.caches.writeback.sum()) * c.PAGE // 1024,
        }
        rows.append(row)
    names = ["time_s", "b", "bi", "bo", *(["sy", "id", "wa"] if cpus else []), "dirty_kB", "writeback_kB"]
    frame = pd.DataFrame(rows, columns=names)
    head = [
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----meminfo-----",
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st   Dirty Writeback",
    ]
    lines = [
        f" -{r.b:3.0f}      -      -      -      -    -    - {r.bi:5.0f} {r.bo:5.0f}    -    -  - "
        + (f"{r.sy:2.0f} {r.id:2.0f} {r.wa:2.0f}" if cpus else " -  -  -")
        + f"  - {r.dirty_kB:7.0f} {r.writeback_kB:9.0f}"
        for r in frame.itertuples()
    ]
    return View(frame, "\n".join(head + lines))


# ---------------------------------------------------------------------------------------------------------------------
# iostat


def iostat(result: Result, interval_s: float | None = None, columns: str = "brief") -> View:
    """`iostat -x` of a run: one row a device and interval, or with None a row a device over the whole run.

    `columns` are "old" (sysstat 10 and 11), "new" (sysstat 12), "2008" (thread 4's, in sectors), or "brief". Units as
    in the tool: await in ms, avgrq-sz in sectors, rareq-sz in kB. Columns of the table: time_s (the interval's end),
    device, and the tool's own.

    As in the kernel %util counts the time in which a request is anywhere in the block layer: one that the scheduler
    holds back counts too, although the device is idle (`Result.time_budget` tells the two apart). It is exact here; a
    kernel from 5.0 on samples it. svctm is that time a request, which says something of a device that serves one at a
    time only. f_await includes the wait of a caller's own flush. Kernels before 2.6.39 count times in ticks (recalled),
    and so do their rows: where requests wait for a timer, one disk seems busier than it is, and another less.

    Raises ScenarioError for columns that no iostat has, or an interval at which the run kept no counters.

    >>> import iosched as io
    >>> reader = io.workloads.random_reader(direct=True, runtime=1)
    >>> result = io.simulate(io.Machine(device=io.devices.sata()), reader)
    >>> row = iostat(result, columns="old").frame.iloc[0]
    >>> bool(abs(row["avgqu-sz"] - row["r/s"] * row["r_await"] / 1000) < 1e-3)
    True
    """
    import pandas as pd

    if columns not in COLUMNS:
        raise unknown("columns", columns, COLUMNS)
    if interval_s is None:
        now = result.state.sim[0].now
        ends = [(None, result.state.devices, (int(now) - int(result.state.sim[0].epoch)))]
    else:
        ends = [(a, b.devices, b.at_ns) for a, b in intervals(result, interval_s)]
    rows = []
    for before, devices, at_ns in ends:
        for d, device in enumerate(devices):
            earlier = None if before is None else before.devices[d]
            length = at_ns - (0 if before is None else before.at_ns)
            values = _device_values(device, earlier, max(length, 1))
            name = f"sd{chr(ord('a') + d)}"
            rows.append({"time_s": at_ns * NS, "device": name, **{k: values[k] for k in COLUMNS[columns]}})
    frame = pd.DataFrame(rows, columns=["time_s", "device", *COLUMNS[columns]])
    return View(frame, "\n\n".join(_iostat_text(part, columns) for _, part in frame.groupby("time_s", sort=False)))


def _device_values(device, earlier, length_ns: int) -> dict[str, float]:
    """Every column of every iostat, of one device over one interval."""

    def grown(name: str) -> int:
        return int(device[name]) - (0 if earlier is None else int(earlier[name]))

    def a_second(n: float) -> float:
        return n / (length_ns * NS)

    def mean(total: float, n: int) -> float:
        return total / n if n else 0.0

    reads, writes, done = grown("read_requests"), grown("write_requests"), grown("completed")
    flushes = done - reads - writes
    read_kB, written_kB = grown("sectors_read") / 2, grown("sectors_written") / 2
    read_merges = grown("read_merges")
    write_merges = grown("merges") - read_merges
    read_ns, write_ns, all_ns = grown("read_sojourn_ns"), grown("write_sojourn_ns"), grown("sojourn_ns")
    busy, area = grown("busy_ns") + grown("held_ns"), grown("area_in_system")
    if device["queue_plugs"]:
        busy, area = grown("ticked_busy_ns"), grown("ticked_area_in_system")
        read_ns = all_ns = grown("ticked_sojourn_ns")
    queue = area / length_ns
    discards = dict.fromkeys(("d/s", "dkB/s", "drqm/s", "%drqm", "d_await", "dareq-sz"), 0.0)
    return discards | {
        "rrqm/s": a_second(read_merges),
        "wrqm/s": a_second(write_merges),
        "%rrqm": 100 * mean(read_merges, reads + read_merges),
        "%wrqm": 100 * mean(write_merges, writes + write_merges),
        "r/s": a_second(reads),
        "w/s": a_second(writes),
        "f/s": a_second(grown("flushes")),
        "rkB/s": a_second(read_kB),
        "wkB/s": a_second(written_kB),
        "rsec/s": a_second(2 * read_kB),
        "wsec/s": a_second(2 * written_kB),
        "avgrq-sz": mean(2 * (read_kB + written_kB), reads + writes),
        "rareq-sz": mean(read_kB, reads),
        "wareq-sz": mean(written_kB, writes),
        "avgqu-sz": queue,
        "aqu-sz": queue,
        "await": MS * mean(all_ns, done),
        "r_await": MS * mean(read_ns, reads),
        "w_await": MS * mean(write_ns, writes),
        "f_await": MS * mean(all_ns - read_ns - write_ns, flushes),
        "svctm": MS * mean(busy, reads + writes),
        "%util": 100 * busy / length_ns,
    }


def _iostat_text(frame: pd.DataFrame, columns: str) -> str:
    """One report of iostat."""
    names = COLUMNS[columns]
    widths = [max(len(name), 9 if name.endswith("/s") and name[0] in "rw" and len(name) > 3 else 7) for name in names]
    head = "Device  " if columns == "new" else "Device: "
    lines = [" ".join([head, *(name.rjust(w) for name, w in zip(names, widths, strict=True))])]
    for _, row in frame.iterrows():
        cells = (f"{row[name]:{w}.2f}" for name, w in zip(names, widths, strict=True))
        lines.append(" ".join([row["device"].ljust(len(head)), *cells]))
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------------------------------------
# fio


@dataclass(frozen=True)
class FioLatency:
    """fio's latencies of a run. `buckets`: job, unit, below (the upper bound in that unit), percent; `percentiles`:
    job, percent, latency_s. Printed in fio's own look."""

    buckets: pd.DataFrame
    percentiles: pd.DataFrame
    text: str

    def __repr__(self) -> str:
        return self.text

    def as_json(self) -> dict[str, list[dict]]:
        """The rows of both tables; the bucket without an upper bound has None."""
        buckets = self.buckets.to_dict("records")
        buckets = [row | {"below": row["below"] if np.isfinite(row["below"]) else None} for row in buckets]
        return {"buckets": buckets, "percentiles": self.percentiles.to_dict("records")}


def fio_latency(result: Result) -> FioLatency:
    """fio's latency buckets and completion-latency percentiles of every job, from a histogram with fio's resolution: 64
    bins each power of two, so that percentiles are known to 0.8 % and an operation within 1.6 % of a bucket's bound may
    stand on either side of it. Submission takes no time of its own here (lat is clat), and the latency of an operation
    includes the fdatasync that follows it.

    >>> import iosched as io
    >>> job = io.workloads.random_reader(direct=True, runtime=1)
    >>> latency = fio_latency(io.simulate(io.Machine(device=io.devices.sata()), job))
    >>> float(latency.buckets.percent.sum().round(6)), latency.buckets.query("percent > 0").below.tolist()
    (100.0, [100.0])
    """
    import pandas as pd

    buckets, percentiles, texts = [], [], []
    for i, row in enumerate(result.jobs.itertuples()):
        counts = result.histogram(i)
        total = max(int(counts.sum()), 1)
        edges = np.array([below * ns for _, ns, bounds in BUCKETS for below in bounds])
        places = np.searchsorted(edges, bin_middle(np.arange(len(counts))), side="right")
        shares = np.bincount(places, weights=counts, minlength=len(edges)) * 100 / total
        names = [(unit, below) for unit, _, bounds in BUCKETS for below in bounds]
        own = [
            {"job": row.job, "unit": unit, "below": float(below), "percent": float(share)}
            for (unit, below), share in zip(names, shares, strict=True)
        ]
        values = [result.latency_percentile(i, p) for p in PERCENTILES]
        buckets += own
        percentiles += [
            {"job": row.job, "percent": float(p), "latency_s": v} for p, v in zip(PERCENTILES, values, strict=True)
        ]
        texts.append(_fio_text(row, getattr(result.scenario.jobs[i], "rw", "write"), values, own))
    return FioLatency(pd.DataFrame(buckets), pd.DataFrame(percentiles), "\n".join(texts))


def bin_start(b: np.ndarray | int) -> np.ndarray | int:
    """Smallest latency (ns) of a histogram bin: the inverse of `engine.tasks.latency_bin`."""
    half = 1 << HISTOGRAM_SUB
    exponent = np.maximum(np.asarray(b) // half - 1, 0)
    return (b - exponent * half) << exponent


def bin_middle(b: np.ndarray | int) -> np.ndarray | int:
    """The latency that stands for a bin, as in fio."""
    return (bin_start(b) + bin_start(np.asarray(b) + 1)) // 2


def _fio_text(row, rw: str, values: list[float], buckets: list[dict]) -> str:
    """A job's block of fio's normal output."""
    kind = "write" if rw.endswith("write") else "read"
    iops = row.operations / row.elapsed_s if row.elapsed_s > 0 else 0.0
    rate = row.bytes_per_s if row.operations else 0.0
    lines = [
        f"{row.job}: (groupid=0, jobs=1)",
        f"  {kind}: IOPS={iops:.0f}, BW={rate / 1024:.0f}KiB/s ({rate / 1000:.0f}kB/s)"
        f"({row.bytes / 1024:.0f}KiB/{row.elapsed_s * 1e3:.0f}msec)",
    ]
    if not row.operations:
        return "\n".join(lines)
    unit, ns = _unit(row.latency_min_s, row.latency_max_s)
    low, high, mean = (t / NS / ns for t in (row.latency_min_s, row.latency_max_s, row.latency_mean_s))
    lines.append(f"     lat ({unit}): min={low:.0f}, max={high:.0f}, avg={mean:.2f}")
    lines.append(f"    clat percentiles ({unit}):")
    width = max(len(f"{values[-1] / NS / ns:.0f}"), 5)
    cells = [f"{p:5.2f}th=[{v / NS / ns:{width}.0f}]" for p, v in zip(PERCENTILES, values, strict=True)]
    for first in range(0, len(cells), 4):
        end = "," if first + 4 < len(cells) else ""
        lines.append("     | " + ", ".join(cells[first : first + 4]) + end)
    for unit, _, _ in BUCKETS:
        shown = [
            f"{'>=2000' if np.isinf(b['below']) else format(b['below'], '.0f')}={max(b['percent'], 0.01):.2f}%"
            for b in buckets
            if b["unit"] == unit and b["percent"] > 0
        ]
        lines += [f"  lat ({unit})   : " + ", ".join(shown[k : k + 5]) for k in range(0, len(shown), 5)]
    return "\n".join(lines)


def _unit(low_s: float, high_s: float) -> tuple[str, int]:
    """The unit in which fio prints latencies of this range."""
    for unit, ns in (("msec", c.MSEC), ("usec", c.USEC)):
        if low_s > 2 * ns * NS and high_s > 100 * ns * NS:
            return unit, ns
    return "nsec", 1
