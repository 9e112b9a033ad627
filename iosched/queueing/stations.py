"""Closed loops of several jobs at one station: asymptotic bounds, and exact mean values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import ScenarioError, number


class Bounds(NamedTuple):
    """Operations a second: at least `lower`, at most `upper`; at `knee` jobs the asymptotes meet."""

    lower: np.ndarray
    upper: np.ndarray
    knee: np.ndarray


def bounds(n_jobs: Any, service_s: Any, think_s: Any = 0.0, servers: Any = 1) -> Bounds:
    """Asymptotic bounds of a closed loop: each job spends `service_s` at a station of `servers` servers, then
    `think_s` elsewhere. All arguments broadcast.

    upper = min(n/(service + think), servers/service) holds for any distribution. lower = n/(think + service (1 +
    (n-1)/servers)) holds for a station that never idles while jobs wait and jobs of equal mean, first come first
    served, with constant or exponential service. The knee is servers (service + think)/service.

    Raises ScenarioError for negative times, no service time, no job or no server.

    >>> limits = bounds(4, 100e-6, 100e-6)
    >>> float(limits.upper.round(6)), float(limits.knee)
    (10000.0, 2.0)
    """
    n, d, z, m = _loop_arguments(n_jobs, service_s, think_s, servers)
    upper = np.minimum(n / (d + z), m / d)
    lower = n / (z + d * (1 + (n - 1) / m))
    return Bounds(*np.broadcast_arrays(np.minimum(lower, upper), upper, m * (d + z) / d))


class ClosedLoop(NamedTuple):
    """Mean values: operations a second, seconds at the station, jobs at the station, share of its servers in use."""

    throughput: np.ndarray
    response_s: np.ndarray
    queue_length: np.ndarray
    utilization: np.ndarray


def mva(n: Any, service_s: Any, think_s: Any = 0.0, servers: Any = 1) -> ClosedLoop:
    """Exact mean values of a closed loop: n jobs, one station of `servers` servers (its rate grows with the jobs there
    up to that number), and `think_s` elsewhere. All arguments broadcast.

    The station's population is a birth-death chain, p_k proportional to n!/(n-k)! (service/think)^k / prod min(i,
    servers), which gives what mean-value analysis gives without its loss of digits when servers are many. Exact for
    exponential service with any think time (the machine repairman); constant service lies between this and `bounds`.

    Raises ScenarioError for negative times, no service time, no job or no server.

    >>> loop = mva(2, 1.0, 1.0)
    >>> float(loop.throughput.round(6)), float(loop.queue_length.round(6))
    (0.8, 1.2)
    """
    n, d, z, m = _loop_arguments(n, service_s, think_s, servers, whole=True)
    n, d, z, m = np.broadcast_arrays(n, d, z, m)
    k = np.arange(int(np.max(n)) + 1)
    at, d, z, m = (a[..., None] for a in (n, d, z, m))
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.log(np.maximum(at - k[1:] + 1, 0)) + np.log(d) - np.log(np.minimum(k[1:], m))
        log_z = np.log(z)  # weights times z^n, so that no think time is a limit and not a division by zero
        weights = np.concatenate([np.zeros((*n.shape, 1)), np.cumsum(steps, -1)], -1)
        weights = weights + np.where(at > k, (at - k) * log_z, 0.0)
    weights = np.where(k <= at, weights, -np.inf)
    p = np.exp(weights - weights.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    busy = (p * np.minimum(k, m)).sum(-1)
    length = (p * k).sum(-1)
    throughput = busy / d[..., 0]
    return ClosedLoop(throughput, length / throughput, length, busy / m[..., 0])


def _loop_arguments(n: Any, service: Any, think: Any, servers: Any, whole: bool = False) -> list[np.ndarray]:
    """Checked arrays (jobs, service, think, servers)."""
    checked = []
    wanted = (("n_jobs", n, 1, "jobs", whole), ("service_s", service, 1e-12, "s", False),
              ("think_s", think, 0, "s", False), ("servers", servers, 1, "", whole))  # fmt: skip
    for field, value, low, unit, integer in wanted:
        array = np.asarray(value, float)
        if array.size == 0:
            raise ScenarioError(f"{field}: it is empty; give at least one value.")
        for end in (np.min(array), np.max(array)):
            number(field, end.item(), low, 1e9, unit)
        if integer and np.any(array != np.floor(array)):
            raise ScenarioError(f"{field}: {value!r} is not allowed; give whole numbers.")
        checked.append(array)
    try:
        np.broadcast_shapes(*(a.shape for a in checked))
    except ValueError:
        shapes = ", ".join(str(a.shape) for a in checked)
        raise ScenarioError(f"n_jobs, service_s, think_s, servers: the shapes {shapes} do not broadcast.") from None
    return checked
