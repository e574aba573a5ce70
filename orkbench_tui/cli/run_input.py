"""What a user gave to an ``ork run`` command, checked before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from orkbench_tui.cli.input import PROMPT_BYTES, TEXT_BYTES, standard_input
from orkbench_tui.errors import UsageError
from orkbench_tui.user_files import check_place, read_text_bounded

if TYPE_CHECKING:
    from orkbench_tui.runner.chat import GenerationLimits

__all__ = [
    "check_exclusive",
    "check_kept",
    "check_not_interactive",
    "checked_text",
    "given_text",
    "limits_of",
    "sampling_flags",
    "text_of",
    "utf8",
]


def sampling_flags(**flags: float | int | None) -> dict[str, Any]:
    """The flags that were given, checked before anything is loaded."""
    from orkbench_tui.runner.sampler import Sampling

    given = {name: value for name, value in flags.items() if value is not None}
    Sampling(**given)  # type: ignore[arg-type]
    return given


def limits_of(max_tokens: int, stops: list[str] | None) -> GenerationLimits:
    from orkbench_tui.runner.chat import GenerationLimits

    return GenerationLimits(max_tokens, tuple(stops or ()))


def check_exclusive(*options: tuple[str, object]) -> None:
    """Raise UsageError where more than one of the options was given."""
    given = [name for name, value in options if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other")


def check_kept(prompt_cache: Path | None, session: Path | None = None) -> None:
    """Raise where what is to be kept could not be written when the answer is there."""
    for path, noun in ((prompt_cache, "prompt cache"), (session, "conversation")):
        if path is not None:
            check_place(path, noun)


def check_not_interactive(json: bool, prompt_cache: Path | None) -> None:
    """Raise UsageError where a chat at a terminal was given what belongs to one question."""
    if prompt_cache is not None:
        raise UsageError(
            "--prompt-cache needs one question",
            why="a chat keeps what was read as long as it lasts",
            do="give it with --once TEXT or on standard input; --session keeps a whole chat",
        )
    if json:
        raise UsageError("--json needs one question", do="give it with --once TEXT or on standard input")


def given_text(text: str | None, file: Path | None) -> str:
    """The text to continue, from where it was named."""
    check_exclusive(("the text", text), ("--file", file))
    if file is not None:
        return read_text_bounded(file, PROMPT_BYTES, "text file")
    if text is None:
        raise UsageError("there is no text to continue", do="give it as an argument, or with --file")
    return standard_input().removesuffix("\n") if text == "-" else text


def checked_text(text: str) -> str:
    if not text.strip():
        raise UsageError("there is no text to answer", do="give some words")
    return utf8(text, "the text")


def utf8(text: str, what: str) -> str:
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


def text_of(file: Path | None) -> tuple[str, str]:
    """Name and content of the text to measure on."""
    if file is None:
        from orkbench_tui.runner.texts import PERPLEXITY_TEXT, perplexity_text

        return PERPLEXITY_TEXT, perplexity_text()
    return file.name, read_text_bounded(file, TEXT_BYTES, "text file")
