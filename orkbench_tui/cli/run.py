"""``ork run``: answers from a model whose matmuls run on the NPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orkbench_tui import locations
from orkbench_tui.cli import bench, diagnostics, model_session, run_explain, run_serve
from orkbench_tui.cli.input import PROMPT_BYTES, standard_input, stdin_is_terminal
from orkbench_tui.cli.run_input import (
    check_exclusive,
    check_kept,
    check_not_interactive,
    checked_text,
    given_text,
    limits_of,
    sampling_flags,
    text_of,
    utf8,
)
from orkbench_tui.cli.run_options import (
    DEFAULT_MAX_TOKENS,
    Context,
    ContextLimit,
    Json,
    KvCache,
    MaxTokens,
    MinP,
    Model,
    PromptCache,
    Quant,
    RepeatPenalty,
    Seed,
    Stop,
    TargetOption,
    Temperature,
    TextFile,
    Threads,
    TopK,
    TopP,
)
from orkbench_tui.errors import UsageError
from orkbench_tui.settings import Settings
from orkbench_tui.user_files import read_text_bounded

if TYPE_CHECKING:
    from collections.abc import Callable

    from orkbench_tui.cli.chat_session import ChatSession
    from orkbench_tui.cli.model_session import ModelSession
    from orkbench_tui.runner.chat import Conversation, GenerationLimits

app = typer.Typer(
    help="Run a model: chat, complete, serve, explain, bench, ppl.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

app.command("serve")(run_serve.serve)
app.add_typer(bench.app, name="bench")
app.command("explain")(run_explain.explain)

SCREEN_WINDOWS = 2


@app.command()
def chat(
    once: Annotated[str | None, typer.Option(help="Answer this one question and leave.")] = None,
    file: TextFile = None,
    system: Annotated[str | None, typer.Option(help="System text the conversation begins with.")] = None,
    session: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Go on with the conversation in FILE, and keep it there."),
    ] = None,
    model: Model = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    repeat_penalty: RepeatPenalty = None,
    seed: Seed = None,
    max_tokens: MaxTokens = DEFAULT_MAX_TOKENS,
    stop: Stop = None,
    context: Context = None,
    context_limit: ContextLimit = None,
    threads: Threads = None,
    quant: Quant = None,
    kv_cache: KvCache = None,
    prompt_cache: PromptCache = None,
    target: TargetOption = None,
    json: Json = False,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Questions as lines of JSON in, events as lines of JSON out.")
    ] = False,
) -> None:
    """Talk with a model. With --once or --file, or with text on standard input, one question is answered."""
    settings = Settings.load(
        model=model,
        context=context,
        context_limit=context_limit,
        threads=threads,
        quant=quant,
        kv_cache=kv_cache,
        target=target,
    )
    sampling = sampling_flags(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repeat_penalty=repeat_penalty,
        seed=seed,
    )
    limits = limits_of(max_tokens, stop)
    check_exclusive(("--once", once), ("--file", file))
    check_exclusive(("--json", json or None), ("--json-lines", json_lines or None))
    check_exclusive(("--session", session), ("--prompt-cache", prompt_cache))
    check_kept(prompt_cache, session)
    if once is None and file is not None:
        once = read_text_bounded(file, PROMPT_BYTES, "text file")

    def start(opened: ModelSession) -> Conversation:
        shift = settings.context_limit == "shift"
        return _conversation(opened, sampling, limits, system, shift=shift)

    from orkbench_tui.cli.chat_session import ChatSession

    kept = ChatSession(session)
    if json_lines:
        check_exclusive(("--json-lines", True), ("--prompt-cache", prompt_cache))
        _lines(settings, start, kept, None if once is None else checked_text(once))
        return
    if once is None and stdin_is_terminal():
        check_not_interactive(json, prompt_cache)
        from orkbench_tui.cli.chat_loop import ChatLoop
        from orkbench_tui.cli.prompt import Prompt

        history = locations.chat_history_file() if settings.chat_history == "on" else None
        ChatLoop(lambda: model_session.open_session(settings), start, Prompt(history), kept).run()
        return
    question = checked_text(once if once is not None else standard_input().removesuffix("\n"))
    with model_session.open_session(settings) as opened:
        from orkbench_tui.cli.one_answer import answer_once
        from orkbench_tui.cli.prompt_file import conversation_kept

        conversation = start(opened)
        kept.begin(opened, conversation)
        with conversation_kept(opened, prompt_cache, conversation):
            answer_once(
                opened, "run.chat", json, lambda on_text, halt: conversation.ask(question, on_text, halt)
            )
        kept.end(opened, conversation)


@app.command()
def complete(
    text: Annotated[str | None, typer.Argument(help="Text to continue; - reads standard input.")] = None,
    file: TextFile = None,
    model: Model = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    repeat_penalty: RepeatPenalty = None,
    seed: Seed = None,
    max_tokens: MaxTokens = DEFAULT_MAX_TOKENS,
    stop: Stop = None,
    context: Context = None,
    context_limit: ContextLimit = None,
    threads: Threads = None,
    quant: Quant = None,
    kv_cache: KvCache = None,
    prompt_cache: PromptCache = None,
    target: TargetOption = None,
    json: Json = False,
) -> None:
    """Continue a text as it stands, without a chat template."""
    settings = Settings.load(
        model=model,
        context=context,
        context_limit=context_limit,
        threads=threads,
        quant=quant,
        kv_cache=kv_cache,
        target=target,
    )
    sampling = sampling_flags(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repeat_penalty=repeat_penalty,
        seed=seed,
    )
    limits = limits_of(max_tokens, stop)
    check_kept(prompt_cache)
    prompt = checked_text(given_text(text, file))
    with model_session.open_session(settings) as session:
        from orkbench_tui.cli.one_answer import answer_once
        from orkbench_tui.cli.prompt_file import PromptFile
        from orkbench_tui.runner.chat import check_prompt, generate
        from orkbench_tui.runner.sampler import Sampler, Sampling

        sampler = Sampler(Sampling.of(session.metadata, **sampling))
        ids = session.tokenizer.encode(prompt)
        check_prompt(len(ids), session.engine.context)
        kept = PromptFile(session, prompt_cache)
        kept.load_for(ids)
        answer = answer_once(
            session,
            "run.complete",
            json,
            lambda on_text, halt: generate(
                session.engine,
                session.tokenizer,
                ids,
                sampler,
                limits=limits,
                on_text=on_text,
                should_stop=halt,
                keep=_kept_of_prompt(session, ids) if settings.context_limit == "shift" else None,
            ),
        )
        kept.save(answer.held)


@app.command()
def ppl(
    file: Annotated[Path | None, typer.Argument(help="UTF-8 text; the standard text when left out.")] = None,
    text_file: Annotated[Path | None, typer.Option("--file", help="The same as the argument.")] = None,
    window: Annotated[int, typer.Option(help="Tokens per window.")] = 512,
    screen: Annotated[bool, typer.Option("--screen", help="Two windows: a quick look.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The whole text, which is the default.")] = False,
    arms: Annotated[
        str | None,
        typer.Option(
            help="Compare on the same tokens: packs, model files, quants or fake:NAME, a number format computed "
            "in float32; the first is the base."
        ),
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(help="From ork pack calibrate, for fake: arms that need one.")
    ] = None,
    model: Model = None,
    threads: Threads = None,
    quant: Annotated[
        str | None, typer.Option(help="w8a8-rot, w8a8, w4a8-g32-rot, nf4-mixed, f32 or fake:NAME.")
    ] = None,
    kv_cache: KvCache = None,
    target: TargetOption = None,
    json: Json = False,
) -> None:
    """Perplexity of a model on a text, half window (as llama-perplexity) and full window."""
    from orkbench_tui.cli import perplexity

    if not 4 <= window <= 1 << 16:
        raise UsageError(f"--window {window} is out of range", why="allowed: 4 to 65536")
    if screen and full:
        raise UsageError("--screen and --full exclude each other")
    settings = Settings.load(
        model=model,
        threads=threads,
        quant=None if quant is not None and quant.startswith("fake:") else quant,
        kv_cache=kv_cache,
        target=target,
        context=max(window, 16),
    )
    if file is not None and text_file is not None:
        raise UsageError("the text is named twice")
    name, text = text_of(file or text_file)
    windows = SCREEN_WINDOWS if screen else None
    if arms is None:
        perplexity.one(settings, quant or settings.quant, name, text, window, windows, json, calibration)
    else:
        perplexity.several(settings, arms.split(","), name, text, window, windows, json, calibration)


def _conversation(
    session: ModelSession,
    sampling: dict[str, Any],
    limits: GenerationLimits,
    system: str | None,
    *,
    shift: bool,
) -> Conversation:
    from orkbench_tui.runner.chat import Conversation
    from orkbench_tui.runner.sampler import Sampler, Sampling

    if session.template is None:
        diagnostics.note(f"{session.model} has no chat template: each question is continued as plain text")
    return Conversation(
        session.engine,
        session.tokenizer,
        session.template,
        Sampler(Sampling.of(session.metadata, **sampling)),
        system=utf8(system, "--system") if system else None,
        limits=limits,
        shift=shift,
    )


def _lines(
    settings: Settings,
    start: Callable[[ModelSession], Conversation],
    kept: ChatSession,
    question: str | None,
) -> None:
    """The chat for programs: ``question`` alone, or the lines of standard input."""
    from orkbench_tui.cli.chat_lines import as_line, converse, lines_of_input

    with model_session.open_session(settings) as opened:
        conversation = start(opened)
        kept.begin(opened, conversation)
        lines = lines_of_input() if question is None else iter((as_line(question),))
        try:
            worst = converse(opened, conversation, lines)
        finally:
            kept.end(opened, conversation)
    if worst:
        raise typer.Exit(worst)


def _kept_of_prompt(session: ModelSession, ids: list[int]) -> int:
    """How many of the first tokens stay when an answer outgrows the context: the one that begins a text."""
    return 1 if ids[:1] == [session.tokenizer.bos_id] else 0
