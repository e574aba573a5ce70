"""Seeing a result in memory, and when it counts as lost: pure rules."""

import numpy as np
import pytest

from orkbench_tui.driver import recovery
from orkbench_tui.driver.completion import COMPLETION, Landing, Region, ResultWatch
from orkbench_tui.driver.matmul.formats import FORMATS
from orkbench_tui.driver.matmul.plan import MatmulPlan
from orkbench_tui.driver.recovery import MAX_ATTEMPTS, MissWindow, MissWindows
from orkbench_tui.driver.soc import RK3588
from tests.driver.path_operands import FORMAT_NAMES


def test_every_format_has_a_predicate_and_the_published_ones_are_these():
    assert set(COMPLETION) == set(FORMATS)
    assert COMPLETION["int8"].patterns == (0x7FFFFFFF,) and COMPLETION["int8"].region is Region.LAST_COLUMN
    assert COMPLETION["fp16"].drain
    assert COMPLETION["int4"].patterns[0] == 0x7FFF and COMPLETION["int4"].region is Region.SURFACE


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_a_pattern_that_may_be_a_result_has_another_or_cannot_be_one(name):
    watch, format = COMPLETION[name], FORMATS[name]
    if not watch.legal:
        assert format.k_limit * 128 * 128 < watch.patterns[0]
    elif format.result is np.float32:
        assert np.isnan(np.array(watch.patterns, np.uint32).view(np.float32)).all()
    else:
        assert len(set(watch.patterns)) > 1


def _watch(npu, name, rows=3):
    format = FORMATS[name]
    n = 2 * format.precision.kernel_group
    weight = npu.load(format, "w", np.zeros((n, 64), format.operand))
    plan = MatmulPlan(RK3588, [weight], rows, cores=1)
    buffer = npu.memory.allocate(plan.c_bytes)
    from orkbench_tui.driver.memory import Slice

    return ResultWatch(plan, Slice(buffer, 0, plan.c_bytes)), plan, buffer


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_none_part_and_all(npu, name):
    watch, plan, buffer = _watch(npu, name)
    size = plan.format.precision.output_bytes
    result = buffer.view[: plan.c_bytes].view({1: np.uint8, 2: np.uint16, 4: np.uint32}[size])
    for attempt in range(3):
        watch.seed(attempt)
        assert watch.landed() is Landing.NONE
        if COMPLETION[name].region is Region.SURFACE:
            result[5] = 1
            assert watch.landed() is Landing.PART
        else:
            width = plan.blocks[-1].width
            result.reshape(3, width)[:, :-1] = 1
            assert watch.landed() is Landing.NONE, "other columns do not ring"
            result.reshape(3, width)[1, -1] = 1
            assert watch.landed() is Landing.PART, "one row of three"
        result[:] = 1
        assert watch.landed() is Landing.ALL


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_touched_covers_what_is_looked_at(npu, name):
    watch, _, buffer = _watch(npu, name)
    buffer.view[:] = 0
    watch.seed()
    written = np.flatnonzero(buffer.view)
    assert watch.touched.offset <= written.min() and written.max() < watch.touched.offset + watch.touched.size


def test_the_window_is_two_seconds_then_six_times_the_average_with_a_floor():
    window = MissWindow()
    assert window.seconds() == 2.0
    window.learn(1e-3)
    assert window.seconds() == 0.05
    window.learn(1.0)
    assert 0.05 < window.seconds() < 6.0
    for _ in range(60):
        window.learn(0.5)
    assert window.seconds(3) == pytest.approx(3.0, rel=1e-3)
    assert window.seconds(MAX_ATTEMPTS) == recovery.LAST_WINDOW_S == 3.0


def test_jobs_of_other_cost_have_windows_of_their_own():
    windows = MissWindows()
    windows.of(1000).learn(1e-4)
    assert windows.of(1001).seconds() == 0.05
    assert windows.of(1 << 30).seconds() == 2.0
