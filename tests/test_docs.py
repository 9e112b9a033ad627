"""The examples in the docstrings run, and the README's program prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re

import pytest
from helpers import ROOT

import iosched

MODULES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages(iosched.__path__, "iosched.")
    if not name.endswith(("memory", "bench", "widgets"))
)

NEEDS = {"iosched.sensitivities": "SALib"}  # an extra


@pytest.mark.parametrize("name", ["iosched", *MODULES])
def test_the_examples_of_a_module_run(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_the_readmes_python_runs():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["result"].time_per_op == pytest.approx(8.37e-3, rel=0.02)


def test_the_readmes_scenario_file_runs(tmp_path, capsys):
    from iosched.cli import main

    (toml,) = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    path = tmp_path / "scenario.toml"
    path.write_text(toml)
    assert main(["run", str(path)]) == 0
    assert "copied" in capsys.readouterr().out
