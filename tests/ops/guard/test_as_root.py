"""Root only for the one write that needs it."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orkbench_tui.errors import DeniedError
from orkbench_tui.ops.files import HostFiles
from orkbench_tui.ops.guard.as_root import RootWriter, asking_aside

ROOT = Path(__file__).parents[3]


def test_only_one_module_starts_programs_as_root() -> None:
    importers = set()
    for path in (ROOT / "orkbench_tui").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (isinstance(node, ast.Import) and any(name.name == "sh" for name in node.names)) or (
                isinstance(node, ast.ImportFrom) and node.module == "sh"
            ):
                importers.add(path.name)
    assert importers == {"as_root.py"}


def test_what_this_user_may_write_goes_without_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    node = tmp_path / "sys" / "governor"
    node.parent.mkdir()
    node.write_text("ondemand\n")
    RootWriter(HostFiles(str(tmp_path)), str(tmp_path)).write("/sys/governor", b"performance\n")
    assert node.read_text() == "performance\n"
    with pytest.raises(FileNotFoundError):
        RootWriter(HostFiles(str(tmp_path)), str(tmp_path)).write("/sys/new", b"x\n")
    assert not (tmp_path / "sys" / "new").exists()


class _Refusing(HostFiles):
    def write(self, path: str, data: bytes) -> None:
        raise PermissionError(13, "Permission denied", path)


def _sudo(folder: Path, body: str) -> None:
    program = folder / "sudo"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


def test_the_rest_goes_through_sudo_with_the_value_on_its_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    _sudo(tmp_path, f'printf "%s " "$@" > {tmp_path}/words; cat > {tmp_path}/value')
    RootWriter(_Refusing(), "/").write("/sys/governor", b"performance\n")
    assert (tmp_path / "words").read_text() == "-n -- tee /sys/governor "
    assert (tmp_path / "value").read_text() == "performance\n"


def test_a_refusing_or_absent_sudo_is_a_denial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    _sudo(tmp_path, "echo 'sudo: a password is required' >&2; exit 1")
    with pytest.raises(DeniedError, match="a password is required"):
        RootWriter(_Refusing(), "/").write("/sys/governor", b"x\n")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(DeniedError, match="there is no sudo"):
        RootWriter(_Refusing(), "/").write("/sys/governor", b"x\n")


def test_a_full_screen_program_is_asked_to_step_aside_for_sudo_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    _sudo(tmp_path, f"cat > {tmp_path}/value")
    seen: list[str] = []

    def aside(step: Callable[[], None]) -> None:
        seen.append("given back")
        step()
        seen.append("taken again")

    with asking_aside(aside):
        RootWriter(_Refusing(), "/").write("/sys/governor", b"performance\n")
        assert (tmp_path / "value").read_text() == "performance\n" and seen == ["given back", "taken again"]
        _sudo(tmp_path, "echo sorry >&2; exit 1")
        with pytest.raises(DeniedError, match="sorry"):
            RootWriter(_Refusing(), "/").write("/sys/governor", b"performance\n")
        assert seen == ["given back", "taken again"] * 2
    _sudo(tmp_path, f"cat > {tmp_path}/value")
    RootWriter(_Refusing(), "/").write("/sys/governor", b"ondemand\n")
    assert len(seen) == 4
