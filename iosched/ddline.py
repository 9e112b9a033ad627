"""dd's own way of printing: decimal kB and MB, six significant digits of seconds."""

from __future__ import annotations

SI = ["B", "kB", "MB", "GB", "TB", "PB"]
IEC = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]


def dd_lines(records: int, nbytes: int, seconds: float) -> str:
    """The three lines that dd prints (GNU coreutils, C locale).

    >>> print(dd_lines(10000, 5120000, 3.90981).splitlines()[-1])
    5120000 bytes (5.1 MB, 4.9 MiB) copied, 3.90981 s, 1.3 MB/s
    """
    sizes = []
    if nbytes >= 1000:
        sizes.append(_size(nbytes, 1000, SI))
    if nbytes >= 1024:
        sizes.append(_size(nbytes, 1024, IEC))
    shown = f" ({', '.join(sizes)})" if sizes else ""
    plural = "byte" if nbytes == 1 else "bytes"
    speed = rate(nbytes / seconds) if seconds > 0 else "Infinity B/s"
    return f"{records}+0 records in\n{records}+0 records out\n{nbytes} {plural}{shown} copied, {seconds:.6g} s, {speed}"


def rate(bytes_per_s: float) -> str:
    """A throughput as dd prints it: three digits, one decimal below 100.

    >>> rate(60362), rate(1.3e6), rate(104e6)
    ('60.4 kB/s', '1.3 MB/s', '104 MB/s')
    """
    value, k = bytes_per_s, 0
    while round(value, 1 if value < 99.95 else 0) >= 1000 and k < len(SI) - 1:
        value /= 1000
        k += 1
    return f"{value:.1f} {SI[k]}/s" if value < 99.95 else f"{value:.0f} {SI[k]}/s"


def _size(nbytes: int, base: int, units: list[str]) -> str:
    """A byte count as dd prints it: one decimal below 10."""
    value, k = float(nbytes), 0
    while value >= base and k < len(units) - 1:
        value /= base
        k += 1
    return f"{value:.1f} {units[k]}" if value < 9.95 else f"{value:.0f} {units[k]}"
