"""An engine whose clock is the test's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from orkbench_tui.runner.bench.cases import Case
from orkbench_tui.runner.bench.conditions import BoardState
from orkbench_tui.runner.bench.measure import Clocks
from orkbench_tui.runner.bench.record import ModelFacts, Row

FACTS = ModelFacts(
    "tiny", "/m/tiny.gguf", "aa", "bb", "w8a8", "auto", "npu", 1000, 1024, 7, 7, 1 << 20, 1, 0.5
)


@dataclass
class FakeEngine:
    """A prompt token takes 1 ms and a made token 10 ms of its own clock; ``wall_step_s`` moves the wall clock."""

    vocab_size: int = 100
    context: int = 4096
    now: float = 0.0
    wall_step_s: float = 0.0
    prefills: list[int] = field(default_factory=list)
    decoded: int = 0

    def prefill(self, tokens: Sequence[int]) -> None:
        assert all(0 <= token < self.vocab_size for token in tokens)
        self.prefills.append(len(tokens))
        self.now += 0.001 * len(tokens)

    def decode(self, token: int) -> None:
        self.decoded += 1
        self.now += 0.010

    def rewind(self, position: int) -> None:
        assert position == 0

    def clocks(self) -> Clocks:
        return Clocks(lambda: self.now, lambda: self.now + self.wall_step_s * (self.now > 0.05))


def row(
    speeds: Sequence[float] = (100.0, 110.0, 120.0),
    *,
    prompt: int = 64,
    generate: int = 0,
    threads: int = 2,
    label: str = "host",
    commit: str = "c1",
    reasons: Sequence[str] = (),
    partial: bool = False,
    taken: float = 1.0,
    arm: str = "",
    submits: float | None = 12,
) -> Row:
    return Row(
        case=Case(prompt, generate, 2048, 256, 0),
        model=FACTS,
        label=label,
        speeds=tuple(speeds),
        warm=True,
        partial=partial,
        state=BoardState(
            "sim", governors={"npu": "userspace"}, clocks={"npu": 10**9}, temperatures={"soc": 45.0}
        ),
        reasons=tuple(reasons),
        version="0.1.0",
        commit=commit,
        taken_unix_s=taken,
        threads=threads,
        npu_ns=2e6,
        npu_label="predicted",
        submits=submits,
        arm=arm,
        kernels="kk",
    )
