"""Closed devices and freed memory, for every kind of object that submits: typed, and nothing submitted."""

import numpy as np
import pytest

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.failures import LifetimeError
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.errors import NoDeviceError, RefusedError
from tests.driver.path_operands import random_matrix

KINDS = ("matmul", "chain", "round robin", "doorbell", "spread doorbell", "compiled", "fused")


def _object(npu, kind, weight, a):
    """A call that would submit work over ``weight``."""
    task = ChainTask(weight, 1, a=a)
    if kind == "matmul":
        return npu.matmul([weight], 1, a=a).run
    if kind == "chain":
        return npu.chain([task]).run
    if kind == "round robin":
        return npu.round_robin([npu.chain([task])]).run
    if kind == "compiled":
        return npu.compile(weight, a).run
    if kind == "fused":
        fused = npu.sdp.biased(weight, 1, np.zeros(weight.n, np.int32))
        return lambda: fused.run(a)
    doorbell = npu.doorbell() if kind == "doorbell" else npu.spread_doorbell()
    doorbell.build([task])
    return doorbell.begin


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["closed", "freed"])
def test_what_was_compiled_refuses_when_its_memory_or_device_is_gone(npu, kind, end):
    random = np.random.default_rng(8)
    weight = npu.load(INT8, "w", random_matrix(INT8, (32, 512), random))
    run = _object(npu, kind, weight, random_matrix(INT8, (1, 512), random))
    before = npu.counters
    if end == "closed":
        npu.close()
    else:
        npu.free(weight)
    with pytest.raises(NoDeviceError if end == "closed" else LifetimeError) as caught:
        run()
    assert npu.counters == before, "nothing was submitted"
    assert "\n" not in caught.value.line() and caught.value.do
    assert isinstance(caught.value, NoDeviceError | RefusedError)


def test_resident_keys_that_were_freed_refuse_to_grow_and_to_attend(npu):
    head = npu.attention(32, 512, value_scale=1.0)
    row = np.ones(32, np.float32)
    for _ in range(256):
        head.append(row, row)
    head.free()
    before = npu.counters
    for call in (lambda: head.append(row, row), lambda: head.attend(row)):
        with pytest.raises(LifetimeError):
            call()
    assert npu.counters == before
