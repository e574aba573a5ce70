"""The load line of every chip and driver generation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.ops.telemetry.npu_load import parse_npu_load
from tests.ops.fake_board import sample_text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("npu-load-rk3588-idle.txt", [0, 0, 0]),
        ("npu-load-rk3588-busy.txt", [42, 7, 100]),
        ("npu-load-rk3588-extra-space.txt", [21, 0, 0]),
        ("npu-load-rk3588-one-core.txt", [98, 0, 0]),
        ("npu-load-rk3588-wedged.txt", [100, 100, 100]),
        ("npu-load-rk3576-busy.txt", [63, 58]),
        ("npu-load-rk3576-idle.txt", [0, 0]),
        ("npu-load-rk356x-busy.txt", [87]),
        ("npu-load-rk356x-full.txt", [100]),
        ("npu-load-rk356x-idle.txt", [0]),
    ],
)
def test_known_forms(name: str, expected: list[int]) -> None:
    cores = parse_npu_load(sample_text(name))
    assert cores is not None
    assert [core.pct for core in cores] == expected
    assert not any(core.clamped for core in cores)


def test_single_core_with_two_spaces() -> None:
    cores = parse_npu_load("NPU load:  48%\n")
    assert cores is not None and [core.pct for core in cores] == [48]


def test_unclamped_driver_is_clamped_and_underflow_is_no_load() -> None:
    cores = parse_npu_load(sample_text("npu-load-rk3588-old-unclamped.txt"))
    assert cores is not None
    assert [core.pct for core in cores] == [0, 100, None]
    assert [core.clamped for core in cores] == [False, True, False]
    assert cores[2].raw_pct == 429496


def test_cores_are_ordered_by_their_index() -> None:
    cores = parse_npu_load("NPU load: Core2: 3%, Core0: 1%, Core1:  2%,")
    assert cores is not None and [(core.index, core.pct) for core in cores] == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize(
    "text", ["", "\n", "NPU load:\n", "0\n", "NPU load: Core0: x%,", "NPU load: Core0: 1%, junk"]
)
def test_other_text_is_no_load(text: str) -> None:
    assert parse_npu_load(text) is None


@given(st.text())
def test_never_raises(text: str) -> None:
    for candidate in (text, "NPU load:" + text):
        cores = parse_npu_load(candidate)
        assert cores is None or all(core.pct is None or 0 <= core.pct <= 100 for core in cores)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=8), st.integers(0, 3))
def test_reads_what_the_driver_prints(values: list[int], spaces: int) -> None:
    text = "NPU load: " + "".join(f" Core{i}:{' ' * spaces}{v:2d}%," for i, v in enumerate(values)) + "\n"
    cores = parse_npu_load(text)
    assert cores is not None and [core.pct for core in cores] == values
