"""A built kernel as it is handed over: a folder, or Debian packages, and which file of it is what."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orkbench_tui.errors import InvalidFileError, OrkError, UsageError
from orkbench_tui.ops.kernel.configuration import parse_configuration
from orkbench_tui.ops.kernel.formats import HEAD_BYTES, WRAPPED_MAGIC, image_release, wrap_initrd
from orkbench_tui.ops.work_folder import KERNEL, work_folder

__all__ = ["MAX_INITRD_BYTES", "Artefacts", "find_artefacts", "opened"]

MANIFEST = "manifest.json"
_IMAGES = ("boot/vmlinuz-*", "vmlinuz-*", "Image", "boot/Image", "arch/arm64/boot/Image")
_RAM_DISKS = ("initrd.img-", "uInitrd-")
_VERSION_SEARCH_BYTES = 64 << 20
MAX_INITRD_BYTES = 512 << 20
_MAX_CONFIG_BYTES = 4 << 20
_MAX_MANIFEST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Artefacts:
    """Files of one kernel on this machine; None for what was not handed over.

    ``inside`` is the release the image itself names, ``release`` that or the one of its file name. ``trees`` is the
    folder that holds ``rockchip/*.dtb``.
    """

    folder: Path
    image: Path
    release: str
    inside: str | None
    config: Path | None
    system_map: Path | None
    trees: Path | None
    initrd: Path | None
    wrapped: Path | None
    modules: Path | None
    manifest: Mapping[str, Any] | None

    def head(self, path: Path) -> bytes:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)

    def configured(self) -> dict[str, str]:
        """The build's configuration, symbol without CONFIG_ to value; empty without one."""
        if self.config is None:
            return {}
        with self.config.open("rb") as file:
            return parse_configuration(file.read(_MAX_CONFIG_BYTES).decode("utf-8", "replace"))

    @property
    def total_bytes(self) -> int:
        """Of everything that goes to /boot; the modules are counted apart."""
        files = [
            path for path in (self.image, self.config, self.system_map, self.initrd, self.wrapped) if path
        ]
        return sum(path.stat().st_size for path in files) + _tree_bytes(self.trees)

    @property
    def module_bytes(self) -> int:
        return _tree_bytes(self.modules)


def _tree_bytes(folder: Path | None) -> int:
    if folder is None:
        return 0
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


@contextlib.contextmanager
def opened(given: Sequence[Path]) -> Iterator[Path]:
    """A folder for ``find_artefacts`` with the kernel in a folder or in the packages named, for the block.

    Packages hold no RAM disk, their scripts make it: a file ``initrd.img-*`` or ``uInitrd-*`` may be named beside them.

    What is missing and can be made is made there, never in the folder given.

    Raises:
        UsageError: neither one folder nor packages.
        InvalidFileError: no kernel in there, or more than one.
    """
    with work_folder(KERNEL) as folder:
        if len(given) == 1 and given[0].is_dir():
            for entry in given[0].iterdir():
                (folder / entry.name).symlink_to(entry.resolve())
        else:
            for path in given:
                if not path.is_file():
                    seen = "a folder beside other things" if path.is_dir() else "neither a folder nor a file"
                    raise UsageError(
                        f"{path} is {seen}", do="give one folder, or .deb packages and an initrd.img-RELEASE"
                    )
                if path.name.startswith(_RAM_DISKS):
                    (folder / path.name).symlink_to(path.resolve())
                else:
                    _extract(path, folder)
        _complete(folder, ", ".join(map(str, given)))
        yield folder


def _complete(folder: Path, called: str) -> None:
    """Add the RAM disk as U-Boot wants it where only the plain one was handed over."""
    kernel = find_artefacts(folder, called)
    if kernel.wrapped is None and kernel.initrd is not None and _small(kernel.initrd):
        data = kernel.initrd.read_bytes()
        if not data.startswith(WRAPPED_MAGIC):
            data = wrap_initrd(data, "uInitrd", now=kernel.initrd.stat().st_mtime)
        (folder / f"uInitrd-{kernel.release}").write_bytes(data)


def _small(initrd: Path) -> bool:
    return initrd.stat().st_size <= MAX_INITRD_BYTES


def _extract(package: Path, folder: Path) -> None:
    """The files of a package, owned by us, outside of any system folder."""
    try:
        done = subprocess.run(
            ["dpkg-deb", "-x", str(package), str(folder)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise OrkError(
            f"cannot open {package}",
            why="there is no dpkg-deb here",
            do="unpack it elsewhere and give the folder",
        ) from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise InvalidFileError(str(package), why=said[-1] if said else "dpkg-deb cannot unpack it")


def find_artefacts(folder: Path, called: str = "") -> Artefacts:
    """``called`` is what to name the folder in an error.

    Raises:
        InvalidFileError: no kernel image, several, or a manifest that cannot be read.
    """
    called = called or str(folder)
    images = sorted({path for pattern in _IMAGES for path in folder.glob(pattern) if path.is_file()})
    real = {path.resolve() for path in images}
    if not images:
        raise InvalidFileError(
            called, why="no kernel image in it", do=f"it needs one of {', '.join(_IMAGES)}"
        )
    if len(real) > 1:
        names = ", ".join(str(path.relative_to(folder)) for path in images)
        raise InvalidFileError(called, why=f"several kernel images: {names}", do="leave the one to install")
    image = images[0]
    inside = _release_inside(image)
    named = image.name.removeprefix("vmlinuz-") if image.name.startswith("vmlinuz-") else ""
    release = named or inside or ""
    return Artefacts(
        folder,
        image,
        release,
        inside,
        _first(folder, f"boot/config-{release}", f"config-{release}", "config", ".config"),
        _first(folder, f"boot/System.map-{release}", f"System.map-{release}", "System.map"),
        _trees(folder, release),
        _first(folder, f"boot/initrd.img-{release}", f"initrd.img-{release}", "initrd.img"),
        _first(folder, f"boot/uInitrd-{release}", f"uInitrd-{release}", "uInitrd"),
        _modules(folder, release),
        _manifest(folder),
    )


def _release_inside(image: Path) -> str | None:
    with image.open("rb") as file:
        return image_release(file.read(_VERSION_SEARCH_BYTES))


def _first(folder: Path, *names: str) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _trees(folder: Path, release: str) -> Path | None:
    places = (
        f"boot/dtb-{release}",
        f"dtb-{release}",
        f"usr/lib/linux-image-{release}",
        f"lib/firmware/{release}/device-tree",
        "dtb",
        "dtbs",
        "arch/arm64/boot/dts",
    )
    return next((folder / place for place in places if list((folder / place).glob("rockchip/*.dtb"))), None)


def _modules(folder: Path, release: str) -> Path | None:
    places = (f"lib/modules/{release}", f"usr/lib/modules/{release}")
    return next((folder / place for place in places if (folder / place).is_dir()), None)


def _manifest(folder: Path) -> Mapping[str, Any] | None:
    path = folder / MANIFEST
    if not path.is_file():
        return None
    remedy = "`ork kernel patches build` writes one; without it the kernel can be installed too"
    if path.stat().st_size > _MAX_MANIFEST_BYTES:
        raise InvalidFileError(path.name, why=f"more than {_MAX_MANIFEST_BYTES} bytes", do=remedy)
    try:
        found = json.loads(path.read_text("utf-8"))
    except RecursionError:
        raise InvalidFileError(path.name, why="nested too deeply", do=remedy) from None
    except ValueError as error:
        raise InvalidFileError(path.name, why=f"not JSON ({error})", do=remedy) from error
    if not isinstance(found, dict):
        raise InvalidFileError(path.name, why="it is no JSON object", do=remedy)
    return found
