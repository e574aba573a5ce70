"""What processes publish about their NPU use, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.ops.telemetry.domains import parse_publication, read_publications
from tests.ops.fake_board import publish


def test_reads_a_living_process(tmp_path: Path) -> None:
    publish(tmp_path, submits=77)
    (found,) = read_publications(tmp_path, "board")
    assert found.pid == os.getpid() and found.counters.submits == 77
    assert found.domains[0].used_bytes == 327155712


def test_another_source_is_not_shown(tmp_path: Path) -> None:
    publish(tmp_path, source="sim")
    assert read_publications(tmp_path, "board") == ()
    assert len(read_publications(tmp_path, "sim")) == 1


def test_dead_processes_are_skipped(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    publish(tmp_path, pid=child.pid)
    assert read_publications(tmp_path, "board") == ()


def test_a_file_that_names_another_process_is_skipped(tmp_path: Path) -> None:
    path = publish(tmp_path)
    path.rename(tmp_path / f"{os.getppid()}.json")
    assert read_publications(tmp_path, "board") == ()


def test_oversized_linked_and_foreign_names_are_skipped(tmp_path: Path) -> None:
    path = publish(tmp_path)
    padded = json.loads(path.read_text()) | {"padding": "x" * (70 << 10)}
    path.write_text(json.dumps(padded))
    assert read_publications(tmp_path, "board") == ()
    other = publish(tmp_path / "elsewhere")
    path.unlink()
    path.symlink_to(other)
    (tmp_path / "notes.json").write_text("{}")
    assert read_publications(tmp_path, "board") == ()


def test_a_missing_folder_is_empty(tmp_path: Path) -> None:
    assert read_publications(tmp_path / "none", "board") == ()


@given(st.binary(max_size=200))
def test_never_raises_on_bytes(data: bytes) -> None:
    assert parse_publication(data) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["pid", "domains", "counters", "started", "command"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_never_raises_on_json(value: object) -> None:
    parse_publication(json.dumps(value).encode())
