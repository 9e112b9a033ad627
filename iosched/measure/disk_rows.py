"""Rows on a disk: the parameters of the two disk models that the kernels ran on, from `device` or `other_tunables`.

`null+hdd_model` and `null_hddmodel_*` (4.19) know the platter's true angle, `simblk_*:mode=1` (6.1) draws the
rotational delay. What a row does not say are the models' own defaults (`iosched.devices.hdd_model`, `simblk_disk`).
How large the disks were is not recorded; the mean seeks of rows without a scheduler fit whole sizes: 32 GiB (7,597 us a
random read of a 4 GiB file by itself), and for `null+hdd_model` 8 GiB in two halves.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from ..devices import Disk, hdd_model, simblk_disk
from .writer_rows import MIXED

MODEL = re.compile(r"(?:simblk|null_hddmodel)_\w+:(.*)")
TUNABLE = re.compile(r"hdd\w*=\d+")
COPIED_MBs = 2440.0  # 4.19's memory-backed null_blk: 128 KiB took 52 us longer than 4 KiB under noop
DESTAGE = {"1": "equal", "2": "turns"}
HALVES_GB = 8.589934592  # `null+hdd_model`
# Way between the mixed rows' files as a part of the disk, against files that follow one another in half of 8 GiB:
# twice (on 2 GiB, or that far apart). Where reads and pieces of the write cache take turns each takes four turns of the
# platter then, as the median read of those rows does (34,208 us), and a writer waits 2.1 s for 64 of them.
TWICE_THE_WAY = math.sqrt(2)


def words_of(text: str) -> dict[str, str]:
    """The parameters in "a=1;b=2"."""
    match = MODEL.fullmatch(text)
    return dict(word.partition("=")[::2] for word in match[1].split(";")) if match else {}


def disk_of(row: dict[str, str]) -> Disk | None:
    """The disk of a row; None for any other device."""
    words = words_of(row["device"])
    if words.get("mode") == "1":
        return simblk_disk(**_simblk(words))
    if row["device"] == "null+hdd_model":
        tunables = row.get("other_tunables", "").split()
        words = dict(word.partition("=")[::2] for word in tunables if TUNABLE.fullmatch(word))
        # from the end of the log's blocks to the commit block's issue pass 16 us under noop and 32 us under CFQ (their
        # event logs), on either side of the 20 us within which the model's contiguous write goes on; under CFQ and BFQ
        # only what is in the disk already does
        grace = 0.001 if row["scheduler"] in ("cfq", "bfq") else 20.0
        mixed = row["workload"] == MIXED
        size = HALVES_GB / 2 if mixed else HALVES_GB
        disk = hdd_model(capacity_GB=size, copy_MBs=COPIED_MBs, write_grace_us=grace, **_hdd_model(words))
        return replace(disk, seek_root_ms=disk.seek_root_ms * TWICE_THE_WAY) if mixed else disk
    if words.get("hdd") == "2":
        return hdd_model(**_hdd_model(words))
    return None


def _hdd_model(words: dict[str, str]) -> dict[str, object]:
    """Options of `hdd_model` that a row gives."""
    options: dict[str, object] = {}
    if "hdd_rpm" in words:
        options["rpm"] = float(words["hdd_rpm"])
    if "hdd_kbps" in words:
        options["zones_MBs"] = float(words["hdd_kbps"]) / 1000
    if "hdd_cmd_us" in words:
        options["completion_us"] = float(words["hdd_cmd_us"])
    if "hdd_ncq_age_ms" in words:
        options["ncq_age_ms"] = float(words["hdd_ncq_age_ms"])
    if "hdd_seek_min_us" in words:
        options |= _seeks(words["hdd_seek_min_us"], words["hdd_seek_max_us"])
    if float(words.get("hdd_wcache_kb", 0)):
        options |= {"write_cache": True, "cache_kb": int(words["hdd_wcache_kb"])}
    if "hdd_destage" in words:
        options["destage"] = DESTAGE[words["hdd_destage"]]
    return options


def _simblk(words: dict[str, str]) -> dict[str, object]:
    """Options of `simblk_disk` that a row gives."""
    options: dict[str, object] = {"rpm": float(words["rpm"]), "zones_MBs": float(words["bw_mbps"])}
    options |= _seeks(words["seek_min_us"], words["seek_max_us"])
    options["ncq_choice"] = "nearest" if words.get("ncq") == "1" else "order"
    options["ncq_age_ms"] = float(words.get("age_ms", 0))
    if float(words.get("cache_kb", 0)):
        options |= {"write_cache": True, "cache_kb": int(words["cache_kb"]), "ack_us": float(words["wc_ns"]) / 1000}
    return options


def _seeks(least_us: str, most_us: str) -> dict[str, object]:
    """The seek curve from the shortest to the whole way, by the square root of the distance."""
    least, most = float(least_us) / 1000, float(most_us) / 1000
    return {"seek_settle_ms": least, "seek_root_ms": most - least}
