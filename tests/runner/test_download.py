"""Downloads: resumed where they can be, discarded where they must be, never half in place."""

from __future__ import annotations

import errno
import hashlib
import json
import random
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from orkbench_tui.errors import ExitCode, NoMemoryError
from orkbench_tui.runner import download
from orkbench_tui.runner.download import Expected, SourceError, WrongFileError, fetch
from tests.runner.loopback import Served, serving

BODY = b"GGUF" + random.Random(1).randbytes(3_000_000)
EXPECTED = Expected(len(BODY), hashlib.sha256(BODY).hexdigest(), b"GGUF", "a GGUF model")


def quiet(done: int, total: int) -> None:
    pass


def get(served: Served, target: Path, progress: download.Progress = quiet) -> int:
    return fetch(served.url, target, EXPECTED, progress=progress, timeout_s=5)


def leave_part(target: Path, body: bytes, etag: str = '"one"', sha256: str = EXPECTED.sha256) -> None:
    part = download.part_path(target)
    part.write_bytes(body)
    download.note_path(part).write_text(json.dumps({"sha256": sha256, "etag": etag}))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_whole_file_arrives_under_its_name_alone(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with serving(Served(BODY)) as served:
        assert get(served, tmp_path / "m.gguf", lambda done, total: seen.append((done, total))) == 0
    assert (tmp_path / "m.gguf").read_bytes() == BODY
    assert names(tmp_path) == ["m.gguf"]
    assert seen[0] == (0, len(BODY))
    assert seen[-1] == (len(BODY), len(BODY))


def test_resume_asks_for_the_rest_only(tmp_path: Path) -> None:
    leave_part(tmp_path / "m.gguf", BODY[:1_000_000])
    with serving(Served(BODY)) as served:
        assert get(served, tmp_path / "m.gguf") == 1_000_000
    assert served.requests[0]["range"] == "bytes=1000000-"
    assert served.requests[0]["if-range"] == '"one"'
    assert (tmp_path / "m.gguf").read_bytes() == BODY


def test_server_without_ranges_starts_over(tmp_path: Path) -> None:
    leave_part(tmp_path / "m.gguf", BODY[:1_000_000])
    with serving(Served(BODY, ranges=False)) as served:
        get(served, tmp_path / "m.gguf")
    assert (tmp_path / "m.gguf").read_bytes() == BODY


def test_changed_file_on_the_server_starts_over(tmp_path: Path) -> None:
    leave_part(tmp_path / "m.gguf", b"GGUF of another version", etag='"old"')
    with serving(Served(BODY)) as served:
        get(served, tmp_path / "m.gguf")
    assert (tmp_path / "m.gguf").read_bytes() == BODY


@pytest.mark.parametrize("note", ["", "[]", '{"etag": 1}', '{"sha256": "of another file"}'])
def test_part_of_unknown_origin_is_not_resumed(tmp_path: Path, note: str) -> None:
    leave_part(tmp_path / "m.gguf", b"x" * 100)
    download.note_path(download.part_path(tmp_path / "m.gguf")).write_text(note)
    with serving(Served(BODY)) as served:
        get(served, tmp_path / "m.gguf")
    assert "range" not in served.requests[0]


def test_damaged_part_costs_one_more_download_and_no_error(tmp_path: Path) -> None:
    leave_part(tmp_path / "m.gguf", b"GGUF" + b"x" * 1000)
    with serving(Served(BODY)) as served:
        assert get(served, tmp_path / "m.gguf") == 0
    assert len(served.requests) == 2
    assert (tmp_path / "m.gguf").read_bytes() == BODY


def test_broken_connection_goes_on_by_itself(tmp_path: Path) -> None:
    with serving(Served(BODY, cut_at=1_200_000, cuts=1)) as served:
        get(served, tmp_path / "m.gguf")
    assert len(served.requests) == 2
    assert (tmp_path / "m.gguf").read_bytes() == BODY


def test_truncated_again_and_again_keeps_the_part(tmp_path: Path) -> None:
    with (
        serving(Served(BODY, ranges=False, cut_at=500_000)) as served,
        pytest.raises(SourceError, match=r"stopped at 0\.5 of|stopped at 0.5 MiB of 2.9 MiB"),
    ):
        get(served, tmp_path / "m.gguf")
    assert download.part_path(tmp_path / "m.gguf").stat().st_size == 500_000
    with serving(Served(BODY)) as served:
        assert get(served, tmp_path / "m.gguf") == 500_000


def test_wrong_checksum_is_discarded_and_both_digests_are_named(tmp_path: Path) -> None:
    other = b"GGUF" + bytes(len(BODY) - 4)
    with serving(Served(other)) as served, pytest.raises(WrongFileError) as caught:
        get(served, tmp_path / "m.gguf")
    assert EXPECTED.sha256 in caught.value.why
    assert hashlib.sha256(other).hexdigest() in caught.value.why
    assert caught.value.exit_code is ExitCode.FAILED
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<!DOCTYPE html><html>log in</html>", "an HTML page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "a Git LFS pointer"),
        (b"PK\x03\x04....", "a zip archive"),
        (b"\x00\x01\x02", "begins with"),
    ],
)
def test_something_else_than_a_model_is_named_and_discarded(tmp_path: Path, body: bytes, kind: str) -> None:
    with serving(Served(body)) as served, pytest.raises(WrongFileError, match=kind):
        get(served, tmp_path / "m.gguf")
    assert names(tmp_path) == []


def test_a_larger_file_is_cut_off_and_discarded(tmp_path: Path) -> None:
    with serving(Served(BODY + b"more")) as served, pytest.raises(WrongFileError, match="larger"):
        get(served, tmp_path / "m.gguf")
    assert names(tmp_path) == []


@pytest.mark.parametrize("status", [403, 404, 500])
def test_refusal_names_the_status(tmp_path: Path, status: int) -> None:
    with serving(Served(BODY, status=status)) as served, pytest.raises(SourceError, match=str(status)):
        get(served, tmp_path / "m.gguf")


def test_no_server_is_a_source_error(tmp_path: Path) -> None:
    with serving(Served(BODY)) as served:
        pass
    with pytest.raises(SourceError, match="not reachable"):
        get(served, tmp_path / "m.gguf")


def test_other_schemes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="ftp"):
        fetch("ftp://127.0.0.1/x", tmp_path / "m", EXPECTED, progress=quiet)


def test_secrets_in_a_url_are_not_shown(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        fetch("http://user:secret@127.0.0.1:1/x?token=hidden", tmp_path / "m", EXPECTED, progress=quiet)
    assert "secret" not in caught.value.line()
    assert "hidden" not in caught.value.line()


def test_no_space_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 5, 5))
    with serving(Served(BODY)) as served, pytest.raises(NoMemoryError, match="not enough space"):
        get(served, tmp_path / "m.gguf")
    assert served.requests == []
    assert names(tmp_path) == []


def test_disk_that_fills_up_is_left_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        download.part_path(tmp_path / "m.gguf").write_bytes(b"GGUF and a little")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download, "_pour", full)
    with serving(Served(BODY)) as served, pytest.raises(NoMemoryError, match="full") as caught:
        get(served, tmp_path / "m.gguf")
    assert caught.value.exit_code is ExitCode.NO_MEMORY
    assert names(tmp_path) == []


def test_interrupt_keeps_the_part_for_a_resume(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done > 1_000_000:
            raise KeyboardInterrupt

    with serving(Served(BODY)) as served:
        with pytest.raises(KeyboardInterrupt):
            get(served, tmp_path / "m.gguf", interrupt)
        assert not (tmp_path / "m.gguf").exists()
        assert get(served, tmp_path / "m.gguf") > 1_000_000
    assert (tmp_path / "m.gguf").read_bytes() == BODY


def test_file_url_is_copied_and_checked(tmp_path: Path) -> None:
    source = tmp_path / "source.gguf"
    source.write_bytes(BODY)
    fetch(source.as_uri(), tmp_path / "m.gguf", EXPECTED, progress=quiet)
    assert (tmp_path / "m.gguf").read_bytes() == BODY
