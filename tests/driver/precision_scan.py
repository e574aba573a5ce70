"""How many precisions each driver module names, and whether it may."""

from __future__ import annotations

import ast
from collections import Counter
from enum import StrEnum
from pathlib import Path

NAMES = {
    "INT8": "int8", "INT8_TO_INT32": "int8", "INT8_TO_INT16": "int8", "INT8_TO_INT8": "int8",
    "INT4": "int4", "INT4_TO_INT16": "int4", "FP16": "fp16", "FP16_TO_FP32": "fp16", "FP16_TO_FP16": "fp16",
    "INT16": "int16", "INT16_TO_INT32": "int16",
}  # fmt: skip


class Kind(StrEnum):
    NONE = "none"
    OWN = "one precision"
    MULTI = "several"


def references(source: str) -> Counter[str]:
    """Uses of a precision's name in code, by precision; imports, comments and texts do not count."""
    found: Counter[str] = Counter()
    for node in ast.walk(ast.parse(source)):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in NAMES:
            found[NAMES[name]] += 1
    return found


def kind_of(source: str) -> Kind:
    count = len(references(source))
    return (Kind.NONE, Kind.OWN)[count] if count < 2 else Kind.MULTI


def table(folder: Path) -> dict[str, Kind]:
    return {
        str(path.relative_to(folder)): kind
        for path in sorted(folder.rglob("*.py"))
        if (kind := kind_of(path.read_text(encoding="utf-8"))) is not Kind.NONE
    }
