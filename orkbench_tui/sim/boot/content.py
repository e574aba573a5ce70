"""Bytes of boot files that hold as much as a boot loader looks at: kernels, device trees, RAM disks.

A kernel made here has the header and the version text of a real one and no code; only the simulated board starts it.
"""

from __future__ import annotations

import struct
import zlib

__all__ = ["device_tree", "kernel_image", "ram_disk", "wrapped_ram_disk"]

_IMAGE_BYTES = 8192


def kernel_image(release: str, *texts: str) -> bytes:
    """An arm64 image of 8 KiB for a release; ``texts`` are messages its drivers would hold."""
    header = struct.pack(
        "<IIQQQQQQ4sI", 0x91005A4D, 0x14000000, 0, _IMAGE_BYTES, 0xA, 0, 0, 0, b"ARM\x64", 0x40
    )
    said = [f"Linux version {release} (simulated@board) (no compiler) #1 SMP", *texts]
    return (header + b"".join(f"\0{text}\0".encode() for text in said)).ljust(_IMAGE_BYTES, b"\0")


def device_tree(
    compatible: tuple[str, ...], model: str, npu: str, npu_compatible: tuple[str, ...], *, sram: bool = False
) -> bytes:
    """A flattened tree of a root and the NPU's node (``npu@ADDRESS``, "" for none)."""
    names = b""
    offsets: dict[str, int] = {}

    def prop(name: str, value: bytes) -> bytes:
        nonlocal names
        if name not in offsets:
            offsets[name] = len(names)
            names += name.encode() + b"\0"
        return struct.pack(">III", 3, len(value), offsets[name]) + value + b"\0" * (-len(value) % 4)

    def strings(values: tuple[str, ...]) -> bytes:
        return b"".join(value.encode() + b"\0" for value in values)

    def begin(name: str) -> bytes:
        text = name.encode() + b"\0"
        return struct.pack(">I", 1) + text + b"\0" * (-len(text) % 4)

    end = struct.pack(">I", 2)
    block = begin("") + prop("compatible", strings(compatible)) + prop("model", strings((model,)))
    if npu:
        node = begin(npu) + prop("compatible", strings(npu_compatible)) + prop("status", b"okay\0")
        block += node + (prop("rockchip,sram", struct.pack(">I", 0x77)) if sram else b"") + end
    block += end + struct.pack(">I", 9)
    at = 40 + 16
    header = struct.pack(
        ">10I",
        0xD00DFEED,
        at + len(block) + len(names),
        at,
        at + len(block),
        40,
        17,
        16,
        0,
        len(names),
        len(block),
    )
    return header + b"\0" * 16 + block + names


def ram_disk() -> bytes:
    """The beginning of a gzip file."""
    return b"\x1f\x8b\x08" + b"\0" * 61


def wrapped_ram_disk() -> bytes:
    """The same behind U-Boot's header for arm64 Linux RAM disks."""
    data = ram_disk()

    def header(checksum: int) -> bytes:
        sizes = (0x27051956, checksum, 0, len(data), 0, 0, zlib.crc32(data))
        return struct.pack(">7I4B32s", *sizes, 5, 22, 3, 0, b"uInitrd")

    return header(zlib.crc32(header(0))) + data
