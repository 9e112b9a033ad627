"""What several tests use: the checkout's root, and code run in a new interpreter."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def python(code: str, **env: str) -> str:
    """Run code in a new interpreter and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def said(explorer) -> str:
    """The sentence under the controls, as text."""
    return html.unescape(re.sub("<[^>]+>", "", explorer.message.value))


def other_value(widget):
    """Some value that the widget does not have now."""
    if hasattr(widget, "options"):
        values = [o[1] if isinstance(o, tuple) else o for o in widget.options]
        return next(v for v in reversed(values) if v != widget.value)
    if isinstance(widget.value, bool):
        return not widget.value
    low = 10**widget.min if hasattr(widget, "base") else widget.min
    high = 10**widget.max if hasattr(widget, "base") else widget.max
    return low + (widget.value - low) / 2 if widget.value > low else (low + high) / 2


def answer(exercise, value) -> str:
    exercise.answer.value = value
    exercise.button.click()
    return html.unescape(re.sub("<[^>]+>", "", exercise.feedback.value))
