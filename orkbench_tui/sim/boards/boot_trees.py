"""What lies below /boot on the boards: the files that decide which kernel comes up next."""

from __future__ import annotations

import struct

__all__ = ["DTB", "KERNEL_IMAGE", "armbian", "extlinux"]

_IMAGE_BYTES = 36 << 20


def _image() -> bytes:
    """The 64-byte header of an arm64 kernel image; the rest is not kept here."""
    return struct.pack(
        "<IIQQQQQQ4sI", 0x91005A4D, 0x14000000, 0, _IMAGE_BYTES, 0xA, 0, 0, 0, b"ARM\x64", 0x40
    )


KERNEL_IMAGE = _image()
DTB = struct.pack(">II", 0xD00DFEED, 72) + b"\0" * 64


def armbian(release: str, soc: str, board_dtb: str, overlay: str) -> tuple[dict[str, bytes], dict[str, str]]:
    """Files and links of an Armbian /boot; ``overlay`` is the overlay prefix."""
    environment = (
        f"verbosity=1\nbootlogo=false\noverlay_prefix={overlay}\nfdtfile=rockchip/{board_dtb}\n"
        "rootdev=UUID=6a1c2a3e-1d52-4d8a-9d0e-0b6a3f3c9d10\nrootfstype=ext4\n"
    )
    files = {
        f"/boot/vmlinuz-{release}": KERNEL_IMAGE,
        f"/boot/uInitrd-{release}": b"\x27\x05\x19\x56" + b"\0" * 60,
        f"/boot/initrd.img-{release}": b"\x1f\x8b" + b"\0" * 62,
        f"/boot/config-{release}": f"# Linux/arm64 {release} Kernel Configuration\n".encode(),
        f"/boot/dtb-{release}/rockchip/{board_dtb}": DTB,
        f"/boot/dtb-{release}/rockchip/overlay/{overlay}-{soc}-pwm3.dtbo": DTB,
        "/boot/boot.cmd": b"# boot script; see armbianEnv.txt\n",
        "/boot/boot.scr": b"\x27\x05\x19\x56" + b"\0" * 60,
        "/boot/armbianEnv.txt": environment.encode(),
        "/boot/.next": b"",
        f"/lib/modules/{release}/modules.dep": b"",
    }
    links = {
        "/boot/Image": f"vmlinuz-{release}",
        "/boot/dtb": f"dtb-{release}",
        "/boot/uInitrd": f"uInitrd-{release}",
    }
    return files, links


def extlinux(release: str, dtb_folder: str, board_dtb: str) -> tuple[dict[str, bytes], dict[str, str]]:
    """Files and links of a board that boots by /boot/extlinux/extlinux.conf."""
    labels = ""
    for label, extra in (("l0", ""), ("l0r", " single")):
        labels += (
            f"label {label}\n\tmenu label Linux {release}\n\tlinux /boot/vmlinuz-{release}\n"
            f"\tinitrd /boot/initrd.img-{release}\n\tfdtdir {dtb_folder}/\n"
            f"\tappend root=UUID=6a1c2a3e-1d52-4d8a-9d0e-0b6a3f3c9d10 ro{extra}\n\n"
        )
    files = {
        f"/boot/vmlinuz-{release}": KERNEL_IMAGE,
        f"/boot/initrd.img-{release}": b"\x1f\x8b" + b"\0" * 62,
        "/boot/extlinux/extlinux.conf": f"default l0\nmenu title U-Boot menu\ntimeout 20\n\n{labels}".encode(),
        f"{dtb_folder}/rockchip/{board_dtb}": DTB,
        f"/lib/modules/{release}/modules.dep": b"",
    }
    return files, {"/boot/Image": f"vmlinuz-{release}"}
