"""What every picture shares: the style, the palette, axes with units, and the published value beside the modelled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette: distinct for every common kind of colour vision, and in grey
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442"
)  # fmt: skip
INK, GREY, PALE = "#222222", "#777777", "#DDDDDD"
TASK_COLOURS = (BLUE, GREEN, PURPLE, SKY, YELLOW, "#882255", "#999933", "#44AA99")

STYLE = {
    "font.size": 14,
    "axes.titlesize": 16,
    "axes.titlelocation": "left",
    "axes.labelsize": 15,
    "legend.fontsize": 13,
    "xtick.labelsize": 13,
    "ytick.labelsize": 13,
    "lines.linewidth": 2.5,
    "lines.markersize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 1.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "iosched",  # the same picture gives the same file
    "figure.facecolor": "white",
}


class Picture(Figure):
    """A Figure that a notebook shows without pyplot, sharp on every screen."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        with rc_context(STYLE):
            out = BytesIO()
            self.savefig(out, format="png", dpi=144)
        width, height = self.get_size_inches()
        return out.getvalue(), {"width": round(width * 80), "height": round(height * 80)}


def save(figure: Figure, path: str | Path) -> Path:
    """Write a picture to a file, its format by the ending of the name; the same picture gives the same file.

    Returns the path.

    >>> from tempfile import mkdtemp
    >>> save(Picture(), Path(mkdtemp()) / "empty.svg").name
    'empty.svg'
    """
    path = Path(path)
    with rc_context(STYLE):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return path


def styled(function: Callable[..., Picture]) -> Callable[..., Picture]:
    """Draw with the lecture-room style, and leave the user's own settings alone."""

    @wraps(function)
    def drawn(*args: Any, **kwargs: Any) -> Picture:
        with rc_context(STYLE):
            return function(*args, **kwargs)

    return drawn


QUANTITIES: dict[str, tuple[str, float]] = {  # column -> (axis label, factor from SI)
    "time_per_op_s": ("time of one write (ms)", 1e3),
    "latency_mean_s": ("mean latency of a write (ms)", 1e3),
    "latency_max_s": ("longest write (ms)", 1e3),
    "elapsed_s": ("elapsed time (s)", 1.0),
    "bytes_per_s": ("throughput (kB/s)", 1e-3),
    "idles_per_op": ("idle windows waited out in a write", 1.0),
    "requests_per_op": ("requests of one write", 1.0),
    "utilisation": ("%util", 100.0),
    "operations": ("writes", 1.0),
}


def quantity(name: str, largest: float = 0.0) -> tuple[str, float]:
    """Axis label with unit, and the factor from the column's SI unit; an unknown column is shown as it is.

    `largest` is the largest value to be shown: throughputs of tens of megabytes get an axis in MB/s.

    >>> quantity("time_per_op_s"), quantity("bytes_per_s", 200e6)
    (('time of one write (ms)', 1000.0), ('throughput (MB/s)', 1e-06))
    """
    if name == "bytes_per_s" and largest > 2e7:
        return "throughput (MB/s)", 1e-6
    return QUANTITIES.get(name, (name, 1.0))


def knob_label(name: str) -> str:
    """A knob's name with its unit, from its own description.

    >>> knob_label("scheduler.slice_idle"), knob_label("device.completion_us")
    ('slice_idle (ms)', 'completion (us)')
    """
    unit = knob_metadata(name).get("unit")
    short = name.rpartition(".")[2]
    return f"{short.removesuffix('_' + unit)} ({unit})" if unit else short


def knob_metadata(name: str) -> Mapping[str, Any]:
    """The description (`knobs.knob`) of a dotted knob: unit, range, slider. Empty for whole parts of a machine.

    >>> knob_metadata("device.completion_us")["unit"]
    'us'
    """
    from ..devices import SSD, Channels, ConstantTime, Disk
    from ..filesystems import FILESYSTEMS
    from ..host import Host
    from ..schedulers import SCHEDULERS, OldCFQ, WakerRules
    from ..workloads import Dbench, Dd, SharedReader

    part, _, rest = name.partition(".")
    if rest.startswith("waker_rules."):
        part, _, rest = rest.partition(".")
    classes: dict[str, Iterable[type]] = {
        "scheduler": [*(row[0] for row in SCHEDULERS.values()), OldCFQ],
        "device": [ConstantTime, Channels, Disk, SSD],
        "filesystem": FILESYSTEMS.values(),
        "host": [Host],
        "waker_rules": [WakerRules],
        "dbench": [Dbench],
        "shared": [SharedReader],
    }
    for cls in classes.get(part, [Dd]):
        found = cls.__dataclass_fields__.get(rest)
        if found is not None:
            return found.metadata
    return {}


def plain_ticks(axis: Any) -> None:
    """Plain numbers on a logarithmic axis, at 1, 2 and 5, no 10³."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axis.set_minor_formatter(NullFormatter())


def band(published: Any) -> tuple[float, float]:
    """(low, high) of a published value: one number, or a pair.

    >>> band(60_000.0), band((1.5e6, 2e6))
    ((60000.0, 60000.0), (1500000.0, 2000000.0))
    """
    low, high = published if isinstance(published, Sequence) else (published, published)
    return float(low), float(high)


def draw_published(ax: Axes, published: Any, factor: float = 1.0, label: str = "published", horizontal: bool = True,
                   colour: str = RED) -> None:  # fmt: skip
    """The published value: a line through the middle of its band, and the band."""
    low, high = (v * factor for v in band(published))
    line, span = (ax.axhline, ax.axhspan) if horizontal else (ax.axvline, ax.axvspan)
    if high > low:
        span(low, high, color=colour, alpha=0.18, lw=0)
    line((low * high) ** 0.5, color=colour, ls="--", lw=2, label=label)
