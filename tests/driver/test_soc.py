"""Chips as data: which one a board is, and what is told of those nobody has checked."""

from __future__ import annotations

import pytest

from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.soc import RK3588, SOCS, not_validated, soc_for
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
