"""Questions about what nobody has built: answered from published figures, or from the user's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.driver.timing.labels import checked_label
from orkbench_tui.driver.timing.published import figure
from orkbench_tui.driver.timing.what_ifs import WHAT_IFS, answer, asked, given_figures
from orkbench_tui.errors import UsageError


@pytest.mark.parametrize("name", WHAT_IFS)
def test_every_answer_has_a_label_and_whole_rows(name: str) -> None:
    figures, found = answer(WHAT_IFS[name])
    assert checked_label(found.label) and found.rows and found.notes
    assert all(len(row) == len(found.columns) for row in found.rows)
    assert set(figures) == set(WHAT_IFS[name].knobs)
    assert {knob.standing for knob in WHAT_IFS[name].knobs.values()} <= {"published", "derived", "assumed"}


def test_a_split_of_the_cores_pays_only_where_resets_are_many() -> None:
    _, found = answer(WHAT_IFS["core-split"], ["int4_s=100", "int8_s=1"])
    best = {row[0]: row[-1] for row in found.rows}
    assert best == {160: "dynamic", 2: "alternating"}


def test_more_accepted_drafts_gain_more() -> None:
    gains = [
        answer(WHAT_IFS["verification"], [f"acceptance={part}"])[1].rows[0][-1] for part in (0, 0.5, 0.9)
    ]
    assert gains == sorted(gains) and gains[0] == pytest.approx(1, abs=0.05)


def test_published_int4_misses_the_bar_and_a_precision_of_ones_own_is_judged_beside_it() -> None:
    _, found = answer(WHAT_IFS["precision"], ["perplexity=21", "submits=2"])
    verdicts = {row[0]: row[-1] for row in found.rows}
    assert verdicts.pop("given") == "worth its wiring"
    assert len(verdicts) == 4 and all(str(verdict).startswith("no: ") for verdict in verdicts.values())
    assert found.label == "published"
    published = {row[2] for row in found.rows}
    assert figure("RES-15 grouped").value in published and figure("RES-15 channel").value in published


def test_the_published_draft_is_the_default_of_the_asymmetric_model() -> None:
    figures, found = answer(WHAT_IFS["asymmetric"])
    assert figures == {"parameters": 2.1e9, "active": 6e8}
    assert "300 MB" in found.notes[0] and "1 of its 4 GiB windows" in found.notes[0]
    assert [row[1] for row in found.rows] == ["latency", "latency", "bandwidth", "bandwidth"]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("core-split", "int5_s=1", "core-split takes int4_s=NUMBER"),
        ("core-split", "int4_s", "core-split takes"),
        ("core-split", "int4_s=x", "is not a number"),
        ("core-split", "int4_s=-1", "allowed: numbers from 0"),
        ("core-split", "handoffs=1.5", "allowed: whole numbers from 0 to 1e"),
        ("verification", "acceptance=1.01", "allowed: numbers from 0 to 1"),
        ("verification", "drafts=nan", "allowed: whole numbers from 0 to 63"),
        ("asymmetric", "active=1e10", "1e+10 active of 2.1e+09 parameters"),
        ("asymmetric", "parameters=inf", "allowed"),
    ],
)
def test_figures_it_cannot_take(name: str, text: str, why: str) -> None:
    with pytest.raises(UsageError) as raised:
        answer(WHAT_IFS[name], [text])
    assert why in raised.value.line()


@given(st.sampled_from(sorted(WHAT_IFS)), st.data())
def test_any_figures_in_range_are_answered_or_refused(name: str, data: st.DataObject) -> None:
    question = WHAT_IFS[name]
    texts = []
    for knob_name, knob in question.knobs.items():
        most = min(knob.most, 1e15)
        value = (
            data.draw(st.integers(int(knob.least), int(most)))
            if knob.whole
            else data.draw(st.floats(knob.least, most))
        )
        texts.append(f"{knob_name}={value!r}")
    try:
        _, found = answer(question, texts)
    except UsageError as error:
        assert name == "asymmetric" and "active of" in error.line()
        return
    assert all(isinstance(cell, str) or cell >= 0 for row in found.rows for cell in row)


def test_unknown_questions_and_all_of_them() -> None:
    assert [row.name for row in asked(".")] == list(WHAT_IFS)
    with pytest.raises(UsageError, match="core-split, verification, precision, asymmetric"):
        asked("split")
    assert given_figures(WHAT_IFS["verification"], ["drafts=7"])["drafts"] == 7
