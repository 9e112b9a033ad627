"""What a run shows: dd's lines, latencies, an iostat row, where the time went, and the event trace.

Everything here is a view on the engine's tables, in SI units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .dbenchlines import dbench_lines, dbench_table
from .ddline import dd_lines
from .engine import codes as c
from .engine.iolatency import UNLIMITED
from .engine.state import State
from .engine.tables import TABLES
from .errors import ScenarioError
from .filesystems import XFS
from .fio import Fio, summary_line
from .samples import Samples
from .scenario import Scenario
from .shared_programs import teams_of
from .tools import FioLatency, View, bin_middle, fio_latency, iostat, vmstat
from .workloads import Dbench, Dd

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

NS = 1e-9


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of `simulate`. Printing it shows what dd prints, an iostat row, and where the time went.

    `trace` is None unless the run was traced.
    """

    scenario: Scenario
    state: State
    trace: np.ndarray | None = None
    samples: Samples | None = None

    # -----------------------------------------------------------------------------------------------------------------
    # jobs

    @cached_property
    def jobs(self) -> pd.DataFrame:
        """One row a job: operations, bytes, elapsed_s, bytes_per_s, time_per_op_s and latencies in seconds.

        Percentiles come from a logarithmic histogram with fio's resolution and are exact to 0.8 %; mean, least and
        largest are exact.
        """
        import pandas as pd

        rows = []
        for i, job in enumerate(self.scenario.jobs):
            t = self.state.tasks[i]
            elapsed = self.job_elapsed(i)
            ops = int(t.done_ops)
            rows.append(
                {
                    "job": self.task_name(i),
                    "cgroup": job.cgroup,
                    "operations": ops,
                    "bytes": int(t.done_bytes),
                    "elapsed_s": elapsed,
                    "bytes_per_s": int(t.done_bytes) / elapsed if elapsed > 0 else np.nan,
                    "time_per_op_s": elapsed / ops if ops else np.nan,
                    "latency_mean_s": int(t.latency_sum) / ops * NS if ops else np.nan,
                    "latency_min_s": int(t.latency_min) * NS if ops else np.nan,
                    "latency_max_s": int(t.latency_max) * NS if ops else np.nan,
                    **{f"latency_p{p}_s": self.latency_percentile(i, p) for p in (50, 90, 99)},
                }
            )
        return pd.DataFrame(rows)

    def latency_percentile(self, job: int, percent: float) -> float:
        """A percentile of the job's operation latencies in seconds, to 0.8 %; NaN before the first operation."""
        counts = self.histogram(job)
        total = int(counts.sum())
        if total == 0:
            return float("nan")
        at = int(np.searchsorted(np.cumsum(counts), max(1, np.ceil(total * percent / 100))))
        t = self.state.tasks[job]
        return min(max(int(bin_middle(at)), int(t.latency_min)), int(t.latency_max)) * NS

    def histogram(self, job: int) -> np.ndarray:
        """How many of the job's operations had a latency of each bin (`iosched.tools.bin_start`: where it begins)."""
        return self.state.histogram.n[job * c.HISTOGRAM_BINS : (job + 1) * c.HISTOGRAM_BINS]

    def job_elapsed(self, job: int) -> float:
        """Seconds from a job's start to its end, or to the end of the run."""
        t = self.state.tasks[job]
        ended = t.end if t.state == c.T_DONE else self.state.sim[0].now
        return max(int(ended - self.state.sim[0].epoch) * NS - self.counted_from(job), 0.0)

    def counted_from(self, job: int) -> float:
        """Simulated second from which a job counts: its start, or the end of dbench's warm-up."""
        one = self.scenario.jobs[job]
        return one.start + getattr(one, "warmup_s", 0.0)

    @property
    def throughput_MBs(self) -> float:
        """All jobs together in 10^6 bytes a second, dbench's MB/s."""
        return self.bytes_per_s * 1e-6

    @cached_property
    def course(self) -> pd.DataFrame:
        """dbench second by second, all clients together, with the warm-up: columns second, counted, bytes_per_s."""
        import pandas as pd

        clients = [i for i, job in enumerate(self.scenario.jobs) if isinstance(job, Dbench)]
        tasks = [self.state.tasks[i] for i in clients]
        length = min(math.ceil(self.elapsed), max((int(t.n_seconds) for t in tasks), default=0))
        total = np.zeros(length, np.int64)
        for t in tasks:
            own = self.state.seconds.n[int(t.first_second) : int(t.first_second) + min(length, int(t.n_seconds))]
            total[: len(own)] += own
        begin = min(
            (self.counted_from(i) for i, j in enumerate(self.scenario.jobs) if isinstance(j, Dbench)), default=0
        )
        second = np.arange(length)
        return pd.DataFrame({"second": second, "counted": second >= begin, "bytes_per_s": total.astype(float)})

    @property
    def time_per_op(self) -> float:
        """Seconds an operation of the first job took on average; NaN before its first."""
        done = int(self.state.tasks[0].done_ops)
        return self.job_elapsed(0) / done if done else float("nan")

    @property
    def bytes_per_s(self) -> float:
        """Throughput of all jobs together, as each would report it."""
        elapsed = [self.job_elapsed(i) for i in range(len(self.scenario.jobs))]
        return sum(int(self.state.tasks[i].done_bytes) / t for i, t in enumerate(elapsed) if t > 0)

    @property
    def elapsed(self) -> float:
        """Simulated seconds."""
        return int(self.state.sim[0].now - self.state.sim[0].epoch) * NS

    @property
    def dd_lines(self) -> list[str]:
        """What each dd prints at its end."""
        rows = zip(self.jobs.itertuples(), self.scenario.jobs, strict=True)
        return [dd_lines(r.operations, r.bytes, r.elapsed_s) for r, job in rows if isinstance(job, Dd)]

    @cached_property
    def dbench_table(self) -> pd.DataFrame:
        """dbench's operations, all clients together, one row each: operation, count, latency_mean_s, latency_max_s.

        Flush is simulated. The others are known less well: how many there are from the load's totals, their latency as
        one mean of all of them (CPU of the host, and waiting for a processor), their largest latency not at all (NaN).
        Of a load that is not shipped only Flush and "(others)" are told apart. Without dbench the table is empty.
        """
        return dbench_table(self)

    @property
    def dbench_lines(self) -> list[str]:
        """What dbench prints at its end; nothing without dbench."""
        rows = self.jobs[[isinstance(job, Dbench) for job in self.scenario.jobs]]
        return dbench_lines(self.dbench_table, float(rows.bytes_per_s.sum()), len(rows)) if len(rows) else []

    @property
    def fio_lines(self) -> list[str]:
        """One line a fio job: IOPS, bandwidth, latencies."""
        return [
            summary_line(
                job, r.operations, r.bytes_per_s, r.elapsed_s,
                (r.latency_mean_s, r.latency_p50_s, r.latency_p99_s, r.latency_max_s),
            )
            for r, job in zip(self.jobs.itertuples(), self.scenario.jobs, strict=True)
            if isinstance(job, Fio)
        ]  # fmt: skip

    @cached_property
    def shared_reads(self) -> pd.DataFrame:
        """One row a file that several processes read: reader, threads, bytes, elapsed_s, bytes_per_s. It has been read
        when its last piece has, or when that has reached the client.

        >>> import iosched as io
        >>> r = io.simulate(io.Machine(scheduler="noop"), io.workloads.shared_reader(threads=2, size="4M"))
        >>> int(r.shared_reads.bytes.iloc[0]) == 4 * 2**20
        True
        """
        import pandas as pd

        rows = []
        for first, job, threads in teams_of(self.scenario):
            m = self.state.teams[self.state.tasks[first].team]
            elapsed = max(int(m.end - m.begin), 1) * NS
            rows.append((job.name, threads, int(m.bytes), elapsed, int(m.bytes) / elapsed))
        return pd.DataFrame(rows, columns=["reader", "threads", "bytes", "elapsed_s", "bytes_per_s"])

    @property
    def shared_lines(self) -> list[str]:
        """One line a file that several processes read, as the last of dd's."""
        return [
            f"{r.reader} ({r.threads}): {dd_lines(0, r.bytes, r.elapsed_s).splitlines()[-1]}"
            for r in self.shared_reads.itertuples()
        ]

    @cached_property
    def io_latency(self) -> pd.DataFrame:
        """io.latency at the end of the run, one row a cgroup below the root: target_us (NaN without one), depth (bios
        that it may have in flight; NaN is unlimited), in_flight, use_delay. Empty where no group has a target."""
        import pandas as pd

        rows = []
        for path, g in zip(self.scenario.machine.cgroups.paths, self.state.latency, strict=False):
            if path != "/" and self.state.devices[0].io_latency:
                rows.append(
                    {
                        "cgroup": path,
                        "target_us": int(g.target) / 1000 if g.target else np.nan,
                        "depth": np.nan if g.depth == UNLIMITED else int(g.depth),
                        "in_flight": int(g.inflight),
                        "use_delay": int(g.use_delay),
                    }
                )
        return pd.DataFrame(rows, columns=["cgroup", "target_us", "depth", "in_flight", "use_delay"])

    @cached_property
    def io_cost(self) -> pd.DataFrame:
        """io.cost at the end of the run, one row a cgroup below the root: weight, in_use (less while it lends), active,
        and the device's vrate_percent. Empty where io.cost is off."""
        import pandas as pd

        rows = []
        for path, g in zip(self.scenario.machine.cgroups.paths, self.state.shares, strict=False):
            if path != "/" and self.state.devices[0].io_cost:
                vrate = int(self.state.iocost[0].vrate) / 1e4
                rows.append((path, int(g.weight), int(g.inuse), bool(g.active), vrate))
        return pd.DataFrame(rows, columns=["cgroup", "weight", "in_use", "active", "vrate_percent"])

    @cached_property
    def writeback(self) -> pd.DataFrame:
        """One row, the page cache and its throttling at the end of the run: dirty_bytes, under_writeback_bytes,
        written_bytes (so far), background_bytes and limit_bytes (the limits), bandwidth_bytes_per_s (the kernel's
        estimate of the device), pauses and paused_s of held writers; and of WBT wbt_target_us (0: off), wbt_step (0 at
        first, lower is more), wbt_depth, wbt_windows and those that missed the target, wbt_exceeded.

        >>> import iosched as io
        >>> job = io.workloads.dd(bs="1M", count=8, oflag="")
        >>> int(io.simulate(io.Machine(), job).writeback.dirty_bytes.iloc[0]) == 8 * 2**20
        True
        """
        import pandas as pd

        cache, w = self.state.caches[0], self.state.wbt[0]
        row = {
            "dirty_bytes": int(cache.dirty) * c.PAGE,
            "under_writeback_bytes": int(cache.writeback) * c.PAGE,
            "written_bytes": int(cache.written) * c.PAGE,
            "background_bytes": int(cache.background) * c.PAGE,
            "limit_bytes": int(cache.limit) * c.PAGE,
            "bandwidth_bytes_per_s": int(cache.bandwidth) * c.PAGE,
            "pauses": int(cache.pauses),
            "paused_s": int(cache.paused_ns) * NS,
            "wbt_target_us": int(w.target) / 1000,
            "wbt_step": int(w.step),
            "wbt_depth": int(w.max_depth),
            "wbt_windows": int(w.windows),
            "wbt_exceeded": int(w.exceeded),
        }
        return pd.DataFrame([row])

    # -----------------------------------------------------------------------------------------------------------------
    # where the time went

    def task_name(self, task: int) -> str:
        """Name of a process or kernel thread as the pictures and tables show it."""
        jobs = self.scenario.jobs
        if task < 0:
            return "async"
        if task < len(jobs):
            name = jobs[task].name
            return name if [job.name for job in jobs].count(name) == 1 else f"{name} {task + 1}"
        kind = "xfs log" if isinstance(self.scenario.machine.filesystem, XFS) else "jbd2"
        flushers = int(self.state.caches[0].flushers)
        workers = len(self.state.tasks) - len(jobs) - flushers
        number, many = task - len(jobs) + 1, workers > 1
        if number > workers:
            kind, number, many = "flusher", number - workers, flushers > 1
        return f"{kind} {number}" if many else kind

    @cached_property
    def idling(self) -> pd.DataFrame:
        """One row a (queue waited for, reason): windows, how many the timer ended (`fired`), how many of those while
        requests waited (`fired_held`), seconds in all and while requests waited (`held_s`)."""
        import pandas as pd

        n = len(self.state.tasks)
        rows = [
            {
                "waited_for": self.task_name(i // c.N_IDLE_REASONS % n),
                "reason": c.IDLE_REASONS[i % c.N_IDLE_REASONS],
                "windows": int(r.windows),
                "fired": int(r.fired),
                "fired_held": int(r.fired_held),
                "total_s": int(r.total_ns) * NS,
                "held_s": int(r.held_ns) * NS,
            }
            for i, r in enumerate(self.state.idle[: n * len(c.IDLE_REASONS)])
            if r.windows
        ]
        columns = ["waited_for", "reason", "windows", "fired", "fired_held", "total_s", "held_s"]
        return pd.DataFrame(rows, columns=columns)

    def since(self, earlier: Result) -> Result:
        """The part of this run after `earlier`, a shorter run of the same scenario, in `idling`, `idles_per_op` and
        `time_budget`. With `earlier` up to the end of dbench's warm-up they speak of the same time as its MB/s.

        >>> import iosched as io
        >>> vm, job = io.Machine(kernel="5.6", scheduler="bfq"), io.workloads.dbench(runtime=2, warmup=1)
        >>> counted = io.simulate(vm, job).since(io.simulate(vm, job, until=1))
        >>> round(float(counted.time_budget.seconds.sum()), 2)
        2.0
        """
        idle, devices = self.state.idle.copy(), self.state.devices.copy()
        for table, before in ((idle, earlier.state.idle), (devices, earlier.state.devices)):
            for name in ("windows", "fired", "fired_held", "total_ns", "held_ns", "empty_ns", "busy_ns"):
                if name in table.dtype.names:
                    table[name] -= before[name]
        tables = {name: getattr(self.state, name) for name in TABLES} | {"idle": idle, "devices": devices}
        return replace(self, state=State(tables))

    @property
    def idles_per_op(self) -> float:
        """Idle windows that ran to their end while a request waited, for each operation of the jobs."""
        return float(self.idling.fired_held.sum() / max(self.jobs.operations.sum(), 1))

    @cached_property
    def time_budget(self) -> pd.DataFrame:
        """Where the elapsed time went: columns what, seconds, share, per_op_s. The rows add up to the elapsed time.

        "device busy": it has at least one command. "idling for X (reason)": it has none, requests wait, and the
        scheduler keeps it for X. "hand-over": requests wait for kblockd or in a plug. "host": nobody asks for anything.
        """
        import pandas as pd

        dev = self.state.devices[0]
        rest = int(self.state.sim[0].now) - int(dev.accounted_at)
        rows = [("device busy", int(dev.busy_ns))]
        explained = 0
        for r in self.idling.itertuples():
            if r.held_s > 0:
                rows.append((f"idling for {r.waited_for} ({r.reason})", round(r.held_s / NS)))
                explained += round(r.held_s / NS)
        rows.append(("hand-over", int(dev.held_ns) - explained))
        rows.append(("host (CPU, wake-ups)", int(dev.empty_ns) + rest))
        ops = max(int(self.jobs.operations.sum()), 1)
        total = max(sum(ns for _, ns in rows), 1)
        return pd.DataFrame(
            [{"what": w, "seconds": ns * NS, "share": ns / total, "per_op_s": ns * NS / ops} for w, ns in rows]
        )

    # -----------------------------------------------------------------------------------------------------------------
    # what the tools would have printed

    def vmstat(self, interval_s: float | None = None) -> View:
        """`vmstat 1`: see `iosched.tools.vmstat`. Printing it looks like the tool, `.frame` is a table.

        >>> import iosched as io
        >>> io.simulate(io.Machine(), io.workloads.dd(count=100), interval_s=0.5).vmstat().frame.b.tolist()
        [0]
        """
        return vmstat(self, interval_s)

    def iostat(self, interval_s: float | None = None, columns: str = "brief") -> View:
        """`iostat -x` with the columns "old", "new", "2008" or "brief": see `iosched.tools.iostat`.

        >>> import iosched as io
        >>> result = io.simulate(io.Machine(), io.workloads.dd(count=100))
        >>> round(float(result.iostat(columns="old").frame["avgrq-sz"][0]))
        11
        """
        return iostat(self, interval_s, columns)

    def fio_latency(self) -> FioLatency:
        """fio's latency buckets and percentiles of every job: see `iosched.tools.fio_latency`.

        >>> import iosched as io
        >>> latency = io.simulate(io.Machine(), io.workloads.random_reader(direct=True, runtime=0.1)).fio_latency()
        >>> len(latency.percentiles), float(latency.buckets.percent.sum().round(6))
        (17, 100.0)
        """
        return fio_latency(self)

    # -----------------------------------------------------------------------------------------------------------------
    # trace

    @cached_property
    def events(self) -> pd.DataFrame:
        """The trace, one row an event: time_s, event (blktrace's letter or a scheduler's decision), task, request,
        sector, sectors, and `until_s` for idle windows. Needs `simulate(..., trace=True)`."""
        import pandas as pd

        e = self._need_trace()
        epoch = int(self.state.sim[0].epoch)
        idle = (e["kind"] == c.TR_IDLE_BEGIN) | (e["kind"] == c.TR_IDLE_END)
        names = {t: self.task_name(t) for t in np.unique(e["task"]).tolist()}
        frame = pd.DataFrame(
            {
                "time_s": (e["at"] - epoch) * NS,
                "event": np.array(c.TRACE_LETTERS)[e["kind"]],
                "task": [names[t] for t in e["task"].tolist()],
                "request": e["request"],
                "sector": np.where(idle, 0, e["place"]),
                "sectors": np.where(idle, 0, e["length"]),
                "until_s": np.where(idle, (e["place"] - epoch) * NS, np.nan),
                "reason": [c.IDLE_REASONS[k] if i else "" for k, i in zip(e["length"].tolist(), idle, strict=True)],
            }
        )
        return frame

    def _need_trace(self) -> np.ndarray:
        if self.trace is None:
            raise ScenarioError("trace: this run kept no events; simulate(..., trace=True) does.")
        return self.trace

    def timeline(self, operation: int | None = None, operations: int = 1) -> Figure:
        """Picture of one operation (or several): who held the device when, and every idle window.

        `operation` counts from 0; None takes one from the middle of the run. Needs a trace.
        """
        from .plots import timeline

        return timeline(self, operation, operations)

    def _titled_dd_lines(self) -> list[str]:
        """dd's lines; with several jobs each block says whose it is."""
        if len(self.scenario.jobs) == 1:
            return self.dd_lines
        rows = zip(self.jobs.itertuples(), self.scenario.jobs, strict=True)
        own = [r for r, job in rows if isinstance(job, Dd)]
        return [f"[{r.job} in {r.cgroup}]\n{text}" for r, text in zip(own, self.dd_lines, strict=True)]

    def __repr__(self) -> str:
        budget = self.time_budget
        lines = "\n".join(self._titled_dd_lines() + self.dbench_lines + self.fio_lines + self.shared_lines)
        shown = budget.assign(share=(budget.share * 100).round(1), per_op_us=(budget.per_op_s * 1e6).round(1))
        return f"{lines}\n\n{self.iostat()}\n\n{shown[['what', 'share', 'per_op_us']].to_string(index=False)}"
