"""Records to meanings: which rule a record matches and the figures it carries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from orkbench_tui.ops.kernel_log.records import LogRecord
from orkbench_tui.ops.kernel_log.rules import RULES, UNKNOWN_NPU, Rule, Severity

__all__ = ["Classified", "classify", "classify_all", "relevant"]

# Cheap test before the table: most lines of a boot log are about other devices.
_HINTS = (
    "npu", "iommu", "iova", "dma", "rocket", "callbacks suppressed", "panic", "blocked for more", "external abort",
    "serror", "rcu:", "memory", "oom", "cma", "swiotlb", "pvtpll", "thermal", "cooling",
)  # fmt: skip
# A flood repeats few messages a hundred thousand times.
_REMEMBERED = 4096

# Most rules begin with the driver's own prefix; lines of others need not be held against those.
_BY_DRIVER = tuple(rule for rule in RULES if not rule.pattern.pattern.startswith("^rk_iommu"))
_BY_OTHERS = tuple(rule for rule in RULES if not rule.pattern.pattern.startswith("^(?:RKNPU[0-9]? "))


@dataclass(frozen=True, slots=True)
class Classified:
    """A record with its rule (None: not about the NPU) and the named figures of the line."""

    record: LogRecord
    rule: Rule | None
    figures: dict[str, str] = field(default_factory=dict)

    @property
    def severity(self) -> Severity:
        return self.rule.severity if self.rule else Severity.DEBUG

    @property
    def kind(self) -> str:
        return self.rule.kind if self.rule else ""


def classify(record: LogRecord) -> Classified:
    """The first rule that matches; an NPU line no rule knows gets ``npu.unknown``, never nothing."""
    message = record.message
    # Only the kernel speaks about the NPU: a marker written to /dev/kmsg may quote anything.
    if record.facility not in (None, 0) or not _hinted(message):
        return Classified(record, None)
    rule, figures = _match(message)
    return Classified(record, rule, dict(figures))


def _hinted(message: str) -> bool:
    lower = message.lower()
    return any(hint in lower for hint in _HINTS)


@lru_cache(_REMEMBERED)
def _match(message: str) -> tuple[Rule | None, tuple[tuple[str, str], ...]]:
    for rule in _BY_DRIVER if message.startswith("RKNPU") else _BY_OTHERS:
        if found := rule.pattern.search(message):
            return rule, tuple((k, v) for k, v in found.groupdict().items() if v is not None)
    if UNKNOWN_NPU.pattern.search(message) and not message.startswith(" "):
        return UNKNOWN_NPU, ()
    return None, ()


def classify_all(records: Iterable[LogRecord]) -> list[Classified]:
    return [classify(record) for record in records]


def relevant(items: Iterable[Classified]) -> list[Classified]:
    """Those a reader of NPU logs wants: every line with a rule, known or unknown."""
    return [item for item in items if item.rule is not None]
