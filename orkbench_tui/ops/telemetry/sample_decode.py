"""Sample documents read back: of a recording, or of ``ork board watch --json`` on another board.

What a document does not say (it came from another version) is unknown, as anything else that is missing;
what it says in a form no version writes is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from orkbench_tui.ops.board_identity import BoardIdentity
from orkbench_tui.ops.telemetry.dma_bufs import DmaBufs
from orkbench_tui.ops.telemetry.domains import parse_publication_value
from orkbench_tui.ops.telemetry.holders import Holder
from orkbench_tui.ops.telemetry.memory import Memory
from orkbench_tui.ops.telemetry.power_domains import PowerDomain
from orkbench_tui.ops.telemetry.sample import (
    Clock,
    CpuCore,
    CpuGroup,
    KernelLog,
    Npu,
    NpuCore,
    Occupancy,
    Resets,
    Sample,
    Temperature,
    Unavailable,
)
from orkbench_tui.ops.telemetry.sram_map import SramMap
from orkbench_tui.ops.telemetry.thermal import CoolingDevice, Trip

__all__ = ["sample_from"]

T = TypeVar("T")
_MANY = 4096
_LONG = 4096
_NUMBER_LIMIT = 1 << 63


def sample_from(
    data: dict[str, Any],
    *,
    source: str,
    detail: str | None = None,
    warnings: tuple[str, ...] = (),
    log: KernelLog | None = None,
) -> Sample:
    """The sample a document (the ``data`` of an envelope) tells of. ``log`` is what the kernel log added up to by then.

    Raises:
        ValueError: it is no such document.
    """
    try:
        return _sample(data, source, detail, warnings, log or KernelLog())
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"no sample document: {type(error).__name__} {error}") from error


def _sample(
    data: dict[str, Any], source: str, detail: str | None, warnings: tuple[str, ...], log: KernelLog
) -> Sample:
    unix_s = _number(data["unix_s"])
    if unix_s is None:
        raise ValueError("a sample without a time")
    npu = data["npu"]
    resets = data.get("resets")
    occupancy = data.get("occupancy") or {}
    processes = _list(occupancy, "processes")
    publications = tuple(parse_publication_value(entry) for entry in processes)
    rates = {
        item.pid: rate
        for item, entry in zip(publications, processes, strict=True)
        if (rate := _number(entry.get("submits_per_s"))) is not None
    }
    mono_s = _number(data.get("mono_s"))
    memory, sram, dma_bufs = data.get("memory"), data.get("sram"), data.get("dma_bufs")
    return Sample(
        source=source,
        source_detail=_text(data.get("source_detail")) if detail is None else detail,
        unix_s=unix_s,
        mono_s=unix_s if mono_s is None else mono_s,
        uptime_s=_number(data.get("uptime_s")),
        identity=_flat(BoardIdentity, data.get("board") or {}, _text),
        npu=Npu(
            tuple(_core(entry) for entry in _list(npu, "cores")),
            _clock(npu.get("clock")),
            _flag(npu.get("powered")),
        ),
        cpu=tuple(_group(entry) for entry in _list(data, "cpu")),
        memory=None if memory is None else _flat(Memory, memory, _whole),
        ddr=None if data.get("ddr") is None else _clock(data["ddr"]),
        temperatures=tuple(_temperature(entry) for entry in _list(data, "temperatures")),
        occupancy=Occupancy(publications, rates),
        resets=None if resets is None else _resets(resets),
        holders=tuple(_holder(entry) for entry in _list(data, "holders")),
        log=log,
        blocked_tasks=_whole(data.get("blocked_tasks")),
        unavailable=tuple(
            Unavailable(*(_text(entry.get(name)) for name in ("field", "reason", "path", "errno")))
            for entry in _list(data, "unavailable")
        ),
        warnings=warnings,
        cooling=tuple(
            CoolingDevice(
                _whole(entry["number"]) or 0,
                _text(entry["kind"]),
                _whole(entry.get("state")),
                _whole(entry.get("max_state")),
            )
            for entry in _list(data, "cooling")
        ),
        power_domains=tuple(
            PowerDomain(_text(entry["name"]), bool(_flag(entry["on"])))
            for entry in _list(data, "power_domains")
        ),
        dma_bufs=None
        if dma_bufs is None
        else DmaBufs(_known(_whole(dma_bufs["objects"])), _known(_whole(dma_bufs["bytes"]))),
        sram=None if sram is None else _sram(sram),
    )


def _core(entry: dict[str, Any]) -> NpuCore:
    return NpuCore(
        _known(_whole(entry["core"])),
        _whole(entry.get("load_pct")),
        _number(entry.get("irq_per_s")),
        _number(entry.get("stuck_s")) or 0.0,
        _number(entry.get("hw_busy_pct")),
        _whole(entry.get("hw_jobs")),
        _whole(entry.get("hw_ns")),
        _whole(entry.get("irqs")),
    )


def _clock(entry: dict[str, Any] | None) -> Clock:
    if entry is None:
        return Clock()
    return Clock(
        _whole(entry.get("hz")),
        _whole(entry.get("max_hz")),
        _text(entry.get("governor")),
        _whole(entry.get("load_pct")),
    )


def _group(entry: dict[str, Any]) -> CpuGroup:
    cores = tuple(
        CpuCore(_known(_whole(core["cpu"])), _number(core.get("busy_pct")), _whole(core.get("clock_hz")))
        for core in _list(entry, "cores")
    )
    return CpuGroup(_text(entry["group"]), cores, tuple(_clock(clock) for clock in _list(entry, "clocks")))


def _temperature(entry: dict[str, Any]) -> Temperature:
    trips = tuple(
        Trip(_text(trip["kind"]), _known(_number(trip["temperature_c"]))) for trip in _list(entry, "trips")
    )
    return Temperature(_text(entry["zone"]), _known(_number(entry["temperature_c"])), trips)


def _holder(entry: dict[str, Any]) -> Holder:
    return Holder(
        _known(_whole(entry["pid"])),
        _text(entry["command"]),
        _text(entry["node"]),
        _whole(entry.get("descriptors")) or 1,
        _whole(entry.get("rss_bytes")),
        _text(entry.get("state")),
        _number(entry.get("hung_s")) or 0.0,
    )


def _resets(entry: dict[str, Any]) -> Resets:
    return Resets(
        value=_known(_whole(entry["value"])),
        forced=_whole(entry.get("forced")) or 0,
        lower_bound=bool(_flag(entry.get("lower_bound"))),
        since_unix_s=_number(entry.get("since_unix_s")),
        last_unix_s=_number(entry.get("last_unix_s")),
        provenance=_text(entry.get("from")) or "kernel-log",
    )


def _sram(entry: dict[str, Any]) -> SramMap:
    total, used, free, longest = (
        _known(_whole(entry[f"{name}_bytes"])) for name in ("total", "used", "free", "longest_free")
    )
    return SramMap(total, used, free, longest, bool(_flag(entry["consistent"])))


def _flat(kind: Callable[..., T], entry: dict[str, Any], value: Callable[[object], object]) -> T:
    """A dataclass whose fields all are of one type; keys it does not have are left out."""
    names = [item.name for item in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: value(entry.get(name)) for name in names})


def _list(entry: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = entry.get(name) or []
    if not isinstance(found, list) or len(found) > _MANY or not all(isinstance(e, dict) for e in found):
        raise ValueError(f"{name} is no list of objects")
    return found


def _known(value: Any) -> Any:
    if value is None:
        raise ValueError("a value is missing")
    return value


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError("not a text")
    return value[:_LONG]


def _flag(value: object) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise ValueError("not true or false")
    return value


def _whole(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _NUMBER_LIMIT:
        raise ValueError("not a count")
    return value


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _NUMBER_LIMIT:
        raise ValueError("not a number")
    return float(value)
