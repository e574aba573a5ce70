"""What a model is: one frozen record, the same for every family."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from orkbench_tui.runner.models.families import FAMILIES, GateName, LayerKind, Pairing, Role, TensorRule

__all__ = [
    "EMBEDDING_NAME",
    "HEAD_NAME",
    "Architecture",
    "Experts",
    "Linear",
    "Rope",
    "StateSpace",
    "canonical_key",
    "expert_name",
    "split_expert_name",
]

HEAD_NAME = "output.weight"
EMBEDDING_NAME = "token_embd.weight"


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding: ``dims`` elements of each head turn, the rest pass.

    Pair i turns by position · base^(-2i/dims) / (factors[i] · stretch), factors being 1 where None.
    """

    base: float
    dims: int
    pairing: Pairing
    factors: tuple[float, ...] | None = None
    stretch: float = 1.0


@dataclass(frozen=True, slots=True)
class Experts:
    """A feed-forward of ``count`` experts, of which each token takes ``used``."""

    count: int
    used: int
    feed_forward: int


@dataclass(frozen=True, slots=True)
class StateSpace:
    """A Mamba-2 mixer: ``heads`` of ``head_dim`` values, a state of ``state_size`` for each value.

    ``groups`` of heads share what is written to and read from the states. ``taps`` of the convolution
    before them. ``inner`` is heads times head_dim.
    """

    taps: int
    heads: int
    head_dim: int
    state_size: int
    groups: int

    @property
    def inner(self) -> int:
        return self.heads * self.head_dim

    @property
    def norm_width(self) -> int:
        """Values of a group, each of which is normed on its own."""
        return self.inner // self.groups

    @property
    def convolved(self) -> int:
        """Channels of the convolution: x, B and C."""
        return self.inner + 2 * self.groups * self.state_size

    @property
    def mixed(self) -> int:
        """Outputs of the projection into the mixer: gates, channels, and a time step for each head."""
        return self.inner + self.convolved + self.heads


@dataclass(frozen=True, slots=True)
class Linear:
    """A weight of a matmul: activations [M, K] by this give [M, N].

    ``source`` is the tensor of the model file that holds it, ``index`` its place there where that
    holds one for each expert.
    """

    name: str
    K: int
    N: int
    source: str = ""
    index: int | None = None

    @property
    def stored(self) -> str:
        """What to call it to who has the model file: a head may be its embedding, an expert a part of a tensor."""
        tensor = self.source or self.name
        return tensor if self.index is None else f"{tensor}, expert {self.index},"


@dataclass(frozen=True, slots=True)
class Architecture:
    """Dimensions are element counts; ``context_length`` is in tokens.

    ``windows[layer]``: tokens that layer's attention sees, 0 for all. ``local_rope`` turns the layers with
    a window, where it differs. Soft caps are 0 where there is none. ``optional`` holds the patterns of the
    family's optional tensors that this model has. ``feed_forward`` is 0 where ``moe`` stands in its place.
    What a layer's parts add is multiplied by ``residual_scale``, logits by ``logit_scale``. ``unrotated`` layers do
    without rotary embedding.
    Layers in ``scanning`` mix tokens by ``scan`` instead of attention.
    Where all do there are no heads of attention, and where there is no feed-forward it has no width.
    """

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
    attention_scale: float
    windows: tuple[int, ...]
    local_rope: Rope | None = None
    gate: GateName = "silu"
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    attention_cap: float = 0.0
    logit_cap: float = 0.0
    optional: frozenset[str] = frozenset()
    moe: Experts | None = None
    scan: StateSpace | None = None
    scanning: frozenset[int] = frozenset()
    unrotated: frozenset[int] = frozenset()

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
    def experts(self) -> int:
        return self.moe.count if self.moe else 0

    @property
    def expert_feed_forward(self) -> int:
        return self.moe.feed_forward if self.moe else 0

    @property
    def head(self) -> Linear:
        """The output head, named ``output.weight`` also where it shares the embedding's values."""
        source = EMBEDDING_NAME if self.tied_head else HEAD_NAME
        return Linear(HEAD_NAME, self.embedding, self.vocab_size, source)

    def rope_of(self, layer: int) -> Rope:
        local = self.local_rope if self.windows[layer] else None
        return local or self.rope

    @property
    def attending(self) -> tuple[int, ...]:
        """The layers with attention, in order."""
        return tuple(layer for layer in range(self.layers) if layer not in self.scanning)

    def kind(self, layer: int) -> LayerKind:
        return "scan" if layer in self.scanning else "attention"

    def tensor(self, layer: int, part: str) -> str | None:
        """The name of a layer's tensor such as ``attn_q.bias``, or None where that layer has no such tensor."""
        name = f"blk.{layer}.{part}"
        return name if any(rule.pattern.format(layer=layer) == name for rule in self._of(layer)) else None

    def _of(self, layer: int, *roles: Role) -> Iterator[TensorRule]:
        """The tensors of one layer."""
        kind = self.kind(layer)
        return (rule for rule in self.rules(*roles) if rule.per_layer and rule.only in (None, kind))

    def tensors(self, *roles: Role) -> Iterator[tuple[str, TensorRule]]:
        """The names of all tensors the model has, of the given roles or of any, and their rules."""
        yield from ((rule.pattern, rule) for rule in self.rules(*roles) if not rule.per_layer)
        for layer in range(self.layers):
            yield from ((rule.pattern.format(layer=layer), rule) for rule in self._of(layer, *roles))

    def norm_groups(self, part: str, width: int) -> int:
        """How many parts of a row of ``width`` values the norm ``part`` of a layer takes on their own."""
        pattern = f"blk.{{layer}}.{part}"
        return width // next(self.shape_of(rule)[0] for rule in self.rules() if rule.pattern == pattern)

    def linears(self, layer: int) -> tuple[Linear, ...]:
        """The matmul weights of one layer in canonical order, those of experts one by one."""
        found: list[Linear] = []
        for rule in self._of(layer, Role.LINEAR, Role.EXPERTS):
            name = rule.pattern.format(layer=layer)
            K, N, *count = self.shape_of(rule)
            if rule.role is Role.LINEAR:
                found.append(Linear(name, K, N, name))
            else:
                found += [Linear(expert_name(name, i), K, N, name, i) for i in range(count[0])]
        return tuple(sorted(found, key=lambda linear: canonical_key(linear.name)))

    def all_linears(self) -> tuple[Linear, ...]:
        """Every matmul weight in canonical order: layer by layer, the head last."""
        return (*(linear for layer in range(self.layers) for linear in self.linears(layer)), self.head)

    def norms(self, layer: int) -> tuple[str, ...]:
        """Names of one layer's norm weights, float32 [embedding] or [head_dim] each."""
        return tuple(rule.pattern.format(layer=layer) for rule in self._of(layer, Role.NORM))

    def raw_tensors(self) -> tuple[str, ...]:
        """Everything that is not a matmul weight, in canonical order: embedding, norms, biases, routers, scans."""
        kept = (Role.EMBEDDING, Role.ROPE_FACTORS, Role.NORM, Role.BIAS, Role.ROUTER, Role.SCAN)
        return tuple(sorted((name for name, _ in self.tensors(*kept)), key=canonical_key))

    def rules(self, *roles: Role) -> Iterator[TensorRule]:
        """The tensors this model has, of the given roles or of any."""
        for rule in FAMILIES[self.name].tensors:
            if (not roles or rule.role in roles) and (not rule.optional or rule.pattern in self.optional):
                yield rule

    def shape_of(self, rule: TensorRule) -> tuple[int, ...]:
        return tuple(int(dim) if dim.isdigit() else int(attrgetter(dim)(self)) for dim in rule.shape)


def expert_name(tensor: str, expert: int) -> str:
    """The name of one expert's weight."""
    return f"{tensor}#{expert}"


def split_expert_name(name: str) -> tuple[str, int | None]:
    """The tensor's name and the expert's number, None where ``name`` is not an expert's."""
    tensor, mark, number = name.rpartition("#")
    return (tensor, int(number)) if mark and number.isdecimal() else (name, None)


def canonical_key(name: str) -> tuple[int, str, int]:
    """Sort key of the canonical order: what precedes the stack, the layers, what follows it."""
    tensor, expert = split_expert_name(name)
    within = -1 if expert is None else expert
    if tensor.startswith("blk."):
        number = tensor.split(".", 2)[1]
        if number.isdecimal():
            return int(number), tensor, within
    return (1 << 30 if tensor.startswith("output") else -1), tensor, within
