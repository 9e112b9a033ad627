"""Thread 1: dbench at 80 MB/s under BFQ, 200 MB/s with two patches to its waker rules, and what each patch does.

Source: linux-block, "[PATCH 0/2 RFC] bfq: Waker logic tweaks for dbench performance", April 2020. The machine is not
described. A real 5.6.4 shows the thread's pattern with dbench in a child cgroup on a fast device that says it is
rotational and has no visible write cache (`data/README.md`): that is the machine here. Its one free parameter, the
device's completion time, is fitted on the figure with both patches (200 MB/s); everything else is predicted. A modern
core (four instructions a nanosecond) is assumed, as in thread 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from ..data import data_file
from ..devices import null
from ..errors import ScenarioError, unknown
from ..filesystems import XFS, Ext4
from ..host import fitted_host
from ..kernels import Kernel
from ..measure.kernel_rows import read_kernel_csv
from ..result import Result
from ..scenario import Machine
from ..schedulers import BFQ, WakerRules, waker_rules
from ..schedulers.bfq_versions import PATCHES, WAKERS, features
from ..simulation import simulate
from ..sweeps import sweep
from ..workloads import Dbench, dbench
from . import Claim, Outcome, dbench_clients
from .dbench_clients import MODERN_CORE

if TYPE_CHECKING:
    import pandas as pd

PATCHED_MBs = 200.0  # the fitted figure: both patches
FULL_SPEED = 0.9  # at least this share of the figure with both patches
SAME = 1.1  # a boost below this is none
FSYNC_DECIDES = 0.5  # share of the time in fsync
LAST_SECONDS = 4
FLUSH_BYTES = 448_057  # counted in the load file for each fsync
SLICE_IDLE_MS = 8.0

BOTH, FIRST, VANILLA = "5.6.4+p1p2", "5.6.4+p1", "5.6.4"

# experiment -> (kernel, changes to the machine, changes to dbench)
EXPERIMENTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "bfq": (VANILLA, {}, {}),
    "bfq + patch 1": (FIRST, {}, {}),
    "bfq + patches 1 and 2": (BOTH, {}, {}),
    "bfq without idling": (VANILLA, {"scheduler": BFQ(slice_idle=0)}, {}),
    "bfq low_latency=0": (VANILLA, {"scheduler": BFQ(low_latency=False)}, {}),
    "mq-deadline": (VANILLA, {"scheduler": "mq-deadline"}, {}),
    "cfq, one cgroup": ("4.19", {"scheduler": "cfq"}, {"cgroup": "/"}),
    "cfq": ("4.19", {"scheduler": "cfq"}, {}),
    "xfs, log in a worker": (VANILLA, {"filesystem": XFS(log_writer="worker")}, {}),
    "xfs, log in a worker, both patches": (BOTH, {"filesystem": XFS(log_writer="worker")}, {}),
    "xfs, log by the caller": (VANILLA, {"filesystem": XFS(log_writer="caller")}, {}),
    "bfq of 5.12": (VANILLA, {"scheduler": BFQ(kernel="5.12")}, {}),
    "bfq of 5.17": (VANILLA, {"scheduler": BFQ(kernel="5.17")}, {}),
    "bfq of 5.12 + patch 2": (
        VANILLA,
        {"scheduler": BFQ(kernel="5.12", waker_rules=replace(waker_rules("5.12"), long_think_time=False))},
        {},
    ),
}


def job(runtime: float = 16.0, **options: Any) -> Dbench:
    """The thread's dbench: one client in a cgroup of its own."""
    return dbench(clients=1, runtime=runtime, **{"cgroup": "user.slice", **options})


def machine_with(completion_us: float, kernel: str = BOTH) -> Machine:
    """The machine with a device of this completion time (us) under BFQ, freshly booted as the measured ones."""
    return Machine(
        kernel=kernel,
        device=null(completion_us=completion_us, rotational=True, write_cache=False),
        filesystem=Ext4(quiet_before=None, creation_reads=3),
        scheduler="bfq",
        host=fitted_host(kernel, speed=MODERN_CORE),
        cgroups=["user.slice"],
    )


@cache
def machine() -> Machine:
    """The thread's machine with both patches, its device fitted to 200 MB/s.

    >>> 600 < machine().device.completion_us < 800
    True
    """
    low, high = 600.0, 800.0
    at_low, at_high = (_seconds_a_byte(us) for us in (low, high))
    for _ in range(3):
        wanted = low + (1e-6 / PATCHED_MBs - at_low) * (high - low) / (at_high - at_low)
        low, at_low, high, at_high = high, at_high, wanted, _seconds_a_byte(wanted)
    return machine_with(round(high, 2))


def _seconds_a_byte(completion_us: float) -> float:
    return 1.0 / simulate(machine_with(completion_us), job()).bytes_per_s


def scenario(experiment: str) -> tuple[Machine, Dbench]:
    """Machine and dbench of an experiment: the same device and host costs under every scheduler and patch."""
    if experiment not in EXPERIMENTS:
        raise unknown("experiment", experiment, EXPERIMENTS)
    kernel, changes, options = EXPERIMENTS[experiment]
    base = machine_with(machine().device.completion_us, kernel)
    if "scheduler" in changes and kernel == "4.19":
        base = replace(base, scheduler=changes["scheduler"])
    return base.with_(**changes), job(**options)


@cache
def run(experiment: str) -> Result:
    """The experiment, simulated (kept, since several claims look at the same run)."""
    return simulate(*scenario(experiment))


@cache
def course() -> pd.DataFrame:
    """MB/s second by second, one column an experiment without, with the first, and with both patches; the warm-up is
    included. Weight raising hides the loss at first."""
    import pandas as pd

    names = ("bfq", "bfq + patch 1", "bfq + patches 1 and 2")
    frames = {name: run(name).course.set_index("second").bytes_per_s / 1e6 for name in names}
    return pd.DataFrame(frames).iloc[:-1]


# ---------------------------------------------------------------------------------------------------------------------
# quantities, each read off the simulation


def evaluate(claim: Claim) -> Outcome:
    """Simulate a claim."""
    if claim.quantity not in QUANTITIES:
        return Outcome(claim, None, None, None, claim.note)
    try:
        simulated = QUANTITIES[claim.quantity](claim.experiment)
    except ScenarioError as error:
        return Outcome(claim, None, None, kernel_value(claim), str(error))
    return Outcome(claim, simulated, None, kernel_value(claim))


def _mb(e: str) -> float:
    return run(e).throughput_MBs


def _time_a_flush(e: str) -> float:
    jobs = run(e).jobs
    return float(jobs.elapsed_s[0] / jobs.operations[0])


def _full_speed(e: str) -> float:
    return float(_mb(e) >= FULL_SPEED * _mb("bfq + patches 1 and 2"))


def _boost(e: str) -> float:
    return float(_mb(e + " + patch 2") >= SAME * _mb(e))


def _fsync_decides(e: str) -> float:
    jobs = run(e).jobs
    return float(jobs.latency_mean_s[0] * jobs.operations[0] / jobs.elapsed_s[0] >= FSYNC_DECIDES)


def _mostly_waited_for(name: str, e: str) -> float:
    """Is most of the time in which a request was held back kept for this task?"""
    idling = run(e).idling
    return float(idling.held_s[idling.waited_for == name].sum() > 0.5 * idling.held_s.sum())


def _idles(e: str) -> float:
    """More than one idle in a hundred fsyncs that ends with a request waiting."""
    return float(run(e).idles_per_op > 0.01)


def _data_writes(e: str) -> float:
    """Requests of dbench a flush; two of a commit are jbd2's."""
    m, dbench_job = scenario(e)
    result = simulate(m, replace(dbench_job, warmup=0.0))
    writes = int(result.state.devices[0].write_requests) - 2 * int(result.state.journals[0].commits)
    return writes / int(result.jobs.operations[0])


def _first_seconds(e: str) -> float:
    """Mean of the first three counted seconds over that of the last four."""
    frame = run(e).course
    counted = frame.bytes_per_s[frame.counted].to_numpy()[: int(scenario(e)[1].runtime)]
    return float(counted[:3].mean() / counted[-LAST_SECONDS:].mean())


def _rules(e: str) -> tuple[dict[str, int], WakerRules]:
    """The rules of an experiment's BFQ, and those on wakers."""
    kernel, changes, _ = EXPERIMENTS[e]
    scheduler = changes.get("scheduler", BFQ())
    return features(scheduler.version(Kernel(kernel)))


QUANTITIES: dict[str, Callable[[str], float]] = {
    "throughput": _mb,
    "time a flush": _time_a_flush,
    "time saved a flush": lambda e: _time_a_flush(e) - _time_a_flush("bfq + patches 1 and 2"),
    "ratio to both patches": lambda e: _mb("bfq + patches 1 and 2") / _mb(e),
    "full speed": _full_speed,
    "slower than CFQ": lambda e: float(_mb(e) < FULL_SPEED * _mb("cfq, one cgroup")),
    "idling costs": lambda e: float(_mb(e) < FULL_SPEED * _mb("bfq without idling")),
    "patches help": lambda e: float(_mb(e + ", both patches") >= SAME * _mb(e)),
    "boost by patch 2": _boost,
    "fsync decides": _fsync_decides,
    "idles": _idles,
    "jbd2 waits for dbench's timer": lambda e: _mostly_waited_for("dbench", e),
    "data writes a flush": _data_writes,
    "first seconds over last": _first_seconds,
    "detection window": lambda e: _rules(e)[1].window_us,
    "detections needed": lambda e: _rules(e)[1].detections,
    "detections forgotten after": lambda e: _rules(e)[1].timeout_slices,
    "waker served while idling": lambda e: float(_rules(e)[1].selection == "waker's request"),
    "short thinkers have wakers": lambda e: float(not _rules(e)[1].long_think_time),
    "longest short think time": lambda e: SLICE_IDLE_MS / _rules(e)[0]["think_divisor"],
    **dbench_clients.QUANTITIES,
}


@cache
def _kernel_rows() -> dict[str, float]:
    runs, _ = read_kernel_csv(data_file("kernel/dbench.csv"))
    return {f"{run.conditions['kernel']}:{run.run_id}": run.measured for run in runs}


def kernel_value(claim: Claim) -> float | None:
    """What a real kernel did in the same experiment on a 700 (T1-003: 600) us device (`data/kernel/dbench.csv`)."""
    measured = _kernel_rows().get(claim.kernel_run)
    if measured is None:
        return None
    patched = _kernel_rows()[f"{BOTH}:L700w0r1_bfq_kid_ll0_r1"]
    if claim.quantity == "throughput":
        return measured
    if claim.quantity == "ratio to both patches":
        return patched / measured
    if claim.quantity == "time a flush":
        return FLUSH_BYTES * 1e-6 / measured
    if claim.quantity == "time saved a flush":
        return FLUSH_BYTES * 1e-6 * (1 / measured - 1 / patched)
    if claim.quantity == "full speed":
        return float(measured >= FULL_SPEED * patched)
    return None


# ---------------------------------------------------------------------------------------------------------------------
# each waker rule by itself

ABLATION: dict[str, dict[str, Any]] = {
    "as in 5.6.4": {},
    "patch 1: the waker's request decides": {"selection": "waker's request"},
    "patch 2: short thinkers have wakers too": {"long_think_time": False},
    "both patches": {"selection": "waker's request", "long_think_time": False},
    "window of 4 ms": {"window_us": 4000},
    "three detections": {"detections": 3},
    "one detection": {"detections": 1},
    "woken queues are served": {"inject_woken": True},
    "a waker is kept until another is confirmed": {"replace_at_once": False},
}


@cache
def ablation() -> pd.DataFrame:
    """5.6.4 with one waker rule changed at a time: columns rule, MB_s (mean), last_MB_s (last four seconds), idles
    (timers that ended with a request waiting, for each flush)."""
    import pandas as pd

    base, dbench_job = scenario("bfq")
    rows = []
    for rule, changes in ABLATION.items():
        rules = replace(waker_rules(VANILLA), **changes)
        result = simulate(replace(base, scheduler=BFQ(waker_rules=rules)), dbench_job)
        counted = result.course.bytes_per_s[result.course.counted].to_numpy()[: int(dbench_job.runtime)]
        rows.append(
            {
                "rule": rule,
                "MB_s": result.throughput_MBs,
                "last_MB_s": counted[-LAST_SECONDS:].mean() * 1e-6,
                "idles": result.idles_per_op,
            }
        )
    return pd.DataFrame(rows)


PRESETS = {**WAKERS, **{f"5.6.4{patch}": rules for patch, rules in PATCHES.items()}}


def waker_grid(runtime: float = 3.0) -> pd.DataFrame:
    """The thread's machine under the waker rules of every version and patch, at slice_idle 0 to 8 ms, with and without
    low_latency: columns wakers (the version), slice_idle (ms), low_latency, bytes_per_s, idles_per_op."""
    base, dbench_job = scenario("bfq")
    over = {
        "scheduler.waker_rules": list(PRESETS.values()),
        "scheduler.slice_idle": range(9),
        "scheduler.low_latency": [False, True],
    }
    frame = sweep(base, replace(dbench_job, runtime=runtime), over, metrics=("bytes_per_s", "idles_per_op"))
    frame["scheduler.waker_rules"] = [name for name in PRESETS for _ in range(len(frame) // len(PRESETS))]
    return frame.rename(columns=lambda name: name.removeprefix("scheduler.").replace("waker_rules", "wakers"))
