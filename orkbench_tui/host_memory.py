"""How much memory this machine can still give, asked before something large is begun."""

from __future__ import annotations

from pathlib import Path

from orkbench_tui.errors import NoMemoryError

__all__ = ["available_bytes", "peak_bytes", "require_memory", "total_bytes"]


def available_bytes(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """What the kernel estimates new work may take without swapping; None where it does not say."""
    return _field(meminfo, "MemAvailable:")


def total_bytes(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """The memory of this machine; None where the kernel does not say."""
    return _field(meminfo, "MemTotal:")


def peak_bytes(status: Path = Path("/proc/self/status")) -> int | None:
    """The most memory this program ever had resident. Not getrusage's figure, which begins with that of whoever started it."""
    return _field(status, "VmHWM:")


def _field(meminfo: Path, name: str) -> int | None:
    try:
        lines = meminfo.read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def require_memory(what: str, needed_bytes: int, do: str) -> None:
    """
    Raises:
        NoMemoryError: ``what`` needs more than there is.
    """
    available = available_bytes()
    if available is not None and needed_bytes > available:
        raise NoMemoryError(
            f"not enough memory for {what}",
            why=f"about {needed_bytes >> 20} MiB needed, {available >> 20} MiB available",
            do=do,
        )
