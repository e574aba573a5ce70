"""docs/adding-an-op.md followed literally: its blocks into a copy of the tree, its commands run there."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
PAGE = (TREE / "docs" / "adding-an-op.md").read_text(encoding="utf-8")
COPIED = ("orkbench_tui", "tests/driver/sdp", "docs")
FILES = ("pyproject.toml", "tests/conftest.py", "tests/driver/conftest.py")
PROGRAMS = {
    "ork": [sys.executable, "-m", "orkbench_tui.cli.main"],
    "pytest": [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
    "python": [sys.executable],
}


@dataclass(frozen=True)
class Edit:
    """``text`` goes into ``path``: after the one line ``anchor``, or as the whole file without one."""

    path: str
    anchor: str | None
    text: str


_BLOCK = r"\n\n```python\n(?P<text>.*?)```\n"
EDITS = [
    Edit(found["path"], found.groupdict().get("anchor"), found["text"])
    for pattern in (
        r"In `(?P<path>[^`]+)`, after the line `(?P<anchor>[^`]+)`:" + _BLOCK,
        r"Create `(?P<path>[^`]+)`:" + _BLOCK,
    )
    for found in re.finditer(pattern, PAGE, re.DOTALL)
]
COMMANDS = re.search(r"```sh\n(.*?)```", PAGE, re.DOTALL)[1].splitlines()
PRINTED = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)[1].splitlines()


def apply(edit, tree):
    path = tree / edit.path
    if edit.anchor is None:
        assert not path.exists()
        path.write_text(edit.text, encoding="utf-8")
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    places = [index for index, line in enumerate(lines) if line.rstrip("\n") == edit.anchor]
    assert len(places) == 1, f"{edit.anchor!r} is {len(places)} times in {edit.path}"
    lines.insert(places[0] + 1, edit.text)
    path.write_text("".join(lines), encoding="utf-8")


def run(command, tree):
    words, _, into = command.partition(" > ")
    name, *arguments = shlex.split(words)
    done = subprocess.run(
        [*PROGRAMS[name], *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    if into:
        (tree / into).write_text(done.stdout, encoding="utf-8")
    return done


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    copy = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        shutil.copytree(TREE / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TREE / name, copy / name)
    return copy


def test_every_block_of_the_page_is_used():
    assert PAGE.count("```python") == len(EDITS)
    assert PAGE.count("```") == 2 * (len(EDITS) + 2)
    assert len(EDITS) == 5 and len(COMMANDS) == 4


def test_the_operation_is_not_there_yet():
    """A page about something that exists would prove nothing."""
    assert run("ork npu op abs --target sim", TREE).returncode == 2


def test_following_the_page_literally_works(tree):
    for edit in EDITS:
        apply(edit, tree)
    where = run("python -c 'import orkbench_tui; print(orkbench_tui.__path__[0])'", tree).stdout.strip()
    assert Path(where) == tree / "orkbench_tui"
    printed = []
    for command in COMMANDS:
        done = run(command, tree)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        if command.startswith("ork "):
            printed += done.stdout.splitlines()
    run("ork sim stop", tree)
    # The predicted time may move with the timing model; what was computed may not.
    assert [line.rpartition(",")[0] for line in printed] == [line.rpartition(",")[0] for line in PRINTED]
    page = (tree / "docs" / "element-wise.md").read_text(encoding="utf-8")
    assert page.count("| abs |") == 3


@pytest.mark.parametrize("command", ["ruff check --quiet", "ruff format --check --quiet"])
def test_the_result_keeps_the_house_style(tree, command):
    ruff = Path(sys.executable).with_name("ruff")
    for edit in EDITS:
        if edit.anchor is None and not (tree / edit.path).exists():
            apply(edit, tree)
    paths = sorted({str(tree / edit.path) for edit in EDITS})
    done = subprocess.run(
        [str(ruff), *command.split()[1:], *paths], cwd=tree, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
