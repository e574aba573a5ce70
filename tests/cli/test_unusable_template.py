"""A model whose chat template does not parse: chats are refused with its error, plain text is continued."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orkbench_tui.cli.main import run
from tests.reference.tiny_models import write_tiny_llama

BROKEN = {"tokenizer.chat_template": "{% for %}"}


def test_plain_text_needs_no_template(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(write_tiny_llama(tmp_path / "m.gguf", metadata=BROKEN))
    words = ["-m", model, "--quant", "f32", "--max-tokens", "2", "--json"]
    assert run(["run", "complete", "hello", *words]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["prompt_tokens"] > 0
    assert run(["run", "chat", "--once", "hello", *words]) == 1
    told = capsys.readouterr()
    assert "chat template does not parse" in told.err and not told.out
    assert "`ork run complete` continues plain text without it" in told.err
