"""Live board to bundle to verdict; captures from folders, archives and standard input."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from orkbench_tui.errors import InvalidFileError, RefusedError, UsageError
from orkbench_tui.ops.diagnosis.bundle import MANIFEST, make_bundle, write_bundle
from orkbench_tui.ops.diagnosis.capture import from_bytes, read_capture
from orkbench_tui.ops.diagnosis.collect import collect
from orkbench_tui.ops.diagnosis.diagnose import diagnose
from orkbench_tui.ops.diagnosis.evidence import gather
from orkbench_tui.ops.diagnosis.kinds import Kind, kind_of
from orkbench_tui.ops.diagnosis.redaction import Redactor
from orkbench_tui.ops.diagnosis.report import diagnosis_lines
from tests.ops.diagnosis.given import CASES, SAMPLES, verdicts
from tests.ops.fake_board import FakeBoard, kmsg, sample_text


def wedged_board() -> FakeBoard:
    board = FakeBoard()
    board.log = kmsg(sample_text("dmesg-domain-switch-timeout.txt"))
    board.files["/proc/3120/stat"] = "3120 (llama cli) D 1 3120 3120 0 -1\n"
    board.files["/proc/3120/wchan"] = "rknpu_iommu_domain_get_and_switch"
    board.files["/proc/cmdline"] = "root=UUID=6a1c2a3e-1d52-4d8a-9d0e-0b6a3f3c9d10 wifi_password=hunter2222\n"
    return board


def test_a_healthy_board_is_healthy() -> None:
    found = diagnose(gather(collect(FakeBoard())))
    assert [v.kind for v in found if v.severity > 0] == []
    assert any(v.kind == "healthy" for v in found)


def test_holders_and_stuck_processes_of_a_live_board() -> None:
    evidence = gather(collect(wedged_board()))
    assert [h.pid for h in evidence.holders] == [3120]
    assert [(p.pid, p.state, p.command) for p in evidence.processes] == [(3120, "D", "llama cli")]
    assert diagnose(evidence)[0].kind == "domain-switch-timeout"


@pytest.mark.parametrize("name", ["out", "out.tar.gz", "out.tgz"])
def test_round_trip(tmp_path: Path, name: str) -> None:
    capture = collect(wedged_board())
    before = diagnose(gather(capture))
    write_bundle(make_bundle(capture, Redactor(hosts=["rock-5b"])), tmp_path / name)
    read = read_capture([tmp_path / name])
    after = diagnose(gather(read))
    assert read.source == "board"
    assert [(v.kind, v.severity, v.facts) for v in after] == [(v.kind, v.severity, v.facts) for v in before]
    everything = "".join(file.text for file in read.files)
    assert "hunter2222" not in everything and "6a1c2a3e" not in everything


def test_a_bundle_never_overwrites(tmp_path: Path) -> None:
    bundle = make_bundle(collect(FakeBoard()), Redactor())
    for name in ("a", "a.tar.gz"):
        write_bundle(bundle, tmp_path / name)
        with pytest.raises(RefusedError):
            write_bundle(bundle, tmp_path / name)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RefusedError):
        write_bundle(bundle, tmp_path / "link")
    with pytest.raises(InvalidFileError):
        write_bundle(bundle, tmp_path / "no-folder" / "x.tar.gz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a.tar.gz", "link"]


def test_denied_sources_are_named_in_bundle_and_verdict(tmp_path: Path) -> None:
    board = FakeBoard()
    board.denied = {"/sys/kernel/debug/rknpu/load", "/dev/kmsg"}
    capture = collect(board, sees_all_processes=False)
    assert {(item.name, item.reason) for item in capture.unreadable} >= {
        ("load.txt", "denied"), ("dmesg.txt", "denied"), ("fds.txt", "denied")}  # fmt: skip
    write_bundle(make_bundle(capture, Redactor()), tmp_path / "b")
    evidence = gather(read_capture([tmp_path / "b"]))
    lines = "\n".join(diagnosis_lines(diagnose(evidence), evidence))
    assert "not read: /dev/kmsg (denied EACCES)" in lines and "other users" in lines
    assert json.loads((tmp_path / "b" / MANIFEST).read_text())["unreadable"]


def test_every_line_fits_eighty_columns_and_nothing_reaches_the_terminal() -> None:
    files = {
        "dmesg.txt": "[    1.0] RKNPU: job timeout, flags: 0x0: \x1b]0;title\x07 " + "x" * 500 + "\n",
        "a\x1b.bin": "?",
    }
    evidence = gather(collect(wedged_board()))
    for lines in (
        diagnosis_lines(verdicts(files), evidence),
        *[diagnosis_lines(verdicts({p.name: p.read_text() for p in c.iterdir()}), evidence) for c in CASES],
    ):
        assert all(len(line) <= 80 and line.isprintable() for line in lines), lines


def test_archives_are_read_in_memory_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("../../etc/dmesg.txt", "/abs/load.txt"):
            data = (SAMPLES / "dmesg-reset-storm.txt").read_bytes() if "dmesg" in name else b"NPU load: 3%\n"
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("evil")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert [file.name for file in read_capture([path]).files] == ["dmesg.txt", "load.txt"]
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InvalidFileError):
        read_capture([path])


def test_bad_captures(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_capture([tmp_path / "nothing"])
    with pytest.raises(UsageError):
        read_capture([tmp_path])
    (tmp_path / "manifest.json").write_text('{"schema": "ork.bundle/1", "source": "moon"}')
    (tmp_path / "load.txt").write_text("NPU load: 3%\n")
    assert read_capture([tmp_path]).source == "replay"
    capture = read_capture([Path("-")], io.BytesIO((SAMPLES / "journalctl-k.json").read_bytes()))
    assert diagnose(gather(capture))[0].kind == "domain-switch-timeout"


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("input.weird.txt", b"hello\n", Kind.UNKNOWN),
        ("photo.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9, Kind.UNKNOWN),
        ("whatever", b"NPU load:  Core0:  0%, Core1:  0%,\n", Kind.LOAD),
        ("thing.txt", b"[    1.000000] usb 1-1: x\n[    2.000000] usb 1-2: y\n", Kind.LOG),
        ("compatible.txt", b"radxa,rock-5b\0rockchip,rk3588\0", Kind.COMPATIBLE),
        ("a.json", b'{"header": {"magic": "GGUF"}}', Kind.GGUF),
        ("empty.txt", b"", Kind.UNKNOWN),
    ],
)  # fmt: skip
def test_kinds(name: str, data: bytes, kind: Kind) -> None:
    assert kind_of(from_bytes(name, data)) is kind


def test_what_is_no_archive_is_said_in_one_clause(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_text("hello\n")
    with pytest.raises(InvalidFileError) as caught:
        read_capture([path])
    assert caught.value.why == "it is no tar archive, or its beginning is damaged"
