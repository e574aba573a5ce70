"""Rules that hold for convolutions and for element-wise programs alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from orkbench_tui.driver.regcmd.operation_matmul import stage_names
from orkbench_tui.driver.regcmd.operation_record import Operation
from orkbench_tui.driver.regcmd.register_groups import LaunchState
from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.driver.soc import RK3588

__all__ = ["SIZE_E", "Rule", "addresses", "conversion", "negative_shift", "stage_sources", "unwritten"]

Rule = Callable[[LaunchState, Operation], Iterator[str]]

SIZE_E = ("size_e_0", "size_e_1", "size_e_2")


def unwritten(needs: tuple[str, ...]) -> Rule:
    def rule(s: LaunchState, o: Operation) -> Iterator[str]:
        missing = [name for name in needs if name not in s.values]
        if missing:
            yield f"{len(missing)} registers it rests on were never written in this stream, first {missing[0]}"

    return rule


def stage_sources(s: LaunchState, o: Operation) -> Iterator[str]:
    rdma = bool(s.enable & 0x10)
    for stage, config in (("bs", "rdma_brdma_cfg"), ("bn", "rdma_nrdma_cfg")):
        parts = stage_names(s, stage)
        from_memory = ("alu" in parts and s.field(f"dpu_{stage}_cfg", "alu_src")) or (
            "mul" in parts and s.field(f"dpu_{stage}_mul_cfg", "mul_src")
        )
        if from_memory and not (rdma and s.field(config, "data_use")):
            yield f"{stage.upper()} takes operands from memory, but {config} fetches none"


def negative_shift(s: LaunchState, o: Operation) -> Iterator[str]:
    for stage in ("bs", "bn"):
        if "mul" not in stage_names(s, stage):
            continue
        shift = s.field(f"dpu_{stage}_mul_cfg", "shift")
        negative = s.field("dpu_data_format", f"{stage}_mul_shift_neg")
        if shift != negative:
            yield f"{stage.upper()} shifts by {shift}, negative results by {negative}"


def conversion(s: LaunchState, o: Operation) -> Iterator[str]:
    if o.conversion is None:
        return
    out = s.field("dpu_data_format", "out_precision")
    if o.conversion.scale == 0:
        yield "the output scale is 0: every result is the offset"
    if s.field("dpu_data_format", "in_precision") == Precision.FP16 and out == Precision.FP16:
        if not o.conversion.fp32_to_fp16:
            yield "fp16 output without FP32TOFP16_EN"
    elif o.conversion.fp32_to_fp16 and out not in (Precision.FP16, Precision.BF16):
        yield "FP32TOFP16_EN with an output that is not 16-bit floating point"


def addresses(s: LaunchState, o: Operation) -> Iterator[str]:
    for name in ("a", "w", "b", "c"):
        address = getattr(o, name)
        if address is not None and address % RK3588.atom_bytes:
            yield f"{name} = {address:#x} is not a multiple of {RK3588.atom_bytes}"
