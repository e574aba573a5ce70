"""Files of failures: few, whole, for their user alone; what was damaged is told by name."""

from __future__ import annotations

import copy
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.cli.npu_failures import document_lines
from orkbench_tui.driver import failure_files, failure_record
from orkbench_tui.driver.failure_files import (
    FILES_PER_NPU,
    FailureFiles,
    failures_folder,
    kept_failures,
    read_failure,
)
from orkbench_tui.driver.failure_reading import read_job_programs
from orkbench_tui.driver.failure_record import MAX_WORDS, Programs
from orkbench_tui.driver.regcmd.emit import emit_program
from orkbench_tui.errors import InvalidFileError, OrkError, UsageError

_WORDS = [
    f"{word:016x}" for word in emit_program("int8", 4, 64, 64, a=0xFFF00000, w=0xFFC00000, c=0xFF800000).words
]
_DATA: dict[str, Any] = {
    "recorded": "2026-12-01T04:00:00.000Z",
    "device": "/dev/dri/card1",
    "soc": "rk3588",
    "failure": {"what": "a job", "why": "no answer"},
    "jobs": [
        {
            "core": 1,
            "core_mask": "0x2",
            "flags": "PC",
            "timeout_ms": 6000,
            "domain": 0,
            "owner": "matmul",
            "submit": {},
            "answer": {},
            "descriptors": [
                {
                    "index": 5,
                    "enable_mask": "0xd",
                    "int_mask": "0x300",
                    "int_status": "0x0",
                    "regcfg_amount": len(_WORDS) - 4,
                    "regcmd_addr": "0xff700000",
                    "first_word": 0,
                    "words": len(_WORDS),
                }
            ],
        }
    ],
    "buffers": [
        {"handle": 3, "domain": 0, "iova": "0xfff00000", "size": 4096, "flags": "0x403", "kind": "native"},
        {"handle": 4, "domain": 1, "iova": "0xffc00000", "size": 4096, "flags": "0x403", "kind": "native"},
    ],
    "buffers_in_all": 2,
    "modes": {"last_mode": "I8", "resets": 1},
    "counters": {},
    "words": _WORDS,
}


def _written(folder: Path, data: dict[str, Any] = _DATA) -> Path:
    path = FailureFiles(folder, 8, "sim").save(data)
    assert path is not None
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    document = read_failure(str(_written(tmp_path)))
    assert document["data"] == _DATA and document["source"] == "sim"
    (row,) = kept_failures(tmp_path)
    assert (row.source, row.device, row.what, row.why) == ("sim", "/dev/dri/card1", "a job", "no answer")
    assert (row.cores, row.tasks, row.damaged) == ((1,), 1, "")


def test_only_its_user_may_read_it(tmp_path: Path) -> None:
    path = _written(tmp_path / "new")
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700


def test_one_npu_leaves_the_first_failures_and_the_folder_keeps_the_newest(tmp_path: Path) -> None:
    first = FailureFiles(tmp_path, 6, "sim")
    written = [first.save(_DATA) for _ in range(FILES_PER_NPU + 3)]
    assert [path is not None for path in written] == [True] * FILES_PER_NPU + [False] * 3
    (tmp_path / "notes.txt").write_text("the user's own")
    for path in list(tmp_path.glob("*.json")):
        path.rename(tmp_path / path.name.replace(path.name[:15], "20200101-000000"))
    newer = FailureFiles(tmp_path, 6, "sim")
    for _ in range(FILES_PER_NPU):
        newer.save(_DATA)
    names = sorted(path.name for path in tmp_path.glob("*.json"))
    assert len(names) == 6 and sum(name.startswith("20200101") for name in names) == 2
    kept = sorted(path.name.rsplit("-", 1)[1] for path in written[2:4] if path)
    assert sorted(name.rsplit("-", 1)[1] for name in names if name.startswith("2020")) == kept, (
        "the oldest went"
    )
    assert (tmp_path / "notes.txt").exists() and not list(tmp_path.glob("*.part"))


def test_cores_that_fail_at_the_same_time_leave_a_file_each(tmp_path: Path) -> None:
    files = FailureFiles(tmp_path, 8, "sim")
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: files.save(_DATA), range(8)))
    written = {path for path in paths if path is not None}
    assert len(written) == FILES_PER_NPU and set(tmp_path.iterdir()) == written
    assert not files.wanted
    again = FailureFiles(tmp_path, 8, "sim").save(_DATA)
    assert again is not None and again not in written, "another NPU of this process, within the same second"


def test_a_full_disk_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(tmp_path)
    full = os.statvfs_result((*real[:3], 10, 10, *real[5:10]))
    monkeypatch.setattr(failure_files.os, "statvfs", lambda folder: full)
    assert FailureFiles(tmp_path, 8, "sim").save(_DATA) is None
    assert not list(tmp_path.iterdir())


def test_a_write_that_breaks_off_leaves_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Path, target: Path) -> None:
        raise OSError("disk gone")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(OSError, match="disk gone"):
        FailureFiles(tmp_path, 8, "sim").save(_DATA)
    assert not list(tmp_path.iterdir())


def test_the_longest_chain_fits_and_more_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_WORDS >= 1024 * 112
    monkeypatch.setattr(failure_record, "MAX_WORDS", 5)
    programs = Programs()
    words = np.arange(3, dtype=np.uint64)
    assert (programs.add(words), programs.add(words), programs.left_out) == (0, None, 1)
    assert programs.words == [f"{value:016x}" for value in range(3)]


def test_an_address_in_no_buffer_of_its_domain_is_told(tmp_path: Path) -> None:
    (program,) = read_job_programs(_DATA["jobs"][0], _DATA, 9)
    where = {use.role: use.buffer for use in program.addresses}
    assert where == {"a": 3, "w": None, "c": None}, "the buffer at w is one of another domain"
    assert not program.differs


def test_a_descriptor_of_another_program_is_told() -> None:
    data = copy.deepcopy(_DATA)
    data["jobs"][0]["descriptors"][0].update(enable_mask="0x18", regcfg_amount=69)
    (program,) = read_job_programs(data["jobs"][0], data, 9)
    assert program.differs == (
        "enable_mask is 0x18, its program needs 0xd",
        f"regcfg_amount is 69, its program needs {len(_WORDS) - 4}",
    )


def test_names_of_the_list_and_the_newest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is kept"):
        read_failure("last")
    path = _written(failures_folder())
    assert (
        read_failure("last") == read_failure(path.name) == read_failure(path.stem) == read_failure(str(path))
    )
    with pytest.raises(UsageError, match="no file 20200101-000000-1-1"):
        read_failure("20200101-000000-1-1")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "is no record of a failed NPU job"),
        ('{"schema": "ork.npu.regcmd/1", "data": {}}', "is no record of a failed NPU job"),
        ('{"schema": "ork.npu.failure/1"}', "damaged record: source of the document is missing"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "20260101-000000-1-1.json"
    path.write_text(text)
    with pytest.raises(InvalidFileError, match=why) as raised:
        read_failure(str(path))
    assert str(path) in raised.value.line()
    (row,) = kept_failures(tmp_path)
    assert why in row.damaged


_PLACES = [
    ("data",),
    *(("data", key) for key in ("recorded", "failure", "jobs", "buffers", "words", "modes", "counters")),
    ("data", "jobs", 0),
    ("data", "jobs", 0, "descriptors", 0),
    *(("data", "jobs", 0, "descriptors", 0, key) for key in ("first_word", "words", "int_mask", "index")),
    ("data", "buffers", 1, "iova"),
    ("data", "buffers", 1),
    ("data", "modes", "resets"),
    ("data", "buffers_in_all"),
    ("data", "words", 0),
]
_JUNK = st.sampled_from([{}, [], "zz", -1, 1 << 70, 1.5, True, [[]], {"words": 1}])


@given(place=st.sampled_from(_PLACES), junk=_JUNK)
def test_a_damaged_record_is_refused_or_read_never_more(
    tmp_path_factory: pytest.TempPathFactory, place: tuple[Any, ...], junk: Any
) -> None:
    document = json.loads(json.dumps({"schema": failure_record.SCHEMA, "source": "sim", "data": _DATA}))
    at = document
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = junk
    path = tmp_path_factory.mktemp("damaged") / "record.json"
    path.write_text(json.dumps(document))
    try:
        data = read_failure(str(path))["data"]
        for line in document_lines({"source": "sim", "data": data}):
            assert "\n" not in line
    except OrkError as error:
        assert str(path) in error.line()
