"""Programs that load a function table into a core, and programs that apply it.

Both run with the register groups held still: their pointers are cleared and their jobs have ping-pong
off. Table writes alone are not a task, so the load carries a copy of 16 bytes.
"""

from __future__ import annotations

import numpy as np

from orkbench_tui.driver.regcmd.registers import REGISTERS, value_of
from orkbench_tui.driver.regcmd.words import encode, padded_body_words
from orkbench_tui.driver.sdp.formats import SdpFormat
from orkbench_tui.driver.sdp.lut import ENTRIES, Lut, LutHalf, LutUse
from orkbench_tui.driver.sdp.programs import (
    SDP_WORDS,
    SdpNumbers,
    SdpShape,
    body_of,
    sdp_body,
    sdp_registers,
    stage_registers,
)
from orkbench_tui.driver.sdp.table import Stage, row_for

__all__ = ["LOAD_CHANNELS", "LOAD_WORDS", "ONE_GROUP", "lut_apply_body", "lut_load_body", "lut_registers"]

LOAD_CHANNELS = 16
LOAD_WORDS = SDP_WORDS + 2 * (1 + ENTRIES)

ONE_GROUP = value_of("dpu_s_pointer", pointer_pp_clear=1, executer_pp_clear=1)
_LE, _LO = 0, 1


def _write(name: str, value: int) -> int:
    register = REGISTERS[name]
    return encode(register.block, register.address, value)


def _entry_words(table: int, half: LutHalf) -> list[int]:
    start = _write("dpu_lut_access_cfg", value_of("dpu_lut_access_cfg", write=1, table=table))
    return [start, *(_write("dpu_lut_access_data", int(entry) & 0xFFFF) for entry in half.entries)]


def lut_load_body(lut: Lut, scratch: int) -> np.ndarray:
    """The program that loads both halves; uint64 [1098], the last word a NOP.

    Args:
        scratch: address of 16 bytes the program copies onto themselves.
    """
    row = row_for("copy", "int8")
    dummy = sdp_body(row, SdpShape(1, LOAD_CHANNELS, scratch, scratch))[:SDP_WORDS]
    entries = [*_entry_words(_LE, lut.le), *_entry_words(_LO, lut.lo)]
    padding = padded_body_words(LOAD_WORDS) - LOAD_WORDS
    return np.concatenate([dummy, np.array([*entries, *[0] * padding], dtype=np.uint64)])


def lut_registers(lut: Lut) -> dict[str, int]:
    """Where the table lies and what is outside it. Where both halves or neither hold an index, LO
    answers, below both LE.
    """
    return {
        "dpu_lut_cfg": value_of("dpu_lut_cfg", hybrid_priority=1, oflow_priority=1, lo_le_mux=2),
        "dpu_lut_info": value_of(
            "dpu_lut_info", lo_index_select=lut.lo.select, le_index_select=lut.le.select
        ),
        "dpu_lut_le_start": lut.le.start & 0xFFFF_FFFF,
        "dpu_lut_le_end": lut.le.end & 0xFFFF_FFFF,
        "dpu_lut_lo_start": lut.lo.start & 0xFFFF_FFFF,
        "dpu_lut_lo_end": lut.lo.end & 0xFFFF_FFFF,
        "dpu_lut_le_slope_scale": value_of("dpu_lut_le_slope_scale", underflow=lut.low.scale),
        "dpu_lut_le_slope_shift": value_of("dpu_lut_le_slope_shift", underflow=lut.low.shift),
        "dpu_lut_lo_slope_scale": value_of("dpu_lut_lo_slope_scale", overflow=lut.high.scale),
        "dpu_lut_lo_slope_shift": value_of("dpu_lut_lo_slope_shift", overflow=lut.high.shift),
    }


def ew_table_word(format: SdpFormat) -> int:
    """EW with the table on. The integer and the fp16 programs differ in one bypass bit, as captured."""
    return value_of("dpu_ew_cfg", relu_bypass=1, op_cvt_bypass=1, op_bypass=int(not format.floating))


def lut_apply_body(format: SdpFormat, shape: SdpShape, use: LutUse) -> np.ndarray:
    """One program that applies the loaded table; uint64 [70].

    Raises:
        RefusedError, ValueError: see ``programs.geometry``.
    """
    numbers = SdpNumbers(bn=use.bn, convert=use.convert)
    values = sdp_registers(row_for("copy", format.name), shape, numbers)
    values |= stage_registers("bn", Stage.ADD_MUL.word, use.bn)
    values |= {"dpu_s_pointer": ONE_GROUP, "rdma_s_pointer": ONE_GROUP, "dpu_ew_cfg": ew_table_word(format)}
    values |= lut_registers(use.lut)
    if format.floating:
        values["dpu_out_cvt_shift"] = value_of("dpu_out_cvt_shift", cvt_type=1, minus_exp=use.exponent)
    return body_of(values)
