"""Read a scenario from a TOML file: a machine and its jobs, with the names of the Python classes.

[machine]
kernel = "4.19"
filesystem = "ext4"
cgroups = ["user.slice"]
[machine.device]
completion_us = 100
[machine.scheduler]
name = "cfq"
slice_idle = 8
[[job]]
bs = 512
count = 1000
oflag = "dsync"
cgroup = "user.slice"
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from . import devices, workloads
from .cgroups import Cgroup, Cgroups
from .errors import ScenarioError, unknown
from .filesystems import FILESYSTEMS
from .host import Host, fitted_host
from .io_cost import IOCost
from .kernels import Kernel
from .memory import Memory
from .scenario import Machine, Scenario
from .schedulers import with_tunables

SECTIONS = ("machine", "job")
FIELDS = (
    "kernel",
    "device",
    "filesystem",
    "scheduler",
    "host",
    "cgroups",
    "nr_requests",
    "wbt_lat_usec",
    "memory",
    "io_cost",
)


def read_scenario(path: str | Path) -> Scenario:
    """The scenario of a TOML file. Raises ScenarioError, naming the field, for anything that is not one."""
    path = Path(path)
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ScenarioError(f"FILE: {str(path)!r} cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ScenarioError(f"FILE: {path.name!r} is not TOML ({error}).") from None
    for key in tree:
        if key not in SECTIONS:
            raise unknown("section", key, SECTIONS)
    jobs = tree.get("job", [])
    if not isinstance(jobs, list) or not all(isinstance(job, dict) for job in jobs):
        raise ScenarioError("job: give each job as a table of its own, [[job]].")
    return Scenario(_machine(_table(tree, "machine")), [_job(job) for job in jobs])


def _job(fields: dict[str, Any]) -> workloads.Job:
    """A job's table: dd, or what `kind` says."""
    kinds = {"dd": workloads.dd, "dbench": workloads.dbench, "fio": workloads.fio}
    kind = fields.get("kind", "dd")
    if kind not in kinds:
        raise unknown("job.kind", kind, kinds)
    return kinds[kind](**{key: value for key, value in fields.items() if key != "kind"})


def _machine(fields: dict[str, Any]) -> Machine:
    for key in fields:
        if key not in FIELDS:
            raise unknown(f"machine.{key}", key, FIELDS)
    kernel = Kernel(fields.get("kernel", "4.19"))
    made: dict[str, Any] = {"kernel": str(kernel), "device": _device(_table(fields, "device"))}
    if "scheduler" in fields:
        name, tunables = _named(fields, "scheduler")
        made["scheduler"] = with_tunables(name, kernel, tunables)
    if "filesystem" in fields:
        name, options = _named(fields, "filesystem")
        if name not in FILESYSTEMS:
            raise unknown("filesystem", name, FILESYSTEMS)
        made["filesystem"] = _build(FILESYSTEMS[name], "filesystem", options)
    if "host" in fields:
        from dataclasses import asdict

        made["host"] = _build(Host, "host", asdict(fitted_host(kernel)) | _table(fields, "host"))
    if "cgroups" in fields:
        made["cgroups"] = _cgroups(fields["cgroups"])
    if "memory" in fields:
        made["memory"] = _build(Memory, "memory", _table(fields, "memory"))
    if "io_cost" in fields:
        made["io_cost"] = _build(IOCost, "io_cost", _table(fields, "io_cost"))
    made |= {name: fields[name] for name in ("nr_requests", "wbt_lat_usec") if name in fields}
    return Machine(**made)


def _device(fields: dict[str, Any]) -> devices.ConstantTime:
    """null_blk, or what `kind` says."""
    names = "null single sata nvme wd5000lplx st500lm012 m4_ssd hdd_model simblk_disk"
    names += " samsung_970_pro plextor_m5s hitachi_7k750"
    kinds = {name: getattr(devices, name) for name in names.split()} | {"disk": devices.Disk, "ssd": devices.SSD}
    kind = fields.get("kind", "null")
    if kind not in kinds:
        raise unknown("device.kind", kind, kinds)
    return kinds[kind](**{key: value for key, value in fields.items() if key != "kind"})


def _cgroups(value: Any) -> Cgroups:
    """Paths, a table of weights, or tables with the fields of a `Cgroup`."""
    if isinstance(value, list):
        value = [Cgroup(**g) if isinstance(g, dict) and "path" in g else g for g in value]
    return Cgroups(value)


def _table(tree: dict[str, Any], name: str) -> dict[str, Any]:
    value = tree.get(name, {})
    if not isinstance(value, dict):
        raise ScenarioError(f"{name}: {value!r} is not a table; write it as [{name}] with its fields below.")
    return value


def _named(fields: dict[str, Any], key: str) -> tuple[str, dict[str, Any]]:
    """A part given as a name, or as a table with `name` and its options."""
    value = fields[key]
    if isinstance(value, str):
        return value, {}
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        return value["name"], {k: v for k, v in value.items() if k != "name"}
    raise ScenarioError(f"{key}: {value!r} is not allowed; give a name, or a table with the field 'name'.")


def _build(cls: type, field: str, options: dict[str, Any]) -> Any:
    for key in options:
        if key not in cls.__dataclass_fields__:
            raise unknown(f"{field}.{key}", key, cls.__dataclass_fields__)
    return cls(**options)
