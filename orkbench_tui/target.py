"""Real or simulated: decided here and nowhere else.

``auto`` takes the board when the kernel shows a vendor NPU card, and starts the simulated board when
it shows none. A card that is there but may not be opened is a permission error, never a reason to
fall back to the simulator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

from orkbench_tui import locations
from orkbench_tui.errors import DeniedError, NoDeviceError, NoDriverError, OrkError
from orkbench_tui.ops.disk import Disk, HostDisk
from orkbench_tui.ops.files import BoardFiles, BoardWriter, HostFiles
from orkbench_tui.ops.guard.as_root import RootDisk, RootWriter, change_membership, order_reboot
from orkbench_tui.ops.guard.board import REHEARSAL
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.driver.device import Device
    from orkbench_tui.driver.dma_heap import DmaHeap
    from orkbench_tui.driver.npu import Npu
    from orkbench_tui.sim.client import SimBoardFiles

__all__ = [
    "BOARD_OPERATIONS_LOCK",
    "Target",
    "board_unfinished",
    "connect_files",
    "leave_simulator",
    "occupancy_dir",
    "open_target",
    "simulator",
]

BOARD_LOCK = Path("/tmp/ork-npu.lock")
"""The path other tools of the open stack lock too."""
_OPERATIONS_LOCK = "ork-operations.lock"
BOARD_OPERATIONS_LOCK = BOARD_LOCK.with_name(_OPERATIONS_LOCK)


def occupancy_dir() -> Path:
    """Where each process publishes what it holds on the NPU."""
    return locations.runtime_dir() / "npu"


def leave_simulator() -> None:
    """Wait no longer for jobs of a simulated board, if this process uses one; a board's jobs are waited for."""
    if client := sys.modules.get("orkbench_tui.sim.client"):
        client.leave()


def simulator() -> ModuleType:
    """The simulated board's life: ``start``, ``stop`` and ``status``."""
    from orkbench_tui.sim import lifecycle

    return lifecycle


def simulator_control() -> ModuleType:
    """What can be done to a running simulated board: faults, restarts; and which boards there are."""
    from orkbench_tui.sim import control

    return control


@dataclass(slots=True)
class Target:
    """A board to work on. ``label`` is ``board`` or ``sim``; ``notice`` is worth telling the user once,
    ``unstartable`` is as in ``GuardedBoard``."""

    label: str
    name: str
    files: BoardFiles
    writer: BoardWriter
    disk: Disk
    unstartable: str
    notice: str
    _reboot: Callable[[], None]
    change_membership: Callable[[str, str, bool], None]
    _device: Callable[[], Device]
    _heap: Callable[[], DmaHeap]
    _lock_path: Path
    _timeout_ms: int
    _big_workers: bool
    _failure_files: int
    _closers: list[Callable[[], None]] = field(default_factory=list)

    @property
    def timeout_ms(self) -> int:
        """How long a submitted job may take."""
        return self._timeout_ms

    @property
    def operations_lock(self) -> Path:
        """The file that keeps two guarded operations on this board apart, whoever runs them."""
        return self._lock_path.with_name(_OPERATIONS_LOCK)

    def hold_npu(self) -> None:
        """Keep other programs off the NPU until this is closed, without opening it.

        Raises:
            BusyError: another program holds it; the message names it.
        """
        from orkbench_tui.driver.exclusive import DeviceLock

        self._closers.append(DeviceLock(self._lock_path, self.name).close)

    def order_reset(self) -> None:
        """ACT_RESET on a descriptor of its own, which holds power while it is open.

        Raises:
            OSError: the driver refused it.
            NoDeviceError, DeniedError: it cannot be opened.
        """
        from orkbench_tui.driver import uapi

        device = self._device()
        try:
            device.ioctl(uapi.RKNPU_ACTION, bytearray(uapi.Action(flags=int(uapi.ActionCode.ACT_RESET))))
        finally:
            device.close()

    def reboot(self) -> None:
        """Order the board to boot anew.

        Raises:
            DeniedError: this user may not.
        """
        self._reboot()

    def open_npu(self, *, exclusive: bool = True) -> Npu:
        """The NPU, held for this process alone unless ``exclusive`` is off.

        Raises:
            BusyError: another program holds it; the message names it.
            DeniedError, NoDeviceError: it cannot be opened.
        """
        from orkbench_tui.driver.exclusive import DeviceLock
        from orkbench_tui.driver.failure_files import FailureFiles, failures_folder
        from orkbench_tui.driver.npu import Npu
        from orkbench_tui.driver.occupancy import Publisher
        from orkbench_tui.driver.soc import RK3588, soc_for
        from orkbench_tui.driver.this_process import this_command

        if exclusive:
            self._closers.append(DeviceLock(self._lock_path, self.name).close)
        device = self._device()
        publisher = Publisher(occupancy_dir(), device=self.name, source=self.label, command=this_command())
        compatible = self._compatible()
        soc = soc_for(compatible)
        npu = Npu(
            device,
            soc=soc or RK3588,
            timeout_ms=self._timeout_ms,
            worker_cpus=None if self._big_workers else frozenset(),
            publisher=publisher if exclusive else None,
            heap=self._heap,
            failure_files=FailureFiles(failures_folder(), self._failure_files, self.label),
        )
        if soc is None:
            npu.context.say_once(
                f"the chip is not known ({', '.join(compatible) or 'no compatible string'}); taken for rk3588"
            )
        self._closers.append(npu.close)
        return npu

    def open_error(self) -> str:
        """Why this user may not open the NPU's node, "" when he may. Nothing is sent to the NPU."""
        try:
            self._device().close()
        except DeniedError as error:
            node = self.name if self.name.startswith("/") else "/dev/dri"
            return f"open {node}: Permission denied ({error.what})"
        except (OrkError, OSError):
            # Anything else shows in the kernel log and the files.
            return ""
        return ""

    def _compatible(self) -> list[str]:
        reading = self.files.read("/proc/device-tree/compatible")
        return [name for name in reading.data.decode("ascii", "replace").split("\0") if name]

    def close(self) -> None:
        while self._closers:
            self._closers.pop()()
        self.files.close()

    def __enter__(self) -> Target:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _board(settings: Settings, *, without_npu: bool = False) -> Target | None:
    from orkbench_tui.driver.dma_heap import SYSTEM_HEAP, SystemDmaHeap
    from orkbench_tui.driver.real_device import DrmDevice, find_card

    root = Path(settings.board_root)
    card = find_card(root)
    if card is None and not without_npu:
        return None
    files = HostFiles(settings.board_root)

    def device() -> Device:
        if card is None:
            raise _no_board(settings)
        return DrmDevice(str(root / card.node.lstrip("/")))

    return Target(
        label="board",
        name=card.node if card is not None else "the NPU",
        files=files,
        writer=RootWriter(files, settings.board_root),
        disk=RootDisk(settings.board_root),
        unstartable=REHEARSAL,
        notice="",
        _reboot=order_reboot,
        change_membership=change_membership,
        _device=device,
        _heap=lambda: SystemDmaHeap(str(root / SYSTEM_HEAP.lstrip("/"))),
        _lock_path=BOARD_LOCK,
        _timeout_ms=settings.npu_timeout_ms,
        _big_workers=settings.npu_workers == "big",
        _failure_files=settings.npu_failure_files,
    )


def _no_board(settings: Settings) -> NoDeviceError:
    from orkbench_tui.driver.real_device import scan_cards

    cards = scan_cards(Path(settings.board_root))
    seen = (
        ", ".join(f"{card.node} ({card.driver or 'driver unknown'})" for card in cards)
        or "no /dev/dri or /dev/accel node"
    )
    mainline = any(card.driver == "rocket" for card in cards)
    unfinished = board_unfinished()
    return NoDriverError(
        "no rknpu NPU on this machine",
        why=f"saw {seen}"
        + ("; the mainline rocket driver owns this NPU" if mainline else "")
        + (f"; {unfinished} was interrupted" if unfinished else ""),
        do="run `ork board resume`"
        if unfinished
        else "boot a vendor kernel with the rknpu driver, or use the simulated board with --target sim",
    )


def board_unfinished() -> str:
    """The operation on this machine's own board that was interrupted and not resumed; "" for none.

    One may have taken the driver off, so that the board no longer shows an NPU.
    """
    from orkbench_tui.ops.guard.journal import readable

    runs, _ = readable(locations.state_dir())
    return next((run.operation for run in runs if run.open and run.source == "board"), "")


def _reason(settings: Settings) -> str:
    return "No NPU on this machine: " if settings.target == "auto" else ""


def _simulated(settings: Settings) -> Target:
    from orkbench_tui.sim.client import SimDevice, SimDmaHeap

    before = simulator().status()
    path, files = _reached(settings)
    after = simulator().status()
    notice = (
        ""
        if before or after is None
        else f"{_reason(settings)}started the simulated board (pid {after.pid}; `ork sim stop` ends it)."
    )
    if after is not None and not after.driver:
        notice += f"{' ' if notice else ''}The simulated board has no rknpu driver ({after.board})."
    return Target(
        label="sim",
        name="the simulated NPU",
        files=files,
        writer=files,
        disk=HostDisk(str(after.disk), str(after.disk / "proc/mounts"))
        if after and after.disk
        else HostDisk(),
        unstartable="",
        notice=notice,
        _reboot=_sim_reboot,
        change_membership=partial(_sim_membership, after.disk if after else None),
        _device=lambda: _typed(lambda: SimDevice(path)),
        _heap=lambda: SimDmaHeap(path),
        _lock_path=path.parent / "npu.lock",
        _timeout_ms=settings.npu_timeout_ms,
        _big_workers=settings.npu_workers == "big",
        _failure_files=settings.npu_failure_files,
    )


def _sim_membership(disk: Path | None, user: str, group: str, inside: bool) -> None:
    """The simulated board's groups lie on its disk."""
    from orkbench_tui.ops.guard.groups import with_member

    if disk is None:
        raise NoDeviceError("the simulated board has no disk", do="start it anew with `ork sim start`")
    place = disk / "etc/group"
    place.write_text(with_member(place.read_text("utf-8", "replace"), user, group, inside=inside))


def _sim_reboot() -> None:
    simulator_control().reboot()


_CONNECT_TRIES = 3


def _reached(settings: Settings) -> tuple[Path, SimBoardFiles]:
    """The simulated board's socket and its files; one that ends between start and connect is started again."""
    from orkbench_tui.sim.client import SimBoardFiles

    failure: OSError | None = None
    for _ in range(_CONNECT_TRIES):
        status = simulator().start(pace=settings.sim_pace, idle_s=settings.sim_idle_s)
        try:
            return status.socket_path, SimBoardFiles(status.socket_path)
        except OSError as error:
            failure = error
    raise NoDeviceError(
        "the simulated board went away", why=str(failure), do="run the command again"
    ) from failure


def _typed(connect: Callable[[], Device]) -> Device:
    try:
        return connect()
    except OSError as error:
        raise NoDeviceError("the NPU went away", why=str(error), do="run the command again") from error


def open_target(settings: Settings, *, resuming: bool = False) -> Target:
    """The board to work on, chosen as ``settings.target`` says. Close it, or use it in ``with``.

    ``resuming`` an operation on this machine's board takes it although it shows no NPU.

    Raises:
        NoDeviceError: a board was asked for and there is none, it lost its NPU to an operation that was interrupted,
            or the simulator does not start.
    """
    if settings.target in ("auto", "board"):
        board = _board(settings)
        if board is None and resuming and board_unfinished():
            board = _board(settings, without_npu=True)
        if board is not None:
            return board
        if settings.target == "board" or board_unfinished():
            raise _no_board(settings)
    return _simulated(settings)


def connect_files(settings: Settings) -> BoardFiles:
    """Only the board's files, for screens that reconnect by themselves."""
    return open_target(settings).files
