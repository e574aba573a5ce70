"""What the published figures say together, and what each closed hypothesis rests on."""

from __future__ import annotations

import pytest

from orkbench_tui.driver.timing.hypotheses import CLOSED, closed
from orkbench_tui.driver.timing.published import figure
from orkbench_tui.driver.timing.submits import dispatch_floor_ns


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("output-zero-copy", ("143.11", "142.85")),
        ("native-a", ("3192", "2801")),
        ("process-affinity", ("9.3", "2.3")),
        ("resident-regcmd", ("3.3 of 158",)),
        ("trim-sync", ("KiB",)),
        ("poll-for-2d", ("tens of 150 us",)),
        ("ddr-ceiling", ("3.1 to 3.7",)),
        ("io-uring", ("no command hook",)),
        ("self-loop", ("132", "72")),
        ("omp-pinning", ("45.05", "45.72")),
        ("wide-k", ("8.81",)),
        ("no-full-k", ("8.28",)),
        ("other-submit", ("same call",)),
        ("tlb-thrash", ("9.75", "9.07", "8.83")),
        ("imported-pages", ("6.2/3.0", "6.3/3.1")),
        ("memory-contention", ("7.48", "7.43")),
        ("fresh-buffers", ("7.43", "7.47")),
        ("mode-thrash", ("6.3/3.3", "56 resets")),
    ],
)
def test_a_closed_hypothesis_names_the_measurement_that_closed_it(
    name: str, evidence: tuple[str, ...]
) -> None:
    assert all(part in closed(name).evidence for part in evidence)


def test_what_would_open_a_closed_one_again_is_said() -> None:
    assert "1.4 to 3.5" in closed("resident-regcmd").unless
    assert "tier 11" in closed("poll-for-2d").unless
    assert closed("output-zero-copy").unless == "a GPU device type"
    assert sum(bool(row.unless) for row in CLOSED) < len(CLOSED) / 3


def test_the_open_stack_against_the_closed_one() -> None:
    assert figure("RES-02 prefill").value / figure("RES-01 prefill").value == pytest.approx(0.97, abs=0.005)
    assert figure("RES-02 decode").value / figure("RES-01 decode").value == pytest.approx(1.09, abs=0.005)


def test_experts_on_the_npu_against_the_cpu() -> None:
    cpu = figure("RES-16 CPU").value
    ladder = [figure(f"RES-16 {name}").value for name in ("grouped", "chained", "quantized faster", "fused")]
    assert ladder == [0.28, 0.97, 2.90, 3.13]
    assert [round(cpu / step, 1) for step in ladder] == [80.7, 23.3, 7.8, 7.2]
    assert figure("RES-17 decode, CPU").value / figure("RES-17 decode, NPU").value == pytest.approx(
        57, abs=0.5
    )


def test_the_utilisation_gap_is_the_throughput_gap() -> None:
    ours = sum(figure(f"RES-76 core {core}").value for core in range(3)) / 3
    theirs = sum(figure(f"RES-76 rkllm core {core}").value for core in range(3)) / 3
    assert theirs / ours == pytest.approx(1.63, abs=0.01)
    assert figure("RES-78 1390 tokens").value / figure("RES-77 pp512").value == pytest.approx(1.52, abs=0.01)


def test_small_wins_drown_in_the_floor() -> None:
    assert dispatch_floor_ns(18_000, "expert_floor") / 1e9 == pytest.approx(6.6, abs=0.05)
    assert dispatch_floor_ns(4_000_000, "expert_program") / 1e9 == pytest.approx(72)
