"""Tokens per second of the default model, paired with llama.cpp where llama-cpp-python can be imported.

Pairs alternate (ours, theirs, ours, theirs, …) and medians are compared, because this kind of machine
moves by tens of percent between runs. ``ORK_BENCH_LLAMA_PYTHON`` names an interpreter that has
llama-cpp-python; without one only ours is measured.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from pathlib import Path

from tests.bench.perplexity import default_model, npu_engine

PROMPT = 128
GENERATED = 64
PAIRS = 7

_LLAMA = """
import json, sys, time
from llama_cpp import Llama
model = Llama(sys.argv[1], n_ctx=2048, n_batch=512, n_threads=2, n_threads_batch=2, verbose=False)
for line in sys.stdin:
    model.reset()
    start = time.perf_counter()
    model.eval(list(range(100, 100 + {prompt})))
    prefill = time.perf_counter() - start
    model.reset()
    model.eval([100])
    start = time.perf_counter()
    for token in range({generated}):
        model.eval([200 + token])
    decode = time.perf_counter() - start
    print(json.dumps([{prompt} / prefill, {generated} / decode]), flush=True)
"""


class _Llama:
    """llama.cpp in a process of its own, idle between measurements."""

    def __init__(self, python: str, model: Path) -> None:
        code = _LLAMA.format(prompt=PROMPT, generated=GENERATED)
        self._process = subprocess.Popen(
            [python, "-c", code, str(model)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def measure(self) -> tuple[float, float]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        prefill, decode = json.loads(self._process.stdout.readline())
        return prefill, decode

    def close(self) -> None:
        self._process.communicate("")


def _ours(engine) -> tuple[float, float]:
    engine.rewind(0)
    start = time.perf_counter()
    engine.prefill(list(range(100, 100 + PROMPT)))
    prefill = PROMPT / (time.perf_counter() - start)
    engine.rewind(0)
    engine.prefill([100])
    start = time.perf_counter()
    for token in range(GENERATED):
        engine.decode(200 + token)
    return prefill, GENERATED / (time.perf_counter() - start)


def _line(name: str, values: list[float]) -> str:
    return f"{name}: median {statistics.median(values):.1f} tok/s, best {max(values):.1f}, worst {min(values):.1f} (host)"


def _packed_load_seconds(path: Path) -> float:
    start = time.perf_counter()
    with npu_engine(path):
        return time.perf_counter() - start


def run() -> None:
    path = default_model()
    loads = [_packed_load_seconds(path) for _ in range(5)]
    print(f"load from pack, into the NPU: median {statistics.median(loads):.2f} s (host)")
    python = os.environ.get("ORK_BENCH_LLAMA_PYTHON", "")
    llama = _Llama(python, path) if python else None
    ours, theirs = [], []
    with npu_engine(path) as engine:
        _ours(engine)
        if llama:
            llama.measure()
        for _ in range(PAIRS):
            ours.append(_ours(engine))
            if llama:
                theirs.append(llama.measure())
    for index, name in enumerate((f"prefill {PROMPT}", f"decode {GENERATED}")):
        mine = [pair[index] for pair in ours]
        print(_line(f"{name}, ours", mine))
        if theirs:
            other = [pair[index] for pair in theirs]
            ratio = statistics.median(a / b for a, b in zip(mine, other, strict=True))
            print(_line(f"{name}, llama.cpp", other))
            print(f"{name}: {ratio:.2f} x llama.cpp (median of {PAIRS} pairs)")
    if llama:
        llama.close()
    else:
        print("llama.cpp: not measured (set ORK_BENCH_LLAMA_PYTHON)")
