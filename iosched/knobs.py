"""One description a parameter: unit, range, default, and the file it has under sysfs.

The frozen dataclasses of the package (`CFQ`, `Host`, `ConstantTime`, ...) declare their fields with `knob`. From that
one source come the checks, the widgets' sliders, the command line and the tables of the documentation.
"""

from __future__ import annotations

from dataclasses import Field, field, fields
from functools import wraps
from typing import Any

from .errors import ScenarioError, number, unknown

MAX_U32 = 4_294_967_295


def knob(
    default: Any,
    doc: str,
    unit: str = "",
    low: float = 0,
    high: float = MAX_U32,
    *,
    integer: bool = False,
    choices: tuple = (),
    optional: bool = False,
    sysfs: str = "",
    slider: tuple | None = None,
) -> Any:
    """A dataclass field with its description. `optional` lets None stand for "the kernel's default"."""
    meta = {
        "doc": doc,
        "unit": unit,
        "low": low,
        "high": high,
        "integer": integer,
        "choices": choices,
        "optional": optional,
        "sysfs": sysfs,
        "slider": slider,
    }
    return field(default=default, metadata=meta)


def named(cls: type) -> type:
    """Class decorator: an unknown keyword is refused with the names there are, as any other bad input."""
    plain = cls.__init__

    @wraps(plain)
    def strict(self: object, *args: Any, **kwargs: Any) -> None:
        for key in kwargs:
            if key not in cls.__dataclass_fields__:
                raise unknown(f"{cls.__name__}.{key}", key, cls.__dataclass_fields__ or ["(none)"])
        plain(self, *args, **kwargs)

    cls.__init__ = strict
    return cls


def check(obj: object, prefix: str = "") -> None:
    """Check every knob of a dataclass instance against its own description; raise ScenarioError at the first."""
    for f in fields(obj):
        if "low" in f.metadata:
            check_value(f, getattr(obj, f.name), prefix)


def check_value(f: Field, value: Any, prefix: str = "") -> None:
    """Check one value against one knob."""
    name = f"{prefix}{f.name}"
    meta = f.metadata
    if value is None and meta["optional"]:
        return
    if meta["choices"]:
        if not isinstance(value, (str, int)) or value not in meta["choices"]:
            raise unknown(name, value, meta["choices"])
        return
    if isinstance(f.default, bool):
        if not isinstance(value, (bool, int)) or value not in (0, 1):
            raise ScenarioError(f"{name}: {value!r} is not allowed; give True or False (1 or 0).")
        return
    number(name, value, meta["low"], meta["high"], meta["unit"], integer=meta["integer"])


def describe(cls: type) -> list[dict[str, Any]]:
    """Rows of (name, default, unit, low, high, sysfs, doc) for a class's knobs, for tables and help texts.

    >>> from iosched import CFQ
    >>> describe(CFQ)[0]["name"]
    'slice_idle'
    """
    return [
        {"name": f.name, "default": f.default, **{k: f.metadata[k] for k in ("unit", "low", "high", "sysfs", "doc")}}
        for f in fields(cls)
        if "low" in f.metadata
    ]
