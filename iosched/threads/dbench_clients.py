"""Thread 1's follow-ups: the time of a load-file run with 1 to 128 clients, before and after fixes of BFQ.

Source: linux-block, 26 August 2020 (mmtests dbench4, load client-tiny), and later changes to the waker rules. Said of
the machine is: one of four, two with a disk and two with a SATA SSD. Here it is an SSD under ext4, everything in one
cgroup, on modern cores, as many as wanted. What is unknown of its device, the time of a command and how many it works
on at once, is fitted on the two ends of the row with the fixes (1 and 64 clients); all other figures of that row, and
the whole row without the fixes, are predicted.

The fixes (think time from idle periods only, no false merges) are taken as the BFQ of 5.12, the first release that has
them; it has others as well. What the model says of them: without the fixes three to six clients, which ones hangs on
microseconds, fall into a state that ends with weight raising (low_latency=0 has no such state). It is the live waker
branch of 5.12 that ends it; idle-only think time alone, or all of 5.12 with the wakers of 5.8, does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise

from ..devices import ConstantTime
from ..host import fitted_host
from ..scenario import Machine
from ..schedulers import BFQ
from ..simulation import simulate
from ..workloads import dbench

KERNEL = "5.8"
FIXED = BFQ(kernel="5.12")
SCHEDULERS = {"vanilla": BFQ(), "fixed": FIXED, **{v: BFQ(kernel=v) for v in ("5.16", "5.17", "5.18", "5.19")}}
COUNTS = (1, 2, 4, 8, 16, 32, 64)
BETWEEN = (3, 4, 5, 6, 7)
ONE_CLIENT_S, ALL_CLIENTS_S = 0.0321, 0.28944  # the fitted figures
MODERN_CORE = 4.0
ALIKE = 1.2  # two rows are alike up to this ratio
MULTIPLE = 2.0
NOT_SHORTER = 0.95  # a run of 16 s repeats within so much from one microsecond of the device to the next


def machine_with(device: ConstantTime, scheduler: BFQ = FIXED) -> Machine:
    """The SSD's machine; the host's costs are those of the measured kernel below, whatever BFQ runs."""
    return Machine(
        kernel=KERNEL, device=device, scheduler=scheduler, host=replace(fitted_host(KERNEL, speed=MODERN_CORE), cpus=0)
    )


def load_run_s(clients: int, machine: Machine) -> float:
    """Seconds a client needs for the tiny load file, on average."""
    job = dbench(clients=clients, load="client-tiny")
    result = simulate(machine, job)
    runs = int(result.jobs.operations.sum()) / int(result.state.tasks[0].n_steps)
    return clients * job.runtime / runs


@cache
def device() -> ConstantTime:
    """The SSD: its time of a command from one client, its commands at once from 64.

    >>> device().servers
    2
    """
    low, high = 100.0, 300.0
    at_low, at_high = (load_run_s(1, machine_with(_ssd(us))) for us in (low, high))
    for _ in range(2):
        wanted = low + (ONE_CLIENT_S - at_low) * (high - low) / (at_high - at_low)
        low, at_low, high, at_high = high, at_high, wanted, load_run_s(1, machine_with(_ssd(wanted)))
    us = round(high, 2)
    most = max(COUNTS)
    return min(
        (_ssd(us, n) for n in (1, 2, 3, 4)), key=lambda ssd: abs(load_run_s(most, machine_with(ssd)) - ALL_CLIENTS_S)
    )


def _ssd(completion_us: float, servers: int = 1) -> ConstantTime:
    return ConstantTime(completion_us, servers=servers, rotational=False)


@cache
def time(clients: int, version: str) -> float:
    """Seconds of a load-file run with so many clients under one of `SCHEDULERS`."""
    return load_run_s(clients, machine_with(device(), SCHEDULERS[version]))


def ratio(clients: int, version: str, other: str) -> float:
    """How many times as long it takes under `version` as under `other`."""
    return time(clients, version) / time(clients, other)


def grows() -> float:
    """Does a run take the longer, the more clients there are?"""
    row = [time(n, "fixed") for n in COUNTS]
    never_shorter = all(b > NOT_SHORTER * a for a, b in pairwise(row))
    return float(never_shorter and row[-1] > MULTIPLE * row[0])


def shared() -> float:
    """Do the clients together do the more runs a second, the more they are?"""
    rates = [n / time(n, "fixed") for n in COUNTS]
    return float(rates == sorted(rates))


def only_between() -> float:
    """Do the fixes gain a multiple at some count between two and eight clients, and nothing elsewhere?"""
    inside = max(ratio(n, "vanilla", "fixed") for n in BETWEEN)
    outside = [ratio(n, "vanilla", "fixed") for n in COUNTS if n not in BETWEEN]
    return float(inside >= MULTIPLE and max(outside) <= ALIKE and min(outside) >= 1 / ALIKE)


def _clients(experiment: str) -> int:
    """The 4 of "4 clients"."""
    return int(experiment.split()[0])


QUANTITIES: dict[str, Callable[[str], float]] = {
    "time a load-file run": lambda e: time(_clients(e), "fixed"),
    "vanilla over fixed": lambda e: ratio(_clients(e), "vanilla", "fixed"),
    "5.17 over 5.16": lambda e: ratio(_clients(e), "5.17", "5.16"),
    "5.19 over 5.18": lambda e: ratio(_clients(e), "5.19", "5.18"),
    "grows with clients": lambda e: grows(),
    "clients share commits": lambda e: shared(),
    "loss between two and eight clients only": lambda e: only_between(),
}
