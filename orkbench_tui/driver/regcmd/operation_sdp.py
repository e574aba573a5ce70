"""Reading programs without a convolution: element-wise work, tables, pooling."""

from __future__ import annotations

from typing import Any

from orkbench_tui.driver.regcmd.operation_layouts import ATOM
from orkbench_tui.driver.regcmd.operation_matmul import (
    conversion_of,
    element_wise_stage,
    lut_in_use,
    stage_names,
    stage_operands,
)
from orkbench_tui.driver.regcmd.operation_record import Layout, Operation
from orkbench_tui.driver.regcmd.operation_tables import (
    OUTPUT_BYTES,
    POOL_METHODS,
    SDP_PROGRAMS,
    SHIFT_NEG_MASK,
)
from orkbench_tui.driver.regcmd.register_groups import LaunchState
from orkbench_tui.driver.regcmd.registers import Precision

__all__ = ["read_element_wise", "read_pooling"]

_SIGNATURE = ("dpu_bs_cfg", "dpu_bn_cfg", "dpu_ew_cfg", "rdma_erdma_cfg", "rdma_feature_mode_cfg")


def _published(state: LaunchState) -> str | None:
    data_format = state.get("dpu_data_format") & ~SHIFT_NEG_MASK
    seen = tuple(state.get(name) for name in _SIGNATURE)
    for row in SDP_PROGRAMS:
        if data_format == row.data_format and seen == (row.bs, row.bn, row.ew, row.erdma, row.feature_mode):
            return row.name
    return None


def _name(state: LaunchState) -> str:
    if state.lut:
        return "lut-load"
    if lut_in_use(state):
        return "lut-apply"
    element_wise = element_wise_stage(state)
    if element_wise:
        return f"sdp {element_wise[0]}"
    parts = {*stage_names(state, "bs"), *stage_names(state, "bn")}
    if "relu" in parts:
        return "sdp relu"
    if parts:
        return "sdp scale"
    same_type = state.field("dpu_data_format", "out_precision") == state.field(
        "dpu_data_format", "in_precision"
    )
    conversion = conversion_of(state)
    return "sdp copy" if same_type and conversion.identity else "sdp convert"


def _details(state: LaunchState) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for stage in ("bs", "bn"):
        operands = stage_operands(state, stage)
        if operands:
            found[stage] = operands
    if element_wise_stage(state):
        found["ew"] = {
            "offset": state.signed("dpu_ew_cvt_offset"),
            "scale": state.field("dpu_ew_cvt_scale", "scale"),
            "shift": state.field("dpu_ew_cvt_scale", "shift"),
        }
    if state.lut:
        found["tables"] = [
            {
                "table": part.table,
                "start": part.start,
                "entries": len(part.entries),
                "first": part.entries[0],
                "last": part.entries[-1],
            }
            for part in state.lut
        ]
    elif lut_in_use(state):
        found["lut"] = {
            "le": [state.signed("dpu_lut_le_start"), state.signed("dpu_lut_le_end")],
            "lo": [state.signed("dpu_lut_lo_start"), state.signed("dpu_lut_lo_end")],
            "step_bits": state.field("dpu_lut_info", "le_index_select"),
        }
    return found


def read_element_wise(state: LaunchState) -> Operation:
    """An element-wise or table program: ``m`` rows of ``n`` channels, inputs ``a`` and ``b``."""
    out = Precision(state.field("dpu_data_format", "out_precision"))
    into = Precision(state.field("dpu_data_format", "in_precision"))
    rows = (state.field("dpu_data_cube_width", "width_minus1") + 1) * (
        state.field("dpu_data_cube_height", "height_minus1") + 1
    )
    if out not in OUTPUT_BYTES or "dpu_dst_base_addr" not in state.values:
        return Operation("unknown", m=rows)
    element_wise = element_wise_stage(state)
    surface = state.field("dpu_dst_surf_stride", "bytes_div16") * ATOM
    return Operation(
        op=_name(state),
        dtype=f"{into.name.lower()}->{out.name.lower()}",
        m=rows,
        n=state.field("dpu_data_cube_channel", "channel_minus1") + 1,
        a=state.get("rdma_src_base_addr"),
        b=state.get("rdma_ew_base_addr") if element_wise and element_wise[1] else None,
        c=state.get("dpu_dst_base_addr"),
        geometry="cube",
        a_layout=Layout("cube", ATOM, ATOM * rows + state.get("rdma_surf_notch")),
        c_layout=Layout("cube", ATOM, surface),
        conversion=conversion_of(state),
        published=_published(state),
        details=_details(state),
    )


def read_pooling(state: LaunchState) -> Operation:
    """A pooling program: ``m`` output pixels of ``n`` channels."""
    if "ppu_dst_base_addr" not in state.values:
        return Operation("unknown")
    kernel = "ppu_pooling_kernel_cfg"
    width = state.field("ppu_data_cube_out_width", "width_minus1") + 1
    height = state.field("ppu_data_cube_out_height", "height_minus1") + 1
    method = state.field("ppu_operation_mode_cfg", "pooling_method")
    type_name = Precision(state.field("ppu_data_format", "proc_precision")).name.lower()
    surface = state.field("ppu_dst_surf_stride", "bytes_div16") * ATOM
    return Operation(
        op="pool",
        dtype=f"{type_name}->{type_name}",
        m=width * height,
        n=state.field("ppu_data_cube_in_channel", "channel_minus1") + 1,
        a=state.get("ppu_rdma_src_base_addr"),
        c=state.get("ppu_dst_base_addr"),
        geometry="cube",
        a_layout=Layout("cube", ATOM, state.field("ppu_rdma_src_surf_stride", "bytes_div16") * ATOM),
        c_layout=Layout("cube", ATOM, surface),
        details={
            "method": POOL_METHODS.get(method, f"method {method}"),
            "kernel": [state.field(kernel, "height_minus1") + 1, state.field(kernel, "width_minus1") + 1],
            "stride": [
                state.field(kernel, "stride_height_minus1") + 1,
                state.field(kernel, "stride_width_minus1") + 1,
            ],
            "padding": {
                side: state.field("ppu_pooling_padding_cfg", side)
                for side in ("left", "top", "right", "bottom")
            },
            "input": [
                state.field("ppu_data_cube_in_height", "height_minus1") + 1,
                state.field("ppu_data_cube_in_width", "width_minus1") + 1,
            ],
            "output": [height, width],
        },
    )
