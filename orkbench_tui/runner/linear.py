"""Ways to multiply rows by a model's large weights, and what each needs from outside.

int8 ("w8a8-rot", "w8a8"): rows are quantized with one scale each (the first rotates them before), sums are exact int32, and one C kernel scales
them back, so the CPU and the NPU give the same bits. float32: numpy, the high-precision reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from orkbench_tui.driver.soc import Soc
from orkbench_tui.native.expert_steps import NibbleRows
from orkbench_tui.native.scan_halves import HalfProduct
from orkbench_tui.native.steps import Codes, Steps
from orkbench_tui.native.tiles import padded
from orkbench_tui.runner.models.architecture import Architecture
from orkbench_tui.runner.overlap.order import Room
from orkbench_tui.runner.plan import Mix, Project
from orkbench_tui.runner.residence import Residence, ResidentWeights, reside

__all__ = [
    "Buffers",
    "FloatWeights",
    "HalfProductsLike",
    "HeadAttentionLike",
    "Int8MatmulLike",
    "Int8Store",
    "Int8Tiles",
    "Int8WeightLike",
    "ModelTensors",
    "NpuCounters",
    "NpuLike",
    "PackedLike",
    "PackedWeights",
    "Part",
    "Projector",
]

Floats = NDArray[np.float32]

# One stage of a program: gets the number of rows and the position of the first.
Part = Callable[[int, int], None]


class Int8WeightLike(Protocol):
    """A weight in NPU memory; ``tiles`` is the CPU's view, None where it is not one block."""

    @property
    def tiles(self) -> NDArray[np.int8] | None: ...


class Int8MatmulLike(Protocol):
    """A compiled matmul: fill ``a`` (int8 [rows, K]), ``run``, read ``outputs`` (int32 [rows, ≥ N_i])."""

    @property
    def a(self) -> NDArray[np.int8]: ...

    @property
    def outputs(self) -> tuple[NDArray[np.int32], ...]: ...

    def run(self) -> None: ...


class HalfProductsLike(Protocol):
    """Products in fp16 whose operands are filled anew: ``run`` computes the first so many."""

    @property
    def products(self) -> Sequence[HalfProduct]: ...

    def run(self, count: int) -> None: ...


class HeadAttentionLike(Protocol):
    """Attention of a head over keys and values it was told, float32 [some, head_dim] at a time."""

    def extend(self, keys: Floats, values: Floats) -> int: ...

    def attend(self, query: Floats) -> Floats: ...

    def free(self) -> None: ...


class NpuCounters(Protocol):
    """What has run so far."""

    @property
    def submits(self) -> int: ...

    @property
    def tasks(self) -> int: ...

    @property
    def hw_ns(self) -> int: ...


class NpuLike(Protocol):
    """What the engine needs of an NPU. ``a`` and ``outputs`` of all matmuls of one lane may share memory."""

    @property
    def counters(self) -> NpuCounters: ...

    def load_int8(
        self, name: str, tiles: NDArray[np.int8], k: int, n: int, *, domain: int = 0
    ) -> Int8WeightLike: ...

    def matmul_int8(
        self, weights: Sequence[Int8WeightLike], rows: int, *, lane: int = 0
    ) -> Int8MatmulLike: ...

    @property
    def soc(self) -> Soc: ...

    def attention(
        self, head_dim: int, max_keys: int, *, value_scale: float, core: int = 0, name: str = "attention"
    ) -> HeadAttentionLike: ...

    def fresh_products(self, count: int, rows: int, k: int, n: int, name: str) -> HalfProductsLike: ...


class PackedLike(Protocol):
    """An int8 weight of K inputs and N outputs as tiles, with a scale for each output.

    ``rows`` are the same weight in 4 bits where it is stored so. Its rows were rotated in blocks of ``rotation`` unless 0, and so must be what they are multiplied by.
    """

    @property
    def K(self) -> int: ...

    @property
    def N(self) -> int: ...

    @property
    def tiles(self) -> NDArray[np.int8]: ...

    @property
    def rows(self) -> NibbleRows | None: ...

    @property
    def scales(self) -> Floats: ...

    @property
    def rotation(self) -> int: ...


class ModelTensors(Protocol):
    """The tensors every way of running needs."""

    @property
    def architecture(self) -> Architecture: ...

    def raw(self, name: str) -> Floats:
        """A whole tensor as float32, a row per output."""

    def raw_rows(self, name: str, ids: Sequence[int] | NDArray[np.integer]) -> Floats:
        """Some rows of a tensor as float32; IndexError where there is no such row."""


class PackedWeights(ModelTensors, Protocol):
    """An open weight pack."""

    @property
    def scheme(self) -> str: ...

    @property
    def domain_of(self) -> Mapping[str, int]:
        """The IOMMU domain of each weight."""

    def packed(self, name: str) -> PackedLike: ...


class FloatWeights(ModelTensors, Protocol):
    """A model whose ``raw`` gives the large weights too."""


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """The arrays of one program: named rows of float32, all [rows, width]."""

    rows: int
    named: dict[str, Floats]

    def __getitem__(self, name: str) -> Floats:
        return self.named[name]


class Projector(Protocol):
    """Compiles the ``Project`` operations of one program."""

    @property
    def room(self) -> Room:
        """Where the parts run that ``add`` and ``mix`` return."""

    def codes(self, project: Project) -> Codes | None:
        """Where the operation before must leave the quantized source; None where floats are wanted."""

    def add(self, project: Project, steps: Steps) -> Part | None:
        """Appends what comes before the multiplication to ``steps``, or all of it.

        A returned part is to run after those steps, and then the steps ``after`` appends.
        """

    def mix(self, mix: Mix, steps: Steps) -> Part | None:
        """The same as ``add`` for a feed-forward of experts."""

    def after(self, operation: Project | Mix, steps: Steps) -> None:
        """Appends what comes after the part that ``add`` or ``mix`` returned."""


@dataclass(frozen=True, slots=True, eq=False)
class Int8Tiles:
    """A weight the CPU multiplies by; ``resident`` is the same weight on the NPU.

    An expert stored in 4 bits stays in them: its ``rows`` take the place of ``tiles``, which are empty.
    """

    tiles: NDArray[np.int8]
    scales: Floats
    k: int
    rotation: int = 0
    resident: Int8WeightLike | None = None
    rows: NibbleRows | None = None


class Int8Store:
    """The model's weights, each held once: mapped from the pack, or in the NPU's buffers.

    ``on_npu`` names the weights to load into the NPU, each into the domain the pack gives it; ``residence``
    tells what that came to, None without an NPU.
    """

    def __init__(self, pack: PackedWeights, npu: NpuLike | None, on_npu: Sequence[str] = ()) -> None:
        self._weights: dict[str, Int8Tiles] = {}
        self.residence: Residence | None = None
        loaded: ResidentWeights | None = None
        if npu is not None:
            loaded, self.residence = reside(pack, npu, on_npu, pack.domain_of)
        for linear in pack.architecture.all_linears():
            resident = loaded[linear.name] if loaded is not None and linear.name in loaded else None
            stored = pack.packed(linear.name)
            rows = stored.rows if linear.index is not None and resident is None else None
            if rows is not None and rows.runs:
                tiles = np.zeros(0, np.int8)
            else:
                view = None if resident is None else resident.tiles
                rows, tiles = None, stored.tiles if view is None else view
            self._weights[linear.name] = Int8Tiles(
                tiles, stored.scales, padded(stored.K), stored.rotation, resident, rows
            )

    def __getitem__(self, name: str) -> Int8Tiles:
        return self._weights[name]

    def rotation_for(self, project: Project) -> int:
        """The rotation all weights of a group want of their common source; ValueError where they differ."""
        wanted = {self._weights[product.weight].rotation for product in project.products}
        if len(wanted) != 1:
            raise ValueError(f"{project.products[0].weight} and its group are rotated differently")
        return wanted.pop()
