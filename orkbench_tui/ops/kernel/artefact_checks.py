"""What a kernel must be before it is put on a board: each check with what was found and what to do.

The table of docs/kernel.md. Nothing here changes anything.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.ops.disk import Disk
from orkbench_tui.ops.guard.declaration import Check
from orkbench_tui.ops.kernel.artefacts import MAX_INITRD_BYTES, Artefacts
from orkbench_tui.ops.kernel.device_tree import MAX_BYTES, DeviceTree, parse_device_tree, strings
from orkbench_tui.ops.kernel.environment import Environment, overlay_faults
from orkbench_tui.ops.kernel.formats import (
    WRAPPED_MAGIC,
    judge_image,
    judge_initrd,
    judge_wrapped_initrd,
)
from orkbench_tui.ops.kernel.layout import Layout, kernels_of

__all__ = ["Candidate", "artefact_checks", "board_tree"]

SPARE_BYTES = 32 << 20
_MAX_MODULE_BYTES = 64 << 20
_NEEDED = ("EXT4_FS", "MMC", "BLK_DEV_NVME")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel and the board it is for. ``compatible`` is the running device tree's root, ``unstartable`` as in
    ``GuardedBoard``."""

    artefacts: Artefacts
    disk: Disk
    layout: Layout
    environment: Environment | None
    compatible: tuple[str, ...]
    running: str
    unstartable: str


def artefact_checks(candidate: Candidate) -> tuple[Check, ...]:
    """All checks, in the order of the table."""
    return tuple(check for checks in _CHECKS for check in checks(candidate))


def _judged(what: str, judgement: tuple[str, str] | None, found: str) -> Check:
    if judgement is None:
        return Check("pass", what, found)
    why, remedy = judgement
    return Check("fail", what, f"{why}; {remedy}")


def _image(candidate: Candidate) -> Iterator[Check]:
    kernel = candidate.artefacts
    size = kernel.image.stat().st_size
    judgement = judge_image(kernel.head(kernel.image), size)
    yield _judged("the image is a flat arm64 kernel", judgement, f"{kernel.image.name}, {size} bytes")
    if judgement is not None:
        return
    if kernel.inside is None:
        yield Check("fail", "the image names its release", "no version text in it; build it again")
    elif kernel.inside != kernel.release:
        yield Check(
            "fail",
            "the image names its release",
            f"the file name says {kernel.release}, the image {kernel.inside}; take both from one build",
        )
    else:
        yield Check("pass", "the image names its release", kernel.inside)


def _release(candidate: Candidate) -> Iterator[Check]:
    release, what = candidate.artefacts.release, "the release is new to this board"
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+~-]{0,63}", release) is None:
        yield Check("fail", "the release can be a file name", f"{release!r}; letters, digits and . _ + ~ -")
    elif release == candidate.running:
        yield Check(
            "fail",
            what,
            f"{release} is running: its files would be overwritten; give the build a LOCALVERSION of its own",
        )
    else:
        yield Check("pass", what, release)
    if candidate.unstartable and candidate.unstartable in release:
        yield Check("fail", "the kernel can run here", "it is a rehearsal for the simulated board")


def board_tree(candidate: Candidate) -> Path | None:
    """The device tree for this board: the one the boot script names, else the one whose root says so."""
    trees = candidate.artefacts.trees
    if trees is None:
        return None
    if candidate.environment is not None and candidate.environment.tree_file:
        named = trees / candidate.environment.tree_file
        return named if named.is_file() else None
    for path in sorted(trees.glob("rockchip/*.dtb")):
        tree = _parsed(path)
        if tree is not None and candidate.compatible and tree.compatible[:1] == candidate.compatible[:1]:
            return path
    return None


def _parsed(path: Path) -> DeviceTree | None:
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            return parse_device_tree(file.read(MAX_BYTES), path.name)
    except InvalidFileError:
        return None


def _tree(candidate: Candidate) -> Iterator[Check]:
    what, kernel = "a device tree for this board", candidate.artefacts
    path = board_tree(candidate)
    if path is None:
        named = candidate.environment.tree_file if candidate.environment else ""
        wanted = named or f"one for {(candidate.compatible or ('an unknown board',))[0]}"
        yield Check("fail", what, f"{wanted} is not in the folder; take the dtb of the same build")
        return
    try:
        with path.open("rb") as file:
            tree = parse_device_tree(file.read(MAX_BYTES), path.name)
    except InvalidFileError as error:
        yield Check("fail", what, error.line())
        return
    if candidate.compatible and candidate.compatible[0] not in tree.compatible:
        yield Check(
            "fail",
            what,
            f"{path.name} is for {tree.model} ({', '.join(tree.compatible) or 'no compatible'}), this board is "
            f"{candidate.compatible[0]}; take the dtb of this board",
        )
        return
    yield Check("pass", what, f"{path.name}, {tree.model}")
    yield from _npu_node(tree, kernel.configured())


def _npu_node(tree: DeviceTree, config: dict[str, str]) -> Iterator[Check]:
    what, node = "the NPU is enabled in it", tree.npu()
    if node is None:
        yield Check("warn", what, "it has no node of the vendor driver: the NPU will be gone")
        return
    path, properties = node
    status = (strings(properties.get("status", b"okay\0")) or ("okay",))[0]
    yield Check.of(status in ("okay", "ok"), what, f"{path} status {status}", otherwise="warn")
    wants, has = config.get("ROCKCHIP_RKNPU_SRAM") == "y", "rockchip,sram" in properties
    if wants != has:
        said = (
            "has SRAM support and the tree gives none"
            if wants
            else "has no SRAM support and the tree gives some"
        )
        yield Check("warn", "SRAM in kernel and device tree agree", f"the kernel {said}")


def _ram_disk(candidate: Candidate) -> Iterator[Check]:
    what, kernel = "an initial RAM disk", candidate.artefacts
    if kernel.initrd is None and kernel.wrapped is None:
        yield Check(
            "fail",
            what,
            f"neither initrd.img-{kernel.release} nor uInitrd-{kernel.release}; make one with mkinitramfs -o "
            f"initrd.img-{kernel.release} {kernel.release}; it belongs into the folder, or is named beside the packages",
        )
        return
    for path in filter(None, (kernel.initrd, kernel.wrapped)):
        head, size = kernel.head(path), path.stat().st_size
        if size > MAX_INITRD_BYTES:
            yield Check(
                "fail", what, f"{path.name} has {size} bytes, {MAX_INITRD_BYTES} at most; make it again"
            )
            return
        judgement = judge_initrd(head)
        if judgement is None and (path is kernel.wrapped or head.startswith(WRAPPED_MAGIC)):
            judgement = judge_wrapped_initrd(head, size)
        yield _judged(what, judgement, f"{path.name}, {size} bytes")


def _modules(candidate: Candidate) -> Iterator[Check]:
    what, kernel = "modules of the same build", candidate.artefacts
    if kernel.modules is None:
        yield Check(
            "fail", what, f"lib/modules/{kernel.release} is not there; `make modules_install` makes it"
        )
        return
    if not (kernel.modules / "modules.dep").is_file():
        yield Check("fail", what, f"modules.dep is missing; run depmod -b on the folder for {kernel.release}")
        return
    odd = [path for path in sorted(kernel.modules.rglob("*")) if not (path.is_symlink() or _plain(path))]
    if odd:
        yield Check("fail", what, f"{odd[0].name} is neither file, folder nor link; remove it")
        return
    for path in sorted(kernel.modules.rglob("*.ko*")):
        if path.is_symlink() or not path.is_file():
            continue
        magic = _vermagic(path)
        if magic is None:
            continue
        if magic != kernel.release:
            yield Check("fail", what, f"{path.name} was built for {magic}, not {kernel.release}")
            return
        break
    yield Check("pass", what, f"lib/modules/{kernel.release}")


def _plain(path: Path) -> bool:
    return path.is_file() or path.is_dir()


def _vermagic(path: Path) -> str | None:
    """The release a module says it was built for; None when that cannot be read here."""
    if path.suffix not in (".ko", ".xz"):
        return None
    with path.open("rb") as file:
        data = file.read(_MAX_MODULE_BYTES)
    try:
        if path.suffix == ".xz":
            data = lzma.LZMADecompressor().decompress(data, _MAX_MODULE_BYTES)
    except lzma.LZMAError:
        return "no kernel: it is damaged"
    found = re.search(rb"vermagic=([^\0 ]{1,200})", data)
    return found[1].decode("ascii", "replace") if found else "no kernel: it names none"


def _built_in(candidate: Candidate) -> Iterator[Check]:
    what, kernel = "what it needs to find its root is built in", candidate.artefacts
    config = kernel.configured()
    if not config:
        yield Check("warn", what, f"no config-{kernel.release}: unknown")
        return
    absent = [name for name in _NEEDED if config.get(name, "n") == "n"]
    modular = [name for name in _NEEDED if config.get(name) == "m"]
    if absent:
        yield Check(
            "fail", what, f"not in the configuration: {', '.join(absent)}; build with this board's own config"
        )
    elif modular:
        yield Check("warn", what, f"modules, so the RAM disk must hold them: {', '.join(modular)}")
    else:
        yield Check("pass", what, ", ".join(_NEEDED))
    if config.get("ROCKCHIP_RKNPU") not in ("y", "m"):
        yield Check(
            "warn", "the kernel has the rknpu driver", "ROCKCHIP_RKNPU is not set: the NPU will be gone"
        )


def _overlays(candidate: Candidate) -> Iterator[Check]:
    what, environment = "every overlay is there", candidate.environment
    trees = candidate.artefacts.trees
    if environment is None or trees is None:
        return
    if environment.fault:
        yield Check(
            "fail", "the boot environment is read as it stands", f"{environment.fault}; correct it first"
        )
    names = frozenset(path.name for path in trees.rglob("*.dtbo"))
    missing = overlay_faults(candidate.disk, environment, names)
    asked = [
        *environment.values.get("overlays", "").split(),
        *environment.values.get("user_overlays", "").split(),
    ]
    if missing:
        yield Check("fail", what, f"{missing[0]}; the boot loader would drop all overlays")
    else:
        yield Check("pass", what, ", ".join(asked) or "none is asked for")


def _space(candidate: Candidate) -> Iterator[Check]:
    kernel, disk = candidate.artefacts, candidate.disk
    free, wanted = candidate.layout.file_system.free_bytes, 2 * kernel.total_bytes + SPARE_BYTES
    yield Check.of(
        free >= wanted,
        "room in /boot",
        f"{free >> 20} MiB free, {wanted >> 20} MiB wanted (twice the files and 32 MiB)"
        + ("" if free >= wanted else "; remove old kernels with the package manager"),
    )
    modules = disk.file_system("/lib/modules")
    wanted = kernel.module_bytes + SPARE_BYTES
    yield Check.of(
        modules.free_bytes >= wanted and not modules.read_only,
        "room for the modules",
        f"{modules.free_bytes >> 20} MiB free, {wanted >> 20} MiB wanted"
        + ("; mounted read-only" if modules.read_only else ""),
    )


def _company(candidate: Candidate) -> Iterator[Check]:
    kernels = kernels_of(candidate.disk)
    yield Check.of(
        len(kernels) >= 2,
        "two kernels besides it",
        f"{len(kernels)}: {', '.join(kernels)}"
        + ("" if len(kernels) >= 2 else "; this one is the only way back"),
        otherwise="warn",
    )


_CHECKS: tuple[Callable[[Candidate], Iterator[Check]], ...] = (
    _image,
    _release,
    _tree,
    _ram_disk,
    _modules,
    _built_in,
    _overlays,
    _space,
    _company,
)
