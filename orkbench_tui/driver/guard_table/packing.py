"""Packs and the model files they are made from."""

from __future__ import annotations

from orkbench_tui.driver.guard_table.guard import Guard, Reaction

__all__ = ["ROWS"]

ROWS = (
    Guard(
        "GRD-30",
        "packing",
        Reaction.REFUSE_UNLESS,
        "quantizing again from a file that is already mixed or low-bit",
        "perplexity 12.48 instead of 11.33",
        "take a file of 8 bits or more; with ORK_ALLOW_Q4_SRC the result is stamped",
        "roadmap tier 8, published",
        how="a 4-bit result of a low-bit source is refused, or stamped when forced",
        stands_in="orkbench_tui.runner.quantize.tiers:source_stamp",
    ),
    Guard(
        "GRD-32",
        "packing",
        Reaction.REFUSE,
        "a stub model file without its pack, or with another's",
        "tensors read as zero",
        "stop",
        "roadmap tier 15",
        how="a matrix of zeros is neither packed nor run, and a stub is checked tensor by tensor against its pack",
        stands_in="orkbench_tui.runner.quantize.int8:all_zeros",
    ),
    Guard(
        "GRD-33",
        "packing",
        Reaction.REFUSE,
        "overwriting a pack because its signature differs",
        "a 16.9 GB pack was lost upstream",
        "write beside it; replacing is a command of its own",
        "oRKLLM/ork-driver",
        how="the pack writer refuses, and --replace keeps the old file",
        stands_in="orkbench_tui.runner.orkpack.pack_file:check_overwrite",
    ),
)
