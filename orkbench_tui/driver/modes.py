"""What has to happen when a core goes from one precision mode to another, as one table.

A run path names its profile and the mode it is about to run in; the table answers whether the device
must be reset, which "first output was primed" flags fall, and which scratch sizes are forgotten. The
table is computed once per set of knobs from one policy row per profile. A new precision is a new row,
never a reset written into a run path.

What a LUT operation leaves in a task descriptor is another axis and lives in ``descriptor_state.py``.
How to read the table: docs/modes.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

__all__ = [
    "POLICIES",
    "RESET_MS",
    "ChainKind",
    "Clear",
    "Mode",
    "ModeKnobs",
    "ModeState",
    "Policy",
    "Profile",
    "Transition",
    "transition",
    "transition_table",
]

RESET_MS = 105
"""Cost of one device reset, published; one probe's header says microseconds and is wrong."""


class Mode(StrEnum):
    """What a context ran last. ``COLD`` is a fresh context and never a target."""

    COLD = "cold"
    F16 = "F16"
    I8 = "I8"
    I8_CHAIN = "I8_CHAIN"
    I4 = "I4"
    I4_CHAIN = "I4_CHAIN"
    I4_STREAM = "I4_STREAM"


class Profile(StrEnum):
    """The run paths that differ in policy."""

    MC_MM = "MC_MM"
    SC_MM = "SC_MM"
    CHAIN_NT = "CHAIN_NT"
    STREAM_I8 = "STREAM_I8"
    STREAM_F16 = "STREAM_F16"
    I4_MC = "I4_MC"
    I4_MWARM = "I4_MWARM"
    I4_INCR = "I4_INCR"
    I4CHAIN = "I4CHAIN"
    I4_STREAM = "I4_STREAM"
    SDP = "SDP"


class ChainKind(StrEnum):
    """How the operation is tied to its neighbours; recorded with every entry."""

    NONE = "none"
    SW = "sw"
    HW = "hw"
    FUSED = "fused"


class Clear(StrEnum):
    """Which half of the warm flags or sizes falls; the value is the letter of the cell code."""

    NONE = ""
    PER_CORE = "p"
    SCALAR = "s"
    BOTH = "b"


@dataclass(frozen=True, slots=True)
class ModeKnobs:
    """``nothrash`` keeps integer modes warm among each other, ``f16warm`` int8 and fp16, and
    ``sdp_noreset`` lets element-wise operations in without a reset."""

    nothrash: bool = False
    f16warm: bool = True
    sdp_noreset: bool = True


@dataclass(frozen=True, slots=True)
class Transition:
    """One cell: what to do on the way from ``source`` to ``target``."""

    profile: Profile
    source: Mode
    target: Mode
    reset: bool = False
    warm_clear: Clear = Clear.NONE
    size_clear: Clear = Clear.NONE

    @property
    def changed(self) -> bool:
        return self.source is not self.target

    @property
    def keep(self) -> bool:
        """The mode changes and everything stays warm."""
        return self.changed and not (self.reset or self.warm_clear or self.size_clear)

    @property
    def code(self) -> str:
        """``R`` reset, ``W`` warm flags, ``Z`` sizes (with p, s, b), ``K`` keep, ``.`` same mode."""
        if not self.changed:
            return "."
        parts = [
            "R" if self.reset else "",
            f"W{self.warm_clear}" if self.warm_clear else "",
            f"Z{self.size_clear}" if self.size_clear else "",
        ]
        return "+".join(filter(None, parts)) or "K"


_INT8 = frozenset({Mode.I8, Mode.I8_CHAIN})
_INT4 = frozenset({Mode.I4, Mode.I4_CHAIN, Mode.I4_STREAM})
_INTEGER = frozenset({Mode.I8, Mode.I4, Mode.I8_CHAIN})
_WARMABLE = frozenset({Mode.I8, Mode.I8_CHAIN, Mode.F16})


@dataclass(frozen=True, slots=True)
class _Step:
    source: Mode
    target: Mode
    knobs: ModeKnobs

    @property
    def from_int8(self) -> bool:
        return self.source in _INT8

    @property
    def both_integer(self) -> bool:
        return self.knobs.nothrash and self.source in _INTEGER and self.target in _INTEGER

    @property
    def both_warmable(self) -> bool:
        return self.knobs.f16warm and self.source in _WARMABLE and self.target in _WARMABLE


_KEEP_WARM: dict[str, Callable[[_Step], bool]] = {
    "MC": lambda s: s.both_integer or s.both_warmable,
    "SC": lambda s: s.both_warmable,
    "NTI": lambda s: s.knobs.nothrash and s.source in _INTEGER,
    "F16": lambda s: s.knobs.f16warm and s.source in _WARMABLE,
    "NONE": lambda s: False,
}

# Whether a reset or a clear is due, given the step and whether the step keeps warm.
_WHEN: dict[str, Callable[[_Step, bool], bool]] = {
    "NOTKW": lambda s, warm: not warm,
    "I8ENTRY": lambda s, warm: s.target is Mode.I8 and not s.from_int8 and not warm,
    "NOTLIVE_NOTKW": lambda s, warm: not s.from_int8 and not warm,
    "NT": lambda s, warm: not s.knobs.nothrash,
    "NT_NOTKW": lambda s, warm: not s.knobs.nothrash and not warm,
    "SDPKW": lambda s, warm: not s.knobs.sdp_noreset,
    "ALWAYS": lambda s, warm: True,
    "NONE": lambda s, warm: False,
}


@dataclass(frozen=True, slots=True)
class Policy:
    """One profile: the modes it runs in, and by name when to keep warm, reset and clear what.

    ``sets_mode``: whether what ran counts as the mode of the cores afterwards.
    """

    targets: tuple[Mode, ...]
    keep_warm: str
    reset: str
    warm: Clear
    warm_when: str
    size: Clear
    size_when: str
    sets_mode: bool = True


_P, _S, _B, _N = Clear.PER_CORE, Clear.SCALAR, Clear.BOTH, Clear.NONE
_I8, _F16, _I4 = (Mode.I8,), (Mode.F16,), (Mode.I4,)

POLICIES: Mapping[Profile, Policy] = MappingProxyType(
    {
        Profile.MC_MM: Policy(_I8 + _F16, "MC", "I8ENTRY", _P, "NOTKW", _P, "NT_NOTKW"),
        Profile.SC_MM: Policy(_I8 + _F16, "SC", "I8ENTRY", _S, "NOTKW", _S, "NT_NOTKW"),
        Profile.CHAIN_NT: Policy((Mode.I8_CHAIN,), "MC", "NOTLIVE_NOTKW", _S, "NOTKW", _S, "NOTKW"),
        Profile.STREAM_I8: Policy(_I8, "MC", "NOTLIVE_NOTKW", _B, "NOTLIVE_NOTKW", _N, "NONE"),
        Profile.STREAM_F16: Policy(_F16, "F16", "NOTKW", _B, "NOTKW", _N, "NONE"),
        Profile.I4_MC: Policy(_I4, "NTI", "NOTKW", _P, "NOTKW", _P, "NT"),
        Profile.I4_MWARM: Policy(_I4, "NTI", "NOTKW", _P, "NOTKW", _N, "NONE"),
        Profile.I4_INCR: Policy(_I4, "NTI", "NOTKW", _N, "NONE", _N, "NONE"),
        Profile.I4CHAIN: Policy((Mode.I4_CHAIN,), "NONE", "ALWAYS", _S, "ALWAYS", _S, "ALWAYS"),
        Profile.I4_STREAM: Policy((Mode.I4_STREAM,), "NONE", "ALWAYS", _B, "ALWAYS", _N, "NONE"),
        # Element-wise work leaves the MAC array as it is: were it to count as int8, an int8 matmul behind it
        # would find itself in its mode, and what an int4 chain left would never be reset.
        Profile.SDP: Policy(_F16 + _I8, "NONE", "SDPKW", _N, "NONE", _N, "NONE", sets_mode=False),
    }
)


def _cell(profile: Profile, policy: Policy, step: _Step) -> Transition:
    if step.source is step.target:
        return Transition(profile, step.source, step.target)
    warm = _KEEP_WARM[policy.keep_warm](step)
    return Transition(
        profile,
        step.source,
        step.target,
        reset=_WHEN[policy.reset](step, warm),
        warm_clear=policy.warm if _WHEN[policy.warm_when](step, warm) else Clear.NONE,
        size_clear=policy.size if _WHEN[policy.size_when](step, warm) else Clear.NONE,
    )


@lru_cache
def transition_table(
    knobs: ModeKnobs = ModeKnobs(),
) -> Mapping[tuple[Profile, Mode, Mode], Transition]:
    """Every cell by (profile, source, target); rows in the order of ``POLICIES``."""
    return MappingProxyType(
        {
            (profile, source, target): _cell(profile, policy, _Step(source, target, knobs))
            for profile, policy in POLICIES.items()
            for target in policy.targets
            for source in Mode
        }
    )


def transition(
    profile: Profile,
    source: Mode,
    target: Mode,
    knobs: ModeKnobs = ModeKnobs(),
) -> Transition:
    """The cell for one step.

    Raises:
        ValueError: the profile does not run in ``target``.
    """
    try:
        return transition_table(knobs)[profile, source, target]
    except KeyError:
        allowed = ", ".join(POLICIES[profile].targets)
        raise ValueError(f"profile {profile} does not run in mode {target}; it runs in {allowed}") from None


@dataclass(slots=True)
class ModeState:
    """What one context knows of its cores: the mode run last and what is still warm.

    ``*_cores`` hold one entry per core, for paths with scratch of their own on each core;
    ``*_scalar`` belong to the single-core paths. Sizes are bytes of scratch, 0 = must be allocated
    again. ``lut_loaded`` and ``task_built`` fall only with a reset, which also empties the chip's LUT.

    ``int4_may_be_left``: an int4 run of ours, or of whoever had the chip before, may have left a core in a
    state that only a reset or a 16-bit run ends. The table looks one step back, and 16-bit work need not
    reach every core, so int8 behind it is no proof that the cores are clean.
    """

    cores: int
    knobs: ModeKnobs = field(default_factory=ModeKnobs)
    domain: int = 0
    last_mode: Mode = Mode.COLD
    last_chain: ChainKind = ChainKind.NONE
    int4_may_be_left: bool = True
    warm_scalar: bool = False
    size_scalar: int = 0
    resets: int = 0
    entries: Counter[tuple[Profile, Mode]] = field(default_factory=Counter)
    warm_cores: list[bool] = field(init=False)
    size_cores: list[int] = field(init=False)
    lut_loaded: list[bool] = field(init=False)
    task_built: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        self.warm_cores = [False] * self.cores
        self.size_cores = [0] * self.cores
        self.lut_loaded = [False] * self.cores
        self.task_built = [False] * self.cores

    def cool(self) -> None:
        """The device was reset: nothing is warm, no size counts, tables and built tasks are gone."""
        self.warm_scalar, self.size_scalar = False, 0
        self.warm_cores, self.size_cores = [False] * self.cores, [0] * self.cores
        self.lut_loaded, self.task_built = [False] * self.cores, [False] * self.cores

    def step(self, target: Mode, profile: Profile) -> Transition:
        """What entering ``target`` now takes: its cell, and a reset where int8 would find what int4 left.

        Raises:
            ValueError: the profile does not run in ``target``.
        """
        cell = transition(profile, self.last_mode, target, self.knobs)
        hidden = self.int4_may_be_left and self.last_mode is Mode.F16 and target in _INT8
        if not hidden or cell.reset or not POLICIES[profile].sets_mode:
            return cell
        return replace(cell, reset=True, warm_clear=POLICIES[profile].warm)

    def enter(self, target: Mode, profile: Profile, chain: ChainKind = ChainKind.NONE) -> Transition:
        """Record the entry and apply its step; the caller resets the device when that says so.

        Raises:
            ValueError: the profile does not run in ``target``; nothing is recorded.
        """
        step = self.step(target, profile)
        self.last_chain = chain
        self.entries[profile, self.last_mode] += 1
        if step.reset:
            self.resets += 1
            self.int4_may_be_left = False
            self.lut_loaded = [False] * self.cores
            self.task_built = [False] * self.cores
        if step.warm_clear in (Clear.PER_CORE, Clear.BOTH):
            self.warm_cores = [False] * self.cores
        if step.warm_clear in (Clear.SCALAR, Clear.BOTH):
            self.warm_scalar = False
        if step.size_clear in (Clear.PER_CORE, Clear.BOTH):
            self.size_cores = [0] * self.cores
        if step.size_clear in (Clear.SCALAR, Clear.BOTH):
            self.size_scalar = 0
        if POLICIES[profile].sets_mode:
            self.last_mode = target
            self.int4_may_be_left |= target in _INT4
        return step
