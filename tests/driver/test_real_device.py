"""Finding the NPU card by driver name, on folders shaped like a board's."""

import os

import pytest

from orkbench_tui.driver.real_device import Card, DrmDevice, find_card, scan_cards
from orkbench_tui.errors import DeniedError, NoDeviceError


def _card(root, node, driver):
    path = root / "dev" / node
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    kind = "accel" if "accel" in node else "drm"
    device = root / "sys/class" / kind / path.name / "device"
    device.mkdir(parents=True)
    (device / "uevent").write_text(f"DRIVER={driver}\nOF_FULLNAME=/npu@fdab0000\n")


@pytest.mark.parametrize("position", [0, 1, 2])
def test_the_npu_card_is_found_whatever_its_number(tmp_path, position):
    for number in range(3):
        _card(tmp_path, f"dri/card{number}", "RKNPU" if number == position else "rockchip-drm")
    assert find_card(tmp_path) == Card(f"/dev/dri/card{position}", "rknpu")


def test_other_drivers_are_no_npu_but_are_named(tmp_path):
    _card(tmp_path, "dri/card0", "i915")
    _card(tmp_path, "accel/accel0", "rocket")
    assert find_card(tmp_path) is None
    assert {card.driver for card in scan_cards(tmp_path)} == {"i915", "rocket"}


def test_no_nodes_at_all(tmp_path):
    assert find_card(tmp_path) is None
    assert scan_cards(tmp_path) == []


def test_a_missing_node_says_so():
    with pytest.raises(NoDeviceError, match="cannot open /dev/dri/card9"):
        DrmDevice("/dev/dri/card9")


def test_a_node_of_another_kind_is_refused(tmp_path):
    plain = tmp_path / "card0"
    plain.write_bytes(b"")
    with pytest.raises(NoDeviceError, match="is not the NPU"):
        DrmDevice(str(plain))


def test_no_permission_names_the_group_and_the_way_in(tmp_path, monkeypatch):
    node = tmp_path / "card1"
    node.write_bytes(b"")

    def refused(path, flags, *rest):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(DeniedError, match="usermod -aG") as caught:
        DrmDevice(str(node))
    assert "log in again" in caught.value.line()
