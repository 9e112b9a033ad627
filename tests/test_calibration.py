"""Calibration finds what made the observations, says how well, and refuses what it cannot tell; sensitivity ranks."""

from __future__ import annotations

import numpy as np
import pytest

import iosched as io
from iosched.sweeps import sweep

DD = io.workloads.dd(count=50, cgroup="user.slice")
TRUE = io.Machine(kernel="4.19", scheduler="cfq", device=io.devices.null(completion_us=230), host=io.Host(speed=2))
START = TRUE.with_(**{"device.completion_us": 100, "host.speed": 1})
BOTH = {"device.completion_us": io.Range(10, 1000), "host.speed": io.Range(0.5, 8, log=True)}


def observe(*changes, noise=0.0):
    rng = np.random.default_rng(3)
    found = []
    for change in changes:
        value = sweep(TRUE, DD, {k: [v] for k, v in change.items()}, metrics=["time_per_op_s"]).time_per_op_s[0]
        found.append(io.Observation("time_per_op_s", value * (1 + noise * rng.standard_normal()), change))
    return found


SEEN = ({"scheduler": "noop"}, {"scheduler": "noop", "filesystem": "raw"}, {"scheduler": "noop", "filesystem": "xfs"})


def test_the_true_parameters_come_back():
    fit = io.calibrate((START, DD), observe(*SEEN), BOTH)
    assert fit.values["device.completion_us"] == pytest.approx(230, rel=1e-3)
    assert fit.values["host.speed"] == pytest.approx(2, rel=5e-3)
    assert fit.machine.device.completion_us == fit.values["device.completion_us"]
    assert np.abs(fit.residuals).max() < 1e-4
    assert "device.completion_us = " in repr(fit) and list(fit.table.columns) == ["value", "standard_error"]


def test_the_standard_error_is_as_large_as_the_noise_makes_it():
    twice = [change | {"job.bs": bs} for change in SEEN for bs in (512, 1024, 2048)]
    exact, noisy = (io.calibrate((START, DD), observe(*twice, noise=noise), BOTH) for noise in (0, 0.002))
    for knob, true in (("device.completion_us", 230), ("host.speed", 2)):
        assert exact.standard_errors[knob] < 0.2 * noisy.standard_errors[knob]
        assert abs(noisy.values[knob] - true) < 4 * noisy.standard_errors[knob]


def test_a_fit_stays_within_its_bounds():
    bounds = {"device.completion_us": io.Range(10, 200)}
    fit = io.calibrate((START.with_(**{"host.speed": 2}), DD), observe(*SEEN), bounds)
    assert 195 < fit.values["device.completion_us"] <= 200


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({**BOTH, "device.flush_us": io.Range(1, 10)}, "device.flush_us cannot be identified, no observation depends"),
        (
            {"host.wakeup_us": io.Range(1, 9), "device.completion_us": io.Range(10, 900), "host.speed": io.Range(1, 4),
             "host.ext4_us": io.Range(10, 90)},
            "3 observations cannot identify host.wakeup_us, device.completion_us",
        ),
        ({}, "parameters: there are none"),
        ({"host.speed": [1, 2]}, "no interval"),
        ({"host.sped": io.Range(1, 2)}, "did you mean 'speed'"),
    ],
)  # fmt: skip
def test_parameters_that_cannot_be_told_are_named(parameters, words):
    with pytest.raises(io.ScenarioError, match=words):
        io.calibrate((START, DD), observe(*SEEN), parameters)


def test_parameters_that_act_only_together_are_named():
    """On the raw device each write has one command: its time and the driver's are one sum."""
    raw = [{"filesystem": "raw", "scheduler": "noop", "job.bs": bs} for bs in (512, 1024, 2048)]
    both = {"device.completion_us": io.Range(10, 1000), "host.request_us": io.Range(1, 20)}
    with pytest.raises(io.ScenarioError, match=r"completion_us, host.request_us cannot be identified apart"):
        io.calibrate((START, DD), observe(*raw), both)


@pytest.mark.parametrize(
    ("observations", "words"),
    [
        ([], "observations: there are none"),
        ([io.Observation("time", 1.0)], "observation.metric: 'time' is unknown"),
        ([io.Observation("time_per_op_s", float("nan"))], "observation time_per_op_s: nan"),
    ],
)
def test_bad_observations_are_one_sentence(observations, words):
    with pytest.raises(io.ScenarioError, match=words):
        io.calibrate((START, DD), observations, {"host.speed": io.Range(1, 2)})


def test_morris_and_sobol_agree_on_what_matters():
    pytest.importorskip("SALib")
    over = {"device.completion_us": io.Range(90, 110), "scheduler.slice_idle": io.Range(1, 8),
            "host.wakeup_us": io.Range(1, 2)}  # fmt: skip
    walks = io.sensitivity(TRUE, DD, over, samples=8)
    shares = io.sensitivity(TRUE, DD, over, method="sobol", samples=32)
    assert walks.index.tolist() == shares.index.tolist() == list(over)[1:2] + ["device.completion_us", "host.wakeup_us"]
    assert shares.ST.iloc[0] > 0.95 and walks.mu_star.iloc[0] == pytest.approx(7e-3, rel=0.05)
    again = io.sensitivity(TRUE, DD, over, samples=8)
    assert again.equals(walks)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "moris"}, "did you mean 'morris'"),
        ({"metric": "latency"}, "metric: 'latency'"),
        ({"method": "sobol", "samples": 30}, "no power of two"),
        ({"over": {"host.speed": [1, 2]}}, "no interval"),
    ],
)
def test_bad_questions_are_one_sentence(options, words):
    with pytest.raises(io.ScenarioError, match=words):
        io.sensitivity(TRUE, DD, **({"over": {"host.speed": io.Range(1, 2)}} | options))
