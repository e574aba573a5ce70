"""Options that several ``ork run`` commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "DEFAULT_MAX_TOKENS",
    "Context",
    "ContextLimit",
    "Json",
    "KvCache",
    "MaxTokens",
    "MinP",
    "Model",
    "PromptCache",
    "Quant",
    "RepeatPenalty",
    "Seed",
    "Stop",
    "TargetOption",
    "Temperature",
    "TextFile",
    "Threads",
    "TopK",
    "TopP",
]

DEFAULT_MAX_TOKENS = 512

Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]
Model = Annotated[str | None, typer.Option("--model", "-m", help="Catalogue name or GGUF file.")]
Temperature = Annotated[float | None, typer.Option(help="0 is greedy; higher is more varied.")]
TopK = Annotated[int | None, typer.Option(help="Only the K most likely tokens; 0 is off.")]
TopP = Annotated[
    float | None, typer.Option(help="Only the likeliest tokens up to this probability; 1 is off.")
]
MinP = Annotated[float | None, typer.Option(help="Only tokens this likely relative to the best; 0 is off.")]
RepeatPenalty = Annotated[float | None, typer.Option(help="Against repetition; 1 is off.")]
Seed = Annotated[int | None, typer.Option(help="Same seed, same answer.")]
MaxTokens = Annotated[int, typer.Option(help="Longest answer, in tokens.")]
Stop = Annotated[list[str] | None, typer.Option(help="End the answer at this text; may be repeated.")]
Context = Annotated[int | None, typer.Option(help="Tokens of context kept.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads; 0 takes the big cores.")]
Quant = Annotated[
    str | None,
    typer.Option(
        help="Arithmetic of the weights: auto, w8a8-rot, w8a8, w4a8-g32-rot, nf4-mixed (experts in 4 bits) or f32."
    ),
]
KvCache = Annotated[str | None, typer.Option("--kv-cache", help="Key-value cache: f16, int8 or f32.")]
PromptCache = Annotated[
    Path | None,
    typer.Option(
        "--prompt-cache",
        metavar="FILE",
        help="Take what the model has read before from FILE as far as it fits, and keep it there.",
    ),
]
TargetOption = Annotated[str | None, typer.Option("--target", help="auto, board or sim.")]
ContextLimit = Annotated[
    str | None,
    typer.Option("--context-limit", help="What a full context does: stop, or shift, which drops the oldest."),
]
TextFile = Annotated[
    Path | None, typer.Option("--file", metavar="FILE", help="Take the text from a UTF-8 file.")
]
