"""Thread 0: dd oflag=dsync at 60 KB/s under CFQ against 1.5 to 2 MB/s under noop, and what it takes to see that.

Source: linux-block, "CFQ idling kills I/O performance on ext4 with blkio cgroup controller", May 2019, and its
follow-ups. Each machine's device is fitted on its noop or mq-deadline figure alone; everything else is predicted. The
machines' CPUs are not known: a modern core (four instructions a nanosecond) is assumed for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

from .. import workloads
from ..cgroups import Cgroups
from ..data import data_file
from ..devices import ConstantTime, null
from ..errors import ScenarioError, unknown
from ..filesystems import XFS, Ext4, Raw
from ..host import fitted_host
from ..measure.devicefit import fit_completion
from ..measure.kernel_rows import read_kernel_csv
from ..queueing import closed_form
from ..result import Result
from ..scenario import Machine
from ..simulation import simulate
from . import Claim, Outcome

if TYPE_CHECKING:
    import pandas as pd

FULL_SPEED = 0.9  # "full performance": at least this share of what the same file system does under noop
MODERN_CORE = 4.0

# machine -> (kernel, scheduler of the baseline, seconds a write there: the one fitted figure, device)
BASELINES: dict[str, tuple[str, str, float, ConstantTime]] = {
    "vm-4.19": ("4.19", "noop", 512 / 1_750_000, null()),
    "vm-5.2-rc": ("5.2", "mq-deadline", 3.90981 / 10_000, null()),
    # its iostat counts four requests a write, one of them a flush: the kernel sees a write cache there
    "box-5.1": ("5.1", "mq-deadline", 14.6892 / 10_000, null(rotational=False, write_cache=True)),
}


def _bfq(**changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    new = Ext4(quiet_before=None, creation_reads=3)
    return {"scheduler": "bfq", "filesystem": new, **changes}, {"count": 10_000}


# experiment -> (changes to the machine, changes to dd); the four preconditions are switched off one by one
EXPERIMENTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "cfq": ({"scheduler": "cfq"}, {}),
    "noop": ({"scheduler": "noop"}, {}),
    "deadline": ({"scheduler": "deadline"}, {}),
    "mq-deadline": ({"scheduler": "mq-deadline"}, {}),
    # BFQ's course changes over the run, so its experiments are as long as the thread's; and the thread's script selects
    # it just before dd starts, so that it has not met jbd2 yet
    "bfq": _bfq(),
    "bfq low_latency=0": _bfq(**{"scheduler.low_latency": False}),
    "bfq of 5.2": _bfq(**{"scheduler.kernel": "5.2"}),
    "bfq of 5.3, low_latency=0": _bfq(**{"scheduler.kernel": "5.3", "scheduler.low_latency": False}),
    "bfq of 5.3": _bfq(**{"scheduler.kernel": "5.3"}),
    "bfq of 5.12": _bfq(**{"scheduler.kernel": "5.12"}),
    "no blkio controller": ({"scheduler": "cfq"}, {"cgroup": "/"}),
    "jbd2 in dd's cgroup": ({"scheduler": "cfq", "filesystem": Ext4(jbd2_cgroup="user.slice")}, {}),
    "dd in the root cgroup": ({"scheduler": "cfq"}, {"cgroup": "/"}),
    "both idles zero": ({"scheduler": "cfq", "scheduler.slice_idle": 0, "scheduler.group_idle": 0}, {}),
    "slice_idle zero alone": ({"scheduler": "cfq", "scheduler.slice_idle": 0}, {}),
    "group_idle zero alone": ({"scheduler": "cfq", "scheduler.group_idle": 0}, {}),
    "xfs": ({"scheduler": "cfq", "filesystem": XFS()}, {}),
    "raw device": ({"scheduler": "cfq", "filesystem": Raw()}, {}),
    "pass-through": ({"scheduler": "cfq", "device.write_cache": True}, {}),
    "four preconditions": ({"scheduler": "cfq"}, {}),
}

PRECONDITIONS = ("blkio controller", "ext4 with jbd2", "dd in another cgroup", "CFQ idling")


def job(count: int = 1000, **options: Any) -> workloads.Dd:
    """The thread's dd, shortened: the cycle repeats, a thousand writes tell the rate of ten thousand."""
    return workloads.dd(bs=512, count=count, oflag="dsync", **{"cgroup": "user.slice", **options})


@cache
def machine(name: str) -> Machine:
    """One of the thread's machines under its baseline scheduler, its device fitted to that figure.

    >>> machine("vm-4.19").scheduler_name
    'noop'
    """
    if name not in BASELINES:
        raise unknown("machine", name, BASELINES)
    kernel, scheduler, seconds, device = BASELINES[name]
    start = Machine(
        kernel=kernel,
        device=device,
        filesystem=Ext4(),
        scheduler=scheduler,
        host=fitted_host(kernel, speed=MODERN_CORE),
        cgroups=Cgroups(),
    )
    return fit_completion(start, job(), seconds)


def scenario(machine_name: str, experiment: str) -> tuple[Machine, workloads.Dd]:
    """Machine and dd of an experiment. Raises ScenarioError if its kernel or this version cannot run it."""
    if experiment not in EXPERIMENTS:
        raise unknown("experiment", experiment, EXPERIMENTS)
    changes, dd_changes = EXPERIMENTS[experiment]
    return machine(machine_name).with_(**changes), job(**dd_changes)


@cache
def run(machine_name: str, experiment: str) -> Result:
    """The experiment, simulated (kept, since several claims look at the same run)."""
    m, dd = scenario(machine_name, experiment)
    return simulate(m, [dd])


def calculated(machine_name: str, experiment: str) -> float:
    """Seconds a write by the closed form."""
    m, dd = scenario(machine_name, experiment)
    return float(closed_form(m, [dd]).time_per_op)


# ---------------------------------------------------------------------------------------------------------------------
# quantities: (from the simulation, from the closed form where it answers the same question)


def evaluate(claim: Claim) -> Outcome:
    """Simulate a claim and calculate it."""
    try:
        simulated, calculated_value = QUANTITIES[claim.quantity](claim.machine, claim.experiment)
    except ScenarioError as error:
        return Outcome(claim, None, None, kernel_value(claim), str(error))
    return Outcome(claim, simulated, calculated_value, kernel_value(claim))


def _throughput(m: str, e: str) -> tuple[float, float]:
    return run(m, e).bytes_per_s, 512 / calculated(m, e)


def _time(m: str, e: str) -> tuple[float, float]:
    return run(m, e).time_per_op, calculated(m, e)


def _elapsed(m: str, e: str) -> tuple[float, float]:
    return run(m, e).time_per_op * 10_000, calculated(m, e) * 10_000


def _slowdown(m: str, e: str) -> tuple[float, float]:
    base = run(m, "noop").time_per_op, calculated(m, "noop")
    return run(m, e).time_per_op / base[0], calculated(m, e) / base[1]


def _full_speed(m: str, e: str) -> tuple[float, float]:
    changed, dd = scenario(m, e)
    without = changed.with_(scheduler="noop")
    fast = simulate(without, [dd]).time_per_op, float(closed_form(without, [dd]).time_per_op)
    slow = run(m, e).time_per_op, calculated(m, e)
    return float(fast[0] / slow[0] >= FULL_SPEED), float(fast[1] / slow[1] >= FULL_SPEED)


def _preconditions_needed(m: str, e: str) -> tuple[float, None]:
    frame = preconditions(m)
    slow = frame[~frame.full_speed]
    return float(slow[list(PRECONDITIONS)].all().sum()), None


def _idle_a_write(m: str, e: str) -> tuple[float, float]:
    changed, dd = scenario(m, e)
    result = run(m, e)
    ops = result.jobs.operations.sum()
    window = result.idling.total_s[result.idling.fired_held > 0].sum() / ops
    exact = closed_form(changed, [dd])
    return window * 1e3, float(exact.idles_per_op) * changed.scheduler.idle_defaults(True)[0] * 1e-6


def _default(name: str) -> Callable[[str, str], tuple[float, None]]:
    index = ("slice_idle", "group_idle").index(name)
    return lambda m, e: (scenario(m, e)[0].scheduler.idle_defaults(True)[index] * 1e-6, None)


def _commits(m: str, e: str) -> tuple[float, None]:
    result = run(m, e)
    return int(result.state.journals[0].commits - 1) / int(result.jobs.operations.sum()), None


def _bytes(m: str, e: str) -> tuple[float, float]:
    jobs = run(m, e).jobs
    return float(jobs.bytes.sum() * 10_000 / jobs.operations.sum()), 10_000.0 * 512


def _disk_bytes(m: str, e: str) -> tuple[float, None]:
    result = run(m, e)
    return 512 * int(result.state.devices[0].sectors_written) / int(result.jobs.operations.sum()), None


def _bytes_a_request(m: str, e: str) -> tuple[float, None]:
    dev = run(m, e).state.devices[0]
    return 512 * int(dev.sectors_written) / (int(dev.write_requests) + int(dev.flushes)), None


def _needs_positions(m: str, e: str) -> tuple[float, None]:
    raise ScenarioError("four partitions of a rotating disk: the seeks between them need a disk with positions.")


def _slowdown_to_mq_deadline(m: str, e: str) -> tuple[float, None]:
    return run(m, e).time_per_op / run(m, "mq-deadline").time_per_op, None


QUANTITIES: dict[str, Callable[[str, str], tuple[float, float | None]]] = {
    "throughput": _throughput,
    "time a write": _time,
    "elapsed": _elapsed,
    "slowdown": _slowdown,
    "full speed": _full_speed,
    "preconditions needed": _preconditions_needed,
    "idle a write": _idle_a_write,
    "default slice_idle": _default("slice_idle"),
    "default group_idle": _default("group_idle"),
    "commits a write": _commits,
    "bytes": _bytes,
    "disk bytes a write": _disk_bytes,
    "slowdown to mq-deadline": _slowdown_to_mq_deadline,
    "throughput of four on a disk": _needs_positions,
    "disk bytes a request": _bytes_a_request,
    "disk over dd": lambda m, e: (_disk_bytes(m, e)[0] / 512, None),
    "disk blocks a write": lambda m, e: (_disk_bytes(m, e)[0] / 4096, None),
}


# ---------------------------------------------------------------------------------------------------------------------
# the four preconditions, and a real kernel in the same place


@cache
def preconditions(machine_name: str = "vm-4.19") -> pd.DataFrame:
    """Every combination of the thread's four preconditions: one boolean column each, bytes_per_s, full_speed.

    Without the controller, or with dd in jbd2's cgroup, everything is in the root; without ext4 it is XFS.
    """
    import pandas as pd

    rows = []
    base = machine(machine_name)
    for combination in product((True, False), repeat=4):
        controller, ext4, apart, idling = combination
        changes: dict[str, Any] = {"scheduler": "cfq", "filesystem": Ext4() if ext4 else XFS()}
        if not idling:
            changes |= {"scheduler.slice_idle": 0, "scheduler.group_idle": 0}
        dd = job(cgroup="user.slice" if controller and apart else "/")
        changed = base.with_(**changes)
        speed = simulate(changed, [dd]).bytes_per_s
        fast = simulate(changed.with_(scheduler="noop"), [dd]).bytes_per_s
        full = speed / fast >= FULL_SPEED
        rows.append({**dict(zip(PRECONDITIONS, combination, strict=True)), "bytes_per_s": speed, "full_speed": full})
    return pd.DataFrame(rows)


@cache
def _kernel_times() -> dict[str, float]:
    runs, _ = read_kernel_csv(data_file("kernel/dd.csv"))
    return {f"{run.conditions['kernel']}:{run.run_id}": run.time_per_write_us * 1e-6 for run in runs}


def kernel_value(claim: Claim) -> float | None:
    """What a real kernel did in the same experiment on a 100 us device (`data/kernel/dd.csv`), in the claim's unit."""
    seconds = _kernel_times().get(claim.kernel_run)
    if seconds is None:
        return None
    if claim.quantity == "throughput":
        return 512 / seconds
    if claim.quantity == "time a write":
        return seconds
    if claim.quantity == "full speed":
        filesystem = claim.kernel_run.split("_")[0].replace("topo", "ext4")
        alone = _kernel_times()[f"{filesystem}_kid_noop_c100_r1_q32_w0"]
        return float(alone / seconds >= FULL_SPEED)
    return None
