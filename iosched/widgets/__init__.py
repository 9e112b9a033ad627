"""Widgets for the notebooks: explorers of threads 0, 1 and 2, predictions before reveals, exercises that answer.

The sliders take label, range and unit from the knobs' own descriptions (`iosched.knobs`): there is one source. The
picture is an image that is replaced as a whole, of fixed size, so nothing flickers; its artists are kept and only their
data change, on a background that is kept too. Everything reacts to `widget.value = ...` in code as to the mouse.
"""

from __future__ import annotations

try:
    import ipywidgets as w  # noqa: F401
except ImportError as error:
    raise ImportError("iosched.widgets needs ipywidgets; install iosched[notebook].") from error

from .dbench import DbenchExplorer, dbench_explorer
from .dsync import DsyncExplorer, dsync_explorer, measure_slider
from .exercises import dbench_exercise, dsync_exercise
from .latency import LatencyExplorer, latency_explorer
from .learn import exercise, predict
from .machines import code_of, presets

__all__ = [
    "DbenchExplorer",
    "DsyncExplorer",
    "LatencyExplorer",
    "code_of",
    "dbench_exercise",
    "dbench_explorer",
    "dsync_exercise",
    "dsync_explorer",
    "exercise",
    "latency_explorer",
    "measure_slider",
    "predict",
    "presets",
]
