"""Why every operation of a model runs where it does: the dispatcher's own decisions, gathered for reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from orkbench_tui.driver.modes import Mode, Profile, transition
from orkbench_tui.driver.timing.constants import value
from orkbench_tui.driver.timing.shapes import ModelShape, dense
from orkbench_tui.runner.dispatch.dispatcher import Dispatcher
from orkbench_tui.runner.dispatch.model import ModelDispatch
from orkbench_tui.runner.dispatch.model_file import DescribedModel
from orkbench_tui.runner.dispatch.unit import Decision, Place
from orkbench_tui.runner.overlap.costs import in_place_costs
from orkbench_tui.runner.overlap.micro_batches import (
    LEAST_TOKENS,
    ROWS_PER_CHUNK,
    micro_batches,
    serial_chunks,
)
from orkbench_tui.runner.overlap.predict import UtilizationTable, predict_utilization
from orkbench_tui.runner.prompt_pass import program_rows

__all__ = ["MODES", "Explanation", "ModeName", "Section", "explain"]

ModeName = Literal["prefill", "decode"]
MODES: dict[str, ModeName] = {"prefill": "prefill", "decode": "decode"}


@dataclass(frozen=True, slots=True)
class Section:
    """Operations that run alike in all of ``layers``; none of these in the head."""

    layers: tuple[int, ...]
    decisions: tuple[Decision, ...]

    @property
    def title(self) -> str:
        if not self.layers:
            return "head"
        first, last = self.layers[0], self.layers[-1]
        if first == last:
            return f"layer {first}"
        whole = len(self.layers) == last - first + 1
        return f"layers {first} to {last}" if whole else f"layers {', '.join(map(str, self.layers))}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """``rows`` are those of the program that ``tokens`` go through first; times are predicted microseconds.

    ``chunks`` and ``micro_batches`` are how the prompt is cut serially and overlapped, empty where it is not.
    ``once`` names what is paid once and is in no row. ``busy`` are the busy shares of the prompt, serial and
    overlapped, where all matmuls of the layers run on the NPU.
    """

    model: str
    mode: ModeName
    tokens: int
    rows: int
    chunks: tuple[int, ...]
    micro_batches: tuple[int, ...]
    sections: tuple[Section, ...]
    once: tuple[tuple[str, float], ...]
    busy: UtilizationTable | None = None

    def count(self, place: Place) -> int:
        """Matmuls of one pass that run there."""
        return sum(
            decision.place is place and decision.unit.is_matmul
            for section in self.sections
            for decision in section.decisions
            for _ in range(max(1, len(section.layers)))
        )


def explain(model: DescribedModel, dispatcher: Dispatcher, mode: ModeName, tokens: int) -> Explanation:
    """A prompt of ``tokens``, or one token decoded after as many.

    Raises:
        ValueError: fewer than one token.
    """
    if tokens < 1:
        raise ValueError(f"{tokens} tokens")
    prefill = mode == "prefill"
    chunks = serial_chunks(tokens, ROWS_PER_CHUNK) if prefill else []
    rows = program_rows(chunks[0]) if prefill else 1
    dispatch = ModelDispatch(dispatcher, model.architecture, model.sources)
    sections = _sections(dispatch.everything(rows, tokens, prompt=prefill))
    overlapped = micro_batches(tokens) if prefill and tokens >= LEAST_TOKENS else []
    matmuls = [d for section in sections if section.layers for d in section.decisions if d.unit.is_matmul]
    on_npu = any(decision.place is Place.NPU for decision in matmuls)
    busy = None
    if (
        overlapped
        and model.architecture.scan is None
        and all(decision.place is Place.NPU for decision in matmuls)
    ):
        busy = predict_utilization(_shape(model), in_place_costs(), overlapped)
    return Explanation(
        model.name,
        mode,
        tokens,
        rows,
        tuple(chunks),
        tuple(overlapped) if on_npu else (),
        sections,
        tuple(_once(model)) if on_npu else (),
        busy,
    )


def _shape(model: DescribedModel) -> ModelShape:
    a = model.architecture
    return dense(
        model.name,
        layers=a.layers,
        embedding=a.embedding,
        heads=a.heads,
        kv_heads=a.kv_heads,
        head=a.head_dim,
        ff=a.feed_forward,
        vocabulary=a.vocab_size,
    )


def _sections(everything: Sequence[tuple[str, Decision]]) -> tuple[Section, ...]:
    by_place: dict[str, list[Decision]] = {}
    for place, decision in everything:
        by_place.setdefault(place, []).append(decision)
    alike: dict[tuple[Decision, ...], list[int]] = {}
    head = tuple(by_place.pop("head"))
    for place, decisions in by_place.items():
        alike.setdefault(tuple(decisions), []).append(int(place.split()[1]))
    layers = [Section(tuple(numbers), decisions) for decisions, numbers in alike.items()]
    return (*layers, Section((), head))


def _once(model: DescribedModel) -> list[tuple[str, float]]:
    """What the first job pays: entering int8 on cold cores, and the first touch of each domain."""
    cold = transition(Profile.MC_MM, Mode.COLD, Mode.I8)
    entry = ("reset on entering int8", value("reset")) if cold.reset else None
    found = [entry or ("entering int8, kept warm afterwards", value("mode_keep_warm"))]
    if model.domains and model.domains > 1:
        found.append((f"first touch of {model.domains} domains", model.domains * value("domain_first_touch")))
    return [(name, ns / 1e3) for name, ns in found]
