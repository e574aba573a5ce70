"""Models known by their shapes alone, so that a placement can be looked at before any weight exists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orkbench_tui.errors import InvalidFileError, UsageError
from orkbench_tui.runner.orkpack.placement import Resident
from orkbench_tui.user_files import read_text_bounded

__all__ = ["BUILT_IN", "QWEN_27B_TIERS", "qwen_27b_like", "shapes_named"]

_MAX_FILE_BYTES = 16 << 20
_HIDDEN, _FORWARD, _LAYERS = 5120, 17408, 64
_ATTENTION = (
    ("attn_q", 5120, 12288),
    ("attn_k", 5120, 1024),
    ("attn_v", 5120, 1024),
    ("attn_output", 6144, 5120),
)
_LINEAR_ATTENTION = (("ssm_in", 5120, 10240), ("ssm_gate", 5120, 6144), ("ssm_out", 6144, 5120))
_FEED_FORWARD = (
    ("ffn_gate", _HIDDEN, _FORWARD),
    ("ffn_up", _HIDDEN, _FORWARD),
    ("ffn_down", _FORWARD, _HIDDEN),
)
# Tier → weights with 8 bits in NPU memory and the layers (every so many, from which) they have them in. What a
# mixed pack promotes is not published; these come to its published domains.
_EVERY = (1, 0)
QWEN_27B_TIERS: dict[str, dict[str, tuple[int, int]]] = {
    "w4a4": {},
    "mixed": {"ffn_down": _EVERY, "ssm_out": _EVERY, "attn_q": (8, 3)},
    "w4a8": {name: _EVERY for name, _, _ in (*_ATTENTION, *_LINEAR_ATTENTION, *_FEED_FORWARD)},
}
BUILT_IN = tuple(f"qwen-27b-like:{tier}" for tier in QWEN_27B_TIERS)


def qwen_27b_like(tier: str) -> list[Resident]:
    """A 27B model of 64 layers, every fourth with full attention; W4A8 weights take 8 bits in NPU memory."""
    weights = []
    for layer in range(_LAYERS):
        attention = _ATTENTION if layer % 4 == 3 else _LINEAR_ATTENTION
        for name, K, N in (*attention, *_FEED_FORWARD):
            step, first = QWEN_27B_TIERS[tier].get(name, (0, 0))
            bits = 8 if step and layer % step == first else 4
            weights.append(Resident(f"blk.{layer}.{name}.weight", K, N, bits, want_full_k=bits == 8))
    return weights


def shapes_named(source: str) -> list[Resident]:
    """A built-in model, or a JSON file: a list of {"name", "K", "N", "wbits": 8 or 4, "full_k": false}.

    Raises:
        UsageError: no such model and no such file.
        InvalidFileError: the file is not such a list.
    """
    name, _, tier = source.partition(":")
    if name == "qwen-27b-like" and (tier or "w4a8") in QWEN_27B_TIERS:
        return qwen_27b_like(tier or "w4a8")
    path = Path(source).expanduser()
    if not path.is_file():
        raise UsageError(f"no shapes {source!r}", do=f"give a JSON file or one of {', '.join(BUILT_IN)}")
    try:
        rows = json.loads(read_text_bounded(path, _MAX_FILE_BYTES, "list of shapes"))
        weights = [_resident(row) for row in rows]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidFileError(
            f"{path.name} holds no shapes",
            why=str(error) or type(error).__name__,
            do='give a list of {"name", "K", "N", "wbits"}',
        ) from None
    if not weights:
        raise InvalidFileError(f"{path.name} holds no shapes", why="the list is empty")
    if len({weight.name for weight in weights}) != len(weights):
        raise InvalidFileError(f"{path.name} names a weight twice")
    return weights


def _resident(row: Any) -> Resident:
    K, N, bits = row["K"], row["N"], row.get("wbits", 8)
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in (K, N, bits)):
        raise ValueError(f"{row['name']}: K, N and wbits must be whole numbers")
    if bits not in (4, 8) or not 0 < K <= 1 << 20 or not 0 < N <= 1 << 20:
        raise ValueError(f"{row['name']}: K = {K}, N = {N}, wbits = {bits} is out of range")
    if not isinstance(row["name"], str):
        raise ValueError("a name is not text")
    return Resident(row["name"], K, N, bits, want_full_k=bool(row.get("full_k", False)))
