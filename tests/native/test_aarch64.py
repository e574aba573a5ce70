"""Native code of AArch64 boards, compiled for them and run under an emulator where both are installed."""

import functools
import shutil
import subprocess
from pathlib import Path

import pytest

from orkbench_tui.native.build import COMPILE_ARGUMENTS, SOURCES

COMPILER = shutil.which("aarch64-linux-gnu-gcc")
EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
HERE = Path(__file__).parent
HOT_PATH = ("hot_path_check.c", ("hot_path",))
KERNELS = (
    "kernels_check.c",
    (
        *(
            "dispatch",
            "int8_portable",
            "int8_avx2",
            "int8_neon",
            "nibble_portable",
            "nibble_avx2",
            "nibble_neon",
        ),
        *("float_portable", "float_avx2", "npu_conv"),
    ),
)
EMULATED = pytest.mark.skipif(
    not (COMPILER and EMULATOR), reason="needs aarch64-linux-gnu-gcc and qemu-aarch64"
)
NATIVE = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")


def _run(words):
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Programs by compiler and check, each built once."""
    return functools.cache(lambda compiler, check: _built(compiler, tmp_path_factory.mktemp("check"), check))


def _built(compiler, folder, check):
    source, parts = check
    program = folder / "check"
    build = _run(
        [
            *(compiler, *COMPILE_ARGUMENTS, "-Werror", "-static", f"-I{SOURCES}", "-o", str(program)),
            *(str(HERE / source), *(str(SOURCES / f"{part}.c") for part in parts), "-lm"),
        ]
    )
    assert build.returncode == 0, build.stderr
    return program


@EMULATED
def test_the_hot_path_maintains_caches_on_aarch64(built):
    found = _run([EMULATOR, str(built(COMPILER, HOT_PATH))])
    assert (found.returncode, found.stdout) == (0, "maintained 1, failures 0\n")


@NATIVE
def test_the_same_check_on_this_processor(built):
    found = _run([str(built(shutil.which("cc"), HOT_PATH))])
    assert found.returncode == 0 and found.stdout.endswith("failures 0\n"), found.stdout


def _kernels(words):
    """(name, failures, digest) of one run of the kernel check."""
    found = _run(words)
    name, _, failures, _, digest = found.stdout.split()[1:]
    assert found.returncode == 0, found.stdout
    return name, int(failures), digest


@EMULATED
@NATIVE
@pytest.mark.parametrize(("cpu", "name"), [("cortex-a76", "neon+dotprod"), ("cortex-a57", "neon")])
def test_kernels_of_both_instruction_sets_give_the_bits_of_this_processor(built, cpu, name):
    """cortex-a76 is the big core of the RK3588; a57 has no dot product."""
    here = _kernels([str(built(shutil.which("cc"), KERNELS))])
    there = _kernels([EMULATOR, "-cpu", cpu, str(built(COMPILER, KERNELS))])
    assert there[0] == name
    assert here[1] == there[1] == 0
    assert here[2] == there[2]


@NATIVE
def test_the_kernel_check_sees_a_wrong_weight(built):
    """Silence of the check means something."""
    found = _run([str(built(shutil.which("cc"), KERNELS)), "spoil"])
    assert found.returncode == 1 and "wrong: convolution" in found.stdout
