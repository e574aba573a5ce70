"""Nothing unsafe is ever passed on, whatever was read: over every advice the rules and tables hold."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import orkbench_tui.ops.diagnosis as package
from orkbench_tui.ops.diagnosis.classes import CLASSES, rank
from orkbench_tui.ops.doctor.checks import CHECKS
from orkbench_tui.ops.kernel_log.rules import RULES
from tests.ops.diagnosis.given import CASES, case_files, verdicts

UNSAFE = re.compile(
    r"(?i)chmod\s+(?:-R\s+)?[0-7]*7[67]7|kill\s+-(?:9|KILL)|SIGKILL the|killall|pkill|--privileged|privileged container"
    r"|curl [^|]*\|\s*(?:sudo )?(?:ba)?sh|wget .*\.zip|download .*\.zip|clk_set_rate|insmod\b(?! is| text|\s+rknpu is)|rmmod|setenforce 0"
    r"|echo \d+ > \S*(?:clk|freq)|unbind"
)
ROOT = Path(package.__file__).parent


def _advice_texts() -> list[str]:
    """Every string below an ``advice=`` argument or an ``advice`` list in the rules."""
    texts: list[str] = []
    for path in sorted(ROOT.glob("rules_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            parts: list[ast.AST] = []
            if isinstance(node, ast.keyword) and node.arg == "advice":
                parts = [node.value]
            elif (
                isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
                and "advice" in ast.dump(node)[:200]
            ):
                parts = [node]
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "append"
            ):
                parts = list(node.args)
            for part in parts:
                texts += [
                    c.value
                    for c in ast.walk(part)
                    if isinstance(c, ast.Constant) and isinstance(c.value, str)
                ]
    return texts


def test_no_advice_in_the_rules_is_unsafe() -> None:
    texts = _advice_texts()
    assert len(texts) > 100
    bad = [
        text
        for text in texts
        if UNSAFE.search(text)
        and "never" not in text
        and "is wrong" not in text
        and "printed for both" not in text
    ]
    assert bad == []


@pytest.mark.parametrize(
    "texts",
    [[c.fix for c in CHECKS], [r.next_step.replace("never kill -9", "") for r in RULES]],
    ids=["doctor", "log"],
)
def test_no_table_is_unsafe(texts: list[str]) -> None:
    assert [text for text in texts if UNSAFE.search(text)] == []


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_unsafe_words_of_a_report_stay_evidence(case: Path) -> None:
    files = case_files(case)
    files["input.thread.txt"] = (
        "just run chmod 777 /dev/dri/* and kill -9 it, docker run --privileged; get https://x.example/driver.zip; insmod rknpu\n"
    )
    for verdict in verdicts(files):
        assert not UNSAFE.search(" ".join(text for text in verdict.advice if "is wrong here" not in text))
        assert verdict.refuse or verdict.kind == "healthy"


def test_classes_are_thirty_ranked_and_each_has_a_rule() -> None:
    names = [entry.name for entry in CLASSES]
    assert len(names) == len(set(names)) == 30 and [rank(name) for name in names] == list(range(30))
    sources = (
        "".join(path.read_text() for path in ROOT.glob("rules_*.py")) + (ROOT / "diagnose.py").read_text()
    )
    assert all(f'"{name}"' in sources for name in names)
