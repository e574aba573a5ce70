"""``python -m orkbench_tui.cli.canary LABEL``: small known matmuls, for who holds the NPU's lock.

On each core, with an imported weight and in another domain, in a process of its own, because a bad job may hurt the
process that ran it. Prints one JSON list: what was tried, its fault, the resets it asked for, and the
exit code of a fault that says nothing of the NPU's health: no driver, no permission, a chip nobody has programs for.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from orkbench_tui.errors import DeniedError, NoDriverError, OrkError, RefusedError
from orkbench_tui.ops.guard.board import ADDRESSES, IMPORTED, OTHER_DOMAIN, Answer

if TYPE_CHECKING:
    from orkbench_tui.driver.npu import Npu

__all__ = ["ask_canary"]

JOB_TIMEOUT_MS = 2000
MAX_CORES = 3
PATIENCE_S = 120.0
_SHAPE = (8, 64, 64)
_WEIGHT_SHAPE = (8, 2048, 1024)
"""An import of 2 MiB: small ones succeed even where memory is in a bad way."""
_PIECE_BYTES = 64 << 20
_SAYS_NOTHING = (NoDriverError, DeniedError, RefusedError)


def _on_core(npu: Npu, core: int) -> int | None:
    """Wrong elements of a matmul on one core; None when the chip has no such core."""
    from orkbench_tui.ops.checks import exact_matmul

    if core >= npu.soc.cores:
        return None
    return exact_matmul(npu, *_SHAPE, seed=core + 1, core=core, path="blocking").wrong


def _with_weight(npu: Npu, domain: int, imported: bool) -> int | None:
    """Wrong elements of a matmul whose weight lies in ``domain``; None where the driver has only one."""
    import numpy as np

    from orkbench_tui.driver.matmul.formats import INT8

    if domain and npu.info().domain is None:
        return None
    rng = np.random.default_rng(7)
    m, k, n = _WEIGHT_SHAPE if imported else _SHAPE
    a = rng.integers(-128, 128, (m, k), dtype=np.int8)
    b = rng.integers(-128, 128, (n, k), dtype=np.int8)
    weight = npu.load(INT8, "canary", b, domain=domain, imported=imported)
    matmul = npu.matmul([weight], m)
    matmul.a[:] = a
    matmul.run_on(0)
    wrong = int(np.count_nonzero(matmul.outputs[0][:, :n] != a.astype(np.int32) @ b.T.astype(np.int32)))
    matmul.close()
    npu.free(weight)
    return wrong


def _addresses(npu: Npu) -> int:
    npu.context.memory.free(npu.context.memory.allocate(_PIECE_BYTES))
    return 0


# The import comes before another domain is entered: freed with another domain live it would leak.
_CASES: tuple[tuple[str, Callable[[Npu], int | None]], ...] = (
    *((f"core {core}", functools.partial(_on_core, core=core)) for core in range(MAX_CORES)),
    (ADDRESSES, _addresses),
    (IMPORTED, functools.partial(_with_weight, domain=0, imported=True)),
    (OTHER_DOMAIN, functools.partial(_with_weight, domain=1, imported=False)),
)


def _answer(label: str, run: Callable[[Npu], int | None]) -> tuple[str, int, int] | None:
    """What went wrong ("" for a right answer), the resets asked for, and the code of what says nothing, else 0.

    None when there is nothing to try.
    """
    from orkbench_tui.settings import Settings
    from orkbench_tui.target import open_target

    try:
        with open_target(Settings.load(target=label, npu_timeout_ms=JOB_TIMEOUT_MS)) as target:
            npu = target.open_npu(exclusive=False)
            before = npu.counters
            wrong = run(npu)
            resets = npu.counters.since(before).resets
    except (OrkError, OSError) as error:
        return str(error), 0, int(error.exit_code) if isinstance(error, _SAYS_NOTHING) else 0
    return None if wrong is None else (f"{wrong} wrong elements" if wrong else "", resets, 0)


def main(words: list[str]) -> int:
    tried = ((what, _answer(words[0], run)) for what, run in _CASES)
    sys.stdout.write(json.dumps([(what, *found) for what, found in tried if found is not None]) + "\n")
    return 0


def ask_canary(label: str) -> tuple[Answer, ...]:
    """What a fresh process says of each core. One that does not answer is asked to end, never killed.

    Raises:
        NoDriverError, DeniedError, RefusedError: no core can be tried, for a reason that is no fault of the NPU.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "orkbench_tui.cli.canary", label],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
        said = json.loads(out)
    except subprocess.TimeoutExpired:
        process.terminate()
        return (Answer("the test", f"no answer in {PATIENCE_S:.0f} s"),)
    except ValueError:
        lines = err.strip().splitlines()
        return (Answer("the test", lines[-1] if lines else f"the test ended with {process.returncode}"),)
    for _, fault, _, code in said[:1]:
        for kind in _SAYS_NOTHING:
            if code == kind.exit_code:
                raise kind("whether the NPU is well cannot be tried", why=str(fault))
    return tuple(Answer(str(what), str(fault), int(resets)) for what, fault, resets, _ in said)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
