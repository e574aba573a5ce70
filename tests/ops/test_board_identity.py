"""Model, chip, kernel and driver."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from orkbench_tui.ops.board_identity import IDENTITY_PATHS, parse_driver_version, parse_soc, read_identity
from orkbench_tui.ops.files import HostFiles
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


def test_names_of_a_board_are_short_single_lines(tmp_path: Path) -> None:
    for path in IDENTITY_PATHS:
        place = tmp_path / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"rockchip,rk\nname\x1b[2J" + b"y" * 300_000 + b"\n0.9.8\n")
    identity = read_identity(HostFiles(str(tmp_path)))
    for value in dataclasses.astuple(identity):
        assert len(value) <= 200 and value.isprintable()
    assert identity.driver_version == "0.9.8"
