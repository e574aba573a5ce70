"""Dashboard: caps, trip points, shared buffers, and what cannot be read with its remedy."""

from __future__ import annotations

import dataclasses

import pytest

from orkbench_tui.ops.telemetry.sample import Sample, Unavailable
from orkbench_tui.ops.telemetry.thermal import CoolingDevice
from orkbench_tui.screens.text_line import plain
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.board import board_panel
from orkbench_tui.screens.views.compact import compact_lines
from orkbench_tui.screens.views.help import help_lines
from orkbench_tui.screens.views.operations import (
    CHOICES,
    OperationsShown,
    operations_lines,
    operations_spoken,
)
from orkbench_tui.screens.views.rules import RulesShown, rules_lines
from tests.screens.feed import samples

SAMPLE = samples(3)[-1]
CAPPED = dataclasses.replace(SAMPLE, cooling=(CoolingDevice(0, "thermal-cpufreq-0", 2, 6),))
DENIED = dataclasses.replace(
    SAMPLE,
    dma_bufs=None,
    unavailable=(Unavailable("dma_bufs", "denied", "/sys/kernel/debug/dma_buf/bufinfo"),),
)


def board(sample: Sample, width: int = 40, height: int = 7) -> str:
    return "\n".join(plain(item) for item in board_panel(ViewState(sample=sample), width, height))


def test_a_cap_is_told_at_every_size() -> None:
    for page in (board(CAPPED), board(CAPPED, 60, 11)):
        assert "Caps thermal-cpufreq-0 at 2 of 6" in page
    compact = "\n".join(plain(item) for item in compact_lines(ViewState(sample=CAPPED), 60, 13))
    assert "thermal-cpufreq-0 at 2 of 6" in compact
    assert "Caps none, 3 cooling devices at rest" in board(SAMPLE, 60, 11) and "Caps" not in board(SAMPLE)


def test_the_nearest_trip_point_and_shared_buffers_where_there_is_room() -> None:
    page = board(SAMPLE, 60, 11)
    zone = next(item for item in SAMPLE.temperatures if item.trips)
    nearest = min(trip.celsius for trip in zone.trips if trip.celsius > zone.celsius)
    assert f"at {nearest:.0f} °C, {zone.zone} {zone.celsius:.0f}" in page
    assert SAMPLE.dma_bufs is not None and f"in {SAMPLE.dma_bufs.objects} dma-bufs" in page


def test_what_cannot_be_read_names_its_remedy() -> None:
    assert "? dma_bufs: use sudo" in board(DENIED)
    assert "Bufs ? denied; use sudo" in board(DENIED, 60, 11)
    assert "? dma_bufs: use sudo" in "\n".join(
        plain(item) for item in compact_lines(ViewState(sample=DENIED), 60, 13)
    )
    assert "use sudo" not in board(SAMPLE)


def test_what_a_small_terminal_has_no_room_for_is_in_its_help() -> None:
    """At 80x24 the panel says how many sources are absent, and the dashboard's help tells all of them."""
    absent = [gap for gap in SAMPLE.unavailable if gap.reason == "absent"]
    assert len(absent) > 1
    assert f"{len(absent)} sources absent: ? help" in board(SAMPLE).splitlines()[0]
    assert "absent: ? help" not in board(SAMPLE, 60, 30)
    for width in (60, 80, 160):
        text = " ".join(
            " ".join(map(plain, help_lines(ViewState(sample=CAPPED), width, "dashboard"))).split()
        )
        here = text[: text.index("Keys everywhere")]
        assert "caps thermal-cpufreq-0 at 2 of 6" in here and "next trip point" in here
        for gap in absent:
            assert f"? {gap.field} absent: {gap.remedy} ({gap.path} {gap.errno})" in here
        assert "This board" not in " ".join(map(plain, help_lines(ViewState(sample=CAPPED), width, "log")))
    assert "This board" not in "".join(map(plain, help_lines(ViewState(), 80, "dashboard")))


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_of_modes_keeps_its_right_edge(width: int) -> None:
    lines = rules_lines(RulesShown(modes=True, chosen=1), ViewState(sample=SAMPLE), width, 22)
    text = [plain(item) for item in lines]
    assert text[1].rstrip().endswith("I4_STREAM") and all(len(row.rstrip()) <= width for row in text)


def test_a_narrow_table_of_modes_tells_the_chosen_row_in_full() -> None:
    lines = rules_lines(RulesShown(modes=True, chosen=1), ViewState(sample=SAMPLE), 60, 13)
    assert "I4_STREAM Wp+Zp" in " ".join(" ".join(plain(item) for item in lines).split())


def test_dropped_caches_are_never_said_to_come_back() -> None:
    for index, choice in enumerate(CHOICES):
        if choice.operation.name != "drop-caches":
            continue
        page = "\n".join(
            plain(item)
            for item in operations_lines(OperationsShown(chosen=index), ViewState(sample=SAMPLE), 80, 22)
        )
        row = next(row for row in page.splitlines() if row.startswith("▶"))
        assert "cannot be undone" in row and "can be undone" not in row
        assert "cannot be undone: what was dropped" in page
    said = [text for text in operations_spoken(OperationsShown()) if text.startswith("drop-caches")]
    assert said and all("cannot be undone" in text for text in said)
    governors = [text for text in operations_spoken(OperationsShown()) if text.startswith("governors")]
    assert governors and all("can be undone" in text for text in governors)
