"""A state to call single rules on. Only without Numba's compiler: compiled inner functions cannot be called alone."""

from __future__ import annotations

import pytest
from numba.core import config

import iosched as io
from iosched.engine.block import insert
from iosched.engine.pool import add_bio, get_request
from iosched.programs import compile_scenario


def pytest_ignore_collect(collection_path, config):
    """Leave the folder out of a run with the compiler."""
    from numba.core import config as numba_config

    return None if numba_config.DISABLE_JIT else True


class Bench:
    """One machine's state, and the small moves that tests make on it."""

    def __init__(self, machine: io.Machine, jobs: list) -> None:
        assert config.DISABLE_JIT
        self.s = compile_scenario(io.Scenario(machine, jobs))
        self.t0 = int(self.s.sim[0].now)

    def at(self, us: float) -> Bench:
        """Move the clock to `us` microseconds behind the start."""
        self.s.sim[0].now = self.t0 + round(us * 1000)
        return self

    def request(self, task: int, op: int, sector: int, nr: int = 8, flags: int = 1) -> int:
        """Allocate a request and insert it into the scheduler."""
        ri = get_request(self.s, 0, task, op, sector, nr, flags)
        add_bio(self.s, ri, task, sector, nr)
        insert(self.s, ri)
        return ri


@pytest.fixture
def bench():
    """Make a Bench: bench(scheduler=..., groups=[...] of the jobs, kernel=..., **device)."""

    def make(scheduler, groups=("/",), kernel="4.19", **device) -> Bench:
        machine = io.Machine(
            kernel=kernel,
            device=io.devices.null(**device),
            filesystem="raw",
            scheduler=scheduler,
            cgroups=["a", "a/b", "c"],
        )
        return Bench(machine, [io.workloads.dd(count=1, cgroup=g) for g in groups])

    return make


@pytest.fixture
def bench_of():
    """Make a Bench of any machine and jobs: bench_of(machine, jobs)."""
    return Bench
