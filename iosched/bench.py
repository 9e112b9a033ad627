"""`make bench`: how fast the engine is here. Prints a table; nothing depends on its figures."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable

from . import workloads
from .devices import null, wd5000lplx
from .scenario import Machine, Scenario

WRITES = 100_000


def main() -> int:
    """Measure and print every figure next to what it should be."""
    from .engine.warm import warm_up

    warm_up()
    requests_per_cpu_second("cfq")  # the first measurement of a process is slow, whatever it is
    print(f"{'what':52} {'measured':>14}   aim")
    for name, aim in (("noop", 4.0), ("none", 4.0), ("deadline", 0), ("mq-deadline", 0), ("cfq", 2.0), ("bfq", 1.0)):
        rate = requests_per_cpu_second(name) / 1e6
        row(
            f"dd dsync under {name}: requests per CPU-second",
            f"{rate:.2f} million",
            f">= {aim:g} million" if aim else "",
        )
    for depth in (1, 32):
        rate = disk_requests_per_cpu_second(depth) / 1e6
        row(f"random reads {depth} deep on a disk: requests per CPU-second", f"{rate:.2f} million", ">= 0.5 million")
    row("a minute of a writer beside a reader on a disk (CPU)", f"{mix_seconds():.3f} s", "<= 0.5 s")
    row("17 x 17 grid of slice_idle x group_idle, 300 writes", f"{grid_seconds():.2f} s", "<= 2 s")
    row("dbench, one client, 3 simulated seconds under BFQ", f"{dbench_seconds():.3f} s", "<= 0.2 s")
    row("waker rules x slice_idle x low_latency, 3 s of dbench", f"{waker_grid_seconds():.2f} s", "<= 5 s")
    row("thread 4's NFS read of 2 GB under CFQ of 2.6.27", f"{nfs_seconds():.3f} s", "<= 0.1 s")
    row("import iosched (CPU)", f"{import_cpu_seconds():.2f} s", "<= 0.5 s")
    row("first result in a new process, warm cache", f"{first_result_seconds():.2f} s", "<= 1 s")
    row("slider to redrawn picture, median", f"{slider_seconds() * 1e3:.0f} ms", "<= 100 ms")
    growth = memory_growth()
    row("memory for 20 times as many writes, without a trace", f"{growth / 2**20:+.1f} MiB", "0")
    return 0


def row(what: str, measured: str, aim: str) -> None:
    """One line of the table."""
    print(f"{what:52} {measured:>14}   {aim}", flush=True)


def thread0(scheduler: str, count: int) -> Scenario:
    """Thread 0's dd on a 100 us device."""
    machine = Machine(kernel="4.19", device=null(completion_us=100), scheduler=scheduler)
    return Scenario(machine, [workloads.dd(count=count, cgroup="user.slice")])


def best_of(function: Callable[[], float], times: int = 5) -> float:
    """The least disturbed of several measurements."""
    return min(function() for _ in range(times))


def requests_per_cpu_second(scheduler: str) -> float:
    """Thread 0's requests completed a second of CPU."""
    return rate_of(thread0(scheduler, WRITES))


def disk_requests_per_cpu_second(depth: int) -> float:
    """The same of random reads on thread 3's first disk, `depth` at once."""
    machine = Machine(device=wd5000lplx(), scheduler="noop", filesystem="raw")
    job = workloads.fio(rw="randread", size="400G", direct=True, ioengine="libaio", iodepth=depth, runtime=1000)
    return rate_of(Scenario(machine, [job]))


def rate_of(scenario: Scenario) -> float:
    """Requests completed a second of CPU, event loop alone."""
    from .engine.codes import NEVER
    from .engine.loop import run
    from .programs import compile_scenario

    def seconds_a_request() -> float:
        s = compile_scenario(scenario)
        start = time.process_time()
        run(s, NEVER - 1, NEVER)
        return (time.process_time() - start) / int(s.devices[0].completed)

    return 1 / best_of(seconds_a_request)


def grid_seconds() -> float:
    """Wall seconds of the slice_idle x group_idle grid."""
    from .sweeps import sweep

    scenario = thread0("cfq", 300)
    over = {"scheduler.slice_idle": range(17), "scheduler.group_idle": range(17)}

    def once() -> float:
        start = time.perf_counter()
        sweep(scenario.machine, scenario.jobs, over=over)
        return time.perf_counter() - start

    return best_of(once, 3)


def mix_seconds() -> float:
    """CPU seconds of a minute of a buffered writer beside a sequential reader on thread 3's first disk."""
    from .simulation import simulate

    reader = workloads.sequential_reader(bs="128k", size="40G", runtime=60.0)
    writer = workloads.sequential_writer(bs="1M", fdatasync=0, size="20G", runtime=60.0)

    def once() -> float:
        start = time.process_time()
        simulate(Machine(device=wd5000lplx(), scheduler="bfq"), [reader, writer])
        return time.process_time() - start

    return best_of(once)


def dbench_seconds() -> float:
    """Wall seconds of thread 1's dbench under 5.6.4's BFQ."""
    from .simulation import simulate
    from .threads.dbench import job, scenario

    machine, _ = scenario("bfq")

    def once() -> float:
        start = time.perf_counter()
        simulate(machine, job(runtime=3.0)).bytes_per_s  # noqa: B018
        return time.perf_counter() - start

    return best_of(once)


def nfs_seconds() -> float:
    """CPU seconds of thread 4's read."""
    from .simulation import simulate
    from .threads.nfs import scenario

    def once() -> float:
        start = time.process_time()
        simulate(*scenario("cfq"))
        return time.process_time() - start

    return best_of(once)


def waker_grid_seconds() -> float:
    """Wall seconds of thread 1's grid."""
    from .threads.dbench import scenario, waker_grid

    scenario("bfq")  # fits the device

    def once() -> float:
        start = time.perf_counter()
        waker_grid()
        return time.perf_counter() - start

    return best_of(once, 3)


def import_cpu_seconds() -> float:
    """CPU of `import iosched` in a new process, less that of an empty one."""
    return best_of(lambda: _cpu("import iosched"), 3) - best_of(lambda: _cpu("pass"), 3)


def first_result_seconds() -> float:
    """Wall seconds from the start of Python to a printed result."""
    code = "import iosched as io; io.simulate(io.Machine(scheduler='cfq'), [io.workloads.dd(count=300)]).time_per_op"

    def once() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    return best_of(once, 3)


def _cpu(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def slider_seconds() -> float:
    """Median wall seconds from a moved slider to the redrawn picture; NaN without the notebook extra."""
    try:
        from .widgets import measure_slider
    except ImportError:
        return float("nan")
    return measure_slider()


def memory_growth() -> int:
    """Bytes by which the largest resident size grows from a short run to one of twenty times as many writes."""
    from .simulation import simulate

    def resident() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    short, long = thread0("cfq", 20_000), thread0("cfq", 400_000)
    simulate(short.machine, short.jobs)
    before = resident()
    simulate(long.machine, long.jobs)
    return resident() - before


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    sys.exit(main())
