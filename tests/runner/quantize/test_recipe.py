"""The command line for llama.cpp's quantizer."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from orkbench_tui.errors import UsageError
from orkbench_tui.runner.quantize.recipe import PARTS, quantize_command
from tests.conftest import ork
from tests.reference.tiny_models import write_tiny_llama

MIXTURE = [
    "blk.0.attn_q.weight",
    "blk.0.ffn_gate_exps.weight",
    "blk.0.ffn_up_shexp.weight",
    "blk.0.ssm_in.weight",
]


def test_the_shipped_recipe_word_for_word() -> None:
    line = quantize_command(MIXTURE, "in.gguf", "out.gguf")
    assert line == ("llama-quantize --tensor-type attn=q8_0 --tensor-type shexp=q8_0 in.gguf out.gguf Q4_K_M")
    assert quantize_command(MIXTURE, "in.gguf", "out.gguf", candidates=True).count("ssm=q8_0") == 1
    assert [part.pattern for part in PARTS if not part.proven] == ["ssm"]


def test_what_a_model_does_not_have_is_left_out_and_names_are_quoted() -> None:
    line = quantize_command(["blk.0.attn_q.weight"], "a b.gguf", "$(x).gguf", base="Q4_0")
    assert shlex.split(line) == [
        "llama-quantize",
        "--tensor-type",
        "attn=q8_0",
        "a b.gguf",
        "$(x).gguf",
        "Q4_0",
    ]
    with pytest.raises(UsageError, match="attn, shexp, ssm"):
        quantize_command(["token_embd.weight"], "a", "b")


def test_the_command_reads_the_header_alone(tmp_path: Path) -> None:
    source = write_tiny_llama(tmp_path / "m.gguf")
    done = ork("pack", "recipe", str(source), str(tmp_path / "out.gguf"))
    assert done.returncode == 0 and done.stdout.startswith("llama-quantize --tensor-type attn=q8_0 ")
    assert not (tmp_path / "out.gguf").exists()
