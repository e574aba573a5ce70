"""The last samples, newest last, and the series charts are drawn from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from orkbench_tui.ops.telemetry.sample import Sample

__all__ = ["History"]


class History:
    """A ring of ``capacity`` samples. Gaps stay gaps: a missing value is None in a series."""

    def __init__(self, capacity: int = 600) -> None:
        self._ring: deque[Sample] = deque(maxlen=capacity)

    def __len__(self) -> int:
        return len(self._ring)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._ring)

    def add(self, sample: Sample) -> None:
        self._ring.append(sample)

    def clear(self) -> None:
        self._ring.clear()

    @property
    def last(self) -> Sample | None:
        return self._ring[-1] if self._ring else None

    def series(self, value: Callable[[Sample], float | None], count: int) -> list[float | None]:
        """The last ``count`` values, oldest first; fewer when the ring holds fewer."""
        start = max(0, len(self._ring) - count)
        return [value(self._ring[index]) for index in range(start, len(self._ring))]

    def npu_load(self, core: int, count: int) -> list[float | None]:
        """Busy percent of one NPU core."""
        return self.series(lambda s: s.npu.cores[core].load_pct if core < len(s.npu.cores) else None, count)
