"""Boot files from inside: what is taken, what is refused, and bytes from anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.ops.kernel.device_tree import parse_device_tree
from orkbench_tui.ops.kernel.formats import (
    image_header,
    image_release,
    judge_device_tree,
    judge_image,
    judge_initrd,
    judge_wrapped_initrd,
    wrap_initrd,
)
from orkbench_tui.sim.boot.content import device_tree, kernel_image, ram_disk

IMAGE = kernel_image("6.1.115-x")


def test_a_flat_image_names_its_release_and_size() -> None:
    assert judge_image(IMAGE[:64], len(IMAGE)) is None
    header = image_header(IMAGE)
    assert header is not None and header.image_size == len(IMAGE)
    assert image_release(IMAGE) == "6.1.115-x" and image_release(b"Linux version") is None


@pytest.mark.parametrize(
    ("head", "size", "why"),
    [
        (b"\x1f\x8b" + IMAGE[2:64], 9000, "gzip"),
        (b"MZ\0\0zimg" + IMAGE[8:64], 9000, "zboot"),
        (b"\x7fELF" + IMAGE[4:64], 9000, "ELF"),
        (b"\xd0\x0d\xfe\xed" + IMAGE[4:64], 9000, "device tree"),
        (IMAGE[:56] + b"RISC" + IMAGE[60:64], 9000, "ARM64 magic"),
        (IMAGE[:64], 1000, "cut short"),
        (IMAGE[:64], 10, "10 bytes"),
        (IMAGE[:16] + (1 << 30).to_bytes(8, "little") + IMAGE[24:64], 1 << 30, "allowed below"),
    ],
)
def test_an_image_that_booti_does_not_start(head: bytes, size: int, why: str) -> None:
    judged = judge_image(head, size)
    assert judged is not None and why in judged[0] and judged[1]


def test_a_ram_disk_wrapped_here_is_one_the_boot_loader_takes() -> None:
    wrapped = wrap_initrd(ram_disk(), "uInitrd", now=0)
    assert judge_initrd(ram_disk()) is None and judge_initrd(wrapped) is None
    assert judge_wrapped_initrd(wrapped[:64], len(wrapped)) is None
    assert judge_initrd(b"hello world") is not None
    for broken, why in (
        (wrapped[:-1], "bytes of data"),
        (wrapped[:28] + b"\x01" + wrapped[29:], "os 1"),
        (ram_disk(), "no U-Boot header"),
        (wrapped[:20], "cut short"),
    ):
        judged = judge_wrapped_initrd(broken[:64], len(broken))
        assert judged is not None and why in judged[0]


def test_a_device_tree_tells_board_and_npu() -> None:
    data = device_tree(
        ("radxa,rock-5b", "rockchip,rk3588"), "ROCK 5B", "npu@fdab0000", ("rockchip,rk3588-rknpu",), sram=True
    )
    tree = parse_device_tree(data)
    assert tree.compatible == ("radxa,rock-5b", "rockchip,rk3588") and tree.model == "ROCK 5B"
    found = tree.npu()
    assert found is not None and found[0] == "/npu@fdab0000" and "rockchip,sram" in found[1]
    assert judge_device_tree(data[:64], len(data)) is None
    assert judge_device_tree(data[:64], len(data) - 1) is not None


@pytest.mark.parametrize("cut", [0, 3, 39, 60, 100])
def test_a_cut_tree_is_refused(cut: int) -> None:
    with pytest.raises(InvalidFileError):
        parse_device_tree(device_tree(("a",), "b", "npu@1", ("rockchip,rk3588-rknpu",))[:cut])


@given(st.data())
def test_damaged_trees_are_refused_and_never_crash(data: st.DataObject) -> None:
    tree = bytearray(device_tree(("a,b", "c,d"), "model", "npu@1", ("rockchip,rk3588-rknpu",)))
    for _ in range(data.draw(st.integers(1, 6))):
        tree[data.draw(st.integers(0, len(tree) - 1))] = data.draw(st.integers(0, 255))
    try:
        parse_device_tree(bytes(tree)).npu()
    except InvalidFileError:
        return


@given(st.binary(max_size=200))
def test_any_bytes_are_judged(data: bytes) -> None:
    for judge in (judge_image, judge_device_tree, judge_wrapped_initrd):
        judge(data[:64], len(data))
    judge_initrd(data)
    image_release(data)
