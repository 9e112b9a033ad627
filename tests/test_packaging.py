"""The project installs itself: what is declared, pinned, documented and shipped agrees."""

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import jupytext
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PYTHONS = ["3.11", "3.12", "3.13"]

# conda-forge splits these two: the -base package is what PyPI's package of the plain name holds.
CONDA_TO_PYPI = {"matplotlib-base": "matplotlib", "seaborn-base": "seaborn"}

# Loaded only when used: importing any one of them costs 0.3 s of CPU time or more.
LAZY = ["ipywidgets", "matplotlib.pyplot", "pandas", "scipy.optimize", "seaborn"]

# A folder of somebody's machine. "../work/" and "example.org/home/x/" are none.
MACHINE_PATH = re.compile(r"(?:(?<![\w.\-/])|(?<=file://))/(?:work|root|home/[\w.-]+|Users/[\w.-]+)(?=/)")
PUBLISHED = ["of=/root/test.img"]  # thread 0's own dd command

URL = re.compile(r"\w+://|--(?:extra-)?index-url|--find-links|\bpypi\b|\bpythonhosted\b", re.IGNORECASE)


def declared(*extras):
    """{name: specifier} of pyproject.toml's base dependencies and of the extras."""
    lines = PROJECT["dependencies"] + [line for extra in extras for line in EXTRAS[extra]]
    requirements = [Requirement(line) for line in lines]
    return {canonicalize_name(r.name): r.specifier for r in requirements}


def locked(python):
    """{name: version} that requirements.lock pins for Linux and this Python."""
    pins = {}
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        requirement = Requirement(line)
        if applies(requirement, python):
            (pin,) = requirement.specifier
            assert pin.operator == "==", line
            name = canonicalize_name(requirement.name)
            assert name not in pins, f"{name} is pinned twice for Python {python}"
            pins[name] = Version(pin.version)
    return pins


def applies(requirement, python, extra=""):
    """Whether the requirement's marker holds on Linux with this Python."""
    environment = {
        "extra": extra,
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{python}.7",
        "python_version": python,
        "sys_platform": "linux",
    }
    return requirement.marker is None or requirement.marker.evaluate(environment)


def files_in_git():
    """Paths of all files that are in git or will be with the next `git add`; skips outside a checkout."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    paths = sorted({ROOT / name for name in listing.split("\0") if name})
    return [path for path in paths if path.is_file()]


def notebooks():
    return sorted((ROOT / "notebooks").glob("**/[!.]*.ipynb"))


# --- what is declared and pinned -------------------------------------------------------------------


def test_environment_yml_lists_what_pyproject_lists():
    entries = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    requirements = [Requirement(entry) for entry in entries if isinstance(entry, str)]
    listed = {CONDA_TO_PYPI.get(r.name, canonicalize_name(r.name)): r.specifier for r in requirements}
    assert listed.pop("python") == Requirement(f"python{PROJECT['requires-python']}").specifier
    assert listed.pop("pip") == ""
    by_pip = [
        Requirement(line) for entry in entries if isinstance(entry, dict) for line in entry["pip"] if line[0] != "-"
    ]
    assert listed | {canonicalize_name(r.name): r.specifier for r in by_pip} == declared(*EXTRAS)


def test_environment_yml_installs_the_package_editable_through_pip():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["name"] == "iosched"
    (by_pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert by_pip[-1] == "-e ." and len(by_pip) == 2  # and Ciw, which conda-forge does not have


def test_the_supported_pythons_are_those_that_are_tested_here():
    for python in ["3.10", *PYTHONS, "3.14"]:
        supported = Version(python) in Requirement(f"python{PROJECT['requires-python']}").specifier
        assert supported == (python in PYTHONS)
        assert (f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]) == supported


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_satisfies_every_requirement_of_pyproject(python):
    pins = locked(python)
    for name, specifier in declared(*EXTRAS).items():
        assert name in pins, f"{name} is not in requirements.lock"
        assert pins[name] in specifier, f"{name} {pins[name]} is not {specifier}"


def test_the_lock_pins_everything_that_gets_installed():
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    pins = locked(python)
    to_visit = [(name, ()) for name in declared(*EXTRAS)]
    visited = set()
    while to_visit:
        name, extras = to_visit.pop()
        if (name, extras) in visited:
            continue
        visited.add((name, extras))
        assert name in pins, f"{name} is not in requirements.lock"
        try:
            installed = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if Version(installed.version) != pins[name]:  # installed by other means, such as conda
            continue
        for line in installed.requires or []:
            requirement = Requirement(line)
            if any(applies(requirement, python, extra) for extra in ("", *extras)):
                to_visit.append((canonicalize_name(requirement.name), tuple(sorted(requirement.extras))))


def test_the_base_install_is_small():
    assert set(declared()) == {"numpy", "scipy", "pandas", "numba", "matplotlib", "seaborn", "tqdm"}


@pytest.mark.parametrize("name", ["requirements.lock", "environment.yml", "Makefile", ".ci/run"])
def test_installation_files_name_no_registry_and_no_address(name):
    assert URL.findall((ROOT / name).read_text()) == []


# --- what is documented and run --------------------------------------------------------------------


@pytest.mark.parametrize("target", ["reproduce", "test", "lab", "bench"])
def test_readme_and_makefile_have_the_target(target):
    assert f"make {target}" in (ROOT / "README.md").read_text()
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_ci_runs_the_test_command_of_the_readme():
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "make test" in script.read_text()


def test_the_licence_is_the_declared_one():
    assert PROJECT["license"] == "BSD-3-Clause"
    assert (ROOT / "LICENSE").read_text().startswith("BSD 3-Clause License")


# --- what is shipped -------------------------------------------------------------------------------


def test_the_wheel_carries_the_modules_and_the_data(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    shipped = {name for name in names if name.startswith("iosched/")}
    in_git = [path.relative_to(ROOT) for path in files_in_git()]
    modules = {path.as_posix() for path in in_git if path.parts[0] == "iosched"}
    data = {"/".join(["iosched/_data", *path.parts[1:]]) for path in in_git if path.parts[0] == "data"}
    assert shipped == modules | data
    assert {name.split("/")[0] for name in names} == {"iosched", f"iosched-{PROJECT['version']}.dist-info"}


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.name)
def test_the_notebook_carries_no_outputs(path):
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.name)
def test_the_notebook_and_its_percent_script_say_the_same(path):
    pair = [jupytext.read(path), jupytext.read(path.with_suffix(".py"))]
    notebook, script = ([(cell.cell_type, cell.source.strip()) for cell in one.cells] for one in pair)
    assert notebook == script, "run `make sync`"


def test_no_file_carries_a_path_of_somebodys_machine():
    found = []
    for path in files_in_git():
        if path == Path(__file__).resolve():  # its patterns are what it looks for
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # a picture
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            for published in PUBLISHED:
                line = line.replace(published, "")
            if MACHINE_PATH.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert found == []


@pytest.mark.parametrize("text", ["see /work/main/x", '"/root/.venv"', "file:///home/ann/x", "=/Users/ann/x"])
def test_a_path_of_somebodys_machine_is_recognised(text):
    assert MACHINE_PATH.search(text)


@pytest.mark.parametrize("text", ["../work/x", "a/root/b", "https://example.org/home/ann/x", "the root/leaf", "/home/"])
def test_other_paths_are_left_alone(text):
    assert not MACHINE_PATH.search(text)


# --- what an import costs --------------------------------------------------------------------------


def test_importing_iosched_loads_no_heavy_library():
    program = "import sys, iosched; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout.split()
    assert "iosched" in loaded
    assert [name for name in LAZY if name in loaded] == []
