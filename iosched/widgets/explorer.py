"""What every explorer is: knobs, a picture that follows, presets, reset, a prediction first, code and export."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import ipywidgets as w

from ..errors import ScenarioError, unknown
from ..scenario import Machine
from ..workloads import Job
from .canvas import WIDTH, Canvas
from .controls import choice
from .learn import Prediction
from .machines import Preset, code_of

if TYPE_CHECKING:
    import pandas as pd

    from ..result import Result


class Explorer(w.VBox):
    """The part that all explorers share; a subclass says what the knobs are and what is drawn.

    `controls` maps knob names to widgets, `more` the other widgets that redraw; `machine`, `job`, `result` and `table`
    are what they say now; `message` holds one sentence; `picture` is the image. `preset`, `reset`, `code_button` with
    `code`, and `exports` are the other buttons.
    """

    file_name = "explorer"  # of what is exported
    unit = ""  # of the prediction
    question = ""

    def __init__(self, presets: Mapping[str, Preset], preset: str, predict_first: bool, canvas: Canvas) -> None:
        self._presets = presets
        if preset not in presets:
            raise unknown("preset", preset, presets)
        self._quiet = True
        self._last_touched: str | None = None
        self._predicted_for = ""
        self.table: pd.DataFrame | None = None
        self.result: Result | None = None
        self.canvas = canvas
        self.prediction = Prediction(self.question, self.unit)
        self.prediction.on_answer(lambda _: self._unlock())
        self.preset = choice("preset", list(presets), preset, "the machines of the thread and of the measurements")
        self.reset = w.Button(description="Reset", tooltip="back to the preset", icon="undo")
        self.code_button = w.Button(
            description="Copy as code", tooltip="the constructor call of this machine", icon="code"
        )
        self.code = w.Textarea(layout=w.Layout(width=f"{WIDTH}px", height="11em", display="none"))
        self.exports = {
            kind: w.Button(description=kind.upper(), tooltip=f"write the curve or picture as {kind}", icon="download",
                           layout=w.Layout(width="7em")) for kind in ("csv", "svg", "json")
        }  # fmt: skip
        self.picture = w.Image(format="png", width=WIDTH, height=canvas.height)
        self.picture.layout = w.Layout(width=f"{WIDTH}px", height=f"{canvas.height}px", object_fit="contain")
        self.message = w.HTML(layout=w.Layout(height="3em"))
        self.more = self._make_more()
        self.controls = self._make_controls()
        self._load(presets[preset])
        for name, widget in {**self.controls, **self.more}.items():
            widget.observe(lambda change, name=name: self._turned(name), "value")
        self.preset.observe(lambda _: self._begin_again(), "value")
        self.reset.on_click(lambda _: self._begin_again())
        self.code_button.on_click(lambda _: self._show_code())
        for kind, button in self.exports.items():
            button.on_click(lambda _, kind=kind: self._export(kind))
        self._locked = predict_first
        self._enable()
        buttons = w.HBox([self.preset, self.reset, self.code_button, *self.exports.values()])
        first = [self.prediction] if self._locked else []
        columns = w.HBox([w.VBox(column) for column in self._columns()])
        super().__init__([*first, buttons, columns, self.message, self.picture, self.code])
        self._quiet = False
        self._dress()
        self._update("")

    # -----------------------------------------------------------------------------------------------------------------
    # what a subclass says

    def _make_controls(self) -> dict[str, w.Widget]:
        """The knobs."""
        raise NotImplementedError

    def _make_more(self) -> dict[str, w.Widget]:
        """Other widgets that redraw the picture."""
        return {}

    def _columns(self) -> Sequence[Sequence[w.Widget]]:
        """How the widgets are arranged."""
        raise NotImplementedError

    @property
    def machine(self) -> Machine:
        """The machine that the controls describe."""
        raise NotImplementedError

    @property
    def job(self) -> Job:
        """The job that the controls describe."""
        raise NotImplementedError

    def _load(self, preset: Preset) -> None:
        """Set every control to a preset."""
        raise NotImplementedError

    def _react(self, name: str) -> str:
        """Let other controls follow one that was turned; returns what is to be said of it."""
        raise NotImplementedError

    def _live(self) -> dict[str, bool]:
        """Controls that may be without effect: can they be turned now?"""
        raise NotImplementedError

    def _dress(self) -> None:
        """Draw what stands still. A prediction belongs to the preset it was made for."""
        raise NotImplementedError

    def _rows(self) -> Sequence[str]:
        """Names of the lanes before anything is simulated."""
        raise NotImplementedError

    def _remember(self) -> None:
        """Keep what is drawn now as the ghost."""
        raise NotImplementedError

    def _forget(self) -> None:
        """No ghost any more."""
        raise NotImplementedError

    def _simulate(self, machine: Machine, job: Job) -> None:
        """Set `result` and `table`."""
        raise NotImplementedError

    def _draw(self) -> None:
        """Draw `result` and `table`."""
        raise NotImplementedError

    def _number(self, result: Result) -> float:
        """What was predicted, in `unit`."""
        raise NotImplementedError

    def _why_unchanged(self, name: str) -> str:
        """Why turning this knob changed nothing."""
        raise NotImplementedError

    # -----------------------------------------------------------------------------------------------------------------
    # what happens

    @contextmanager
    def _without_update(self) -> Iterator[None]:
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    def _turned(self, name: str) -> None:
        """A control has a new value."""
        if self._quiet:
            return
        with self._without_update():
            note = self._react(name)
        if self._locked:
            self._say("Predict first: give a number above, then the answer appears.")
            return
        self._enable()
        if name != self._last_touched and self.result is not None:
            self._remember()
        self._last_touched = name
        self._update(note, name)

    def _begin_again(self) -> None:
        """Everything as the preset has it; without the ghost."""
        with self._without_update():
            self._load(self._presets[self.preset.value])
        self._last_touched = None
        self._forget()
        self._enable()
        self._dress()
        self._update("")

    @property
    def _guess(self) -> float | None:
        """The prediction, while the preset that it was made for is shown."""
        return self.prediction.answer if self.preset.value == self._predicted_for else None

    def _unlock(self) -> None:
        self._locked, self._predicted_for = False, self.preset.value
        self._enable()
        self._dress()
        self._update("")
        self._say(self.prediction.compare(self._number(self.result)))

    def _enable(self) -> None:
        """Grey out what cannot be turned now."""
        live = self._live()
        for name, widget in {**self.controls, **self.more, "preset": self.preset, "reset": self.reset}.items():
            widget.disabled = self._locked or not live.get(name, True)
        for button in (self.code_button, *self.exports.values()):
            button.disabled = self._locked

    def _say(self, text: str) -> None:
        self.message.value = f"<div style='font-size:115%'>{html.escape(text)}</div>"

    def _update(self, note: str, turned: str | None = None) -> None:
        """Simulate, draw, and say in one sentence what is to be said."""
        if self._locked:
            self.canvas.veil.set_text("Predict first.")
            self.canvas.show_lanes(None, self._rows())
            self.picture.value = self.canvas.png()
            self._say("What will it be? Give your number above, then everything can be turned.")
            return
        before = self.result
        try:
            machine, job = self.machine, self.job
            self._simulate(machine, job)
        except ScenarioError as error:
            self._say(str(error))
            return
        if turned in self.controls and not note and before is not None:
            same = abs(self._number(self.result) / self._number(before) - 1) <= 5e-4
            note = self._why_unchanged(turned) if same else ""
        self.canvas.veil.set_text("")
        self._draw()
        self.picture.value = self.canvas.png()
        self._say(note)
        if self.code.layout.display != "none":
            self.code.value = self._code()

    # -----------------------------------------------------------------------------------------------------------------
    # code and files

    def _code(self) -> str:
        """What makes this machine and runs this job, to be pasted into a cell."""
        return code_of(self.machine, self.job)

    def _show_code(self) -> None:
        self.code.value = self._code()
        self.code.layout.display = None
        self._say("Select the text below the picture and copy it into a cell; it runs as it is.")

    def export(self, kind: str, folder: str | Path = ".") -> Path:
        """Write the curve (csv, json) or the picture (svg) into a folder, and return the file's path.

        Raises ScenarioError for another kind, or before the prediction.
        """
        if kind not in self.exports:
            raise unknown("export", kind, self.exports)
        if self.table is None:
            raise ScenarioError("export: there is nothing to export before the prediction; give a number first.")
        path = Path(folder) / f"{self.file_name}.{kind}"
        if kind == "csv":
            self.table.to_csv(path, index=False)
        elif kind == "json":
            self.table.to_json(path, orient="records", indent=1)
        else:
            path.write_bytes(self.canvas.svg())
        return path

    def _export(self, kind: str) -> None:
        try:
            self._say(f"Written: {self.export(kind)}, beside the notebook.")
        except OSError as error:
            self._say(f"The file could not be written: {error.strerror}.")
