"""VALIDATION.md is of this code and these data, says what its results say, and accounts for every claim."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from helpers import ROOT

import iosched as io
from iosched import ledger, theory, validation, validation_page
from iosched.cli import main
from iosched.threads import THREADS, claims, reproduce

FOLDER = ROOT / validation_page.FOLDER


@pytest.fixture(scope="module")
def kept():
    """The results in the repository."""
    return validation.read(FOLDER)


@pytest.fixture(scope="module")
def dsync():
    """Thread 0's claims, evaluated now."""
    return reproduce("dsync")


# --- is the page up to date? ---------------------------------------------------------------------------------------


def test_the_page_was_made_by_this_code_and_these_data(kept):
    assert validation.stale(kept) == ""


def test_the_page_says_what_the_results_say(kept):
    assert (ROOT / validation_page.PAGE).read_text(encoding="utf-8") == validation_page.page(kept)


def test_every_figure_of_the_page_is_there():
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", (ROOT / validation_page.PAGE).read_text(encoding="utf-8"))
    assert len(pictures) >= 7
    for name in pictures:
        assert (ROOT / name).stat().st_size > 5_000


def test_rows_of_a_real_kernel_come_out_as_they_are_kept(kept):
    """A sample of what the hash vouches for: every 4.19 row of dd.csv, the fit of its host included."""
    now = validation.kernel_rows("dd", prefix="4.19")
    for key in ("kernel", "closed_form"):
        mine = [row["run_id"] for row in now[key]]
        before = [row for row in kept[key] if row["file"] == "dd" and row["run_id"] in set(mine)]
        assert len(mine) > 250
        for row in now[key]:
            assert row in before


def test_thread_0_comes_out_as_it_is_kept(kept, dsync):
    before = {row["id"]: row for row in kept["published"]}
    for outcome in dsync:
        now = validation.rounded(outcome.as_json())
        assert before[now["id"]] == {key: now[key] for key in before[now["id"]]}


def test_any_change_of_code_or_data_makes_the_page_stale_but_not_one_of_comments(tmp_path):
    code, data = tmp_path / "code", tmp_path / "data"
    shutil.copytree(ROOT / "iosched", code, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "data", data)
    before = validation.sources_hash(code, data)
    assert before == validation.sources_hash()
    rule = code / "schedulers" / "deadline.py"
    text = rule.read_text()
    rule.write_text("# a comment\n" + text)
    assert validation.sources_hash(code, data) == before
    rule.write_text(text.replace(" + ", " - ", 1))
    assert validation.sources_hash(code, data) != before
    rule.write_text(text)
    with (data / "claims.csv").open("a") as f:
        f.write("\n")
    assert validation.sources_hash(code, data) != before


def test_a_stale_page_is_told(tmp_path, capsys):
    (tmp_path / validation_page.FOLDER).mkdir(parents=True)
    assert main(["validate", "--check", "--out", str(tmp_path)]) == 2
    assert "run `iosched validate`" in capsys.readouterr().err
    validation.keep({"sources": "0" * 16}, tmp_path / validation_page.FOLDER)
    assert main(["validate", "--check", "--out", str(tmp_path)]) == 2
    assert "other code or data (0000000000000000" in capsys.readouterr().err


def test_results_are_read_as_they_were_kept(tmp_path):
    results = {"sources": "x", "theory": [{"a": 1.5, "b": None}, {"a": "x", "b": [1, 2]}], "kernel": []}
    validation.keep(results, tmp_path)
    assert validation.read(tmp_path) == results


# --- the claims ----------------------------------------------------------------------------------------------------


def test_every_claim_of_the_five_threads_has_a_status_and_a_reason_where_it_needs_one(kept):
    entries = kept["claims"]
    assert len(entries) == len({e["id"] for e in entries}) == 409
    for e in entries:
        assert e["status"] in ledger.STATUSES
        if e["status"] in ("not modelled", "off", "relation does not hold"):
            assert e["reason"], e["id"]
        if e["status"] in ("reproduced", "off"):
            assert e["role"] in ("fitted", "predicted") and e["ratio"] is not None


def test_reproduce_all_shows_every_claim(monkeypatch, capsys, dsync):
    monkeypatch.setattr("iosched.threads.reproduce", lambda name, **_: dsync if name == "dsync" else [])
    assert main(["reproduce", "--all", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["id"] for row in rows] == [row["id"] for row in ledger.rows()]
    assert main(["reproduce", "--all"]) == 0
    shown = capsys.readouterr().out
    assert all(row["id"] in shown for row in rows) and shown.splitlines()[-1].startswith("409 claims: ")
    assert main(["reproduce", "dsync", "--all"]) == 2


def test_a_claim_has_the_status_that_its_module_gives_it(dsync):
    entries = {e.id: e for e in ledger.ledger(dsync)}
    for outcome in dsync:
        if outcome.claim.id in entries:
            entry = entries[outcome.claim.id]
            good = entry.status in ("reproduced", "relation holds", "as stated")
            assert good == (outcome.verdict == "reproduced")
            assert (entry.role, entry.simulated) == (outcome.claim.role, outcome.simulated)


def test_a_thread_without_a_module_is_not_modelled_yet(dsync):
    for entry in ledger.ledger(dsync):
        if entry.thread == "4" and entry.metric == "throughput":
            assert entry.status == "not modelled" and "thread 4 has no module" in entry.reason


def test_a_derived_claim_follows_from_what_was_simulated(dsync):
    entry = next(e for e in ledger.ledger(dsync) if e.id == "T0-042")
    known = {o.claim.id: o.simulated for o in dsync}
    assert entry.simulated == pytest.approx((known["T0-028"] - known["T0-026"]) / 10)
    assert entry.role == "predicted" and "derived" in entry.reason


def test_every_formula_of_the_ledger_names_claims_that_exist():
    known = {row["id"] for row in ledger.rows()} | {c.id for thread in THREADS for c in claims(thread)}
    for row in ledger.rows():
        names = ledger.ID.findall(row["derived"])
        assert set(names) <= known
        assert not row["derived"] or (names and not row["reason"])


@pytest.mark.parametrize(("text", "value"), [("T0-001 / T0-002", 0.5), ("abs(T0-001 / T0-002 - 1) < 0.6", 1.0),
                                             ("T0-001 + 2 * T0-002 > 100", 0.0)])  # fmt: skip
def test_formulas_are_worked_out(text, value):
    assert ledger.formula(text, {"T0-001": 2.0, "T0-002": 4.0}.get) == value


def test_a_formula_is_arithmetic_and_nothing_else():
    with pytest.raises(io.ScenarioError, match="no formula"):
        ledger.formula("__import__('os')", {}.get)


# --- theory --------------------------------------------------------------------------------------------------------


def test_the_textbook_values_are_inside_the_kept_intervals(kept):
    """At 99 % about one in a hundred falls outside by chance; two would be none."""
    rows = kept["theory"]
    assert {"M/M/1", "priorities (Cobham)"} <= {row["law"] for row in rows}
    assert any("polling" in row["law"] for row in rows) and any("repairman" in row["law"] for row in rows)
    assert sum(not row["inside"] for row in rows) <= 1
    for row in rows:
        assert row["inside"] == (row["low"] <= row["theory"] <= row["high"])
        assert row["high"] - row["low"] < 0.5 * row["theory"]


def test_a_wrong_law_falls_outside(monkeypatch):
    """The interval is narrow enough to tell M/M/1 from M/D/1."""
    (check,) = theory.mm1(0.7, 30, seed=1)
    assert check.inside
    constant = theory.SERVICE_S + theory.mg1_wait(0.7 / theory.SERVICE_S, theory.SERVICE_S, theory.SERVICE_S**2)
    assert constant < check.low


def test_cobham_with_one_class_is_pollaczek_and_khinchine():
    assert theory.priority_waits([0.6], [1.0], [1.7]) == [theory.mg1_wait(0.6, 1.0, 1.7)]
    low, high = theory.priority_waits([0.3, 0.3], [1, 1], [2, 2])
    assert (low + high) / 2 == pytest.approx(theory.mg1_wait(0.6, 1.0, 2.0))  # the conservation law
