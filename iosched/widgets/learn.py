"""Predict before you see, and exercises that answer."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as w
import numpy as np

from ..errors import unknown

Why = str | Callable[[Any], str]


class Prediction(w.VBox):
    """A number asked for before it is shown. `answer` is None until one was given.

    >>> p = Prediction("How many kB/s?", "kB/s")
    >>> p.number.value = 500
    >>> p.button.click()
    >>> p.answer
    500.0
    """

    def __init__(self, question: str, unit: str = "") -> None:
        self.unit = unit
        self.answer: float | None = None
        self._listeners: list[Callable[[float], None]] = []
        self.number = w.FloatText(value=0.0, description=f"{unit}:" if unit else "", layout=w.Layout(width="14em"))
        self.button = w.Button(description="I predict this", button_style="primary")
        self.feedback = w.HTML()
        self.button.on_click(self._submit)
        super().__init__([w.HTML(f"<b>{html.escape(question)}</b>"), w.HBox([self.number, self.button]), self.feedback])

    def on_answer(self, listener: Callable[[float], None]) -> None:
        """Call `listener(number)` when the prediction is made."""
        self._listeners.append(listener)

    def _submit(self, _button: Any = None) -> None:
        if not (math.isfinite(self.number.value) and self.number.value > 0):
            self.feedback.value = "Give a number above 0 first; a wrong one teaches more than none."
            return
        self.answer = float(self.number.value)
        self.number.disabled = self.button.disabled = True
        self.feedback.value = f"Noted: {self.answer:g} {self.unit}."
        for listener in self._listeners:
            listener(self.answer)

    def compare(self, value: float) -> str:
        """One sentence on the prediction, now that the value is known.

        >>> Prediction("How long?", "ms").compare(8.36)
        'It is 8.36 ms; you made no prediction.'
        """
        said = f"It is {value:.3g} {self.unit}".rstrip()
        if self.answer is None:
            return f"{said}; you made no prediction."
        factor = self.answer / value
        if 0.9 <= factor <= 1.1:
            return f"{said}; you said {self.answer:g}, within 10 %."
        too = f"{factor:.2g} times too high" if factor > 1 else f"{1 / factor:.2g} times too low"
        return f"{said}; you said {self.answer:g}, {too}."

    def reveal(self, value: float) -> w.HTML:
        """The sentence of `compare`, to be shown at the end of a cell."""
        return w.HTML(f"<b>{html.escape(self.compare(value))}</b>")


def predict(question: str, unit: str = "") -> Prediction:
    """Ask for a number now; `.reveal(value)` in a later cell says how near it was.

    >>> predict("How many ms does one write take?", "ms").unit
    'ms'
    """
    return Prediction(question, unit)


class Exercise(w.VBox):
    """A question with an answer that can be checked. `solved` says whether the last answer was right."""

    def __init__(
        self, question: str, check: Any, choices: Sequence[str], tolerance: float, unit: str, why: Why
    ) -> None:
        self.check = check.item() if isinstance(check, np.generic) else check
        self.tolerance, self.why = tolerance, why
        self.solved = False
        numeric = isinstance(self.check, (int, float)) and not isinstance(self.check, bool)
        if choices:
            self.answer = w.RadioButtons(options=list(choices), value=None, layout=w.Layout(width="auto"))
        elif numeric:
            self.answer = w.FloatText(description=f"{unit}:" if unit else "", layout=w.Layout(width="14em"))
        else:
            self.answer = w.Text(layout=w.Layout(width="24em"))
        self.button = w.Button(description="Check")
        self.feedback = w.HTML()
        self.button.on_click(self._judge)
        super().__init__([w.HTML(f"<b>{html.escape(question)}</b>"), self.answer, self.button, self.feedback])

    def _judge(self, _button: Any = None) -> None:
        verdict = self._verdict(self.answer.value)
        self.solved = verdict is True
        why = self.why(self.answer.value) if self.solved and callable(self.why) else self.why
        text = f"Right. {why}".strip() if self.solved else verdict or "Not yet; try again."
        self.feedback.value = (
            f"<span style='color:{'#00664d' if self.solved else '#a04000'}'>{html.escape(text)}</span>"
        )

    def _verdict(self, given: Any) -> bool | str:
        """True, or False, or a sentence that helps."""
        if given is None or given == "":
            return "Give an answer first."
        if isinstance(self.check, (int, float)) and not isinstance(self.check, bool):
            error = abs(given - self.check)
            if error <= self.tolerance * abs(self.check):
                return True
            if self.check and given and not 0.5 <= given / self.check <= 2:
                return f"Not yet: that is too {'high' if given > self.check else 'low'} by more than a factor of two."
            return f"Close, but too {'high' if given > self.check else 'low'}; allowed are {self.tolerance:.0%}."
        if isinstance(self.check, str):
            return str(given).strip().casefold() == self.check.strip().casefold()
        return self.check(given)


def exercise(
    question: str,
    check: float | str | Callable[[Any], bool | str],
    *,
    choices: Sequence[str] = (),
    tolerance: float = 0.05,
    unit: str = "",
    why: Why = "",
) -> Exercise:
    """A question whose answer is checked at once.

    `check` is the right number (within `tolerance`, a fraction), the right word, or a function of the answer that
    returns True, False, or a sentence that helps. `choices` offers words to choose from. `why` is shown with the right
    answer; it may be a function of it.

    >>> e = exercise("How many requests is one write?", 3, tolerance=0)
    >>> e.answer.value = 3
    >>> e.button.click()
    >>> e.solved
    True
    """
    if choices and isinstance(check, str) and check not in choices:
        raise unknown("exercise: check", check, choices)
    return Exercise(question, check, choices, tolerance, unit, why)
