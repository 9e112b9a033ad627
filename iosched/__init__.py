"""iosched explains, predicts and reproduces how the Linux block layer schedules I/O.

>>> import iosched as io
>>> vm = io.Machine(kernel="4.19", device=io.devices.null(completion_us=100), scheduler=io.CFQ(slice_idle=8))
>>> result = io.simulate(vm, [io.workloads.dd(bs=512, count=100, oflag="dsync", cgroup="user.slice")])
>>> 7.9e-3 < result.time_per_op < 8.5e-3
True
"""

from . import devices, workloads
from .cgroups import Cgroup, Cgroups
from .errors import EngineError, ScenarioError
from .filesystems import XFS, Ext4, Raw
from .host import Host
from .io_cost import IOCost
from .memory import Memory
from .scenario import Machine, Scenario
from .schedulers import BFQ, CFQ, Anticipatory, Deadline, Kyber, MqDeadline, Noop, NoScheduler, OldCFQ, WakerRules
from .volumes import Volume

__version__ = "0.1.0"

__all__ = [
    "BFQ",
    "CFQ",
    "XFS",
    "Anticipatory",
    "Cgroup",
    "Cgroups",
    "Deadline",
    "EngineError",
    "Ext4",
    "Host",
    "IOCost",
    "Kyber",
    "Machine",
    "Memory",
    "MqDeadline",
    "NoScheduler",
    "Noop",
    "OldCFQ",
    "Observation",
    "Range",
    "Raw",
    "Scenario",
    "ScenarioError",
    "Volume",
    "WakerRules",
    "bounds",
    "calibrate",
    "closed_form",
    "devices",
    "mix_bounds",
    "mva",
    "saturated_mix",
    "run_many",
    "sensitivity",
    "simulate",
    "summarise",
    "sweep",
    "workloads",
]

_LAZY = {
    "simulate": "simulation",
    "closed_form": "queueing",
    "bounds": "queueing",
    "mva": "queueing",
    "saturated_mix": "queueing",
    "mix_bounds": "queueing",
    "sweep": "sweeps",
    "summarise": "sweeps",
    "run_many": "runner",
    "Range": "points",
    "sensitivity": "sensitivities",
    "calibrate": "calibration",
    "Observation": "calibration",
}


def __getattr__(name: str):
    """Load the engine, the formulas and the sweeps when they are first used: importing iosched stays cheap."""
    if name in _LAZY:
        from importlib import import_module

        value = getattr(import_module(f".{_LAZY[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'iosched' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, those that are loaded later included, for tab completion."""
    return sorted({*globals(), *__all__})
