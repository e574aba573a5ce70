"""Figures of other tools' outputs: llama-bench, the open stack's bench and perplexity, the vendor's runtime.

They were measured elsewhere, so each is labelled ``published`` with the tool that printed it. A text is read by
every reader; what none knows is no figure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from orkbench_tui.errors import InvalidFileError

__all__ = ["ForeignFigure", "foreign_lines", "read_foreign"]

_AGREE = 0.02
"""A rate and its own tokens over milliseconds may differ by this much from rounding."""


@dataclass(frozen=True, slots=True)
class ForeignFigure:
    """``test`` as the tool calls it (``pp512``, ``decode`` …); ``spread`` None where it gives none.

    ``build`` is the tool's commit where it says, "" otherwise.
    """

    tool: str
    test: str
    value: float
    unit: str
    spread: float | None = None
    build: str = ""
    label: str = "published"


def read_foreign(text: str) -> tuple[ForeignFigure, ...]:
    """Every figure of the text, in its order by reader.

    Raises:
        InvalidFileError: none is known, or a tool contradicts itself.
    """
    found = [figure for reader in _READERS for figure in reader(text)]
    if not found:
        raise InvalidFileError(
            "no figures of a known tool",
            why="known: llama-bench (json, jsonl, md), ork_bench, ork_ppl, rknn_vs_ork, the vendor's runtime and rk_bench",
        )
    return tuple(found)


def foreign_lines(figures: tuple[ForeignFigure, ...]) -> list[str]:
    lines = ["{:<14} {:<22} {:>12} {:<8} {:<10}".format("tool", "test", "value", "unit", "label").rstrip()]
    for row in figures:
        spread = "" if row.spread is None else f" ± {row.spread:.2f}"
        build = f"  build {row.build}" if row.build else ""
        lines.append(
            f"{row.tool:<14} {row.test:<22} {row.value:>12.4g} {row.unit:<8} {row.label}{spread}{build}"
        )
    return lines


def _llama_bench_json(text: str) -> Iterator[ForeignFigure]:
    for row in _objects(text):
        if not {"n_prompt", "n_gen", "avg_ts"} <= row.keys() or row.get("schema"):
            continue
        try:
            prompt, made = int(row["n_prompt"]), int(row["n_gen"])
            parts = ([f"pp{prompt}"] if prompt else []) + ([f"tg{made}"] if made else [])
            spread = row.get("stddev_ts")
            yield ForeignFigure(
                "llama-bench",
                "+".join(parts),
                float(row["avg_ts"]),
                "tok/s",
                None if spread is None else float(spread),
                str(row.get("build_commit") or ""),
            )
        except (TypeError, ValueError) as error:
            raise InvalidFileError("a row of llama-bench is damaged", why=str(error)[:120]) from error


def _objects(text: str) -> list[dict[str, Any]]:
    try:
        whole = json.loads(text)
        rows = whole if isinstance(whole, list) else [whole]
    except (ValueError, RecursionError):
        rows = []
        for line in text.splitlines():
            if line.lstrip().startswith("{"):
                try:
                    rows.append(json.loads(line))
                except (ValueError, RecursionError):
                    continue
    return [row for row in rows if isinstance(row, dict)]


_CELL = re.compile(r"(\d+(?:\.\d+)?)\s*(?:±|\+/-)\s*(\d+(?:\.\d+)?)")
_TEST = re.compile(r"(?:pp\d+)?\+?(?:tg\d+)?(?: @ d\d+)?")


def _llama_bench_md(text: str) -> Iterator[ForeignFigure]:
    build = re.search(r"^build: (\w+)", text, re.M)
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 3 or not cells[-2] or not _TEST.fullmatch(cells[-2]):
            continue
        if rate := _CELL.fullmatch(cells[-1]):
            yield ForeignFigure(
                "llama-bench", cells[-2], float(rate[1]), "tok/s", float(rate[2]), build[1] if build else ""
            )


_ORK_PREFILL = re.compile(
    r"prefill: (\d+) tok in (\d+(?:\.\d+)?) ms = (\d+(?:\.\d+)?) tok/s(?: \(ubatch=(\d+)\))?"
)
_ORK_DECODE = re.compile(r"^decode: .*?(\d+(?:\.\d+)?) tok/s", re.M)
_ORK_PPL = re.compile(r"(?:final|estimate)[^\n]*?(?:PPL|perplexity)\s*[:=]\s*(\d+(?:\.\d+)?)", re.I)


def _ork_bench(text: str) -> Iterator[ForeignFigure]:
    for tokens, ms, rate, batch in _ORK_PREFILL.findall(text):
        _agree("ork_bench", int(tokens), float(ms), float(rate))
        test = f"pp{tokens}" + (f" ubatch {batch}" if batch else "")
        yield ForeignFigure("ork_bench", test, float(rate), "tok/s")
    if _ORK_PREFILL.search(text):
        for rate in _ORK_DECODE.findall(text):
            yield ForeignFigure("ork_bench", "decode", float(rate), "tok/s")


def _ork_ppl(text: str) -> Iterator[ForeignFigure]:
    for value in _ORK_PPL.findall(text):
        yield ForeignFigure("ork_ppl", "perplexity", float(value), "")


_STAGE = re.compile(
    r"\b(Prefill|Generate|Decode)\s+(\d+(?:\.\d+)?)\s+(\d+)\s+(\d+(?:\.\d+)?)\s+(\d+(?:\.\d+)?)\s*$", re.M
)
_RK_BENCH = re.compile(
    r"^\s*(prefill|decode)\b[^\d\n]*(?:(\d+) tok\w*\b[^\d\n]*)?(\d+(?:\.\d+)?) tok/s\s*$", re.M | re.I
)


def _vendor(text: str) -> Iterator[ForeignFigure]:
    """Stages with total ms, tokens, ms a token, tokens a second; and rk_bench's one line for each stage."""
    for stage, ms, tokens, _, rate in _STAGE.findall(text):
        _agree("the vendor's runtime", int(tokens), float(ms), float(rate))
        name = f"pp{tokens}" if stage == "Prefill" else f"tg{tokens}"
        yield ForeignFigure("rkllm", name, float(rate), "tok/s")
    if _ORK_PREFILL.search(text):
        return
    for stage, tokens, rate in _RK_BENCH.findall(text):
        yield ForeignFigure("rk_bench", f"{stage.lower()} {tokens}".strip(), float(rate), "tok/s")


_SHAPE_ROW = re.compile(r"^\s*(\d+x\d+x\d+)((?:\s+\d+(?:\.\d+)?(?:us|x)?){3,4})\s*$", re.M)


def _rknn_vs_ork(text: str) -> Iterator[ForeignFigure]:
    """Microseconds on one core and three cores of the open driver, and one core of the closed runtime."""
    for shape, cells in _SHAPE_ROW.findall(text):
        values = [float(cell.rstrip("usx")) for cell in cells.split()]
        for name, value in zip(("ork 1 core", "ork 3 cores", "rknn 1 core"), values, strict=False):
            yield ForeignFigure("rknn_vs_ork", f"{shape} {name}", value, "us")


def _agree(tool: str, tokens: int, ms: float, rate: float) -> None:
    if ms <= 0 or abs(tokens / ms * 1e3 / rate - 1) > _AGREE if rate else True:
        raise InvalidFileError(
            f"{tool} contradicts itself", why=f"{tokens} tokens in {ms:g} ms are not {rate:g} tokens a second"
        )


_READERS: tuple[Callable[[str], Iterator[ForeignFigure]], ...] = (
    _llama_bench_json,
    _llama_bench_md,
    _ork_bench,
    _ork_ppl,
    _vendor,
    _rknn_vs_ork,
)
