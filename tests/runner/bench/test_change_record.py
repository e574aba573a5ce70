"""A change is recorded with before, after and their difference, or it is no record."""

from __future__ import annotations

import json

import pytest

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.bench.arms import verdicts
from orkbench_tui.runner.bench.change_record import change_records, parse_change
from tests.runner.bench.fakes import row


def _record(after: float = 120, idle: dict[str, str] | None = None):
    found = verdicts([row([100, 101, 99])], [row([after, after + 1, after - 1])], interleaved=True)
    return change_records(found, idle or {})[0]


def test_a_record_holds_before_after_and_delta_and_survives_its_document() -> None:
    record = _record()
    assert (record.before, record.after, record.delta) == (100, 120, pytest.approx(0.2))
    assert record.accepted and parse_change(json.loads(json.dumps(record.document()))) == record


def test_nothing_lands_that_is_slower_or_whose_code_did_not_run() -> None:
    assert not _record(80).accepted
    assert not _record(100).accepted
    assert not _record(120, {"pp64": "submitted nothing"}).accepted
    assert change_records(verdicts([row([])], [row([])], interleaved=True), {}) == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"delta": None}, "delta is missing"),
        ({"before": None}, "before is missing"),
        ({"after": "120"}, "after is missing"),
        ({"delta": True}, "delta is missing"),
        ({"delta": float("nan")}, "delta is missing"),
        ({"delta": 0.5}, "not that of before and after"),
        ({"before": 0.0}, "not that of before and after"),
        ({"pairs": 0}, "pairs"),
        ({"pairs": None}, "pairs"),
        ({"verdict": 3}, "must be text"),
        ({"reached": "yes"}, "true or false"),
        ({"schema": "other/1"}, "schema"),
    ],
)
def test_a_record_without_a_measured_delta_is_rejected(changes: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidFileError, match=why):
        parse_change({**_record().document(), **changes})
