"""The cgroup controllers in the engine's tables: io.latency, io.max, io.cost (`engine/iolatency.py`, ...)."""

from __future__ import annotations

from .cgroups import LIMITS
from .engine import codes as c
from .engine import iocost, iolatency
from .engine.state import State
from .scenario import Machine


def fill_controllers(s: State, machine: Machine) -> None:
    """Whatever the machine's groups and its io.cost ask for."""
    if machine.cgroups.targets_us:
        fill_latency(s, machine)
    if machine.cgroups.limited:
        fill_limits(s, machine)
    if machine.io_cost is not None:
        fill_cost(s, machine)


def fill_latency(s: State, machine: Machine) -> None:
    """io.latency: targets, windows (16 targets, within 100 ms and 1 s), and nothing limited yet."""
    s.devices[0].io_latency = 1
    s.latency.depth = iolatency.UNLIMITED
    s.latency.seen = s.latency.cookie = iolatency.COOKIE
    s.latency.scale_group = c.NONE
    s.latency.changed_at = -iolatency.BETWEEN_STEPS
    for path, target in machine.cgroups.targets_us.items():
        row = s.latency[machine.cgroups.index(path)]
        row.target = round(target * c.USEC)
        row.window = min(max(16 * row.target, 100 * c.MSEC), c.SEC)


def fill_limits(s: State, machine: Machine) -> None:
    """io.max: a row a group and direction."""
    s.devices[0].io_max = 1
    s.limits.charged_at = -c.SEC
    for g, path in enumerate(machine.cgroups.paths):
        values = [round(getattr(machine.cgroups.of(path), name) or 0) for name in LIMITS]
        s.limits[2 * g].bps, s.limits[2 * g].iops, s.limits[2 * g + 1].bps, s.limits[2 * g + 1].iops = values


def cost_models(machine: Machine) -> tuple[str, ...]:
    """Names of the presets that io.cost may use; none where it is off."""
    if machine.io_cost is None:
        return ()
    return machine.io_cost.models(machine.device.rotational, machine.device.queue_depth)


def fill_cost(s: State, machine: Machine) -> None:
    """io.cost: its models, from the slower to the faster, its targets, and the groups' weights."""
    cost, names = machine.io_cost, cost_models(machine)
    s.devices[0].io_cost = 1
    for i, name in enumerate(names):
        row = s.cost_models[i]
        for column, value in cost.costs(name).items():
            row[column] = value
        rlat, wlat = cost.latencies_us(name)
        row.period = min(max(2 * round(max(rlat, wlat) * c.USEC), c.MSEC), c.SEC)
        row.slower = i - 1
        row.faster = i + 1 if i + 1 < len(names) else c.NONE
    k = s.iocost[0]
    k.vrate = iocost.FULL
    k.vrate_min, k.vrate_max = round(cost.min * 1e-2 * iocost.FULL), round(cost.max * 1e-2 * iocost.FULL)
    k.rlat, k.wlat = (round(us * c.USEC) for us in cost.latencies_us(names[0]))
    k.rpct, k.wpct = round(cost.rpct), round(cost.wpct)
    s.shares.weight = [machine.cgroups.of(path).io_weight for path in machine.cgroups.paths]
