"""What one process has run on the NPU so far."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

__all__ = ["Counters"]


@dataclass(slots=True)
class Counters:
    """Counts since the NPU was opened; ``hw_ns`` is what the kernel reported per job, added up.

    ``resets`` are resets this process asked for. The last five belong to submits that do not wait:
    ``drops`` jobs whose result never came, ``resubmits`` attempts made after that, ``recovered`` jobs
    that then finished, ``failed`` jobs given up, ``polls`` looks at a result.
    """

    submits: int = 0
    tasks: int = 0
    hw_ns: int = 0
    core_submits: list[int] = field(default_factory=lambda: [0, 0, 0])
    resets: int = 0
    drops: int = 0
    resubmits: int = 0
    recovered: int = 0
    failed: int = 0
    polls: int = 0

    def copy(self) -> Counters:
        return replace(self, core_submits=list(self.core_submits))

    def since(self, earlier: Counters) -> Counters:
        """The difference, field by field."""
        numbers = {
            f.name: getattr(self, f.name) - getattr(earlier, f.name)
            for f in fields(self)
            if f.name != "core_submits"
        }
        cores = [now - then for now, then in zip(self.core_submits, earlier.core_submits, strict=True)]
        return Counters(core_submits=cores, **numbers)
