"""Bad input: one sentence that names the field, the value and what is allowed; never a silent default."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest

import iosched as io
from iosched.cli import main
from iosched.errors import ScenarioError
from iosched.schedulers import SCHEDULERS

dd, dbench = io.workloads.dd, io.workloads.dbench
nfs_read, shared = io.workloads.nfs_read, io.workloads.shared_reader
CFQ, null = io.CFQ, io.devices.null


@pytest.mark.parametrize(
    ("make", "field", "value"),
    [
        (lambda: io.Machine(scheduler="cqf"), "scheduler", "cqf"),
        (lambda: io.Machine(scheduler=42), "scheduler", "42"),
        (lambda: io.Machine(kernel="5.10", scheduler="cfq"), "scheduler", "5.10"),
        (lambda: io.Machine(kernel="4.4", scheduler="mq-deadline"), "scheduler", "mq-deadline"),
        (lambda: io.Machine(kernel="five"), "kernel", "five"),
        (lambda: io.Machine(kernel="2.4"), "kernel", "2.4"),
        (lambda: io.Machine(kernel="9.9"), "kernel", "9.9"),
        (lambda: io.Machine(kernel=4.19), "kernel", "4.19"),
        (lambda: io.Machine(kernel="2.6.39"), "kernel", "2.6.24 to 2.6.32"),
        (lambda: io.Machine(kernel="2.6.27", scheduler="mq-deadline"), "scheduler", "mq-deadline"),
        (lambda: io.Machine(kernel="2.6.27", scheduler=CFQ()), "scheduler", "OldCFQ"),
        (lambda: io.Machine(kernel="4.19", scheduler=io.OldCFQ()), "scheduler", "give CFQ"),
        (lambda: io.Machine(kernel="4.19", scheduler="anticipatory"), "scheduler", "anticipatory"),
        (lambda: io.simulate(io.Machine(kernel="2.6.27"), dd()), "kernel", "readers only"),
        (lambda: io.simulate(io.Machine(kernel="2.6.27"), shared(cgroup="user.slice")), "cgroup", "blkio"),
        (lambda: io.OldCFQ(cooperators="some"), "cooperators", "some"),
        (lambda: io.Host(hz=128), "hz", "100, 250, 300, 1000"),
        (lambda: nfs_read(threads=4, tasks=5), "tasks", "more than the 4 threads"),
        (lambda: nfs_read(io_context="shared"), "io_context", "nothing is shared"),
        (lambda: nfs_read(io_context="own"), "io_context", "own"),
        (lambda: nfs_read(thread=8, threds=8), "threds", "threads"),
        (lambda: nfs_read(threads=0), "threads", "0"),
        (lambda: nfs_read(bs=1000), "bs", "4096"),
        (lambda: nfs_read(burst=0), "burst", "0"),
        (lambda: nfs_read(network_MBs=0), "network_MBs", "0"),
        (lambda: shared(size="100G"), "size", "too large"),
        (lambda: shared(cgroups="ab"), "cgroups", "'ab'"),
        (lambda: shared(cgroups=("a", "b"), io_context="clone_io", parent_context=True), "io_context", "cgroups"),
        (lambda: io.Volume(layout="raid5"), "volume.layout", "raid5"),
        (lambda: io.Volume(disks=1), "volume.disks", "1"),
        (lambda: io.Volume(stripe_kb=6), "volume.stripe_kb", "6"),
        (lambda: io.Machine(volume="striped"), "volume", "striped"),
        (lambda: io.simulate(io.Machine(volume=io.Volume()), dd()), "volume", "dd"),
        (lambda: io.Machine(filesystem="btrfs"), "filesystem", "btrfs"),
        (lambda: io.Machine(filesystem=io.Ext4(jbd2_cgroup="nowhere")), "filesystem.jbd2_cgroup", "nowhere"),
        (lambda: io.Machine(device="null"), "device", "null"),
        (lambda: io.Machine(host="fast"), "host", "fast"),
        (lambda: io.Machine(nr_requests=0), "nr_requests", "0"),
        (lambda: io.Machine(nr_requests=2.5), "nr_requests", "2.5"),
        (lambda: io.Machine(cgroups={"a": 5}), "weight", "5"),
        (lambda: io.Cgroups([io.Cgroup("a", bfq_weight=1001)]), "bfq_weight", "1001"),
        (lambda: io.Cgroups([io.Cgroup("a", bfq_weight=0)]), "bfq_weight", "1 to 1000"),
        (lambda: io.Machine(kernel="5.2", scheduler=io.BFQ(waker_rules=io.WakerRules())), "waker_rules", "5.3"),
        (lambda: io.WakerRules(windows_us=4), "windows_us", "window_us"),
        (lambda: io.BFQ(slice_idel=1), "slice_idel", "slice_idle"),
        (lambda: dbench(clients=513), "clients", "512"),
        (lambda: dbench(clients=0), "clients", "0"),
        (lambda: dbench(load="client-tinny"), "load", "client-tinny"),
        (lambda: io.Scenario(io.Machine(), [dd(count=1)] * 513), "jobs", "1 to 512"),
        (lambda: io.Machine(cgroups=["/", ""]), "cgroups", "''"),
        (lambda: io.Machine(kernel="5.10", scheduler=io.MqDeadline(prio_aging_expire=5)), "prio_aging_expire", "5.10"),
        (lambda: io.Machine(cgroups=["a//b"]), "cgroup", "a//b"),
        (lambda: io.Machine(cgroups=["a/../b"]), "cgroup", "a/../b"),
        (lambda: io.Machine(cgroups="user.slice"), "cgroups", "user.slice"),
        (lambda: io.Machine(cgroups=5), "cgroups", "5"),
        (lambda: CFQ(slice_idel=1), "slice_idel", "slice_idle"),
        (lambda: io.Ext4(jbd2_cgrp="/"), "jbd2_cgrp", "jbd2_cgroup"),
        (lambda: dd(oflag=5), "oflag", "5"),
        (lambda: dd(conv=["fsync"]), "conv", "fsync"),
        (lambda: dd(count=10**400), "count", "000"),
        (lambda: dd(bs="9" * 5000), "bs", "99"),
        (lambda: io.simulate(io.Machine(), [dd(bs="1G", count=10**9)]), "count", "TB"),
        (lambda: CFQ(slice_idle=-1), "slice_idle", "-1"),
        (lambda: CFQ(slice_idle=float("nan")), "slice_idle", "nan"),
        (lambda: CFQ(slice_idle=float("inf")), "slice_idle", "inf"),
        (lambda: CFQ(slice_idle="8"), "slice_idle", "'8'"),
        (lambda: CFQ(slice_idle=8, slice_idle_us=9000), "slice_idle", "9000"),
        (lambda: CFQ(quantum=0), "quantum", "0"),
        (lambda: CFQ(quantum=1.5), "quantum", "1.5"),
        (lambda: CFQ(low_latency=2), "low_latency", "2"),
        (lambda: null(completion_us=0), "completion_us", "0"),
        (lambda: null(completion_us=-100), "completion_us", "-100"),
        (lambda: null(queue_depth=0), "queue_depth", "0"),
        (lambda: null(queue_depth=10**9), "queue_depth", str(10**9)),
        (lambda: null(completion_ms=5), "completion_ms", "completion_ms"),
        (lambda: null(max_sectors_kb=5), "max_sectors_kb", "5"),
        (lambda: io.Host(wakeup_us=-1), "wakeup_us", "-1"),
        (lambda: io.Host(speed=0), "speed", "0"),
        (lambda: io.XFS(log_writer="nobody"), "log_writer", "nobody"),
        (lambda: dd(bs=0), "bs", "0"),
        (lambda: dd(bs="12q"), "bs", "12q"),
        (lambda: dd(count=0), "count", "0"),
        (lambda: dd(count=-5), "count", "-5"),
        (lambda: dd(count=1.5), "count", "1.5"),
        (lambda: dd(oflag="dsnc"), "oflag", "dsnc"),
        (lambda: io.closed_form(io.Machine(), dd(oflag=None)), "oflag", "''"),
        (lambda: io.closed_form(io.Machine(), dd(bs="1M", count=999, oflag="", conv="fsync")), "dd.count", "999"),
        (lambda: dd(conv="fsink"), "conv", "fsink"),
        (lambda: dd(bs=100, oflag="direct"), "bs", "100"),
        (lambda: dd(partition=99), "partition", "99"),
        (lambda: dd(ioprio=8), "ioprio", "8"),
        (lambda: dd(ioclass="vip"), "ioclass", "vip"),
        (lambda: dd(iodepth=4), "iodepth", "iodepth"),
        (lambda: io.simulate(io.Machine(), []), "jobs", "empty"),
        (lambda: io.simulate(io.Machine(), ["dd"]), "jobs", "'dd'"),
        (lambda: io.simulate("vm", [dd()]), "machine", "'vm'"),
        (lambda: io.simulate(io.Machine(), [dd(cgroup="usr.slice")]), "cgroup", "user.slice"),
        (lambda: io.simulate(io.Machine(), [dd(cgroup=7)]), "cgroup", "7"),
        (lambda: io.simulate(io.Machine(), [dd(count=1)], until=-1), "until", "-1"),
        (lambda: io.simulate(io.Machine(), [dd(count=1)]).timeline(), "trace", "trace=True"),
        (lambda: io.Machine().with_(**{"scheduler.slice_idel": 1}), "slice_idel", "slice_idle"),
        (lambda: io.Machine().with_(schedular="cfq"), "schedular", "scheduler"),
        (lambda: io.Machine(scheduler="noop").with_(**{"scheduler.slice_idle": 1}), "slice_idle", "Noop"),
    ],
)
def test_a_bad_value_is_refused_in_one_sentence_naming_field_value_and_what_is_allowed(make, field, value):
    with pytest.raises(ScenarioError) as caught:
        make()
    text = str(caught.value)
    assert field in text and value in text
    assert "\n" not in text and text.endswith(".") and len(text) < 900


# ---------------------------------------------------------------------------------------------------------------------
# every knob of every part, against everything that is no value of it

NOTHING = (math.nan, math.inf, -math.inf, 10**400, "x", b"x", [], {}, (), 1 + 2j, object(), range(3), [1, 2],
           np.array([1, 2]), np.array([]), np.array(5), np.bool_(True))  # fmt: skip
PARTS = {
    "memory": io.Memory, "device": io.devices.ConstantTime, "channels": io.devices.Channels, "disk": io.devices.Disk,
    "fio": io.workloads.Fio, "dd": io.workloads.Dd, "dbench": io.workloads.Dbench, "host": io.Host, "cfq": io.CFQ,
    "bfq": io.BFQ, "deadline": io.Deadline, "mq-deadline": io.MqDeadline, "kyber": io.Kyber, "ext4": io.Ext4,
    "xfs": io.XFS, "wakers": io.WakerRules,
}  # fmt: skip
KNOBS = [(part, f) for part, cls in PARTS.items() for f in fields(cls) if "low" in f.metadata]


@pytest.mark.parametrize(("part", "field"), KNOBS, ids=[f"{part}-{f.name}" for part, f in KNOBS])
def test_no_knob_takes_what_is_no_value_of_it(part, field):
    wrong = [value for value in NOTHING if not (field.name == "zones_MBs" and isinstance(value, np.ndarray | list))]
    if not field.metadata["choices"] and not isinstance(field.default, bool):
        low, high = field.metadata["low"], field.metadata["high"]
        wrong += [low - 1, high + 1, 2 * high + 1, True, "1e3"]
    if not field.metadata["optional"]:
        wrong.append(None)
    for value in wrong:
        with pytest.raises(ScenarioError) as error:
            PARTS[part](**{field.name: value})
        text = str(error.value)
        assert field.name in text and "\n" not in text and text.endswith(".") and len(text) < 900


@pytest.mark.parametrize("value", [b"x", "100", [100, "fast"], [[100]], np.array([[100.0]]), np.array(5), None, {}, -1])
def test_zones_are_numbers(value):
    with pytest.raises(ScenarioError, match="zones_MBs"):
        io.devices.Disk(zones_MBs=value)


@pytest.mark.parametrize("value", [[], {}, False, 0, b"dsync", np.array(["dsync"])])
@pytest.mark.parametrize("field", ["oflag", "conv"])
def test_only_none_and_texts_are_flags(field, value):
    with pytest.raises(ScenarioError, match=field):
        dd(**{field: value})


@pytest.mark.parametrize("value", [b"a", 5, np.array(5), [5], [np.array([1])], [None], True])
def test_cgroups_are_paths(value):
    with pytest.raises(ScenarioError, match="cgroup"):
        io.Machine(cgroups=value)


# ---------------------------------------------------------------------------------------------------------------------
# versions: what is allowed, and since when


@pytest.mark.parametrize(
    ("kernel", "scheduler", "when"),
    [
        (kernel, scheduler, when)
        for scheduler, kernels, when in (
            ("cfq", ("5.0", "5.10", "6.12"), "5.0"),
            ("deadline", ("5.0", "6.1"), "5.0"),
            ("noop", ("5.0", "6.1"), "5.0"),
            ("bfq", ("4.0", "4.9", "4.11"), "4.12"),
            ("kyber", ("4.0", "4.9", "4.11"), "4.12"),
            ("mq-deadline", ("4.0", "4.10"), "4.11"),
        )
        for kernel in kernels
    ],
)
def test_a_scheduler_that_the_kernel_lacks_is_refused_with_the_version_in_which_it_came_or_went(
    kernel, scheduler, when
):
    for value in (scheduler, SCHEDULERS[scheduler][0]()):
        with pytest.raises(ScenarioError) as error:
            io.Machine(kernel=kernel, scheduler=value)
        text = str(error.value)
        assert all(word in text for word in (scheduler, f"kernel {kernel}", f"with {when}", "allowed: "))


@pytest.mark.parametrize("kernel", ["4.12", "4.15", "4.19"])
def test_the_older_kyber_is_said_to_be_another(kernel):
    with pytest.raises(ScenarioError, match=r"4\.20 or later"):
        io.Machine(kernel=kernel, scheduler="kyber")


@pytest.mark.parametrize("kernel", ["4.0", "4.4", "4.9"])
def test_writeback_throttling_came_with_4_10(kernel):
    with pytest.raises(ScenarioError, match=f"wbt_lat_usec: kernel {kernel} .* came with 4.10"):
        io.Machine(kernel=kernel, wbt_lat_usec=0)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "75000", True, 1e10, [75000], np.array(75000)])
def test_a_target_of_wbt_is_a_time(value):
    with pytest.raises(ScenarioError, match="wbt_lat_usec"):
        io.Machine(kernel="6.1", wbt_lat_usec=value)


# ---------------------------------------------------------------------------------------------------------------------
# the page cache's limits, and disks


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        ({"dirty_background_ratio": 20}, "dirty_background_ratio: 20"),
        ({"dirty_background_ratio": 30, "dirty_ratio": 25}, "dirty_background_ratio: 30"),
        ({"dirty_bytes": 10**6}, "dirty_background_ratio: 10"),
        ({"dirty_background_bytes": 10**12}, f"dirty_background_bytes: {10**12}"),
        ({"dirty_background_bytes": 2 * 10**8, "dirty_bytes": 10**8}, "dirty_background_bytes: 200000000"),
        ({"dirty_ratio": 0}, "dirty_ratio: 0"),
        ({"dirty_bytes": 4096}, "dirty_bytes: 4096"),
        ({"dirty_ratio": 30, "dirty_bytes": 10**9}, "dirty_ratio: 30"),
        ({"dirty_background_ratio": 5, "dirty_background_bytes": 10**7}, "dirty_background_ratio: 5"),
    ],
)
def test_dirty_limits_the_wrong_way_round_or_given_twice_are_refused(limits, field):
    with pytest.raises(ScenarioError, match=f"^memory.{field} ") as error:
        io.Memory(**limits)
    assert "give" in str(error.value) and str(error.value).endswith(".")


def test_what_sysctl_prints_can_be_pasted():
    pasted = io.Memory(dirty_ratio=0, dirty_bytes=10**9, dirty_background_ratio=0, dirty_background_bytes=10**8)
    assert pasted.limits_pages == (10**8 // 4096, 10**9 // 4096)


@pytest.mark.parametrize("preset", ["wd5000lplx", "st500lm012", "hdd_model", "simblk_disk"])
@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"cache_kb": 1024, "write_cache": True}, "device.cache_kb: 1024"),
        ({"max_sectors_kb": 32764, "write_cache": True}, "device.cache_kb"),
        ({"zones_MBs": (50, 100)}, "device.zones_MBs: 100 after 50"),
        ({"rpm": 0, "seek_settle_ms": 1.0}, "device.rpm: 0 .* seek_settle_ms"),
        ({"rpm": 0, "seek_settle_ms": 0, "seek_root_ms": 0, "seek_linear_ms": 2.0}, "device.rpm: 0 .* seek_linear_ms"),
        ({"rpm": -7200}, "device.rpm: -7200"),
        ({"queue_depth": 33}, "device.queue_depth: 33"),
    ],
)
def test_a_disk_that_cannot_exist_is_refused_whatever_it_is_made_of(preset, options, field):
    make = getattr(io.devices, preset)
    if "cache_kb" in field and not options.get("cache_kb"):
        options = {"cache_kb": 8192} | options
    with pytest.raises(ScenarioError, match=field) as error:
        make(**options)
    assert "give" in str(error.value) or "inwards" in str(error.value)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("user.slcie", "user.slice"), ("system.slise", "system.slice")],
)
def test_close_names_are_suggested(wrong, right):
    with pytest.raises(ScenarioError, match=f"did you mean '{right}'"):
        io.simulate(io.Machine(), [dd(cgroup=wrong)])


def test_a_scenario_that_can_never_go_on_says_who_waits_for_what():
    from iosched.engine import codes as c
    from iosched.engine.loop import run
    from iosched.programs import compile_scenario
    from iosched.simulation import _stuck

    scenario = io.Scenario(io.Machine(), [dd(count=1)])
    s = compile_scenario(scenario)
    s.tasks[1].state = c.T_DONE  # a jbd2 that is gone
    assert run(s, c.NEVER - 1, c.NEVER) == c.STOP_STUCK
    assert "dd waits for a journal commit" in _stuck(s, scenario)


def test_nothing_half_done_is_left_behind(tmp_path, capsys):
    target = tmp_path / "file"
    target.write_text("in the way")
    assert main(["reproduce", "dsync", "--out", str(target / "reports")]) == 2
    assert target.read_text() == "in the way"
    assert "--out" in capsys.readouterr().err


GOOD = """
[machine]
kernel = "4.19"
[machine.device]
completion_us = 100
[machine.scheduler]
name = "cfq"
[[job]]
count = 20
cgroup = "user.slice"
"""


def test_a_scenario_file_runs(tmp_path, capsys):
    path = tmp_path / "s.toml"
    path.write_text(GOOD)
    assert main(["run", str(path)]) == 0
    assert "10240 bytes (10 kB, 10 KiB) copied" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('kernel = "4.19"', 'kernel = "4.19"\nschedular = "cfq"', "schedular"),
        ("completion_us", "complete_us", "complete_us"),
        ('name = "cfq"', 'name = "cfq"\nslice_idel = 3', "slice_idel"),
        ('name = "cfq"', 'nam = "cfq"', "name"),
        ("count = 20", "cuont = 20", "cuont"),
        ("[[job]]", "[job]", "job"),
        ("[machine]", "[machien]", "machien"),
        ('"user.slice"', '"user.slcie"', "user.slice"),
        ("count = 20", "count = ", "TOML"),
        ("count = 20", "count = 1" + "0" * 400, "count"),
        ("count = 20", "count = " + "9" * 5000, "TOML"),
        ("count = 20", "oflag = 5", "oflag"),
        ('kernel = "4.19"', "cgroups = " + "[" * 2000 + "]" * 2000, "TOML"),
        ('kernel = "4.19"', 'kernel = "4.19"\nhost = 3', "host"),
        ('kernel = "4.19"', 'kernel = "4.19"\nfilesystem = "zfs"', "zfs"),
    ],
)
def test_a_mistake_in_a_scenario_file_is_named(tmp_path, capsys, old, new, word):
    path = tmp_path / "s.toml"
    path.write_text(GOOD.replace(old, new))
    assert main(["run", str(path)]) == 2
    error = capsys.readouterr().err
    assert word in error and error.count("\n") == 1


def test_help_and_version_exit_cleanly(capsys):
    for words in (["--help"], ["--version"], ["reproduce", "--help"]):
        with pytest.raises(SystemExit) as done:
            main(words)
        assert done.value.code == 0
    assert "iosched" in capsys.readouterr().out
