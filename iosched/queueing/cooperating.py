"""Closed form of a stream that several tasks serve: how much of it old CFQ stalls.

A client asks for a burst of `b` pieces at once, `k = min(tasks, b)` tasks take them, and each has a queue of its own.
When the active queue's last request completes, CFQ keeps the device for it although the next piece is there, in another
queue: one stall of `slice_idle` a switch, at most `k - 1` a burst. The stalls lengthen the tasks' think times, and a
task whose mean think time exceeds slice_idle is not waited for any more (spec block-layer 2.1, 2.2). A sample counts at
most two slice_idle, and the mean is rounded to ticks, so that it stays below the limit up to half a tick above it: with
`s` stalls spread over a burst, a task sees the stalls from its own to the last, and the mean of min(2, u s) over u from
0 to 1 is 2 - 2/s in units of slice_idle. It reaches the limit (n + 1/2)/n of n ticks at

    s = 1 + 2 / (2 - (n + 1/2)/n),

the 1 being the task's own. Where a piece comes in several bios and a burst brings more pieces than there are tasks,
the mean never gets there: a first bio that goes by itself, and a next piece at once, are samples of no think time, and
every switch is waited out. So between two stalls a = b/s pieces are served, and

    rate = a x piece / (slice_idle + a x service),

which is "active tasks x request / (slice_idle + service)" with pieces for tasks. It is never more than the link or the
disks allow. Without CFQ's idling, with cooperating queues, one io_context, or pieces asked for one by one (each arrives
while CFQ idles, and preempts) nothing is lost.
"""

from __future__ import annotations

from typing import NamedTuple

from ..devices import Channels, Disk
from ..errors import ScenarioError
from ..scenario import Machine
from ..schedulers import OldCFQ
from ..workloads import SharedReader

CAP = 2  # slice_idles that a think time counts at most


class Cooperation(NamedTuple):
    """`bytes_per_s` of the stream, `limit_bytes_per_s` without stalls, `stalls` a burst, `cycle_s` of a burst."""

    bytes_per_s: float
    limit_bytes_per_s: float
    stalls: float
    cycle_s: float


def cooperating(machine: Machine, job: SharedReader) -> Cooperation:
    """The rate of a client's stream by formula. It holds for bursts that do not overlap (`ahead` = `burst`), and is
    within a third of the simulator for 2 to 16 threads, bursts of 4 to 32 pieces and HZ of 100 to 1000 (see the tests).

    Raises ScenarioError for anything else.

    >>> import iosched as io
    >>> from iosched.threads import nfs
    >>> form = cooperating(*nfs.scenario("cfq"))
    >>> round(form.bytes_per_s / 1e6), round(form.limit_bytes_per_s / 1e6)
    (34, 93)
    """
    if not isinstance(job, SharedReader) or not job.client:
        raise ScenarioError(f"jobs: {job.name!r} has no client; this form answers for nfs_read alone.")
    smooth = job.burst == 1
    if not smooth and job.ahead_pieces != job.burst:
        raise ScenarioError(
            f"shared.ahead: {job.ahead_pieces} pieces are more than a burst of {job.burst}, so that bursts overlap, "
            "beyond the closed form; simulate() it, or give ahead=burst."
        )
    burst = job.ahead_pieces
    service = piece_s(machine, job)
    link = job.client_us * 1e-6 + (0 if job.network_MBs is None else job.bs / job.network_MBs * 1e-6)
    ends = service + link + job.latency_us * 1e-6  # of the first piece, or the last
    unhindered = ends + (burst - 1) * max(service, link)
    if smooth:
        unhindered = burst * max(service, link, ends / burst)
    stalls = 0.0 if smooth else stalls_a_burst(machine, job)
    tick = 1 / machine.host.hz
    held = 0.0
    if stalls:
        # the first stall begins somewhere in a tick, the others where one ended
        held = stalls * machine.scheduler.slice_idle_ticks(machine.host.hz) * tick - tick / 2
    cycle = max(unhindered, held + (burst - 1) * service + ends)
    return Cooperation(burst * job.bs / cycle, burst * job.bs / unhindered, stalls, cycle)


def stalls_a_burst(machine: Machine, job: SharedReader) -> float:
    """Idle windows that run out in vain while one burst is read."""
    scheduler = machine.scheduler
    if not isinstance(scheduler, OldCFQ) or job.shares_context or scheduler.rule(machine.version) != "none":
        return 0.0
    ticks = scheduler.slice_idle_ticks(machine.host.hz)
    if ticks == 0:
        return 0.0
    tasks = min(job.threads if job.tasks is None else job.tasks, job.burst)
    volume = machine.volume
    if not job.direct and volume is not None and volume.bio_kb is not None and job.bs > volume.bio_kb * 1024:
        if job.burst > tasks:
            return tasks - 1.0
    return min(tasks - 1.0, 1 + 2 / (CAP - (ticks + 0.5) / ticks))


def piece_s(machine: Machine, job: SharedReader) -> float:
    """Seconds that the disks need for a piece: all of a striped volume's work on it."""
    device, volume = machine.device, machine.volume
    disks = volume.disks if volume is not None and volume.layout == "striped" else 1
    if isinstance(device, Disk):
        rate = device.zones_MBs[0] * 1e6
    elif isinstance(device, Channels):
        rate = device.bandwidth_MBs * 1e6
    else:
        return device.completion_us * 1e-6
    own = 0.0 if isinstance(device, Disk) and device.command_overlap else device.completion_us * 1e-6
    return own + job.bs / (disks * rate)
