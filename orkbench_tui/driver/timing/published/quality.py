"""Published figures of quality. They have no time in them: perplexities, errors, bits."""

from __future__ import annotations

from orkbench_tui.driver.timing.published.figure import Figure, rows

__all__ = ["FIGURES"]

FIGURES: tuple[Figure, ...] = (
    *rows(
        "RES-13", "tier 4a", "8x2048x256, G=128, outliers x20", "% RMS", {"plain": 27.18, "rotated": 14.75}
    ),
    *rows("RES-14", "tier 4a", "stories15M, 32 tokens", "NLL", {"32, plain": 1.693, "32, rotated": 1.463}),
    *rows("RES-14", "tier 4a", "stories15M, 64 tokens", "NLL", {"64, plain": 2.119, "64, rotated": 1.800}),
    *rows(
        "RES-15",
        "tier 4a",
        "Qwen3-1.7B int4, wikitext-2 -c 128",
        "PPL",
        {
            "grouped": 23.92,
            "grouped, rotated": 33.74,
            "channel": 24758,
            "channel, rotated": 103.79,
            "CPU Q8": 19.66,
        },
    ),
    *rows("RES-20", "log", "Qwen3.6-35B-A3B", "PPL", {"shipped profile PPL": 10.7718, "native PPL": 10.2058}),
    *rows("RES-29", "tier 8a", "reconstruction", "error", {"NF4": 0.1102, "uniform": 0.1581}),
    *rows("RES-30", "tier 8c", "weighted error", "error", {"plain": 4.001e5, "importance matrix": 6.273e4}),
    *rows(
        "RES-31",
        "tier 8",
        "mixed tiers",
        "PPL",
        {
            "fp16 + Q4_K_M map": 11.33,
            "Q4_K_M on CPU": 10.92,
            "int8": 11.19,
            "from Q4_K_M": 12.48,
            "UD-Q4_K_XL": 17.91,
        },
    ),
    *rows("RES-32", "tier 8e", "tier map", "tensors", {"int4": 140, "int8": 28}),
    *rows(
        "RES-47",
        "tier 12f",
        "resident keys and values",
        "rel err",
        {"attention": 0.005, "append, most": 0.004},
    ),
    *rows("RES-56", "log", "transposed B in a batched matmul", "PPL", {"wrong": 67.86, "fixed": 10.7607}),
    *rows(
        "RES-57",
        "tier 15",
        "27B tiers",
        "PPL",
        {"W4A4 PPL": 10.6780, "W4A8 ra8 PPL": 10.4421, "W4A8 G=512 PPL": 9.7485},
    ),
    *rows(
        "RES-59",
        "tier 16",
        "0.8B screen",
        "PPL",
        {
            "CPU bf16": 11.7783,
            "CPU Q4_K_M": 12.0266,
            "CPU Q4_0": 12.9964,
            "rotated int8": 14.8577,
            "W4A4": 15.9011,
        },
    ),
    *rows(
        "RES-60",
        "tier 16",
        "granularity",
        "PPL",
        {"GPTQ, G=32": 14.3428, "GPTQ": 15.9011, "G=32": 16.6911, "channel": 26.2782},
    ),
    *rows(
        "RES-61",
        "tier 16",
        "matmul error by scheme",
        "error",
        {
            "Q4_0, CPU": 0.09144,
            "channel W4A4": 0.58207,
            "G=32 W4A4": 0.20032,
            "G=32 rotated W4A4": 0.14252,
            "G=32 rotated W4A8": 0.09809,
        },
    ),
    *rows("RES-68", "tier 19", "dtype references outside their module", "references", {"before": 26}),
)
