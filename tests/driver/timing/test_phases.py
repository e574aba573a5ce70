"""Shares of phases: the published profile of chained experts, and what a faster repack made of it."""

from __future__ import annotations

import pytest

from orkbench_tui.driver.timing.phases import faster, phases
from orkbench_tui.driver.timing.published import figure


def published(*names: str) -> dict[str, float]:
    return {name: figure(f"RES-16 {name}").value for name in names}


def test_the_published_profile() -> None:
    """94 % packing, of it 69 quantizing, 12 dequantizing, 19 tiling; 6 % submitting."""
    outer = phases(published("phase repack", "phase submit"))
    assert [(phase.name, round(phase.share, 2)) for phase in outer] == [
        ("phase repack", 0.94),
        ("phase submit", 0.06),
    ]
    inner = phases(published("repack quantize", "repack dequantize", "repack tile"))
    assert [round(outer[0].share * phase.share, 2) for phase in inner] == [0.65, 0.18, 0.11]
    assert sum(phase.share for phase in inner) == pytest.approx(1)


def test_a_repack_4_4_times_faster_is_the_published_gain_within_its_doubt() -> None:
    """The published share fell from 95 to 84 %, and prefill rose from 0.97 to 2.90 tokens per second."""
    before = figure("RES-16 repack before").value
    gain, left = faster(
        {"repack": before, "rest": 100 - before}, "repack", figure("RES-16 repack gain").value
    )
    assert left[0].name == "repack"
    assert 100 * left[0].share == pytest.approx(figure("RES-16 repack after").value, abs=3)
    seen = figure("RES-16 quantized faster").value / figure("RES-16 chained").value
    assert seen == pytest.approx(3, abs=0.02) and gain == pytest.approx(3.76, abs=0.02)


def test_even_a_free_repack_leaves_the_submits() -> None:
    gain, left = faster(published("phase repack", "phase submit"), "phase repack", 1e9)
    assert gain == pytest.approx(100 / 6, rel=1e-3) and left[0].name == "phase submit"
    # 0.97 tok/s times that is still below what the CPU does alone.
    assert figure("RES-16 chained").value * gain < figure("RES-16 CPU").value


@pytest.mark.parametrize("times", [{}, {"a": 0.0}, {"a": 3.0, "b": -1.0}, {"a": float("nan")}])
def test_no_shares_of_no_time(times: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="phases of"):
        phases(times)
    with pytest.raises(KeyError):
        faster({"a": 1.0}, "b", 2)
    with pytest.raises(ValueError, match="times faster"):
        faster({"a": 1.0}, "a", 0)
