"""Widgets for the notebooks: the explorer of thread 0, predictions before reveals, and exercises that answer.

The sliders take label, range and unit from the knobs' own descriptions (`iosched.knobs`): there is one source. The
picture is an image that is replaced as a whole, of fixed size, so nothing flickers; its artists are kept and only their
data change, on a background that is kept too. Everything reacts to `widget.value = ...` in code as to the mouse.
"""

from __future__ import annotations

try:
    import ipywidgets as w  # noqa: F401
except ImportError as error:
    raise ImportError("iosched.widgets needs ipywidgets; install iosched[notebook].") from error

from .exercises import dsync_exercise
from .explorer import DsyncExplorer, dsync_explorer, measure_slider
from .learn import exercise, predict
from .machines import code_of, presets

__all__ = [
    "DsyncExplorer",
    "code_of",
    "dsync_exercise",
    "dsync_explorer",
    "exercise",
    "measure_slider",
    "predict",
    "presets",
]
