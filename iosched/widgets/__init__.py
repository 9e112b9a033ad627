"""Widgets for the notebooks: explorers of the threads, predictions before reveals, exercises that answer.

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
from .exercises import dbench_exercise, dsync_exercise, nfs_exercise, writeback_exercise
from .latency import LatencyExplorer, latency_explorer
from .learn import exercise, predict
from .machines import code_of, presets
from .nfs import NfsExplorer, nfs_explorer
from .writeback import WritebackExplorer, writeback_explorer

__all__ = [
    "DbenchExplorer",
    "DsyncExplorer",
    "NfsExplorer",
    "WritebackExplorer",
    "LatencyExplorer",
    "code_of",
    "dbench_exercise",
    "dbench_explorer",
    "dsync_exercise",
    "dsync_explorer",
    "exercise",
    "latency_explorer",
    "measure_slider",
    "nfs_exercise",
    "nfs_explorer",
    "predict",
    "presets",
    "writeback_exercise",
    "writeback_explorer",
]
