"""What ``ork run ppl`` does once its words are parsed: one model, or several on the same tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orkbench_tui.cli import diagnostics, output
from orkbench_tui.cli.perplexity_arms import is_fake, open_arm
from orkbench_tui.errors import UsageError
from orkbench_tui.runner.paired import PairedDifference, excess, paired_difference
from orkbench_tui.runner.perplexity import Chunk, Perplexity, measure, text_digest
from orkbench_tui.settings import Settings
from orkbench_tui.version import VERSION, build_commit

__all__ = ["one", "several"]

_QUANTS = ("f32", "w8a8-rot", "w8a8", "w4a8-g32-rot", "nf4-mixed")
_COLUMNS = "{:<22} {:<9} {:>9} {:>9} {:>9} {:>22} {:>8} {:>8}"


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    arm: str
    model: str
    source: str
    quant: str
    result: Perplexity
    npu: dict[str, int]
    tokens: tuple[int, ...]
    model_sha256: str
    stands_on: Mapping[str, Any]

    def facts(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "target": self.source,
            "quant": self.quant,
            **self.result.as_dict(),
            "npu": self.npu,
            "model_sha256": self.model_sha256,
            "version": VERSION,
            "commit": build_commit(),
            **self.stands_on,
        }


def _measure(
    settings: Settings,
    arm: str,
    quant: str,
    text: str,
    window: int,
    windows: int | None,
    calibration: Path | None,
) -> _Measured:
    label = f"{arm} " if arm else ""

    def show(chunk: Chunk, count: int) -> None:
        diagnostics.note(
            f"{label}[{chunk.index + 1}/{count}] half {chunk.half:.4f} (running {chunk.running_half:.4f})  "
            f"full {chunk.full:.4f} (running {chunk.running_full:.4f})"
        )

    with open_arm(settings, quant, window, calibration) as opened:
        tokenizer = opened.tokenizer
        tokens = tokenizer.encode(text)
        result = measure(
            opened.engine,
            tokens,
            window=window,
            text_sha256=text_digest(text),
            bos_token=tokenizer.bos_id if tokenizer.add_bos else None,
            windows=windows,
            progress=show,
        )
        return _Measured(
            arm,
            opened.model,
            opened.source,
            opened.quant,
            result,
            opened.npu(),
            tuple(tokens),
            opened.model_sha256(),
            opened.facts,
        )


def one(
    settings: Settings,
    quant: str,
    name: str,
    text: str,
    window: int,
    windows: int | None,
    json: bool,
    calibration: Path | None = None,
) -> None:
    """``quant`` is that of the settings, or ``fake:`` and the name of an arm."""
    measured = _measure(settings, "", quant, text, window, windows, calibration)
    result = measured.result
    if json:
        output.emit_json("run.ppl", {"text": name, **measured.facts()}, source=measured.source)
        return
    output.emit(f"model      {measured.model}, {measured.quant}, on {measured.source}")
    for line in _standing(measured.stands_on):
        output.emit(line)
    output.emit(f"text       {name}, {result.text_tokens} tokens, sha256 {result.text_sha256}")
    output.emit(f"windows    {len(result.chunks)} of {window} tokens; BOS {result.bos}")
    for kind, estimate in (("half", result.half), ("full", result.full)):
        output.emit(
            f"{kind} window PPL {estimate.value:.4f} +/- {estimate.uncertainty:.4f} "
            f"({estimate.tokens_scored} tokens scored)"
        )


def _standing(facts: Mapping[str, Any]) -> list[str]:
    """What the figures stand on, beside the model's name."""
    if "pack" not in facts:
        return [f"arm        {facts['arm']}, computed in float32"] if "arm" in facts else []
    tiers = ", ".join(f"{count} {tier}" for tier, count in facts["tiers"].items())
    loaded = "no NPU" if facts["loaded"] is None else f"loaded {facts['loaded']} / packed {facts['packed']}"
    return [f"pack       {facts['pack_sha256'][:16]}, {tiers}; {loaded}"]


def several(
    settings: Settings,
    arms: Sequence[str],
    name: str,
    text: str,
    window: int,
    windows: int | None,
    json: bool,
    calibration: Path | None = None,
) -> None:
    """Every arm on the same tokens, each compared with the first."""
    if len(arms) < 2 or len(set(arms)) != len(arms) or not all(arms):
        raise UsageError(f"--arms {','.join(arms)}", why="at least two different arms are compared")
    measured = [
        _measure(_settings_of(arm, settings), arm, arm, text, window, windows, calibration) for arm in arms
    ]
    base = measured[0]
    for other in measured[1:]:
        if other.tokens != base.tokens:
            raise UsageError(
                f"{other.arm} and {base.arm} cut the text into different tokens",
                do="compare arms of one model",
            )
    differences = [paired_difference(base.result.half_nlls, other.result.half_nlls) for other in measured]
    if json:
        rows = [
            {
                "arm": item.arm,
                **item.facts(),
                "paired_half": dataclasses.asdict(difference),
                "excess_half": excess(item.result.half.value, base.result.half.value),
            }
            for item, difference in zip(measured, differences, strict=True)
        ]
        output.emit_json("run.ppl.arms", {"text": name, "base": base.arm, "arms": rows}, source=base.source)
        return
    result = base.result
    output.emit(
        f"{name}, {len(result.chunks)} windows of {window} tokens, {result.half.tokens_scored} and "
        f"{result.full.tokens_scored} tokens scored, sha256 {result.text_sha256[:16]}; BOS {result.bos}"
    )
    heads = ("arm", "on", "half", "full", "vs first", "nats (95 % interval)", "p99", "largest")
    output.emit(_COLUMNS.format(*heads))
    for item, difference in zip(measured, differences, strict=True):
        output.emit(_row(item, difference))


def _settings_of(arm: str, settings: Settings) -> Settings:
    if is_fake(arm):
        return settings
    return settings.with_flags(quant=arm) if arm in _QUANTS else settings.with_flags(model=arm)


def _row(item: _Measured, difference: PairedDifference) -> str:
    figures = (f"{item.result.half.value:.4f}", f"{item.result.full.value:.4f}")
    if difference.largest == 0:
        return _COLUMNS.format(item.arm, item.source, *figures, "same", "0", "0", "0").rstrip()
    interval = f"{difference.mean:+.4f} ({difference.low:+.4f}..{difference.high:+.4f})"
    share = f"{100 * (difference.ratio - 1):+.2f} %"
    return _COLUMNS.format(
        item.arm, item.source, *figures, share, interval, f"{difference.p99:.3f}", f"{difference.largest:.3f}"
    )
