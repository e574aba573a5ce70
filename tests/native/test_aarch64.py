"""Native code of AArch64 boards, compiled for them and run under an emulator where both are installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from orkbench_tui.native.build import COMPILE_ARGUMENTS, SOURCES

COMPILER = shutil.which("aarch64-linux-gnu-gcc")
EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
CHECK = Path(__file__).with_name("hot_path_check.c")


def _run(words):
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=120)


def _built(compiler, tmp_path):
    program = tmp_path / "check"
    build = _run(
        [
            *(compiler, *COMPILE_ARGUMENTS, "-Werror", "-static", f"-I{SOURCES}", "-o", str(program)),
            *(str(CHECK), str(SOURCES / "hot_path.c")),
        ]
    )
    assert build.returncode == 0, build.stderr
    return program


@pytest.mark.skipif(not (COMPILER and EMULATOR), reason="needs aarch64-linux-gnu-gcc and qemu-aarch64")
def test_the_hot_path_maintains_caches_on_aarch64(tmp_path):
    found = _run([EMULATOR, str(_built(COMPILER, tmp_path))])
    assert (found.returncode, found.stdout) == (0, "maintained 1, failures 0\n")


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_the_same_check_on_this_processor(tmp_path):
    found = _run([str(_built(shutil.which("cc"), tmp_path))])
    assert found.returncode == 0 and found.stdout.endswith("failures 0\n"), found.stdout
