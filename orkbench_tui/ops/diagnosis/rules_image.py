"""Kernels, device trees, initrds and modules that cannot be started."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.verdict import Verdict
from orkbench_tui.ops.diagnosis.wording import make
from orkbench_tui.ops.kernel.formats import Judgement, judge_device_tree, judge_image, judge_initrd

__all__ = ["kernel_image"]

# Messages of boot loaders, `file` and module loading -> what is wrong and what to do.
_SAYS: tuple[tuple[str, str, str], ...] = (
    (r"Bad Linux ARM64 Image magic", "the image has no ARM64 magic", "use the flat, uncompressed Image (bytes 56-59 are ARM\\x64)"),
    (r"Wrong Image Format for boot\w*", "the boot loader does not know the image's format", "booti wants a flat Image, bootm a uImage or FIT"),
    (r"Wrong Ramdisk Image Format|Ramdisk image is corrupt", "the initrd is not a uInitrd", "wrap it with mkimage (uInitrd) or boot without it"),
    (r"FDT_ERR_BADMAGIC|FDT_ERR_\w+|ERROR: (?:Did not find a cmdline )?Flattened Device Tree|bad device ?tree", "the device tree (dtb) is damaged or missing", "take the dtb of the same kernel package; it begins with d0 0d fe ed"),
    (r"Bad (?:Data|Header) CRC", "the image is damaged: its checksum is wrong", "copy it again and compare the sha256"),
    (r"can'?t get kernel image|File not found .*(?:Image|vmlinuz)|Failed to load '?\S*(?:Image|vmlinuz)|Unable to read file \S*(?:Image|vmlinuz)", "the boot loader found no kernel at the name it looked for", "check the links Image, dtb and uInitrd in /boot"),
    (r"version magic '([^']*)' should be '([^']*)'|vermagic", "a module was built for another kernel", "install the modules of exactly this kernel, or rebuild the DKMS module"),
    (r"disagrees about version of symbol|Invalid module format|Unknown symbol in module", "a module does not fit the running kernel", "install the modules of exactly this kernel, or rebuild the DKMS module"),
    (r"kernel_comp_addr_r|Image lacks image_size field", "the image is compressed or very old", "use the flat Image"),
)  # fmt: skip


# The same about a file: these count only where the line names a boot file.
_SAYS_OF_FILE: tuple[tuple[str, str, str], ...] = (
    (r"zimg|EFI zboot", "an EFI zboot image: booti does not start it", "use the flat Image of the same build"),
    (r"gzip compressed data|compression type gzip", "the image is gzip-compressed", "decompress it first: booti of the vendor boot loader expects a flat Image"),
    (r"ELF 64-bit.*(?:aarch64|ARM)|vmlinux: ELF", "an ELF file (vmlinux), not a boot image", "use arch/arm64/boot/Image of the same build"),
    (r"Linux kernel x86 boot|x86-64|Intel 80386", "an image for another processor", "build for ARM64"),
    (r"Image is (?:truncated|too (?:short|large|small))|unexpected end of (?:file|image)|short read.*(?:Image|vmlinuz)", "the image is cut short", "copy it again and compare size and sha256"),
)  # fmt: skip


_BOOT_FILE = re.compile(r"(?i)\b(?:u?Image|vmlinuz|vmlinux|kernel)\b")


def _bytes_of(text: str) -> bytes:
    """The bytes of an xxd or hexdump text, or of a bare row of hex digits."""
    rows = re.findall(r"^[0-9a-fA-F]{4,16}:? +((?:[0-9a-fA-F]{2,4} ?)+)", text, re.MULTILINE)
    digits = re.sub(r"\s", "", "".join(rows)) if rows else re.sub(r"[\s:]|0x", "", text)
    if not digits or re.fullmatch(r"[0-9a-fA-F]+", digits) is None:
        return b""
    return bytes.fromhex(digits[: len(digits) // 2 * 2][:8192])


def _judge_head(head: bytes, size: int | None, name: str) -> Judgement | None:
    """Why these first bytes are no bootable file of this name's kind, and the remedy; None when they may be one."""
    if "dtb" in name:
        return judge_device_tree(head, size)
    if "uInitrd" in name or "initrd" in name:
        return judge_initrd(head)
    return judge_image(head, size)


def _documents(evidence: Evidence) -> Iterator[dict[str, Any]]:
    for file in evidence.images:
        try:
            value = json.loads(file.text)
        except (ValueError, RecursionError):
            continue
        yield from [
            item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)
        ]


def _flat(document: dict[str, Any], depth: int = 0) -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if isinstance(value, dict) and depth < 4:
            yield from _flat(value, depth + 1)
        else:
            yield str(key).lower(), value


def _folder_faults(evidence: Evidence) -> list[tuple[str, str, str]]:
    """Links in /boot that lead nowhere, empty kernels, menu entries and modules of kernels that are gone."""
    boot = [e for e in evidence.entries if e.folder == "/boot"]
    names = {e.name for e in boot}
    found = []
    for entry in boot:
        target = entry.target.rstrip("/").rsplit("/", 1)[-1]
        if (
            target
            and entry.name in ("Image", "dtb", "uInitrd", "vmlinuz", "initrd.img")
            and target not in names
        ):
            found.append(
                (
                    f"/boot/{entry.name} -> {entry.target}",
                    "the link points to a file that is not there",
                    "point the link back to a kernel that exists, or install that one again",
                )
            )
        if entry.size == 0 and entry.kind == "-" and re.match(r"Image|vmlinuz|initrd|uInitrd", entry.name):
            found.append(
                (f"/boot/{entry.name}: 0 bytes", "the file is empty", "copy it again and compare the sha256")
            )
    if names:
        for line in evidence.output:
            menu = re.match(r"\s*(?:linux|kernel)\s+(?:/boot)?/(\S+)", line[:4096])
            if menu and "/" not in menu[1] and menu[1] not in names:
                found.append(
                    (
                        line.strip(),
                        "the boot menu names a kernel that is not in /boot",
                        "write the menu again (u-boot-update)",
                    )
                )
    modules = {e.name for e in evidence.entries if e.folder.rstrip("/") == "/lib/modules"}
    if modules and evidence.kernel and evidence.kernel not in modules:
        found.append(
            (
                f"/lib/modules: {' '.join(sorted(modules))}",
                f"no modules of the running kernel {evidence.kernel}",
                "install the modules of exactly this kernel",
            )
        )
    return found


def kernel_image(evidence: Evidence) -> Iterator[Verdict]:
    found: list[tuple[str, str, str]] = []
    lines = [
        *evidence.output,
        *evidence.messages,
        *[line for file in evidence.images if not file.binary for line in file.text.splitlines()],
    ]
    for line in lines:
        for pattern, why, remedy in (*_SAYS, *(_SAYS_OF_FILE if _BOOT_FILE.search(line[:4096]) else ())):
            if re.search(pattern, line[:4096], re.IGNORECASE):
                found.append((line, why, remedy))
    name = next(
        (
            m[1]
            for line in lines
            if (
                m := re.search(
                    r"(?:^|[\s'\"])((?:/[\w./+-]*)?(?:Image|vmlinuz|vmlinux|[\w.+-]+\.dtb|uInitrd|initrd)[\w.+-]*)",
                    line[:4096],
                )
            )
        ),
        "",
    )
    for file in evidence.images:
        head = file.head if file.binary else _bytes_of(file.text)
        kind = file.name if re.search(r"dtb|nitrd", file.name) else "Image"
        judged = _judge_head(head, file.size if file.binary else None, kind)
        if judged and (head or file.binary):
            found.append((file.name, *judged))
            name = name or (file.name if file.binary else "")
    for document in _documents(evidence):
        values = dict(_flat(document))
        name = str(
            next(
                (values[k] for k in ("path", "file", "name", "given") if isinstance(values.get(k), str)), name
            )
        )
        size = next(
            (values[k] for k in ("size", "file_size", "bytes") if isinstance(values.get(k), int)), None
        )
        hexed = next(
            (
                values[k]
                for k in (
                    "head_hex",
                    "hex",
                    "head",
                    "first_bytes",
                    "header_hex",
                    "magic_hex",
                    "header",
                    "magic",
                )
                if isinstance(values.get(k), str)
            ),
            "",
        )
        if judged := _judge_head(_bytes_of(hexed), size, name or "Image"):
            found.append((f"{name}: {hexed[:60]}", *judged))
        told = next((v for k, v in values.items() if "image_size" in k and isinstance(v, int)), None)
        if told is not None and size is not None and size < told // 2:
            found.append(
                (
                    f"{name}: image_size {told}, file {size}",
                    "the image is cut short",
                    "copy it again and compare the sha256",
                )
            )
        magic = next(
            (
                v
                for k, v in values.items()
                if re.search(r"(?:arm64.*magic|magic.*56)", k) and isinstance(v, str)
            ),
            None,
        )
        if magic is not None and _bytes_of(magic) not in (b"ARM\x64", b"") and magic != "ARM\x64":
            found.append(
                (
                    f"{name}: {magic}",
                    "the image has no ARM64 magic",
                    "use the flat, uncompressed Image of an ARM64 build",
                )
            )
        wanted, has = (
            next((values[k] for k in keys if isinstance(values.get(k), str)), "")
            for keys in (
                ("vermagic_wanted", "running", "uname", "release", "expected"),
                ("vermagic", "version", "kernel_version", "found"),
            )
        )
        if wanted and has and wanted.split()[0] != has.split()[0] and re.match(r"\d+\.\d+", has):
            found.append(
                (
                    f"{name}: {has}, wanted {wanted}",
                    "the file belongs to another kernel",
                    "install the files of one build together",
                )
            )
    found += _folder_faults(evidence)
    if not found:
        return
    whys = list(dict.fromkeys(why for _, why, _ in found))
    yield make(
        "kernel-image-invalid",
        f"{name or 'a boot file'}: {whys[0]}",
        evidence=list(dict.fromkeys(line for line, _, _ in found))[:6],
        advice=(
            *dict.fromkeys(remedy for _, _, remedy in found),
            "keep the stock kernel bootable: put the repaired file beside it and switch the link only after its magic, size and sha256 "
            "were checked",
            "if the board does not boot any more, start from an SD card and point the link back to the previous kernel",
        ),
        refuse=(
            "install or boot this file",
            "delete the previous kernel",
            "rename it over the running kernel",
        ),
        facts={"file": name or None, "reasons": whys},
    )
