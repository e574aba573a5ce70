"""The command that makes a GGUF whose NPU parts have 8 bits and whose experts have 4.

Attention and shared experts run on the NPU, which wants 5 bits or more of a source; routed experts stay on the
CPU, where fewer bits are fewer bytes to stream. The quantizer is llama.cpp's; this program runs none.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from orkbench_tui.errors import UsageError

__all__ = ["PARTS", "Part", "quantize_command"]


@dataclass(frozen=True, slots=True)
class Part:
    """``pattern`` is what the quantizer matches tensor names by; ``proven`` was measured on a board by others."""

    pattern: str
    type: str
    proven: bool
    why: str


PARTS: tuple[Part, ...] = (
    Part("attn", "q8_0", True, "attention's matmuls run on the NPU"),
    Part("shexp", "q8_0", True, "shared experts see every token, on the NPU"),
    Part("ssm", "q8_0", False, "a candidate: the projections of a scan"),
)


def quantize_command(
    tensors: Iterable[str], source: str, target: str, *, base: str = "Q4_K_M", candidates: bool = False
) -> str:
    """One shell line; parts the model does not have are left out.

    Raises:
        UsageError: no part of the model would be kept, so that a recipe is none.
    """
    names = list(tensors)
    kept = [
        part for part in PARTS if (part.proven or candidates) and any(part.pattern in name for name in names)
    ]
    if not kept:
        raise UsageError(
            "no recipe for this model", why=f"it has none of: {', '.join(part.pattern for part in PARTS)}"
        )
    words = ["llama-quantize"]
    for part in kept:
        words += ["--tensor-type", f"{part.pattern}={part.type}"]
    return shlex.join([*words, source, target, base])
