"""The cache of compiled code: an edit anywhere in the engine is seen."""

from __future__ import annotations

import shutil

from helpers import ROOT, python

from iosched.engine import jit


def test_the_cache_folder_changes_with_any_engine_or_scheduler_source(tmp_path):
    package = tmp_path / "iosched"
    shutil.copytree(ROOT / "iosched", package, ignore=shutil.ignore_patterns("__pycache__"))
    before = jit.source_hash(package)
    assert before == jit.source_hash()
    for name in ("engine/lists.py", "schedulers/cfq_service.py", "engine/jit.py"):
        path = package / name
        text = path.read_text()
        path.write_text(text + "\n# an edit\n")
        assert jit.source_hash(package) != before, name
        path.write_text(text)
    (package / "schedulers" / "another.py").write_text("")
    assert jit.source_hash(package) != before


INNER = "from iosched.engine.jit import jit\n\n\n@jit\ndef twice(x):\n    return {factor} * x\n"
OUTER = (
    "from iosched.engine.jit import entry\nfrom tiny_inner import twice\n\n\n@entry\ndef run(x):\n    return twice(x)\n"
)
CALL = "import sys; sys.path.insert(0, {folder!r}); from tiny_outer import run; print(run(21))"


def test_an_edit_of_a_function_in_another_file_is_seen_by_a_new_process(tmp_path):
    """The stale-cache trap itself: with the folder from the source hash the edited inner function is used."""
    package = tmp_path / "iosched"
    shutil.copytree(ROOT / "iosched", package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tiny_outer.py").write_text(OUTER)
    inner = package / "engine" / "tiny_inner.py"
    link = tmp_path / "tiny_inner.py"
    answers = []
    for factor in (2, 3):
        inner.write_text(INNER.format(factor=factor))  # an engine source of the copied package
        link.write_text(inner.read_text())
        env = {"PYTHONPATH": str(tmp_path), "IOSCHED_CACHE": str(tmp_path / "cache")}
        for _ in range(2):
            answers.append(int(python(CALL.format(folder=str(tmp_path)), **env)))
    assert answers == [42, 42, 63, 63]
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_numba_keeps_its_own_cache_folder():
    code = "import numba, iosched.engine.loop; print(repr(numba.core.config.CACHE_DIR))"
    assert python(code, NUMBA_CACHE_DIR="elsewhere").strip() == "'elsewhere'"


def test_importing_the_package_compiles_nothing_and_loads_no_plotting():
    code = (
        "import sys, iosched; "
        "print([m for m in ('pandas', 'matplotlib', 'seaborn', 'scipy.optimize', 'ipywidgets') if m in sys.modules])"
    )
    assert python(code).strip() == "[]"


def test_an_unwritable_cache_folder_does_not_bring_back_stale_code(tmp_path):
    code = "from iosched.engine.jit import writable_cache_folder; print(writable_cache_folder())"
    (tmp_path / "file").write_text("in the way")
    env = {"IOSCHED_CACHE": str(tmp_path / "file" / "x"), "TMPDIR": str(tmp_path)}
    place = python(code, **env).strip()
    assert place.startswith(str(tmp_path / "iosched-")) and place.endswith(jit.source_hash())
