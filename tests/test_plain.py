"""Runs tests/plain without Numba's compiler: there, single functions of the engine can be called from Python."""

from __future__ import annotations

import os
import subprocess
import sys

from helpers import ROOT


def test_the_rules_called_one_by_one_as_plain_python():
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/plain"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        timeout=500,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
