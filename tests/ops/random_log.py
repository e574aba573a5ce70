"""Log lines at random, seeded: real lines, damaged ones, mixtures of their pieces, noise."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

__all__ = ["random_lines"]

_SAMPLES = Path(__file__).parents[1] / "data" / "samples"
_WORDS = (
    "RKNPU:", "RKNPU fdab0000.npu: RKNPU:", "RKNPU3:", "soft reset, num:", "job timeout, flags: 0x0:", "failed to wait job, task counter:",
    "ret = -512,", "core", "irq status:", "0x0,", "-1", "99999999999999999999999", "rk_iommu fdab9000.iommu: Page fault at", "size:",
    "failed to allocate IOVA:", "cma: cma_alloc:", "Out of memory: Killed process", "(", ")", "[drm] Initialized rknpu", "é", "\udcff", "\x1b[31m",
    "\t", "{", '"MESSAGE"', "WARNING: CPU:", "__iommu_dma_unmap", "INFO: task", "blocked for more than", "usb 1-1:", "EXT4-fs",
)  # fmt: skip


def _sources() -> list[str]:
    files = sorted([*_SAMPLES.glob("dmesg*"), *_SAMPLES.glob("kmsg*"), *_SAMPLES.glob("journalctl*")])
    return [line for path in files for line in path.read_text().splitlines()]


def random_lines(count: int, seed: int = 7) -> Iterator[bytes]:
    """``count`` lines without line ends; a third real, a third damaged, a third made of pieces."""
    source, chance = _sources(), random.Random(seed)
    for number in range(count):
        kind = chance.random()
        line = chance.choice(source)
        if kind > 0.66:
            words = " ".join(chance.choices(_WORDS, k=chance.randrange(1, 9)))
            line = f"[{number / 10:12.6f}] {words}"
        elif kind > 0.33 and line:
            at = chance.randrange(len(line))
            line = chance.choice(
                (line[:at], line[at:], line[:at] + chr(chance.randrange(1, 0x2FF)) + line[at:], line + line)
            )
        yield line.replace("\n", " ").replace("\r", " ").encode("utf-8", "surrogateescape")
