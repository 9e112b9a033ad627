"""Closed networks: processes that go round and round between thinking, the kernel and a device of limited depth.

`network` is exact mean-value analysis of one class of processes (product form: exponential or processor-sharing
stations). The depth limit (NCQ, hardware tags, io.latency's depth) makes the device a subnetwork that holds so many at
most; it is solved by itself and put back as one station whose rate depends on how many are inside (flow equivalence,
exact where those outside wait in order). `classes` is for a few processes of different kinds at one first-come
first-served station, such as a random reader beside fifteen greedy ones: the arrival theorem, approximate as their
commands differ in length. `shared` divides a capacity by weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..devices import Disk
from ..errors import ScenarioError, number


class Network(NamedTuple):
    """Mean values for n processes: cycles a second; seconds in the network (thinking not counted), waiting for a place
    in the device, and inside it; processes inside."""

    throughput: np.ndarray
    response_s: np.ndarray
    waiting_s: np.ndarray
    inside_s: np.ndarray
    inside: np.ndarray


def network(
    n: Any, demands_s: Sequence[float], think_s: float = 0.0, servers: Sequence[int] | int = 1, depth: int | None = None
) -> Network:
    """n processes (a number or an array of them) that think for `think_s`, then visit a device of the stations
    `demands_s` (seconds a cycle at each), each with its number of servers (a delay: as many as there are processes).
    At most `depth` of them are inside the device, the others wait in the order of their arrival.

    Raises ScenarioError for negative times, no process, no server, or a device that takes no time.

    >>> loop = network(32, [100e-6], servers=8, depth=16)  # 16 inside, 16 outside
    >>> float(loop.throughput.round(6)), float(loop.inside_s.round(9)), float(loop.waiting_s.round(9))
    (80000.0, 0.0002, 0.0002)
    """
    many = np.asarray(n)
    for value in (many.min(), many.max()):
        number("n", value.item(), 1, 100_000, "processes", integer=True)
    demands = [number(f"demands_s[{i}]", d, 0, 1e9, "s") for i, d in enumerate(demands_s)]
    if not sum(demands) > 0:
        raise ScenarioError(f"demands_s: {demands_s!r} is a device that takes no time; give at least one time above 0.")
    counts = [servers] * len(demands) if isinstance(servers, int) else list(servers)
    if len(counts) != len(demands):
        raise ScenarioError(f"servers: {len(counts)} for {len(demands)} stations; give one number for each.")
    counts = [number(f"servers[{i}]", m, 1, 10**6, integer=True) for i, m in enumerate(counts)]
    number("think_s", think_s, 0, 1e9, "s")
    if depth is not None:
        number("depth", depth, 1, 10**6, "commands", integer=True)
    most = int(many.max())
    k = np.arange(1, most + 1)
    rates = subnetwork_rates(most, demands, counts)
    allowed = most if depth is None else min(depth, most)
    rates = rates[np.minimum(k, allowed) - 1]
    # the device as one station beside the thinking: a birth-death chain, in logarithms
    levels = np.arange(most + 1)
    per_visit = np.concatenate([[0.0], -np.cumsum(np.log(rates))])
    shape = (*many.shape, most + 1)
    at = np.broadcast_to(many[..., None], shape)
    outside = np.maximum(at - levels, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        thinking = np.where(outside > 0, outside * np.log(think_s), 0.0) - log_factorial(outside)
    weights = np.where(levels <= at, per_visit + thinking, -np.inf)
    p = np.exp(weights - weights.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    throughput = (p[..., 1:] * rates).sum(-1)
    present = (p * levels).sum(-1)
    inside = (p * np.minimum(levels, allowed)).sum(-1)
    return Network(throughput, present / throughput, (present - inside) / throughput, inside / throughput, inside)


def subnetwork_rates(most: int, demands_s: Sequence[float], servers: Sequence[int]) -> np.ndarray:
    """Cycles a second of 1 to `most` processes that go round the stations alone, by convolution.

    >>> subnetwork_rates(3, [1.0], [2]).tolist()
    [1.0, 2.0, 2.0]
    """
    scale = max(d / m for d, m in zip(demands_s, servers, strict=True))
    g = np.zeros(most + 1)
    g[0] = 1.0
    for demand, m in zip(demands_s, servers, strict=True):
        steps = demand / scale / np.minimum(np.arange(1, most + 1), m)
        f = np.concatenate([[1.0], np.cumprod(steps)])
        g = np.convolve(g, f)[: most + 1]
        g /= g.max()
    return g[:-1] / g[1:] / scale


def log_factorial(k: np.ndarray) -> np.ndarray:
    """log(k!) of whole numbers."""
    table = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, int(k.max()) + 1)))])
    return table[k]


class Classes(NamedTuple):
    """Mean values a class: cycles a second, seconds at the station, processes there."""

    throughput: np.ndarray
    response_s: np.ndarray
    queue_length: np.ndarray


def classes(counts: Sequence[int], service_s: Sequence[float], think_s: Sequence[float] | float = 0.0) -> Classes:
    """Processes of several kinds at one first-come first-served server: `counts`, service and think times of each.

    A command that arrives finds what the network without its process holds, and waits for all of it (arrival theorem;
    exact for equal services). Constant services halve the wait for the one in service; that is not counted.

    Raises ScenarioError for a negative count or time, or lists of unequal length.

    >>> reader = classes([1, 30], [0.1e-3, 0.52e-3], [5e-6, 0.0])  # a random reader beside 30 windows of 256 KiB
    >>> float(reader.response_s[0].round(4))
    0.0157
    """
    kinds = len(counts)
    thinks = [think_s] * kinds if np.isscalar(think_s) else list(think_s)  # type: ignore[arg-type]
    if not kinds == len(service_s) == len(thinks) or not kinds:
        raise ScenarioError(f"counts, service_s, think_s: {kinds}, {len(service_s)} and {len(thinks)} values; "
                            "give one of each for every kind of process.")  # fmt: skip
    counts = [number(f"counts[{i}]", n, 0, 10_000, "processes", integer=True) for i, n in enumerate(counts)]
    d = np.array([number(f"service_s[{i}]", x, 1e-12, 1e9, "s") for i, x in enumerate(service_s)])
    z = np.array([number(f"think_s[{i}]", x, 0, 1e9, "s") for i, x in enumerate(thinks)])
    lengths = np.zeros((*(n + 1 for n in counts), kinds))
    x = r = q = np.zeros(kinds)
    for population in product(*(range(n + 1) for n in counts)):
        if not any(population):
            continue
        n = np.array(population)
        before = np.array([lengths[tuple(n - np.eye(kinds, dtype=int)[k])] @ d if n[k] else 0.0 for k in range(kinds)])
        r = d + before
        x = np.where(n > 0, n / (z + r), 0.0)
        q = x * r
        lengths[population] = q
    return Classes(x, r, q)


def shared(capacity: float, weights: Sequence[float], limits: Sequence[float] | None = None) -> np.ndarray:
    """A capacity divided by weights; what one cannot use (its limit) goes to the others in the same proportion.

    Bandwidth where all commands cost the same (blkio or io weight of equal readers), the time of the device where they
    do not: a random reader beside a sequential one has half of the time, not of the bytes.

    Raises ScenarioError for negative numbers, or lists of unequal length.

    >>> shared(400.0, [300, 100]).tolist(), shared(400.0, [300, 100, 100], [50, 1e3, 1e3]).tolist()
    ([300.0, 100.0], [50.0, 175.0, 175.0])
    """
    number("capacity", capacity, 0, 1e18)
    w = np.array([number(f"weights[{i}]", x, 1e-9, 1e9) for i, x in enumerate(weights)])
    most = np.full(len(w), np.inf) if limits is None else np.array(limits, float)
    if len(most) != len(w) or np.any(~(most >= 0)):
        raise ScenarioError(f"limits: {limits!r} is not allowed; give a number of 0 or more for each weight.")
    got = np.zeros(len(w))
    free = np.ones(len(w), bool)
    while free.any():
        share = (capacity - got[~free].sum()) * w / w[free].sum()
        full = free & (share >= most)
        if not full.any():
            got[free] = share[free]
            break
        got[full] = most[full]
        free &= ~full
    return got


def positioning_s(disk: Disk, depth: int = 1, part: float = 1.0) -> float:
    """Mean time until the arm and the platter are where the chosen of `depth` random commands begins: the shortest of
    them under `ncq_choice="shortest"`, else that of any one.

    Each command's time is a seek to a random place within the outermost `part` of the disk and a random turn, and
    the least of `depth` independent ones has the mean of the integral of (1 - F)^depth. A 16-deep queue of random
    readers then has a latency of 16 such times.

    Raises ScenarioError for a device that is no disk, or a depth below 1.

    >>> round(positioning_s(Disk(), 16) / positioning_s(Disk()), 2)
    0.51
    """
    if not isinstance(disk, Disk):
        raise ScenarioError(f"disk: {disk!r} has no arm; give a Disk.")
    number("depth", depth, 1, 10_000, "commands", integer=True)
    number("part", part, 1e-6, 1)
    tracks = np.cumsum([0.0, *(1 / rate for rate in disk.zones_MBs)])
    places = (np.arange(200) + 0.5) / 200 * part
    radius = np.interp(places, np.linspace(0, 1, len(tracks)), tracks / tracks[-1])
    seeks = disk.seek_ms(np.abs(radius[:, None] - radius)).ravel() * 1e-3
    turns = (np.arange(100) + 0.5) / 100 * disk.turn_s
    times = np.sort((seeks[:, None] + turns).ravel())
    if disk.ncq_choice != "shortest":
        return float(times.mean())
    survive = 1 - np.arange(len(times)) / len(times)
    return float(times[0] + (np.diff(times) * survive[1:] ** depth).sum())


__all__ = ["Classes", "Network", "classes", "network", "positioning_s", "shared"]
