"""Leaves a file of what was submitted when a job fails, and names it in the error.

A failure is reported whether or not a file could be written: whatever goes wrong here is dropped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orkbench_tui.driver.failure_files import FailureFiles
from orkbench_tui.driver.failure_record import Programs, buffer_rows, job_facts
from orkbench_tui.driver.memory import Memory
from orkbench_tui.driver.modes import ModeState
from orkbench_tui.driver.npu_info import version_text
from orkbench_tui.driver.submit import Submitted, Submitter
from orkbench_tui.driver.uapi import ActionCode
from orkbench_tui.errors import OrkError, UnhealthyError
from orkbench_tui.version import VERSION

__all__ = ["FailureRecorder", "naming"]


def naming(error: OrkError, path: Path | None) -> OrkError:
    """The same error with ``path`` in its next step; the error itself where there is no file."""
    if path is None:
        return error
    shows = f"`ork npu failures {path.name}` shows what was submitted"
    return type(error)(error.what, why=error.why, do=f"{error.do}; {shows}" if error.do else shows)


class FailureRecorder:
    """``files`` None keeps nothing. ``action`` runs a driver action, ``modes`` gives what the cores are in."""

    def __init__(
        self,
        files: FailureFiles | None,
        *,
        device: str,
        soc: str,
        memory: Memory,
        submitter: Submitter,
        modes: Callable[[], ModeState],
        action: Callable[[ActionCode], int],
    ) -> None:
        self._files = files
        self._device = device
        self._soc = soc
        self._memory = memory
        self._submitter = submitter
        submitter.on_failure = self.named
        self._modes = modes
        self._action = action

    def named(self, error: OrkError, jobs: Sequence[Submitted]) -> OrkError:
        """``error`` with the file of ``jobs`` named, where one was left.

        A device that is gone, denied or in use says nothing about a program, so that leaves none.
        """
        if not isinstance(error, UnhealthyError):
            return error
        return naming(error, self.keep(error.what, error.why, jobs))

    def keep(self, what: str, why: str, jobs: Sequence[Submitted]) -> Path | None:
        """Write down ``jobs`` as they were submitted; the file, None where none was left. Raises nothing."""
        if self._files is None or not self._files.wanted or not jobs:
            return None
        try:
            return self._files.save(self._data(what, why, jobs))
        except Exception:  # noqa: BLE001 - the failure that is being told counts more than its file
            return None

    def keep_recent(self, what: str, why: str) -> Path | None:
        """``keep`` for results that came and are wrong: the last submits of each core."""
        return self.keep(what, why, self._submitter.recent())

    def _data(self, what: str, why: str, jobs: Sequence[Submitted]) -> dict[str, Any]:
        programs = Programs()
        domains = {job.job.domain for job in jobs}
        buffers = {domain: self._memory.buffers(domain) for domain in domains}
        every = [buffer for use in self._memory.domains() for buffer in self._memory.buffers(use.id)]
        modes = self._modes()
        version, hardware = self._asked(ActionCode.GET_DRV_VERSION), self._asked(ActionCode.GET_HW_VERSION)
        return {
            "recorded": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "ork": VERSION,
            "device": self._device,
            "soc": self._soc,
            "driver_version": None if version is None else version_text(version),
            "hw_version": None if hardware is None else f"{hardware:#x}",
            "failure": {"what": what, "why": why},
            "jobs": [job_facts(job, buffers[job.job.domain], programs) for job in jobs],
            "kernel_domain": self._memory.kernel_domain,
            "buffers": buffer_rows(every),
            "buffers_in_all": len(every),
            "modes": _mode_facts(modes),
            "counters": dataclasses.asdict(self._submitter.counters),
            "words": programs.words,
            "programs_left_out": programs.left_out,
        }

    def _asked(self, code: ActionCode) -> int | None:
        try:
            return self._action(code)
        except OrkError:
            return None


def _mode_facts(modes: ModeState) -> dict[str, Any]:
    return {
        "last_mode": modes.last_mode.value,
        "last_chain": modes.last_chain.value,
        "int4_may_be_left": modes.int4_may_be_left,
        "warm": modes.warm_scalar,
        "warm_cores": list(modes.warm_cores),
        "lut_loaded": list(modes.lut_loaded),
        "resets": modes.resets,
        "entries": [
            {"profile": profile.value, "from": mode.value, "times": times}
            for (profile, mode), times in modes.entries.items()
        ],
        "knobs": dataclasses.asdict(modes.knobs),
    }
