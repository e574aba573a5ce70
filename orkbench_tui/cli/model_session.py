"""A model ready to answer: settings → model file → weight pack → target → NPU → engine, closed in reverse.

Commands look ``open_session`` up in this module when they run, so a test may put another in its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from orkbench_tui import locations
from orkbench_tui.cli import diagnostics
from orkbench_tui.cli.changed_model import told_of_changes
from orkbench_tui.cli.progress import ProgressDisplay
from orkbench_tui.errors import InvalidFileError, OrkError, UsageError
from orkbench_tui.settings import Settings
from orkbench_tui.user_files import open_regular

if TYPE_CHECKING:
    from pathlib import Path

    from orkbench_tui.driver.npu import Npu
    from orkbench_tui.runner.catalogue import CatalogueModel
    from orkbench_tui.runner.chat import Engine
    from orkbench_tui.runner.chat_template import ChatTemplate
    from orkbench_tui.runner.kv_cache import CacheType
    from orkbench_tui.runner.linear import NpuLike
    from orkbench_tui.runner.orkpack.reader import OrkPack
    from orkbench_tui.runner.overlap.choice import OverlapSetting
    from orkbench_tui.runner.tokenizer import Tokenizer

__all__ = ["ModelSession", "NpuUse", "open_session", "thread_warning"]


@dataclass(frozen=True, slots=True)
class NpuUse:
    """What ran on the NPU: jobs, tasks in them, and the time the driver reported, in ns."""

    submits: int
    tasks: int
    hw_ns: int

    @property
    def core_ns(self) -> int | None:
        """The time of all jobs; None where the driver is too old to report any."""
        return None if self.submits and not self.hw_ns else self.hw_ns

    def since(self, earlier: NpuUse) -> NpuUse:
        return NpuUse(self.submits - earlier.submits, self.tasks - earlier.tasks, self.hw_ns - earlier.hw_ns)


@dataclass(slots=True)
class ModelSession:
    """What a command needs. ``source`` is ``board``, ``sim``, or ``host`` where no NPU takes part.

    ``load_s`` is this machine's wall clock.
    """

    model: str
    source: str
    quant: str
    load_s: float
    engine: Engine
    tokenizer: Tokenizer
    template: ChatTemplate | None
    metadata: Mapping[str, Any]
    npu_use: Callable[[], NpuUse]
    model_sha256: Callable[[], str]
    model_path: Path | None = None
    pack_path: Path | None = None
    # What loading weights into the NPU came to, as JSON has it; None where there is no NPU.
    residence: Mapping[str, Any] | None = None


@contextmanager
def open_session(settings: Settings) -> Iterator[ModelSession]:
    """Open everything ``settings`` name. A catalogue model that is not here yet is pulled first.

    ``load_s`` counts from the model file being here, so with a pack made before it is the time users wait.

    Raises:
        OrkError: of the part that failed; what was open is closed.
    """
    name, path = _model_file(settings)
    _told_of_lost_files()
    if line := thread_warning(settings.threads):
        diagnostics.warn(line)
    started = time.perf_counter()
    opened = _pack_alone if _is_pack(path) else _f32 if settings.quant == "f32" else _int8
    with ExitStack() as stack:
        parts = opened(stack, path, settings)
        stack.enter_context(told_of_changes(parts.pack_path or path))
        from orkbench_tui.runner.tokenizer import Tokenizer

        tokenizer = Tokenizer.from_metadata(parts.metadata)
        yield ModelSession(
            model=name,
            source=parts.source,
            quant=parts.quant,
            load_s=time.perf_counter() - started,
            engine=parts.engine,
            tokenizer=tokenizer,
            template=_template(parts.metadata, tokenizer),
            metadata=parts.metadata,
            npu_use=parts.npu_use,
            model_sha256=parts.model_sha256,
            model_path=path,
            pack_path=parts.pack_path,
            residence=parts.residence,
        )


def thread_warning(threads: int) -> str:
    """The line of GRD-26 for more threads than this process has big cores; "" when there is nothing to warn of."""
    from orkbench_tui.driver import guards
    from orkbench_tui.runner.processors import fast_processors

    big = fast_processors()
    if threads <= big:
        return ""
    return guards.warning("GRD-26", seen=f"{threads} threads, {big} big cores for this process")


@dataclass(frozen=True, slots=True)
class _Parts:
    """What differs between the ways of running a model."""

    metadata: Mapping[str, Any]
    source: str
    quant: str
    engine: Engine
    npu_use: Callable[[], NpuUse]
    model_sha256: Callable[[], str]
    pack_path: Path | None = None
    residence: Mapping[str, Any] | None = None


def _is_pack(path: Path) -> bool:
    """Told by what the file begins with, so that a pack of any name is one."""
    from orkbench_tui.runner.orkpack.layout import MAGIC, PACK_EXTENSION

    try:
        with open_regular(path, "model file") as handle:
            return handle.read(len(MAGIC)) == MAGIC or path.suffix == PACK_EXTENSION
    except (OSError, OrkError):
        # Opening it as a model tells what is wrong with it.
        return False


def _pack_alone(stack: ExitStack, path: Path, settings: Settings) -> _Parts:
    """A pack named as the model: its scheme is in it, and no model file is needed."""
    from orkbench_tui.runner.orkpack.reader import OrkPack
    from orkbench_tui.runner.quantize.pack_cache import require_intact_file

    if settings.quant == "f32":
        raise UsageError(
            f"{path.name} holds no float32 weights", do="leave out --quant f32, or name the GGUF file"
        )
    pack = stack.enter_context(OrkPack.open(path))
    if settings.quant not in (pack.scheme, "auto"):
        diagnostics.note(f"{path.name} is packed as {pack.scheme}")
    require_intact_file(pack, locations.packs_dir())
    return _on_target(stack, pack, settings)


def _int8(stack: ExitStack, path: Path, settings: Settings) -> _Parts:
    """int8 weights from a pack, made on first use; prompts on the NPU."""
    from orkbench_tui.runner.orkpack.reader import OrkPack
    from orkbench_tui.runner.quantize.pack_cache import packed_model

    scheme = _automatic(path) if settings.quant == "auto" else settings.quant
    display = ProgressDisplay(patience_s=1.0)
    try:
        pack_path = packed_model(path, locations.packs_dir(), display, scheme)
    finally:
        display.close()
    return _on_target(stack, stack.enter_context(OrkPack.open(pack_path)), settings)


def _automatic(path: Path) -> str:
    """The scheme a model is packed as when nobody says."""
    from orkbench_tui.runner.expert_profile import automatic_scheme
    from orkbench_tui.runner.gguf_file import GgufFile
    from orkbench_tui.runner.models.read_architecture import architecture_of

    with GgufFile.open(path) as model:
        choice = automatic_scheme(architecture_of(model), lambda name: model.tensors[name].type)
    if choice.why:
        diagnostics.note(f"{path.name}: {choice.scheme}, {choice.why}")
    return choice.scheme


def _on_target(stack: ExitStack, pack: OrkPack, settings: Settings) -> _Parts:
    """The pack on the board, or on the simulated one."""
    from orkbench_tui.driver.occupancy import active_elsewhere
    from orkbench_tui.runner.dispatch.dispatcher import Dispatcher, parse_overrides
    from orkbench_tui.runner.dispatch.model import ModelDispatch
    from orkbench_tui.runner.dispatch.model_file import pack_sources
    from orkbench_tui.runner.engine import Engine
    from orkbench_tui.target import occupancy_dir, open_target

    context = _context_for(settings, pack.metadata)
    overrides = parse_overrides(settings.dispatch)
    target = stack.enter_context(open_target(settings))
    if target.notice:
        diagnostics.note(target.notice)
    npu = target.open_npu()
    for line in npu.notices:
        diagnostics.warn(line)
    dispatcher = Dispatcher(overrides, soc=npu.soc, busy=lambda: active_elsewhere(occupancy_dir()))
    # The engine takes any NPU that takes back its own weights, which a protocol cannot say.
    engine = Engine.from_pack(
        pack,
        cast("NpuLike", npu),
        context=context,
        cache_type=_cache_type(settings, "f16"),
        threads=settings.threads or None,
        overlap=cast("OverlapSetting", settings.overlap),
        dispatch=ModelDispatch(dispatcher, pack.architecture, pack_sources(pack)),
    )
    digest = str(pack.provenance.get("source_sha256", ""))
    residence = None if engine.residence is None else engine.residence.as_dict()
    return _Parts(
        pack.metadata,
        target.label,
        pack.scheme,
        engine,
        lambda: _use_of(npu),
        lambda: digest,
        pack.path,
        residence,
    )


def _f32(stack: ExitStack, path: Path, settings: Settings) -> _Parts:
    """float32 weights on the CPU: the reference. No NPU takes part, so none is opened."""
    from orkbench_tui.runner.engine import Engine
    from orkbench_tui.runner.gguf_file import GgufFile
    from orkbench_tui.runner.gguf_weights import GgufWeights

    file = stack.enter_context(GgufFile.open(path))
    context = _context_for(settings, file.metadata)
    engine = Engine.from_floats(
        GgufWeights(file),
        context=context,
        cache_type=_cache_type(settings, "f32"),
        threads=settings.threads or None,
    )
    return _Parts(file.metadata, "host", "f32", engine, lambda: NpuUse(0, 0, 0), lambda: _file_sha256(path))


def _cache_type(settings: Settings, automatic: CacheType) -> CacheType:
    return automatic if settings.kv_cache == "auto" else cast("CacheType", settings.kv_cache)


def _file_sha256(path: Path) -> str:
    from orkbench_tui.runner.quantize.source_digest import remembered_sha256

    return remembered_sha256(path, locations.packs_dir()).hex()


def _told_of_lost_files() -> None:
    """Models and packs are read in place, and reading one that is cut short meanwhile raises no exception."""
    from orkbench_tui.native.lost_file import end_on_lost_file

    error = InvalidFileError(
        "memory that was read is gone",
        why="a model or a pack was cut short meanwhile, or its disk cannot be read",
        do="replace such files by renaming others over them, and run the command again",
    )
    end_on_lost_file(f"error: {error.line()}", int(error.exit_code))


def _template(metadata: Mapping[str, Any], tokenizer: Tokenizer) -> ChatTemplate | None:
    from orkbench_tui.runner.chat_template import ChatTemplate, ChatTemplateError, UnusableTemplate

    source = metadata.get("tokenizer.chat_template")
    if not source:
        return None
    bos, eos = tokenizer.spelling(tokenizer.bos_id), tokenizer.spelling(tokenizer.eos_id)
    try:
        return ChatTemplate(str(source), bos=bos, eos=eos)
    except ChatTemplateError as error:
        # What continues plain text has no need of it.
        return UnusableTemplate(error)


def _model_file(settings: Settings) -> tuple[str, Path]:
    """Name to show and path of the model file, pulled if it is a catalogue model and not here."""
    from orkbench_tui.runner import model_store

    entry, path = model_store.locate(settings.model, locations.models_dir())
    if entry is None:
        return path.stem, path
    if not path.exists():
        from orkbench_tui.cli.model import pull_with_progress

        diagnostics.note(f"{entry.name} ({entry.licence}) is not here yet: pulling it once")
        pull_with_progress(entry)
    _check_digest(entry, path)
    return entry.name, path


def _check_digest(entry: CatalogueModel, path: Path) -> None:
    """The stored file is the pinned one; read once and remembered while it does not change.

    Raises:
        InvalidFileError: it was damaged since it was pulled.
    """
    from orkbench_tui.runner.quantize.source_digest import remembered_sha256

    found = remembered_sha256(path, locations.packs_dir()).hex()
    if found != entry.sha256:
        raise InvalidFileError(
            f"{path} is damaged",
            why=f"its sha256 is {found[:16]}…, expected {entry.sha256[:16]}…",
            do=f"run: ork model pull {entry.name}",
        )


def _context_for(settings: Settings, metadata: Mapping[str, Any]) -> int:
    """Tokens of context: as set, and where nothing was set no more than the model was made for."""
    trained = metadata.get(f"{metadata.get('general.architecture')}.context_length")
    if not isinstance(trained, int) or settings.context <= trained:
        return settings.context
    if settings.context == Settings().context:
        return trained
    raise UsageError(
        f"a context of {settings.context} tokens is more than the model was made for",
        why=f"it takes up to {trained} tokens",
    )


def _use_of(npu: Npu) -> NpuUse:
    counters = npu.counters
    return NpuUse(counters.submits, counters.tasks, counters.hw_ns)
