"""Operations that write to the board's disk, and the driver taken off its device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orkbench_tui.errors import RefusedError, UsageError
from orkbench_tui.ops.guard import engine
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.groups import members, parse_groups, with_member
from orkbench_tui.ops.operations.registry import OPERATIONS
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.ops.guard.guarded_sim import SimEffects, guarded
from tests.ops.kernel.kernel_scene import Scene

WATCHDOG = "/etc/systemd/system.conf.d/ork-watchdog.conf"


class _Effects(SimEffects):
    """Groups are changed on the scene's disk."""

    scene: Scene

    def set_membership(self, user: str, group: str, inside: bool) -> None:
        text = self.scene.disk.read("/etc/group", 9999).decode()
        node = self.scene.disk._file("/etc/group")
        self._effect(lambda: setattr(node, "data", with_member(text, user, group, inside=inside).encode()))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


def _board(scene: Scene) -> GuardedBoard:
    effects = _Effects(scene.board)
    effects.scene = scene
    return scene.guarded(effects)


def _run(scene: Scene, name: str, **words: str) -> engine.Outcome:
    board = _board(scene)
    return engine.run(board, OPERATIONS[name].plan(board, words))


def test_the_watchdog_is_armed_and_let_go(scene: Scene) -> None:
    assert _run(scene, "watchdog", seconds="20").ok
    assert scene.disk.read(WATCHDOG, 99) == b"[Manager]\nRuntimeWatchdogSec=20\n"
    again = OPERATIONS["watchdog"].plan(_board(scene), {"seconds": "20"})
    assert again.steps == () and dict(again.facts)["last boot by"] == "an ordinary boot"
    assert _run(scene, "watchdog", mode="disarm").ok and scene.disk.kind(WATCHDOG) is None
    assert OPERATIONS["watchdog"].plan(_board(scene), {"mode": "disarm"}).steps == ()
    for words in ({"seconds": "5"}, {"seconds": "x"}, {"mode": "feed"}):
        with pytest.raises(UsageError, match="allowed"):
            OPERATIONS["watchdog"].plan(_board(scene), words)


def test_a_user_is_set_up_and_taken_back(scene: Scene) -> None:
    before = scene.disk.names()
    group = scene.disk.read("/etc/group", 9999)
    assert _run(scene, "setup", user="mia").ok
    groups = parse_groups(scene.disk.read("/etc/group", 9999).decode())
    assert members(groups, "mia", "render") == members(groups, "mia", "video") == "member"
    assert b'GROUP="render"' in scene.disk.read("/etc/udev/rules.d/60-ork-npu.rules", 999)
    assert b"gid=105" in scene.disk.read("/etc/systemd/system/sys-kernel-debug.mount.d/ork.conf", 999)
    assert OPERATIONS["setup"].plan(_board(scene), {"user": "mia"}).steps == ()
    assert _run(scene, "setup", user="mia", mode="undo").ok
    assert scene.disk.read("/etc/group", 9999) == group
    left = set(scene.disk.names()) - set(before)
    assert left <= {"/etc/udev", "/etc/udev/rules.d", "/etc/systemd/system/sys-kernel-debug.mount.d"}


@pytest.mark.parametrize("user", ["", "root", "a b", "x;reboot", "-rf"])
def test_a_user_that_is_none_is_refused(scene: Scene, user: str) -> None:
    with pytest.raises(UsageError, match="plain user"):
        OPERATIONS["setup"].plan(_board(scene), {"user": user})


def test_without_the_groups_nothing_is_set_up(scene: Scene) -> None:
    scene.disk._file("/etc/group").data = b"root:x:0:\n"
    plan = OPERATIONS["setup"].plan(_board(scene), {"user": "mia"})
    assert plan.refusals[0].evidence == "render, video"
    with pytest.raises(RefusedError):
        engine.run(_board(scene), plan)


def test_groups_are_read_and_written_line_by_line() -> None:
    text = "a:x:1:u,v\nbroken\nb:x:2:\n"
    assert with_member(text, "w", "a", inside=True) == "a:x:1:u,v,w\nbroken\nb:x:2:\n"
    assert with_member(text, "u", "a", inside=False) == "a:x:1:v\nbroken\nb:x:2:\n"
    assert with_member(text, "u", "none", inside=True) == text
    assert (
        members(parse_groups(text), "v", "a") == "member"
        and members(parse_groups(text), "v", "c") == "no member"
    )


def test_the_driver_is_taken_off_and_put_back(sim: InProcessBoard, tmp_path: Path) -> None:
    board = guarded(sim, tmp_path)
    outcome = engine.run(board, OPERATIONS["rebind"].plan(board, {}))
    assert outcome.ok, outcome
    assert "fdab0000.npu" in sim.files().list("/sys/bus/platform/drivers/RKNPU")


def test_a_rebind_wants_nothing_open_and_domain_zero(sim: InProcessBoard, tmp_path: Path) -> None:
    device = sim.device()
    plan = OPERATIONS["rebind"].plan(guarded(sim, tmp_path), {})
    assert "no program holds the NPU" in {check.what for check in plan.refusals}
    device.close()
    sim.kernel.log.driver(6, "switch iommu domain from 0 to 3")
    plan = OPERATIONS["rebind"].plan(guarded(sim, tmp_path), {})
    assert [check.what for check in plan.refusals] == ["domain 0 is live"]


def test_a_rebind_that_dies_half_way_is_put_back_by_resume(sim: InProcessBoard, tmp_path: Path) -> None:
    from tests.ops.guard.guarded_sim import Killed

    board = guarded(sim, tmp_path, SimEffects(sim, stop_at=2, after=True))
    with pytest.raises(Killed):
        engine.run(board, OPERATIONS["rebind"].plan(board, {}))
    folder = "/sys/bus/platform/drivers/RKNPU"
    assert "fdab0000.npu" not in sim.files().list(folder)
    (outcome,) = engine.resume(guarded(sim, tmp_path))
    assert outcome.kind == engine.ROLLED_BACK and "fdab0000.npu" in sim.files().list(folder)


def test_a_reboot_is_refused_when_nothing_would_come_up(scene: Scene) -> None:
    assert not OPERATIONS["reboot"].plan(_board(scene), {}).refusals
    scene.disk._file(f"/boot/vmlinuz-{scene.stock}").data = b"\0" * 12
    assert "12 bytes" in OPERATIONS["reboot"].plan(_board(scene), {}).refusals[0].evidence
    anyway = OPERATIONS["reboot"].plan(_board(scene), {"anyway": "yes"})
    assert not anyway.refusals and anyway.steps[-1].verb == "reboot"
    elsewhere = replace(_board(scene), disk=None)
    assert OPERATIONS["reboot"].plan(elsewhere, {}).checks[0].state == "warn"
