"""Shared fixtures: the compiled engine, and thread 0's machine."""

from __future__ import annotations

import pytest

import iosched as io


@pytest.fixture(scope="session", autouse=True)
def compiled_engine():
    """Compile once before anything is timed or run in threads."""
    from iosched.engine.warm import warm_up

    warm_up(show=False)


@pytest.fixture
def vm() -> io.Machine:
    """A 4.19 guest on a 100 us device under CFQ."""
    return io.Machine(kernel="4.19", device=io.devices.null(completion_us=100), scheduler="cfq")


@pytest.fixture
def child_dd() -> io.workloads.Dd:
    """Thread 0's dd, three hundred writes."""
    return io.workloads.dd(count=300, cgroup="user.slice")
