"""The shell scripts beside the kernels, run by a shell on a folder."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from orkbench_tui.ops.disk import HostDisk
from orkbench_tui.ops.guard import engine
from orkbench_tui.ops.kernel.artefacts import opened
from orkbench_tui.ops.kernel.deploy import DEPLOY
from orkbench_tui.sim.boot.disk import BootDisk
from orkbench_tui.sim.boot.loader import boot, run_trial_unit
from tests.ops.kernel.kernel_scene import Scene, delivered


class _Installed:
    """A folder with a kernel installed on it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.scene = Scene(folder, name)
        self.root = folder / "disk"
        self.disk = BootDisk(self.root)
        self.disk.deliver(name, *delivered(name))
        board = replace(self.scene.guarded(), disk=HostDisk(str(self.root), str(self.root / "proc/mounts")))
        with opened([self.scene.kernel]) as complete:
            outcome = engine.run(board, DEPLOY.plan(board, {"from": str(complete)}))
        assert outcome.ok, outcome

    def run(self, script: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        place = self.root / "boot/npu-workbench" / script
        return subprocess.run(
            ["sh", str(place), *words],
            env={"PATH": os.environ["PATH"], "ROOT": str(self.root), **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @property
    def next(self) -> str:
        return boot(self.disk).release


@pytest.fixture(params=["rock-5b", "rk3576"])
def installed(tmp_path: Path, request: pytest.FixtureRequest) -> _Installed:
    made = _Installed(tmp_path, request.param)
    request.addfinalizer(made.scene.close)
    return made


def test_going_back_by_script_works_without_this_program_and_only_once(installed: _Installed) -> None:
    assert installed.next == installed.scene.release
    dry = installed.run("rollback.sh", "--dry-run")
    assert dry.returncode == 0 and "->" in dry.stdout and installed.next == installed.scene.release
    first = installed.run("rollback.sh")
    assert first.returncode == 0 and installed.next == installed.scene.stock
    assert not (installed.root / "boot/npu-workbench/trial.state").exists()
    second = installed.run("rollback.sh", "--stock")
    assert second.returncode == 0 and "->" not in second.stdout and "as it was" in second.stdout
    assert not [name for name in os.listdir(installed.root / "boot") if ".ork-" in name]  # noqa: PTH208


def test_the_script_looks_before_it_changes_anything(installed: _Installed) -> None:
    state = installed.root / "boot/npu-workbench/prev.state"
    text = state.read_text()
    state.write_text(text.replace(installed.scene.stock, "gone").replace("default=l0", "default=gone"))
    refused = installed.run("rollback.sh")
    assert refused.returncode == 7 and "nothing was changed" in refused.stderr
    assert installed.next == installed.scene.release
    state.unlink()
    assert installed.run("rollback.sh").returncode == 7
    assert installed.run("rollback.sh", "--now").returncode == 2


def test_a_trial_is_one_boot(installed: _Installed) -> None:
    run_trial_unit(installed.disk, installed.scene.release)
    assert installed.next == installed.scene.release
    run_trial_unit(installed.disk, installed.scene.release)
    assert installed.next == installed.scene.stock


def test_a_trial_ends_when_the_wait_does_or_another_kernel_runs(installed: _Installed) -> None:
    marker = installed.root / "rebooted"
    reboot = f"touch {marker}"
    done = installed.run("trial.sh", RELEASE=installed.scene.release, WAIT_S="0", REBOOT=reboot)
    assert done.returncode == 0 and "not marked good within 0 s" in done.stdout and marker.exists()
    assert installed.next == installed.scene.stock
    assert installed.run("trial.sh", RELEASE="x", WAIT_S="0").returncode == 0


def test_another_kernel_than_the_one_on_trial_goes_back(installed: _Installed) -> None:
    done = installed.run("trial.sh", RELEASE="6.0-other", WAIT_S="0", REBOOT="true")
    assert "was to run and 6.0-other does" in done.stdout and installed.next == installed.scene.stock
