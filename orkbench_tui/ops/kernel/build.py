"""Cross-build a kernel outside its tree, and lay the result out as ``ork kernel deploy`` takes it."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orkbench_tui.errors import InvalidFileError, OrkError, UsageError
from orkbench_tui.ops.kernel.artefacts import MANIFEST
from orkbench_tui.ops.kernel.patch_series import Patch, Series
from orkbench_tui.ops.kernel.patch_tree import State, Tree, check_patches

__all__ = ["BuildOrder", "build_kernel"]

_IMAGE = "arch/arm64/boot/Image"
_TREES = "arch/arm64/boot/dts/rockchip"


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """``config`` is the base configuration (that of the running kernel); ``suffix`` makes the release its own."""

    tree: Tree
    series: Series
    patches: tuple[Patch, ...]
    out: Path
    config: Path
    suffix: str
    cross: str
    jobs: int


def build_kernel(order: BuildOrder, tell: Callable[[str], None]) -> Path:
    """Run the kernel's own build; the folder with the kernel, its trees, modules and manifest.

    Raises:
        UsageError: the folder is inside the tree or holds something; no such configuration.
        InvalidFileError: the tree is no whole kernel.
        OrkError: a step failed; the message ends with its last line.
    """
    _refuse(order)
    objects, stage = order.out / "objects", order.out / "kernel"
    objects.mkdir(parents=True)
    shutil.copyfile(order.config, objects / ".config")
    symbols = {key: value for patch in order.patches for key, value in patch.config.items()}
    with (objects / ".config").open("a") as file:
        file.write(f'CONFIG_LOCALVERSION="{order.suffix}"\n')
        file.writelines(f"CONFIG_{key}={value}\n" for key, value in symbols.items())
    make = _Make(order, objects, tell)
    make("olddefconfig")
    make("Image", "modules", "dtbs")
    make("modules_install", f"INSTALL_MOD_PATH={stage}", "INSTALL_MOD_STRIP=1")
    release = make("-s", "kernelrelease").strip().splitlines()[-1]
    _lay_out(objects, stage, release)
    (stage / MANIFEST).write_text(json.dumps(_manifest(order, objects, release), indent=1) + "\n")
    return stage


def _refuse(order: BuildOrder) -> None:
    folder = order.tree.folder.resolve()
    if not order.tree.whole or not (folder / "Makefile").is_file():
        raise InvalidFileError(
            str(folder), why="no whole kernel tree", do="a module alone is built by its own Makefile or DKMS"
        )
    if order.out.resolve().is_relative_to(folder):
        raise UsageError(f"{order.out} is inside the tree", do="build outside of it")
    if order.out.exists() and any(order.out.iterdir()):
        raise UsageError(f"{order.out} is not empty", do="name a new folder")
    if not order.config.is_file():
        raise UsageError(
            f"no configuration at {order.config}",
            do="take that of the running kernel: zcat /proc/config.gz > config",
        )


@dataclass(frozen=True, slots=True)
class _Make:
    order: BuildOrder
    objects: Path
    tell: Callable[[str], None]

    def __call__(self, *words: str) -> str:
        """One call of make; its output. Raises OrkError."""
        self.tell(f"make {' '.join(words)}")
        command = ["make", "-C", str(self.order.tree.folder.resolve()), f"O={self.objects.resolve()}"]
        command += ["ARCH=arm64", f"CROSS_COMPILE={self.order.cross}", f"-j{self.order.jobs}", *words]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        except FileNotFoundError:
            raise OrkError("the kernel cannot be built", why="there is no make here") from None
        (self.order.out / "build.log").open("a").write(done.stdout + done.stderr)
        if done.returncode:
            lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            raise OrkError(
                f"make {words[0]} failed",
                why=lines[-1] if lines else f"exit code {done.returncode}",
                do=f"see {self.order.out / 'build.log'}",
            )
        self.tell("")
        return done.stdout


def _lay_out(objects: Path, stage: Path, release: str) -> None:
    boot = stage / "boot"
    trees = boot / f"dtb-{release}" / "rockchip"
    (trees / "overlay").mkdir(parents=True)
    image = objects / _IMAGE
    if not image.is_file():
        raise OrkError("the build made no image", why=f"{_IMAGE} is not there")
    shutil.copyfile(image, boot / f"vmlinuz-{release}")
    shutil.copyfile(objects / ".config", boot / f"config-{release}")
    if (objects / "System.map").is_file():
        shutil.copyfile(objects / "System.map", boot / f"System.map-{release}")
    for path in sorted((objects / _TREES).glob("*.dtb")):
        shutil.copyfile(path, trees / path.name)
    for path in sorted((objects / _TREES).rglob("*.dtbo")):
        shutil.copyfile(path, trees / "overlay" / path.name)
    # Links into the build machine would dangle on the board.
    for name in ("build", "source"):
        (stage / "lib" / "modules" / release / name).unlink(missing_ok=True)


def _manifest(order: BuildOrder, objects: Path, release: str) -> Mapping[str, Any]:
    applied = [
        finding.patch.id
        for finding in check_patches(order.tree, order.series, order.series.patches)
        if finding.state is State.APPLIED
    ]
    return {
        "release": release,
        "source": _said(order.tree.folder, "git", "rev-parse", "HEAD") or "no git repository",
        "source_changed": bool(_said(order.tree.folder, "git", "status", "--porcelain")),
        "driver": order.tree.version,
        "patches": applied,
        "config_sha256": hashlib.sha256((objects / ".config").read_bytes()).hexdigest(),
        "compiler": _said(order.tree.folder, f"{order.cross}gcc", "--version").split("\n")[0] or "unknown",
    }


def _said(folder: Path, *command: str) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
