"""What is served, and requests turned into jobs of the queue. Knows nothing of HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orkbench_tui.errors import NoDeviceError
from orkbench_tui.runner.chat import Answer, Engine, GenerationLimits, turn_text
from orkbench_tui.runner.chat_template import ChatTemplate, ChatTemplateError
from orkbench_tui.runner.sampler import Sampler, Sampling
from orkbench_tui.runner.serve.answer_queue import AnswerQueue, Job, QueueClosedError, QueueFullError
from orkbench_tui.runner.serve.api_errors import SERVER, ApiError, invalid
from orkbench_tui.runner.serve.documents import Reply
from orkbench_tui.runner.serve.metrics import Metrics, NpuTotals
from orkbench_tui.runner.serve.request_fields import ChatRequest, Choice, TextRequest
from orkbench_tui.runner.serve.slots import Slots
from orkbench_tui.runner.tokenizer import Tokenizer
from orkbench_tui.version import VERSION

__all__ = ["Served", "Service"]

# A guess of how long one answer takes, before there was one.
FIRST_GUESS_S = 10.0


@dataclass(frozen=True, slots=True)
class Served:
    """A loaded model. ``names`` are what requests may call it, the first is what answers say.

    ``target`` is ``board``, ``sim`` or ``host``; ``another`` makes a second session over the same weights.
    """

    names: tuple[str, ...]
    target: str
    quant: str
    engine: Engine
    another: Callable[[], Engine]
    tokenizer: Tokenizer
    template: ChatTemplate | None
    metadata: Mapping[str, Any]
    npu: Callable[[], NpuTotals]
    loaded_at: int = field(default_factory=lambda: int(time.time()))


class Service:
    """One served model with its queue and its counters. ``on_lost`` is called once when the NPU is gone."""

    def __init__(
        self,
        served: Served,
        *,
        queue: int,
        slots: int,
        on_lost: Callable[[NoDeviceError], None] = lambda error: None,
    ) -> None:
        self.served = served
        self.queue = AnswerQueue(
            Slots(served.engine, served.another, slots), served.tokenizer, queue, on_lost
        )
        self.metrics = Metrics(
            model=served.names[0],
            quant=served.quant,
            target=served.target,
            queueing=lambda: self.queue.queueing,
            npu=served.npu,
        )
        self._answer_s = FIRST_GUESS_S

    def check_model(self, name: str | None) -> None:
        """Raise ApiError unless ``name`` is the served model's, or nobody's."""
        if name is not None and name not in self.served.names:
            raise invalid(
                f"the model {name!r} does not exist; this server has {self.served.names[0]!r}",
                "model",
                "model_not_found",
                404,
            )

    def chat_ids(self, request: ChatRequest) -> list[int]:
        """The prompt of a chat. Not for two threads at once: a template renders one conversation at a time."""
        served = self.served
        if served.template is None:
            raise invalid(
                f"{served.names[0]} has no chat template; /v1/completions continues plain text", "messages"
            )
        try:
            text = turn_text(served.tokenizer, served.template, request.messages)
        except ChatTemplateError as error:
            # The next step told at a terminal is none for who asks over HTTP.
            raise invalid(f"{error.what}: {error.why}", "messages", "invalid_conversation") from None
        return self._encoded(text, "messages", parse_special=True)

    def text_ids(self, request: TextRequest) -> list[int]:
        """The prompt of a completion."""
        if isinstance(request.prompt, str):
            return self._encoded(request.prompt, "prompt", parse_special=False)
        ids = list(request.prompt)
        size = self.served.engine.vocab_size
        if any(not 0 <= token < size for token in ids):
            raise invalid(f"'prompt' holds token ids outside 0 to {size - 1}", "prompt")
        return self._fitting(ids, "prompt")

    def _encoded(self, text: str, param: str, *, parse_special: bool) -> list[int]:
        # Cutting megabytes into tokens takes seconds, and that they are too many can be told at once.
        least = self.served.tokenizer.least_tokens(text)
        if least >= self.served.engine.context:
            raise self._too_long(f"at least {least}", param)
        return self._fitting(self.served.tokenizer.encode(text, parse_special=parse_special), param)

    def _fitting(self, ids: list[int], param: str) -> list[int]:
        if not ids:
            raise invalid(f"{param!r} is empty", param)
        if len(ids) >= self.served.engine.context:
            raise self._too_long(str(len(ids)), param)
        return ids

    def _too_long(self, tokens: str, param: str) -> ApiError:
        return invalid(
            f"this server's context length is {self.served.engine.context} tokens; '{param}' has {tokens}, "
            "and at least one is needed for the answer",
            param,
            "context_length_exceeded",
        )

    def sampler(self, choice: Choice) -> Sampler:
        """What the request says, over what the model recommends."""
        return Sampler(Sampling.of(self.served.metadata, **choice.sampling))

    def reply(self, request: ChatRequest | TextRequest) -> Reply:
        kind = "chat" if isinstance(request, ChatRequest) else "text"
        fingerprint = f"ork-{VERSION}-{self.served.quant}"
        return Reply(kind, self.served.names[0], fingerprint, request.include_usage)  # type: ignore[arg-type]

    def submit(
        self,
        ids: Sequence[int],
        choice: Choice,
        *,
        on_text: Callable[[str], None],
        on_done: Callable[[Answer], None],
        on_failed: Callable[[BaseException], None],
    ) -> Job:
        """Queue a prompt; the listeners are called as ``Job`` says.

        Raises:
            ApiError: 503 with Retry-After, where the queue is full or closed.
        """

        def done(answer: Answer) -> None:
            self._finished(job, answer)
            on_done(answer)

        def failed(error: BaseException) -> None:
            self.metrics.failed()
            on_failed(_ending() if isinstance(error, QueueClosedError) else error)

        limits = GenerationLimits(choice.max_tokens, choice.stops)
        job = Job(list(ids), self.sampler(choice), limits, on_text, done, failed)
        try:
            self.queue.submit(job)
        except QueueFullError:
            state = self.queue.queueing
            raise ApiError(
                503,
                f"{state.waiting} requests wait already, as many as may",
                kind=SERVER,
                code="queue_full",
                retry_after_s=self._wait_s(),
            ) from None
        except QueueClosedError:
            raise _ending() from None
        return job

    def _wait_s(self) -> int:
        """When a place in the queue may be free: about one answer from now."""
        return max(1, min(round(self._answer_s), 600))

    def _finished(self, job: Job, answer: Answer) -> None:
        now = time.monotonic()
        self.metrics.started(job)
        self.metrics.answered(job, answer, now)
        if job.started_at is not None:
            self._answer_s = 0.7 * self._answer_s + 0.3 * (now - job.started_at)


def _ending() -> ApiError:
    return ApiError(503, "the server is ending", kind=SERVER, code="shutting_down", retry_after_s=5)
