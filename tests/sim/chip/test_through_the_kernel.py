"""Element-wise programs and the function table as a client of the kernel sees them."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from orkbench_tui.sim.inprocess import InProcessBoard
from tests.sim import programs
from tests.sim.board_client import Client, Memory
from tests.sim.chip import build
from tests.sim.conftest import log_text

_PC_ONLY = 0x1
_RESET = 6
_RAMP = np.arange(-512, 1), np.arange(513)


def _program(client: Client, regs: dict[int, int], extra: list[int] | None = None) -> Memory:
    """The task array of a one-program run."""
    body = [*programs.body(regs, build.SDP_ORDER), *(extra or [])]
    return client.write_programs([body], enable=0x18)[1]


def _load(client: Client, scratch: Memory) -> Memory:
    copy = build.sdp(1, 16, formats=0, rdma=0x7801, src=scratch.iova, dst=scratch.iova)
    return _program(client, copy, build.table_words(*_RAMP))


def _apply(client: Client, source: Memory, target: Memory) -> Memory:
    regs = build.sdp(1, 8, formats=0x24000001, rdma=0xF821, src=source.iova, dst=target.iova)
    return _program(client, regs | build.TABLE | {0x4070: 0x302})


def test_a_table_belongs_to_its_core_and_ends_with_a_reset(client: Client) -> None:
    source, target, scratch = (client.allocate(4096) for _ in range(3))
    client.put(source, np.array([0, 32, 64, 320, -32, -64, -320, 16384], np.int16))
    load, apply = _load(client, scratch), _apply(client, source, target)

    def applied(core: int) -> list[int]:
        client.put(target, np.full(8, 77, np.int16))
        assert client.submit(apply, 1, core_mask=1 << core).task_counter == 1
        return client.take(target, np.int16)[:8].tolist()

    client.submit(load, 1, flags=_PC_ONLY)
    assert applied(0) == [0, 1, 2, 10, -1, -2, -10, 512]
    assert applied(1) == [0] * 8
    assert applied(0) == [0, 1, 2, 10, -1, -2, -10, 512]
    client.action(_RESET)
    assert applied(0) == [0] * 8


def test_one_row_too_many_times_out_and_a_reset_later_the_board_works(
    board: InProcessBoard, client: Client
) -> None:
    source, target = client.allocate(8192 * 16), client.allocate(8192 * 16)
    data = np.random.default_rng(0).integers(0, 256, 8177 * 16).astype(np.uint8)
    client.put(source, data)
    runs = {
        rows: _program(client, build.sdp(rows, 16, formats=0, rdma=0x7801, src=source.iova, dst=target.iova))
        for rows in (8176, 8177)
    }
    with pytest.raises(OSError, match="timed out") as caught:
        client.submit(runs[8177], 1, timeout=500)
    assert caught.value.errno == errno.ETIMEDOUT
    assert "[rows] 8177 rows of int8" in log_text(board)
    assert "the job never completes" in log_text(board)
    assert client.submit(runs[8176], 1).hw_elapse_time > 0
    assert np.array_equal(client.take(target, np.uint8)[: 8176 * 16], data[: 8176 * 16])


def test_partial_sums_of_two_matmuls_are_added_in_one_run(client: Client) -> None:
    """Two slices of K, then an int32 ADD in place behind them: three programs, one submit."""
    m, k, n = 8, 128, 64
    rng = np.random.default_rng(2)
    p = build.PRECISIONS["int8->int32"]
    a, b = (rng.integers(-128, 128, (rows, k)).astype(np.int8) for rows in (m, n))
    features, weights = (client.allocate(size) for size in (m * k, n * k))
    first, second = client.allocate(4 * m * n), client.allocate(4 * m * n)
    client.put(features, np.stack([build.cube(half, 16) for half in np.split(a, 2, axis=1)]))
    client.put(weights, np.stack([build.tiles(half, p) for half in np.split(b, 2, axis=1)]))
    bodies = []
    for index, target in enumerate((first, second)):
        regs = build.matmul(p, "fold", m, k // 2, n) | {
            0x1070: features.iova + index * m * k // 2, 0x1110: weights.iova + index * n * k // 2,
            0x4020: target.iova,
        }  # fmt: skip
        bodies.append(programs.body(regs))
    add = build.sdp(
        m,
        n,
        formats=0x90000004,
        rdma=0x27881,
        erdma=0x4000000C,
        src=first.iova,
        dst=first.iova,
        ew=second.iova,
    )
    bodies.append([*programs.body(add | {0x4070: 0x10C203C0}, build.SDP_ORDER), 0])
    commands, tasks = client.write_programs(bodies)
    end = 8 * (sum(len(body) + 4 for body in bodies) - 1)
    client.put(commands, np.array([programs.word(programs.ENABLE, 0x18, 8)], np.uint64), end)
    assert client.submit(tasks, 3).task_counter == 3
    result = build.from_cube(client.take(first, np.int32), m, n)
    assert np.array_equal(result, programs.exact(a, b))
