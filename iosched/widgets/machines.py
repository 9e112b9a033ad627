"""The machines to begin with, their published figures, and a machine as code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any

from ..cgroups import Cgroups
from ..ddline import rate
from ..devices import Channels, ConstantTime, Disk, null
from ..host import fitted_host
from ..memory import Memory
from ..scenario import Machine
from ..schedulers import BFQ, SCHEDULERS, available
from ..workloads import Dbench, Dd, Fio, Job, SharedReader

WRITES = 300  # a run of the explorer


@dataclass(frozen=True)
class Preset:
    """A machine of the thread, where the job runs on it, and what was published: label -> bytes/s, or (low, high).

    `measured` is what a real kernel did there, second by second, MB/s.
    """

    machine: Machine
    cgroup: str = "user.slice"
    published: Mapping[str, Any] = field(default_factory=dict)
    measured: Sequence[float] = ()


MACHINES = {  # name in threads.dsync.BASELINES -> name of the preset
    "vm-4.19": "thread 0 VM 4.19",
    "vm-5.2-rc": "thread 0 VM 5.2-rc",
    "box-5.1": "second machine of thread 0, 5.1",
}
MEASURED = "kernel measurement 4.19 (100 us)"


@cache
def presets() -> dict[str, Preset]:
    """The explorer's machines by name: the thread's, fitted on their baseline, and the measured kernels'.

    >>> list(presets())[0]
    'thread 0 VM 4.19'
    """
    from ..threads.dsync import BASELINES, machine

    out = {}
    for name in BASELINES:
        base = machine(name)
        chosen = base.with_(scheduler="cfq") if "cfq" in available(base.version) else base
        out[MACHINES.get(name, f"thread 0: {name}")] = Preset(chosen, published=_published(name))
    plain = Machine(kernel="4.19", device=null(completion_us=100), scheduler="cfq")
    out[MEASURED] = Preset(plain, published=_measured())
    out["the same under kernel 4.4 (older group rule)"] = Preset(plain.with_(kernel="4.4"))
    vm, said = out[MACHINES["vm-4.19"]].machine, _published("vm-4.19")
    out["the VM on a solid-state drive"] = Preset(vm.with_(**{"device.rotational": False}), published=said)
    out["the VM on a disk with a write cache"] = Preset(vm.with_(**{"device.write_cache": True}), published=said)
    return out


def _published(name: str) -> dict[str, tuple[float, float]]:
    """Label and range of the throughputs published for one of the thread's machines, from the claims."""
    from ..threads import claims, show

    out: dict[str, tuple[float, float]] = {}
    for claim in claims("dsync"):
        if claim.machine == name and claim.quantity == "throughput" and claim.experiment in SCHEDULERS_PUBLISHED:
            low, high = show(claim.low, claim.unit), show(claim.high, claim.unit)
            shown, ends = f"{low} to {high}", (claim.low, claim.high)
            if low == high:  # one number: its band is what the claim allows
                shown = f"{low} (±{claim.tolerance:.0%})".replace("%", " %")
                ends = (claim.low / (1 + claim.tolerance), claim.high * (1 + claim.tolerance))
            if ends not in out.values():
                out[f"published, {claim.experiment}: {shown}"] = ends
    return out


SCHEDULERS_PUBLISHED = (*SCHEDULERS, "bfq")


def _measured() -> dict[str, float]:
    """What a real 4.19 did under CFQ and noop on the 100 us device."""
    from ..threads import claims
    from ..threads.dsync import kernel_value

    found = {c.experiment: kernel_value(c) for c in claims("dsync") if c.id in ("T0-001", "T0-002")}
    return {f"measured, {name}: {rate(value)}": value for name, value in found.items() if value}


WORDS = {"5.6.4": "5.6.4", "5.6.4+p1": "5.6.4 and patch 1", "5.6.4+p1p2": "5.6.4 and both patches"}


@cache
def dbench_presets() -> dict[str, Preset]:
    """The machines of thread 1's explorer by name: the thread's, under several versions of BFQ, and measured kernels'.

    >>> list(dbench_presets())[0]
    'thread 1: 5.6.4'
    """
    from ..threads import dbench, wakers

    said = wakers.published()
    out = {
        f"thread 1: {words}": Preset(wakers.thread_machine(version)[0], published=said)
        for version, words in {**WORDS, "5.12": "BFQ of 5.12"}.items()
    }
    out["thread 1: 5.6.4, dbench in jbd2's cgroup"] = Preset(wakers.thread_machine()[0], "/", said)
    for version, words in WORDS.items():
        base = dbench.machine_with(600, version)
        measured = wakers.measured_course(version, wakers.MEASURED_RUN)
        machine = replace(base, scheduler=BFQ(kernel=version))
        out[f"measured at 600 us: {words}"] = Preset(machine, published=said, measured=measured)
    return out


@cache
def nfs_presets() -> dict[str, Preset]:
    """The machines of thread 4's explorer by name.

    >>> list(nfs_presets())[0]
    'thread 4: CFQ, no patches'
    """
    from ..threads import nfs

    said = {f"published, {name}: {v * 1e-6:.1f} MB/s": v for name, v in nfs.published().items()
            if name in ("cfq", "cooperators", "deadline")}  # fmt: skip
    names = {"cfq": "CFQ, no patches", "cooperators": "CFQ, cooperator patch", "deadline": "deadline",
             "anticipatory": "anticipatory"}  # fmt: skip
    return {f"thread 4: {words}": Preset(nfs.scenario(name)[0], published=said) for name, words in names.items()}


def code_of(machine: Machine, job: Job | Sequence[Job]) -> str:
    """The constructor calls that make this machine and this job, or these, and run them: to be pasted into a cell.

    >>> from iosched.workloads import dd
    >>> print(code_of(Machine(kernel="4.19", scheduler="noop"), dd(count=9)).splitlines()[2])
    vm = io.Machine(kernel='4.19', scheduler=io.Noop())
    """
    parts = [f"kernel={machine.kernel!r}"]
    for name in ("device", "filesystem", "scheduler", "volume"):
        value = getattr(machine, name)
        if name == "scheduler" or value != Machine.__dataclass_fields__[name].default:
            parts.append(f"{name}={_call(value)}")
    head = "import iosched as io\n"
    if machine.host == fitted_host(machine.kernel, machine.host.speed) != fitted_host(machine.kernel):
        head += "from iosched.host import fitted_host\n"
        parts.append(f"host=fitted_host({machine.kernel!r}, speed={machine.host.speed:g})")
    elif machine.host != fitted_host(machine.kernel):
        parts.append(f"host={_call(machine.host)}")
    if machine.cgroups != Cgroups():
        parts.append(f"cgroups={[p for p in machine.cgroups.paths if p != '/']!r}")
    if machine.nr_requests is not None:
        parts.append(f"nr_requests={machine.nr_requests}")
    if machine.memory != Memory():
        parts.append(f"memory={_call(machine.memory)}")
    if machine.wbt_lat_usec is not None:
        parts.append(f"wbt_lat_usec={machine.wbt_lat_usec!r}")
    one_line = ", ".join(parts)
    call = f"io.Machine({one_line})"
    if len(call) > 110:
        call = "io.Machine(\n" + "".join(f"    {part},\n" for part in parts) + ")"
    return f"{head}\nvm = {call}\nresult = io.simulate(vm, {_call(job)})\nprint(result)\n"


DOORS = {ConstantTime: "io.devices.ConstantTime", Dd: "io.workloads.dd", Dbench: "io.workloads.dbench",
         SharedReader: "io.workloads.SharedReader", Fio: "io.workloads.Fio", Disk: "io.devices.Disk",
         Channels: "io.devices.Channels"}  # fmt: skip


def _call(value: Any) -> str:
    """A frozen dataclass as its constructor call, without the fields that have their default."""
    if isinstance(value, list):
        return f"[{', '.join(map(_call, value))}]"
    if not is_dataclass(value):
        return repr(value)
    given = [f"{f.name}={_call(getattr(value, f.name))}" for f in fields(value) if getattr(value, f.name) != f.default]
    name = type(value).__name__
    door = DOORS.get(type(value), f"io.{name}")
    return f"{door}({', '.join(given)})"
