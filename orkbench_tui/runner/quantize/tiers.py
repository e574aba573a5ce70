"""How many bits a weight of each GGUF type holds, and what may be made of it.

Making 4 bits out of weights that have hardly more rounds them twice, which ruins small models: such a source
is refused unless forced, and then what is made says so.
"""

from __future__ import annotations

from typing import Literal

from orkbench_tui.errors import RefusedError
from orkbench_tui.runner.gguf_types import GgmlType

__all__ = ["LOW_BITS", "effective_bits", "source_stamp", "tier_of"]

Tier = Literal["int8", "int4"]

# Below this a source is a low-bit one, and a tier map takes 4 bits for it.
LOW_BITS = 5.0
_BITS = {
    "F32": 32, "F16": 16, "BF16": 16, "F64": 64, "I8": 8, "I16": 16, "I32": 32, "I64": 64,
    "Q8_0": 8.5, "Q8_1": 9, "Q8_K": 8, "Q6_K": 6.5625, "Q5_0": 5.5, "Q5_1": 6.0, "Q5_K": 5.5,
    "Q4_1": 5.0, "Q4_0": 4.5, "Q4_K": 4.5, "IQ4_NL": 4.5, "IQ4_XS": 4.25,
    "Q3_K": 3.4375, "Q2_K": 2.5625, "IQ3_S": 3.4375, "IQ3_XXS": 3.0625,
    "IQ2_S": 2.5, "IQ2_XS": 2.3125, "IQ2_XXS": 2.0625, "IQ1_M": 1.75, "IQ1_S": 1.5625,
}  # fmt: skip
_UNKNOWN = 16.0


def effective_bits(type_: GgmlType) -> float:
    """Bits a weight takes with its share of scales; 16 for a type without a row."""
    return float(_BITS.get(type_.name, _UNKNOWN))


def tier_of(type_: GgmlType, threshold: float = LOW_BITS) -> Tier:
    """What an allocation by another file's types gives a weight; the values never come from that file."""
    return "int8" if effective_bits(type_) >= threshold else "int4"


def source_stamp(name: str, type_: GgmlType, *, force: bool) -> dict[str, object]:
    """What a 4-bit result must say about its source.

    Raises:
        RefusedError: a low-bit source without ``force``.
    """
    bits = effective_bits(type_)
    low = bits < LOW_BITS
    if low and not force:
        raise RefusedError(
            f"{name} has {bits:g} bits a weight",
            why="quantizing it to 4 bits would round it twice",
            do="take a file of F16, BF16, Q8_0 or Q6_K, or force it",
        )
    return {"source_type": type_.name, "source_bits": bits, "low_bit_source": low}
