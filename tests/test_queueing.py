"""The closed form against the simulator, against formulas worked out by hand here, and against its own promises."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iosched as io
from iosched.queueing import bounds, mva

LAYOUTS = [("/", "/"), ("user.slice", "/"), ("/", "user.slice"), ("a", "b"), ("a/b", "a"), ("a", "a/b")]
GROUPS = io.Cgroups(["user.slice", "a/b", "b"])
PLAIN = [("4.19", "noop"), ("4.19", "none"), ("4.19", "deadline"), ("4.19", "mq-deadline"), ("5.10", "none"),
         ("5.10", "mq-deadline"), ("6.1", "none"), ("6.1", "mq-deadline")]  # fmt: skip
HOST = io.Host(request_us=5, request_mq_us=3, wakeup_us=4, ext4_us=40, xfs_us=25, raw_us=12)
OPERATIONS = 300


def cfq(slice_idle=8, group_idle=8, jbd2="/", kernel="4.19", write_cache=False, rotational=True, **device):
    """A machine with CFQ and ext4, at round host costs."""
    return io.Machine(
        kernel=kernel,
        device=io.devices.null(write_cache=write_cache, rotational=rotational, **device),
        filesystem=io.Ext4(jbd2_cgroup=jbd2),
        scheduler=io.CFQ(slice_idle=slice_idle, group_idle=group_idle),
        cgroups=GROUPS,
        host=HOST,
    )


def dd(cgroup="user.slice", count=OPERATIONS, **options):
    return io.workloads.dd(cgroup=cgroup, count=count, **options)


def deviation(machine, job):
    """Relative error of the time an operation, closed form against simulator."""
    return float(io.closed_form(machine, job).time_per_op) / io.simulate(machine, [job]).time_per_op - 1


def hold(cases, within):
    """Every case agrees within the given error; the worst is named."""
    errors = {case: deviation(*build) for case, build in cases.items()}
    worst = max(errors, key=lambda case: abs(errors[case]))
    assert abs(errors[worst]) <= within, f"{worst}: {errors[worst]:+.2%}"


# ---------------------------------------------------------------------------------------------------------------------
# simulator against closed form


def filesystem(kind, cgroup="/"):
    return {
        "ext4": io.Ext4(jbd2_cgroup=cgroup),
        "xfs": io.XFS(),
        "xfs worker": io.XFS(log_writer="worker", worker_cgroup=cgroup),
        "raw": io.Raw(),
    }[kind]


@pytest.mark.parametrize("kernel, scheduler", PLAIN)
def test_without_idling_the_closed_form_is_the_simulator_to_a_tenth_of_a_percent(kernel, scheduler):
    axes = itertools.product(
        ("ext4", "xfs", "xfs worker", "raw"),
        (5, 100, 3000),
        ((False, True), (True, True), (True, False)),
        ((512, "dsync", None), (4096, "sync", None), (5000, "dsync", None), (4096, "direct,dsync", None),
         (512, "direct", "fsync"), (5000, None, "fsync"), (512, "dsync", "fsync")),
    )  # fmt: skip
    cases = {}
    for fs, completion, (cache, fua), (bs, oflag, conv) in axes:
        device = io.devices.null(completion_us=completion, write_cache=cache, fua=fua, flush_us=7 * completion)
        machine = io.Machine(kernel=kernel, device=device, filesystem=filesystem(fs), scheduler=scheduler)
        cases[fs, completion, cache, fua, bs, oflag, conv] = machine, dd("/", 41, bs=bs, oflag=oflag, conv=conv)
    hold(cases, 0.001)


@pytest.mark.parametrize("kernel", ["4.4", "4.19"])
@pytest.mark.parametrize("fs", ["ext4", "xfs worker"])
def test_under_cfq_closed_form_and_simulator_agree_within_one_percent(kernel, fs):
    axes = itertools.product((0, 1, 8, 16), (0, 8), LAYOUTS, (50, 500, 5000), (True, False), (True, False))
    cases = {}
    for slice_idle, group_idle, (group, log_group), completion, rotational, cache in axes:
        machine = io.Machine(
            kernel=kernel,
            device=io.devices.null(completion_us=completion, rotational=rotational, write_cache=cache),
            filesystem=filesystem(fs, log_group),
            scheduler=io.CFQ(slice_idle=slice_idle, group_idle=group_idle),
            cgroups=GROUPS,
        )
        cases[slice_idle, group_idle, group, log_group, completion, rotational, cache] = machine, dd(group)
    hold(cases, 0.01)


@pytest.mark.parametrize("oflag, conv", [("direct,dsync", None), ("direct", "fsync"), (None, "fsync")])
def test_direct_and_buffered_writes_under_cfq_agree_within_three_percent(oflag, conv):
    axes = itertools.product(("4.4", "4.19"), (0, 1, 8), (0, 8), LAYOUTS[:4], (50, 5000), (True, False))
    cases = {}
    for kernel, slice_idle, group_idle, (group, log_group), completion, rotational in axes:
        machine = cfq(slice_idle, group_idle, log_group, kernel, rotational=rotational, completion_us=completion)
        cases[kernel, slice_idle, group_idle, group, log_group, completion, rotational] = (
            machine,
            dd(group, oflag=oflag, conv=conv),
        )
    hold(cases, 0.03)


@pytest.mark.parametrize("ioclass", ["realtime", "idle"])
def test_realtime_and_idle_class_agree_within_one_percent(ioclass):
    axes = itertools.product((0, 8), (0, 8), LAYOUTS, (True, False))
    hold({(si, gi, *layout, cache): (cfq(si, gi, layout[1], write_cache=cache), dd(layout[0], ioclass=ioclass))
          for si, gi, layout, cache in axes}, 0.01)  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 3, 10, 50, 2000])
def test_short_and_long_runs_agree(count):
    hold({(wc, g): (cfq(write_cache=wc), dd(g, count)) for wc in (False, True) for g in ("/", "user.slice")}, 0.005)


@settings(max_examples=60, deadline=None)
@given(
    completion=st.floats(3, 8000),
    slice_idle=st.sampled_from([0, 0.5, 2, 8, 12, 30]),
    group_idle=st.sampled_from([0, 0.5, 2, 8, 12, 30]),
    layout=st.sampled_from(LAYOUTS),
    kernel=st.sampled_from(["4.4", "4.19"]),
    cache=st.booleans(),
    quiet=st.sampled_from([None, 0.0, 0.1]),
)
def test_any_cfq_machine_agrees_within_three_percent(completion, slice_idle, group_idle, layout, kernel, cache, quiet):
    machine = cfq(slice_idle, group_idle, layout[1], kernel, cache, completion_us=completion)
    machine = machine.with_(**{"filesystem.quiet_before": quiet})
    assert abs(deviation(machine, dd(layout[0]))) < 0.03


def test_idles_are_counted_as_the_simulator_counts_them():
    for kernel, group, expected in (("4.19", "user.slice", 1), ("4.4", "user.slice", 2), ("4.19", "/", 0)):
        machine, job = cfq(kernel=kernel), dd(group, 1000)
        formula, run = io.closed_form(machine, job), io.simulate(machine, [job])
        assert formula.idles_per_op == pytest.approx(run.idles_per_op, abs=0.01)
        assert formula.idles_per_op == pytest.approx(expected, abs=0.12)


def test_the_parts_are_those_of_the_simulators_time_budget():
    machine, job = cfq(), dd()
    run = io.simulate(machine, [job]).time_budget.set_index("what").per_op_s
    form = io.closed_form(machine, job)
    assert form.service_s == pytest.approx(run["device busy"], rel=1e-6)
    assert form.cpu_s == pytest.approx(run["host (CPU, wake-ups)"], rel=1e-3)
    assert form.hand_over_s == pytest.approx(run["hand-over"], rel=1e-3)
    assert form.idle_s == pytest.approx(run[run.index.str.startswith("idling")].sum(), rel=1e-3)


# ---------------------------------------------------------------------------------------------------------------------
# formulas worked out by hand


def test_ext4_write_through_is_three_commands_five_wakeups_and_ext4s_cpu():
    machine = cfq(0, 0, completion_us=100)
    by_hand = 3 * (100 + 5) + 5 * 4 + 40  # data, log, commit; dd twice, jbd2 three times
    assert io.closed_form(machine, dd()).time_per_op * 1e6 == pytest.approx(by_hand)


def test_a_write_cache_adds_a_flush_and_without_fua_a_second():
    for fua, flushes in ((True, 1), (False, 2)):
        machine = cfq(0, 0, write_cache=True, fua=fua, completion_us=100, flush_us=700)
        by_hand = 3 * 105 + flushes * 705 + 5 * 4 + 40
        assert io.closed_form(machine, dd()).time_per_op * 1e6 == pytest.approx(by_hand)


def test_on_blk_mq_kblockd_hands_over_what_a_scheduler_has_taken():
    none, mq = (
        io.closed_form(io.Machine(kernel="5.10", host=HOST, scheduler=s), dd("/")) for s in ("none", "mq-deadline")
    )
    assert (mq.time_per_op - none.time_per_op) * 1e6 == pytest.approx(3 * 4)
    assert none.hand_over_s == 0


def test_xfs_and_raw_devices_have_fewer_steps():
    for fs, bs, by_hand in (
        (io.XFS(log_writer="caller"), 512, 2 * 105 + 2 * 4 + 25),
        (io.XFS(log_writer="worker"), 512, 2 * 105 + 4 * 4 + 25),
        (io.XFS(log_writer="push"), 512, 2 * 105 + 4 * 4 + 25),
        (io.Raw(), 4096, 105 + 4 + 12),
        (io.Raw(), 512, 105 + 4 + 12 + (105 + 4) / 8),  # every eighth write enters a new page, which is read first
    ):
        machine = io.Machine(kernel="4.19", scheduler="noop", filesystem=fs, host=HOST)
        assert io.closed_form(machine, dd("/", 800, bs=bs)).time_per_op * 1e6 == pytest.approx(by_hand)


def test_one_idle_a_write_lacks_only_what_has_passed_since_jbd2s_completion():
    """4.19, dd below jbd2: from the commit's completion jbd2 wakes, wakes dd, and dd writes (40 % of ext4's CPU): that
    much of the 8 ms has passed when dd's request comes; kblockd sends it after the timer."""
    form = io.closed_form(cfq(completion_us=100), dd(), exact_start=False)
    passed = 4 + 4 + 0.4 * 40
    assert form.idle_s * 1e6 == pytest.approx(8000 - passed)
    assert form.time_per_op * 1e6 == pytest.approx(3 * 105 + 5 * 4 + 40 + 8000 - passed + 4)
    assert form.idle_for_dd_s == 0 and form.idles_per_op == 1


def test_a_group_rule_of_equality_pays_at_both_switches():
    """Before 4.6 jbd2 in the root may not preempt dd either. dd's own idles are skipped one time in about ten, since
    its think time holds a whole idle; the other is always paid."""
    form = io.closed_form(cfq(kernel="4.4", completion_us=100), dd(), exact_start=False)
    assert form.idle_for_log_s * 1e6 == pytest.approx(8000 - (4 + 4 + 16))
    assert 0.85 * (8000 - 4 - 4 - 16) < form.idle_for_dd_s * 1e6 < 0.95 * (8000 - 4 - 4 - 16)


def test_with_a_write_cache_commit_and_flush_overlap_the_idle():
    """The timer started at the log write: commit and flush (they bypass CFQ) are inside it, and one idle in 11 or 12 is
    skipped, which costs that cycle the flush in plain time."""
    machine = cfq(write_cache=True, completion_us=100, flush_us=500)
    form = io.closed_form(machine, dd(), exact_start=False)
    passed = 4 + 0.2 * 40 + 505 + 105 + 4 + 4 + 16
    assert form.idle_for_log_s == pytest.approx(form.idles_per_op * (8000 - passed) * 1e-6)
    assert 10 / 11 - 0.02 < form.idles_per_op < 11 / 12 + 0.02


def test_the_fraction_of_skipped_idles_is_that_of_the_estimators_own_map():
    """m -> (7 m + e)/8 with e = the cycle after an idle, the bare cycle after none (divided by 249/256, where the
    sample counter rests): count how often m stays at or below slice_idle."""
    gap = 4 + 8 + 105 + 105 + 4 + 4 + 16  # us from the log's completion to dd's request: commit with its flush
    bare = gap + 105 + 4 + 4 + 16  # dd's write, its wake-up, jbd2's, and 40 % of ext4's CPU: to the next log write
    mean, idles = 0.0, 0
    for cycle in range(4000):
        idles += (idle := mean <= 8000) and cycle >= 1000
        long = 8000 + 4 + bare - gap
        mean = (7 * mean + (long if idle else bare) * 256 / 249) / 8
    form = io.closed_form(cfq(write_cache=True, completion_us=100), dd(), exact_start=False)
    assert form.idles_per_op == pytest.approx(idles / 3000, abs=0.01)


def test_a_real_cycle_longer_than_slice_idle_stops_the_idling():
    machine = cfq(write_cache=True, completion_us=1000, flush_us=12_000)
    assert io.closed_form(machine, dd(), exact_start=False).idles_per_op == 0


def test_slice_idle_zero_falls_back_to_group_idle_and_neither_alone_is_a_cure():
    times = {(si, gi): float(io.closed_form(cfq(si, gi), dd()).time_per_op) for si in (0, 8) for gi in (0, 8)}
    assert times[0, 0] < 0.5e-3
    assert min(times[0, 8], times[8, 0], times[8, 8]) > 8e-3


def test_on_a_device_that_does_not_rotate_group_idle_zero_is_a_cure():
    form = io.closed_form(cfq(8, 0, rotational=False), dd())
    assert form.time_per_op < 0.5e-3


# ---------------------------------------------------------------------------------------------------------------------
# promises

grids = st.fixed_dictionaries(
    {
        "slice_idle": st.sampled_from([0, 1, 8, 16]),
        "group_idle": st.sampled_from([0, 4, 8]),
        "layout": st.sampled_from(LAYOUTS),
        "kernel": st.sampled_from(["4.4", "4.19"]),
        "cache": st.booleans(),
    }
)


def machine_of(g, **device):
    return cfq(g["slice_idle"], g["group_idle"], g["layout"][1], g["kernel"], g["cache"], **device)


@settings(max_examples=40, deadline=None)
@given(grids, st.floats(1, 2000))
def test_time_is_never_below_its_service_and_its_parts_add_up(g, completion):
    form = io.closed_form(machine_of(g, completion_us=completion), dd(g["layout"][0]))
    assert form.time_per_op >= (form.service_s + form.cpu_s) * (1 - 1e-12)
    assert sum(form.parts.values()) == pytest.approx(form.time_per_op)
    assert form.bytes_per_s == pytest.approx(512 / form.time_per_op)
    assert 0 <= form.idles_per_op <= 2


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["noop", "deadline", "none", "mq-deadline"]), st.booleans(),
       st.sampled_from(["ext4", "xfs", "raw"]))  # fmt: skip
def test_without_idling_time_grows_with_the_completion_time(scheduler, cache, fs):
    machine = io.Machine(kernel="4.19", scheduler=scheduler, filesystem=fs, device=io.devices.null(write_cache=cache))
    form = io.closed_form(machine, dd("/"), over={"device.completion_us": np.geomspace(1, 1e5, 50)})
    assert np.all(np.diff(form.time_per_op) > 0)


def test_with_a_full_idle_every_write_time_grows_with_the_completion_time():
    form = io.closed_form(cfq(), dd(), over={"device.completion_us": np.linspace(1, 3000, 60)}, exact_start=False)
    assert np.all(np.diff(form.time_per_op) > 0)


@settings(max_examples=40, deadline=None)
@given(grids, st.floats(1, 2000))
def test_equal_groups_and_no_idle_tunables_give_the_time_of_noop(g, completion):
    noop = io.Machine(kernel="4.19", scheduler="noop", host=HOST,
                      device=io.devices.null(completion_us=completion, write_cache=g["cache"]))  # fmt: skip
    plain = io.closed_form(noop, dd("/"), exact_start=False).time_per_op
    same = machine_of({**g, "layout": ("a", "a")}, completion_us=completion)
    neither = machine_of({**g, "slice_idle": 0, "group_idle": 0}, completion_us=completion)
    assert io.closed_form(same, dd("a"), exact_start=False).time_per_op == pytest.approx(plain)
    assert io.closed_form(neither, dd(g["layout"][0]), exact_start=False).time_per_op == pytest.approx(plain)


def assert_broadcasts(machine, job, over):
    """The grid equals its points one by one."""
    grid = io.closed_form(machine, job, over=over)
    values = {key: np.broadcast_to(np.asarray(v, object), grid.shape) for key, v in over.items()}
    for at in np.ndindex(*grid.shape):
        point, one = machine, job
        for key, value in values.items():
            part, _, name = key.partition(".")
            if part in ("dd", "job"):
                one = io.workloads.Dd(**{**vars(one), name: value[at]})
            else:
                point = point.with_(**{key: value[at]})
        single = io.closed_form(point, one)
        for field in ("time_per_op", "idles_per_op", "idle_for_dd_s", "idle_for_log_s", "cpu_s", "hand_over_s"):
            assert getattr(grid, field)[at] == pytest.approx(getattr(single, field), rel=0.012, abs=1e-9), (field, at)


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("oflag", ["dsync", "direct,dsync"])
def test_broadcasting_equals_a_loop_of_points(cache, oflag):
    over = {
        "scheduler.slice_idle": [[0], [2], [8]],
        "scheduler.group_idle": [0, 8, 12],
    }
    assert_broadcasts(cfq(write_cache=cache), dd(oflag=oflag), over)


def test_every_kind_of_knob_can_be_an_axis():
    over = {
        "scheduler.slice_idle_us": np.array([0, 4000]).reshape(2, 1, 1, 1),
        "device.completion_us": np.array([20.0, 400.0]).reshape(2, 1, 1),
        "dd.cgroup": np.array(["/", "a", "a/b"], object).reshape(3, 1),
        "dd.bs": [512, 4096],
    }
    machine = io.Machine(kernel="4.19", scheduler="cfq", cgroups=GROUPS, host=HOST)
    assert io.closed_form(machine, dd(), over=over).shape == (2, 2, 3, 2)
    assert_broadcasts(machine, dd(), over)
    others = {"scheduler": [["noop"], ["cfq"], ["mq-deadline"]], "filesystem": ["ext4", "xfs", "raw"]}
    assert_broadcasts(machine, dd(), others)
    host = {"host.wakeup_us": [[1], [9]], "host.speed": [1, 4], "device.flush_us": [[10], [500]]}
    assert_broadcasts(cfq(write_cache=True), dd(), host)
    assert_broadcasts(cfq(), dd(), {"job.count": [1, 30, 500], "device.queue_depth": [[1], [32]]})


def test_a_knob_without_effect_still_is_an_axis():
    machine = io.Machine(kernel="4.19", scheduler="cfq", filesystem="raw")
    form = io.closed_form(machine, dd(), over={"scheduler.slice_idle": np.arange(17)[:, None], "host.xfs_us": [1, 2]})
    assert form.shape == form.time_per_op.shape == (17, 2)
    assert np.ptp(form.time_per_op) == 0


def test_a_point_prints_itself_and_a_grid_its_range():
    form = io.closed_form(cfq(), dd())
    assert "idles an operation" in repr(form) and "idling for the log" in repr(form)
    assert form.time_budget.per_op_s.sum() == pytest.approx(form.time_per_op)
    grid = io.closed_form(cfq(), dd(), over={"scheduler.slice_idle": [0, 8]})
    assert "shape (2,)" in repr(grid)
    with pytest.raises(io.ScenarioError, match="parts"):
        grid.time_budget  # noqa: B018


# ---------------------------------------------------------------------------------------------------------------------
# bad input


@pytest.mark.parametrize(
    "over, words",
    [
        ({"scheduler.slice_idel": [1]}, "scheduler.slice_idel.*slice_idle"),
        ({"scheduler.slice_idle": [1, -1]}, "slice_idle.*-1"),
        ({"scheduler.slice_idle": [1, np.nan]}, "slice_idle.*nan"),
        ({"scheduler.slice_idle": [1, 80]}, "slice_idle.*80.*half of slice_sync"),
        ({"scheduler.slice_idle": [1], "scheduler.slice_idle_us": [1000]}, "one of the two"),
        ({"scheduler.slice_idle": []}, "empty"),
        ({"device.completion_us": [0.0]}, "completion_us"),
        ({"device.queue_depth": [1, 2.5]}, "queue_depth.*2.5"),
        ({"dd.bs": [512, 0]}, "bs.*0"),
        ({"dd.size": [1]}, "size"),
        ({"dd.cgroup": np.array(["a", "nowhere"], object)}, "nowhere"),
        ({"disk.speed": [1]}, "disk"),
        ({3: [1]}, "3"),
        ({"scheduler.slice_idle": [1, 2], "scheduler.group_idle": [1, 2, 3]}, r"broadcast.*\(2,\).*\(3,\)"),
    ],
)
def test_bad_axes_are_refused_by_name(over, words):
    with pytest.raises(io.ScenarioError, match=words):
        io.closed_form(io.Machine(kernel="4.19", scheduler="cfq", cgroups=GROUPS), dd(), over=over)


def test_what_the_form_does_not_cover_it_refuses():
    with pytest.raises(io.ScenarioError, match=r"2 are beyond the closed form.*bounds"):
        io.closed_form(cfq(), [dd(), dd("a")])
    with pytest.raises(io.ScenarioError, match="nr_requests"):
        io.closed_form(cfq(), dd(bs="1G"))
    with pytest.raises(io.ScenarioError, match="oflag=direct"):
        io.closed_form(cfq(), dd(bs="8M", oflag="direct,dsync"))
    with pytest.raises(io.ScenarioError, match="max_sectors_kb"):
        io.closed_form(cfq(max_sectors_kb=8), dd())
    with pytest.raises(io.ScenarioError, match="completion_us"):
        io.closed_form(cfq(completion_us=70_000), dd())


# ---------------------------------------------------------------------------------------------------------------------
# closed loops of several jobs


def test_two_machines_and_one_repairman():
    """Service and time between failures both 1 on average: states 0, 1, 2 broken have weights 1, 2, 2 (from k to k+1
    broken (2-k) machines can fail, back at rate 1), so the repairman works 4/5 of the time and 6/5 are broken."""
    loop = mva(2, 1.0, 1.0)
    assert loop.throughput == pytest.approx(4 / 5)
    assert loop.queue_length == pytest.approx((2 * 1 + 2 * 2) / 5)
    assert loop.response_s == pytest.approx((6 / 5) / (4 / 5))


def test_a_single_server_follows_the_mean_value_recursion():
    """R(n) = D (1 + Q(n-1)), X(n) = n/(R(n) + Z), Q(n) = X(n) R(n)."""
    d, z, queue = 0.3, 2.0, 0.0
    for n in range(1, 40):
        response = d * (1 + queue)
        throughput = n / (response + z)
        queue = throughput * response
        loop = mva(n, d, z)
        assert loop.throughput == pytest.approx(throughput)
        assert loop.queue_length == pytest.approx(queue)


def test_two_servers_follow_their_birth_death_chain():
    """Three jobs, two servers, D = Z = 1: rates up 3, 2, 1 and down 1, 2, 2 give weights 1, 3, 3, 3/2."""
    loop = mva(3, 1.0, 1.0, servers=2)
    total = 1 + 3 + 3 + 1.5
    busy = (3 * 1 + 3 * 2 + 1.5 * 2) / total
    assert loop.throughput == pytest.approx(busy)
    assert loop.utilization == pytest.approx(busy / 2)


def test_with_a_server_for_each_job_nobody_waits():
    loop = mva(np.arange(1, 9), 2.0, 3.0, servers=8)
    assert loop.throughput == pytest.approx(np.arange(1, 9) / 5)
    assert loop.response_s == pytest.approx(np.full(8, 2.0))


def test_without_think_time_all_jobs_are_at_the_station():
    loop = mva([1, 2, 5], 0.5, 0.0, servers=2)
    assert loop.throughput == pytest.approx([2, 4, 4])
    assert loop.queue_length == pytest.approx([1, 2, 5])


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 200), st.floats(1e-6, 10), st.floats(0, 100), st.integers(1, 32))
def test_mean_values_obey_littles_law_and_lie_within_the_bounds(n, service, think, servers):
    loop, limits = mva(n, service, think, servers), bounds(n, service, think, servers)
    assert loop.throughput * (loop.response_s + think) == pytest.approx(n)
    assert limits.lower * (1 - 1e-9) <= loop.throughput <= limits.upper * (1 + 1e-9)
    assert loop.throughput == pytest.approx(servers * loop.utilization / service)


def test_the_asymptotes_meet_at_the_knee():
    """One server, D = 1, Z = 9: a single job needs 10, so ten jobs would keep the server busy without pause."""
    limits = bounds([1, 10, 100], 1.0, 9.0)
    assert limits.knee.tolist() == [10, 10, 10]
    assert limits.upper.tolist() == [0.1, 1.0, 1.0]
    assert limits.lower == pytest.approx([1 / 10, 10 / (9 + 10), 100 / (9 + 100)])


def test_the_loops_broadcast():
    n, service = np.arange(1, 6)[:, None], np.array([0.1, 1.0, 3.0])
    grid = mva(n, service, 2.0, [[[1]], [[4]]])
    assert grid.throughput.shape == bounds(n, service, 2.0, [[[1]], [[4]]]).upper.shape == (2, 5, 3)
    assert grid.throughput[1, 3, 2] == pytest.approx(float(mva(4, 3.0, 2.0, 4).throughput))


def test_four_dd_on_a_single_server_lie_within_the_bounds():
    """A raw device with one server, processors for everybody: the loop is service c + request, think the rest."""
    host = io.Host(cpus=0)
    machine = io.Machine(kernel="4.19", scheduler="noop", filesystem="raw", host=host,
                         device=io.devices.single(completion_us=100))  # fmt: skip
    one = io.closed_form(machine, dd("/", bs=4096))
    for n in (1, 2, 4):
        run = io.simulate(machine, [dd("/", bs=4096, partition=i) for i in range(n)])
        limits = bounds(n, one.service_s, one.cpu_s)
        assert limits.lower * 0.999 <= n * OPERATIONS / run.elapsed <= limits.upper * 1.001


@pytest.mark.parametrize(
    "arguments, words",
    [((0, 1.0), "n_jobs"), ((1.5, 1.0), "whole"), ((1, 0.0), "service_s"), ((1, 1.0, -1.0), "think_s"),
     ((1, 1.0, 0.0, 0), "servers"), (([1, 2], [1.0, 1.0, 1.0]), "broadcast"), (([], 1.0), "empty")],
)  # fmt: skip
def test_bad_loops_are_refused_by_name(arguments, words):
    with pytest.raises(io.ScenarioError, match=words):
        mva(*arguments)
