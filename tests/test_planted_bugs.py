"""The planted bugs still apply, and the table says that each was caught. `make planted-bugs` plants them."""

from __future__ import annotations

import re
import shutil
import sys

import pytest
from helpers import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from planted_bugs import BUGS, TABLE, Bug, plant

RULES = {"schedulers": 20, "engine/journal|engine/flush|programs": 5, "engine/device|engine/disk|engine/platter": 5}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_what_a_bug_changes_stands_there_once_and_stays_python(bug, tmp_path):
    copy = tmp_path / bug.file
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "iosched" / bug.file, copy)
    plant(bug, tmp_path)
    assert copy.read_text() != (ROOT / "iosched" / bug.file).read_text()
    compile(copy.read_text(), bug.file, "exec")


def test_a_bug_that_no_longer_applies_is_told(tmp_path):
    (tmp_path / "x.py").write_text("a = 1\n")
    with pytest.raises(ValueError, match=r"stands 0 times in x.py"):
        plant(Bug("gone", "", "x.py", "b = 1", "b = 2"), tmp_path)


def test_there_are_bugs_in_the_schedulers_the_file_systems_and_the_device():
    assert len(BUGS) == len({bug.name for bug in BUGS}) >= 25
    for pattern, least in RULES.items():
        assert sum(bool(re.match(pattern, bug.file)) for bug in BUGS) >= least


def test_the_table_lists_every_bug_as_caught():
    text = TABLE.read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    assert [row[0].removeprefix("| ") for row in rows] == [bug.name for bug in BUGS]
    assert "not caught" not in text and f"{len(BUGS)} of {len(BUGS)} caught" in text
