"""Models as the timing model sees them: sizes of their matmuls and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["REFERENCE_MODELS", "LinearShape", "ModelShape", "dense"]


@dataclass(frozen=True, slots=True)
class LinearShape:
    """Weights [N, K], ``count`` of them in a layer, of which a token uses ``used`` (all when 0)."""

    K: int
    N: int
    count: int = 1
    used: int = 0

    @property
    def active(self) -> int:
        return self.used or self.count


@dataclass(frozen=True, slots=True)
class ModelShape:
    """``linears`` are one layer's; ``attention_width`` is heads times head size."""

    name: str
    layers: int
    embedding: int
    attention_width: int
    vocabulary: int
    linears: tuple[LinearShape, ...]

    @property
    def layer_weights(self) -> int:
        """Weights of all layers' matmuls, in elements."""
        return self.layers * sum(linear.K * linear.N * linear.count for linear in self.linears)

    @property
    def active_weights(self) -> int:
        """Of these, the ones one token goes through."""
        return self.layers * sum(linear.K * linear.N * linear.active for linear in self.linears)

    @property
    def head_weights(self) -> int:
        return self.embedding * self.vocabulary

    @property
    def inputs(self) -> int:
        """Activation elements all layers' matmuls read for one token."""
        return self.layers * sum(linear.K * linear.active for linear in self.linears)

    @property
    def outputs(self) -> int:
        """Result elements they write for one token."""
        return self.layers * sum(linear.N * linear.active for linear in self.linears)


def dense(
    name: str, *, layers: int, embedding: int, heads: int, kv_heads: int, head: int, ff: int, vocabulary: int
) -> ModelShape:
    """A dense transformer with a gated feed-forward."""
    q, kv = heads * head, kv_heads * head
    return ModelShape(
        name=name,
        layers=layers,
        embedding=embedding,
        attention_width=q,
        vocabulary=vocabulary,
        linears=(
            LinearShape(embedding, q),
            LinearShape(embedding, kv, 2),
            LinearShape(q, embedding),
            LinearShape(embedding, ff, 2),
            LinearShape(ff, embedding),
        ),
    )


REFERENCE_MODELS: dict[str, ModelShape] = {
    shape.name: shape
    for shape in (
        dense(
            "qwen3-0.6b",
            layers=28,
            embedding=1024,
            heads=16,
            kv_heads=8,
            head=128,
            ff=3072,
            vocabulary=151936,
        ),
        dense(
            "qwen3-1.7b",
            layers=28,
            embedding=2048,
            heads=16,
            kv_heads=8,
            head=128,
            ff=6144,
            vocabulary=151936,
        ),
        dense(
            "qwen2.5-7b",
            layers=28,
            embedding=3584,
            heads=28,
            kv_heads=4,
            head=128,
            ff=18944,
            vocabulary=152064,
        ),
    )
}
"""The models whose published figures the timing model is held against."""
