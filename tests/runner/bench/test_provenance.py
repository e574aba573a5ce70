"""What no headline is made of: changed trees, builds without a pin, weights that were not there; and its label."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from orkbench_tui.driver.timing.constants import CONSTANTS, Constant
from orkbench_tui.driver.timing.labels import LABELS, STANDINGS
from orkbench_tui.driver.timing.published import PUBLISHED
from orkbench_tui.driver.timing.published.figure import Figure
from orkbench_tui.ops.probes.declaration import Figure as ProbeFigure
from orkbench_tui.runner.bench.build import build_changed, build_commit
from orkbench_tui.runner.bench.cases import Case
from orkbench_tui.runner.bench.measure import measure
from orkbench_tui.runner.bench.provenance import provenance_reasons
from orkbench_tui.runner.bench.record import parse_row, row_document
from tests.runner.bench.fakes import FACTS, FakeEngine, row


def _reasons(loaded: int | None = 7, expected: int | None = 7, **words: object) -> list[str]:
    given = {"commit": "c1", "version": "0.1.0", "changed": False, **words}
    return provenance_reasons(replace(FACTS, weights=loaded, expected=expected), **given)  # type: ignore[arg-type]


def test_a_clean_pinned_build_with_all_weights_loaded_has_nothing_against_it() -> None:
    assert _reasons() == [] and _reasons(None, None) == []
    assert _reasons(changed=None, commit="") == [], "an installed release is pinned by its version"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"changed": True}, "changes that commit c1 does not hold"),
        ({"commit": "", "version": ""}, "neither commit nor version"),
        ({"loaded": 0}, "0 of 7 weights"),
        ({"loaded": 6}, "6 of 7 weights"),
        ({"loaded": 0, "expected": 0}, "nothing was loaded"),
    ],
)
def test_each_fault_makes_a_row_that_cannot_be_compared(words: dict, said: str) -> None:
    (reason,) = _reasons(**words)
    assert said in reason and "GRD-38" in reason
    assert not row(reasons=[reason]).comparable


def test_a_tree_is_changed_when_the_program_s_files_are(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)

    assert build_changed(tmp_path) is None
    git("init", "-q", "-b", "main")
    program = tmp_path / "orkbench_tui" / "a.py"
    program.parent.mkdir()
    program.write_text("a = 1\n")
    git("add", "orkbench_tui")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "a")
    build_changed.cache_clear()
    assert build_commit(tmp_path) and build_changed(tmp_path) is False
    (tmp_path / "notes.txt").write_text("not the program")
    build_changed.cache_clear()
    assert build_changed(tmp_path) is False
    program.write_text("a = 2\n")
    build_changed.cache_clear()
    assert build_changed(tmp_path) is True


def test_a_figure_without_its_kind_is_refused() -> None:
    for label in ("", "fast", "Measured"):
        with pytest.raises(ValueError, match="allowed: measured, host, predicted, published"):
            row(label=label)
        with pytest.raises(ValueError, match="a figure labelled"):
            ProbeFigure("rate", 1.0, "GB/s", label)
    with pytest.raises(ValueError, match="stands as"):
        Constant("x", 1.0, "ns", "guessed", "nowhere")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="does not say where it is from"):
        Figure("RES-01", "x", 1.0, "s", "", "some board")
    assert {constant.standing for constant in CONSTANTS} == set(STANDINGS)
    assert set(LABELS) == {"measured", "host", "predicted", "published"}
    assert all(figure.source and figure.configuration for figure in PUBLISHED)


def test_variables_that_were_set_are_kept_with_the_row() -> None:
    made = replace(row(), variables={"ORK_MOE_NPU": "0", "ORK_THREADS": "2"})
    document = row_document(made)
    assert document["variables"] == {"ORK_MOE_NPU": "0", "ORK_THREADS": "2"}
    assert parse_row(document) == made
    del document["variables"]
    assert parse_row(document).variables == {}


@pytest.mark.parametrize(("prompt", "generate"), [(300, 0), (40, 3), (0, 4)])
def test_the_warm_up_is_as_wide_as_what_is_timed(prompt: int, generate: int) -> None:
    engine, warm = FakeEngine(), []
    case = Case(prompt, generate, 2048, 128, 0)
    measure(
        engine,
        case,
        1,
        clocks=engine.clocks(),
        on_warm=lambda: warm.append((list(engine.prefills), engine.decoded)),
    )
    (prefills, decoded) = warm[0]
    assert engine.prefills == prefills * 2 and engine.decoded == decoded * 2
    if prompt:
        assert max(prefills) == min(prompt, 128) > 1
