"""Every view at every size: exact dimensions, and what a reader must find."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from orkbench_tui.driver.guard_table import Reaction
from orkbench_tui.ops.telemetry.holders import Holder
from orkbench_tui.ops.telemetry.sample import CpuCore, CpuGroup, Npu, Sample, Temperature, Unavailable
from orkbench_tui.runner.stored_files import Listed
from orkbench_tui.screens.dashboard import PANELS
from orkbench_tui.screens.entry_line import Entry, draw_entry
from orkbench_tui.screens.glyphs import ASCII, UNICODE
from orkbench_tui.screens.help_words import WORDS
from orkbench_tui.screens.layout import arrange
from orkbench_tui.screens.text_line import Span, beside, fit, foreign, line, plain, width_of
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.board import board_panel
from orkbench_tui.screens.views.cpu import cpu_panel
from orkbench_tui.screens.views.frame import badges, footer_line, header_line
from orkbench_tui.screens.views.help import help_lines
from orkbench_tui.screens.views.models import models_lines
from orkbench_tui.screens.views.npu import npu_panel
from orkbench_tui.screens.views.rules import REACTION_ROLES, RulesShown, rule_count, rules_lines
from orkbench_tui.screens.views.users import users_panel
from tests.screens.feed import samples, state_of, with_chat

HEALTHY = samples(60)
STORM = samples(60, storm=True)


def screen_text(state: ViewState, width: int, height: int) -> list[str]:
    """The dashboard as a terminal shows it."""
    cores = len(state.sample.npu.cores) if state.sample else 3
    rows = [[" "] * width for _ in range(height)]
    for name, box in arrange(width, height, cores).items():
        for y, item in enumerate(PANELS[name](state, box.width, box.height)):
            assert width_of(item) == box.width, (name, plain(item))
            rows[box.y + y][box.x : box.x + box.width] = list(plain(item))
    return ["".join(row) for row in rows]


def states() -> list[ViewState]:
    chat = [*HEALTHY[:-1], with_chat(HEALTHY[-1])]
    denied = dataclasses.replace(
        HEALTHY[-1],
        npu=Npu(),
        memory=None,
        ddr=None,
        temperatures=(),
        resets=None,
        cpu=(),
        unavailable=(Unavailable("npu.load", "denied", "/sys/kernel/debug/rknpu/load", "EACCES"),),
    )
    return [
        ViewState(),
        ViewState(lost="no board"),
        state_of(HEALTHY),
        state_of(chat),
        state_of(STORM, frozen=True),
        state_of(STORM, stale=True, glyphs=ASCII),
        state_of([denied]),
    ]


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 220), st.integers(1, 70), st.sampled_from(states()))
def test_every_panel_has_the_size_of_its_box(width: int, height: int, state: ViewState) -> None:
    for name, box in arrange(width, height, 3).items():
        lines = PANELS[name](state, box.width, box.height)
        assert len(lines) == box.height, name
        assert {width_of(item) for item in lines} == {box.width}, name


@pytest.mark.parametrize(
    ("width", "height"),
    [(80, 24), (60, 15), (60, 19), (79, 23), (79, 24), (80, 20), (80, 23), (120, 40), (200, 60)],
)
def test_nothing_that_matters_is_left_out(width: int, height: int) -> None:
    state = state_of([*HEALTHY[:-1], with_chat(HEALTHY[-1])])
    text = "\n".join(screen_text(state, width, height))
    sample = state.sample
    assert sample is not None
    for core in sample.npu.cores:
        assert f"{core.load_pct:>3}" in text
    for cpu in sample.cores:
        assert f"{cpu.busy_pct:.0f}" in text
    for needed in (
        "rock-5b",
        "[BOARD]",
        "[OK]",
        "2.6 of 31.0 GiB",
        "253 of 256 MiB",
        "1000",
        "1800",
        "2256/2304",
        "2112",
    ):
        assert needed in text, needed
    for needed in (
        "npu 48",
        "Resets",
        "2211",
        "ork run chat",
        "3120",
        "llama-cli",
        "q quit",
        "? help",
    ):
        assert needed in text, needed
    # A row per domain, or one for all where rows are few.
    assert "312 MiB" in text or "3.3 GiB" in text


def test_full_size_shows_hangs_and_the_reason() -> None:
    text = "\n".join(screen_text(state_of(STORM), 80, 24))
    assert "an NPU job timed out 4 min ago" in text and "[ERROR]" in text
    assert "4 hangs" in text and "hangs ✖4" in text and "job timed out on core 0 after 6.1 s" in text
    assert "Resets ▲ 4, last" in text


def test_ascii_screens_are_ascii() -> None:
    for width, height in ((80, 24), (60, 15), (120, 40)):
        state = state_of([*STORM[:-1], with_chat(STORM[-1])], glyphs=ASCII)
        assert "\n".join(screen_text(state, width, height)).isascii()
    assert "".join(plain(item) for item in help_lines(state_of(HEALTHY, glyphs=ASCII), 80)).isascii()


def test_too_small_says_the_size_needed() -> None:
    assert screen_text(state_of(HEALTHY), 50, 10)[0].startswith("needs 60x15, is 50x10")


def test_denied_load_says_so_and_shows_no_zero() -> None:
    sample = dataclasses.replace(
        HEALTHY[-1],
        npu=Npu(),
        unavailable=(Unavailable("npu.load", "denied", "/sys/kernel/debug/rknpu/load", "EACCES"),),
    )
    text = "\n".join(plain(item) for item in npu_panel(state_of([sample]), 80, 7))
    assert "no permission to read /sys/kernel/debug/rknpu/load" in text and " 0 %" not in text


@pytest.mark.parametrize("cores", [1, 2, 4, 8, 12, 24, 64, 256])
@pytest.mark.parametrize("width", [40, 60, 100])
def test_every_cpu_core_is_shown_whatever_their_number(cores: int, width: int) -> None:
    group = CpuGroup("CPU", tuple(CpuCore(n, 50.0) for n in range(cores)))
    sample: Sample = dataclasses.replace(HEALTHY[-1], cpu=(group,))
    lines = [plain(item) for item in cpu_panel(state_of([sample]), width, 12)]
    text = "\n".join(lines[2:])
    bars = text.count("50 %")
    assert bars == cores or text.count(UNICODE.plot[4]) == cores


def test_more_users_than_rows_are_counted() -> None:
    holders = tuple(Holder(4000 + n, f"tool{n}", "/dev/dri/renderD129") for n in range(9))
    sample = dataclasses.replace(HEALTHY[-1], holders=holders)
    lines = [plain(item) for item in users_panel(state_of([sample]), 80, 3)]
    assert "4000 tool0" in lines[1] and "+8 more" in lines[2]


@pytest.mark.parametrize("width", [60, 79, 80, 100, 111, 112, 120, 200])
def test_the_submit_rate_is_never_cut(width: int) -> None:
    row = plain(users_panel(state_of([with_chat(HEALTHY[-1])]), width, 4)[1])
    assert row.rstrip().endswith("61 sub/s") and "312 MiB of 4.0 GiB" in row and "…" not in row


def test_badges_are_words() -> None:
    assert [word for word, _ in badges(ViewState())] == ["WAIT"]
    assert [word for word, _ in badges(state_of(HEALTHY, lost="gone"))] == ["BOARD", "NO BOARD"]
    assert [word for word, _ in badges(state_of(STORM, stale=True, frozen=True))] == [
        "BOARD",
        "STALE",
        "FROZEN",
    ]
    simulated = dataclasses.replace(samples(2, label="sim")[-1], source_detail="fast")
    assert next(word for word, _ in badges(state_of([simulated]))) == "SIM fast"


@pytest.mark.parametrize("change", [{"stale": True}, {"lost": "gone"}])
def test_old_figures_are_dim_and_claim_no_state(change: dict[str, object]) -> None:
    state = state_of(STORM, **change)
    assert "timed out" not in plain(header_line(state, 80)) and "ERROR" not in plain(header_line(state, 80))
    for name in ("npu", "cpu", "board", "users", "log", "compact"):
        lines = PANELS[name](state, 80, 10)
        assert {span.role for item in lines for span in item if span.text.strip()} == {"dim"}


@pytest.mark.parametrize("width", [60, 64, 80, 120])
@pytest.mark.parametrize("interval", [0.2, 1.0, 30.0])
def test_footer_is_never_cut(width: int, interval: float) -> None:
    text = plain(footer_line(state_of(HEALTHY, own_cpu_pct=12.3, interval_s=interval), width))
    assert f"+/- interval {interval:g} s " in text and "…" not in text
    assert ("own cpu 12.3 %" in text) == (width >= 80)


def test_nothing_from_the_driver_is_called_measured() -> None:
    text = "\n".join(plain(item) for item in users_panel(state_of([with_chat(HEALTHY[-1])]), 80, 4))
    assert "reported by this driver" in text and "measured" not in text


def test_no_user_is_said_alike_in_both_layouts() -> None:
    state = state_of([dataclasses.replace(HEALTHY[-1], holders=())])
    for name in ("users", "compact"):
        text = "\n".join(plain(item) for item in PANELS[name](state, 80, 14))
        assert "visible" in text and "nobody" not in text


@pytest.mark.parametrize("width", [33, 40, 60])
@pytest.mark.parametrize("counts", [(0, 0, 0), (4, 1, 2), (12, 34, 2)])
def test_incidents_are_never_cut(width: int, counts: tuple[int, int, int]) -> None:
    sample = HEALTHY[-1]
    facts = dataclasses.replace(
        sample.log.facts, hangs=counts[0], interrupted=counts[1], switch_timeouts=counts[2]
    )
    state = state_of([dataclasses.replace(sample, log=dataclasses.replace(sample.log, facts=facts))])
    row = next(text for item in board_panel(state, width, 7) if "Jobs" in (text := plain(item)))
    assert re.findall(r"\d+", row) == [str(count) for count in counts] and "…" not in row


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_the_help_says_every_word_and_cuts_nothing(width: int) -> None:
    state = state_of(HEALTHY)
    everything = [plain(item).rstrip() for item in help_lines(state, width)]
    words = " ".join(everything)
    assert all(word.split(",")[0] in words for word, _ in WORDS)
    for word in (
        "hangs",
        "interrupted",
        "switches",
        "hole",
        "buf",
        "sub/s",
        "irq/s",
        "mean, peak",
        "SIM fast",
    ):
        assert word in words, word
    assert not any("…" in text for text in everything)


def test_foreign_text_cannot_reach_the_terminal() -> None:
    evil = "a\x1b]0;title\x07b\nc\u202ed"
    assert foreign(evil).isprintable() and "\x1b" not in foreign(evil)
    sample = dataclasses.replace(HEALTHY[-1], holders=(Holder(1, evil, "/dev/dri/renderD129"),))
    for item in users_panel(state_of([sample]), 80, 3):
        assert plain(item).isprintable()


@given(st.text(max_size=40), st.integers(0, 40))
def test_fit_counts_cells_not_characters(text: str, width: int) -> None:
    clean = foreign(text)
    fitted = fit((Span(clean),), width)
    assert sum(cell_len(span.text) for span in fitted) == width or width == 0


def test_wide_characters_are_never_cut_in_half() -> None:
    assert plain(fit((Span("漢字漢字"),), 5)) == "漢字…"
    assert plain(fit((Span("漢字漢字"),), 6)) == "漢字 …"


def test_beside_keeps_the_right_end() -> None:
    assert plain(beside(line("a long left side"), line("right"), 12)) == "a lon… right"


def test_trouble_names_the_next_step() -> None:
    stuck = dataclasses.replace(
        HEALTHY[-1].npu, cores=tuple(dataclasses.replace(c, stuck_s=9.0) for c in HEALTHY[-1].npu.cores)
    )
    for sample, wanted in (
        (dataclasses.replace(HEALTHY[-1], npu=stuck), "nothing completes; next: recover (5)"),
        (STORM[-1], "timed out 4 min ago; next: log (4); recover (5)"),
        (dataclasses.replace(HEALTHY[-1], temperatures=(Temperature("npu", 90.0),)), "next: let it cool"),
    ):
        text = "\n".join(plain(item) for item in npu_panel(state_of([sample]), 80, 7))
        assert wanted in text and all(f"core {n}" in text for n in range(3))
        # The message takes the cores' second rows; the rate of completions, which tells a wedge, stays.
        assert text.count("irq/s") == 3
    assert "next:" not in "\n".join(plain(item) for item in npu_panel(state_of(HEALTHY), 80, 7))


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_long_reason_never_takes_the_place_of_the_next_step(width: int) -> None:
    log = dataclasses.replace(
        HEALTHY[-1].log, facts=dataclasses.replace(HEALTHY[-1].log.facts, unmap_warnings=3)
    )
    sample = dataclasses.replace(HEALTHY[-1], log=log)
    rows = [plain(item) for item in npu_panel(state_of([sample]), width, 7)]
    assert rows[1].rstrip().endswith("; next: log (4); reboot (5)") and len(rows[1]) == width
    assert ("3 mappings were not taken back: address" in rows[1]) is (width > 60)


@pytest.mark.parametrize("modes", [False, True])
@pytest.mark.parametrize(("width", "height"), [(80, 20), (160, 46), (60, 11)])
def test_every_rule_is_drawn_wherever_the_cursor_is(modes: bool, width: int, height: int) -> None:
    for chosen in range(rule_count(RulesShown(modes=modes))):
        lines = rules_lines(RulesShown(modes=modes, chosen=chosen), ViewState(), width, height)
        assert len(lines) == height and any(plain(item).startswith("▶") for item in lines)


def test_every_reaction_of_a_guard_has_its_colour() -> None:
    assert set(REACTION_ROLES) == set(Reaction)


@pytest.mark.parametrize("text", ["word " * 3000, "宽" * 16_000])
def test_a_long_entry_is_drawn_from_what_is_shown_of_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def counted(part: str) -> int:
        measured.append(len(part))
        return cell_len(part)

    monkeypatch.setattr("orkbench_tui.screens.entry_line.cell_len", counted)
    drawn = draw_entry(" > ", Entry.of(text), 80)
    assert width_of(drawn) == 80 and plain(drawn).rstrip().endswith(text.rstrip()[-30:])
    assert 0 < sum(measured) < 1000


@pytest.mark.parametrize("width", [60, 80, 160])
def test_packs_of_one_model_can_be_told_apart_and_every_state_is_read(width: int) -> None:
    names = [
        f"SmolLM2-135M-Instruct.Q4_1-b179c9523d0e6a0f-{end}"
        for end in ("w8a8-r2", "w8a8-r3", "w4a8-g32-rot-r3")
    ]
    rows = [
        Listed(
            "pack",
            f"{name}.orkpack",
            Path("/packs") / f"{name}.orkpack",
            1 << 27,
            "w4a8-g32-rot",
            "not checked",
            "",
        )
        for name in names
    ]
    lines = models_lines(rows, "", 0, ViewState(), width, 20)
    shown = [plain(item) for item in lines[1:4]]
    assert len({row[7:].split("128 MiB")[0] for row in shown}) == 3
    assert all(row.rstrip().endswith("not checked") and len(row.rstrip()) <= width for row in shown)
    assert all(row.index("128 MiB") == shown[0].index("128 MiB") for row in shown)
    told = "\n".join(
        plain(item).rstrip() for item in models_lines(rows[:1], "", 0, ViewState(), width, 20)[-5:]
    )
    assert told.replace("\n ", "").lstrip().startswith(str(rows[0].path))
