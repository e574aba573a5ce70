"""What the simulated board's boot loader does with its disk: which kernel comes up, or why none does.

It looks as U-Boot and the kernel do: at headers, not at promises. A kernel that was installed with a build manifest
for exactly this image has the patches the manifest names; any other kernel is the stock driver under its own release.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import struct
import subprocess
from dataclasses import dataclass

from orkbench_tui.sim.boot.disk import BootDisk

__all__ = ["Booted", "boot", "run_trial_unit"]

_OWN = "/boot/npu-workbench"
_UNIT = "/etc/systemd/system/multi-user.target.wants/ork-kernel-trial.service"
_IMAGE_BYTES = 64 << 20
_TEXT_BYTES = 1 << 20
_ENVIRONMENTS = ("/boot/armbianEnv.txt", "/boot/dietpiEnv.txt", "/boot/orangepiEnv.txt")
_MENU = "/boot/extlinux/extlinux.conf"
_DTB = b"\xd0\x0d\xfe\xed"


@dataclass(frozen=True, slots=True)
class Booted:
    """``fault`` is why no kernel came up, "" when one did."""

    release: str = ""
    patches: frozenset[str] = frozenset()
    sram: bool = False
    fault: str = ""


def boot(disk: BootDisk) -> Booted:
    """Start the kernel the disk's boot script or menu names."""
    environment = next((path for path in _ENVIRONMENTS if disk.data(path, 1) is not None), None)
    if environment is not None:
        return _by_script(disk, environment)
    if disk.data(_MENU, 1) is not None:
        return _by_menu(disk)
    return Booted(fault="no boot script and no menu on the disk")


def _by_script(disk: BootDisk, environment: str) -> Booted:
    text = (disk.data(environment, _TEXT_BYTES) or b"").decode("utf-8", "replace")
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    tree = f"/boot/dtb/{values.get('fdtfile', '')}"
    ram_disk = disk.data("/boot/uInitrd", 64)
    if ram_disk is not None and (ram_disk[:4] != b"\x27\x05\x19\x56" or ram_disk[28:31] != b"\x05\x16\x03"):
        return Booted(fault="Wrong Ramdisk Image Format: /boot/uInitrd")
    return _kernel(disk, "/boot/Image", tree)


def _by_menu(disk: BootDisk) -> Booted:
    text = (disk.data(_MENU, _TEXT_BYTES) or b"").decode("utf-8", "replace")
    default = re.search(r"(?mi)^\s*default\s+(\S+)", text)
    label = re.escape(default[1]) if default else r"\S+"
    block = re.search(rf"(?msi)^\s*label\s+{label}\s*$(.*?)(?=^\s*label\s|\Z)", text)
    if block is None:
        return Booted(fault=f"the menu has no label {default[1] if default else ''}")
    values = {m[1].lower(): m[2].strip() for m in re.finditer(r"(?m)^\s*(\w+)\s+(.+)$", block[1])}
    initrd = values.get("initrd")
    if initrd and disk.data(_board_path(initrd), 1) is None:
        return Booted(fault=f"cannot load {initrd}")
    folder = values.get("fdtdir", "").rstrip("/")
    names = disk.list(f"{_board_path(folder)}/rockchip") if folder else []
    tree = f"{_board_path(folder)}/rockchip/{names[0]}" if names else _board_path(values.get("fdt", ""))
    return _kernel(disk, _board_path(values.get("linux", values.get("kernel", ""))), tree)


def _board_path(path: str) -> str:
    inside = path.startswith(("/boot/", "/usr/", "/lib/"))
    return path if inside or not path else posixpath.join("/boot", path.lstrip("/"))


def _kernel(disk: BootDisk, path: str, tree: str) -> Booted:
    image = disk.data(path, _IMAGE_BYTES)
    if image is None:
        return Booted(fault=f"cannot load {path}")
    if len(image) < 64 or image[56:60] != b"ARM\x64":
        return Booted(fault=f"Bad Linux ARM64 Image magic: {path}")
    if len(image) < struct.unpack_from("<Q", image, 16)[0] // 2:
        return Booted(fault=f"{path} is cut short: the kernel stops in its first page fault")
    found = re.search(rb"Linux version (\S+) ", image)
    if found is None:
        return Booted(fault=f"{path} does not start")
    release = found[1].decode("ascii", "replace")
    flat = disk.data(tree, _TEXT_BYTES)
    if flat is None or flat[:4] != _DTB or int.from_bytes(flat[4:8], "big") > len(flat):
        return Booted(fault=f"no valid device tree: {tree}")
    if not disk.list(f"/lib/modules/{release}"):
        return Booted(fault=f"no modules for {release}: the root file system cannot be mounted")
    patches = _patches(disk, release, image)
    return Booted(release, patches, b"rockchip,sram" in flat and "sram" in patches)


def _patches(disk: BootDisk, release: str, image: bytes) -> frozenset[str]:
    """What the build manifest of this very image names."""
    data = disk.data(f"{_OWN}/manifests/{release}.json", _TEXT_BYTES)
    try:
        manifest = json.loads(data or b"{}")
        if manifest.get("image_sha256") != hashlib.sha256(image).hexdigest():
            return frozenset()
        return frozenset(str(name) for name in manifest.get("patches", []))
    except (ValueError, AttributeError, TypeError):
        return frozenset()


def run_trial_unit(disk: BootDisk, release: str) -> None:
    """What init does at the end of a boot: run the unit that watches a trial.

    Its ten minutes do not pass here: a trial ends at the next boot, as on a board that is switched off meanwhile.
    """
    script = disk.place(f"{_OWN}/trial.sh")
    if disk.readlink(_UNIT) is None or script is None or not script.is_file():
        return
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "ROOT": str(disk.folder),
        "RELEASE": release,
        "WAIT_S": "no",
        "REBOOT": "true",
    }
    subprocess.run(
        ["sh", str(script)],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
