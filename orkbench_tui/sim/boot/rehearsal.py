"""A kernel to rehearse an installation with: every file of a real build, startable by the simulated board alone."""

from __future__ import annotations

import json
from pathlib import Path

from orkbench_tui.sim.boards.catalogue import profile_of
from orkbench_tui.sim.boards.profile import BoardProfile
from orkbench_tui.sim.boot.content import device_tree, kernel_image, ram_disk
from orkbench_tui.sim.boot.disk import on_disk

__all__ = ["PATCHES", "make_rehearsal"]

_TREE = "/sys/firmware/devicetree/base"
SUFFIX = "-ork-rehearsal"
PATCHES: dict[str, tuple[str, ...]] = {
    "import-domain": (),
    "defer-destroy": ("deferred destroy, dma addr",),
    "job-domain-ref": (),
    "job-hw-time": ("core%d: jobs %llu hw_ns %llu",),
    "domain-anchor": ("failed to anchor iommu domain, id: %d",),
    "sram": (),
}
"""Patches a rehearsal can claim, with the messages they add to a kernel."""


def make_rehearsal(folder: Path, board: str, patches: tuple[str, ...], number: int = 1) -> str:
    """Write the build into a new folder; its release.

    Raises:
        FileExistsError: the folder is there.
        KeyError: no such patch.
    """
    texts = [text for name in patches for text in PATCHES[name]]
    profile = profile_of(board)
    release = f"{profile.release}{SUFFIX}{number}"
    folder.mkdir(parents=True)
    files = {
        f"boot/vmlinuz-{release}": kernel_image(
            release, "RKNPU driver", "switch iommu domain time out", *texts
        ),
        f"boot/initrd.img-{release}": ram_disk(),
        f"boot/config-{release}": _config("sram" in patches),
        f"lib/modules/{release}/modules.dep": b"",
        f"lib/modules/{release}/modules.builtin": b"kernel/drivers/rknpu/rknpu.ko\n",
        "manifest.json": _manifest(patches),
    }
    for path, data in profile.files.items():
        if on_disk(path) and path.endswith((".dtb", ".dtbo")) and "/rockchip/" in path:
            below = path[path.index("/rockchip/") + 1 :]
            files[f"boot/dtb-{release}/{below}"] = data
    if "sram" in patches:
        tree = next(name for name in files if name.endswith(".dtb"))
        files[tree] = _tree_with_sram(profile)
    for name, data in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return release


def _tree_with_sram(profile: BoardProfile) -> bytes:
    """The board's device tree with on-chip memory for its NPU."""

    def strings(path: str) -> tuple[str, ...]:
        return tuple(text for text in profile.files[f"{_TREE}/{path}"].decode().split("\0") if text)

    node = f"npu@{profile.npu.split('.')[0]}"
    return device_tree(
        strings("compatible"), strings("model")[0], node, strings(f"{node}/compatible"), sram=True
    )


def _config(sram: bool) -> bytes:
    lines = [f"CONFIG_{name}=y" for name in ("EXT4_FS", "MMC", "BLK_DEV_NVME", "ROCKCHIP_RKNPU", "NO_GKI")]
    lines.append("CONFIG_ROCKCHIP_RKNPU_SRAM=y" if sram else "# CONFIG_ROCKCHIP_RKNPU_SRAM is not set")
    return ("\n".join(lines) + "\n").encode()


def _manifest(patches: tuple[str, ...]) -> bytes:
    made = {
        "source": "none: a rehearsal for the simulated board",
        "patches": list(patches),
        "compiler": "none",
    }
    return (json.dumps(made, indent=1) + "\n").encode()
