"""A roadmap page becomes items with states; what was superseded leads to its correction."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.cli.main import run
from orkbench_tui.driver.timing.roadmap import Roadmap, State, parse_roadmap
from orkbench_tui.errors import InvalidFileError

TIERS = [*map(str, range(1, 20)), "NEXT", "Forward-looking"]

PAGE = """Things to do

Tier 1 — Prefill first
Large matmuls do not spread.
✅ 1a. Find out why. Done: threads ran on slow cores.
🔬 1b. One core is slow. 8427 against 2573 us.
- ⬜ 1b-i — buffers without a copy (DEFERRED). Little to gain.
⚖️ 1c. Pin everything. Tried: slower.

Tier 4 — Four bits
🟨 4a. Rotation. Works in a probe.
⬜ 4b. Fewer submits. Not measured.
Sequencing: 4b gates 4a.

Tier 5 — Experts on the NPU ⚖️ closing
⚠️ SUPERSEDED (2026-08-19) — experts belong on the CPU.
❌ 5a. One at a time. Too many submits.

Tier 11 — A ring of programs 🎨
Built because it can be.

Tier 19 — The spine ✅ DONE
NEXT: the same rate on the critical path
Forward-looking: a small model (DRAFT)
"""


@pytest.fixture
def roadmap() -> Roadmap:
    return parse_roadmap(PAGE)


def test_every_mark_is_a_state(roadmap: Roadmap) -> None:
    states = {item.id: item.state for item in roadmap.items if item.id}
    assert states == {
        "1a": State.DONE,
        "1b": State.IN_PROGRESS,
        "1b-i": State.DEFERRED,
        "1c": State.RULED_OUT,
        "4a": State.IN_PROGRESS,
        "4b": State.NOT_STARTED,
        "5a": State.RULED_OUT,
    }
    tiers = {item.tier: item.state for item in roadmap.items if not item.id}
    assert (tiers["11"], tiers["19"], tiers["NEXT"]) == (State.CRAFT, State.DONE, State.NOT_STARTED)
    assert set(states.values()) | set(tiers.values()) == set(State)


def test_items_keep_tier_title_and_evidence(roadmap: Roadmap) -> None:
    item = roadmap.item("1a")
    assert (item.tier, item.title, item.evidence) == ("1", "Find out why", "Done: threads ran on slow cores.")
    assert roadmap.item("1").evidence == "Large matmuls do not spread."


def test_what_was_superseded_leads_to_its_correction(roadmap: Roadmap) -> None:
    tier = roadmap.item("5")
    assert (tier.state, tier.correction) == (State.SUPERSEDED, "experts belong on the CPU.")


def test_an_item_waits_for_the_one_that_gates_it(roadmap: Roadmap) -> None:
    """Accuracy work of int4 may begin when its speed is shown, and not before."""
    assert roadmap.item("4a").requires == ("4b",) and roadmap.waits_for("4a") == ("4b",)
    assert roadmap.waits_for("4b") == ()
    shown = parse_roadmap(PAGE.replace("⬜ 4b", "✅ 4b"))
    assert shown.waits_for("4a") == ()
    assert parse_roadmap(PAGE.replace("⬜ 4b. Fewer submits. Not measured.\n", "")).waits_for("4a") == ("4b",)


def test_a_page_with_all_tiers_has_all_of_them() -> None:
    page = "\n".join([*(f"Tier {n} — part {n}" for n in range(1, 20)), "NEXT: a", "Forward-looking: b"])
    assert list(parse_roadmap(page).tiers) == TIERS


def test_a_heading_that_comes_again_in_a_table_of_contents_is_one_tier() -> None:
    found = parse_roadmap(PAGE + "\nTier 1 — Prefill first\nTier 5 — Experts on the NPU\n")
    assert [item.tier for item in found.items if not item.id].count("1") == 1
    assert found.item("5").correction == "experts belong on the CPU."


@given(st.text())
def test_any_text_is_a_roadmap_or_an_invalid_file(text: str) -> None:
    try:
        assert parse_roadmap(text).tiers
    except InvalidFileError as error:
        assert "no heading" in error.line()


def test_it_is_shown_item_by_item(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "roadmap.txt"
    path.write_text(PAGE)
    assert run(["npu", "timing", "--roadmap", str(path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "superseded" in shown and "corrected: experts belong on the CPU." in shown and "waits for 4b" in shown
    )
    assert run(["npu", "timing", "--roadmap", str(path), "--json"]) == 0
    assert run(["npu", "timing", "--roadmap", str(tmp_path / "none.txt")]) == 2
