"""What a model is, read from its metadata and tensor shapes: one frozen record, the same for every family."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.models.families import FAMILIES, Family, Pairing, Role, TensorRule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from orkbench_tui.runner.gguf_file import GgufFile

__all__ = [
    "HEAD_NAME",
    "Architecture",
    "Linear",
    "Rope",
    "architecture_of",
    "canonical_key",
    "read_architecture",
]

HEAD_NAME = "output.weight"
EMBEDDING_NAME = "token_embd.weight"
_MAX_LAYERS = 1024
_MAX_SIZE = 1 << 24


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding: ``dims`` elements of each head turn, the rest pass.

    Pair i turns by position · base^(-2i/dims) / factors[i], factors being 1 where None.
    """

    base: float
    dims: int
    pairing: Pairing
    factors: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Linear:
    """A weight of a matmul: activations [M, K] by this give [M, N]."""

    name: str
    K: int
    N: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """Dimensions are element counts; ``context_length`` is in tokens."""

    name: str
    layers: int
    embedding: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    context_length: int
    vocab_size: int
    norm_eps: float
    rope: Rope
    tied_head: bool

    @property
    def q_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def rope_pairs(self) -> int:
        return self.rope.dims // 2

    @property
    def head(self) -> Linear:
        """The output head, named ``output.weight`` also where it shares the embedding's values."""
        return Linear(HEAD_NAME, self.embedding, self.vocab_size)

    def linears(self, layer: int) -> tuple[Linear, ...]:
        """The matmul weights of one layer in canonical order."""
        rules = (rule for rule in self._rules(Role.LINEAR) if rule.per_layer)
        found = [Linear(rule.pattern.format(layer=layer), *self._shape(rule)) for rule in rules]
        return tuple(sorted(found, key=lambda linear: canonical_key(linear.name)))

    def all_linears(self) -> tuple[Linear, ...]:
        """Every matmul weight in canonical order: layer by layer, the head last."""
        return (*(linear for layer in range(self.layers) for linear in self.linears(layer)), self.head)

    def norms(self, layer: int) -> tuple[str, ...]:
        """Names of one layer's norm weights, float32 [embedding] each."""
        return tuple(r.pattern.format(layer=layer) for r in self._rules(Role.NORM) if r.per_layer)

    def raw_tensors(self) -> tuple[str, ...]:
        """Everything that is not a matmul weight, in canonical order: embedding, norms."""
        names = [rule.pattern for rule in self._rules(Role.EMBEDDING)]
        if self.rope.factors is not None:
            names += [rule.pattern for rule in self._rules(Role.ROPE_FACTORS)]
        names += [rule.pattern for rule in self._rules(Role.NORM) if not rule.per_layer]
        names += [name for layer in range(self.layers) for name in self.norms(layer)]
        return tuple(sorted(names, key=canonical_key))

    def _rules(self, role: Role) -> tuple[TensorRule, ...]:
        return tuple(rule for rule in FAMILIES[self.name].tensors if rule.role is role)

    def _shape(self, rule: TensorRule) -> tuple[int, ...]:
        return tuple(int(getattr(self, dim)) for dim in rule.shape)


def canonical_key(name: str) -> tuple[int, str]:
    """Sort key of the canonical order: what precedes the stack, the layers, what follows it."""
    if name.startswith("blk."):
        number = name.split(".", 2)[1]
        if number.isdecimal():
            return int(number), name
    return (1 << 30 if name.startswith("output") else -1), name


def architecture_of(model: GgufFile) -> Architecture:
    """The architecture of an open GGUF file."""
    shapes = {name: info.shape for name, info in model.tensors.items()}
    return read_architecture(model.metadata, shapes, model.dequantized, model.path.name)


def read_architecture(
    metadata: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    vector: Callable[[str], NDArray[np.float32]],
    label: str,
) -> Architecture:
    """The architecture told by ``metadata``, checked against every tensor's shape (fastest dimension first).

    ``vector`` reads one small tensor as float32. InvalidFileError names an unknown family, a value out
    of range, and a tensor that is unknown, missing or of the wrong shape.
    """
    reader = _Reader(metadata, label)
    family = reader.family()
    layers = reader.integer("block_count", 1, _MAX_LAYERS)
    embedding = reader.integer("embedding_length", 1, _MAX_SIZE)
    heads = reader.per_layer("attention.head_count", layers)
    kv_heads = reader.per_layer("attention.head_count_kv", layers, default=heads)
    if heads % kv_heads:
        raise reader.fail(f"{heads} attention heads cannot share {kv_heads} key/value heads")
    head_dim = reader.head_dim(embedding, heads)
    if EMBEDDING_NAME not in shapes:
        raise reader.fail(f"tensor {EMBEDDING_NAME} is missing", "the file is not a whole model")
    architecture = Architecture(
        name=family.name,
        layers=layers,
        embedding=embedding,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        feed_forward=reader.per_layer("feed_forward_length", layers),
        context_length=reader.integer("context_length", 1, _MAX_SIZE),
        vocab_size=shapes[EMBEDDING_NAME][-1],
        norm_eps=reader.real("attention.layer_norm_rms_epsilon", 0.0, 0.1),
        rope=reader.rope(family, head_dim, shapes, vector),
        tied_head=HEAD_NAME not in shapes,
    )
    reader.check_vocabulary(architecture.vocab_size)
    _check_tensors(reader, family, architecture, shapes)
    return architecture


class _Reader:
    """Metadata lookups under the family's prefix, each with its range and a message that names the key."""

    def __init__(self, metadata: Mapping[str, Any], label: str) -> None:
        self.metadata = metadata
        self.label = label
        self.prefix = ""

    def fail(self, why: str, do: str = "download the model again or choose another") -> InvalidFileError:
        return InvalidFileError(f"model {self.label} cannot be run", why=why, do=do)

    def family(self) -> Family:
        name = self.metadata.get("general.architecture")
        known = ", ".join(sorted(FAMILIES))
        if not isinstance(name, str):
            raise self.fail("its metadata has no general.architecture")
        if name not in FAMILIES:
            raise self.fail(
                f"its architecture is {name}, known are: {known}", "choose a model of a known architecture"
            )
        self.prefix = name + "."
        family = FAMILIES[name]
        for key in family.refused_keys:
            value = self.metadata.get(self.prefix + key)
            if value not in (None, 0, 0.0):
                raise self.fail(
                    f"{self.prefix}{key} is {value}, which this program does not compute",
                    "choose a model without it",
                )
        return family

    def _get(self, key: str, default: Any = None) -> Any:
        value = self.metadata.get(self.prefix + key)
        if value is None:
            if default is None:
                raise self.fail(f"its metadata has no {self.prefix}{key}")
            return default
        return value

    def _integer(self, key: str, value: Any, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.fail(f"{self.prefix}{key} is {value!r}, allowed are {low}..{high}")
        return value

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        return self._integer(key, self._get(key, default), low, high)

    def per_layer(self, key: str, layers: int, default: int | None = None) -> int:
        """A scalar, or an array with the same number for every layer."""
        value = self._get(key, default)
        if not isinstance(value, int | float | str):
            values = list(value)
            if len(values) != layers:
                raise self.fail(f"{self.prefix}{key} has {len(values)} values for {layers} layers")
            try:
                distinct = sorted({operator.index(item) for item in values})
            except TypeError:
                raise self.fail(f"{self.prefix}{key} holds values that are not integers") from None
            if len(distinct) != 1:
                raise self.fail(
                    f"{self.prefix}{key} differs between layers ({distinct[:4]})",
                    "choose a model with equal layers",
                )
            value = distinct[0]
        return self._integer(key, value, 1, _MAX_SIZE)

    def real(self, key: str, low: float, high: float, default: float | None = None) -> float:
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low < value <= high:
            raise self.fail(f"{self.prefix}{key} is {value!r}, allowed is above {low:g} up to {high:g}")
        return float(value)

    def head_dim(self, embedding: int, heads: int) -> int:
        key_length = self.metadata.get(self.prefix + "attention.key_length")
        if key_length is None and embedding % heads:
            raise self.fail(f"embedding {embedding} does not divide by {heads} heads")
        head_dim = self.integer("attention.key_length", 2, 1 << 16, default=max(2, embedding // heads))
        value_length = self.integer("attention.value_length", 2, 1 << 16, default=head_dim)
        if value_length != head_dim:
            raise self.fail(f"keys are {head_dim} long and values {value_length}, they must be equal")
        return head_dim

    def rope(
        self,
        family: Family,
        head_dim: int,
        shapes: Mapping[str, tuple[int, ...]],
        vector: Callable[[str], NDArray[np.float32]],
    ) -> Rope:
        dims = self.integer("rope.dimension_count", 2, head_dim, default=head_dim)
        if dims % 2:
            raise self.fail(f"{self.prefix}rope.dimension_count is {dims}, it must be even")
        scaling = self.metadata.get(self.prefix + "rope.scaling.type", "none")
        factor = self.metadata.get(self.prefix + "rope.scaling.factor", 1.0)
        if scaling != "none" and factor != 1.0:
            raise self.fail(
                f"its rotary embedding is scaled ({scaling}, factor {factor})",
                "choose a model without RoPE scaling",
            )
        factors: tuple[float, ...] | None = None
        for rule in family.tensors:
            if rule.role is Role.ROPE_FACTORS and rule.pattern in shapes:
                if shapes[rule.pattern] != (dims // 2,):
                    raise self.fail(
                        f"tensor {rule.pattern} is {list(shapes[rule.pattern])}, expected [{dims // 2}]"
                    )
                factors = tuple(float(value) for value in vector(rule.pattern))
                if not all(math.isfinite(value) and value > 0 for value in factors):
                    raise self.fail(f"tensor {rule.pattern} holds a factor that is not a positive number")
        base = self.real("rope.freq_base", 0.0, 1e12, default=10000.0)
        return Rope(base=base, dims=dims, pairing=family.pairing, factors=factors)

    def check_vocabulary(self, vocab_size: int) -> None:
        stated = self.metadata.get(self.prefix + "vocab_size", vocab_size)
        if stated != vocab_size:
            raise self.fail(f"{self.prefix}vocab_size is {stated}, its embedding has {vocab_size} rows")


def _check_tensors(
    reader: _Reader, family: Family, architecture: Architecture, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    expected: dict[str, tuple[tuple[int, ...], bool]] = {}
    for rule in family.tensors:
        shape = architecture._shape(rule)
        for layer in range(architecture.layers) if rule.per_layer else (0,):
            expected[rule.pattern.format(layer=layer)] = shape, rule.optional
    for name, (shape, optional) in expected.items():
        if name not in shapes:
            if optional:
                continue
            raise reader.fail(f"tensor {name} is missing", "the file is not a whole model: download it again")
        if shapes[name] != shape:
            raise reader.fail(f"tensor {name} has the shape {list(shapes[name])}, expected {list(shape)}")
    for name in shapes:
        if name not in expected:
            raise reader.fail(
                f"tensor {name} is not part of architecture {family.name} as known here",
                "choose another model",
            )
