"""Whether a kernel on trial is the one that was installed, and as good as the one before."""

from __future__ import annotations

from collections.abc import Mapping

from orkbench_tui.errors import OrkError, RefusedError
from orkbench_tui.ops.guard.board import GuardedBoard
from orkbench_tui.ops.guard.declaration import Check
from orkbench_tui.ops.guard.verbs import health_fault
from orkbench_tui.ops.kernel.facts import KernelFacts
from orkbench_tui.ops.kernel_log.rules import Severity

__all__ = ["before_values", "post_boot_checks"]

_KEEP = ("root=", "cma=", "isolcpus=")
_WORST = ("Oops", "BUG:", "Kernel panic", "Unable to handle kernel")


def _clocks(board: GuardedBoard) -> str:
    """Names of governed clocks and thermal zones with the CPUs' highest frequencies, in one line."""
    paths = board.paths()
    devices = [folder.rpartition("/")[2] for folder in (paths.npu_devfreq, paths.ddr_devfreq) if folder]
    policies = [
        f"cpu{','.join(map(str, policy.cpus))}:{board.text(f'{policy.path}/cpuinfo_max_freq') or 'unknown'}"
        for policy in paths.policies
    ]
    return " ".join([*devices, *policies, *sorted(zone.name for zone in paths.zones)])


def _arguments(command_line: str) -> str:
    return " ".join(word for word in command_line.split() if word.startswith(_KEEP))


def before_values(board: GuardedBoard, facts: KernelFacts) -> dict[str, str]:
    """What the next kernel is compared with, for the trial's state file."""
    return {
        "boot_id": board.boot_id,
        "arguments": _arguments(facts.command_line),
        "clocks": _clocks(board),
        "driver": facts.driver,
    }


def post_boot_checks(
    board: GuardedBoard, facts: KernelFacts, trial: Mapping[str, str], *, matmuls: bool
) -> tuple[Check, ...]:
    """The checks after the first boot of a kernel on trial; ``matmuls`` runs the known ones on each core."""
    release = trial.get("release", "unknown")
    checks = [
        Check.of(
            board.boot_id != trial.get("boot_id"), "the board has booted since", f"boot {board.boot_id[:8]}"
        ),
        Check.of(
            facts.running == release, "the new kernel runs", f"{facts.running} runs, {release} was installed"
        ),
        _same(
            "the kernel's arguments are the same", _arguments(facts.command_line), trial.get("arguments", "")
        ),
        _same("clocks and thermal zones are the same", _clocks(board), trial.get("clocks", "")),
        _driver(facts, trial),
        _log(board),
    ]
    if matmuls:
        checks.append(_cores(board, facts, trial))
    return tuple(checks)


def _cores(board: GuardedBoard, facts: KernelFacts, trial: Mapping[str, str]) -> Check:
    """What no kernel could show here, or the one before did not have either, does not speak against this one."""
    what = "every core computes, and comes to rest"
    if not facts.driver:
        state = "fail" if trial.get("driver", "") else "warn"
        return Check(state, what, "there is no NPU driver" + (", as before" if state == "warn" else ""))
    try:
        fault = health_fault(board)
    except RefusedError as error:
        return Check("warn", what, error.line())
    except OrkError as error:
        fault = error.line()
    return Check.of(not fault, what, fault)


def _same(what: str, now: str, before: str) -> Check:
    if now == before:
        return Check("pass", what, now or "none")
    lost = [word for word in before.split() if word not in now.split()]
    new = [word for word in now.split() if word not in before.split()]
    parts = ([f"lost {' '.join(lost)}"] if lost else []) + ([f"new {' '.join(new)}"] if new else [])
    return Check("fail" if lost else "warn", what, "; ".join(parts) or "in another order")


def _driver(facts: KernelFacts, trial: Mapping[str, str]) -> Check:
    before = trial.get("driver", "")
    if not before:
        return Check("pass", "the NPU driver is there", f"{facts.driver or 'none'}, as before")
    return Check.of(
        bool(facts.driver), "the NPU driver is there", f"{facts.driver or 'none'}, {before} before"
    )


def _log(board: GuardedBoard) -> Check:
    what = "no fault in the kernel log since boot"
    if not board.log_readable():
        return Check("warn", what, "the log cannot be read (root)")
    for item in board.log_after(-1):
        message = item.record.message
        if any(word in message for word in _WORST):
            return Check("fail", what, message)
        if item.rule is not None and item.severity >= Severity.ERROR and item.rule.id.startswith("npu."):
            return Check("fail", what, message)
    return Check("pass", what)
