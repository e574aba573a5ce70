"""A guarded board over the simulated board in this process, and effects that can stop at any point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from orkbench_tui.driver import uapi
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import OrkError
from orkbench_tui.ops.checks import exact_matmul
from orkbench_tui.ops.guard.board import Answer, GuardedBoard
from orkbench_tui.ops.guard.effects import append_durably
from orkbench_tui.ops.npu_orders import drop_overdue_jobs
from orkbench_tui.sim.inprocess import InProcessBoard, InProcessDevice


class Killed(BaseException):
    """The process ends here: nothing after it runs, no handler either."""


@dataclass
class SimEffects:
    """Effects on the simulated board. ``stop_at`` counts effects from 0; ``after`` stops behind the effect, not before.

    ``torn`` leaves half of a journal line instead.
    """

    board: InProcessBoard
    stop_at: int = -1
    after: bool = False
    torn: bool = False
    count: int = 0
    terminated: list[int] = field(default_factory=list)
    on_terminate: Callable[[int], None] = lambda pid: None
    fail_writes_to: str = ""
    reboots: list[int] = field(default_factory=list)
    memberships: list[tuple[str, str, bool]] = field(default_factory=list)

    def _effect(self, act: Callable[[], None], half: Callable[[], None] | None = None) -> None:
        here = self.count == self.stop_at
        self.count += 1
        if here and not self.after:
            if self.torn and half is not None:
                half()
            raise Killed
        act()
        if here:
            raise Killed

    def record(self, journal: Path, line: bytes) -> None:
        self._effect(
            lambda: append_durably(journal, line), lambda: append_durably(journal, line[: len(line) // 2])
        )

    def write(self, path: str, data: bytes) -> None:
        if path == self.fail_writes_to:
            raise OSError(5, "Input/output error")
        self._effect(lambda: self.board.files().write(path, data))

    def sync(self) -> None:
        self._effect(self.board.files().sync)

    def terminate(self, pid: int) -> None:
        def act() -> None:
            self.terminated.append(pid)
            self.on_terminate(pid)

        self._effect(act)

    def reset_npu(self) -> None:
        def act() -> None:
            device = InProcessDevice(self.board.kernel)
            device.ioctl(uapi.RKNPU_ACTION, bytearray(uapi.Action(flags=int(uapi.ActionCode.ACT_RESET))))
            device.close()

        self._effect(act)

    def drop_overdue_jobs(self) -> None:
        def act() -> None:
            with Npu(InProcessDevice(self.board.kernel), timeout_ms=500) as npu:
                drop_overdue_jobs(npu)

        self._effect(act)

    def reboot(self) -> None:
        self._effect(lambda: self.reboots.append(self.count))

    def set_membership(self, user: str, group: str, inside: bool) -> None:
        self._effect(lambda: self.memberships.append((user, group, inside)))

    def sleep(self, seconds: float) -> None:
        self.board.clock.sit_out(int(seconds * 1e9))


def canary(board: InProcessBoard) -> tuple[Answer, ...]:
    answers = []
    for core in range(3):
        try:
            with Npu(InProcessDevice(board.kernel), timeout_ms=500) as npu:
                found = exact_matmul(npu, 4, 32, 32, core=core, path="blocking")
            answers.append(
                Answer(f"core {core}", f"{found.wrong} wrong" if found.wrong else "", found.resets)
            )
        except (OrkError, OSError) as error:
            answers.append(Answer(f"core {core}", str(error)))
    return tuple(answers)


def guarded(board: InProcessBoard, state: Path, effects: SimEffects | None = None) -> GuardedBoard:
    return GuardedBoard(
        files=board.files(),
        effects=effects or SimEffects(board),
        state=state,
        lock=state / "operations.lock",
        canary=lambda: canary(board),
        timeout_ms=500,
    )


def nodes(board: InProcessBoard) -> dict[str, str]:
    """Every value a guarded operation may change."""
    files = board.files()
    cpufreq = "/sys/devices/system/cpu/cpufreq"
    paths = [
        "/sys/class/devfreq/fdab0000.npu/governor",
        "/sys/class/devfreq/dmc/governor",
        *(f"{cpufreq}/policy{number}/scaling_governor" for number in (0, 4, 6)),
        *(f"/proc/irq/{number}/smp_affinity_list" for number in (35, 36, 37)),
        "/sys/kernel/debug/rknpu/reset",
        "/sys/kernel/debug/rknpu/delayms",
    ]
    return {path: files.read(path).text().strip() for path in paths}
