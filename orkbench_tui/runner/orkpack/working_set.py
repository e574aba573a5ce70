"""Memory a model needs while it runs, against what the machine has.

Too little shows as pages that come and go and as soft resets of the NPU about every 100 ms, so it is said
before anything is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["WorkingSet"]

_WARN_FROM = 0.85
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """Bytes mapped or held: ``model`` file (0 where the pack runs alone), ``pack``, ``cache`` of keys and
    values (None: not counted), ``scratch``; ``memory`` is the machine's, None where it is not known."""

    model: int
    pack: int
    cache: int | None
    scratch: int
    memory: int | None

    @property
    def needed(self) -> int:
        return self.model + self.pack + (self.cache or 0) + self.scratch

    @property
    def share(self) -> float | None:
        return self.needed / self.memory if self.memory else None

    @property
    def tight(self) -> bool:
        """More than 85 % of the memory."""
        return self.share is not None and self.share > _WARN_FROM

    @property
    def fits(self) -> bool:
        return self.share is None or self.share <= 1

    def as_dict(self) -> dict[str, Any]:
        return {
            "model_bytes": self.model,
            "pack_bytes": self.pack,
            "cache_bytes": self.cache,
            "scratch_bytes": self.scratch,
            "needed_bytes": self.needed,
            "memory_bytes": self.memory,
            "tight": self.tight,
            "fits": self.fits,
        }

    def line(self) -> str:
        """One line; what to do where it is tight."""
        what = "while it runs" if self.cache is not None else "while it runs, without keys and values"
        text = f"{what}: {self.needed / _GIB:.1f} GiB"
        if self.memory is None:
            return f"{text}; the memory of this machine is not known"
        text += f" of {self.memory / _GIB:.1f} GiB of memory"
        if not self.fits:
            return f"{text}: it does not fit, pages would come and go and the NPU would be reset all the time"
        if self.tight:
            return f"{text}: tight; run the pack alone or choose fewer bits"
        return text
