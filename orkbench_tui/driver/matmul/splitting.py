"""How a matmul is cut into programs the chip can run.

Rows are bounded by the feature banks, columns by a register field, K by the channel field and the
weight banks. The cut is pure arithmetic: the tiles of a plan cover (M, K, N) exactly once.
"""

from __future__ import annotations

from orkbench_tui.driver.regcmd.programs import MatmulPrecision, data_banks
from orkbench_tui.driver.soc import Soc
from orkbench_tui.errors import RefusedError

__all__ = [
    "column_segments",
    "even_parts",
    "feature_banks",
    "max_rows",
    "row_tiles",
    "rows_in_banks",
    "weight_banks",
]


def weight_banks(soc: Soc, precision: MatmulPrecision, k: int) -> int:
    """Banks one kernel group of a K slice needs; two at least, or the weight side stalls."""
    group_bytes = precision.kernel_group * precision.row_bytes(k)
    return max(2, -(-group_bytes // soc.cbuf_bank_bytes))


def feature_banks(soc: Soc, precision: MatmulPrecision, rows: int, k: int) -> int:
    """Banks to give the features of a program.

    Integer results were reported wrong when the last bank is nearly full, so more than half a last
    bank earns one more where the weights can spare it.
    """
    exact = data_banks(soc, precision, rows, k)
    nearly_full = 2 * rows * precision.row_bytes(k) > (2 * exact - 1) * soc.cbuf_bank_bytes
    return min(exact + nearly_full, max(exact, soc.cbuf_banks - weight_banks(soc, precision, k)))


def rows_in_banks(soc: Soc, precision: MatmulPrecision, k: int, banks: int) -> int:
    """Feature rows ``banks`` hold, half of the last one spared where there are several."""
    spare = soc.cbuf_bank_bytes // 2 if banks > 1 else 0
    rows = (banks * soc.cbuf_bank_bytes - spare) // precision.row_bytes(k) if banks > 0 else 0
    return min(rows, soc.max_rows_per_program)


def max_rows(soc: Soc, precision: MatmulPrecision, k: int) -> int:
    """Rows one program may have at this K, so that the features fit with the spare half bank.

    Raises:
        RefusedError: K leaves no bank for features.
    """
    rows = rows_in_banks(soc, precision, k, soc.cbuf_banks - weight_banks(soc, precision, k))
    if rows < 1:
        raise RefusedError(
            f"K = {k} leaves no room for a feature row",
            why=f"one kernel group takes {weight_banks(soc, precision, k)} of {soc.cbuf_banks} banks",
            do=f"split K at {soc.max_k_int8}",
        )
    return rows


def even_parts(total: int, parts: int, granule: int) -> list[tuple[int, int]]:
    """``(start, length)`` of up to ``parts`` near-equal parts, each a multiple of ``granule``."""
    granules = total // granule
    parts = max(1, min(parts, granules))
    base, extra = divmod(granules, parts)
    result = []
    start = 0
    for index in range(parts):
        length = (base + (index < extra)) * granule
        result.append((start, length))
        start += length
    return result


def row_tiles(rows: int, limit: int) -> list[tuple[int, int]]:
    """Rows in near-equal tiles of at most ``limit``."""
    return even_parts(rows, -(-rows // limit), 1)


def column_segments(soc: Soc, precision: MatmulPrecision, n: int, cores: int) -> list[tuple[int, int]]:
    """Columns over the cores: a multiple of ``cores`` segments where N is wide enough, none above the field."""
    per_core = -(-n // cores)
    rounds = max(1, -(-per_core // soc.max_n_per_program))
    parts = even_parts(n, cores * rounds, precision.kernel_group)
    if any(length > soc.max_n_per_program for _, length in parts):
        return column_segments(soc, precision, n, cores * 2)
    return parts
