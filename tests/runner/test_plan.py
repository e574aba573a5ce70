"""A layer as operations: what may share a submit, and why a layer is never one program."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from orkbench_tui.driver.decode_layer import batch_sizes
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.models.read_architecture import architecture_of
from orkbench_tui.runner.plan import Operation, Project, layer_operations
from orkbench_tui.runner.program import _touched, written
from tests.reference.tiny_models import write_tiny_llama


@pytest.fixture
def operations(tmp_path: Path) -> tuple[Operation, ...]:
    with GgufFile.open(write_tiny_llama(tmp_path / "m.gguf")) as file:
        return layer_operations(architecture_of(file), 0)


def test_independent_matmuls_of_each_step_are_those_of_the_compiled_layer(
    operations: tuple[Operation, ...],
) -> None:
    groups = [operation for operation in operations if isinstance(operation, Project)]
    assert [len(group.products) for group in groups] == list(batch_sizes().values()) == [3, 1, 2, 1]
    for group in groups:
        targets = {product.target for product in group.products}
        assert len(targets) == len(group.products) and group.source not in targets - {"hidden"}


def test_down_waits_for_gate_and_up_and_has_no_peer(operations: tuple[Operation, ...]) -> None:
    down = next(o for o in operations if isinstance(o, Project) and "ffn_down" in o.products[0].weight)
    known = {down.source}
    for operation in reversed(operations[: operations.index(down)]):
        if written(operation) & known:
            known |= _touched(operation)
    assert {"gate", "up"} <= known
    peers = [o for o in operations if isinstance(o, Project) and o is not down and o.source == down.source]
    assert peers == []


def test_between_any_two_groups_of_matmuls_lies_work_only_the_cpu_does(
    operations: tuple[Operation, ...],
) -> None:
    """Which is why a layer is never one program of the NPU: what is between must come back first."""
    at = [index for index, operation in enumerate(operations) if isinstance(operation, Project)]
    assert len(at) == 4
    for first, second in pairwise(at):
        between = operations[first + 1 : second]
        assert between and not any(isinstance(operation, Project) for operation in between)
        assert operations[second].source in set().union(*(written(o) for o in between)), "it is read next"
