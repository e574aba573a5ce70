"""Lookups in a model's metadata under its family's prefix, each with its range and a message that names the key."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.models.families import FAMILIES, Family

__all__ = ["MAX_LAYERS", "MAX_SIZE", "MetadataReader"]

MAX_LAYERS = 1024
MAX_SIZE = 1 << 24
_SOFTMAX = 1


class MetadataReader:
    """``label`` names the model in errors. All lookups but ``family`` are for after it."""

    def __init__(self, metadata: Mapping[str, Any], label: str) -> None:
        self._metadata = metadata
        self._label = label
        self._prefix = ""

    def fail(self, why: str, do: str = "download the model again or choose another") -> InvalidFileError:
        return InvalidFileError(f"model {self._label} cannot be run", why=why, do=do)

    def family(self) -> Family:
        """The family the file names. InvalidFileError names one that is not known."""
        name = self._metadata.get("general.architecture")
        known = ", ".join(sorted(FAMILIES))
        if not isinstance(name, str):
            raise self.fail("its metadata has no general.architecture")
        if name not in FAMILIES:
            raise self.fail(
                f"its architecture is {name}, known are: {known}", "choose a model of a known architecture"
            )
        self._prefix = name + "."
        family = FAMILIES[name]
        refused = [*family.refused_keys]
        if not family.capped:
            refused += ["attn_logit_softcapping", "final_logit_softcapping"]
        if family.windows is None:
            refused.append("attention.sliding_window")
        if not family.scaled:
            refused += ["embedding_scale", "residual_scale", "logit_scale"]
        for key in refused:
            value = self.optional(key)
            neutral = (None, 0, 1) if key.endswith("_scale") else (None, 0)
            if value not in neutral:
                raise self._not_computed(key, value)
        if self.optional("attention.causal") is False:
            raise self._not_computed("attention.causal", False)
        return family

    def _not_computed(self, key: str, value: object) -> InvalidFileError:
        return self.fail(
            f"{self._prefix}{key} is {value}, which this program does not compute for {self._prefix[:-1]}",
            "choose a model without it",
        )

    def softmax_gating(self) -> None:
        """Refuses experts that are chosen by anything but softmax."""
        gating = self.optional("expert_gating_func")
        if gating not in (None, 0, _SOFTMAX):
            raise self._not_computed("expert_gating_func", gating)

    def optional(self, key: str) -> Any:
        """The value as it stands, or None."""
        return self._metadata.get(self._prefix + key)

    def _get(self, key: str, default: Any = None) -> Any:
        value = self.optional(key)
        if value is None:
            if default is None:
                raise self.fail(f"its metadata has no {self._prefix}{key}")
            return default
        return value

    def _integer(self, key: str, value: Any, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.fail(f"{self._prefix}{key} is {value!r}, allowed are {low}..{high}")
        return value

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        return self._integer(key, self._get(key, default), low, high)

    def _listed(self, key: str, value: Any, layers: int) -> list[int]:
        """An array with a number for every layer."""
        values = list(value)
        if len(values) != layers:
            raise self.fail(f"{self._prefix}{key} has {len(values)} values for {layers} layers")
        try:
            return [operator.index(item) for item in values]
        except TypeError:
            raise self.fail(f"{self._prefix}{key} holds values that are not integers") from None

    def without(self, key: str, layers: int) -> frozenset[int]:
        """The layers for which ``key`` is 0; none where it is one number for all."""
        value = self.optional(key)
        if value is None or isinstance(value, int | float | str):
            return frozenset()
        found = frozenset(i for i, number in enumerate(self._listed(key, value, layers)) if number == 0)
        if len(found) == layers:
            raise self.fail(f"{self._prefix}{key} is 0 for every layer", "choose another model")
        return found

    def per_layer(self, key: str, layers: int, default: int | None = None, but: Collection[int] = ()) -> int:
        """A scalar, or an array with the same number for every layer ``but`` those."""
        value = self._get(key, default)
        if not isinstance(value, int | float | str):
            values = self._listed(key, value, layers)
            distinct = sorted({number for layer, number in enumerate(values) if layer not in but})
            if len(distinct) != 1:
                raise self.fail(
                    f"{self._prefix}{key} differs between layers ({distinct[:4]})",
                    "choose a model with equal layers",
                )
            value = distinct[0]
        return self._integer(key, value, 1, MAX_SIZE)

    def real(self, key: str, low: float, high: float, default: float | None = None) -> float:
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low < value <= high:
            raise self.fail(f"{self._prefix}{key} is {value!r}, allowed is above {low:g} up to {high:g}")
        return float(value)

    def cap(self, key: str, default: float) -> float:
        """A soft cap; 0 where there is none."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e6:
            raise self.fail(f"{self._prefix}{key} is {value!r}, allowed are 0 (none) up to 1e6")
        return float(value)

    def scale(self, key: str) -> float:
        """A factor, 1 where there is none; 0 is how some files say that."""
        return self.real(key, 0.0, 1e6) if self.optional(key) not in (None, 0) else 1.0

    def unrotated(self, family: Family, layers: int) -> frozenset[int]:
        """Layers without rotary embedding."""
        if family.rotary_switch and self.optional("rope.scaling.finetuned") is False:
            return frozenset(range(layers))
        every = family.unrotated_every
        return frozenset(range(every - 1, layers, every)) if every else frozenset()

    def head_dim(self, embedding: int, heads: int) -> int:
        if self.optional("attention.key_length") is None and embedding % heads:
            raise self.fail(f"embedding {embedding} does not divide by {heads} heads")
        head_dim = self.integer("attention.key_length", 2, 1 << 16, default=max(2, embedding // heads))
        value_length = self.integer("attention.value_length", 2, 1 << 16, default=head_dim)
        if value_length != head_dim:
            raise self.fail(f"keys are {head_dim} long and values {value_length}, they must be equal")
        return head_dim

    def windows(self, family: Family, layers: int) -> tuple[int, ...]:
        """Tokens each layer's attention sees, 0 for all of them."""
        rule = family.windows
        if rule is None:
            return (0,) * layers
        length = self.integer("attention.sliding_window", 1, MAX_SIZE, default=rule.length)
        key = "attention.sliding_window_pattern"
        pattern = self._get(key, rule.pattern)
        if isinstance(pattern, int) and not isinstance(pattern, bool):
            every = self._integer(key, pattern, 0, MAX_LAYERS)
            # 0: all layers have the window; 1: none has.
            local = [every == 0 or layer % every < every - 1 for layer in range(layers)]
        else:
            local = [] if isinstance(pattern, str | float | bool) else [bool(value) for value in pattern]
            if len(local) != layers:
                raise self.fail(f"{self._prefix}{key} is not a number nor a flag for each of {layers} layers")
        return tuple(length if windowed else 0 for windowed in local)

    def check_vocabulary(self, vocab_size: int) -> None:
        stated = self._metadata.get(self._prefix + "vocab_size", vocab_size)
        if stated != vocab_size:
            raise self.fail(f"{self._prefix}vocab_size is {stated}, its embedding has {vocab_size} rows")
