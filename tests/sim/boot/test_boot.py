"""The disk a simulated board boots from, and which kernel comes up from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orkbench_tui.sim.board_files.client_time import ClientProcesses
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.boards.catalogue import BOARDS, profile_of
from orkbench_tui.sim.boot.content import kernel_image
from orkbench_tui.sim.boot.disk import BootDisk, on_disk
from orkbench_tui.sim.boot.loader import boot
from orkbench_tui.sim.boot.rehearsal import PATCHES, make_rehearsal
from orkbench_tui.sim.faults.catalogue import Event
from orkbench_tui.sim.machine import Machine

RELEASE = profile_of("rock-5b").release


def _disk(folder: Path, board: str = "rock-5b") -> BootDisk:
    disk, profile = BootDisk(folder / "disk"), profile_of(board)
    disk.deliver(board, profile.files, profile.links)
    return disk


@pytest.mark.parametrize("board", BOARDS)
def test_every_board_boots_the_kernel_it_is_delivered_with(tmp_path: Path, board: str) -> None:
    found = boot(_disk(tmp_path, board))
    assert (found.fault, found.release, found.patches) == ("", profile_of(board).release, frozenset())


def _gone(path: str) -> Callable[[Path], None]:
    return lambda root: (root / path).unlink()


def _put(path: str, data: bytes) -> Callable[[Path], None]:
    return lambda root: (root / path).write_bytes(data) and None


IMAGE = kernel_image(RELEASE)
BROKEN: list[tuple[Callable[[Path], None], str]] = [
    (_gone("boot/Image"), "cannot load /boot/Image"),
    (
        _put(f"boot/vmlinuz-{RELEASE}", b"\x1f\x8b" + IMAGE[2:56] + b"GZIP" + IMAGE[60:]),
        "Bad Linux ARM64 Image magic",
    ),
    (_put(f"boot/vmlinuz-{RELEASE}", IMAGE[:3000]), "cut short"),
    (_put(f"boot/vmlinuz-{RELEASE}", IMAGE[:64] + b"\0" * 9000), "does not start"),
    (
        _put(f"boot/dtb-{RELEASE}/rockchip/rk3588-rock-5b.dtb", b"\xd0\x0d\xfe\xed\0\0\x10\0"),
        "no valid device tree",
    ),
    (_gone("boot/dtb"), "no valid device tree"),
    (_put(f"boot/uInitrd-{RELEASE}", b"\x1f\x8b" + b"\0" * 62), "Wrong Ramdisk Image Format"),
    (_gone("boot/armbianEnv.txt"), "no boot script"),
]


@pytest.mark.parametrize(("damage", "fault"), BROKEN)
def test_a_disk_without_what_a_boot_loader_wants_does_not_come_up(
    tmp_path: Path, damage: Callable[[Path], None], fault: str
) -> None:
    disk = _disk(tmp_path)
    damage(disk.folder)
    assert fault in boot(disk).fault


def test_without_modules_the_root_is_not_found(tmp_path: Path) -> None:
    disk = _disk(tmp_path)
    for path in (disk.folder / "lib/modules" / RELEASE).iterdir():
        path.unlink()
    assert "no modules" in boot(disk).fault


def test_a_menu_without_its_default_does_not_come_up(tmp_path: Path) -> None:
    disk = _disk(tmp_path, "rk3576")
    menu = disk.folder / "boot/extlinux/extlinux.conf"
    menu.write_text(menu.read_text().replace("default l0", "default gone"))
    assert boot(disk).fault == "the menu has no label gone"


def test_patches_count_for_the_image_the_manifest_was_written_for(tmp_path: Path) -> None:
    disk = _disk(tmp_path)
    place = disk.folder / "boot/npu-workbench/manifests" / f"{RELEASE}.json"
    place.parent.mkdir(parents=True)
    image = (disk.folder / f"boot/vmlinuz-{RELEASE}").read_bytes()
    digest = hashlib.sha256(image).hexdigest()
    place.write_text(json.dumps({"image_sha256": digest, "patches": ["import-domain", "sram"]}))
    assert boot(disk).patches == {"import-domain", "sram"} and not boot(disk).sram
    for text in (
        json.dumps({"image_sha256": "other", "patches": ["import-domain"]}),
        "[",
        "[]",
        '{"patches": 3}',
    ):
        place.write_text(text)
        assert boot(disk).patches == frozenset()


def _machine(tmp_path: Path) -> Machine:
    return Machine("fast", BoardVariant(), ClientProcesses(), disk=tmp_path / "disk")


def _install(machine: Machine, tmp_path: Path, patches: tuple[str, ...]) -> str:
    """Put a rehearsal onto the disk by hand and make it the next to boot."""
    release = make_rehearsal(tmp_path / "kernel", "rock-5b", patches)
    assert machine.disk is not None
    root = machine.disk.folder
    for path in (tmp_path / "kernel").rglob("*"):
        if path.is_file() and path.name != "manifest.json":
            place = root / path.relative_to(tmp_path / "kernel")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
    image = (root / f"boot/vmlinuz-{release}").read_bytes()
    place = root / f"boot/npu-workbench/manifests/{release}.json"
    place.parent.mkdir(parents=True)
    place.write_text(
        json.dumps({"image_sha256": hashlib.sha256(image).hexdigest(), "patches": list(patches)})
    )
    for name, target in (("Image", f"vmlinuz-{release}"), ("dtb", f"dtb-{release}")):
        (root / "boot" / name).unlink()
        (root / "boot" / name).symlink_to(target)
    return release


def test_another_kernel_comes_up_after_a_restart_with_its_name_and_patches(tmp_path: Path) -> None:
    machine = _machine(tmp_path)
    assert machine.release == RELEASE and not machine.kernel.variant.patch_import_domain
    release = _install(machine, tmp_path, ("import-domain", "sram"))
    assert machine.release == RELEASE
    machine.restart(Event.REBOOT)
    assert machine.release == release and not machine.kernel.wedged
    assert machine.kernel.variant.patch_import_domain and machine.kernel.variant.sram
    assert machine.tree.read("/proc/sys/kernel/osrelease").data == f"{release}\n".encode()
    assert release in machine.tree.read("/proc/version").text()
    assert any(release.encode() in record for record in machine.tree.kernel_log())
    machine.close()


def test_the_disk_outlives_restarts_and_is_read_through_the_board_s_files(tmp_path: Path) -> None:
    machine = _machine(tmp_path)
    assert machine.disk is not None
    (machine.disk.folder / "boot/note").write_text("mine")
    machine.restart(Event.POWER_CYCLE)
    assert machine.tree.read("/boot/note").data == b"mine" and "note" in machine.tree.list("/boot")
    assert machine.tree.readlink("/boot/Image") == f"vmlinuz-{RELEASE}"
    assert machine.tree.read("/boot/Image").data[56:60] == b"ARM\x64"
    assert machine.tree.read("/boot").errno_name == "EISDIR"
    (machine.disk.folder / "boot/loop").symlink_to("loop")
    assert machine.tree.read("/boot/loop").errno_name == "ELOOP"
    machine.close()
    again = _machine(tmp_path)
    assert again.tree.read("/boot/note").data == b"mine"
    assert again.disk is not None
    profile = profile_of("rock-5b")
    again.disk.deliver("rock-5b", profile.files, profile.links, anew=True)
    assert not (again.disk.folder / "boot/note").exists()
    again.close()


def test_a_kernel_that_does_not_come_up_leaves_a_dead_board(tmp_path: Path) -> None:
    machine = _machine(tmp_path)
    assert machine.disk is not None
    (machine.disk.folder / f"boot/vmlinuz-{RELEASE}").write_bytes(b"\0" * 100)
    machine.restart(Event.REBOOT)
    assert "Bad Linux ARM64 Image magic" in machine.kernel.wedged
    machine.close()


def test_every_patch_of_a_rehearsal_can_be_made(tmp_path: Path) -> None:
    for number, name in enumerate(PATCHES):
        release = make_rehearsal(tmp_path / str(number), "rock-5b", (name,))
        assert json.loads((tmp_path / str(number) / "manifest.json").read_text())["patches"] == [name]
        assert release.endswith("-ork-rehearsal1")
    with pytest.raises(FileExistsError):
        make_rehearsal(tmp_path / "0", "rock-5b", ())
    assert on_disk("/boot/x") and not on_disk("/bootx") and not on_disk("/proc/version")
