"""Dequantization in chunks equals the library's, for every stored type, byte for byte."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from orkbench_tui.runner.ggml_data import dequantize, dequantize_rows
from orkbench_tui.runner.gguf_types import BLOCKS, UNSUPPORTED_TYPES, GgmlType, tensor_bytes

_PLAIN = {
    GgmlType.F16: np.float16,
    GgmlType.F32: np.float32,
    GgmlType.F64: np.float64,
    GgmlType.I8: np.int8,
    GgmlType.I16: np.int16,
    GgmlType.I32: np.int32,
    GgmlType.I64: np.int64,
}


@pytest.mark.parametrize("type_", [t for t in GgmlType if t not in UNSUPPORTED_TYPES], ids=lambda t: t.name)
def test_every_type_equals_the_library(type_: GgmlType) -> None:
    shape = (2 * BLOCKS[type_][0], 37)
    raw = np.random.default_rng(int(type_)).integers(0, 256, tensor_bytes(type_, shape), dtype=np.uint8)
    rows = raw.reshape(37, -1)
    with np.errstate(all="ignore"):
        if type_ in _PLAIN:
            expected = rows.view(_PLAIN[type_]).astype(np.float32)
        else:
            expected = gguf.quants.dequantize(rows, gguf.GGMLQuantizationType(int(type_)))
        values = dequantize(memoryview(raw), type_, shape, "w")
        some = dequantize_rows(memoryview(raw), type_, shape, "w", np.array([36, 0, 5]))
    assert values.dtype == np.float32 and values.shape == (37, shape[0])
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(some, expected[[36, 0, 5]])


def test_dimensions_are_reversed_and_vectors_stay_vectors() -> None:
    values = np.arange(24, dtype=np.float32)
    cube = dequantize(memoryview(values).cast("B"), GgmlType.F32, (4, 3, 2), "w")
    np.testing.assert_array_equal(cube, values.reshape(2, 3, 4))
    assert dequantize(memoryview(values).cast("B"), GgmlType.F32, (24,), "w").shape == (24,)
    assert dequantize_rows(memoryview(values).cast("B"), GgmlType.F32, (4, 6), "w", []).shape == (0, 4)


def test_a_result_does_not_look_into_the_file() -> None:
    stored = np.ones(8, dtype=np.float32)
    values = dequantize(memoryview(stored).cast("B"), GgmlType.F32, (8,), "w")
    values[0] = 5
    assert stored[0] == 1
