"""``ork npu regcmd``: register programs, written and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from orkbench_tui.cli import output
from orkbench_tui.cli.input import standard_bytes
from orkbench_tui.errors import ExitCode, InvalidFileError, UsageError
from orkbench_tui.user_files import open_regular

if TYPE_CHECKING:
    from orkbench_tui.driver.regcmd.disassemble import Program
    from orkbench_tui.driver.regcmd.emit import EmittedProgram
    from orkbench_tui.driver.regcmd.instruction import Instruction
    from orkbench_tui.driver.regcmd.operation import Operation

app = typer.Typer(help="Write and read NPU register programs.", rich_markup_mode=None, add_completion=False)

Json = Annotated[bool, typer.Option("--json", help="One JSON document.")]
DtypeOption = Annotated[
    str | None,
    typer.Option("--dtype", help="int8, int4, int16, fp16, bf16, tf32, or in->out as in int8->int16."),
]
ShapeOption = Annotated[
    str | None, typer.Option("--shape", metavar="M,K,N", help="Rows, contraction, columns.")
]
AOption = Annotated[str | None, typer.Option("--a", metavar="HEX", help="Address of A.")]
WOption = Annotated[str | None, typer.Option("--w", metavar="HEX", help="Address of the weights.")]
COption = Annotated[str | None, typer.Option("--c", metavar="HEX", help="Address of C.")]
GeometryOption = Annotated[
    str | None,
    typer.Option("--geometry", help="row_major, cube, fold or int4_batch; fold for int4, else row_major."),
]
FormOption = Annotated[str | None, typer.Option("--form", help="rknn (108 words) or mtx (104 words).")]

LISTED_WORDS = 1 << 17
"""Longer streams are summed up program by program, without a line per word."""
_SHORT = ("op", "dtype", "m", "k", "n", "a", "w", "c")
"""What the first program amounts to, in short, at the top of the JSON document."""
MAX_PROGRAMS = 65535
"""What the largest task counter of a chip of this family counts to."""


@app.callback(invoke_without_command=True)
def _group(
    context: typer.Context,
    dtype: DtypeOption = None,
    shape: ShapeOption = None,
    a: AOption = None,
    w: WOption = None,
    c: COption = None,
    geometry: GeometryOption = None,
    form: FormOption = None,
    json: Json = False,
) -> None:
    """Write the words of a matmul program, or with `decode` read those of any program.

    Without a sub-command the options are those of `emit`.
    """
    given = [value for value in (dtype, shape, a, w, c, geometry, form) if value is not None]
    if context.invoked_subcommand is not None:
        if given or json:
            raise UsageError(
                f"options before {context.invoked_subcommand!r}",
                do=f"put them after {context.invoked_subcommand!r}",
            )
        return
    if not given:
        output.emit(context.get_help())
        raise typer.Exit(ExitCode.USAGE)
    _emit(dtype, shape, a, w, c, geometry, form, json)


@app.command()
def emit(
    dtype: DtypeOption = None,
    shape: ShapeOption = None,
    a: AOption = None,
    w: WOption = None,
    c: COption = None,
    geometry: GeometryOption = None,
    form: FormOption = None,
    json: Json = False,
) -> None:
    """Write the words of one matmul program, trailer included: one hex word a line, or JSON."""
    _emit(dtype, shape, a, w, c, geometry, form, json)


def _emit(
    dtype: str | None,
    shape: str | None,
    a: str | None,
    w: str | None,
    c: str | None,
    geometry: str | None,
    form: str | None,
    json: bool,
) -> None:
    from orkbench_tui.driver.regcmd.emit import emit_program

    m, k, n = _shape(_given("--shape", shape))
    program = emit_program(
        _given("--dtype", dtype),
        m,
        k,
        n,
        a=_address("--a", _given("--a", a)),
        w=_address("--w", _given("--w", w)),
        c=_address("--c", _given("--c", c)),
        geometry=geometry,
        form=form or "rknn",
    )
    if json:
        output.emit_json("npu.regcmd", _emitted(program), source="host")
        return
    output.emit("\n".join(f"{word:016x}" for word in program.words))


def _emitted(program: EmittedProgram) -> dict[str, Any]:
    return {
        "dtype": program.dtype,
        "m": program.m,
        "k": program.k,
        "n": program.n,
        "a": f"{program.a:#x}",
        "w": f"{program.w:#x}",
        "c": f"{program.c:#x}",
        "geometry": program.geometry,
        "form": program.form,
        "body_words": program.body_words,
        "enable": f"{program.enable:#x}",
        "int_mask": f"{program.int_mask:#x}",
        "words": [f"{word:016x}" for word in program.words],
    }


def _given(name: str, value: str | None) -> str:
    if value is None:
        raise UsageError(f"{name} is missing", do="see `ork npu regcmd emit --help`")
    return value


def _shape(text: str) -> tuple[int, int, int]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) <= 9 for part in parts):
        raise UsageError(f"--shape {text}", why="allowed: three whole numbers M,K,N, for example 4,64,64")
    m, k, n = map(int, parts)
    return m, k, n


def _address(name: str, text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        raise UsageError(f"{name} {text}", why="allowed: a hex number, for example 0xfff00000") from None


@app.command()
def decode(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON, hex text or raw words; - is standard input.")
    ],
    operations: Annotated[
        bool, typer.Option("--operations", help="Only what each program amounts to, no line per word.")
    ] = False,
    json: Json = False,
) -> None:
    """Read register programs: every field by name, and the operation each program amounts to."""
    from orkbench_tui.driver.regcmd.disassemble import disassemble, enable_words
    from orkbench_tui.driver.regcmd.operation import read_operations

    words = _read(file)
    if enable_words(words) > MAX_PROGRAMS:
        raise InvalidFileError(
            _name(file),
            why=f"{enable_words(words)} programs, a run has up to {MAX_PROGRAMS}",
            do="decode it in parts",
        )
    listing = disassemble(words)
    if not listing.programs:
        raise InvalidFileError(_name(file), why=f"{listing.words} words, all of them NOPs: no program")
    found = read_operations(listing)
    listed = not operations and listing.words <= LISTED_WORDS
    if json:
        warnings = (
            [] if listed or operations else [{"text": f"over {LISTED_WORDS} words: instructions left out"}]
        )
        first = found[0].as_dict()
        data = {
            **{name: first[name] for name in _SHORT},
            "words": listing.words,
            "padding_words": listing.padding_words,
            "operation": first,
            "programs": [
                _program_dict(program, operation, listed)
                for program, operation in zip(listing.programs, found, strict=True)
            ],
            "findings": [
                {"index": finding.index, "kind": finding.kind, "text": finding.text}
                for finding in listing.findings
            ],
        }
        output.emit_json("npu.regcmd.decode", data, source="host", warnings=warnings)
        return
    for program, operation in zip(listing.programs, found, strict=True):
        output.emit("\n".join(_program_lines(program, operation, listed)))
    if not listed and not operations:
        output.emit(f"over {LISTED_WORDS} words: the words are not listed")


def _name(file: str) -> str:
    return "standard input" if file == "-" else file


def _read(file: str) -> Any:
    from orkbench_tui.driver.regcmd.word_files import MAX_BYTES, parse_words, read_words

    if file == "-":
        data = standard_bytes(MAX_BYTES, do="a register program has a few KB")
        return parse_words(data, _name(file))
    with open_regular(file, "file of register words") as stream:
        return read_words(stream, file)


def _program_dict(program: Program, operation: Operation, listed: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "index": program.index,
        "start": program.start,
        "words": len(program.words),
        "body_words": program.body_words,
        "enable": None if program.enable is None else f"{program.enable:#x}",
        "next_address": f"{program.next_address:#x}" if program.next_address else None,
        "next_amount": program.next_amount,
        "operation": operation.as_dict(),
    }
    if listed:
        data["instructions"] = [
            {
                "index": item.index,
                "word": f"{item.word:016x}",
                "block": item.block,
                "register": item.register,
                "address": f"{item.address:#06x}",
                "value": f"{item.value:#010x}",
                "fields": dict(item.fields),
                "note": item.note,
            }
            for item in program.instructions()
        ]
    return data


def _program_lines(program: Program, operation: Operation, listed: bool) -> list[str]:
    last = program.start + len(program.words) - 1
    lines = [f"program {program.index}: words {program.start} to {last}, body {program.body_words}"]
    if listed:
        lines += [_instruction_line(item) for item in program.instructions()]
    lines += _operation_lines(operation)
    lines += [f"  finding: word {finding.index}: {finding.text}" for finding in program.findings]
    lines += [f"  {problem.severity}: {problem.rule}: {problem.text}" for problem in operation.problems]
    return lines


def _instruction_line(item: Instruction) -> str:
    where = f"{item.index:>6} {item.word:016x} {item.block:<8} {item.address:#06x}"
    fields = " ".join(f"{name}={value}" for name, value in item.fields.items() if value)
    name = item.register or ("-" if item.note else "?")
    return "  ".join(
        part for part in (where, f"{name:<24} {item.value:#010x}", fields, item.note) if part
    ).rstrip()


def _operation_lines(operation: Operation) -> list[str]:
    data = operation.as_dict()
    size = "  ".join(f"{name}={data[name]}" for name in ("m", "k", "n") if data[name] is not None)
    places = "  ".join(f"{name}={data[name]}" for name in ("a", "w", "b", "c") if data[name] is not None)
    head = "  ".join(part for part in (operation.op, operation.dtype, size, operation.geometry) if part)
    lines = [f"  operation: {head}", f"  addresses: {places}"]
    if operation.banks:
        lines.append(
            f"  banks: data {operation.banks.data} ({operation.banks.needed} needed), weights {operation.banks.weight}"
        )
    if operation.conversion and not operation.conversion.identity:
        c = operation.conversion
        lines.append(
            f"  conversion: scale {c.scale}, shift {c.shift}, offset {c.offset}, {c.order}, {c.rounding}"
        )
    for name, value in operation.details.items():
        lines.append(f"  {name}: {value}")
    chained = f", goes on at {data['chained_to']}" if operation.chained_to else ""
    lines.append(f"  task: enable {data['enable']}, int_mask {data['int_mask'] or 'unknown'}{chained}")
    if operation.inherited_registers:
        lines.append(f"  inherited: {operation.inherited_registers} registers from earlier programs")
    return lines
