"""Installing a kernel: what is refused before anything changes, and the way there and back on each board."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orkbench_tui.errors import DeniedError, InvalidFileError, OrkError, RefusedError, UsageError
from orkbench_tui.ops.guard import engine
from orkbench_tui.ops.guard.board import REHEARSAL, Answer
from orkbench_tui.ops.guard.declaration import Plan
from orkbench_tui.ops.kernel.artefacts import opened
from orkbench_tui.ops.kernel.deploy import DEPLOY
from orkbench_tui.ops.kernel.facts import kernel_facts
from orkbench_tui.ops.kernel.going_back import MARK_GOOD, ROLLBACK
from orkbench_tui.ops.kernel.health import post_boot_checks
from orkbench_tui.ops.kernel.status import kernel_status, status_document, status_lines
from orkbench_tui.sim.boot.content import device_tree, kernel_image
from tests.ops.guard.guarded_sim import SimEffects
from tests.ops.kernel.crash_disk import File, Link
from tests.ops.kernel.crash_points import booted
from tests.ops.kernel.kernel_scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


def _plan(scene: Scene, folder: Path | None = None) -> Plan:
    effects = SimEffects(scene.board)
    with opened([folder or scene.kernel]) as complete:
        plan = DEPLOY.plan(scene.guarded(effects), {"from": str(complete)})
    assert effects.count == 0
    return plan


def _deploy(scene: Scene) -> engine.Outcome:
    board = scene.guarded()
    with opened([scene.kernel]) as complete:
        return engine.run(board, DEPLOY.plan(board, {"from": str(complete)}))


def _set(scene: Scene, path: str, data: bytes) -> None:
    scene.disk._folder_for(path).entries[path.rpartition("/")[2]] = File(data, 0o644, True)


def _kernel(scene: Scene, pattern: str) -> Path:
    return next(scene.kernel.glob(pattern))


def _gzip(scene: Scene) -> None:
    path = _kernel(scene, "boot/vmlinuz-*")
    path.write_bytes(b"\x1f\x8b\x08" + path.read_bytes()[3:])


def _wrong_processor(scene: Scene) -> None:
    path = _kernel(scene, "boot/vmlinuz-*")
    data = path.read_bytes()
    path.write_bytes(data[:56] + b"RISC" + data[60:])


def _other_release_inside(scene: Scene) -> None:
    _kernel(scene, "boot/vmlinuz-*").write_bytes(kernel_image("6.1.99-other"))


def _cut_tree(scene: Scene) -> None:
    path = _kernel(scene, "boot/dtb-*/rockchip/*.dtb")
    path.write_bytes(path.read_bytes()[:80])


def _tree_of_another_board(scene: Scene) -> None:
    tree = device_tree(("xunlong,orangepi-5",), "Orange Pi 5", "npu@1", ("rockchip,rk3588-rknpu",))
    _kernel(scene, "boot/dtb-*/rockchip/*.dtb").write_bytes(tree)


def _no_initrd(scene: Scene) -> None:
    _kernel(scene, "boot/initrd.img-*").unlink()


def _bad_initrd(scene: Scene) -> None:
    _kernel(scene, "boot/initrd.img-*").write_bytes(b"not a RAM disk" * 8)


def _no_modules(scene: Scene) -> None:
    shutil.rmtree(scene.kernel / "lib")


def _no_dependencies(scene: Scene) -> None:
    _kernel(scene, "lib/modules/*/modules.dep").unlink()


def _modules_of_another(scene: Scene) -> None:
    folder = _kernel(scene, "lib/modules/*")
    (folder / "a.ko").write_bytes(b"\0vermagic=5.10.0-other SMP preempt\0")


def _module_of_none(scene: Scene) -> None:
    (_kernel(scene, "lib/modules/*") / "a.ko").write_bytes(b"text")


def _pipe_among_modules(scene: Scene) -> None:
    os.mkfifo(_kernel(scene, "lib/modules/*") / "a.ko")


def _pipe_for_a_tree(scene: Scene) -> None:
    for path in scene.kernel.glob("boot/dtb-*/rockchip/*.dtb"):
        path.unlink()
        os.mkfifo(path)


def _vast_image(scene: Scene) -> None:
    os.truncate(_kernel(scene, "boot/vmlinuz-*"), 1 << 40)


def _vast_initrd(scene: Scene) -> None:
    os.truncate(_kernel(scene, "boot/initrd.img-*"), 1 << 40)


def _no_ext4(scene: Scene) -> None:
    path = _kernel(scene, "boot/config-*")
    path.write_text(path.read_text().replace("CONFIG_EXT4_FS=y\n", ""))


def _overlay_gone(scene: Scene) -> None:
    text = scene.disk.read("/boot/armbianEnv.txt", 9999)
    _set(scene, "/boot/armbianEnv.txt", text + b"overlays=rk3588-pwm9\n")


def _user_overlay_gone(scene: Scene) -> None:
    text = scene.disk.read("/boot/armbianEnv.txt", 9999)
    _set(scene, "/boot/armbianEnv.txt", text + b"user_overlays=mine\n")


def _carriage_returns(scene: Scene) -> None:
    text = scene.disk.read("/boot/armbianEnv.txt", 9999)
    _set(scene, "/boot/armbianEnv.txt", text.replace(b"\n", b"\r\n"))


def _full(scene: Scene) -> None:
    scene.disk.free_bytes = 20 << 20


def _read_only(scene: Scene) -> None:
    scene.disk.read_only = True


def _fat(scene: Scene) -> None:
    scene.disk.type = "vfat"


def _link_replaced(scene: Scene) -> None:
    _set(scene, "/boot/Image", kernel_image("6.1.115-vendor-rk35xx"))


def _stranger(scene: Scene) -> None:
    boot = scene.disk._folder_for("/boot/x").entries
    for name in ("armbianEnv.txt", "boot.scr", "boot.cmd"):
        del boot[name]


def _same_release(scene: Scene) -> None:
    _set(scene, f"/boot/vmlinuz-{scene.release}", b"something else")


REFUSED: list[tuple[Callable[[Scene], None], str]] = [
    (_gzip, "gzip-compressed"),
    (_wrong_processor, "ARM64 magic"),
    (_other_release_inside, "take both from one build"),
    (_cut_tree, "cut short"),
    (_tree_of_another_board, "is for Orange Pi 5"),
    (_no_initrd, "mkinitramfs"),
    (_bad_initrd, "no known magic"),
    (_no_modules, "modules_install"),
    (_no_dependencies, "depmod"),
    (_modules_of_another, "was built for 5.10.0-other"),
    (_module_of_none, "it names none"),
    (_pipe_among_modules, "a.ko is neither file, folder nor link"),
    (_pipe_for_a_tree, "is not in the folder"),
    (_vast_image, "allowed below"),
    (_vast_initrd, "at most"),
    (_no_ext4, "EXT4_FS"),
    (_overlay_gone, "rk3588-pwm9"),
    (_user_overlay_gone, "overlay-user/mine"),
    (_carriage_returns, "CRLF"),
    (_full, "MiB wanted"),
    (_read_only, "read-only"),
    (_fat, "vfat"),
    (_link_replaced, "somebody replaced it"),
    (_stranger, "no boot layout this program knows"),
    (_same_release, "LOCALVERSION"),
]


@pytest.mark.parametrize(("break_it", "why"), REFUSED, ids=[fault.__name__[1:] for fault, _ in REFUSED])
def test_what_cannot_boot_is_refused_and_nothing_changes(
    scene: Scene, break_it: Callable[[Scene], None], why: str
) -> None:
    break_it(scene)
    before = scene.disk.names()
    plan = _plan(scene)
    assert plan.steps == () and why in " ".join(check.evidence for check in plan.refusals)
    with pytest.raises(RefusedError, match="nothing was changed"):
        engine.run(scene.guarded(), plan)
    assert scene.disk.names() == before


def test_a_network_boot_is_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    from orkbench_tui.ops.kernel import facts

    found = facts.find_layout(scene.disk, "root=/dev/nfs nfsroot=10.0.0.1:/srv ip=dhcp", scene.stock)
    assert found.method == "network" and "boots from the network" in found.refusal


def test_a_menu_edited_by_hand_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "rk3576")
    menu = scene.disk.read("/boot/extlinux/extlinux.conf", 99999)
    for text, why in (
        (menu + b"label mine\n\tlinux /boot/vmlinuz-mine\n", "labels mine"),
        (menu.replace(b"generated automatically", b"mine"), "edited by hand"),
        (menu.replace(b"default l0", b"default l9"), "not among its labels"),
        (menu + b"# \xff\xfe\n", "not UTF-8"),
    ):
        _set(scene, "/boot/extlinux/extlinux.conf", text)
        assert why in " ".join(check.evidence for check in _plan(scene).refusals)
    scene.close()


def test_no_kernel_two_kernels_and_a_bad_manifest_are_invalid(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidFileError, match="empty: no kernel image"):
        _plan(scene, tmp_path / "empty")
    (scene.kernel / "boot" / "vmlinuz-other").write_bytes(kernel_image("other"))
    with pytest.raises(InvalidFileError, match="several kernel images"):
        _plan(scene)
    (scene.kernel / "boot" / "vmlinuz-other").unlink()
    (scene.kernel / "manifest.json").write_text("[]")
    with pytest.raises(InvalidFileError, match="no JSON object"):
        _plan(scene)
    (scene.kernel / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(InvalidFileError, match="nested too deeply"):
        _plan(scene)
    os.truncate(scene.kernel / "manifest.json", 1 << 40)
    with pytest.raises(InvalidFileError, match="more than"):
        _plan(scene)


def test_a_rehearsal_is_not_put_on_a_board(scene: Scene) -> None:
    board = replace(scene.guarded(), unstartable=REHEARSAL)
    with opened([scene.kernel]) as complete:
        plan = DEPLOY.plan(board, {"from": str(complete)})
    assert "rehearsal" in " ".join(check.evidence for check in plan.refusals)


@pytest.mark.parametrize("name", ["rock-5b", "orange-pi-5-plus", "rk3576", "rk3566", "rocket"])
def test_there_and_back_on_every_board(tmp_path: Path, name: str) -> None:
    scene = Scene(tmp_path, name)
    first = scene.disk.names()
    assert _deploy(scene).ok
    after = scene.boot()
    assert after.release == scene.release and after.patches == {"import-domain"} and not after.fault
    again = _plan(scene)
    assert "mark-good" in again.refusals[0].evidence
    board = booted(scene)
    kept = engine.run(board, MARK_GOOD.plan(board, {"matmuls": "no"}))
    assert kept.ok, kept
    assert engine.run(board, ROLLBACK.plan(board, {})).ok
    assert scene.boot().release == scene.stock
    idle = ROLLBACK.plan(booted(scene, boot=2), {})
    assert idle.steps == () and not idle.refusals
    assert set(first) <= set(scene.disk.names())
    # The files are there still, so that the next installation only switches.
    verbs = [step.verb for step in _plan(scene).steps]
    assert "install" not in verbs and "tree" not in verbs and verbs[-1] == "boots"
    scene.close()


def test_marking_good_wants_the_new_kernel_running(scene: Scene) -> None:
    assert _deploy(scene).ok
    plan = MARK_GOOD.plan(scene.guarded(), {"matmuls": "no"})
    assert {check.what for check in plan.refusals} == {"the board has booted since", "the new kernel runs"}


def test_going_back_needs_a_place_to_go(scene: Scene) -> None:
    plan = ROLLBACK.plan(scene.guarded(), {})
    assert plan.refusals[0].evidence.endswith("no kernel was installed by ork")
    assert _deploy(scene).ok
    del scene.disk._folder_for("/boot/x").entries[f"vmlinuz-{scene.stock}"]
    plan = ROLLBACK.plan(scene.guarded(), {})
    assert f"/boot/vmlinuz-{scene.stock} is not there" in plan.refusals[0].evidence


def test_a_state_of_a_newer_version_is_left_alone(scene: Scene) -> None:
    assert _deploy(scene).ok
    text = scene.disk.read("/boot/npu-workbench/prev.state", 9999).replace(b"version=1", b"version=9")
    _set(scene, "/boot/npu-workbench/prev.state", text)
    with pytest.raises(RefusedError, match="newer ork"):
        ROLLBACK.plan(scene.guarded(), {})


def test_status_tells_what_each_kernel_holds_and_what_boots(scene: Scene) -> None:
    assert _deploy(scene).ok
    document = status_document(kernel_status(scene.guarded()))
    assert document["running"] == scene.stock and document["next"] == {"release": scene.release, "faults": []}
    by_release = {kernel["release"]: kernel for kernel in document["installed"]}
    assert by_release[scene.stock]["roles"] == ["running", "previous", "stock"]
    new = by_release[scene.release]
    assert new["roles"] == ["next", "on trial"]
    assert new["features"]["import-domain"] == {"present": True, "evidence": "named by the build manifest"}
    assert by_release[scene.stock]["features"]["import-domain"]["present"] is None
    scene.disk._folder_for("/boot/x").entries["Image"] = Link("vmlinuz-gone")
    lines = status_lines(kernel_status(scene.guarded()))
    assert any("fault: /boot/Image" in line for line in lines)


def test_the_manifest_is_kept_with_the_image_it_is_for(scene: Scene) -> None:
    assert _deploy(scene).ok
    kept = json.loads(scene.disk.read(f"/boot/npu-workbench/manifests/{scene.release}.json", 9999))
    assert kept["image_sha256"] == scene.disk.digest(f"/boot/vmlinuz-{scene.release}")
    # Another image under the same name has none of the patches it promises.
    _set(scene, f"/boot/vmlinuz-{scene.release}", kernel_image(scene.release))
    assert scene.boot().patches == frozenset()


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb here")
def test_packages_with_a_ram_disk_named_beside_them(scene: Scene, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(scene.kernel, tree)
    (tree / "manifest.json").unlink()
    (tree / "usr/lib").mkdir(parents=True)
    (tree / f"boot/dtb-{scene.release}").rename(tree / "usr/lib" / f"linux-image-{scene.release}")
    disk = tmp_path / f"initrd.img-{scene.release}"
    next(tree.glob("boot/initrd.img-*")).rename(disk)
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(
        "Package: linux-image-test\nVersion: 1\nArchitecture: arm64\nMaintainer: x <x@x>\nDescription: t\n"
    )
    package = tmp_path / "linux-image-test.deb"
    subprocess.run(["dpkg-deb", "-b", str(tree), str(package)], check=True, capture_output=True)
    with opened([package]) as folder:
        alone = DEPLOY.plan(scene.guarded(), {"from": str(folder)})
    assert alone.steps == () and "named beside the packages" in alone.refusal
    with opened([package, disk]) as folder:
        both = DEPLOY.plan(scene.guarded(), {"from": str(folder)})
        assert both.refusals == () and engine.run(scene.guarded(), both).ok
    with pytest.raises(UsageError, match="give one folder, or"), opened([scene.kernel, disk]):
        pass


@pytest.mark.parametrize(
    ("error", "driver_before", "driver", "state"),
    [
        (RefusedError("programs for this chip"), "0.9.8", "0.9.8", "warn"),
        (DeniedError("no permission"), "0.9.8", "0.9.8", "fail"),
        (None, "", "", "warn"),
        (None, "0.9.8", "", "fail"),
    ],
)
def test_what_no_kernel_can_show_does_not_speak_against_the_new_one(
    scene: Scene, error: OrkError | None, driver_before: str, driver: str, state: str
) -> None:
    def canary() -> tuple[Answer, ...]:
        assert error is not None
        raise error

    board = replace(scene.guarded(), canary=canary)
    facts = replace(kernel_facts(board), driver=driver)
    found = post_boot_checks(board, facts, {"driver": driver_before}, matmuls=True)[-1]
    assert found.what.startswith("every core computes") and found.state == state and found.evidence
