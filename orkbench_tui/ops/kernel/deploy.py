"""Install a kernel beside those that are there, and make it the next one to boot, for one trial.

Nothing of another kernel is overwritten; the switch is the last thing and each of its parts happens at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from orkbench_tui.ops.disk import Disk, HostDisk, Kind, files_below, tree_digest
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Check, Operation, Plan, Risk, Step, Words
from orkbench_tui.ops.guard.disk_steps import folder_steps, text_steps
from orkbench_tui.ops.guard.disk_verbs import ABSENT, MAX_TEXT_BYTES, source_digest
from orkbench_tui.ops.kernel import state
from orkbench_tui.ops.kernel.artefact_checks import Candidate, artefact_checks
from orkbench_tui.ops.kernel.artefacts import MANIFEST, Artefacts, find_artefacts
from orkbench_tui.ops.kernel.extlinux import Entry, parse_menu, with_default, with_entry
from orkbench_tui.ops.kernel.facts import KernelFacts, kernel_facts
from orkbench_tui.ops.kernel.health import before_values
from orkbench_tui.ops.kernel.layout import LINKS, MENU
from orkbench_tui.ops.kernel.scripts import (
    ROLLBACK_SCRIPT,
    TRIAL_SCRIPT_TEXT,
    UNIT_LINK,
    UNIT_PATH,
    UNIT_TEXT,
)

__all__ = ["DEPLOY", "OWN_LABEL"]

OWN_LABEL = "ork"


def plan(board: GuardedBoard, words: Words) -> Plan:
    """``words["from"]`` is the folder of the kernel, ``words["given"]`` what the user called it. Raises InvalidFileError when it holds none."""
    facts, kernel = kernel_facts(board), find_artefacts(Path(words["from"]))
    shown = (
        ("layout", facts.layout.title),
        ("running", facts.running),
        ("new", kernel.release or "unknown"),
        ("patches", ", ".join(_patches(kernel)) or "none named"),
    )
    layout = Check.of(
        not facts.layout.refusal,
        "the boot layout is one this can work with",
        facts.layout.refusal or facts.layout.title,
    )
    checks = [layout]
    if layout.state == "pass":
        candidate = Candidate(
            kernel,
            facts.disk,
            facts.layout,
            facts.environment,
            facts.compatible,
            facts.running,
            board.unstartable,
        )
        checks += artefact_checks(candidate)
        checks += _board_checks(board, facts, kernel, sound=all(check.state != "fail" for check in checks))
    refused = any(check.state == "fail" for check in checks)
    steps = () if refused else tuple(_steps(board, facts, kernel))
    return Plan(
        DEPLOY,
        board.host,
        shown,
        tuple(checks),
        steps,
        verified_by="sha256 of each file read again from the disk, then everything through the names the boot loader uses",
        phrase=kernel.release,
        words={"from": words.get("given", words["from"])},
    )


def _patches(kernel: Artefacts) -> list[str]:
    named = (kernel.manifest or {}).get("patches", [])
    return [str(name) for name in named] if isinstance(named, list) else []


def _board_checks(
    board: GuardedBoard, facts: KernelFacts, kernel: Artefacts, *, sound: bool
) -> Iterator[Check]:
    """Only the files of a ``sound`` kernel are read whole to compare them: others may have any size and kind."""
    trial = state.read(facts.disk, state.TRIAL)
    what = "no other kernel is on trial"
    if trial is not None:
        release = trial.get("release", "unknown")
        yield Check("fail", what, f"{release} is; `ork kernel mark-good` or `ork kernel rollback` first")
    else:
        yield Check("pass", what)
    if not facts.layout.scripted:
        yield from _menu_checks(facts)
    if not sound:
        return
    what = "nothing else is installed under this release"
    for step in _files(facts, kernel):
        now = _there(facts.disk, step)
        if now not in (ABSENT, step.after):
            yield Check(
                "fail",
                what,
                f"{step.subject} is there with other content; give the build a LOCALVERSION of its own, or remove that kernel first",
            )
            return
    yield Check("pass", what)


def _there(disk: Disk, step: Step) -> str | None:
    """What stands at a step's place already: ABSENT, a digest, or None for something of another kind."""
    kind = disk.kind(step.subject)
    if kind is None:
        return ABSENT
    if step.verb == "tree" and kind is Kind.FOLDER:
        return tree_digest(files_below(disk, step.subject))
    if step.verb == "install" and kind is Kind.FILE:
        return disk.digest(step.subject)
    return "folder" if kind is Kind.FOLDER else None


def _menu_checks(facts: KernelFacts) -> Iterator[Check]:
    data = facts.disk.read(MENU, MAX_TEXT_BYTES + 1)
    menu, what = parse_menu(data.decode("utf-8", "replace")), "the boot menu is the one u-boot-update writes"
    if data != data.decode("utf-8", "replace").encode():
        yield Check("fail", what, f"{MENU} is not UTF-8 text; run u-boot-update")
        return
    foreign = menu.foreign_labels()
    if len(data) > MAX_TEXT_BYTES:
        yield Check("fail", what, f"{MENU} has more than {MAX_TEXT_BYTES} bytes")
    elif not menu.generated or foreign:
        why = f"it has labels {', '.join(foreign)}" if foreign else "it does not say so"
        yield Check(
            "fail", what, f"{why}: edited by hand; run u-boot-update, or add the kernel there yourself"
        )
    elif menu.first is None:
        yield Check("fail", what, f"its default {menu.default!r} is not among its labels")
    else:
        yield Check("pass", what, f"default {menu.first.label}, {menu.first.release or menu.first.kernel}")


def _tree_folder(facts: KernelFacts, release: str) -> str:
    """Where the device trees go: beside the links, or where the menu has those of the running kernel."""
    if facts.layout.scripted:
        return f"/boot/dtb-{release}"
    menu = parse_menu(facts.disk.read(MENU, MAX_TEXT_BYTES).decode("utf-8", "replace"))
    folder = menu.first.tree_folder.rstrip("/") if menu.first is not None else ""
    if folder and facts.running in folder:
        return folder.replace(facts.running, release)
    return f"/boot/dtb-{release}"


def _steps(board: GuardedBoard, facts: KernelFacts, kernel: Artefacts) -> Iterator[Step]:
    yield from (step for step in _files(facts, kernel) if _there(facts.disk, step) != step.after)
    yield from _own_files(board, facts, kernel)
    yield from _switch(facts, kernel)
    yield Step("boots", "the next boot", None, kernel.release, "read through the boot loader's names")


def _digest(source: Path) -> str:
    return HostDisk().digest(str(source.resolve()))


def _install(path: str, source: Path, why: str = "") -> Step:
    return Step("install", path, ABSENT, _digest(source), why, str(source.resolve()))


def _tree(path: str, source: Path, why: str) -> Step:
    return Step("tree", path, ABSENT, source_digest(source), why, str(source.resolve()))


def _files(facts: KernelFacts, kernel: Artefacts) -> Iterator[Step]:
    release, folder = kernel.release, _tree_folder(facts, kernel.release)
    if kernel.modules is not None:
        yield _tree(f"/lib/modules/{release}", kernel.modules, "modules")
    if kernel.trees is not None:
        yield from folder_steps(facts.disk, folder.rpartition("/")[0])
        yield _tree(folder, kernel.trees, "device trees")
    for name, source in (("config", kernel.config), ("System.map", kernel.system_map)):
        if source is not None:
            yield _install(f"/boot/{name}-{release}", source)
    if kernel.initrd is not None:
        yield _install(f"/boot/initrd.img-{release}", kernel.initrd, "initial RAM disk")
    if facts.layout.scripted and kernel.wrapped is not None:
        yield _install(f"/boot/uInitrd-{release}", kernel.wrapped, "as U-Boot wants it")
    elif not facts.layout.scripted and kernel.initrd is None and kernel.wrapped is not None:
        yield _install(f"/boot/initrd.img-{release}", kernel.wrapped, "initial RAM disk")
    yield _install(f"/boot/vmlinuz-{release}", kernel.image, "the kernel")


def _own_files(board: GuardedBoard, facts: KernelFacts, kernel: Artefacts) -> Iterator[Step]:
    """What is needed to go back: the state of now, the scripts, and the unit that goes back by itself."""
    yield from folder_steps(facts.disk, state.MANIFESTS)
    before = state.text(_state_now(facts))
    if facts.disk.kind(state.STOCK) is None:
        yield from text_steps(facts.disk, state.STOCK, before, "the first kernel ever seen here")
    yield from text_steps(facts.disk, state.PREVIOUS, before, "what boots now")
    yield from text_steps(facts.disk, state.ROLLBACK, ROLLBACK_SCRIPT, "goes back without this program")
    yield Step("dry-run", state.ROLLBACK, None, "works", "before anything is switched")
    yield from text_steps(facts.disk, state.TRIAL_SCRIPT, TRIAL_SCRIPT_TEXT)
    yield from folder_steps(facts.disk, UNIT_LINK.rpartition("/")[0])
    yield from text_steps(facts.disk, UNIT_PATH, UNIT_TEXT, "goes back by itself without a good mark")
    if facts.disk.kind(UNIT_LINK) is None:
        yield Step("link", UNIT_LINK, ABSENT, f"../{UNIT_PATH.rpartition('/')[2]}")
    if kernel.manifest is not None:
        manifest = {
            **kernel.manifest,
            "release": kernel.release,
            "image_sha256": _digest(kernel.image),
        }
        text = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=True) + "\n"
        yield from text_steps(
            facts.disk, f"{state.MANIFESTS}/{kernel.release}.json", text, f"from {MANIFEST}"
        )
    trial = {"release": kernel.release, "before": facts.running, "boots": "0", **before_values(board, facts)}
    yield from text_steps(facts.disk, state.TRIAL, state.text(trial), "one boot is the trial")


def _state_now(facts: KernelFacts) -> dict[str, str]:
    """Links or menu default, with the digest of what each names."""
    disk, values = facts.disk, {"release": facts.running}
    if not facts.layout.scripted:
        menu = parse_menu(disk.read(MENU, MAX_TEXT_BYTES).decode("utf-8", "replace"))
        assert menu.first is not None
        return values | {"layout": "menu", "default": menu.first.label, "kernel": menu.first.kernel}
    values["layout"] = "links"
    for name in LINKS:
        target = disk.readlink(f"/boot/{name}")
        if target is not None:
            values[f"link.{name}"] = target
            if disk.kind(f"/boot/{target}") is Kind.FILE:
                values[f"sha256.{name}"] = disk.digest(f"/boot/{target}")
    return values


def _switch(facts: KernelFacts, kernel: Artefacts) -> Iterator[Step]:
    release = kernel.release
    if facts.layout.scripted:
        targets = {"dtb": f"dtb-{release}", "uInitrd": f"uInitrd-{release}", "Image": f"vmlinuz-{release}"}
        for name in LINKS:
            yield Step("link", f"/boot/{name}", facts.disk.readlink(f"/boot/{name}") or ABSENT, targets[name])
        return
    text = facts.disk.read(MENU, MAX_TEXT_BYTES).decode("utf-8", "replace")
    first = parse_menu(text).first
    assert first is not None

    def moved(path: str) -> str:
        return path.replace(first.release, release) if first.release else path

    entry = Entry(
        OWN_LABEL,
        f"Linux {release} (installed by ork)",
        moved(first.kernel),
        moved(first.initrd) or f"/boot/initrd.img-{release}",
        f"{_tree_folder(facts, release)}/",
        "",
        first.overlays,
        first.append,
    )
    yield Step("text", MENU, text, with_default(with_entry(text, entry), OWN_LABEL), "the new kernel first")


DEPLOY = Operation(
    name="kernel-deploy",
    title="install a kernel",
    risk=Risk.UNREACHABLE,
    why="a driver that is built in changes only with the kernel",
    root="writing to /boot, /lib/modules and /etc/systemd/system",
    lasting="",
    plan=plan,
    options=(("from", "folder of the built kernel, or its .deb packages"),),
    command="ork kernel deploy",
)
