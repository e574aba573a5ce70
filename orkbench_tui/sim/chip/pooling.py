"""Pooling programs in words. They are decoded and refused: how the unit rounds and pads is not published."""

from __future__ import annotations

from orkbench_tui.sim.chip.register_file import RegisterFile

__all__ = ["described_pooling"]

_METHODS = ("average", "max", "min")
_PRECISIONS = ("int8", "int16", "fp16", "bf16")


def described_pooling(registers: RegisterFile) -> str:
    """What the PPU registers ask for, on one line."""

    def size(prefix: str) -> str:
        parts = [
            registers.field(f"{prefix}_{name}", f"{name}_minus1") + 1
            for name in ("width", "height", "channel")
        ]
        return "x".join(map(str, parts))

    def kernel(field: str) -> int:
        return registers.field("ppu_pooling_kernel_cfg", f"{field}_minus1") + 1

    method = registers.field("ppu_operation_mode_cfg", "pooling_method")
    precision = registers.field("ppu_rdma_data_format", "in_precision")
    pads = [registers.field("ppu_pooling_padding_cfg", side) for side in ("left", "top", "right", "bottom")]
    return (
        f"pooling (enable 0x60): {_METHODS[method] if method < len(_METHODS) else f'method {method}'} "
        f"{kernel('width')}x{kernel('height')}, stride {kernel('stride_width')}x{kernel('stride_height')}, "
        f"padding {','.join(map(str, pads))}, {size('ppu_data_cube_in')} to {size('ppu_data_cube_out')}, "
        f"{_PRECISIONS[precision]}, from {registers.get('ppu_rdma_src_base_addr'):#x} "
        f"to {registers.get('ppu_dst_base_addr'):#x}"
    )
