"""``python -m orkbench_tui.cli.canary LABEL``: a small known matmul on each core, for who holds the NPU's lock.

A process of its own, because a bad job may hurt the process that ran it; prints one JSON list of core, fault and resets.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orkbench_tui.ops.guard.board import CoreAnswer

__all__ = ["ask_canary"]

JOB_TIMEOUT_MS = 2000
MAX_CORES = 3
PATIENCE_S = 120.0
_SHAPE = (8, 64, 64)


def _answer(label: str, core: int) -> tuple[str, int] | None:
    """What went wrong ("" for a right answer) and the resets asked for; None when the chip has no such core."""
    from orkbench_tui.errors import OrkError
    from orkbench_tui.ops.checks import exact_matmul
    from orkbench_tui.settings import Settings
    from orkbench_tui.target import open_target

    try:
        with open_target(Settings.load(target=label, npu_timeout_ms=JOB_TIMEOUT_MS)) as target:
            npu = target.open_npu(exclusive=False)
            if core >= npu.soc.cores:
                return None
            answer = exact_matmul(npu, *_SHAPE, seed=core + 1, core=core, path="blocking")
    except (OrkError, OSError) as error:
        return str(error), 0
    return f"{answer.wrong} wrong elements" if answer.wrong else "", answer.resets


def main(words: list[str]) -> int:
    answers: list[tuple[int, str, int]] = []
    for core in range(MAX_CORES):
        found = _answer(words[0], core)
        if found is None:
            break
        answers.append((core, *found))
    sys.stdout.write(json.dumps(answers) + "\n")
    return 0


def ask_canary(label: str) -> tuple[CoreAnswer, ...]:
    """What a fresh process says of each core. One that does not answer is asked to end, never killed."""
    from orkbench_tui.ops.guard.board import CoreAnswer

    process = subprocess.Popen(
        [sys.executable, "-m", "orkbench_tui.cli.canary", label],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
        return tuple(
            CoreAnswer(int(core), str(fault), int(resets)) for core, fault, resets in json.loads(out)
        )
    except subprocess.TimeoutExpired:
        process.terminate()
        return (CoreAnswer(0, f"no answer in {PATIENCE_S:.0f} s"),)
    except ValueError:
        said = err.strip().splitlines()
        return (CoreAnswer(0, said[-1] if said else f"the test ended with {process.returncode}"),)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
