"""Which mode profile a run path enters with, by path and kind of precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from orkbench_tui.driver.modes import ChainKind, Mode, Profile

if TYPE_CHECKING:
    from orkbench_tui.driver.matmul.formats import MatmulFormat

__all__ = ["PATH_MODES", "PathMode", "RunPath", "path_mode"]


class RunPath(StrEnum):
    """How work reaches the cores."""

    BLOCKING = "blocking"
    SPREAD = "spread"
    CHAIN = "chain"
    STREAM = "stream"
    DOORBELL = "doorbell"
    COMPILED = "compiled"


@dataclass(frozen=True, slots=True)
class PathMode:
    """What to enter: the arguments of ``ModeState.enter``."""

    mode: Mode
    profile: Profile
    chain: ChainKind = ChainKind.NONE


class _Kind(StrEnum):
    INT8 = "int8"
    WIDE = "16-bit"
    INT4 = "int4"


# int16 runs the fp16 geometry with integer codes and enters as fp16 does; nobody has measured it apart.
_KINDS = {8: _Kind.INT8, 16: _Kind.WIDE, 4: _Kind.INT4}

_LINKED = ChainKind.HW

PATH_MODES: Mapping[tuple[RunPath, str], PathMode] = MappingProxyType(
    {
        (RunPath.BLOCKING, _Kind.INT8): PathMode(Mode.I8, Profile.SC_MM),
        (RunPath.BLOCKING, _Kind.WIDE): PathMode(Mode.F16, Profile.SC_MM),
        (RunPath.BLOCKING, _Kind.INT4): PathMode(Mode.I4, Profile.I4_MWARM),
        (RunPath.SPREAD, _Kind.INT8): PathMode(Mode.I8, Profile.MC_MM),
        (RunPath.SPREAD, _Kind.WIDE): PathMode(Mode.F16, Profile.MC_MM),
        (RunPath.SPREAD, _Kind.INT4): PathMode(Mode.I4, Profile.I4_MC),
        (RunPath.CHAIN, _Kind.INT8): PathMode(Mode.I8_CHAIN, Profile.CHAIN_NT, _LINKED),
        (RunPath.CHAIN, _Kind.WIDE): PathMode(Mode.F16, Profile.SC_MM, _LINKED),
        (RunPath.CHAIN, _Kind.INT4): PathMode(Mode.I4_CHAIN, Profile.I4CHAIN, _LINKED),
        (RunPath.STREAM, _Kind.INT8): PathMode(Mode.I8, Profile.STREAM_I8, _LINKED),
        (RunPath.STREAM, _Kind.WIDE): PathMode(Mode.F16, Profile.STREAM_F16, _LINKED),
        (RunPath.STREAM, _Kind.INT4): PathMode(Mode.I4_STREAM, Profile.I4_STREAM, _LINKED),
        (RunPath.DOORBELL, _Kind.INT8): PathMode(Mode.I8_CHAIN, Profile.CHAIN_NT, _LINKED),
        (RunPath.DOORBELL, _Kind.WIDE): PathMode(Mode.F16, Profile.SC_MM, _LINKED),
        (RunPath.DOORBELL, _Kind.INT4): PathMode(Mode.I4, Profile.I4_INCR, _LINKED),
        (RunPath.COMPILED, _Kind.INT8): PathMode(Mode.I8_CHAIN, Profile.CHAIN_NT, _LINKED),
    }
)


def path_mode(path: RunPath, format: MatmulFormat) -> PathMode:
    """What ``path`` enters for a format.

    Raises:
        KeyError: the path does not run this format.
    """
    return PATH_MODES[path, _KINDS[format.precision.input_bits]]
