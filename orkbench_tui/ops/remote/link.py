"""One other board: a stream of samples over ssh that is begun again whenever it ends."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from orkbench_tui.ops.telemetry.sample import Sample
from orkbench_tui.ops.telemetry.sample_stream import LogFollower, parse_line
from orkbench_tui.plain_text import one_line

__all__ = ["Condition", "Link", "LinkState", "pause_after"]

_LONGEST_LINE = 32 << 20
_FIRST_LINE_S = 30.0
_NOISE_LINES = 200
_ERROR_BYTES = 8192
_LONGEST_PAUSE_S = 60.0

_EXITS = {
    126: "ork may not be run there",
    127: "ork is not found there (set remote_ork to its path)",
}


class Condition(Enum):
    CONNECTING = "connecting"
    LIVE = "live"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class LinkState:
    """``sample`` is the last there was, also of a board that no longer answers; ``reason`` says why it does not.

    ``records`` are the kernel log's that came with it, raw.
    """

    host: str
    condition: Condition = Condition.CONNECTING
    sample: Sample | None = None
    reason: str = ""
    seen_unix_s: float | None = None
    tries: int = 0
    records: tuple[bytes, ...] = ()


def pause_after(failures: int) -> float:
    """Seconds to wait after so many failures in a row: 1, 2, 4, … up to a minute."""
    return min(_LONGEST_PAUSE_S, 2.0 ** min(max(0, failures - 1), 10))


class _NoStreamError(Exception):
    """The other side gave none, or it ended; the text says why."""


class Link:
    """Follows one host until it is cancelled. ``changed`` is called with every new state."""

    def __init__(
        self,
        host: str,
        command: Sequence[str],
        changed: Callable[[LinkState], None],
        *,
        silence_s: float = 15.0,
        pause: Callable[[int], float] = pause_after,
    ) -> None:
        """``silence_s``: how long a stream that has begun may say nothing."""
        self._host, self._command, self._changed = host, tuple(command), changed
        self._silence_s, self._pause = silence_s, pause
        self._state = LinkState(host)

    def _set(
        self,
        condition: Condition,
        reason: str = "",
        sample: Sample | None = None,
        records: tuple[bytes, ...] = (),
    ) -> None:
        old = self._state
        self._state = LinkState(
            self._host,
            condition,
            sample or old.sample,
            reason,
            time.time() if sample is not None else old.seen_unix_s,
            old.tries,
            records,
        )
        self._changed(self._state)

    async def run(self) -> None:
        failures = 0
        while True:
            self._state = dataclasses.replace(self._state, tries=self._state.tries + 1)
            seen_before = self._state.seen_unix_s
            try:
                await self._stream()
            except _NoStreamError as error:
                reason = str(error)
            except OSError as error:
                reason = f"{self._command[0]}: {error.strerror or error}"
            failures = 1 if self._state.seen_unix_s != seen_before else failures + 1
            self._set(Condition.UNREACHABLE, reason)
            await asyncio.sleep(self._pause(failures))

    async def _stream(self) -> None:
        program = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
            start_new_session=True,
        )
        assert program.stdout is not None and program.stderr is not None
        said = asyncio.create_task(_last_words(program.stderr))
        try:
            await self._follow(program.stdout)
            # The stream ended; why, is in its exit code and its last words.
            code = await asyncio.wait_for(program.wait(), 5.0)
            words = await asyncio.wait_for(said, 5.0)
            raise _NoStreamError(_EXITS.get(code) or words or f"the stream ended (exit code {code})")
        except TimeoutError:
            raise _NoStreamError("the other side went silent") from None
        finally:
            if program.returncode is None:
                # Its own session: what ssh started for a proxy goes too.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(program.pid, signal.SIGKILL)
                await program.wait()
            said.cancel()
            # Read to the end, so that the pipes are closed while there is a loop to close them.
            with contextlib.suppress(TimeoutError, ValueError, OSError):
                await asyncio.wait_for(program.stdout.read(), 1.0)

    async def _follow(self, stream: asyncio.StreamReader) -> None:
        follower, noise, wait_s = LogFollower(), 0, _FIRST_LINE_S
        while True:
            try:
                line = await asyncio.wait_for(stream.readline(), wait_s)
            except ValueError:
                raise _NoStreamError("a line without an end came from there") from None
            if not line.endswith(b"\n"):
                return
            try:
                value = parse_line(line)
                sample = follower.sample(value)
            except ValueError as error:
                # A login script may greet first; a stream that is nothing else is none.
                noise += 1
                if noise > _NOISE_LINES:
                    raise _NoStreamError(f"no samples come from there: {one_line(str(error), 120)}") from None
                continue
            noise, wait_s = 0, self._silence_s
            records = tuple(text.encode("utf-8", "replace") for text in value["data"].get("records") or ())
            self._set(Condition.LIVE, sample=_marked(sample, self._host), records=records)


def _marked(sample: Sample, host: str) -> Sample:
    detail = f"{sample.source_detail} at {host}" if sample.source_detail else f"at {host}"
    return dataclasses.replace(sample, source_detail=detail)


async def _last_words(stream: asyncio.StreamReader) -> str:
    kept = b""
    while piece := await stream.read(4096):
        kept = (kept + piece)[-_ERROR_BYTES:]
    lines = [line for line in kept.decode("utf-8", "replace").splitlines() if line.strip()]
    return one_line(lines[-1].removeprefix("error: "), 200) if lines else ""
