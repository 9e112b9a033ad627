"""Shared fixtures: thread 0's machine, and running code without Numba's compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import iosched as io

ROOT = Path(__file__).resolve().parent.parent


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


def python(code: str, **env: str) -> str:
    """Run code in a new interpreter and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
