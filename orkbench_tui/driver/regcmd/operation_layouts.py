"""Which memory layout a program's feature reads and result writes amount to.

Both are address rules of the chip, so the answer is taken from the addresses they give and not from
the words a known builder would have written.
"""

from __future__ import annotations

from orkbench_tui.driver.regcmd.operation_record import Layout
from orkbench_tui.driver.regcmd.register_groups import LaunchState
from orkbench_tui.driver.regcmd.registers import REGISTERS

__all__ = ["ATOM", "geometry_of_pair", "input_layout", "output_layout"]

ATOM = 16
_SURFACE = REGISTERS["cna_dma_con2"].fields["surf_stride"]


def input_layout(state: LaunchState, bits: int) -> Layout:
    """Layout of the features. ``bits`` per element.

    Atom (surface s, line h, column w) is at ``s*step + (h div G)*line + (h mod G)*W + w`` atoms, with
    lines in groups of G = 4 when GROUP_LINE_OFF is 0, else G = 1.
    """
    width = state.field("cna_data_size0", "datain_width")
    height = state.field("cna_data_size0", "datain_height")
    grouped = not state.field("cna_conv_con1", "group_line_off")
    line = state.field("cna_dma_con1", "line_stride")
    step = (4 * width if grouped else width) + _SURFACE.signed(state.get("cna_dma_con2"))
    surfaces = -(-state.field("cna_data_size1", "channel") * bits // (8 * ATOM))
    pitch = step * ATOM
    if height == 1:
        if width == 1 and not grouped and step == 1:
            return Layout("row_major", line * ATOM, ATOM)
        if step >= width > 0:
            return Layout("cube" if width == step == 1 else "fold", ATOM, pitch)
    elif width == 1 and not grouped:
        if step == 1:
            return Layout("row_major", line * ATOM, ATOM)
        if line == 1 and step >= height:
            return Layout("cube", ATOM, pitch)
    elif width == 1:
        if step == 1 and bits == 4 and height % 4 == 0:
            return Layout("int4_batch", line * ATOM, ATOM)
        if line == 4:
            return Layout("cube", ATOM, pitch)
    elif width > 1 and not grouped and step == width and line == width * surfaces:
        return Layout("panel", ATOM, pitch, panel_rows=width)
    return Layout("strided", None, pitch)


def output_layout(state: LaunchState, units: int, pixels: int) -> Layout:
    """Layout of the results. ``units`` are 16-byte pieces of a pixel's kernel group.

    Unit u of group g is at ``g*SURFACE_ADD + u*DST_SURF_STRIDE``, pixel (h, w) a further
    ``16*(h*(W + NOTCH) + w)``.
    """
    width = state.field("dpu_wdma_size_1", "width_minus1") + 1
    height = state.field("dpu_wdma_size_1", "height_minus1") + 1
    notch = state.field("dpu_data_cube_notch", "notch_1")
    unit = state.field("dpu_dst_surf_stride", "bytes_div16") * ATOM
    group = state.field("dpu_surface_add", "bytes_div16") * ATOM
    if width * height == 1 and pixels > 1:
        return Layout("int4_batch", 4 * group, unit)
    if group != unit * units:
        return Layout("strided", None, unit)
    if width == 1 and unit == ATOM and notch:
        return Layout("row_major", (1 + notch) * ATOM, ATOM)
    if width > 1 and notch and unit == ATOM * width:
        return Layout("panel", ATOM, unit, panel_rows=width)
    if notch == 0 and unit >= ATOM * pixels and (width == 1 or height == 1):
        return Layout("fold" if width > 1 or unit > ATOM * pixels == ATOM else "cube", ATOM, unit)
    return Layout("strided", None, unit)


def geometry_of_pair(a: Layout, c: Layout, pixels: int) -> str:
    """One word when input and output agree, else ``input->output``.

    One row as a cube and as a fold is the same program; the whole cube is then called a cube.
    """
    if a.geometry == c.geometry or (pixels == 1 and {a.geometry, c.geometry} <= {"cube", "fold"}):
        return a.geometry
    return f"{a.geometry}->{c.geometry}"
