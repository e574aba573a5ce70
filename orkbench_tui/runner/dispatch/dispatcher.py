"""The dispatcher: asks the rules in order and gives each operation its place. The engine runs what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from orkbench_tui.driver.soc import RK3588, Soc
from orkbench_tui.errors import UsageError
from orkbench_tui.runner.dispatch.costs import DispatchCosts
from orkbench_tui.runner.dispatch.rules import LOW_BIT, RULES, Facts
from orkbench_tui.runner.dispatch.unit import Decision, Op, Place, Unit

__all__ = ["EXACT", "MOVABLE", "Dispatcher", "parse_overrides"]

EXACT = (Op.QKV, Op.ATTENTION_OUT, Op.GATE_UP, Op.DOWN, Op.SCAN_IN, Op.SCAN_OUT)
"""Operations that both places compute to the same bits, so that a setting may choose."""

MOVABLE = (*EXACT, Op.SCAN, Op.ATTENTION)
"""With those that round differently there: a setting brings them to the NPU by name alone."""


class Dispatcher:
    """Decisions depend on the unit, the overrides and, where costs are about equal, on ``busy`` alone."""

    def __init__(
        self,
        overrides: Mapping[str, Place] = MappingProxyType({}),
        *,
        soc: Soc = RK3588,
        npu: bool = True,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._overrides = overrides
        self._costs = DispatchCosts(soc)
        self._soc = soc
        self._npu = npu
        self._busy = busy

    def idle(self) -> Dispatcher:
        """The same with a free NPU: what it gives to the NPU is all that may ever go there."""
        return Dispatcher(self._overrides, soc=self._soc, npu=self._npu)

    def decide(self, unit: Unit) -> Decision:
        npu, cpu = self._costs.npu_ns(unit), self._costs.cpu_ns(unit)
        npu_us, cpu_us = (None if ns is None else ns / 1e3 for ns in (npu, cpu))
        facts = Facts(self._npu, self._overrides, self._costs, npu_us, cpu_us, self._busy)
        for name, rule in RULES:
            verdict = rule(unit, facts)
            if verdict is not None:
                return Decision(unit, verdict.place, name, verdict.why, npu_us, cpu_us)
        raise AssertionError(f"no rule knows {unit}")


def parse_overrides(text: str) -> dict[str, Place]:
    """``gate-up=npu,down=cpu,low-bit=cpu`` as a mapping; empty has none.

    ``all`` stands for every operation, ``all=npu`` for those that are exact there.

    Raises:
        UsageError: a name or place that is not known, or a name given twice.
    """
    found: dict[str, Place] = {}
    names = [*(op.value for op in MOVABLE), "all", LOW_BIT]
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, place = (word.strip() for word in part.partition("="))
        if name not in names or place not in list(Place) or (name, place) == (LOW_BIT, Place.NPU):
            raise UsageError(
                f"dispatch has {part!r}",
                why=f"known: {', '.join(names[:-1])} = npu or cpu, and {LOW_BIT} = cpu",
                do="separate several with commas",
            )
        every = [op.value for op in (EXACT if place == Place.NPU else MOVABLE)]
        for one in every if name == "all" else [name]:
            if one in found:
                raise UsageError(f"dispatch names {one} twice")
            found[one] = Place(place)
    return found
