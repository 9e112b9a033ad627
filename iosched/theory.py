"""Queueing theory's exact results against the simulator: M/M/1, M/G/1, priorities, polling, the machine repairman.

Open queues are made of processes that do one read each and begin at the points of a Poisson process; the host costs
nothing, so a read's latency is its time in the system. The first and the last arrivals are left out: those find an
empty system, these have nobody behind them. Each row is the mean over replications with its confidence interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .devices import Channels, ConstantTime, exponential, single
from .engine import codes as c
from .engine.loop import run
from .fio import Fio, fio
from .host import Host
from .laws import check_laws
from .points import LARGEST_SEED, is_random, with_seeds
from .programs import compile_scenario
from .queueing import mva
from .scenario import Machine, Scenario
from .schedulers import BFQ, CFQ

if TYPE_CHECKING:
    import pandas as pd

SERVICE_S = 100e-6
ARRIVALS, FIRST, END = 500, 100, 440  # of a replication, and which of them count
REPLICATIONS = 120
SEED = 2026
LEVEL = 0.99
FREE = Host(request_us=0, request_mq_us=0, wakeup_us=0, raw_us=0, read_us=0, copy_us=0, cpus=0)
NS = 1e-9


# ---------------------------------------------------------------------------------------------------------------------
# the formulas; times in any one unit


def mg1_wait(rate: float, mean: float, square: float) -> float:
    """Mean wait of M/G/1 (Pollaczek and Khinchine): arrivals a unit of time, service's mean and mean square.

    Any order that neither idles nor looks at service times gives the same mean.

    >>> mg1_wait(0.5, 1.0, 2.0), mg1_wait(0.5, 1.0, 1.0)  # exponential and constant service
    (1.0, 0.5)
    """
    return rate * square / 2 / (1 - rate * mean)


def priority_waits(rates: Sequence[float], means: Sequence[float], squares: Sequence[float]) -> list[float]:
    """Mean waits of M/G/1 with classes, the first served first, nobody interrupted (Cobham).

    >>> [round(w, 4) for w in priority_waits([0.25, 0.25], [1, 1], [2, 2])]
    [0.6667, 1.3333]
    """
    left = sum(r * s for r, s in zip(rates, squares)) / 2
    load = np.cumsum([0.0, *(r * m for r, m in zip(rates, means))])
    return [float(left / ((1 - before) * (1 - after))) for before, after in zip(load, load[1:])]


# ---------------------------------------------------------------------------------------------------------------------
# the simulator


@dataclass(frozen=True)
class Check:
    """A quantity by theory, and the mean and the confidence interval of its simulations."""

    law: str
    quantity: str
    unit: str
    theory: float
    mean: float
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """Is theory's value within the interval?"""
        return self.low <= self.theory <= self.high


def poisson_reads(rng: np.random.Generator, rate: float, **options: Sequence) -> list[Fio]:
    """Processes with one read each, `rate` a second; `options` are lists of fields of fio, one entry a read."""
    at = np.cumsum(rng.exponential(1 / rate, ARRIVALS))
    common = {"rw": "randread", "direct": True, "loops": 1, "runtime": 1000.0}
    jobs = []
    for k, start in enumerate(at):
        own = {name: values[k] for name, values in options.items()}
        own.setdefault("bs", 4096)
        jobs.append(fio(size=own["bs"], start=float(start), **common, **own))
    return jobs


def latencies(machine: Machine, jobs: list[Fio], sequence: np.random.SeedSequence) -> np.ndarray:
    """Seconds of each process's read, of those that count."""
    if is_random(machine.device):
        machine = machine.with_(**{"device.seed": int(sequence.generate_state(1)[0] % LARGEST_SEED) + 1})
    s = compile_scenario(Scenario(machine, jobs))
    check_laws(s, run(s, c.NEVER - 1, c.NEVER))
    return s.tasks.latency_sum[FIRST:END] * NS


def machine_of(device: ConstantTime, scheduler: object = "noop", kernel: str = "4.19") -> Machine:
    """A machine whose host costs nothing and whose queues are long enough."""
    return Machine(kernel=kernel, device=device, filesystem="raw", scheduler=scheduler, host=FREE, nr_requests=2048)


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and Student's interval at `LEVEL`."""
    from scipy.stats import t

    x = np.asarray(values)
    half = t.ppf((1 + LEVEL) / 2, len(x) - 1) * x.std(ddof=1) / len(x) ** 0.5
    return float(x.mean()), float(x.mean() - half), float(x.mean() + half)


def replicate(one: Callable[[np.random.Generator, np.random.SeedSequence], Sequence[float]], n: int, seed: int) -> list:
    """Intervals of each number that `one` returns, over `n` replications with spawned seeds."""
    children = np.random.SeedSequence(seed).spawn(n)
    rows = [one(np.random.default_rng(child), child) for child in children]
    return [interval(column) for column in zip(*rows)]


# ---------------------------------------------------------------------------------------------------------------------
# the laws


def mm1(load: float, n: int, seed: int) -> list[Check]:
    """Time in the system of M/M/1: service / (1 - load)."""

    def one(rng, child):
        jobs = poisson_reads(rng, load / SERVICE_S)
        return [latencies(machine_of(exponential(SERVICE_S * 1e6)), jobs, child).mean()]

    (found,) = replicate(one, n, seed)
    return [Check("M/M/1", f"time in the system at load {load}", "s", SERVICE_S / (1 - load), *found)]


def md1(load: float, n: int, seed: int) -> list[Check]:
    """M/G/1 with constant service."""

    def one(rng, child):
        return [latencies(machine_of(single(SERVICE_S * 1e6)), poisson_reads(rng, load / SERVICE_S), child).mean()]

    (found,) = replicate(one, n, seed)
    theory = SERVICE_S + mg1_wait(load / SERVICE_S, SERVICE_S, SERVICE_S**2)
    return [Check("M/G/1, constant", f"time in the system at load {load}", "s", theory, *found)]


SIZES = {4096: 0.9, 262_144: 0.1}  # bytes: share; on the channel below 24 and 540 us
CHANNEL = Channels(completion_us=16.0, bandwidth_MBs=500.0, servers=1, queue_depth=1)


def size_moments() -> tuple[float, float]:
    """Mean and mean square of the two-sized service, in seconds."""
    times = {bs: CHANNEL.completion_us * 1e-6 + bs / (CHANNEL.bandwidth_MBs * 1e6) for bs in SIZES}
    return sum(p * times[b] for b, p in SIZES.items()), sum(p * times[b] ** 2 for b, p in SIZES.items())


def mixed(scheduler: object, kernel: str, law: str, load: float, n: int, seed: int) -> list[Check]:
    """M/G/1 with few long services among many short ones, under a scheduler: the load-weighted mean wait is that of
    first come, first served in whatever order the classes are served (Kleinrock's conservation law)."""
    mean, square = size_moments()
    rate = load / mean

    def one(rng, child):
        bs = rng.choice(list(SIZES), ARRIVALS, p=list(SIZES.values()))
        times = latencies(machine_of(CHANNEL, scheduler, kernel), poisson_reads(rng, rate, bs=bs.tolist()), child)
        service = CHANNEL.completion_us * 1e-6 + bs[FIRST:END] / (CHANNEL.bandwidth_MBs * 1e6)
        return [float(np.sum(service * (times - service)) / (END - FIRST) / mean)]

    (found,) = replicate(one, n, seed)
    theory = mg1_wait(rate, mean, square)
    return [Check(law, f"load-weighted wait at load {load}", "s", theory, *found)]


def priorities(load: float, n: int, seed: int) -> list[Check]:
    """mq-deadline of 6.1 with reads of three priority classes on a device that takes one command at a time."""
    classes, share = ("realtime", "best-effort", "idle"), 1 / 3

    def one(rng, child):
        drawn = rng.integers(0, 3, ARRIVALS)
        jobs = poisson_reads(rng, load / SERVICE_S, ioclass=[classes[k] for k in drawn])
        device = exponential(SERVICE_S * 1e6, queue_depth=1)
        times = latencies(machine_of(device, "mq-deadline", "6.1"), jobs, child)
        return [times[drawn[FIRST:END] == k].mean() for k in range(3)]

    found = replicate(one, n, seed)
    waits = priority_waits([load * share / SERVICE_S] * 3, [SERVICE_S] * 3, [2 * SERVICE_S**2] * 3)
    return [
        Check("priorities (Cobham)", f"time in the system, {name}", "s", wait + SERVICE_S, *each)
        for name, wait, each in zip(classes, waits, found)
    ]


def repair(jobs: int, servers: int, n: int, seed: int) -> list[Check]:
    """The machine repairman: closed processes that think a constant time and one queue for `servers` exponential
    servers; its mean values do not depend on how think times are distributed."""
    think, runtime = 5 * SERVICE_S, 10.0
    machine = machine_of(exponential(SERVICE_S * 1e6, servers=servers))
    job = fio("randread", direct=True, thinktime_us=think * 1e6, runtime=runtime, numjobs=jobs)

    def one(_, child):
        s = compile_scenario(with_seeds(Scenario(machine, [job]), child))
        check_laws(s, run(s, c.NEVER - 1, c.NEVER))
        done = int(s.tasks.done_ops.sum())
        return [done / runtime, int(s.tasks.latency_sum.sum()) * NS / done]

    found = replicate(one, max(n // 6, 5), seed)
    theory = mva(jobs, SERVICE_S, think, servers)
    law = f"machine repairman, {jobs} machines, {servers} server{'s' * (servers > 1)}"
    return [
        Check(law, "operations a second", "1/s", float(theory.throughput), *found[0]),
        Check(law, "time at the station", "s", float(theory.response_s), *found[1]),
    ]


LAWS: tuple[Callable[[int, int], list[Check]], ...] = (
    lambda n, seed: mm1(0.5, n, seed),
    lambda n, seed: mm1(0.7, n, seed),
    lambda n, seed: md1(0.7, n, seed),
    lambda n, seed: mixed("noop", "4.19", "M/G/1, two sizes (noop)", 0.6, n, seed),
    lambda n, seed: mixed(CFQ(slice_idle=0, group_idle=0), "4.19", "polling (CFQ, no idling)", 0.6, n, seed),
    lambda n, seed: mixed(BFQ(slice_idle=0), "5.10", "polling (BFQ, no idling)", 0.6, n, seed),
    lambda n, seed: mixed("kyber", "5.10", "M/G/1, two sizes (kyber)", 0.6, n, seed),
    lambda n, seed: priorities(0.6, n, seed),
    lambda n, seed: repair(8, 1, n, seed),
    lambda n, seed: repair(12, 2, n, seed),
)


def checks(replications: int = REPLICATIONS, seed: int = SEED) -> list[Check]:
    """Every law, each with replications and a seed of its own."""
    return [check for k, law in enumerate(LAWS) for check in law(replications, seed + k)]


def table(found: Sequence[Check]) -> pd.DataFrame:
    """One row a check: law, quantity, unit, theory, mean, low, high, inside."""
    import pandas as pd

    return pd.DataFrame([{**vars(check), "inside": check.inside} for check in found])


__all__ = ["Check", "checks", "mg1_wait", "priority_waits", "table"]
