"""A reset the user orders: what was made before it stays valid, nothing is assumed to be warm."""

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.descriptor_state import DESCRIPTOR_TABLE, DescriptorEvent
from orkbench_tui.driver.failures import LifetimeError
from orkbench_tui.driver.matmul.formats import FORMATS, INT8
from orkbench_tui.driver.modes import Mode
from orkbench_tui.errors import NoDeviceError
from tests.driver.path_operands import expected, matches, random_matrix

CODES = np.arange(-128, 128, dtype=np.int8).reshape(4, 64)
SCALES = {"in_scale": 0.05, "out_scale": 0.05}


@pytest.fixture
def random():
    return np.random.default_rng(31)


def _orders(npu):
    return {"reset": npu.reset, "action": lambda: npu.action(uapi.ActionCode.ACT_RESET)}


@pytest.mark.parametrize("order", ["reset", "action"])
def test_all_that_was_compiled_runs_right_afterwards(npu, random, order):
    w = {name: random_matrix(FORMATS[name], (64, 512), random) for name in ("int8", "fp16", "int4")}
    a = {name: random_matrix(FORMATS[name], (1, 512), random) for name in w}
    weights = {name: npu.load(FORMATS[name], name, matrix) for name, matrix in w.items()}
    matmuls = {name: npu.matmul([weight], 1) for name, weight in weights.items()}
    chains = {name: npu.chain([ChainTask(weights[name], 1, a=a[name])] * 2) for name in w}
    program = npu.compile(weights["int8"], a["int8"])
    table = npu.sdp.silu(CODES, **SCALES)
    used = []
    for _ in range(2):
        _orders(npu)[order]()
        assert npu.modes.last_mode is Mode.COLD
        assert not any(npu.modes.lut_loaded) and not any(npu.modes.warm_cores)
        for name in w:
            matmuls[name].a[:] = a[name]
            matmuls[name].run()
            assert matches(FORMATS[name], matmuls[name].outputs[0], a[name], w[name])
            chains[name].run()
            assert all(matches(FORMATS[name], out, a[name], w[name]) for out in chains[name].outputs)
        program.run()
        np.testing.assert_array_equal(program.outputs[0], expected(INT8, a["int8"], w["int8"]))
        loads = npu.sdp.table_loads
        np.testing.assert_array_equal(npu.sdp.silu(CODES, **SCALES), table)
        assert npu.sdp.table_loads == loads + 1, "the chip had lost the table"
        with npu.doorbell() as doorbell:
            doorbell.build([ChainTask(weights["int8"], 1, a=a["int8"])])
            doorbell.begin()
            assert doorbell.end() == 1
            np.testing.assert_array_equal(doorbell.outputs[0], expected(INT8, a["int8"], w["int8"]))
        used.append(npu.memory.used_bytes(0))
    assert used[0] == used[1], "nothing was made again"


def test_it_is_counted_once_and_the_next_entry_pays_its_own(npu, board):
    before = npu.counters.resets
    npu.reset()
    assert npu.counters.resets - before == board.kernel.scheduler.resets == 1


def test_the_descriptor_axis_does_not_move(npu):
    assert DescriptorEvent.RESET not in DESCRIPTOR_TABLE


def test_it_is_refused_while_a_doorbell_runs_and_after_closing(npu, board, random):
    weight = npu.load(INT8, "w", random_matrix(INT8, (32, 512), random))
    doorbell = npu.doorbell()
    doorbell.build([ChainTask(weight, 1, a=random_matrix(INT8, (1, 512), random))])
    doorbell.begin()
    done = board.kernel.scheduler.resets
    for order in _orders(npu).values():
        with pytest.raises(LifetimeError, match="end it first"):
            order()
    assert board.kernel.scheduler.resets == done
    assert doorbell.end() == 1
    npu.reset()
    npu.close()
    for order in _orders(npu).values():
        with pytest.raises(NoDeviceError, match="was closed"):
            order()
