"""What the dashboard says beyond its fixed rows: caps, trip points, shared buffers, and what could not be read."""

from __future__ import annotations

from orkbench_tui.ops.telemetry.headline import caps_in_words
from orkbench_tui.ops.telemetry.sample import Sample, Unavailable
from orkbench_tui.ops.telemetry.wording import byte_size
from orkbench_tui.plural import counted
from orkbench_tui.screens.glyphs import Glyphs
from orkbench_tui.screens.text_line import Line, Span, foreign, line, plain

__all__ = [
    "board_facts",
    "caps_parts",
    "gap_text",
    "gaps_spoken",
    "hidden_title",
    "missing",
    "missing_facts",
    "missing_title",
    "more_rows",
]

_WORST_FIRST = ("failed", "invalid", "denied", "absent")
_HAVE_ROWS = frozenset({"memory", "ddr.hz", "temperatures", "cooling", "dma_bufs", "resets", "npu.load"})


def gap_text(sample: Sample, field: str) -> str:
    """Why a value is missing, and what would give it one."""
    gap = sample.reason(field)
    if gap is None:
        return "not known"
    return f"{gap.reason}; {gap.remedy}" if gap.remedy else gap.reason


def missing(sample: Sample) -> list[Unavailable]:
    """What could not be read, what is wrong before what this board lacks; readings still to come are left out."""
    found = [gap for gap in sample.unavailable if gap.reason in _WORST_FIRST]
    return sorted(found, key=lambda gap: _WORST_FIRST.index(gap.reason))


def missing_title(sample: Sample) -> Line:
    """The worst of them with its remedy; () for none. What a board merely lacks is no news."""
    gaps = [gap for gap in missing(sample) if gap.reason != "absent"]
    if not gaps:
        return ()
    more = f" +{len(gaps) - 1}" if len(gaps) > 1 else ""
    return line((f"?{more} {foreign(gaps[0].field)}: {gaps[0].remedy}", "warning"))


def hidden_title(sample: Sample) -> Line:
    """Where to read what this board lacks, for panels without room for it; () when it lacks nothing."""
    count = len(missing(sample))
    return line((f"{counted(count, 'source')} absent: ? help", "dim")) if count else ()


def caps_parts(sample: Sample) -> Line:
    """Cooling devices that take speed away now."""
    if not sample.cooling:
        return line(("?", "value"), (f" {gap_text(sample, 'cooling')}", "dim"))
    if words := caps_in_words(sample):
        return line((words, "warning"))
    return line(("none", "value"), (f", {len(sample.cooling)} cooling devices at rest", "dim"))


def _trips(sample: Sample, glyphs: Glyphs) -> Line:
    """The next trip point of the zone that is nearest to one."""
    ahead = [
        (trip.celsius - item.celsius, item, trip)
        for item in sample.temperatures
        for trip in item.trips
        if trip.celsius > item.celsius
    ]
    if not ahead:
        return line(("?", "value"), (" no zone tells a trip point above it", "dim"))
    _, item, trip = min(ahead, key=lambda found: found[0])
    unit = f"{glyphs.degree}C".strip()
    zone = foreign(item.zone) or item.zone
    return line(
        (f"{foreign(trip.kind)} at {trip.celsius:.0f} {unit}", "value"),
        (f", {zone} {item.celsius:.0f}", "dim"),
    )


def _shared(sample: Sample) -> Line:
    """Memory that devices share among them."""
    if sample.dma_bufs is None:
        return line(("?", "value"), (f" {gap_text(sample, 'dma_bufs')}", "dim"))
    bufs = sample.dma_bufs
    return line((byte_size(bufs.bytes), "value"), (f" in {bufs.objects} dma-bufs", "dim"))


def more_rows(sample: Sample, glyphs: Glyphs) -> list[Line]:
    """Rows for terminals that have room for them, most useful first."""
    rows = [("Caps", caps_parts(sample)), ("Trip", _trips(sample, glyphs)), ("Bufs", _shared(sample))]
    rows += [
        ("?", line((f"{foreign(gap.field)} {gap.reason}: {gap.remedy}", "dim")))
        for gap in missing(sample)
        if gap.field not in _HAVE_ROWS
    ]
    return [(Span(f" {name:<4} ", "dim"), *told) for name, told in rows]


def missing_facts(sample: Sample) -> list[tuple[str, str]]:
    """Every source that could not be read: its field, and reason, place and remedy in words."""
    return [
        (
            foreign(gap.field),
            f"{gap.reason}: {gap.remedy} ({' '.join((foreign(gap.path), gap.errno)).strip()})",
        )
        for gap in missing(sample)
    ]


def board_facts(sample: Sample, glyphs: Glyphs) -> list[tuple[str, str]]:
    """Caps, the next trip point, shared buffers, then every source that could not be read: label and words."""
    rows = [
        ("caps", caps_parts(sample)),
        ("next trip point", _trips(sample, glyphs)),
        ("dma-bufs", _shared(sample)),
    ]
    return [
        *((name, plain(told)) for name, told in rows),
        *((f"? {field}", told) for field, told in missing_facts(sample)),
    ]


def gaps_spoken(sample: Sample, glyphs: Glyphs) -> list[str]:
    """Caps, the trip points of every zone, and what could not be read, one a line."""
    facts = [("caps", plain(caps_parts(sample)))]
    unit = f"{glyphs.degree}C".strip()
    zones = [item for item in sample.temperatures if item.trips]
    facts += [
        (
            "trip points",
            f"{foreign(item.zone)}, now {item.celsius:.0f}: "
            + ", ".join(f"{foreign(trip.kind)} at {trip.celsius:.0f}" for trip in item.trips)
            + f" {unit}",
        )
        for item in zones
    ]
    if not zones:
        facts.append(("trip points", "? no zone tells one"))
    facts += [("not read", f"{field}, {told}") for field, told in missing_facts(sample)]
    return [f"{name} {text}" for name, text in facts]
