"""What element-wise, table and pooling programs must keep, as rules over their launch state."""

from __future__ import annotations

from collections.abc import Iterator

from orkbench_tui.driver.regcmd.operation_matmul import element_wise_stage, lut_in_use
from orkbench_tui.driver.regcmd.operation_record import Operation
from orkbench_tui.driver.regcmd.operation_rules_shared import (
    SIZE_E,
    Rule,
    addresses,
    conversion,
    negative_shift,
    stage_sources,
    unwritten,
)
from orkbench_tui.driver.regcmd.operation_tables import SDP_MAX_ROWS
from orkbench_tui.driver.regcmd.register_groups import LaunchState
from orkbench_tui.driver.regcmd.registers import Precision

__all__ = ["ELEMENT_WISE_RULES", "POOLING_RULES"]

_SDP_NEEDS = (
    "dpu_feature_mode_cfg", "dpu_data_format", "dpu_dst_base_addr", "dpu_dst_surf_stride", "dpu_data_cube_width",
    "dpu_data_cube_channel", "dpu_surface_add", "rdma_data_cube_width", "rdma_data_cube_channel",
    "rdma_src_base_addr", "rdma_feature_mode_cfg",
)  # fmt: skip
_POOL_NEEDS = (
    "ppu_pooling_kernel_cfg",
    "ppu_operation_mode_cfg",
    "ppu_dst_base_addr",
    "ppu_rdma_src_base_addr",
)
_MAX_INT32_CHANNELS = 1024
_BAD_FP16_ROWS = frozenset({8189, 8191})


def _sdp_source(s: LaunchState, o: Operation) -> Iterator[str]:
    if s.enable & 0x18 != 0x18:
        yield f"enable mask {s.enable:#x} does not start DPU and DPU_RDMA together"
    if not s.field("dpu_feature_mode_cfg", "flying_mode"):
        yield "FLYING_MODE is off: the main input would come from a convolution that is not started"
    if s.field("rdma_feature_mode_cfg", "mrdma_disable"):
        yield "MRDMA_DISABLE is set: the main input never arrives"
    element_wise = element_wise_stage(s)
    if element_wise and element_wise[1] and s.field("rdma_erdma_cfg", "disable"):
        yield "an element-wise operand from memory, but ERDMA is disabled"


def _sdp_rows(s: LaunchState, o: Operation) -> Iterator[str]:
    code = Precision(s.field("dpu_data_format", "in_precision"))
    limit = SDP_MAX_ROWS.get(code)
    if limit and o.m and (o.m > limit or (code is Precision.FP16 and o.m in _BAD_FP16_ROWS)):
        yield f"{o.m} rows of {code.name.lower()}, allowed: up to {limit}"


def _sdp_shape(s: LaunchState, o: Operation) -> Iterator[str]:
    rows = (s.field("rdma_data_cube_width", "width_minus1") + 1) * (
        s.field("rdma_data_cube_height", "height_minus1") + 1
    )
    if rows != o.m:
        yield f"RDMA reads {rows} rows, the DPU takes {o.m}"
    channels = s.field("rdma_data_cube_channel", "channel_minus1") + 1
    if channels != o.n:
        yield f"RDMA reads {channels} channels, the DPU takes {o.n}"
    for field in SIZE_E:
        if s.field("dpu_bs_ow_cfg", field):
            yield f"{field} is {s.field('dpu_bs_ow_cfg', field)}, 0 in a program without a convolution"


def _sdp_channels(s: LaunchState, o: Operation) -> Iterator[str]:
    if s.field("dpu_data_format", "in_precision") == Precision.INT32 and (o.n or 0) > _MAX_INT32_CHANNELS:
        yield f"{o.n} channels of int32, tested up to {_MAX_INT32_CHANNELS}"


def _sdp_published(s: LaunchState, o: Operation) -> Iterator[str]:
    if o.published is None and o.op not in ("unknown", "lut-load"):
        yield "its mode words match no published element-wise program"


def _lut_size(s: LaunchState, o: Operation) -> Iterator[str]:
    for part in s.lut:
        if part.start + len(part.entries) > 513:
            yield f"table {part.table} gets entries {part.start} to {part.start + len(part.entries) - 1}, it has 513"


def _lut_pingpong(s: LaunchState, o: Operation) -> Iterator[str]:
    if lut_in_use(s) and s.field("dpu_s_pointer", "pointer_pp_en"):
        yield "a table is applied with ping-pong on; captures have S_POINTER 0x30"


def _pool_size(s: LaunchState, o: Operation) -> Iterator[str]:
    if o.op != "pool":
        return
    d = o.details
    sides = (("top", "bottom"), ("left", "right"))
    for axis in (0, 1):
        before, after = (d["padding"][side] for side in sides[axis])
        span = d["input"][axis] + before + after - d["kernel"][axis]
        if span < 0:
            yield f"a kernel of {d['kernel'][axis]} does not fit {d['input'][axis]} + {before + after} pixels"
        elif span // d["stride"][axis] + 1 != d["output"][axis]:
            yield f"{d['output'][axis]} output pixels, the input gives {span // d['stride'][axis] + 1}"


ELEMENT_WISE_RULES: tuple[tuple[str, str, Rule], ...] = (
    ("error", "unwritten", unwritten(_SDP_NEEDS)),
    ("error", "source", _sdp_source),
    ("error", "rows", _sdp_rows),
    ("error", "shape", _sdp_shape),
    ("caution", "channels", _sdp_channels),
    ("error", "operands", stage_sources),
    ("error", "negative shift", negative_shift),
    ("caution", "conversion", conversion),
    ("error", "table", _lut_size),
    ("caution", "table", _lut_pingpong),
    ("caution", "published", _sdp_published),
    ("error", "alignment", addresses),
)
POOLING_RULES: tuple[tuple[str, str, Rule], ...] = (
    ("error", "unwritten", unwritten(_POOL_NEEDS)),
    ("error", "size", _pool_size),
    ("error", "alignment", addresses),
)
