"""What boot files look like from inside: arm64 images, device trees, initial RAM disks, boot scripts.

Pure functions over bytes. A judgement is None for a file that looks right, else why it is not and the remedy.
Sources: the arm64 boot protocol, the flattened device-tree format, U-Boot's legacy image header.
"""

from __future__ import annotations

import re
import struct
import time
import zlib
from dataclasses import dataclass

__all__ = [
    "DTB_MAGIC",
    "HEAD_BYTES",
    "INITRD_MAGICS",
    "WRAPPED_MAGIC",
    "ImageHeader",
    "Judgement",
    "image_header",
    "image_release",
    "judge_device_tree",
    "judge_image",
    "judge_initrd",
    "judge_wrapped_initrd",
    "wrap_initrd",
]

Judgement = tuple[str, str]

HEAD_BYTES = 64
DTB_MAGIC = b"\xd0\x0d\xfe\xed"
WRAPPED_MAGIC = b"\x27\x05\x19\x56"
INITRD_MAGICS = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7z", b"\x02\x21\x4c\x18", b"0707")
MAX_IMAGE_BYTES = 64 << 20

_ARM64 = b"ARM\x64"
_WRAPPED = struct.Struct(">IIIIIIIBBBB32s")
_OS_LINUX, _ARCH_ARM64, _TYPE_RAMDISK = 5, 22, 3
_COPY_AGAIN = "copy it again and compare the sha256"
_VERSION = re.compile(rb"Linux version (\S{1,64}) \([^\n\0]{4,}")


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """Of a flat arm64 image; bytes."""

    text_offset: int
    image_size: int


def image_header(head: bytes) -> ImageHeader | None:
    """The header in the first 64 bytes; None without its magic."""
    if len(head) < HEAD_BYTES or head[56:60] != _ARM64:
        return None
    text_offset, image_size = struct.unpack_from("<QQ", head, 8)
    return ImageHeader(text_offset, image_size)


def judge_image(head: bytes, size: int | None) -> Judgement | None:
    """Why these first bytes are no kernel that booti starts. ``size`` is that of the whole file, None if unknown."""
    if size == 0:
        return "the file is empty", _COPY_AGAIN
    if size is not None and size < HEAD_BYTES:
        return f"the file has {size} bytes: cut short", _COPY_AGAIN
    if not head:
        return None
    if head[:2] == b"\x1f\x8b":
        return "the image is gzip-compressed (1f 8b)", "decompress it first: booti expects a flat Image"
    if head[4:8] == b"zimg":
        return "an EFI zboot image (zimg)", "use the flat Image of the same build"
    if head[:4] == b"\x7fELF":
        return "an ELF file (vmlinux), not a boot image", "use arch/arm64/boot/Image of the same build"
    if head[:4] == DTB_MAGIC:
        return (
            "a device tree or FIT, not a flat Image",
            "give the boot loader the file it expects: Image for booti",
        )
    if len(head) >= 60 and head[56:60] != _ARM64:
        return (
            "bytes 56-59 are not the ARM64 magic 41 52 4d 64",
            "use the flat, uncompressed Image of an ARM64 build",
        )
    header = image_header(head)
    if header is not None and size is not None:
        # The size in the header counts memory that is not in the file, at most about as much again.
        if header.image_size and size < header.image_size // 2:
            return f"the image says {header.image_size} bytes and the file has {size}: cut short", _COPY_AGAIN
        large = max(header.image_size, size)
        if large > MAX_IMAGE_BYTES:
            return (
                f"the image has {large} bytes, allowed below {MAX_IMAGE_BYTES}",
                "use an image of this board's kernel",
            )
    return None


def image_release(data: bytes) -> str | None:
    """The kernel release inside an uncompressed image; None when it names none."""
    found = _VERSION.search(data)
    return found[1].decode("ascii", "replace") if found else None


def judge_device_tree(head: bytes, size: int | None) -> Judgement | None:
    if head[:4] != DTB_MAGIC:
        return "the device tree does not begin with d0 0d fe ed", "take the dtb of the same kernel package"
    if size is not None and len(head) >= 8 and int.from_bytes(head[4:8], "big") > size:
        return "the device tree is cut short", _COPY_AGAIN
    return None


def judge_initrd(head: bytes) -> Judgement | None:
    """Of a plain or wrapped initial RAM disk."""
    if head.startswith((WRAPPED_MAGIC, *INITRD_MAGICS)):
        return None
    return "the initrd has no known magic", "make it again with update-initramfs"


def judge_wrapped_initrd(head: bytes, size: int) -> Judgement | None:
    """Of a uInitrd: the header U-Boot wants before the RAM disk. ``size`` is that of the whole file."""
    if head[:4] != WRAPPED_MAGIC:
        return "the uInitrd has no U-Boot header", "wrap it with mkimage -T ramdisk -A arm64 -O linux"
    if len(head) < _WRAPPED.size:
        return "the uInitrd is cut short", _COPY_AGAIN
    fields = _WRAPPED.unpack_from(head)
    length, system, processor, kind = fields[3], fields[7], fields[8], fields[9]
    if (system, processor, kind) != (_OS_LINUX, _ARCH_ARM64, _TYPE_RAMDISK):
        return (
            f"the uInitrd is for os {system}, processor {processor}, type {kind}; wanted 5, 22, 3",
            "wrap it with mkimage -T ramdisk -A arm64 -O linux",
        )
    if length != size - _WRAPPED.size:
        return f"the uInitrd says {length} bytes of data and has {size - _WRAPPED.size}", _COPY_AGAIN
    return None


def wrap_initrd(data: bytes, name: str, *, now: float | None = None) -> bytes:
    """A RAM disk with the header U-Boot wants; ``name`` is shown at boot, up to 32 bytes."""
    when = int(time.time() if now is None else now) & 0xFFFFFFFF

    def header(checksum: int) -> bytes:
        return _WRAPPED.pack(
            int.from_bytes(WRAPPED_MAGIC, "big"),
            checksum,
            when,
            len(data),
            0,
            0,
            zlib.crc32(data),
            _OS_LINUX,
            _ARCH_ARM64,
            _TYPE_RAMDISK,
            0,
            name.encode("ascii", "replace")[:32],
        )

    return header(zlib.crc32(header(0))) + data
