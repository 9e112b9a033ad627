"""Thread 0: every claim, its verdict, and what may be fitted."""

from __future__ import annotations

import json

import pytest

from iosched.cli import main
from iosched.errors import ScenarioError
from iosched.threads import THREADS, claims, dsync, reproduce, text

# what the disk gets for each write (explained in the table), and BFQ where real kernels do not give the figure either
KNOWN_OFF = {"T0-035", "F0-12", "F0-16", "T0-028", "T0-029", "T0-034", "F0-18", "F0-19", "F0-22", "F0-24"}


@pytest.fixture(scope="module")
def outcomes():
    """All claims of the thread, evaluated once."""
    return reproduce("dsync")


def test_every_claim_is_reproduced_or_explained(outcomes):
    for o in outcomes:
        if o.verdict == "off":
            assert o.claim.id in KNOWN_OFF and o.claim.note
        if o.verdict == "not modelled":
            assert o.claim.quantity == "throughput of four on a disk" and o.reason


def test_the_headline_figures_come_out_within_5_percent(outcomes):
    by_id = {o.claim.id: o for o in outcomes}
    assert by_id["T0-001"].simulated == pytest.approx(60e3, rel=0.05)
    assert by_id["T0-001"].claim.role == "predicted"
    assert 1.5e6 <= by_id["T0-003"].simulated <= 2e6
    assert by_id["T0-027"].simulated == pytest.approx(1.3e6, rel=0.05)
    for name in ("T0-010", "T0-011", "T0-012", "T0-015"):
        assert by_id[name].ratio == 1.0


def test_bfq_gives_what_real_kernels_of_that_time_give_where_the_thread_does_not(outcomes):
    """5.2.1 and 5.3.1 in the thread's place (data/kernel): 102, 44, 1120 and 115 kB/s; the second machine 231."""
    by_id = {o.claim.id: o for o in outcomes}
    for name in ("T0-029", "F0-18", "F0-19", "F0-22", "T0-034"):
        assert by_id[name].simulated == pytest.approx(by_id[name].kernel, rel=0.06), name


def test_one_figure_a_machine_is_fitted(outcomes):
    fitted = {(o.claim.machine, o.claim.experiment) for o in outcomes if o.claim.role == "fitted"}
    assert len(fitted) == len({machine for machine, _ in fitted}) == len(dsync.BASELINES)
    assert {experiment for _, experiment in fitted} <= {"noop", "mq-deadline"}


def test_device_and_host_of_a_machine_are_the_same_under_every_scheduler():
    for name in dsync.BASELINES:
        base = dsync.machine(name)
        for experiment, (changes, _) in dsync.EXPERIMENTS.items():
            touched = [key for key in changes if key.startswith(("device", "host"))]
            assert touched == [] or experiment == "pass-through"
            if not touched:
                try:
                    machine, _ = dsync.scenario(name, experiment)
                except ScenarioError:
                    continue
                assert (machine.device, machine.host) == (base.device, base.host)


def test_simulator_and_closed_form_agree_on_every_claim(outcomes):
    both = [o for o in outcomes if o.simulated is not None and o.closed_form is not None and o.claim.unit != "bool"]
    assert len(both) > 12
    for o in both:
        assert o.closed_form == pytest.approx(o.simulated, rel=0.03), o.claim.id


def test_only_all_four_preconditions_together_cost_the_speed():
    frame = dsync.preconditions()
    assert len(frame) == 16
    slow = frame[~frame.full_speed]
    assert len(slow) == 1 and slow[list(dsync.PRECONDITIONS)].all(axis=None)


def test_the_json_is_one_object_a_claim(capsys):
    assert main(["reproduce", "dsync", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    objects = [json.loads(line) for line in lines]
    assert [o["id"] for o in objects] == [claim.id for claim in claims("dsync")]
    for o in objects:
        assert {"id", "published", "simulated", "closed_form", "ratio", "role", "verdict"} <= set(o)
        assert o["role"] in ("fitted", "predicted")
        assert o["verdict"] in ("reproduced", "off", "not modelled")


def test_the_table_counts_both_kinds_and_explains_what_is_off(outcomes):
    shown = text(outcomes)
    assert "fitted:" in shown.splitlines()[-1] and "predicted:" in shown.splitlines()[-1]
    assert "as stated: 3 of 3" in shown
    for o in outcomes:
        assert o.claim.id in shown


def test_reports_are_written(tmp_path, capsys):
    assert main(["reproduce", "dsync", "--out", str(tmp_path / "reports")]) == 0
    names = {p.name for p in (tmp_path / "reports").iterdir()}
    assert {"reproduction.csv", "reproduction.txt", "kernel-rows.svg", "dsync-timeline-cfq.svg"} <= names
    assert "T0-001" in capsys.readouterr().out


def test_an_unknown_thread_is_refused_with_the_names_there_are(capsys):
    assert main(["reproduce", "dsnyc"]) == 2
    error = capsys.readouterr().err
    assert "did you mean 'dsync'" in error and error.count("\n") == 1
    assert THREADS[0] == "dsync"
