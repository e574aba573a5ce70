"""``ork npu domains``: who holds which address windows of the NPU."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orkbench_tui.cli import output
from orkbench_tui.settings import Settings

if TYPE_CHECKING:
    from orkbench_tui.ops.telemetry.domains import Domain, Publication

__all__ = ["domains"]

_SOURCES = {"auto": ("board", "sim"), "board": ("board",), "sim": ("sim",)}
_MIB = 1 << 20
_COLUMNS = "{:>6} {:>9} {:>5} {:>7} {:>5} {:>12} {:>9} {:>7}"


def domains(
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
    target: Annotated[str | None, typer.Option("--target", help="auto, board or sim.")] = None,
) -> None:
    """What each running process of ours holds on the NPU, domain by domain.

    The kernel exports no such figures: these are each program's own account. Other programs are not seen.
    """
    from orkbench_tui.ops.telemetry.domains import read_publications
    from orkbench_tui.target import occupancy_dir

    sources = _SOURCES[Settings.load(target=target).target]
    found = [item for source in sources for item in read_publications(occupancy_dir(), source)]
    if json:
        output.emit_json("npu.domains", {"processes": [_facts(item) for item in found]}, source="host")
        return
    if not found:
        output.emit("no running program of ours holds NPU memory")
        return
    output.emit("\n\n".join("\n".join(_lines(item)) for item in found))


def _facts(item: Publication) -> dict[str, Any]:
    facts = dataclasses.asdict(item)
    facts["domains"] = [
        {**dataclasses.asdict(domain), "active": domain.id == item.active_domain} for domain in item.domains
    ]
    return facts


def _lines(item: Publication) -> list[str]:
    switches = item.switches
    head = f"pid {item.pid}: {item.command} on {item.device} ({item.source})"
    lines = [
        head,
        _COLUMNS.format("domain", "used", "bufs", "window", "holes", "largest hole", "imported", ""),
    ]
    lines += [_row(domain, item.active_domain) for domain in item.domains]
    if switches is not None:
        lines.append(
            f"switches: {switches.total}, of them {switches.first_touch} first touch and {switches.steady} "
            f"steady; {switches.implicit} more by the kernel for calls on buffers"
        )
    return lines


def _row(domain: Domain, active: int | None) -> str:
    return _COLUMNS.format(
        domain.id,
        _mib(domain.used_bytes),
        domain.buffers,
        f"{100 * domain.used_bytes / domain.capacity_bytes:.1f} %" if domain.capacity_bytes else "unknown",
        "unknown" if domain.holes is None else domain.holes,
        _mib(domain.largest_free_bytes),
        _mib(domain.imported_bytes),
        "active" if domain.id == active else "",
    ).rstrip()


def _mib(size: int | None) -> str:
    return "unknown" if size is None else f"{size / _MIB:.1f} MiB"
