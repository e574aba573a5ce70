"""What the server counts, in Prometheus' text format: names end in their base unit, counters in ``_total``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from orkbench_tui.driver.timing.labels import JOB_TIME
from orkbench_tui.runner.chat import Answer
from orkbench_tui.runner.serve.answer_queue import Job, Queueing
from orkbench_tui.version import VERSION

__all__ = ["CONTENT_TYPE", "Metrics", "NpuTotals"]

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

# One more sample for every series, which no query here needs.
disable_created_metrics()

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


@dataclass(frozen=True, slots=True)
class NpuTotals:
    """Jobs on the NPU since the model was loaded, and their core seconds; None where the driver reports none."""

    submits: int
    core_s: float | None


class Metrics:
    """One server's counters. ``queueing`` and ``npu`` are asked when somebody reads."""

    def __init__(
        self,
        *,
        model: str,
        quant: str,
        target: str,
        queueing: Callable[[], Queueing],
        npu: Callable[[], NpuTotals],
    ) -> None:
        self._registry = registry = CollectorRegistry()
        self._npu = npu
        info = Gauge(
            "ork_serve_info",
            "1, with what is served as labels.",
            ["model", "quant", "target", "version"],
            registry=registry,
        )
        info.labels(model, quant, target, VERSION).set(1)

        def gauge(name: str, text: str, value: Callable[[], float]) -> None:
            Gauge(name, text, registry=registry).set_function(value)

        gauge("ork_serve_requests_waiting", "Requests in the queue now.", lambda: queueing().waiting)
        gauge("ork_serve_requests_running", "Requests being answered now.", lambda: queueing().running)
        gauge("ork_serve_queue_capacity", "Requests that may wait.", lambda: queueing().capacity)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def histogram(name: str, text: str) -> Histogram:
            return Histogram(name, text, buckets=_SECONDS, registry=registry)

        self._requests = counter(
            "ork_serve_requests_total", "Requests by path and HTTP status.", "path", "status"
        )
        self._answers = counter("ork_serve_answers_total", "Answers by why they ended.", "reason")
        self._prompt = counter("ork_serve_prompt_tokens_total", "Tokens of prompts.")
        self._reused = counter(
            "ork_serve_prompt_tokens_reused_total",
            "Tokens of prompts whose keys and values were there already.",
        )
        self._generated = counter("ork_serve_generated_tokens_total", "Tokens of answers.")
        self._waits = histogram("ork_serve_queue_wait_seconds", "Time in the queue (host clock).")
        self._first = histogram(
            "ork_serve_time_to_first_token_seconds",
            "From a request's arrival to the first text of its answer (host clock).",
        )
        self._durations = histogram(
            "ork_serve_request_duration_seconds",
            "From a request's arrival to the end of its answer (host clock).",
        )
        self._npu_jobs = counter("ork_serve_npu_jobs_total", "Jobs submitted to the NPU.")
        self._npu_time = counter(
            "ork_serve_npu_core_seconds_total",
            "NPU time, all cores added up; source says whether it is measured or predicted.",
            "source",
        )
        self._source = JOB_TIME.get(target)
        self._npu_before = NpuTotals(0, 0.0)

    def request(self, path: str, status: int) -> None:
        """``path`` is one of the server's own, so that there are few."""
        self._requests.labels(path, str(status)).inc()

    def started(self, job: Job) -> None:
        """The job left the queue."""
        if job.waited_s is not None:
            self._waits.observe(job.waited_s)

    def answered(self, job: Job, answer: Answer, now: float) -> None:
        """The job got its answer; ``now`` is of ``time.monotonic``."""
        self._answers.labels(answer.stop_reason).inc()
        self._prompt.inc(answer.prompt_tokens)
        self._reused.inc(answer.reused_tokens)
        self._generated.inc(answer.generated_tokens)
        if job.first_text_at is not None:
            self._first.observe(job.first_text_at - job.queued_at)
        self._durations.observe(now - job.queued_at)

    def failed(self) -> None:
        """A job ended without an answer."""
        self._answers.labels("failed").inc()

    def text(self) -> bytes:
        """Everything, in the text format."""
        self._count_npu()
        return generate_latest(self._registry)

    def _count_npu(self) -> None:
        if self._source is None:
            return
        now, before = self._npu(), self._npu_before
        self._npu_jobs.inc(max(now.submits - before.submits, 0))
        if now.core_s is not None:
            self._npu_time.labels(self._source).inc(max(now.core_s - (before.core_s or 0.0), 0.0))
        self._npu_before = now
