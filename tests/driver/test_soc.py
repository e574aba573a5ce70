"""Chips as data: which one a board is, and what is told of those nobody has checked."""

from __future__ import annotations

import numpy as np
import pytest

from orkbench_tui.driver.chip_programs import CHIP_TILES, require_known_programs, tile_of
from orkbench_tui.driver.layouts import tile_weights
from orkbench_tui.driver.matmul.formats import FP16, INT4, INT8
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.soc import RK3588, SOCS, not_validated, soc_for
from orkbench_tui.errors import RefusedError
from orkbench_tui.sim.inprocess import InProcessBoard


@pytest.mark.parametrize(
    ("compatible", "name"),
    [
        (("radxa,rock-5b", "rockchip,rk3588"), "rk3588"),
        (("rockchip,rk3588s-orangepi-5", "rockchip,rk3588"), "rk3588"),
        (("rockchip,rk3588-orangepi-5-plus", "rockchip,rk3588"), "rk3588"),
        (("radxa,rock-5a", "rockchip,rk3588s"), "rk3588"),
        (("radxa,rock-4d", "rockchip,rk3576"), "rk3576"),
        (("xunlong,orangepi-3b", "rockchip,rk3566"), "rk3566"),
        (("rockchip,rk3568-rknpu", "rockchip,rknpu"), "rk3568"),
        (("rockchip,rk3588-evb", "rockchip,rk3562"), "rk3562"),
        (("rockchip,rk3583",), "rk3583"),
    ],
)
def test_the_last_known_name_counts(compatible: tuple[str, ...], name: str) -> None:
    found = soc_for(compatible)
    assert found is not None and found.name == name


@pytest.mark.parametrize(
    "compatible",
    [(), ("",), ("raspberrypi,5-model-b", "brcm,bcm2712"), ("rockchip,rk9999",), ("rockchip,rv1126b",)],
)
def test_other_chips_are_not_known(compatible: tuple[str, ...]) -> None:
    assert soc_for(compatible) is None


def test_rows_agree_with_themselves() -> None:
    assert list(SOCS) == [soc.name for soc in SOCS.values()]
    for soc in SOCS.values():
        assert soc.core_mask == (1 << soc.cores) - 1
        assert len(soc.core_base) in (0, soc.cores)
        assert soc.max_tasks_per_commit in (4095, 65535)
    assert [name for name, soc in SOCS.items() if soc.validated] == ["rk3588"]


@pytest.mark.parametrize(
    ("name", "cores", "scale", "tasks", "nbuf"),
    [
        ("rk3588", 3, 2, 4095, 0),
        ("rk3583", 2, 2, 4095, 0),
        ("rk3576", 2, 2, 65535, 1 << 20),
        ("rk3568", 1, 1, 4095, 0),
        ("rk3566", 1, 1, 4095, 0),
        ("rk3562", 1, 2, 65535, 256 << 10),
    ],
)
def test_rows_are_the_vendor_driver_s(name: str, cores: int, scale: int, tasks: int, nbuf: int) -> None:
    soc = SOCS[name]
    assert (soc.cores, soc.amount_scale, soc.max_tasks_per_commit, soc.nbuf_bytes) == (
        cores,
        scale,
        tasks,
        nbuf,
    )


def test_a_chip_nobody_checked_is_told_once(board: InProcessBoard) -> None:
    with Npu(board.device(), soc=SOCS["rk3576"]) as npu:
        assert npu.notices == (not_validated(SOCS["rk3576"]),)
        assert "rk3576 is not validated" in npu.notices[0]
    with Npu(board.device(), soc=RK3588) as npu:
        assert npu.notices == ()


@pytest.mark.parametrize(
    ("name", "bits", "tile", "tile_bytes", "atom"),
    [
        ("rk3588", 8, (32, 32), 1024, 16),
        ("rk3588", 16, (16, 32), 1024, 8),
        ("rk3588", 4, (64, 32), 1024, 32),
        ("rk3576", 8, (32, 32), 1024, 16),
        ("rk3566", 8, (16, 32), 512, 8),
        ("rk3568", 16, (8, 16), 256, 4),
        ("rk3562", 8, (16, 32), 512, 16),
        ("rk3562", 16, (8, 32), 512, 8),
    ],
)
def test_layouts_are_the_vendor_s(
    name: str, bits: int, tile: tuple[int, int], tile_bytes: int, atom: int
) -> None:
    found = tile_of(SOCS[name], bits)
    assert (found.kernel_group, found.k_granule) == tile
    assert (found.tile_bytes, found.atom_channels) == (tile_bytes, atom)


def test_layouts_of_the_driver_are_those_of_its_chip() -> None:
    assert set(CHIP_TILES) == set(SOCS)
    for format in (INT8, FP16, INT4):
        tile = tile_of(RK3588, format.precision.input_bits)
        assert (tile.kernel_group, tile.k_granule) == (
            format.precision.kernel_group,
            format.precision.k_granule,
        )
    marks = np.arange(32 * 64, dtype=np.int64).reshape(32, 64)
    assert tile_weights(INT8.precision, marks)[:64].tolist() == [*range(32), *range(64, 96)]


@pytest.mark.parametrize("name", ["rk3566", "rk3568", "rk3562"])
def test_a_chip_without_known_programs_is_refused_and_nothing_is_submitted(
    board: InProcessBoard, name: str
) -> None:
    with Npu(board.device(), soc=SOCS[name]) as npu:
        for attempt in (
            lambda: npu.load(INT8, "w", np.ones((32, 32), np.int8)),
            lambda: npu.sdp.add(np.ones((1, 16), np.int8), np.ones((1, 16), np.int8)),
            lambda: npu.sdp.silu(np.ones((1, 16), np.int8)),
        ):
            with pytest.raises(
                RefusedError, match=rf"programs for {name}: 8-bit weights lie in groups of 16 by 32"
            ):
                attempt()
        assert npu.counters.submits == 0
        assert npu.info().soc == name
        assert npu.notices == (
            f"{name}: nobody has published register programs for it, so nothing is computed on its NPU",
        )


def test_chips_of_the_layout_of_rk3588_are_not_refused() -> None:
    for name in ("rk3588", "rk3583", "rk3576"):
        require_known_programs(SOCS[name])


def test_bits_nobody_has_a_layout_for_are_refused() -> None:
    with pytest.raises(RefusedError, match="4-bit operands on rk3566: layouts are known for 8, 16 bits"):
        tile_of(SOCS["rk3566"], 4)


def test_rk3576_splits_k_where_the_vendor_does(board: InProcessBoard) -> None:
    matrix = np.ones((32, 6144), np.int8)
    with Npu(board.device(), soc=SOCS["rk3576"]) as npu:
        assert [part.length for part in npu.load(INT8, "w", matrix).slices] == [3072, 3072]
        matmul = npu.matmul([npu.load(INT8, "w", matrix)], 2)
        matmul.a[:] = 3
        matmul.run()
        assert np.array_equal(matmul.outputs[0], np.full((2, 32), 3 * 6144))
    with Npu(board.device(), soc=RK3588) as npu:
        assert len(npu.load(INT8, "w", matrix).slices) == 1
