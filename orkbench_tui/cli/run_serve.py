"""``ork run serve``: the model behind an OpenAI-compatible HTTP endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from orkbench_tui.cli import diagnostics, model_session, output
from orkbench_tui.errors import ExitCode, InvalidFileError, RefusedError, UsageError
from orkbench_tui.settings import Settings
from orkbench_tui.user_files import read_text_bounded

if TYPE_CHECKING:
    from orkbench_tui.cli.model_session import ModelSession
    from orkbench_tui.runner.engine import Engine
    from orkbench_tui.runner.serve.service import Served

KEY_BYTES = 4096


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8080,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Take a --host that other machines can reach.")
    ] = False,
    api_key: Annotated[
        str | None, typer.Option(help="Requests must carry this key; others can see it in ps.")
    ] = None,
    api_key_file: Annotated[Path | None, typer.Option(help="The key from a file instead.")] = None,
    alias: Annotated[
        list[str] | None, typer.Option(help="Another name requests may call the model by; may be repeated.")
    ] = None,
    queue: Annotated[int, typer.Option(help="Requests that may wait; more are told to come back.")] = 128,
    slots: Annotated[int, typer.Option(help="Conversations whose keys and values are kept.")] = 4,
    drain: Annotated[float, typer.Option(help="Seconds to finish answers in when asked to end.")] = 60.0,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Catalogue name or GGUF file.")] = None,
    context: Annotated[int | None, typer.Option(help="Tokens of context of each conversation.")] = None,
    threads: Annotated[int | None, typer.Option(help="CPU threads; 0 takes the big cores.")] = None,
    quant: Annotated[
        str | None, typer.Option(help="auto, w8a8-rot, w8a8, w4a8-g32-rot, nf4-mixed or f32.")
    ] = None,
    kv_cache: Annotated[
        str | None, typer.Option("--kv-cache", help="Key-value cache: f16, int8 or f32.")
    ] = None,
    target: Annotated[str | None, typer.Option("--target", help="auto, board or sim.")] = None,
) -> None:
    """Answer OpenAI's API over HTTP: /v1/chat/completions, /v1/completions, /v1/models, /health, /metrics."""
    settings = Settings.load(
        model=model, context=context, threads=threads, quant=quant, kv_cache=kv_cache, target=target
    )
    for name, value, low, high in (
        ("port", port, 0, 65535),
        ("queue", queue, 1, 10_000),
        ("slots", slots, 1, 64),
        ("drain", drain, 0, 3600),
    ):
        if not low <= value <= high:
            raise UsageError(f"--{name} {value} is out of range", why=f"allowed: {low} to {high}")
    key = _key(api_key, api_key_file)
    from orkbench_tui.runner.serve import server
    from orkbench_tui.runner.serve.app import Access

    local = server.is_loopback(host)
    if not local:
        _check_remote(host, allow_remote, key)
    taken = server.listener(host, port)
    with taken, model_session.open_session(settings) as session:
        served = _served(session, tuple(alias or ()))
        finished = server.serve(
            served,
            taken,
            access=Access(key, frozenset({"localhost", host.lower()}) if local else None),
            capacity=server.Capacity(queue, slots, drain),
            ready=lambda: output.emit(f"{served.names[0]} at {server.address_of(taken)}/v1"),
            log=diagnostics.note,
        )
    if not finished:
        diagnostics.note("answers were dropped")
        raise typer.Exit(ExitCode.INTERRUPTED)


def _key(given: str | None, file: Path | None) -> str | None:
    if given is not None and file is not None:
        raise UsageError("--api-key and --api-key-file exclude each other")
    key = given if file is None else read_text_bounded(file, KEY_BYTES, "key file").strip()
    if key is None:
        return None
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        where = "the key" if file is None else f"the key in {file}"
        problem = f"{where} cannot be sent in a header"
        what = UsageError if file is None else InvalidFileError
        raise what(problem, why="allowed: printable ASCII without spaces", do="choose another one")
    return key


def _check_remote(host: str, allowed: bool, key: str | None) -> None:
    if not allowed:
        raise RefusedError(
            f"--host {host} can be reached by other machines",
            why="nothing is encrypted, and whoever reaches it uses the NPU",
            do="leave it out, or add --allow-remote",
        )
    guarded = "requests need the API key, which is sent in the clear" if key else "no API key is asked for"
    diagnostics.warn(f"other machines can reach {host}; nothing is encrypted, {guarded}")


def _served(session: ModelSession, aliases: tuple[str, ...]) -> Served:
    from orkbench_tui.runner.serve.metrics import NpuTotals
    from orkbench_tui.runner.serve.service import Served

    if session.template is None:
        diagnostics.note(f"{session.model} has no chat template: /v1/completions works, chats are refused")

    def totals() -> NpuTotals:
        use = session.npu_use()
        return NpuTotals(use.submits, None if use.core_ns is None else use.core_ns / 1e9)

    return Served(
        names=(session.model, *aliases),
        target=session.source,
        quant=session.quant,
        engine=session.engine,
        another=cast("Engine", session.engine).another,
        tokenizer=session.tokenizer,
        template=session.template,
        metadata=session.metadata,
        npu=totals,
    )
