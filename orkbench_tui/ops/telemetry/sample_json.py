"""A sample as the document that goes under ``data``: units in the names, null for unknown."""

from __future__ import annotations

import dataclasses
from typing import Any

from orkbench_tui.ops.telemetry.sample import Clock, Sample

__all__ = ["sample_document"]


def sample_document(sample: Sample, *, log_rows: int = 20) -> dict[str, Any]:
    """Plain dicts, lists, numbers, strings and None; the newest ``log_rows`` rows of the kernel log."""
    facts = sample.log.facts
    return {
        "unix_s": round(sample.unix_s, 3),
        "mono_s": round(sample.mono_s, 3),
        "uptime_s": sample.uptime_s,
        "board": dataclasses.asdict(sample.identity),
        "source_detail": sample.source_detail or None,
        "npu": {
            "cores": [
                {
                    "core": c.index,
                    "load_pct": c.load_pct,
                    "irq_per_s": _rounded(c.irq_per_s),
                    "stuck_s": _rounded(c.stuck_s),
                    "hw_busy_pct": _rounded(c.hw_busy_pct),
                    "hw_jobs": c.hw_jobs,
                    "hw_ns": c.hw_ns,
                    "irqs": c.irqs,
                }
                for c in sample.npu.cores
            ],
            "clock": _clock(sample.npu.clock),
            "powered": sample.npu.powered,
        },
        "cpu": [
            {
                "group": group.name,
                "cores": [
                    {"cpu": core.index, "busy_pct": _rounded(core.busy_pct), "clock_hz": core.clock_hz}
                    for core in group.cores
                ],
                "clocks": [_clock(clock) for clock in group.clocks],
            }
            for group in sample.cpu
        ],
        "blocked_tasks": sample.blocked_tasks,
        "memory": None if sample.memory is None else dataclasses.asdict(sample.memory),
        "ddr": None if sample.ddr is None else _clock(sample.ddr),
        "temperatures": [
            {
                "zone": t.zone,
                "temperature_c": t.celsius,
                "trips": [{"kind": trip.kind, "temperature_c": trip.celsius} for trip in t.trips],
            }
            for t in sample.temperatures
        ],
        "cooling": [{**dataclasses.asdict(device), "caps": device.caps} for device in sample.cooling],
        "power_domains": [dataclasses.asdict(domain) for domain in sample.power_domains],
        "dma_bufs": None if sample.dma_bufs is None else dataclasses.asdict(sample.dma_bufs),
        "sram": None if sample.sram is None else dataclasses.asdict(sample.sram),
        "resets": _resets(sample),
        "jobs": {
            "hangs": facts.hangs,
            "interrupted": facts.interrupted,
            "domain_switch_timeouts": facts.switch_timeouts,
        },
        "occupancy": {
            "provenance": "reported by the processes that use this driver; others are not visible",
            "processes": [
                {
                    **dataclasses.asdict(item),
                    "domains": [dataclasses.asdict(domain) for domain in item.domains],
                    "submits_per_s": _rounded(sample.occupancy.submits_per_s.get(item.pid)),
                }
                for item in sample.occupancy.processes
            ],
        },
        "holders": [dataclasses.asdict(holder) for holder in sample.holders],
        "log": [
            {
                "class": row.rule_id,
                "severity": row.severity.word,
                "count": row.count,
                "first_us": row.first_us,
                "last_us": row.last_us,
                "message": row.message,
            }
            for row in sample.log.rows[-log_rows:]
        ]
        if log_rows
        else [],
        "unavailable": [
            {**dataclasses.asdict(entry), "remedy": entry.remedy} for entry in sample.unavailable
        ],
    }


def _clock(clock: Clock) -> dict[str, Any]:
    return {
        "hz": clock.hz,
        "max_hz": clock.max_hz,
        "governor": clock.governor or None,
        "load_pct": clock.load_pct,
    }


def _resets(sample: Sample) -> dict[str, Any] | None:
    resets = sample.resets
    if resets is None:
        return None
    return {
        "value": resets.value,
        "forced": resets.forced,
        "from": resets.provenance,
        "lower_bound": resets.lower_bound,
        "since_unix_s": _rounded(resets.since_unix_s),
        "last_unix_s": _rounded(resets.last_unix_s),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
