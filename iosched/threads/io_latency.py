"""Thread 2: a random reader beside fifteen greedy processes, without control, under io.latency, and under BFQ.

Source: linux-block, "io.latency controller apparently not working", August 2019; the script is bandwidth-latency.sh of
Algodev-github/S (spec bfq-and-controllers section 6): each process has a file and a cgroup of its own, the reader (RT
class, 4 KiB at random places, through the page cache) runs for two seconds and is started last, and the others go on
until it is done. So a read may take longer than the two seconds: the HDD's 4.5 s are one read.

Interpretation, where the thread leaves it open:
- io.latency makes one step every half second, so two seconds take the depth from 32 to 2 (SATA), from 1023 to 63
  (NVMe), while a group of one sync process has two requests in flight at most. The controller cannot do anything in
  such a run. What improves in the second table is the interferers: direct reads of 4 KiB where there were windows of
  256.
- The column without control of that table repeats the first one digit by digit: it was not measured again with direct
  interferers. Its claims are held against the buffered run.
- A cgroup's entity under BFQ is best-effort, whatever class its processes have. The reader's class counts only if it is
  in the root, as here; the others' groups weigh what a process does.
- The machines are laptops of 2012 and 2018: four instructions a nanosecond, eight processors, 5 us until a woken task
  runs, bursts of CPU time that vary by 30 %. Files have the 5000 MB that the script's settings give.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Any

from ..cgroups import Cgroup
from ..devices import SSD, ConstantTime, Disk, hitachi_7k750, plextor_m5s, samsung_970_pro
from ..engine.codes import T_DONE
from ..errors import ScenarioError, number, unknown
from ..filesystems import Raw
from ..fio import Fio, random_reader, sequential_reader, sequential_writer
from ..host import Host, fitted_host
from ..kernels import Kernel
from ..queueing import classes
from ..result import Result
from ..scenario import Machine
from ..schedulers import BFQ, scheduler
from ..simulation import simulate
from . import Claim, Outcome

if TYPE_CHECKING:
    import pandas as pd

KERNEL = "5.3"
DEVICES: dict[str, Callable[[], ConstantTime]] = {"nvme": samsung_970_pro, "sata": plextor_m5s, "hdd": hitachi_7k750}
CONTROLS = ("none", "io.latency", "bfq")
INTERFERERS = ("buffered readers", "direct readers", "buffered writers", "direct writers", "nobody")
LEAD = 0.5  # seconds that the others run before the reader starts
PROCESS_WEIGHT = 40  # of a best-effort process under BFQ
WINDOW = 256 * 1024  # bytes of a readahead window, of which a buffered reader has two in flight
FILE = 5000 << 20  # bytes
SEEDS = (1, 2, 3, 4, 5)  # of the reader's places: the median of five runs, since a read may fall into a trap of seconds


@dataclass(frozen=True)
class Setup:
    """The thread's set-up; every field is what its script says, and may be changed."""

    device: str | ConstantTime = "nvme"
    control: str = "none"
    interferers: str = "buffered readers"
    n: int = 15
    seconds: float = 2.0
    target_us: float = 10.0
    together: bool = False
    depth: int = 1
    seed: int = 1
    scheduler: Any = None
    filesystem: Any = "ext4"


def host() -> Host:
    """The thread's machines (see the module's text)."""
    return replace(fitted_host(KERNEL, speed=4.0), cpus=8, wakeup_us=20.0, spread=0.3)


def scenario(setup: Setup = Setup(), **changes: Any) -> tuple[Machine, list[Fio]]:
    """Machine and jobs of the set-up, with changes to its fields.

    `control` "none" and "io.latency" run without a scheduler, "bfq" with BFQ, unless `scheduler` names another one;
    `together` puts the interferers into one cgroup; `depth` > 1 makes direct ones asynchronous.

    Raises ScenarioError for an unknown device, control or kind of interferers, or a number out of range.

    >>> machine, jobs = scenario(device="sata", control="io.latency")
    >>> len(jobs), machine.scheduler_name, machine.cgroups.targets_us
    (16, 'none', {'target': 10.0})
    """
    setup = replace(setup, **changes)
    for field, allowed in (("control", CONTROLS), ("interferers", INTERFERERS)):
        if getattr(setup, field) not in allowed:
            raise unknown(field, getattr(setup, field), allowed)
    if isinstance(setup.device, str) and setup.device not in DEVICES:
        raise unknown("device", setup.device, DEVICES)
    number("n", setup.n, 0, 500, "processes", integer=True)
    number("seconds", setup.seconds, 1e-3, 3600, "s")
    device = DEVICES[setup.device]() if isinstance(setup.device, str) else setup.device
    n = 0 if setup.interferers == "nobody" else setup.n
    bfq = setup.control == "bfq"
    chosen = setup.scheduler if setup.scheduler is not None else BFQ(low_latency=False) if bfq else "none"
    paths = ["others"] * n if setup.together else [f"other{k}" for k in range(n)]
    target = Cgroup("target", io_latency_us=setup.target_us if setup.control == "io.latency" else None)
    machine = Machine(
        kernel=KERNEL,
        device=device,
        filesystem=setup.filesystem,
        scheduler=scheduler(chosen, Kernel(KERNEL)),
        host=host(),
        cgroups=[target, *(Cgroup(path, bfq_weight=PROCESS_WEIGHT) for path in dict.fromkeys(paths))],
    )
    reader = random_reader(
        name="target",
        cgroup="/" if machine.scheduler_name == "bfq" else "target",
        ioclass="realtime",
        start=LEAD if n else 0.0,
        runtime=setup.seconds,
        size=FILE,
        seed=setup.seed,
    )
    return machine, [reader, *(interferer(setup, path, k) for k, path in enumerate(paths))]


def interferer(setup: Setup, path: str, k: int) -> Fio:
    """One of the greedy processes."""
    direct = setup.interferers.startswith("direct")
    options: dict[str, Any] = {"name": f"other{k}", "cgroup": path, "direct": direct, "runtime": 86400.0, "size": FILE}
    if setup.interferers.endswith("writers"):
        return sequential_writer(overwrite=True, **options)
    if setup.depth > 1:
        options |= {"iodepth": setup.depth, "ioengine": "libaio"}
    return sequential_reader(**options)


def simulated(setup: Setup = Setup(), **changes: Any) -> Result:
    """The set-up, simulated until the reader's last read is back, at most a minute after its time is over.

    >>> result = simulated(device="hdd", interferers="nobody")
    >>> bool(6e-3 < result.jobs.latency_mean_s[0] < 11e-3)
    True
    """
    machine, jobs = scenario(setup, **changes)
    end = jobs[0].start + jobs[0].runtime
    more = 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the class of a reader on a scheduler without classes, as in the thread
        while True:
            result = simulate(machine, jobs, until=end + more)
            if result.state.tasks[0].state == T_DONE or more > 60:
                return result
            more *= 4


def by_control(controls: Sequence[str] = CONTROLS, **changes: Any) -> dict[str, Result]:
    """The set-up under each control.

    >>> list(by_control(("none", "bfq"), device="hdd", interferers="nobody", seconds=0.1))
    ['none', 'bfq']
    """
    return {control: simulated(control=control, **changes) for control in controls}


def traced(**changes: Any) -> Result:
    """The set-up with every event kept, for `iosched.plots.depths`.

    >>> traced(device="hdd", control="io.latency", seconds=0.2).trace is None
    False
    """
    machine, jobs = scenario(**changes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return simulate(machine, jobs, until=jobs[0].start + jobs[0].runtime, trace=True)


def price() -> pd.DataFrame:
    """What the reader and the others get beside buffered readers: one row a device and control, latency_ms of the
    reader, target_MBs and others_MBs.

    >>> list(price().columns)
    ['device', 'control', 'latency_ms', 'target_MBs', 'others_MBs']
    """
    import pandas as pd

    rows = []
    for device in DEVICES:
        for control in CONTROLS:
            jobs = run(device, f"buffered readers, {control}").jobs
            rate = jobs.bytes_per_s * 1e-6
            rows.append((device, control, 1e3 * jobs.latency_mean_s.iloc[0], rate.iloc[0], rate.iloc[1:].sum()))
    return pd.DataFrame(rows, columns=["device", "control", "latency_ms", "target_MBs", "others_MBs"])


@cache
def run(device: str, experiment: str, seed: int = SEEDS[0]) -> Result:
    """An experiment: "INTERFERERS, CONTROL" of two seconds, with ", SECONDS s" and ", raw, together" behind it where it
    is another one (kept, since several claims look at the same run)."""
    interferers, control, *more = experiment.split(", ")
    changes: dict[str, Any] = {"seed": seed}
    for word in more:
        if word == "raw":
            changes["filesystem"] = Raw()
        elif word == "together":
            changes |= {"together": True, "depth": 16, "target_us": 200.0}
        else:
            changes["seconds"] = float(word.removesuffix(" s"))
    return simulated(device=device, interferers=interferers, control=control, **changes)


def latency_s(device: str, experiment: str) -> float:
    """The reader's mean latency, the median of five runs."""
    return median(float(run(device, experiment, seed).jobs.latency_mean_s.iloc[0]) for seed in SEEDS)


def calculated_s(device: ConstantTime, interferers: str, control: str, n: int = 15) -> float | None:
    """The reader's mean latency by formulas; None where there is none.

    Under BFQ it has the device for itself. Else it waits for what the others have in the device: two windows of
    readahead each, one direct read each (in order, at random places, on a disk); under writers for a flush.

    >>> round(1e3 * calculated_s(samsung_970_pro(), "buffered readers", "none"), 1)
    2.3
    """
    alone = bare_s(device, 1)
    if interferers == "nobody" or control == "bfq":
        return alone
    if isinstance(device, Disk):
        if interferers == "buffered readers":
            return n * device.stream_ms * 1e-3 + alone  # one stream after the other
        return (n + 1) * bare_s(device, n + 1) if interferers == "direct readers" else None
    if not isinstance(device, SSD):
        return None
    if interferers == "direct readers":
        waiting = 1 + n / device.servers  # dies by chance: n others on so many dies
        return device.completion_us * 1e-6 * waiting + (alone - device.completion_us * 1e-6)
    if interferers == "buffered readers":
        slow = 0 < device.streams < n and device.cold_MBs is not None
        rate = (device.cold_MBs if slow else device.read_MBs) * 1e6  # type: ignore[operator]
        together = classes([1, 2 * n], [alone, WINDOW / rate])
        return float(together.response_s[0])
    flush_us = device.completion_us if device.flush_us is None else device.flush_us
    return (device.program_us + flush_us) * 1e-6 + alone


def bare_s(device: ConstantTime, files: int) -> float:
    """A random read of 4 KiB by itself somewhere in so many files, with the host's part."""
    h = host()
    cpu = (h.scaled("request_mq_us") + h.scaled("wakeup_us")) * 1e-6
    if isinstance(device, Disk):
        return device.random_read_s(part=files * FILE / (1e9 * device.capacity_GB)) + cpu
    link = 4096e-6 / device.read_MBs if isinstance(device, SSD) else 0.0
    return device.completion_us * 1e-6 + link + cpu


# ---------------------------------------------------------------------------------------------------------------------
# quantities: (from the simulation, by the formulas where they answer the same question)


def evaluate(claim: Claim) -> Outcome:
    """Simulate a claim and calculate it."""
    try:
        value, calculated = QUANTITIES[claim.quantity](claim.machine, claim.experiment)
    except ScenarioError as error:
        return Outcome(claim, None, None, None, str(error))
    return Outcome(claim, value, calculated, None)


def _latency(m: str, e: str) -> tuple[float, float | None]:
    interferers, control, *_ = e.split(", ")
    return latency_s(m, e), calculated_s(DEVICES[m](), interferers, control)


def _ratio(m: str, e: str) -> tuple[float, float | None]:
    above, below = (_latency(m, part) for part in e.split(" / "))
    formulas = None if above[1] is None or below[1] is None else above[1] / below[1]
    return above[0] / below[0], formulas


def _over_devices(e: str, holds: Callable[[str, str, str], bool]) -> float:
    """1 if it holds for both experiments of `e` on every device."""
    first, second = e.split(" / ")
    return float(all(holds(m, first, second) for m in DEVICES))


def _improves(m: str, e: str) -> tuple[float, None]:
    """Does the first bring less than nine tenths of the latency of the second?"""
    first, second = e.split(" / ")
    return float(latency_s(m, first) < 0.9 * latency_s(m, second)), None


def _improves_anywhere(m: str, e: str) -> tuple[float, None]:
    return 1 - _over_devices(e, lambda d, a, b: not _improves(d, f"{a} / {b}")[0]), None


def _improves_everywhere(m: str, e: str) -> tuple[float, None]:
    return _over_devices(e, lambda d, a, b: bool(_improves(d, f"{a} / {b}")[0])), None


def _on_ssds(m: str, e: str) -> tuple[float, None]:
    return float(all(_improves(d, e)[0] for d in ("nvme", "sata"))), None


def _same(m: str, e: str) -> tuple[float, None]:
    first, second = e.split(" / ")
    return float(abs(latency_s(m, first) / latency_s(m, second) - 1) < 0.1), None


def _worse(m: str, e: str) -> tuple[float, None]:
    first, second = e.split(" / ")
    return float(latency_s(m, first) > 1.1 * latency_s(m, second)), None


def _others_a_read(m: str, e: str) -> tuple[float, None]:
    """Bytes that the others get for each read of the target."""
    jobs = run(m, e).jobs
    rate = float(jobs.bytes.iloc[1:].sum() / jobs.elapsed_s.iloc[1])
    return rate * latency_s(m, e), None


def _every_read_hits(m: str, e: str) -> tuple[float, None]:
    """Is each read of the target alone one of the device?"""
    result = run(m, e)
    return float(int(result.state.devices[0].read_requests) == int(result.jobs.operations.iloc[0])), None


def _setting(m: str, e: str) -> tuple[float, None]:
    """Are the jobs what the thread's message says?"""
    _, (reader, *others) = scenario()
    mine = (reader.rw, reader.bs, reader.ioengine, reader.iodepth, reader.numjobs, reader.direct, reader.fdatasync)
    theirs = {(o.rw, o.bs, o.ioengine, o.direct, o.fdatasync) for o in others}
    wanted = {"target": mine == ("randread", 4096, "sync", 1, 1, False, 0),
              "interferer": theirs == {("read", 4096, "sync", False, 0)},
              "filesystem": scenario()[0].filesystem.__class__.__name__ == "Ext4"}  # fmt: skip
    return float(wanted[e]), None


QUANTITIES: dict[str, Callable[[str, str], tuple[float, float | None]]] = {
    "target latency": _latency,
    "latency ratio": _ratio,
    "improves": _improves,
    "improves anywhere": _improves_anywhere,
    "improves everywhere": _improves_everywhere,
    "improves on both SSDs": _on_ssds,
    "same latency": _same,
    "worse latency": _worse,
    "others' bytes a read": _others_a_read,
    "every read hits the device": _every_read_hits,
    "job as stated": _setting,
}
