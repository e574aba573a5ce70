"""The rules of a stand-alone program of the output stage, as tables like those of a convolution."""

from __future__ import annotations

from collections.abc import Iterator

from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.sim.chip.dpu_rules import differing, dpu_inconsistent, dpu_unsupported, precision_name
from orkbench_tui.sim.chip.faults import NeverCompletes, ProgramError, UnsupportedOperation
from orkbench_tui.sim.chip.precisions import ELEMENTS, SDP_COMBINATIONS, SDP_MAX_ROWS
from orkbench_tui.sim.chip.rdma_rules import check_operands
from orkbench_tui.sim.chip.register_file import RegisterFile

__all__ = ["check_sdp"]

TABLE_MAX_ELEMENTS_FP16 = 32768

_EXECUTED: tuple[tuple[str, str, int, str], ...] = (
    ("dpu_feature_mode_cfg", "flying_mode", 1, "convolution data in a program without a convolution"),
    ("rdma_feature_mode_cfg", "flying_mode", 1, "operands beside a convolution that is not there"),
    ("rdma_feature_mode_cfg", "comb_use", 0, "combined main data"),
)


def _unsupported(r: RegisterFile) -> Iterator[str]:
    yield from differing(r, _EXECUTED)
    codes = tuple(
        Precision(r.field("dpu_data_format", f"{what}_precision")) for what in ("in", "proc", "out")
    )
    if codes not in SDP_COMBINATIONS:
        yield f"element-wise {' to '.join(precision_name(code) for code in codes)}"
        return
    if codes[0] is Precision.FP16 and not r.field("rdma_feature_mode_cfg", "fp16tofp32_en"):
        yield "fp16 main data that is not widened"
    if r.field("dpu_bs_ow_cfg", "ow_src") or r.get("dpu_bs_ow_op"):
        yield "weight zero points in an element-wise program"
    yield from dpu_unsupported(r)


def _pixels(r: RegisterFile) -> int:
    return (r.field("dpu_data_cube_width", "width_minus1") + 1) * (
        r.field("dpu_data_cube_height", "height_minus1") + 1
    )


def _geometry(r: RegisterFile) -> Iterator[str]:
    channels = r.field("dpu_data_cube_channel", "channel_minus1") + 1
    per_atom = ELEMENTS[Precision(r.field("dpu_data_format", "in_precision"))].per_atom
    if channels % per_atom:
        yield f"{channels} channels are not a multiple of {per_atom}"
    if r.field("dpu_wdma_size_0", "channel_minus1") + 1 != channels:
        yield f"dpu_wdma_size_0 says {r.field('dpu_wdma_size_0', 'channel_minus1') + 1} channels, not {channels}"
    for field in ("size_e_0", "size_e_1", "size_e_2"):
        if r.field("dpu_bs_ow_cfg", field):
            yield f"{field} is {r.field('dpu_bs_ow_cfg', field)}, an element-wise program takes 0"
    table = not r.field("dpu_ew_cfg", "bypass") and not r.field("dpu_ew_cfg", "lut_bypass")
    fp16 = r.field("dpu_data_format", "in_precision") == Precision.FP16
    if table and fp16 and _pixels(r) * channels > TABLE_MAX_ELEMENTS_FP16:
        yield f"a table on {_pixels(r) * channels} fp16 elements corrupts some, {TABLE_MAX_ELEMENTS_FP16} at most"


def check_sdp(registers: RegisterFile) -> None:
    """Check the stand-alone program in the current groups.

    Raises:
        UnsupportedOperation, ProgramError, NeverCompletes: the first rule broken.
    """
    for operation in _unsupported(registers):
        raise UnsupportedOperation(operation)
    for rule, problems in (("geometry", _geometry), ("output", dpu_inconsistent)):
        for problem in problems(registers):
            raise ProgramError(rule, problem)
    check_operands(
        registers,
        convolution=False,
        read_engines=True,
        pixels=_pixels(registers),
        channels=registers.field("dpu_data_cube_channel", "channel_minus1") + 1,
    )
    precision = Precision(registers.field("dpu_data_format", "in_precision"))
    width = registers.field("dpu_data_cube_width", "width_minus1") + 1
    limit = SDP_MAX_ROWS.get(precision, width)
    if width > limit:
        raise NeverCompletes(
            "rows", f"{width} rows of {precision_name(precision)}, an element-wise program ends up to {limit}"
        )
