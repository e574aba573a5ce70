"""One matmul program from a type name and a shape, checked against what a program can hold."""

from __future__ import annotations

from dataclasses import dataclass

from orkbench_tui.driver.regcmd.int4_batch import batch_rows
from orkbench_tui.driver.regcmd.programs import (
    GEOMETRIES,
    MTX_ORDER,
    PRECISIONS,
    RKNN_ORDER,
    MatmulPrecision,
    MatmulShape,
    data_banks,
    registers_for,
)
from orkbench_tui.driver.regcmd.registers import INT_DPU, Enable, Precision
from orkbench_tui.driver.regcmd.words import encode_all, trailer
from orkbench_tui.driver.soc import RK3588, Soc
from orkbench_tui.errors import UsageError

__all__ = ["EmittedProgram", "emit_program", "precision_named"]

_FORMS = {"rknn": (RKNN_ORDER, False), "mtx": (MTX_ORDER, True)}
"""Form name -> register order, and whether OD_BYPASS is set in it."""

_MAX_K = 16384
_MAX_ENTRIES = 0x3FFF
_ADDRESS_BITS = 32


@dataclass(frozen=True, slots=True)
class EmittedProgram:
    """A complete last-of-run program: body, then the four trailer words, as integers."""

    dtype: str
    m: int
    k: int
    n: int
    a: int
    w: int
    c: int
    geometry: str
    form: str
    body_words: int
    enable: int
    int_mask: int
    words: tuple[int, ...]


def precision_named(name: str) -> MatmulPrecision:
    """The matmul flavour called ``in->out``; an input type alone means its widest integer or float sum.

    Raises:
        UsageError: no such flavour.
    """
    if name in PRECISIONS:
        return PRECISIONS[name]
    widest = [p for key, p in PRECISIONS.items() if key.partition("->")[0] == name]
    if not widest:
        inputs = list(dict.fromkeys(key.partition("->")[0] for key in PRECISIONS))
        raise UsageError(f"--dtype {name}", why=f"allowed: {', '.join([*inputs, *PRECISIONS])}")
    return widest[0]


def _whole(name: str, value: int, granule: int, high: int) -> None:
    if value % granule or not granule <= value <= high:
        multiple = f", a multiple of {granule}" if granule > 1 else ""
        raise UsageError(
            f"{name} = {value}", why=f"allowed: {granule} to {high // granule * granule}{multiple}"
        )


def _check_shape(soc: Soc, p: MatmulPrecision, geometry: str, m: int, k: int, n: int) -> None:
    _whole("K", k, p.k_granule, min(_MAX_K, soc.cbuf_bank_bytes * 8 // p.input_bits))
    _whole("N", n, p.kernel_group, soc.max_n_per_program)
    row = p.row_bytes(k)
    if geometry == "int4_batch":
        _check_batch(p, m, k)
        return
    rows = min(soc.max_rows_per_program, (soc.cbuf_banks - 1) * soc.cbuf_bank_bytes // row)
    if geometry == "fold":
        rows = min(rows, _MAX_ENTRIES // -(-row // soc.cbuf_entry_bytes))
    _whole("M", m, 1, rows)
    if geometry == "cube" and m != 1 and m % 4:
        raise UsageError(f"M = {m} with --geometry cube", why=f"allowed: 1, or 4 to {rows} in multiples of 4")
    if data_banks(soc, p, m, k) >= soc.cbuf_banks:
        raise UsageError(f"M = {m}", why=f"allowed: 1 to {rows} for K = {k}")


def _check_batch(p: MatmulPrecision, m: int, k: int) -> None:
    if p.code is not Precision.INT4:
        raise UsageError(f"--geometry int4_batch with {p.name}", why="allowed: int4")
    _whole("M", m, 1, batch_rows(k))


def _check_address(soc: Soc, name: str, value: int) -> None:
    top = (1 << _ADDRESS_BITS) - soc.atom_bytes
    if value % soc.atom_bytes or not 0 <= value <= top:
        raise UsageError(
            f"--{name} {value:#x}", why=f"allowed: 0x0 to {top:#x}, a multiple of {soc.atom_bytes}"
        )


def emit_program(
    dtype: str,
    m: int,
    k: int,
    n: int,
    *,
    a: int,
    w: int,
    c: int,
    geometry: str | None = None,
    form: str = "rknn",
    soc: Soc = RK3588,
) -> EmittedProgram:
    """The words of one matmul of ``m`` x ``k`` by ``k`` x ``n`` at the given addresses.

    ``geometry`` None takes the one the driver uses for the type. ``form`` ``rknn`` is the 108-word
    order, ``mtx`` the 104-word one.

    Raises:
        UsageError: a name, size or address outside what a program can hold.
    """
    precision = precision_named(dtype)
    geometry = geometry or ("fold" if precision.code is Precision.INT4 else "row_major")
    if geometry not in GEOMETRIES:
        raise UsageError(f"--geometry {geometry}", why=f"allowed: {', '.join(sorted(GEOMETRIES))}")
    if form not in _FORMS:
        raise UsageError(f"--form {form}", why=f"allowed: {', '.join(_FORMS)}")
    _check_shape(soc, precision, geometry, m, k, n)
    for name, value in (("a", a), ("w", w), ("c", c)):
        _check_address(soc, name, value)
    order, bypass = _FORMS[form]
    banks = data_banks(soc, precision, 4 * m, k) if geometry == "int4_batch" else 0
    shape = MatmulShape(m, k, n, a, w, c, data_banks=banks)
    try:
        values = registers_for(soc, precision, geometry, shape, output_bypass=bypass)
    except ValueError as error:
        raise UsageError(f"shape {m},{k},{n}", why=str(error)) from None
    body = encode_all((name, values.get(name, 0)) for name in order).tolist()
    words = (*body, *trailer(Enable.MATMUL))
    return EmittedProgram(
        precision.name, m, k, n, a, w, c, geometry, form, len(body), int(Enable.MATMUL), INT_DPU, words
    )  # fmt: skip
