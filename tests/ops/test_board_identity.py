"""Model, chip, kernel and driver."""

from __future__ import annotations

import pytest

from orkbench_tui.ops.board_identity import parse_driver_version, parse_soc, read_identity
from tests.ops.fake_board import FakeBoard, sample_text


@pytest.mark.parametrize(
    ("compatible", "soc"),
    [
        (b"radxa,rock-5b\0rockchip,rk3588\0", "rk3588"),
        (b"rockchip,rk3588s-orangepi-5\0rockchip,rk3588\0", "rk3588"),
        (b"radxa,rock-4d\0rockchip,rk3576\0", "rk3576"),
        (b"rockchip,rv1126b\0", "rv1126b"),
        (b"qemu,virt\0", ""),
        (b"", ""),
    ],
)
def test_chip_is_the_last_rockchip_entry(compatible: bytes, soc: str) -> None:
    assert parse_soc(compatible) == soc


def test_driver_versions() -> None:
    assert parse_driver_version(sample_text("npu-version-0.9.8.txt")) == "0.9.8"
    assert parse_driver_version("0.8.2\n") == "0.8.2"
    assert parse_driver_version("") == ""


def test_a_whole_board() -> None:
    identity = read_identity(FakeBoard())
    assert (identity.model, identity.soc, identity.driver) == ("Radxa ROCK 5B", "rk3588", "rknpu")
    assert identity.kernel == "6.1.115-vendor-rk35xx"


def test_mainline_driver() -> None:
    board = FakeBoard({"/sys/bus/platform/drivers/rocket/fdab0000.npu/uevent": ""})
    assert read_identity(board).driver == "rocket"


def test_no_board() -> None:
    identity = read_identity(FakeBoard({}))
    assert not identity.has_npu_driver and identity.model == ""
