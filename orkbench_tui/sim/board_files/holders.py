"""/proc entries of the programs that hold the simulated node open.

They are processes of the host; their name and times are read there. A program with a job not yet over
sleeps in the driver, as a blocking submit does.
"""

from __future__ import annotations

from pathlib import Path

from orkbench_tui.sim.kernel.rknpu import RknpuKernel

__all__ = ["holder_files"]

_FIRST_FD = 7
_WAIT = b"rknpu_job_wait"


def holder_files(kernel: RknpuKernel) -> dict[str, bytes]:
    """Files below ``/proc/<pid>``; those in ``fd`` are links and hold their target."""
    with kernel.condition:
        held: dict[int, list[int]] = {}
        for file in kernel.files:
            held.setdefault(file.pid, []).append(file.jobs)
    files: dict[str, bytes] = {}
    for pid, jobs in held.items():
        folder = f"/proc/{pid}"
        waiting = any(jobs)
        files[f"{folder}/comm"] = _host(pid, "comm") or b"unknown\n"
        files[f"{folder}/cmdline"] = _host(pid, "cmdline")
        files[f"{folder}/stat"] = _stat(pid, waiting)
        files[f"{folder}/wchan"] = _WAIT if waiting else b"0"
        for number in range(len(jobs)):
            files[f"{folder}/fd/{_FIRST_FD + number}"] = kernel.profile.node.encode()
    return files


def _host(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _stat(pid: int, waiting: bool) -> bytes:
    head, _, rest = _host(pid, "stat").rpartition(b") ")
    if not head:
        return f"{pid} (unknown) {'D' if waiting else 'S'}".encode() + b" 0" * 49 + b"\n"
    return head + b") " + (b"D" if waiting else rest[:1]) + rest[1:]
