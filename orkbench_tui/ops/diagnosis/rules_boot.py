"""Kernels before they run: images, boot layouts, patches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.verdict import Verdict
from orkbench_tui.ops.diagnosis.wording import make

__all__ = ["boot_layout", "kernel_image", "patch"]

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


def _judge_head(head: bytes, size: int | None, name: str) -> tuple[str, str] | None:
    """Why these first bytes are no bootable Image, and the remedy; None when they may be one."""
    if "dtb" in name:
        if head[:4] != b"\xd0\x0d\xfe\xed":
            return (
                "the device tree does not begin with d0 0d fe ed",
                "take the dtb of the same kernel package",
            )
        if size is not None and len(head) >= 8 and int.from_bytes(head[4:8], "big") > size:
            return "the device tree is cut short", "copy it again and compare the sha256"
        return None
    if "uInitrd" in name or "initrd" in name:
        known = (
            b"\x27\x05\x19\x56",
            b"\x1f\x8b",
            b"\x28\xb5\x2f\xfd",
            b"\xfd7z",
            b"\x02\x21\x4c\x18",
            b"0707",
        )
        return (
            None
            if head.startswith(known)
            else ("the initrd has no known magic", "make it again with update-initramfs")
        )
    if not head:
        return ("the file is empty", "copy it again and compare the sha256") if size == 0 else None
    if head[:2] == b"\x1f\x8b":
        return "the image is gzip-compressed (1f 8b)", "decompress it first: booti expects a flat Image"
    if head[4:8] == b"zimg":
        return "an EFI zboot image (zimg)", "use the flat Image of the same build"
    if head[:4] == b"\x7fELF":
        return "an ELF file (vmlinux), not a boot image", "use arch/arm64/boot/Image of the same build"
    if head[:4] == b"\xd0\x0d\xfe\xed":
        return (
            "a device tree or FIT, not a flat Image",
            "give the boot loader the file it expects: Image for booti",
        )
    if len(head) >= 60 and head[56:60] != b"ARM\x64":
        return (
            "bytes 56-59 are not the ARM64 magic 41 52 4d 64",
            "use the flat, uncompressed Image of an ARM64 build",
        )
    if len(head) >= 24 and size is not None and head[56:60] == b"ARM\x64":
        told = int.from_bytes(head[16:24], "little")
        if told and size < told // 2:
            return (
                f"the image says {told} bytes and the file has {size}: cut short",
                "copy it again and compare the sha256",
            )
    return None


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
        head = _bytes_of(file.text)
        if (
            file.text
            and (
                judged := _judge_head(
                    head, None, file.name if "dtb" in file.name or "nitrd" in file.name else "Image"
                )
            )
            and head
        ):
            found.append((file.name, *judged))
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


_LAYOUTS: tuple[tuple[str, str], ...] = (
    (r"^armbianEnv\.txt$", "armbian"),
    (r"^dietpiEnv\.txt$", "dietpi"),
    (r"^orangepiEnv\.txt$", "orangepi"),
    (r"^extlinux(?:\.conf)?$", "extlinux"),
    (r"^(?:efi|EFI|grub|loader)$", "uefi"),
)
_NETBOOT_LINE = r"TFTP from server|Filename '.*'\.|BOOTP broadcast|DHCP client bound|PXE|Loading: [#T ]+|iPXE|netboot|matchbox|nfsroot"
_NETBOOT_ARGUMENT = r"(?:^|\s)(?:root=/dev/nfs|nfsroot=|ip=(?:dhcp|on|any|\d+\.)|BOOTIF=|netboot|initrd=https?://|talos\.config=http)"


def boot_layout(evidence: Evidence) -> Iterator[Verdict]:
    names = {e.name.rsplit("/", 1)[-1] for e in evidence.entries if e.folder.startswith(("/boot", "boot"))}
    names |= {e.folder.rsplit("/", 1)[-1] for e in evidence.entries if e.folder.startswith("/boot/")}
    given = any(folder.startswith("/boot") for folder in evidence.folders)
    net_lines = [
        line for line in (*evidence.output, *evidence.messages) if re.search(_NETBOOT_LINE, line[:4096])
    ]
    net = re.search(_NETBOOT_ARGUMENT, evidence.command_line)
    layouts = sorted({layout for name in names for pattern, layout in _LAYOUTS if re.match(pattern, name)})
    kernels = sorted(name for name in names if name.startswith(("vmlinuz-", "Image-", "vmlinux-")))
    running = evidence.kernel
    foreign = bool(given and kernels and running and not any(running in name for name in kernels))
    raw_boot = evidence.said(r"ANDROID!|boot\.img|Rockchip (?:FIT|RESC)|resource\.img")
    if net or net_lines:
        reason, layout = "this board boots from the network: what /boot holds is not what runs", "network"
    elif given and not layouts:
        reason, layout = (
            "no boot layout this program knows: neither Armbian, DietPi, Orange Pi, extlinux nor UEFI files in /boot",
            "unknown",
        )
    elif foreign:
        reason, layout = (
            f"the running kernel {running} is not among those in /boot",
            layouts[0] if layouts else "unknown",
        )
    elif len([x for x in layouts if x not in ("uefi",)]) > 1 and not ({"armbian", "dietpi"} >= set(layouts)):
        reason, layout = (
            f"/boot holds several layouts ({', '.join(layouts)}): which one is used is open",
            "ambiguous",
        )
    elif raw_boot and not layouts:
        reason, layout = "the kernel lies in a raw partition (boot.img)", "raw"
    else:
        return
    yield make(
        "boot-layout-unknown",
        reason,
        evidence=[
            *([f"kernel command line: {net[0].strip()}"] if net else []),
            *net_lines[:3],
            f"/boot: {' '.join(sorted(names)[:12])}" if given else "",
            f"running kernel: {running}" if running else "",
        ],
        advice=(
            "change the kernel where it comes from: on the boot server (TFTP, PXE, netboot image), with the old one kept beside it"
            if layout == "network"
            else "find out how the board starts before anything is installed: boot loader output on the serial console, `findmnt /boot`, "
            "/proc/cmdline",
            "a package installed on the board has no effect on the next boot"
            if layout == "network"
            else "a raw partition is changed with the image tools of its vendor only"
            if layout == "raw"
            else "/boot may be an unmounted partition: mount it and look again",
            "keep a way back first: a copy of /boot and a serial console or SD card",
        ),
        refuse=(
            "install a kernel",
            "write to /boot or a raw boot partition on a guess",
            "reboot into it untested",
        ),
        facts={
            "layout": layout,
            "netboot": layout == "network",
            "kernels": kernels,
            "running": running or None,
        },
    )


_FAILED_HUNK = re.compile(r"^Hunk #(\d{1,6}) FAILED at (\d{1,9})")
_SUMMARY = re.compile(r"^(\d{1,6}) out of (\d{1,6}) hunks? (?:FAILED|failed|ignored)")


def patch(evidence: Evidence) -> Iterator[Verdict]:
    lines = evidence.patch or tuple(
        line for line in evidence.output if re.search(r"Hunk #|patch failed|hunks? FAILED", line)
    )
    files: list[str] = []
    failed_files: list[str] = []
    at: list[int] = []
    failed = total = 0
    fuzz = already = malformed = missing = False
    bad: list[str] = []
    for raw in lines:
        line = raw.strip()[:4096]
        if m := re.match(r"(?:patching|checking) file '?([^']+?)'?$", line):
            files.append(m[1])
        elif m := _FAILED_HUNK.match(line):
            at.append(int(m[2]))
            bad.append(line)
            failed_files += files[-1:]
        elif m := _SUMMARY.match(line):
            failed, total = failed + int(m[1]), total + int(m[2])
            bad.append(line)
            failed_files += files[-1:]
        elif m := re.match(r"error: patch failed: (\S+?):(\d{1,9})", line):
            failed_files.append(m[1])
            at.append(int(m[2]))
            bad.append(line)
        elif m := re.match(
            r"error: (\S+): (?:patch does not apply|does not exist in index|No such file or directory|already exists in)",
            line,
        ):
            failed_files.append(m[1])
            missing |= "not exist" in line or "No such" in line
            already |= "already exists" in line
            bad.append(line)
        elif re.search(
            r"Reversed \(or previously applied\) patch detected|already applied|Skipping patch", line
        ):
            already = True
            bad.append(line)
        elif re.search(r"malformed patch|corrupt patch|garbage|Only garbage was found", line):
            malformed = True
            bad.append(line)
        elif re.search(
            r"can't find file to patch|No file to patch|Patch failed at|Cannot apply|does not apply|rejects? to file",
            line,
        ):
            missing |= "file to patch" in line
            bad.append(line)
        fuzz |= "with fuzz" in line
    if not bad:
        return
    names = list(dict.fromkeys(failed_files or files))
    failed = failed or len(at)
    where = f" at line {', '.join(map(str, at[:4]))}" if at else ""
    yield make(
        "patch-rejected",
        f"the patch does not fit: {', '.join(name.rsplit('/', 1)[-1] for name in names[:3]) or 'no file named'}{where}",
        evidence=bad,
        advice=(
            f"look at {', '.join(names[:4])}{where} beside the .rej file: is the change already there (merged upstream), or did the "
            "code around it move?"
            if names
            else "the patch names no file of this tree: check the folder and the -p level",
            "already applied: drop the patch from the series"
            if already
            else "if it is already in the tree drop the patch; else take the variant of the patch for this kernel version",
            "hunks that applied with fuzz or offset are not proven right: read them too" if fuzz else "",
            "the file does not exist in this tree: wrong kernel version, path prefix or -p level"
            if missing
            else "",
            "the patch file itself is damaged (mail client, CRLF): get it again" if malformed else "",
            "start from a clean tree before the next try: a half-patched one must not be built",
        ),
        refuse=("continue the build", "install the kernel", "force the patch in"),
        facts={
            "failed_hunks": failed,
            "total_hunks": total or None,
            "fuzz": fuzz,
            "files": names,
            "lines": at,
            "already_applied": already,
        },
    )
