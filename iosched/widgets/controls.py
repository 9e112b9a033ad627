"""One control a knob: label, range and unit come from the knob's own description."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ipywidgets as w

from ..plots.base import knob_label, knob_metadata

LABEL, CONTROL = "12em", "27em"  # widths of a control's label, and of all of it


def control(name: str, value: Any) -> w.Widget:
    """The widget of a knob, from its own description: label with unit, range, scale, and its help text as tooltip.

    >>> control("scheduler.slice_idle", 8).description
    'slice_idle (ms)'
    """
    meta = knob_metadata(name)
    label = knob_label(name)
    tip = meta["doc"] + (f"; /sys/block/DEV/{meta['sysfs']}" if meta["sysfs"].startswith(("queue", "device")) else "")
    if meta["choices"]:
        return choice(label, meta["choices"], value, tip)
    style, layout = {"description_width": LABEL}, w.Layout(width=CONTROL)
    if meta["slider"] is None:
        return w.Checkbox(value=bool(value), description=label, tooltip=tip, style=style, layout=layout)
    low, high, scale = meta["slider"]
    common = {"description": label, "tooltip": tip, "style": style, "layout": layout, "continuous_update": True}
    if scale == "linear" and meta["integer"]:
        return w.IntSlider(value, min=low, max=high, step=max((high - low) // 32, 1), **common)
    if scale == "linear":
        return w.FloatSlider(value, min=low, max=high, step=(high - low) / 32, **common)
    if meta["integer"]:
        steps = [1 << k for k in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)]
        return w.SelectionSlider(options=steps, value=value, **common)
    return w.FloatLogSlider(
        value, base=10, min=math.log10(low), max=math.log10(high), step=0.02, readout_format=".4g", **common
    )


def choice(label: str, options: Sequence[Any], value: Any, tip: str) -> w.Dropdown:
    """A list to choose from, as wide as a knob."""
    return w.Dropdown(
        options=options,
        value=value,
        description=label,
        tooltip=tip,
        style={"description_width": LABEL},
        layout=w.Layout(width=CONTROL),
    )


def rounded(value: float, digits: int = 4) -> float:
    """So many digits, and whole where it is whole, so that what code shows is what the slider shows."""
    short = float(f"{value:.{digits}g}")
    return int(short) if short == int(short) else short
