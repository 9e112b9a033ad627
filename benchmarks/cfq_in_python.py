"""Thread 0's scheduler as plain Python: what iosched also does for each request of this scenario, as objects.

Bios and requests with their times, the log's two blocks merged into one request, two cgroups with virtual time and the
service trees of their queues, think-time records that decide whether a window is opened at all, slices, preemption by
the cgroup tree; and the same books: busy, held and empty time of the device, Little's sums, each write's latency.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from networks import COMMAND, COMMIT, DATA, IDLE, LOG, NEXT

SLICE = 0.1
SECTORS = {DATA: (8,), LOG: (8, 8), COMMIT: (8,)}


class Request:
    __slots__ = ("arrived", "bios", "issued", "kind", "queue", "sector", "sectors", "serial")

    def __init__(self, serial: int, kind: int, queue: Queue, sector: int, sectors: int, now: float) -> None:
        self.serial, self.kind, self.queue, self.sector, self.sectors = serial, kind, queue, sector, sectors
        self.bios = [(sector, sectors)]
        self.arrived, self.issued = now, 0.0


class Group:
    __slots__ = ("parent", "queues", "used", "virtual", "weight")

    def __init__(self, parent: Group | None, weight: int) -> None:
        self.parent, self.weight = parent, weight
        self.virtual, self.used = 0.0, 0.0
        self.queues: list[Queue] = []


class Queue:
    """A process's sync queue with its think-time record (samples and total decay by an eighth)."""

    __slots__ = ("group", "last_end", "mean", "position", "requests", "samples", "slice_end", "slice_start", "total")

    def __init__(self, group: Group) -> None:
        self.group = group
        self.requests: deque = deque()
        self.samples, self.total, self.mean, self.last_end = 0.0, 0.0, 0.0, 0.0
        self.slice_start = self.slice_end = 0.0
        self.position = 0

    def think(self, now: float) -> None:
        elapsed = min(now - self.last_end, 2 * IDLE)
        self.samples = (7 * self.samples + 256) / 8
        self.total = (7 * self.total + 256 * elapsed) / 8
        self.mean = (self.total + 128e-9) / self.samples


class Cfq:
    """The block layer of the scenario; `schedule(delay, function, argument)` and `clock()` are the tool's."""

    def __init__(self, schedule: Callable, clock: Callable[[], float]) -> None:
        self.schedule, self.clock = schedule, clock
        root = Group(None, 1000)
        child = Group(root, 500)
        self.groups = (root, child)
        self.dd, self.jbd2 = Queue(child), Queue(root)
        child.queues.append(self.dd)
        root.queues.append(self.jbd2)
        self.active: Queue | None = None
        self.idling = False
        self.window = 0
        self.in_device: Request | None = None
        self.served, self.serial, self.in_system = 0, 0, 0
        self.accounted = self.busy = self.held = self.empty = self.area = self.sojourn = 0.0
        self.write_began = 0.0
        self.latency_sum, self.latency_max, self.writes = 0.0, 0.0, 0
        self.histogram: dict[int, int] = {}
        self.idle_windows = {"opened": 0, "fired": 0, "fired_held": 0}
        self.next_sector = [0, 1 << 20]

    def account(self) -> None:
        now = self.clock()
        passed = now - self.accounted
        if passed > 0:
            self.area += passed * self.in_system
            if self.in_device is not None:
                self.busy += passed
            elif self.in_system:
                self.held += passed
            else:
                self.empty += passed
            self.accounted = now

    def submit(self, kind: int) -> None:
        self.account()
        now = self.clock()
        queue = self.dd if kind == DATA else self.jbd2
        if kind == DATA:
            self.write_began = now
        which = 0 if kind == DATA else 1
        plugged: list[Request] = []
        for sectors in SECTORS[kind]:
            sector = self.next_sector[which]
            self.next_sector[which] += sectors
            last = plugged[-1] if plugged else None
            if last is not None and last.sector + last.sectors == sector:
                last.bios.append((sector, sectors))
                last.sectors += sectors
                continue
            self.serial += 1
            plugged.append(Request(self.serial, kind, queue, sector, sectors, now))
        for request in plugged:
            queue.think(now)
            queue.requests.append(request)
            self.in_system += 1
        if self.in_device is None and self.may_go(queue):
            self.dispatch()

    def may_go(self, queue: Queue) -> bool:
        active = self.active
        if active is None or not self.idling or active is queue:
            return True
        group: Group | None = active.group
        while group is not None:
            if group is queue.group:
                self.expire()
                return True
            group = group.parent
        return False

    def expire(self) -> None:
        queue = self.active
        if queue is not None:
            used = self.clock() - queue.slice_start
            queue.group.used += used
            queue.group.virtual += used * 500 / queue.group.weight
        self.active, self.idling = None, False
        self.window += 1

    def choose(self) -> Queue | None:
        best = None
        for group in self.groups:
            for queue in group.queues:
                if queue.requests and (best is None or group.virtual < best.group.virtual):
                    best = queue
        return best

    def dispatch(self) -> None:
        now = self.clock()
        queue = self.active
        if queue is None or not queue.requests or now > queue.slice_end:
            self.expire()
            queue = self.choose()
            if queue is None:
                return
            self.active = queue
            queue.slice_start, queue.slice_end = now, now + SLICE
        self.idling = False
        self.window += 1
        request = queue.requests.popleft()
        request.issued = now
        self.account()
        self.in_device = request
        self.schedule(COMMAND, self.completed, request)

    def completed(self, request: Request) -> None:
        self.account()
        now = self.clock()
        self.in_device = None
        self.in_system -= 1
        self.served += 1
        self.sojourn += now - request.arrived
        queue = request.queue
        queue.last_end = now
        queue.position = request.sector + request.sectors
        if request.kind == COMMIT:
            self.end_of_write(now - self.write_began)
        if queue.requests:
            self.dispatch()
        elif not (queue.samples > 80 and queue.mean > IDLE):
            self.idling = True
            self.window += 1
            self.idle_windows["opened"] += 1
            self.schedule(IDLE, self.timer, self.window)
        after, delay = NEXT[request.kind]
        self.schedule(delay, self.submit, after)

    def end_of_write(self, latency: float) -> None:
        self.writes += 1
        self.latency_sum += latency
        self.latency_max = max(self.latency_max, latency)
        bucket = int(latency * 1e9).bit_length()
        self.histogram[bucket] = self.histogram.get(bucket, 0) + 1

    def timer(self, window: int) -> None:
        if window != self.window:
            return
        self.account()
        self.idle_windows["fired"] += 1
        if self.in_system:
            self.idle_windows["fired_held"] += 1
        self.expire()
        self.dispatch()
