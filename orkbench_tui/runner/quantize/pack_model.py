"""GGUF model → weight pack, a few MiB at a time: dequantize rows, quantize them, append their tiles."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.models.architecture import Architecture, Linear
from orkbench_tui.runner.models.read_architecture import architecture_of
from orkbench_tui.runner.orkpack.layout import PAGE, SCALE_ALIGN, TENSOR_BYTES, align, padded32
from orkbench_tui.runner.orkpack.placement import Placement, Resident, plan_placement
from orkbench_tui.runner.orkpack.schemes import DEFAULT_SCHEME, Scheme, scheme_named
from orkbench_tui.runner.orkpack.writer import PackWriter
from orkbench_tui.runner.quantize.int8 import not_finite
from orkbench_tui.runner.quantize.pack_weight import add_weight
from orkbench_tui.runner.quantize.tier_plan import PackChoices, tier_plan
from orkbench_tui.version import VERSION, build_commit

__all__ = ["Progress", "pack_bytes", "pack_gguf", "plan_model", "sha256_of"]

# (what is being done, bytes done, bytes in all)
Progress = Callable[[str, int, int], None]
_READ_BYTES = 1 << 20


def sha256_of(path: Path, progress: Progress | None = None) -> bytes:
    digest = hashlib.sha256()
    total = path.stat().st_size
    done = 0
    with path.open("rb") as handle:
        while block := handle.read(_READ_BYTES):
            digest.update(block)
            done += len(block)
            if progress is not None:
                progress("reading the model", done, total)
    return digest.digest()


def pack_gguf(
    gguf_path: Path,
    pack_path: Path,
    progress: Progress | None = None,
    *,
    scheme: str = DEFAULT_SCHEME,
    source_sha256: bytes | None = None,
    replace: bool = False,
    created: int | None = None,
    resumable: bool = False,
    threads: int | None = None,
    choices: PackChoices | None = None,
) -> None:
    """Make ``pack_path`` from ``gguf_path`` in ``scheme``; afterwards it exists whole or not at all.

    InvalidFileError for a model that cannot be run or holds a weight that is not finite, NoMemoryError
    on a full disk, RefusedError where another model's pack has that name (unless ``replace``).
    ``choices`` say more of 4-bit schemes; RefusedError where their source has hardly more bits, unless forced.
    With ``resumable`` a killed build is gone on with; ``threads`` quantize. ``created`` (Unix time) is now unless given; 0 makes equal models give equal packs, byte for byte.
    """
    chosen = scheme_named(scheme)
    digest = sha256_of(gguf_path, progress) if source_sha256 is None else source_sha256
    with GgufFile.open(gguf_path) as model:
        architecture = architecture_of(model)
        plan_model(architecture)
        plan = tier_plan(model, architecture, chosen, choices or PackChoices(), digest.hex())
        total = sum(info.nbytes for info in model.tensors.values())
        done = 0
        with PackWriter(
            pack_path,
            source_sha256=digest,
            quant_signature=chosen.signature | plan.signature,
            replace=replace,
            created=created,
            resumable=resumable,
        ) as writer:
            for linear in architecture.all_linears():
                add_weight(writer, model, linear, chosen, plan, threads)
                done += _source_bytes(model, linear)
                if progress is not None:
                    progress("packing " + linear.name, min(done, total), total)
            for name in architecture.raw_tensors():
                info = model.tensors[name]
                _check_finite(model, name)
                writer.add_raw(name, info.type, info.shape, model.raw(name))
            provenance = {
                "tool": "ork",
                "version": VERSION,
                "scheme": chosen.name,
                "source": gguf_path.name,
                "source_sha256": digest.hex(),
                "source_bytes": model.file_bytes,
                "commit": build_commit(),
                **plan.facts(),
            }
            writer.finish(model.metadata, provenance, scheme=chosen.name)


def _source_bytes(model: GgufFile, linear: Linear) -> int:
    info = model.tensors[linear.source]
    return info.nbytes if linear.index is None else info.nbytes // info.shape[-1]


def plan_model(architecture: Architecture) -> Placement:
    """Where the weights will go, before any is packed; NoMemoryError names the first that does not fit."""
    sizes = [(w.name, padded32(w.K), padded32(w.N)) for w in architecture.all_linears()]
    return plan_placement([Resident(name, K, N, k_slice=K, nmax=N) for name, K, N in sizes])


def pack_bytes(gguf_path: Path, scheme: str = DEFAULT_SCHEME) -> int:
    """Bytes the pack of a model will take on disk, a little more than it needs; reads the header only."""
    chosen = scheme_named(scheme)
    with GgufFile.open(gguf_path) as model:
        architecture = architecture_of(model)
        weights = sum(align(_stored_bytes(chosen, w), PAGE) + 4 * w.N for w in architecture.all_linears())
        raw = sum(model.tensors[name].nbytes for name in architecture.raw_tensors())
        entries = len(architecture.all_linears()) + len(architecture.raw_tensors())
        alignment = entries * 4 * SCALE_ALIGN + 32 * PAGE
        return weights + raw + model.data_offset + entries * TENSOR_BYTES + alignment


def _stored_bytes(scheme: Scheme, linear: Linear) -> int:
    """Weights and what they have for each group."""
    if scheme.tier(linear.name, linear.K)[0] == "int8":
        return padded32(linear.K) * padded32(linear.N)
    return linear.N * linear.K // 2 + linear.N * linear.K // scheme.group


def _check_finite(model: GgufFile, name: str) -> None:
    import numpy as np

    for first, rows in model.row_chunks(name):
        if not bool(np.all(np.isfinite(rows))):
            row = first + int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise not_finite(name, row)
