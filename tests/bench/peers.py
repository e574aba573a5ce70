"""Ours against peers in the same run, in turns: llama.cpp for the model, plain numpy for single matmuls.

``ORK_BENCH_LLAMA_PYTHON`` names an interpreter that has llama-cpp-python; without one only numpy is a peer.
Every figure is ``host``: the NPU's part of ours is computed by the simulated board on this machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from orkbench_tui import locations
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.npu import Npu
from orkbench_tui.runner.bench.arms import turns
from orkbench_tui.runner.bench.statistics import compare
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize.pack_cache import packed_model
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.bench.perplexity import default_model, npu_engine
from tests.bench.speed import GENERATED, PROMPT, _Llama, _ours

PAIRS = 5
SCHEME = "w8a8-rot"
SHAPES = ((1, 576, 1536), (128, 576, 576), (128, 576, 1536), (128, 1536, 576))
"""Layers of the default model: one row as in generation, 128 as in a prompt."""


def in_turns(ours: Callable[[], float], theirs: Callable[[], float]) -> tuple[list[float], list[float]]:
    """Speeds of both, side by side and each first in turn."""
    ours()
    theirs()
    found: tuple[list[float], list[float]] = ([], [])
    for _, arm in turns(PAIRS):
        found[arm].append((ours, theirs)[arm]())
    return found


def told(name: str, peer: str, unit: str, ours: list[float], theirs: list[float]) -> str:
    verdict = compare(theirs, ours, interleaved=True)
    span = "" if verdict.low is None else f", 95 % {verdict.low:.2f} to {verdict.high:.2f}"
    return (
        f"{name}: ours {statistics.median(ours):.1f}, {peer} {statistics.median(theirs):.1f} {unit} (host); "
        f"{verdict.ratio:.2f} x{span}, {verdict.pairs} pairs: {verdict.verdict}"
    )


def _per_s(step: Callable[[], object], repeat: int) -> float:
    started = time.perf_counter()
    for _ in range(repeat):
        step()
    return repeat / (time.perf_counter() - started)


def _matmuls() -> None:
    random = np.random.default_rng(1)
    board = InProcessBoard()
    with Npu(board.device()) as npu:
        for m, k, n in SHAPES:
            b = random.integers(-128, 128, (n, k), dtype=np.int8)
            a = random.integers(-128, 128, (m, k), dtype=np.int8)
            weight = npu.load(INT8, "peer", b)
            matmul = npu.matmul([weight], m)
            matmul.a[:] = a
            a32, b32 = a.astype(np.float32), b.astype(np.float32).T.copy()
            repeat = 20
            ours, theirs = in_turns(
                lambda run=matmul.run, count=repeat: _per_s(run, count),
                lambda x=a32, y=b32, count=repeat: _per_s(lambda: x @ y, count),
            )
            print(
                told(
                    f"matmul {m}x{k}x{n}, driver and simulated NPU", "numpy float32", "a second", ours, theirs
                )
            )
            matmul.close()
            npu.free(weight)
        weight = npu.load(INT8, "empty", np.ones((32, 32), np.int8))
        matmul = npu.matmul([weight], 1)
        times = [1e6 / _per_s(matmul.run, 50) for _ in range(5)]
        print(
            f"driver overhead, 1x32x32 over the cores: median {statistics.median(times):.0f} us a call (host)"
        )
    board.close()


def _pack(path: Path) -> None:
    times = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            packed_model(path, Path(folder), lambda *progress: None, SCHEME)
            times.append(time.perf_counter() - started)
    print(f"pack of {path.name}: median {statistics.median(times):.2f} s (host)")


_LLAMA_PEAK = f"""
import sys
from llama_cpp import Llama
model = Llama(sys.argv[1], n_ctx=2048, n_batch=512, n_threads=2, n_threads_batch=2, verbose=False)
model.eval(list(range(100, 100 + {PROMPT})))
for token in range({GENERATED}):
    model.eval([200 + token])
print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""
_OUR_PEAK = f"""
import sys
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.orkpack.reader import OrkPack
with OrkPack.open(sys.argv[1]) as pack:
    engine = Engine.from_pack(pack, context=2048)
    engine.prefill(list(range(100, 100 + {PROMPT})))
    for token in range({GENERATED}):
        engine.decode(200 + token)
print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""


def _peak_mib(python: str, code: str, path: Path) -> float:
    done = subprocess.run([python, "-c", code, str(path)], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) / 1024


def _memory(python: str, path: Path, pack_path: Path) -> None:
    ours, theirs = _peak_mib(sys.executable, _OUR_PEAK, pack_path), _peak_mib(python, _LLAMA_PEAK, path)
    print(
        f"peak resident memory, prefill {PROMPT} and decode {GENERATED} on the CPU: "
        f"ours {ours:.0f}, llama.cpp {theirs:.0f} MiB (host); {ours / theirs:.2f} x"
    )


def _against_llama(where: str, engine: Engine, llama: _Llama) -> None:
    _ours(engine)
    llama.measure()
    found: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    for _, arm in turns(PAIRS):
        found[arm].append(_ours(engine) if arm == 0 else llama.measure())
    for index, name in enumerate((f"prefill {PROMPT}", f"decode {GENERATED}")):
        mine, other = ([pair[index] for pair in arm] for arm in found)
        print(told(f"{name}, {where}", "llama.cpp", "tok/s", mine, other))


def run() -> None:
    _matmuls()
    path = default_model()
    _pack(path)
    python = os.environ.get("ORK_BENCH_LLAMA_PYTHON", "")
    if not python:
        print("llama.cpp: not measured (set ORK_BENCH_LLAMA_PYTHON)")
        return
    llama = _Llama(python, path)
    pack_path = packed_model(path, locations.packs_dir(), lambda *_: None, SCHEME)
    with npu_engine(path, SCHEME) as engine:
        _against_llama("prompt through the simulated NPU", engine, llama)
    with OrkPack.open(pack_path) as pack:
        _against_llama("all on the CPU", Engine.from_pack(pack, context=2048), llama)
    llama.close()
    _memory(python, path, pack_path)
