"""``ork npu failures``: what was submitted when a job failed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orkbench_tui.cli import output
from orkbench_tui.plain_text import one_line, printable
from orkbench_tui.plural import counted

if TYPE_CHECKING:
    from orkbench_tui.driver.failure_files import FailureSummary
    from orkbench_tui.driver.failure_reading import ProgramReading

__all__ = ["document_lines", "failures"]

LISTED_PROGRAMS = 16
LISTED_BUFFERS = 64
_BUFFER_ROW = "{:>8} {:>6} {:>12} {:>11} {:>6}  {}"


def failures(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="One of the list, a file, or last; without it the list.")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Jobs that failed on the NPU: what was submitted, its programs, and where the buffers lay.

    Nothing is sent to the NPU. Register words of all programs: `ork npu regcmd decode FILE`.
    """
    from orkbench_tui.driver.failure_files import failures_folder, kept_failures, read_failure

    if name:
        document = read_failure(name)
        if json:
            output.emit_json("npu.failure", document["data"], source=document["source"])
            return
        for line in document_lines(document):
            output.emit(line)
        return
    kept = kept_failures()
    if json:
        data = {"folder": str(failures_folder()), "failures": [dataclasses.asdict(row) for row in kept]}
        output.emit_json("npu.failures", data, source="host")
        return
    if not kept:
        output.emit(f"no NPU job that failed is kept in {failures_folder()}")
        return
    output.emit(f"in {failures_folder()}, the newest first:")
    for row in kept:
        output.emit(_row_line(row))


def _row_line(row: FailureSummary) -> str:
    if row.damaged:
        return f"{row.name}  {one_line(row.damaged)}"
    cores = ", ".join(map(str, row.cores))
    text = f"{row.source}, core {cores}, {counted(row.tasks, 'task')}: {row.what}: {row.why}"
    return f"{row.name}  {one_line(text)}"


def document_lines(document: dict[str, Any]) -> Iterator[str]:
    """A record as ``failure_files.read_failure`` gives it, line by line."""
    from orkbench_tui.driver.failure_reading import read_job_programs

    data = document["data"]
    versions = f"driver {data.get('driver_version') or 'unknown'}, NPU {data.get('hw_version') or 'unknown'}"
    yield one_line(f"{data['failure']['what']}: {data['failure']['why']}")
    yield one_line(
        f"{data['recorded']}, {data['device']} ({document['source']}), {data['soc']}, {versions}, "
        f"ork {data.get('ork') or 'unknown'}"
    )
    for job in data["jobs"]:
        yield from _job_lines(job)
        for program in read_job_programs(job, data, LISTED_PROGRAMS):
            yield from _program_lines(program)
        if (more := len(job["descriptors"]) - LISTED_PROGRAMS) > 0:
            yield f"  {counted(more, 'more program')}: `ork npu regcmd decode FILE --operations` shows all"
    yield from _buffer_lines(data)
    yield from _state_lines(data)


def _job_lines(job: dict[str, Any]) -> Iterator[str]:
    answer, descriptors = job["answer"], job["descriptors"]
    statuses = ", ".join(sorted({row["int_status"] for row in descriptors} - {"0x0"}))
    waited = "waited for" if job.get("waited_for") else "not waited for"
    yield one_line(
        f"core {job['core']} (mask {job['core_mask']}), {counted(len(descriptors), 'task')} of {job['owner']}, "
        f"flags {job['flags']}, {waited}, timeout {job['timeout_ms']} ms, domain {job['domain']}"
    )
    yield "  " + one_line(
        f"answer: task counter {answer.get('task_counter')}, time on the NPU {answer.get('hw_elapse_time')} ns, "
        f"interrupt status {statuses or 'none written'}"
    )


def _program_lines(program: ProgramReading) -> Iterator[str]:
    if program.operation is None:
        yield f"  task {program.index}: {program.differs[0]}"
        return
    operation = program.operation
    size = "x".join(str(part) for part in (operation.m, operation.k, operation.n) if part is not None)
    yield "  " + " ".join(
        part
        for part in (f"task {program.index}:", operation.op, operation.dtype, size, operation.geometry)
        if part
    )
    for use in program.addresses:
        where = (
            "in no buffer of its domain" if use.buffer is None else f"buffer {use.buffer} + {use.offset:#x}"
        )
        yield f"    {use.role} {use.address:#010x}  {where}"
    for text in program.differs:
        yield f"    {text}"
    for problem in operation.problems:
        yield f"    {problem.severity}: {problem.rule}: {problem.text}"


def _buffer_lines(data: dict[str, Any]) -> Iterator[str]:
    buffers = data["buffers"]
    yield f"{counted(data['buffers_in_all'], 'buffer')}, by address:"
    yield _BUFFER_ROW.format("handle", "domain", "address", "bytes", "flags", "").rstrip()
    for row in buffers[:LISTED_BUFFERS]:
        kind = f"{row['kind']}, descriptors" if row.get("descriptors") else row["kind"]
        yield printable(
            _BUFFER_ROW.format(row["handle"], row["domain"], row["iova"], row["size"], row["flags"], kind)
        )
    if len(buffers) > LISTED_BUFFERS:
        yield f"  {counted(len(buffers) - LISTED_BUFFERS, 'more buffer')} in the file"


def _state_lines(data: dict[str, Any]) -> Iterator[str]:
    modes, counters = data["modes"], data["counters"]
    kernel = data.get("kernel_domain")
    yield one_line(
        f"mode {modes['last_mode']}, {counted(modes['resets'], 'reset')} by mode, kernel in domain "
        f"{'unknown' if kernel is None else kernel}"
    )
    yield one_line("counters: " + ", ".join(f"{name} {value}" for name, value in counters.items()))
