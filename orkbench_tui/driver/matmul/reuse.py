"""Keeping weights in the convolution buffer over the row tiles of a matmul.

With WEIGHT_REUSE a program computes with the weights the program before it loaded. That is right exactly
when they fit the weight banks; beyond, the numbers are wrong and nothing says so. So columns are cut until
they fit, the first row tile of a cut loads and the others reuse.

The gain was measured at 3.8 to 5.0 % of int8 prefill, within the spread of the runs it was measured in: no
path of this driver asks for it by itself. Sources: docs/fidelity.md, "weight reuse".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from orkbench_tui.driver import guards
from orkbench_tui.driver.failures import OperandError
from orkbench_tui.driver.matmul.splitting import row_tiles, rows_in_banks
from orkbench_tui.driver.regcmd.programs import MatmulPrecision
from orkbench_tui.driver.regcmd.registers import Precision
from orkbench_tui.driver.soc import Soc

__all__ = [
    "MEASURED_BANKS",
    "MEASURED_K",
    "PUBLISHED_MODEL_K",
    "CoreShare",
    "ReferenceCheck",
    "ReusePlan",
    "WeightReuse",
    "plain_plan",
    "require_banks",
    "require_measured",
    "require_weights_stay",
    "resident_columns",
    "reuse_columns",
    "reuse_plan",
    "rows_beside",
    "weights_stay",
]

MEASURED_K = (1024, 2048, 4096)
MEASURED_BANKS = (1, 4, 11)
"""Where the rule was seen to be exact on silicon, all in int8."""

PUBLISHED_MODEL_K: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"attention": (1024, 1536, 2048), "down projection": (512, 3072, 3584, 6144, 8960)}
)
"""K of the models the roadmap ran, by what the matmul is for. None is 4096, the one K an early gate allowed."""


@dataclass(frozen=True, slots=True)
class ReferenceCheck:
    """A comparison of every element with an exact reference, of one K, width and bank count.

    ``full_range``: the operands were random over the whole range of their type. Data that repeats hides
    wrong tiles behind equal ones.
    """

    report: str
    k: int
    columns: int
    weight_banks: int
    elements: int
    wrong: int
    full_range: bool

    def vouches_for(self, k: int, columns: int, weight_banks: int) -> bool:
        """Whether it found this shape right. A check without a report to look up vouches for nothing."""
        same = (self.k, self.columns, self.weight_banks) == (k, columns, weight_banks)
        return same and bool(self.report) and self.full_range and self.elements > 0 and self.wrong == 0


@dataclass(frozen=True, slots=True)
class WeightReuse:
    """Asks a matmul to keep weights over its row tiles.

    ``columns`` None takes the widest cut that fits ``weight_banks``. ``checks`` are reports that vouch for
    shapes nobody has published.
    """

    weight_banks: int = 4
    columns: int | None = None
    checks: tuple[ReferenceCheck, ...] = ()


@dataclass(frozen=True, slots=True)
class ReusePlan:
    """What one core does for its columns: ``programs`` of up to ``rows`` by ``columns``, and the weight
    bytes it reads from memory for them."""

    rows: int
    columns: int
    programs: int
    weight_bytes: int


def weights_stay(soc: Soc, row_bytes: int, columns: int, weight_banks: int) -> bool:
    """Whether ``columns`` kernels of ``row_bytes`` fit the weight banks of one core."""
    return row_bytes * columns <= weight_banks * soc.cbuf_bank_bytes


def resident_columns(soc: Soc, precision: MatmulPrecision, k: int, weight_banks: int) -> int:
    """The widest cut whose weights stay, in whole kernel groups; 0 when not even one does."""
    widest = weight_banks * soc.cbuf_bank_bytes // precision.row_bytes(k)
    return widest // precision.kernel_group * precision.kernel_group


def require_banks(soc: Soc, weight_banks: int) -> None:
    """Raises OperandError for a share of the banks that leaves the weights or the features none."""
    if not 1 <= weight_banks < soc.cbuf_banks:
        raise OperandError(
            "weight reuse", why=f"{weight_banks} weight banks, allowed: 1 to {soc.cbuf_banks - 1}"
        )


def require_weights_stay(
    soc: Soc, precision: MatmulPrecision, k: int, columns: int, weight_banks: int
) -> None:
    """Raises RefusedError (GRD-12) for weights that would not stay."""
    require_banks(soc, weight_banks)
    widest = resident_columns(soc, precision, k, weight_banks)
    if columns < precision.kernel_group or not weights_stay(
        soc, precision.row_bytes(k), columns, weight_banks
    ):
        allowed = f"allowed: up to {widest}" if widest else f"not even {precision.kernel_group} fit"
        guards.refuse(
            "GRD-12", seen=f"K = {k} with {columns} columns in {weight_banks} weight banks, {allowed}"
        )


def require_measured(precision: MatmulPrecision, k: int, columns: int, reuse: WeightReuse) -> None:
    """Raises RefusedError (GRD-13) for a shape nobody measured that no clean report vouches for."""
    published = precision.code is Precision.INT8 and k in MEASURED_K and reuse.weight_banks in MEASURED_BANKS
    if published or any(check.vouches_for(k, columns, reuse.weight_banks) for check in reuse.checks):
        return
    guards.refuse(
        "GRD-13",
        seen=f"{precision.name}, K = {k}, {columns} columns, {reuse.weight_banks} weight banks; measured: int8, "
        f"K of {', '.join(map(str, MEASURED_K))}, banks {', '.join(map(str, MEASURED_BANKS))}",
    )


def reuse_columns(soc: Soc, precision: MatmulPrecision, k: int, segment: int, reuse: WeightReuse) -> int:
    """How wide the programs of a matmul with weight reuse are, for a core's ``segment`` of the columns.

    Raises:
        RefusedError: the weights would not stay (GRD-12), or nobody has measured the shape (GRD-13).
        OperandError: a bank count the chip does not have.
    """
    wanted = reuse.columns or resident_columns(soc, precision, k, reuse.weight_banks)
    columns = min(segment, wanted)
    require_weights_stay(soc, precision, k, columns, reuse.weight_banks)
    require_measured(precision, k, columns, reuse)
    return columns


def _rows(soc: Soc, precision: MatmulPrecision, k: int, weight_banks: int) -> int:
    """Rows the data banks take by the published rule, without the spare the driver leaves."""
    return (soc.cbuf_banks - weight_banks) * soc.cbuf_bank_bytes // precision.row_bytes(k)


def plain_plan(
    soc: Soc, precision: MatmulPrecision, rows: int, k: int, segment: int, weight_banks: int
) -> ReusePlan:
    """Without reuse: every row tile reads all weights of the segment."""
    height = min(rows, _rows(soc, precision, k, weight_banks))
    tiles = len(row_tiles(rows, height))
    return ReusePlan(height, segment, tiles, tiles * precision.row_bytes(k) * segment)


def reuse_plan(
    soc: Soc, precision: MatmulPrecision, rows: int, k: int, segment: int, weight_banks: int
) -> ReusePlan:
    """With reuse: columns cut until they fit, each cut read once.

    Raises:
        RefusedError: not even one kernel group fits (GRD-12).
    """
    columns = min(segment, resident_columns(soc, precision, k, weight_banks))
    require_weights_stay(soc, precision, k, columns, weight_banks)
    height = min(rows, _rows(soc, precision, k, weight_banks))
    tiles = len(row_tiles(rows, height))
    cuts = -(-segment // columns)
    return ReusePlan(height, columns, tiles * cuts, precision.row_bytes(k) * segment)


def rows_beside(soc: Soc, precision: MatmulPrecision, k: int, weight_banks: int) -> int:
    """Rows the driver gives a program whose weights keep ``weight_banks`` banks."""
    return rows_in_banks(soc, precision, k, soc.cbuf_banks - weight_banks)


@dataclass(frozen=True, slots=True)
class CoreShare:
    """Weight traffic of a matmul whose rows are dealt over ``cores``; ``counted_bytes`` is what a plan says.

    Raises:
        RefusedError: fewer loads than one per core are counted (GRD-49).
    """

    cores: int
    weight_bytes: int
    counted_bytes: int

    def __post_init__(self) -> None:
        needed = self.cores * self.weight_bytes
        if self.counted_bytes < needed:
            guards.refuse(
                "GRD-49",
                seen=f"{self.counted_bytes} weight bytes for {self.cores} cores that read {self.weight_bytes} "
                f"each; at least {needed}",
            )
