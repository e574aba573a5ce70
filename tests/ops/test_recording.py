"""Recordings: written so that a kill loses one line, read at any place, stepped through."""

from __future__ import annotations

import errno
import gzip
import json
import random
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkbench_tui.errors import ExitCode, InvalidFileError, NoMemoryError, UsageError
from orkbench_tui.ops.telemetry.collector import Collector
from orkbench_tui.ops.telemetry.headline import headline
from orkbench_tui.ops.telemetry.recording import Recording, RecordingWriter
from orkbench_tui.ops.telemetry.replay_feed import ReplayFeed
from orkbench_tui.ops.telemetry.sample_json import sample_document
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.ops.fake_board import FakeBoard, kmsg, sample_text


def made(path: Path, many: int = 20, *, resets_at: int | None = 10) -> Path:
    """A recording of ``many`` samples a second apart; the log tells of resets from sample ``resets_at`` on."""
    ticks: Iterator[float] = (float(n) for n in count())
    walls: Iterator[float] = (1764460000.0 + n for n in count())
    board = FakeBoard()
    taker = Collector(board, path.parent, steady=lambda: next(ticks), wall=lambda: next(walls))
    writer = RecordingWriter(path, program="test", started_unix_s=1764460000.0, interval_s=1.0)
    for index in range(many):
        if index == resets_at:
            board.log += kmsg(sample_text("dmesg-reset-storm.txt"), len(board.log))
        board.files["/sys/kernel/debug/rknpu/load"] = f"NPU load:  Core0: {index}%, Core1: 0%, Core2: 0%,\n"
        writer.write(taker.sample(), taker.new_records)
    writer.close()
    return path


@pytest.mark.parametrize("name", ["a.rec", "a.rec.gz"])
def test_samples_come_back_in_any_order(tmp_path: Path, name: str) -> None:
    with Recording(made(tmp_path / name)) as recording:
        assert len(recording) == 20 and not recording.damaged and not recording.broken_off
        order = list(range(20))
        random.Random(3).shuffle(order)
        for index in order:
            sample = recording.sample(index)
            assert sample.source == "replay" and sample.unix_s == 1764460000.0 + index
            assert sample.npu.cores[0].load_pct == index
            assert sample.log.facts.resets == (4 if index >= 10 else 0)


@pytest.mark.parametrize("name", ["a.rec", "a.rec.gz"])
def test_a_killed_writer_loses_the_last_line_only(tmp_path: Path, name: str) -> None:
    ticks = iter(range(10))
    taker = Collector(FakeBoard(), tmp_path, steady=lambda: float(next(ticks)))
    path = tmp_path / name
    writer = RecordingWriter(path, program="test", started_unix_s=1.0, interval_s=1.0)
    for _ in range(5):
        writer.write(taker.sample(), taker.new_records)
    before = path.stat().st_size
    writer.write(taker.sample(), taker.new_records)
    whole = path.read_bytes()
    for kept in range(before, len(whole), max(1, (len(whole) - before) // 20)):
        path.write_bytes(whole[:kept])
        with Recording(path) as recording:
            # The last bytes of a packed line may not be needed to read it.
            assert len(recording) in ((5, 6) if name.endswith(".gz") else (5,))
            assert recording.sample(4).npu.cores[2].load_pct == 100
            assert not recording.damaged


def test_a_writer_that_never_closed_left_all_lines(tmp_path: Path) -> None:
    ticks = iter(range(10))
    taker = Collector(FakeBoard(), tmp_path, steady=lambda: float(next(ticks)))
    path = tmp_path / "a.gz"
    writer = RecordingWriter(path, program="test", started_unix_s=1.0, interval_s=1.0)
    for many in (1, 2, 3):
        writer.write(taker.sample(), taker.new_records)
        with Recording(path) as recording:
            assert len(recording) == many


def test_a_file_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    path.write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        RecordingWriter(path, program="test", started_unix_s=1.0, interval_s=1.0)
    with pytest.raises(UsageError, match="cannot make"):
        RecordingWriter(tmp_path / "none" / "a.rec", program="test", started_unix_s=1.0, interval_s=1.0)
    assert path.read_text() == "mine"


def test_a_full_disk_says_how_far_it_got(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RecordingWriter(tmp_path / "a.rec", program="t", started_unix_s=1.0, interval_s=1.0)
    sample = Collector(FakeBoard(), tmp_path).sample()
    writer.write(sample)

    def full(_fd: int, _data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("orkbench_tui.ops.telemetry.recording.os.write", full)
    with pytest.raises(NoMemoryError, match="1 samples are in it"):
        writer.write(sample)
    monkeypatch.undo()
    writer.close()
    with Recording(tmp_path / "a.rec") as recording:
        assert len(recording) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no sample"),
        (b"hello\n", "is no recording"),
        (b'{"schema":"ork.bench/1"}\n{}\n', "is no recording"),
        (b'{"schema":"ork.board.recording/2"}\n{}\n', "newer version"),
        (b'{"schema":"ork.board.recording/1"}\n', "holds no sample"),
        (b'{"schema":"ork.board.recording/1"}\n{"data"', "holds no sample"),
        (b"\x1f\x8b\x08\x00garbage that is no packed text", "damaged"),
        (gzip.compress(b"hello\n"), "is no recording"),
        (b"\x00" * 5000, "is no recording"),
    ],
    ids=["empty", "text", "other", "newer", "head-only", "cut", "no-gzip", "packed-text", "zeros"],
)
def test_other_files_are_one_line_and_exit_code_1(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.rec"
    path.write_bytes(content)
    with pytest.raises(InvalidFileError, match=words) as caught:
        Recording(path)
    assert caught.value.exit_code is ExitCode.FAILED and "\n" not in caught.value.line()


def test_a_damaged_line_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = made(tmp_path / "a.rec", 6)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = b"\xff\xfe nothing\n"
    lines[4] = b'{"source":"sim","data":{"unix_s":"x"}}\n'
    path.write_bytes(b"".join(lines))
    with Recording(path) as recording:
        assert recording.damaged == [4] and len(recording) == 5
        with pytest.raises(InvalidFileError, match="line 5 is damaged"):
            recording.sample(2)
        assert recording.sample(3).npu.cores[0].load_pct == 4
        feed = ReplayFeed(recording)
        assert [feed.sample().npu.cores[0].load_pct for _ in range(4)] == [0, 1, 4, 5]
        assert len(feed.past()) == 4


def test_a_saved_stream_is_a_recording_too(tmp_path: Path) -> None:
    path = made(tmp_path / "a.rec", 3)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()[1:]]
    stream = tmp_path / "watch.jsonl"
    stream.write_text("".join(json.dumps({"schema": "ork.board.watch/1", **line}) + "\n" for line in lines))
    with Recording(path) as ours, Recording(stream) as theirs:
        assert [theirs.sample(i) for i in range(3)] == [ours.sample(i) for i in range(3)]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1), junk=st.binary(min_size=1, max_size=40), packed=st.booleans())
def test_any_damage_is_told_or_harmless(tmp_path: Path, place: float, junk: bytes, packed: bool) -> None:
    base = tmp_path / f"base{packed}.rec{'.gz' if packed else ''}"
    data = bytearray((base if base.exists() else made(base, 4)).read_bytes())
    at = int(place * (len(data) - 1))
    data[at : at + len(junk)] = junk
    path = tmp_path / "damaged"
    path.write_bytes(bytes(data))
    try:
        with Recording(path) as recording:
            for index in range(len(recording)):
                try:
                    sample_document(recording.sample(index))
                except InvalidFileError:
                    continue
    except InvalidFileError:
        return


def test_stepping(tmp_path: Path) -> None:
    feed = ReplayFeed(Recording(made(tmp_path / "a.rec")))

    def at() -> int:
        load = feed.sample().npu.cores[0].load_pct
        assert load is not None
        return load

    assert [at(), at(), at()] == [0, 1, 2]
    feed.pause()
    assert [at(), at()] == [2, 2] and not feed.playing
    feed.step(1)
    assert at() == 3
    feed.step(-2)
    assert at() == 1
    feed.jump(7)
    assert at() == 8
    feed.jump(-100)
    assert at() == 0
    feed.jump(0.2)
    assert at() == 1
    feed.to_end()
    assert at() == 19
    assert len(feed.past()) == 20 and feed.past()[-1].npu.cores[0].load_pct == 19
    feed.pause()
    assert [at(), at()] == [0, 1] and feed.playing
    assert feed.sample().source_detail == "3 of 20"
    feed.close()


def test_playing_stops_at_the_end(tmp_path: Path) -> None:
    feed = ReplayFeed(Recording(made(tmp_path / "a.rec", 3)))
    assert [feed.sample().npu.cores[0].load_pct for _ in range(5)] == [0, 1, 2, 2, 2]
    assert not feed.playing and "held" in feed.sample().source_detail


def test_the_recording_of_a_wedge_tells_when_it_began(tmp_path: Path) -> None:
    board, now = InProcessBoard(), [100.0]
    taker = Collector(board.files(), tmp_path, steady=lambda: now[0], wall=lambda: 1764460000.0 + now[0])
    path = tmp_path / "wedge.rec.gz"
    writer = RecordingWriter(path, program="test", started_unix_s=1764460100.0, interval_s=1.0)
    try:
        for second in range(10):
            if second == 3:
                board.machine.set_fault("wedge")
            now[0] += 1.0
            board.clock.sit_out(1_000_000_000)
            writer.write(taker.sample(), taker.new_records)
    finally:
        writer.close()
        board.close()
    with Recording(path) as recording:
        words = [headline(recording.sample(index)) for index in range(len(recording))]
        began = next(i for i, head in enumerate(words) if head.reason.startswith("wedged"))
        assert words[0].word == "OK" and 3 < began < 8
        feed = ReplayFeed(recording, playing=False)
        feed.step(began)
        assert headline(feed.sample()).word == "ERROR"
        feed.step(-began)
        assert headline(feed.sample()).word == "OK"
