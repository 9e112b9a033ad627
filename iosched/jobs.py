"""What all jobs share: the notation of sizes, priority classes, and the checks of a job's name and place."""

from __future__ import annotations

import re
from typing import Any

from .errors import ScenarioError, number, unknown
from .knobs import check

IOCLASSES = ("best-effort", "realtime", "idle")
SUFFIXES = {"": 1, "c": 1, "w": 2, "b": 512, "kB": 1000, "k": 1024, "K": 1024, "KiB": 1024, "MB": 10**6, "M": 2**20,
            "MiB": 2**20, "GB": 10**9, "G": 2**30, "GiB": 2**30}  # fmt: skip


def check_job(job: Any, kind: str, *texts: str) -> None:
    """Check every knob of a job, that its name, its cgroup and `texts` are texts, and its priority class."""
    check(job, f"{kind}.")
    for name in ("name", "cgroup", *texts):
        if not isinstance(getattr(job, name), str):
            raise ScenarioError(f"{kind}.{name}: {getattr(job, name)!r} is not allowed; give a text.")
    if not isinstance(job.ioclass, str) or job.ioclass not in IOCLASSES:
        raise unknown(f"{kind}.ioclass", job.ioclass, IOCLASSES)


def check_options(cls: type, kind: str, options: dict[str, object]) -> None:
    """Refuse what is no field of the job."""
    for name in options:
        if name not in cls.__dataclass_fields__:
            raise unknown(f"{kind} option", name, cls.__dataclass_fields__)


def parse_size(field: str, value: int | str, most: int = 2**30) -> int:
    """Bytes from a number or dd's notation, at most `most`.

    >>> parse_size("bs", "8k"), parse_size("bs", "1MB")
    (8192, 1000000)
    """
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+)([A-Za-z]*)", value.strip())
        if not match or match[2] not in SUFFIXES:
            raise ScenarioError(f"{field}: {value!r} is not a size; give bytes or a size such as '4k', '1M'.")
        value = int(match[1][:20]) * SUFFIXES[match[2]]
    return int(number(field, value, 1, most, "bytes", integer=True))
