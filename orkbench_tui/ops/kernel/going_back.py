"""Back to the kernel before, and keeping the new one: the two ends of a trial."""

from __future__ import annotations

from collections.abc import Iterator

from orkbench_tui.ops.disk import Kind
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Check, Operation, Plan, Risk, Step, Words
from orkbench_tui.ops.guard.disk_steps import removal_steps
from orkbench_tui.ops.guard.disk_verbs import ABSENT, MAX_TEXT_BYTES
from orkbench_tui.ops.kernel import state
from orkbench_tui.ops.kernel.extlinux import parse_menu, with_default
from orkbench_tui.ops.kernel.facts import KernelFacts, kernel_facts
from orkbench_tui.ops.kernel.formats import HEAD_BYTES, judge_image
from orkbench_tui.ops.kernel.health import post_boot_checks
from orkbench_tui.ops.kernel.layout import LINKS, MENU

__all__ = ["MARK_GOOD", "ROLLBACK"]


def plan_rollback(board: GuardedBoard, words: Words) -> Plan:
    """``words["to"]`` is previous or stock."""
    facts = kernel_facts(board)
    path = state.STOCK if words.get("to") == "stock" else state.PREVIOUS
    target = state.read(facts.disk, path)
    if target is None:
        known = Check(
            "fail", "the kernel before is known", f"{path} is not there: no kernel was installed by ork"
        )
        return Plan(ROLLBACK, board.host, (("running", facts.running),), (known,), words=words)
    checks = [Check("pass", "the kernel before is known", target.get("release", "unknown"))]
    checks += _whole(facts, target)
    refused = any(check.state == "fail" for check in checks)
    switches = () if refused else tuple(_switches(facts, target))
    trial = removal_steps(facts.disk, state.TRIAL, "ends the trial")
    # Without a switch there is nothing to verify: an earlier run, or the script, has done it.
    verify = (
        Step(
            "boots", "the next boot", None, target.get("release", ""), "read through the boot loader's names"
        ),
    )
    steps = (*switches, *trial, *verify) if switches or trial else ()
    return Plan(
        ROLLBACK,
        board.host,
        (("running", facts.running), ("goes back to", target.get("release", "unknown"))),
        tuple(checks),
        () if refused else steps,
        verified_by="everything through the names the boot loader uses",
        phrase=target.get("release", ""),
        words=words,
    )


def _whole(facts: KernelFacts, target: dict[str, str]) -> Iterator[Check]:
    """What the state names is there and as it was."""
    disk, what = facts.disk, "its files are there and unchanged"
    if target.get("layout") == "menu":
        text = (
            disk.read(MENU, MAX_TEXT_BYTES).decode("utf-8", "replace") if disk.kind(MENU) is Kind.FILE else ""
        )
        label = target.get("default", "")
        yield Check.of(parse_menu(text).entry(label) is not None, what, f"label {label} of {MENU}")
        return
    for name in LINKS:
        link = target.get(f"link.{name}")
        if link is None:
            continue
        path = f"/boot/{link}"
        if disk.kind(path) is None:
            yield Check("fail", what, f"{path} is not there")
            return
        wanted = target.get(f"sha256.{name}")
        if wanted and disk.digest(path) != wanted:
            # An initial RAM disk is made anew by package updates; a kernel is not.
            state_word = (
                "fail"
                if name == "Image" and judge_image(disk.read(path, HEAD_BYTES), disk.size(path))
                else "warn"
            )
            yield Check(state_word, what, f"{path} is not what it was")
            if state_word == "fail":
                return
    yield Check("pass", what)


def _switches(facts: KernelFacts, target: dict[str, str]) -> Iterator[Step]:
    disk = facts.disk
    if target.get("layout") == "menu":
        text = disk.read(MENU, MAX_TEXT_BYTES).decode("utf-8", "replace")
        if parse_menu(text).default != target.get("default"):
            yield Step(
                "text", MENU, text, with_default(text, target.get("default", "")), "the kernel before first"
            )
        return
    for name in LINKS:
        wanted = target.get(f"link.{name}")
        now = disk.readlink(f"/boot/{name}")
        if wanted is not None and now != wanted:
            yield Step("link", f"/boot/{name}", now or ABSENT, wanted)


def plan_mark_good(board: GuardedBoard, words: Words) -> Plan:
    """Keep the kernel on trial, after the checks of its first boot."""
    facts = kernel_facts(board)
    trial = state.read(facts.disk, state.TRIAL)
    if trial is None:
        check = Check("pass", "no kernel is on trial", f"{facts.running} is kept")
        return Plan(MARK_GOOD, board.host, (("running", facts.running),), (check,), words=words)
    checks = post_boot_checks(board, facts, trial, matmuls=words.get("matmuls") != "no")
    release = trial.get("release", "unknown")
    good = state.text({"release": release, "before": trial.get("before", "")})
    disk = facts.disk
    now = (
        disk.read(state.GOOD, MAX_TEXT_BYTES).decode("utf-8", "replace") if disk.kind(state.GOOD) else ABSENT
    )
    steps = [Step("text", state.GOOD, now, good, "kept")] if now != good else []
    steps += removal_steps(disk, state.TRIAL, "ends the trial")
    return Plan(
        MARK_GOOD,
        board.host,
        (("running", facts.running), ("on trial", release), ("before it", trial.get("before", "unknown"))),
        checks,
        tuple(steps),
        verified_by="reading both files again",
        words=words,
    )


ROLLBACK = Operation(
    name="kernel-rollback",
    title="go back to an earlier kernel",
    risk=Risk.UNREACHABLE,
    why="the kernel before, or the first one ever seen here, boots next",
    root="writing to /boot",
    lasting="",
    plan=plan_rollback,
    options=(("to", "previous or stock"),),
    command="ork kernel rollback",
)

MARK_GOOD = Operation(
    name="kernel-mark-good",
    title="keep the kernel on trial",
    risk=Risk.REVERSIBLE,
    why="without it the kernel before comes back at the next boot, or by itself after ten minutes",
    root="writing to /boot",
    lasting="",
    plan=plan_mark_good,
    holds_npu=True,
    options=(("matmuls", "no to leave out the matmuls on each core"),),
    command="ork kernel mark-good",
)
