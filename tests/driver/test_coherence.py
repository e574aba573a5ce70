"""Each sync is needed: without it the simulated chip reads or shows old data."""

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.layouts import tile_weights
from orkbench_tui.driver.memory import Memory
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.regcmd.programs import INT8_TO_INT32

ROWS, K, N = 6, 64, 64


def _run(npu, seed):
    random = np.random.default_rng(seed)
    a = random.integers(-128, 128, (ROWS, K), dtype=np.int8)
    b = random.integers(-128, 128, (N, K), dtype=np.int8)
    weight = npu.load_int8("w", tile_weights(INT8_TO_INT32, b), K, N)
    matmul = npu.matmul_int8([weight], ROWS)
    matmul.a[:] = a
    matmul.run()
    return np.array_equal(matmul.outputs[0], a.astype(np.int32) @ b.T.astype(np.int32))


def _without(monkeypatch, direction, when):
    """Drop the syncs of one direction for which ``when(part)`` holds."""
    sync = Memory.sync

    def dropped(self, part, wanted):
        if wanted == direction and when(part):
            return
        sync(self, part, wanted)

    monkeypatch.setattr(Memory, "sync", dropped)


def test_with_all_syncs_the_result_is_exact(npu):
    assert _run(npu, 1)


@pytest.mark.parametrize(
    ("direction", "size"),
    [
        (uapi.SyncFlag.TO_DEVICE, ROWS * K),
        (uapi.SyncFlag.TO_DEVICE, N * K),
        (uapi.SyncFlag.FROM_DEVICE, 4 * ROWS * N),
    ],
    ids=["activation to the device", "weights to the device", "result from the device"],
)
def test_a_missing_sync_shows(npu, monkeypatch, direction, size):
    _without(monkeypatch, direction, lambda part: part.size == size)
    assert not _run(npu, 2)


def test_programs_not_synced_never_complete(board, monkeypatch):
    from orkbench_tui.errors import UnhealthyError

    with Npu(board.device(), timeout_ms=200) as npu:
        _without(monkeypatch, uapi.SyncFlag.TO_DEVICE, lambda part: part.size in (896, 1792, 2688))
        with pytest.raises(UnhealthyError):
            _run(npu, 3)
