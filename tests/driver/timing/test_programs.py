"""Time of programs: what bounds them, and the published chain fit."""

from __future__ import annotations

import numpy as np
import pytest

from orkbench_tui.driver.soc import RK3576, RK3588
from orkbench_tui.driver.timing.constants import CONSTANTS, value
from orkbench_tui.driver.timing.programs import (
    Shape,
    chain_ns,
    element_wise_ns,
    hardware_ns,
    program_ns,
    rows_per_program,
)


def test_every_constant_names_its_source_once() -> None:
    names = [constant.name for constant in CONSTANTS]
    assert len(set(names)) == len(names)
    assert all(constant.source and constant.value > 0 for constant in CONSTANTS)
    with pytest.raises(KeyError):
        value("no such constant")


def test_the_marginal_task_is_a_floor_and_a_stream() -> None:
    columns = [32, 64, 128, 256, 512, 1024]
    sizes = [512 * n for n in columns]
    times = [chain_ns([Shape(1, 512, n)] * 32) / 32 for n in columns]
    slope, floor = np.polyfit(sizes, times, 1)
    assert floor == pytest.approx(4380, rel=0.01)
    assert 1 / slope == pytest.approx(10.8, rel=0.01)


def test_few_rows_are_bound_by_the_weights_and_many_by_the_array() -> None:
    thin, tall = Shape(1, 2048, 2048), Shape(128, 2048, 2048)
    assert program_ns(thin) == pytest.approx(4380 + thin.weight_bytes / 10.8, rel=0.01)
    work = tall.macs / (1024 * value("mac_efficiency"))
    assert program_ns(tall) == pytest.approx(4380 + work + tall.result_bytes / 10.8)


def test_fetch_and_work_follow_each_other_where_one_kernel_group_fills_the_weight_banks() -> None:
    shape = Shape(64, 4096, 4096)
    parts = shape.weight_bytes / 10.8 + shape.macs / (1024 * value("mac_efficiency"))
    assert program_ns(shape) == pytest.approx(4380 + parts + shape.result_bytes / 10.8)


@pytest.mark.parametrize(("bits", "share"), [(4, 2.0), (16, 0.5), (32, 0.25)])
def test_other_precisions_scale_the_array(bits: int, share: float) -> None:
    def work(shape: Shape) -> float:
        return program_ns(shape) - 4380 - shape.result_bytes / 10.8

    int8, other = Shape(200, 256, 2048), Shape(200, 256, 2048, bits)
    assert work(int8) / work(other) == pytest.approx(share)


def test_rows_shrink_as_k_grows() -> None:
    assert rows_per_program(2048, groups=2) == 128
    assert rows_per_program(8192) == 16
    assert rows_per_program(16384) == 0


def test_more_cores_help_until_they_share_the_memory() -> None:
    streamed, worked = Shape(1, 2048, 2048), Shape(512, 1024, 8192)
    for shape in (streamed, worked):
        one, three, four = (hardware_ns(shape, cores) for cores in (1, 3, 4))
        assert one > three == four
    assert hardware_ns(streamed, 2) == pytest.approx(hardware_ns(streamed, 3), rel=0.01)
    assert hardware_ns(worked, 2) > 1.2 * hardware_ns(worked, 3)


def test_k_beyond_the_chip_goes_in_slices() -> None:
    whole, half = Shape(1, 18944, 3584), Shape(1, 6315, 3584)
    assert hardware_ns(whole) == pytest.approx(3 * hardware_ns(half), rel=0.01)


def test_a_slower_chip_takes_longer() -> None:
    shape = Shape(128, 2048, 2048)
    assert program_ns(shape, soc=RK3576) > program_ns(shape, soc=RK3588)


def test_element_wise_work_is_its_traffic() -> None:
    assert element_wise_ns(108_000) == pytest.approx(4380 + 10_000)
