"""``ork run``: answers from a model whose matmuls run on the NPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orkbench_tui import locations
from orkbench_tui.cli import diagnostics, model_session, output, run_serve
from orkbench_tui.cli.answer_report import answer_data, end_note, stats_line
from orkbench_tui.cli.input import TEXT_BYTES, standard_input, stdin_is_terminal
from orkbench_tui.errors import UsageError
from orkbench_tui.settings import Settings
from orkbench_tui.user_files import read_text_bounded

if TYPE_CHECKING:
    from orkbench_tui.cli.model_session import ModelSession
    from orkbench_tui.runner.chat import Answer, Conversation, GenerationLimits

app = typer.Typer(
    help="Run a model: chat, complete, serve, ppl.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

app.command("serve")(run_serve.serve)

DEFAULT_MAX_TOKENS = 512
SCREEN_WINDOWS = 2

Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]
Model = Annotated[str | None, typer.Option("--model", "-m", help="Catalogue name or GGUF file.")]
Temperature = Annotated[float | None, typer.Option(help="0 is greedy; higher is more varied.")]
TopK = Annotated[int | None, typer.Option(help="Only the K most likely tokens; 0 is off.")]
TopP = Annotated[
    float | None, typer.Option(help="Only the likeliest tokens up to this probability; 1 is off.")
]
MinP = Annotated[float | None, typer.Option(help="Only tokens this likely relative to the best; 0 is off.")]
RepeatPenalty = Annotated[float | None, typer.Option(help="Against repetition; 1 is off.")]
Seed = Annotated[int | None, typer.Option(help="Same seed, same answer.")]
MaxTokens = Annotated[int, typer.Option(help="Longest answer, in tokens.")]
Stop = Annotated[list[str] | None, typer.Option(help="End the answer at this text; may be repeated.")]
Context = Annotated[int | None, typer.Option(help="Tokens of context kept.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads; 0 takes the big cores.")]
Quant = Annotated[str | None, typer.Option(help="w8a8-rot, w8a8 or f32.")]
KvCache = Annotated[str | None, typer.Option("--kv-cache", help="Key-value cache: f16, int8 or f32.")]
PromptCache = Annotated[
    Path | None,
    typer.Option(
        "--prompt-cache",
        metavar="FILE",
        help="Take what the model has read before from FILE as far as it fits, and keep it there.",
    ),
]
TargetOption = Annotated[str | None, typer.Option("--target", help="auto, board or sim.")]


@app.command()
def chat(
    once: Annotated[str | None, typer.Option(help="Answer this one question and leave.")] = None,
    system: Annotated[str | None, typer.Option(help="System text the conversation begins with.")] = None,
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
    threads: Threads = None,
    quant: Quant = None,
    kv_cache: KvCache = None,
    prompt_cache: PromptCache = None,
    target: TargetOption = None,
    json: Json = False,
) -> None:
    """Talk with a model. With --once, or with text on standard input, one question is answered."""
    settings = Settings.load(
        model=model, context=context, threads=threads, quant=quant, kv_cache=kv_cache, target=target
    )
    sampling = _sampling_flags(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repeat_penalty=repeat_penalty,
        seed=seed,
    )
    limits = _limits(max_tokens, stop)

    def start(session: ModelSession) -> Conversation:
        return _conversation(session, sampling, limits, system)

    interactive = once is None and stdin_is_terminal()
    if interactive and prompt_cache is not None:
        raise UsageError(
            "--prompt-cache needs one question",
            why="a chat keeps what was read as long as it lasts",
            do="give it with --once TEXT or on standard input",
        )
    if interactive and json:
        raise UsageError("--json needs one question", do="give it with --once TEXT or on standard input")
    if interactive:
        from orkbench_tui.cli.chat_loop import ChatLoop
        from orkbench_tui.cli.prompt import Prompt

        history = locations.chat_history_file() if settings.chat_history == "on" else None
        ChatLoop(lambda: model_session.open_session(settings), start, Prompt(history)).run()
        return
    question = _question(once if once is not None else standard_input().removesuffix("\n"))
    with model_session.open_session(settings) as session:
        from orkbench_tui.cli.prompt_file import conversation_kept

        conversation = start(session)
        with conversation_kept(session, prompt_cache, conversation):
            _answer_once(
                session, "run.chat", json, lambda on_text, halt: conversation.ask(question, on_text, halt)
            )


@app.command()
def complete(
    text: Annotated[str, typer.Argument(help="Text to continue; - reads standard input.")],
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
    threads: Threads = None,
    quant: Quant = None,
    kv_cache: KvCache = None,
    prompt_cache: PromptCache = None,
    target: TargetOption = None,
    json: Json = False,
) -> None:
    """Continue a text as it stands, without a chat template."""
    settings = Settings.load(
        model=model, context=context, threads=threads, quant=quant, kv_cache=kv_cache, target=target
    )
    sampling = _sampling_flags(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repeat_penalty=repeat_penalty,
        seed=seed,
    )
    limits = _limits(max_tokens, stop)
    prompt = _question(standard_input().removesuffix("\n") if text == "-" else text)
    with model_session.open_session(settings) as session:
        from orkbench_tui.cli.prompt_file import PromptFile
        from orkbench_tui.runner.chat import check_prompt, generate
        from orkbench_tui.runner.sampler import Sampler, Sampling

        sampler = Sampler(Sampling.of(session.metadata, **sampling))
        ids = session.tokenizer.encode(prompt)
        check_prompt(len(ids), session.engine.context)
        kept = PromptFile(session, prompt_cache)
        kept.load_for(ids)
        answer = _answer_once(
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
            ),
        )
        kept.save([*ids, *answer.tokens])


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
            help="Compare on the same tokens: packs, model files or f32, w8a8-rot, w8a8; the first is the base."
        ),
    ] = None,
    model: Model = None,
    threads: Threads = None,
    quant: Quant = None,
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
        quant=quant,
        kv_cache=kv_cache,
        target=target,
        context=max(window, 16),
    )
    if file is not None and text_file is not None:
        raise UsageError("the text is named twice")
    name, text = _text_of(file or text_file)
    windows = SCREEN_WINDOWS if screen else None
    if arms is None:
        perplexity.one(settings, name, text, window, windows, json)
    else:
        perplexity.several(settings, arms.split(","), name, text, window, windows, json)


def _sampling_flags(**flags: float | int | None) -> dict[str, Any]:
    """The flags that were given, checked before anything is loaded."""
    from orkbench_tui.runner.sampler import Sampling

    given = {name: value for name, value in flags.items() if value is not None}
    Sampling(**given)  # type: ignore[arg-type]
    return given


def _limits(max_tokens: int, stops: list[str] | None) -> GenerationLimits:
    from orkbench_tui.runner.chat import GenerationLimits

    return GenerationLimits(max_tokens, tuple(stops or ()))


def _conversation(
    session: ModelSession, sampling: dict[str, Any], limits: GenerationLimits, system: str | None
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
        system=_utf8(system, "--system") if system else None,
        limits=limits,
    )


def _answer_once(
    session: ModelSession,
    schema: str,
    json: bool,
    ask: Callable[[Callable[[str], None], Callable[[], bool]], Answer],
) -> Answer:
    """One answer to standard output: streamed text, or the JSON document; figures go to standard error."""
    from orkbench_tui.cli.quiet_terminal import QuietTerminal
    from orkbench_tui.cli.stop_switch import StopSwitch
    from orkbench_tui.cli.word_wrap import WordWrap

    streamed = False
    wrap = WordWrap()

    def show(piece: str) -> None:
        nonlocal streamed
        if not json:
            streamed = True
            output.emit(wrap.push(piece), end="")

    before = session.npu_use()
    try:
        with QuietTerminal(), StopSwitch() as halt:
            answer = ask(show, halt)
    finally:
        if streamed:
            output.emit(wrap.finish())
    use = session.npu_use().since(before)
    if answer.stop_reason == "interrupted":
        raise KeyboardInterrupt
    if json:
        output.emit_json(schema, answer_data(answer, use, session), source=session.source)
        return answer
    if note := end_note(answer):
        diagnostics.note(note)
    diagnostics.note(stats_line(answer, use, session.source))
    return answer


def _question(text: str) -> str:
    if not text.strip():
        raise UsageError("there is no text to answer", do="give some words")
    return _utf8(text, "the text")


def _utf8(text: str, what: str) -> str:
    """``text`` of an argument, which Python hands over with surrogates where it was no UTF-8.

    Raises:
        UsageError: there are such bytes; the first is named.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        place = len(text[: error.start].encode("utf-8"))
        raise UsageError(f"{what} is not UTF-8 text", why=f"byte {place}", do="give UTF-8 text") from None
    return text


def _text_of(file: Path | None) -> tuple[str, str]:
    """Name and content of the text to measure on."""
    if file is None:
        from orkbench_tui.runner.texts import PERPLEXITY_TEXT, perplexity_text

        return PERPLEXITY_TEXT, perplexity_text()
    return file.name, read_text_bounded(file, TEXT_BYTES, "text file")
