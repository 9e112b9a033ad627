"""Bad input gets one clear sentence: the field, the value, and what is allowed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Real


class ScenarioError(ValueError):
    """The user's input cannot be simulated; the message says which field and what is allowed."""


class EngineError(RuntimeError):
    """A run broke one of the engine's laws: a bug of iosched, never of the input."""


def unknown(field: str, value: object, allowed: Iterable[object], note: str = "") -> ScenarioError:
    """An error for a name that is not in a list, with the closest names first.

    >>> print(unknown("scheduler", "cqf", ["cfq", "noop"]))
    scheduler: 'cqf' is unknown; did you mean 'cfq'? Allowed: cfq, noop.
    """
    names = [str(a) for a in allowed]
    close = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return ScenarioError(
        f"{field}: {value!r} is unknown; {hint}{'A' if hint else 'a'}llowed: {', '.join(names)}.{note}"
    )


def number(field: str, value: object, low: float, high: float, unit: str = "", *, integer: bool = False) -> float:
    """Return `value` if it is a finite number within [low, high], else raise.

    >>> number("bs", 512, 1, 2**30, "bytes")
    512
    """
    suffix = f" {unit}" if unit else ""
    kind = "a whole number" if integer else "a number"
    allowed = f"{kind} from {low:g} to {high:g}{suffix}"
    try:
        ok = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value) and low <= value <= high
        ok = ok and (not integer or int(value) == value)
    except (TypeError, ValueError, OverflowError):
        ok = False
    if not ok:
        value = value if len(str_of(value)) < 60 else f"{str_of(value)[:50]}..."
        raise ScenarioError(f"{field}: {value!r} is not allowed; give {allowed}.")
    return int(value) if integer else value


def str_of(value: object) -> str:
    """The value as text, whatever it is (Python refuses to print integers of more than 4,300 digits)."""
    try:
        return str(value)
    except ValueError:
        return "a number of thousands of digits"
