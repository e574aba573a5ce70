"""What each precaution of the element-wise path is for: without it the simulated chip answers wrongly."""

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.memory import Memory
from orkbench_tui.driver.sdp import compiled, programs
from orkbench_tui.driver.sdp.programs import SdpNumbers, StageNumbers
from orkbench_tui.errors import UnhealthyError

A = np.arange(-2048, 2048, dtype=np.int16).reshape(-1, 16)
B = A[::-1].copy()
CODES = np.arange(-128, 128, dtype=np.int8).reshape(16, 16)


def test_unequal_shifts_spoil_negative_results(npu, monkeypatch):
    exact = A.astype(np.int32) + B
    assert np.array_equal(npu.sdp.add(A, B), exact)

    def positive_only(into, out, numbers):
        plain = StageNumbers(numbers.bs.alu, numbers.bs.factor, 0)
        return honest(into, out, SdpNumbers(bs=plain))

    honest = programs.data_format
    monkeypatch.setattr(programs, "data_format", positive_only)
    seen = npu.sdp.add(A, B)
    assert not np.array_equal(seen, exact)
    positive = (A >= 0) & (B >= 0)
    assert np.array_equal(seen[positive], exact[positive])


@pytest.mark.parametrize("direction", [uapi.SyncFlag.TO_DEVICE, uapi.SyncFlag.FROM_DEVICE])
def test_both_syncs_are_needed(npu, monkeypatch, direction):
    with npu.sdp.compile("add", "int8", 16, 16) as operation:
        operation.run(CODES, np.zeros_like(CODES))
        honest = Memory.sync

        def skipping(self, part, way):
            if way != direction:
                honest(self, part, way)

        monkeypatch.setattr(Memory, "sync", skipping)
        ones = np.ones_like(CODES)
        expected = np.clip(CODES.astype(int) + 1, -128, 127)
        assert not np.array_equal(operation.run(CODES, ones), expected)
        monkeypatch.undo()
        assert np.array_equal(operation.run(CODES, ones), expected)


def test_rows_above_the_ceiling_never_finish(npu, monkeypatch):
    monkeypatch.setattr(programs, "checked_rows", lambda format, rows: rows)
    whole = compiled.Tile(0, 8177, 0, 16)
    monkeypatch.setattr(compiled, "tiles", lambda *arguments, **options: (whole,))
    with npu.sdp.compile("copy", "int8", 8177, 16) as operation, pytest.raises(UnhealthyError):
        operation.run(np.zeros((8177, 16), np.int8))


def test_an_fp16_addition_without_its_converter_is_dropped(npu, monkeypatch):
    half = np.ones((2, 8), np.float16)
    assert np.array_equal(npu.sdp.add(half, half), 2 * half)
    honest = programs.ew_word
    monkeypatch.setattr(programs, "ew_word", lambda ew, format: honest(ew, format) | 1 << 8)
    with pytest.raises(UnhealthyError):
        npu.sdp.add(half, half)


def test_a_table_on_too_many_fp16_elements(npu, monkeypatch):
    whole = compiled.Tile(0, 1032, 0, 32)
    monkeypatch.setattr(compiled, "tiles", lambda *arguments, **options: (whole,))
    with npu.sdp.compile_table("sigmoid", "fp16", 1032, 32) as operation, pytest.raises(UnhealthyError):
        operation.run(np.zeros((1032, 32), np.float16))
