"""Heads of boot files: flat images pass, everything a boot loader refuses is named."""

from __future__ import annotations

import json
import struct

import pytest

from orkbench_tui.ops.diagnosis.capture import Capture, from_bytes
from orkbench_tui.ops.diagnosis.diagnose import diagnose
from orkbench_tui.ops.diagnosis.evidence import gather
from tests.ops.diagnosis.given import first

SIZE = 44_040_192
GOOD = struct.pack("<IIQQQ", 0xFA405A4D, 0x1234, 0, SIZE, 0xA) + bytes(24) + b"ARM\x64" + bytes(4)
HEADS = {
    "good": (GOOD, None),
    "gzip": (b"\x1f\x8b\x08\x08" + bytes(60), "gzip"),
    "elf": (b"\x7fELF\x02\x01\x01" + bytes(57), "ELF"),
    "zboot": (b"MZ\0\0zimg" + bytes(56), "zboot"),
    "fit": (b"\xd0\x0d\xfe\xed" + bytes(60), "device tree"),
    "zeros": (bytes(64), "magic"),
}


def xxd(data: bytes) -> str:
    rows = [data[at : at + 16] for at in range(0, len(data), 16)]
    return "".join(
        f"{n * 16:08x}: "
        + " ".join(row[i : i + 2].hex() for i in range(0, len(row), 2))
        + "  ................\n"
        for n, row in enumerate(rows)
    )


def dump(data: bytes) -> str:
    rows = [data[at : at + 16] for at in range(0, len(data), 16)]
    return "".join(
        f"{n * 16:08x}  {' '.join(f'{b:02x}' for b in row)}  |................|\n"
        for n, row in enumerate(rows)
    )


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("form", ["xxd", "hexdump", "json", "binary"])
def test_heads(name: str, form: str) -> None:
    data, why = HEADS[name]
    if form == "binary":
        capture = Capture("replay", (from_bytes("Image", data + bytes(8192), SIZE),))
        verdict = diagnose(gather(capture))[0]
    elif form == "json":
        verdict = first(
            {"image.json": json.dumps({"path": "/boot/Image", "size": SIZE, "head_hex": data.hex()})}
        )
    else:
        verdict = first({"image-head.txt": (xxd if form == "xxd" else dump)(data)})
    assert verdict.kind == ("kernel-image-invalid" if why else "healthy"), verdict.title
    if why:
        assert why in verdict.title and any("install or boot" in text for text in verdict.refuse)


def test_a_cut_image_and_a_foreign_device_tree() -> None:
    cut = first({"image.json": json.dumps({"path": "/boot/Image", "size": 1 << 20, "head_hex": GOOD.hex()})})
    assert cut.kind == "kernel-image-invalid" and "cut short" in cut.title
    tree = Capture("replay", (from_bytes("rk3588-rock-5b.dtb", b"\0\1\2\3" * 64),))
    assert diagnose(gather(tree))[0].kind == "kernel-image-invalid"
    fine = struct.pack(">II", 0xD00DFEED, 256) + bytes(range(248))
    assert diagnose(gather(Capture("replay", (from_bytes("rk3588-rock-5b.dtb", fine),))))[0].kind == "healthy"


@pytest.mark.parametrize(
    "line",
    [
        "Bad Linux ARM64 Image magic!",
        "Wrong Image Format for bootm command",
        "ERROR: Did not find a cmdline Flattened Device Tree",
        "libfdt fdt_check_header(): FDT_ERR_BADMAGIC",
        "   Verifying Checksum ... Bad Data CRC",
        "/boot/vmlinuz-6.1: gzip compressed data, was \"Image\"",
        "vmlinux: ELF 64-bit LSB pie executable, ARM aarch64",
        "rknpu: version magic '6.1.75 SMP' should be '6.1.115-vendor-rk35xx SMP'",
    ],
)  # fmt: skip
def test_what_boot_loaders_and_modprobe_say(line: str) -> None:
    verdict = first({"console.txt": f"U-Boot 2017.09\n{line}\n"})
    assert verdict.kind == "kernel-image-invalid" and line.strip() in verdict.evidence[0]


@pytest.mark.parametrize(
    "line",
    ["build: x86-64 with AVX2", "prompt truncated to 4096 tokens", "model.tar.gz: gzip compressed data"],
)
def test_words_that_mean_something_else(line: str) -> None:
    assert first({"stderr.txt": f"llama {line}\n"}).kind == "healthy"


def test_links_menus_and_modules_of_kernels_that_are_gone() -> None:
    files = "armbianEnv.txt\nboot.scr\nImage -> {target}\nvmlinuz-6.1.115-vendor-rk35xx\n"
    uname = {"uname.txt": "6.1.115-vendor-rk35xx\n"}
    fine = {"ls-boot.txt": files.format(target="vmlinuz-6.1.115-vendor-rk35xx"), **uname}
    assert first(fine).kind == "healthy"
    gone = first({"ls-boot.txt": files.format(target="vmlinuz-6.1.99-vendor-rk35xx"), **uname})
    assert gone.kind == "kernel-image-invalid" and "vmlinuz-6.1.99" in gone.evidence[0]
    menu = {
        "extlinux.conf.dat": "label l0\n    linux /boot/vmlinuz-6.1.0-1025-rockchip\n    append root=UUID=x\n"
    }
    assert first({**fine, **menu}).kind == "kernel-image-invalid"
    modules = {"ls-lib-modules.txt": "6.1.99-vendor-rk35xx\n"}
    assert "no modules of the running kernel" in first({**fine, **modules}).title
