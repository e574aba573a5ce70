"""The dispatcher applied to one model: what the engine asks, and what ``explain`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from orkbench_tui.driver.attention_limits import LEAST_KEYS
from orkbench_tui.runner.dispatch.dispatcher import Dispatcher
from orkbench_tui.runner.dispatch.unit import Decision, Place, Source, operation_unit, project_unit
from orkbench_tui.runner.models.architecture import Architecture
from orkbench_tui.runner.overlap.micro_batches import ROWS_PER_CHUNK
from orkbench_tui.runner.plan import Attend, Operation, Project, Scan, head_operations, layer_operations

__all__ = ["ModelDispatch"]


class ModelDispatch:
    """``sources`` tells what the model file holds each weight as, for the rule that asks."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        architecture: Architecture,
        sources: Mapping[str, Source] = MappingProxyType({}),
    ) -> None:
        self._dispatcher = dispatcher
        self._architecture = architecture
        self._sources = sources
        self._shapes = {linear.name: (linear.K, linear.N) for linear in architecture.all_linears()}

    def decide(self, project: Project, rows: int) -> Decision:
        """Where a group of products runs in a program of so many rows."""
        return self._dispatcher.decide(project_unit(project, self._shapes, rows, self._sources))

    def operation(self, operation: Operation, rows: int, context: int) -> Decision:
        """The same for any operation of the plan, ``context`` tokens being held when its rows are done."""
        unit = operation_unit(operation, self._architecture, self._shapes, rows, context, self._sources)
        return self._dispatcher.decide(unit)

    def prompt_scan(self, operation: Scan, rows: int) -> Decision:
        """A scan of ``rows`` rows of a prompt, where all of a prompt's are: where a full program's is.

        It rounds differently in the two places, so a place for each number of rows would show in the bits.
        """
        decided = self.operation(operation, ROWS_PER_CHUNK, ROWS_PER_CHUNK)
        asked = self.operation(operation, rows, rows)
        return replace(decided, unit=asked.unit, npu_us=asked.npu_us, cpu_us=asked.cpu_us)

    def scans_on_npu(self) -> bool:
        """Whether the scans of prompts share their work with the NPU."""
        return any(
            isinstance(operation, Scan) and self.prompt_scan(operation, ROWS_PER_CHUNK).place is Place.NPU
            for layer in sorted(self._architecture.scanning)[:1]
            for operation in layer_operations(self._architecture, layer)
        )

    def attention_on_npu(self) -> bool:
        """Whether single tokens attend on the NPU in some layer, once there are enough of them."""
        return any(
            isinstance(operation, Attend) and self.operation(operation, 1, LEAST_KEYS).place is Place.NPU
            for layer in self._architecture.attending
            for operation in layer_operations(self._architecture, layer)
        )

    def everything(self, rows: int, context: int, *, prompt: bool = False) -> list[tuple[str, Decision]]:
        """Every operation in order with where it stands: "layer 3", or "head", which sees the last row alone."""

        def decide(operation: Operation) -> Decision:
            if prompt and isinstance(operation, Scan):
                return self.prompt_scan(operation, rows)
            return self.operation(operation, rows, context)

        found = [
            (f"layer {layer}", decide(operation))
            for layer in range(self._architecture.layers)
            for operation in layer_operations(self._architecture, layer)
        ]
        return found + [("head", self.operation(o, 1, context)) for o in head_operations(self._architecture)]

    def resident(self, sizes: tuple[int, ...]) -> list[str]:
        """Weights that a program of any of these sizes may want on the NPU, in canonical order."""
        idle = self._dispatcher.idle()
        units: dict[object, bool] = {}
        names: set[str] = set()
        for layer in range(self._architecture.layers):
            for operation in layer_operations(self._architecture, layer):
                if not isinstance(operation, Project):
                    continue
                for rows in sizes:
                    unit = project_unit(operation, self._shapes, rows, self._sources)
                    if unit not in units:
                        units[unit] = idle.decide(unit).place is Place.NPU
                    if units[unit]:
                        names |= {product.weight for product in operation.products}
        return [linear.name for linear in self._architecture.all_linears() if linear.name in names]
