"""Pictures for a lecture room: labelled axes with units, large type, colours that everybody can tell apart, and the
published value beside the modelled one wherever there is one.

Every function returns a `Picture`, a matplotlib Figure outside pyplot: nothing is shown by itself, nothing has to be
closed, and a notebook displays the returned value. `save(picture, "name.svg")` writes it to a file.
"""

from __future__ import annotations

from .base import Picture, quantity, save
from .budget import time_budget
from .comparison import reproduction, theory, validation_scatter
from .curves import grid_heatmap, knob_curve
from .interleaving import dd_rates, interleaving, stream_lanes
from .latency import depths, latencies
from .mixes import latency_buckets, shares
from .operation import Lanes, cooperation, lanes, timeline, timelines, typical_operation
from .throughput import course, rates, rules

__all__ = [
    "Lanes",
    "Picture",
    "cooperation",
    "course",
    "dd_rates",
    "depths",
    "grid_heatmap",
    "interleaving",
    "knob_curve",
    "lanes",
    "latency_buckets",
    "latencies",
    "quantity",
    "rates",
    "reproduction",
    "rules",
    "save",
    "stream_lanes",
    "theory",
    "shares",
    "time_budget",
    "timeline",
    "timelines",
    "typical_operation",
    "validation_scatter",
]
