"""The line after an answer."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import cast

import pytest

from orkbench_tui.cli.answer_report import answer_data, end_note, stats_line
from orkbench_tui.cli.model_session import ModelSession, NpuUse
from orkbench_tui.cli.one_answer import answer_once
from orkbench_tui.runner.chat import Answer


def answer(prompt: int, reused: int, prefilled: int, generated: int, reason: str = "end") -> Answer:
    return Answer("x", prompt, reused, prefilled, generated, 2.0, 3.0, max(generated - 1, 0), reason)


def test_line_says_where_each_figure_is_from() -> None:
    line = stats_line(answer(100, 40, 60, 31), NpuUse(3, 9, 12_600_000), "sim")
    assert line == "[host: in 60/100 tok 30.0/s, out 31 tok 10.0/s | sim NPU 12.6 core-ms predicted]"
    plain = stats_line(answer(100, 0, 100, 31), NpuUse(3, 9, 12_600_000), "sim")
    assert plain == "[host: in 100 tok 50.0/s, out 31 tok 10.0/s | sim NPU 12.6 core-ms predicted]"
    assert "board NPU 12.6 core-ms measured" in stats_line(
        answer(9, 0, 9, 2), NpuUse(3, 9, 12_600_000), "board"
    )
    assert "NPU" not in stats_line(answer(9, 0, 9, 2), NpuUse(0, 0, 0), "host")


def test_a_driver_that_reports_no_times_is_not_one_of_no_time() -> None:
    line = stats_line(answer(9, 0, 9, 2), NpuUse(3, 9, 0), "board")
    assert line.endswith("| board NPU time not reported]")
    assert stats_line(answer(9, 0, 9, 2), NpuUse(0, 0, 0), "board").endswith(
        "| board NPU 0.0 core-ms measured]"
    )
    session = SimpleNamespace(model="m", source="sim", quant="w8a8", load_s=1.0, residence=None)
    told = answer_data(answer(9, 0, 9, 2), NpuUse(3, 9, 0), cast("ModelSession", session))
    assert told["npu"] == {"submits": 3, "tasks": 9, "predicted_ms": None}


def test_prompt_stopped_half_way_counts_what_was_computed() -> None:
    line = stats_line(answer(1132, 0, 512, 0, "interrupted"), NpuUse(1, 1, 1_000_000), "sim")
    assert line == "[host: in 512/1132 tok 256/s | sim NPU 1.0 core-ms predicted]"


@pytest.mark.parametrize("tokens", [1, 100, 2048, 131_072, 1_048_576])
@pytest.mark.parametrize("hw_ns", [0, 12_600_000, 10**12])
@pytest.mark.parametrize("source", ["sim", "board", "host"])
def test_line_fits_a_terminal(tokens: int, hw_ns: int, source: str) -> None:
    assert len(stats_line(answer(tokens, 0, tokens, tokens), NpuUse(1, 1, hw_ns), source)) <= 80


def test_only_an_answer_cut_short_has_a_note() -> None:
    assert end_note(answer(1, 0, 1, 1)) == ""
    assert "--max-tokens" in end_note(answer(1, 0, 1, 1, "length"))
    assert "/reset" in end_note(answer(1, 0, 1, 1, "context"))


def test_ctrl_c_gives_the_document_of_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    session = SimpleNamespace(
        model="m", source="sim", quant="w8a8", load_s=1.0, residence=None, npu_use=lambda: NpuUse(0, 0, 0)
    )
    with pytest.raises(KeyboardInterrupt):
        answer_once(
            cast("ModelSession", session),
            "run.chat",
            True,
            lambda on_text, halt: answer(9, 0, 9, 2, "interrupted"),
        )
    data = json.loads(capsys.readouterr().out)["data"]
    assert (data["text"], data["stop_reason"], data["generated_tokens"]) == ("x", "interrupted", 2)
