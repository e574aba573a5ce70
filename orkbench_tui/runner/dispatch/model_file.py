"""What the dispatcher must know of a model, read from its GGUF file or pack without loading a weight."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orkbench_tui.errors import OrkError
from orkbench_tui.runner.dispatch.unit import Source
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.gguf_types import GgmlType
from orkbench_tui.runner.models.architecture import Architecture
from orkbench_tui.runner.models.read_architecture import architecture_of
from orkbench_tui.runner.orkpack.layout import MAGIC, PACK_EXTENSION
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.user_files import open_regular

__all__ = ["DescribedModel", "described", "gguf_sources", "pack_sources"]

_BITS = re.compile(r"[0-9]{1,2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class DescribedModel:
    """``scheme`` is a pack's, "" for a model file; ``domains`` are those a pack's weights lie in, None before one is made."""

    name: str
    architecture: Architecture
    sources: Mapping[str, Source]
    scheme: str
    domains: int | None


def described(path: Path) -> DescribedModel:
    """A GGUF file or a pack, told apart by how it begins.

    Raises:
        InvalidFileError: it is neither, damaged, or of an architecture that is not known.
    """
    if _is_pack(path):
        with OrkPack.open(path) as pack:
            domains = len(set(pack.domain_of.values()))
            return DescribedModel(path.stem, pack.architecture, pack_sources(pack), pack.scheme, domains)
    with GgufFile.open(path) as model:
        architecture = architecture_of(model)
        return DescribedModel(path.stem, architecture, gguf_sources(model, architecture), "", None)


def _is_pack(path: Path) -> bool:
    try:
        with open_regular(path, "model file") as handle:
            return handle.read(len(MAGIC)) == MAGIC or path.suffix == PACK_EXTENSION
    except (OSError, OrkError):
        # Opening it as a model tells what is wrong with it.
        return False


def gguf_sources(model: GgufFile, architecture: Architecture) -> dict[str, Source]:
    """The stored type of every matmul weight."""
    types = {name: info.type for name, info in model.tensors.items()}
    return {linear.name: _source(int(types[linear.source])) for linear in architecture.all_linears()}


def pack_sources(pack: OrkPack) -> dict[str, Source]:
    """The types the pack's weights had in the model file it was made from."""
    return {name: _source(pack.tensors[name].source_type) for name in pack.packed_names}


def _source(type_: int) -> Source:
    try:
        name = GgmlType(type_).name
    except ValueError:
        return Source("", None)
    found = _BITS.search(name)
    return Source(name, int(found[0]) if found else None)
