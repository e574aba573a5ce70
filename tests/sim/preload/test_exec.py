"""Programs compiled outside the project run on the simulated board, unmodified."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orkbench_tui.sim import lifecycle
from orkbench_tui.sim.preload.build import LIBRARY, build_in_place

HERE = Path(__file__).parent
COMPILER = shutil.which(os.environ.get("CC", "cc"))

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs, compiled as a stranger would, and the library where the tree was not installed."""
    if not LIBRARY.exists():
        build_in_place()
    folder = tmp_path_factory.mktemp("programs")
    for source in HERE.glob("*.c"):
        flags = ["-O2", "-Wall", "-Werror", "-D_GNU_SOURCE", "-D_FORTIFY_SOURCE=2"]
        subprocess.run(
            [COMPILER, *flags, str(source), "-o", str(folder / source.stem), "-pthread"], check=True
        )
    return folder


def ork(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "orkbench_tui.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload,no-any-return]


def test_a_program_finds_the_card_multiplies_and_keeps_its_input_output_and_code(
    runtime_dir: Path, programs: Path
) -> None:
    ran = ork("sim", "exec", str(programs / "version_and_matmul"), "7", input="hello\n")
    assert ran.stdout.splitlines() == [
        "driver 908 of 20240828, 0 wrong",
        "read hello",
        "RKNPU driver: v0.9.8",
    ]
    assert ran.stderr == ""
    assert ran.returncode == 7


def test_an_import_from_the_heap_and_a_fork(runtime_dir: Path, programs: Path) -> None:
    ran = ork("sim", "exec", str(programs / "heap_import"))
    assert (ran.stdout, ran.stderr, ran.returncode) == ("0 wrong\n0 wrong in the child\n", "", 0)
    status = lifecycle.status()
    assert status is not None
    assert status.jobs_done == 2
    assert lifecycle_settles_to_zero()


def test_threads_copies_of_descriptors_and_nodes_found_by_what_they_are(
    runtime_dir: Path, programs: Path
) -> None:
    ran = ork("sim", "exec", str(programs / "threads_and_copies"))
    assert (ran.stdout.splitlines(), ran.stderr, ran.returncode) == (
        ["0 wrong in threads", "0 wrong from the heap", "0 wrong in the child"], "", 0,
    )  # fmt: skip
    status = lifecycle.status()
    assert status is not None
    assert status.jobs_done == 4 * 8 + 1 + 8
    assert lifecycle_settles_to_zero()


def lifecycle_settles_to_zero() -> bool:
    """Nothing of an ended program stays: no open file, no bytes."""
    import time

    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        status = lifecycle.status()
        if status is not None and (status.open_files, status.npu_bytes) == (0, 0):
            return True
        time.sleep(0.05)
    return False


def test_faults_reach_the_program(runtime_dir: Path, programs: Path) -> None:
    ork("sim", "start")
    ork("sim", "fault", "set", "wedge")
    ran = ork("sim", "exec", str(programs / "version_and_matmul"), input="")
    assert ran.returncode == 1
    assert "Connection timed out" in ran.stderr
    ork("sim", "fault", "set", "permission-denied")
    assert ork("sim", "exec", str(programs / "version_and_matmul"), input="").returncode == 2


def test_a_signal_ends_it_as_it_would_anywhere(runtime_dir: Path) -> None:
    ran = ork("sim", "exec", "sh", "-c", "kill -TERM $$")
    assert ran.returncode == -signal.SIGTERM


def test_what_cannot_run_is_refused(runtime_dir: Path, tmp_path: Path) -> None:
    assert ork("sim", "exec", "/no/such/program").returncode == 2
    ork("sim", "stop")
    ork("sim", "start", "--board", "rocket")
    ran = ork("sim", "exec", "true")
    assert ran.returncode == 3
    assert "rocket" in ran.stderr


def test_a_static_program_is_told_apart(tmp_path: Path) -> None:
    from orkbench_tui.sim.program_run import _linked_statically

    source = tmp_path / "one.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run([COMPILER, str(source), "-o", str(tmp_path / "dynamic")], check=True)
    assert not _linked_statically(tmp_path / "dynamic")
    made = subprocess.run([COMPILER, "-static", str(source), "-o", str(tmp_path / "static")], check=False)
    if made.returncode == 0:
        assert _linked_statically(tmp_path / "static")
