"""The models ``ork run ppl`` measures: those that run, and number formats computed in float32 (``fake:NAME``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orkbench_tui import locations
from orkbench_tui.cli import model_session
from orkbench_tui.cli.model_argument import model_path
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.runner.perplexity import LogitSource
    from orkbench_tui.runner.tokenizer import Tokenizer

__all__ = ["FAKE", "MeasuredModel", "is_fake", "open_arm"]

FAKE = "fake:"


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredModel:
    """``facts`` tell what the figures stand on: pack digest, tiers, loaded and packed weights, or the arm."""

    model: str
    source: str
    quant: str
    engine: LogitSource
    tokenizer: Tokenizer
    npu: Callable[[], dict[str, int]]
    model_sha256: Callable[[], str]
    facts: Mapping[str, Any] = field(default_factory=dict)


def is_fake(arm: str) -> bool:
    return arm.startswith(FAKE)


@contextmanager
def open_arm(
    settings: Settings, quant: str, window: int, calibration: Path | None
) -> Iterator[MeasuredModel]:
    """A format of ``fake:`` computed in float32, or the model as ``settings`` run it.

    Raises:
        UsageError: no such arm, or one that needs a calibration without one.
        InvalidFileError: the calibration is of another model.
    """
    if is_fake(quant):
        with _fake(settings, quant.removeprefix(FAKE), window, calibration) as opened:
            yield opened
        return
    with model_session.open_session(settings) as session:
        use = session.npu_use

        def npu() -> dict[str, int]:
            now = use()
            return {"submits": now.submits, "tasks": now.tasks}

        yield MeasuredModel(
            session.model,
            session.source,
            session.quant,
            session.engine,  # type: ignore[arg-type]
            session.tokenizer,
            npu,
            session.model_sha256,
            _pack_facts(session.pack_path, session.engine),
        )


def _pack_facts(path: Path | None, engine: object) -> dict[str, Any]:
    """Of the pack that runs; ``loaded`` counts the weights in NPU memory, None where there is no NPU."""
    if path is None:
        return {}
    from orkbench_tui.runner.orkpack.reader import OrkPack

    residence = getattr(engine, "residence", None)
    with OrkPack.open(path) as pack:
        return {
            "pack": path.name,
            "pack_sha256": pack.header.table_digest.hex(),
            "pack_commit": str(pack.provenance.get("commit", "")),
            "tiers": pack.tier_counts,
            "packed": len(pack.packed_names),
            "loaded": None if residence is None else residence.weights,
        }


@contextmanager
def _fake(settings: Settings, name: str, window: int, calibration: Path | None) -> Iterator[MeasuredModel]:
    from contextlib import ExitStack

    from orkbench_tui.cli.progress import ProgressDisplay
    from orkbench_tui.runner.gguf_file import GgufFile
    from orkbench_tui.runner.gguf_weights import GgufWeights
    from orkbench_tui.runner.quantize.arm_engine import arm_engine
    from orkbench_tui.runner.quantize.arms import arm_named
    from orkbench_tui.runner.quantize.calibration import Calibration
    from orkbench_tui.runner.quantize.source_digest import remembered_sha256
    from orkbench_tui.runner.tokenizer import Tokenizer

    arm = arm_named(name)
    path = model_path(settings.model)
    with ExitStack() as stack:
        file = stack.enter_context(GgufFile.open(path))
        digest = remembered_sha256(path, locations.packs_dir()).hex()
        known = None if calibration is None else stack.enter_context(Calibration.open(calibration))
        if known is not None:
            known.require_model(digest)
        display = ProgressDisplay(unit="weights", patience_s=1.0)
        try:
            engine = arm_engine(
                GgufWeights(file),
                arm,
                known,
                context=window,
                threads=settings.threads or None,
                progress=display,
            )
        finally:
            display.close()
        yield MeasuredModel(
            path.stem,
            "host",
            FAKE + name,
            engine,
            Tokenizer.from_metadata(file.metadata),
            lambda: {"submits": 0, "tasks": 0},
            lambda: digest,
            {"arm": arm.summary, "calibration_sha256": "" if known is None else known.digest},
        )
