"""Two systems, written once for each tool: a closed network of jobs, and thread 0's dd under CFQ.

The closed network: JOBS that think a constant time, one queue, one exponential server. Thread 0: dd writes and waits,
jbd2 writes the log and the commit block, one device; CFQ keeps the device idle for jbd2 after its commit, while dd's
next write waits (dd may not preempt), and jbd2 preempts at once when it is dd that is waited for. Its CPU gaps are
those of iosched's host, so all tools must come to the same time a write. Each function takes a number of requests and
returns (requests served, simulated seconds).
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable

JOBS, THINK, SERVICE = 16, 500e-6, 100e-6
COMMAND, IDLE = 105e-6, 8e-3  # a command with the driver's part; slice_idle
TO_LOG, TO_COMMIT, TO_DATA = 37e-6, 12e-6, 23e-6  # CPU between completion and next request (data/README.md)
DATA, LOG, COMMIT = range(3)
NEXT = {DATA: (LOG, TO_LOG), LOG: (COMMIT, TO_COMMIT), COMMIT: (DATA, TO_DATA)}


def theory_closed() -> float:
    """Requests a second of the closed network, exactly (the machine repairman)."""
    p = [1.0]
    for k in range(1, JOBS + 1):
        p.append(p[-1] * (JOBS - k + 1) * SERVICE / THINK)
    return (1 - p[0] / sum(p)) / SERVICE


def theory_thread0() -> float:
    """Requests a second of thread 0: three in a window and a chain."""
    return 3 / (IDLE + 3 * COMMAND + TO_LOG + TO_COMMIT)


# --- plain Python: a heap of events ----------------------------------------------------------------------------------


def heapq_closed(n: int) -> tuple[int, float]:
    heap: list = []
    order = itertools.count()
    push, pop, ln, rnd = heapq.heappush, heapq.heappop, math.log, random.Random(1).random
    for job in range(JOBS):
        push(heap, (THINK, next(order), 0, job))
    waiting: deque = deque()
    served, now = 0, 0.0
    while served < n:
        now, _, kind, job = pop(heap)
        if kind == 0:
            waiting.append(job)
            if len(waiting) > 1:
                continue
        else:
            served += 1
            waiting.popleft()
            push(heap, (now + THINK, next(order), 0, job))
            if not waiting:
                continue
        push(heap, (now - SERVICE * ln(1.0 - rnd()), next(order), 1, waiting[0]))
    return served, now


class Anticipation:
    """The idle rule and nothing else: one device, two queues, an idle window after each completion."""

    def __init__(self, schedule: Callable) -> None:
        self.schedule = schedule  # (delay, function, argument)
        self.busy, self.idling_for, self.window = False, None, 0
        self.waiting: deque = deque()
        self.served = 0

    def submit(self, request: int) -> None:
        queue = 0 if request == DATA else 1  # dd's, jbd2's
        self.waiting.append((queue, request))
        if self.busy:
            return
        if self.idling_for is None or self.idling_for == queue or queue == 1:  # jbd2's cgroup is dd's ancestor
            self.dispatch()

    def dispatch(self) -> None:
        self.idling_for = None
        self.window += 1
        queue, request = self.waiting.popleft()
        self.busy = True
        self.schedule(COMMAND, self.completed, (queue, request))

    def completed(self, what: tuple[int, int]) -> None:
        queue, request = what
        self.busy = False
        self.served += 1
        self.idling_for = queue
        self.window += 1
        self.schedule(IDLE, self.timer, self.window)
        after, delay = NEXT[request]
        self.schedule(delay, self.submit, after)

    def timer(self, window: int) -> None:
        if window == self.window and self.waiting:
            self.dispatch()
        elif window == self.window:
            self.idling_for = None


def _run(system_of: Callable, n: int) -> tuple[int, float]:
    heap: list = []
    order = itertools.count()
    now = 0.0

    def schedule(delay: float, function: Callable, argument: object) -> None:
        heapq.heappush(heap, (now + delay, next(order), function, argument))

    system = system_of(schedule, lambda: now)
    system.submit(DATA)
    while system.served < n:
        now, _, function, argument = heapq.heappop(heap)
        function(argument)
    return system.served, now


def heapq_idle_rule(n: int) -> tuple[int, float]:
    return _run(lambda schedule, _: Anticipation(schedule), n)


def heapq_thread0(n: int) -> tuple[int, float]:
    from cfq_in_python import Cfq

    return _run(Cfq, n)


# --- SimPy -----------------------------------------------------------------------------------------------------------


def simpy_closed(n: int) -> tuple[int, float]:
    import simpy

    env = simpy.Environment()
    server = simpy.Resource(env)
    rnd = random.Random(1)
    served = 0
    done = env.event()

    def job():
        nonlocal served
        while True:
            yield env.timeout(THINK)
            with server.request() as turn:
                yield turn
                yield env.timeout(rnd.expovariate(1 / SERVICE))
            served += 1
            if served == n:
                done.succeed()

    for _ in range(JOBS):
        env.process(job())
    env.run(done)
    return served, env.now


def simpy_dd_and_jbd2(env: object, request: Callable) -> None:
    """Start thread 0's two processes; `request` yields until one of DATA, LOG or COMMIT is served."""
    import simpy

    commit_asked, commit_done = simpy.Store(env), simpy.Store(env)

    def dd():
        while True:
            yield from request(DATA)
            yield commit_asked.put(None)
            yield commit_done.get()
            yield env.timeout(TO_DATA)

    def jbd2():
        while True:
            yield commit_asked.get()
            yield env.timeout(TO_LOG)
            yield from request(LOG)
            yield env.timeout(TO_COMMIT)
            yield from request(COMMIT)
            yield commit_done.put(None)

    env.process(dd())
    env.process(jbd2())


def simpy_idle_rule(n: int) -> tuple[int, float]:
    import simpy

    env = simpy.Environment()
    device = simpy.Resource(env)
    state = {"idling_for": None, "free": env.event()}
    served = 0
    done = env.event()

    def window(queue):
        state["idling_for"] = queue
        mine = state["free"] = env.event()
        yield env.timeout(IDLE) | mine
        if not mine.triggered:
            mine.succeed()
            state["idling_for"] = None

    def request(kind):
        nonlocal served
        queue = 0 if kind == DATA else 1  # dd's, jbd2's
        if queue == 0 and state["idling_for"] == 1:
            yield state["free"]
        elif not state["free"].triggered:
            state["free"].succeed()
        with device.request() as turn:
            yield turn
            yield env.timeout(COMMAND)
        served += 1
        if served == n:
            done.succeed()
        env.process(window(queue))

    simpy_dd_and_jbd2(env, request)
    env.run(done)
    return served, env.now


def simpy_thread0(n: int) -> tuple[int, float]:
    """The rules of the plain Python model in a system written as SimPy has it: dd, jbd2, the device and each idle
    window are processes; requests reach the device, and commits jbd2, through stores."""
    import simpy
    from cfq_in_python import Cfq

    env = simpy.Environment()
    done, answer = env.event(), env.event()
    device = simpy.Store(env)

    def schedule(delay: float, function: Callable, argument: object) -> None:
        if function == system.completed:
            device.put(argument)
        elif function == system.timer:
            env.process(window(argument))
        else:
            answer.succeed()

    def window(number):
        yield env.timeout(IDLE)
        system.timer(number)

    def serve():
        while system.served < n:
            request = yield device.get()
            yield env.timeout(COMMAND)
            system.completed(request)
        done.succeed()

    def request(kind):
        nonlocal answer
        answer = env.event()
        system.submit(kind)
        yield answer

    system = Cfq(schedule, lambda: env.now)
    env.process(serve())
    simpy_dd_and_jbd2(env, request)
    env.run(done)
    return system.served, env.now


def simpy_callbacks_thread0(n: int) -> tuple[int, float]:
    """The plain Python model as it is, with SimPy for a clock: a process a delay and nothing else."""
    import simpy
    from cfq_in_python import Cfq

    env = simpy.Environment()
    done = env.event()

    def after(delay, function, argument):
        yield env.timeout(delay)
        function(argument)
        if system.served == n and not done.triggered:
            done.succeed()

    def schedule(delay: float, function: Callable, argument: object) -> None:
        env.process(after(delay, function, argument))

    system = Cfq(schedule, lambda: env.now)
    system.submit(DATA)
    env.run(done)
    return system.served, env.now


# --- Ciw: networks of queues only, so the idle window is a station of the chain ---------------------------------------


def _ciw(
    stations: list, routing: list, population: int, requests_at: set[int], n: int, rate: float
) -> tuple[int, float]:
    import ciw

    none = [None] * (len(stations) - 1)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Sequential([0.0, float("inf")]), *none],
        batching_distributions=[ciw.dists.Sequential([population, 1]), *[ciw.dists.Deterministic(1) for _ in none]],
        service_distributions=[distribution for distribution, _ in stations],
        number_of_servers=[servers for _, servers in stations],
        routing=routing,
    )
    ciw.seed(1)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(n / rate)
    served = sum(1 for record in simulation.get_all_records() if record.node in requests_at)
    return served, n / rate


def ciw_closed(n: int) -> tuple[int, float]:
    import ciw

    stations = [(ciw.dists.Deterministic(THINK), float("inf")), (ciw.dists.Exponential(1 / SERVICE), 1)]
    return _ciw(stations, [[0.0, 1.0], [1.0, 0.0]], JOBS, {2}, n, theory_closed())


def ciw_thread0(n: int) -> tuple[int, float]:
    import ciw

    times = [IDLE, COMMAND, TO_LOG, COMMAND, TO_COMMIT, COMMAND]
    chain = [[float(j == (i + 1) % 6) for j in range(6)] for i in range(6)]
    return _ciw([(ciw.dists.Deterministic(t), 1) for t in times], chain, 1, {2, 4, 6}, n, theory_thread0())


# --- iosched ---------------------------------------------------------------------------------------------------------


def _iosched(scenario: object) -> tuple[int, float]:
    from iosched.engine.codes import NEVER
    from iosched.engine.loop import run
    from iosched.programs import compile_scenario

    s = compile_scenario(scenario)
    run(s, NEVER - 1, NEVER)
    return int(s.devices[0].completed), int(s.sim[0].now - s.sim[0].epoch) * 1e-9


def iosched_closed(n: int) -> tuple[int, float]:
    import iosched as io
    from iosched.theory import FREE

    machine = io.Machine(device=io.devices.exponential(SERVICE * 1e6), filesystem="raw", scheduler="noop", host=FREE)
    job = io.workloads.fio("randread", direct=True, thinktime_us=THINK * 1e6, numjobs=JOBS, runtime=n / theory_closed())
    return _iosched(io.Scenario(machine, [job]))


def iosched_thread0(n: int) -> tuple[int, float]:
    import iosched as io

    machine = io.Machine(kernel="4.19", device=io.devices.null(completion_us=100), scheduler="cfq")
    return _iosched(io.Scenario(machine, [io.workloads.dd(count=n // 3 + 1, cgroup="user.slice")]))


NETWORKS: dict[str, dict[str, Callable[[int], tuple[int, float]]]] = {
    "closed network": {"SimPy": simpy_closed, "Ciw": ciw_closed, "heapq": heapq_closed, "iosched": iosched_closed},
    "thread 0": {
        "SimPy": simpy_thread0,
        "SimPy, callbacks": simpy_callbacks_thread0,
        "heapq": heapq_thread0,
        "iosched": iosched_thread0,
    },
    "thread 0, idle rule alone": {
        "SimPy": simpy_idle_rule,
        "Ciw": ciw_thread0,
        "heapq": heapq_idle_rule,
        "iosched": iosched_thread0,
    },
}


def theory(network: str) -> float:
    """Requests a second of simulated time that every tool must come to."""
    return theory_closed() if network == "closed network" else theory_thread0()
