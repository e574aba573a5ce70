"""The same records out of every rendering of the kernel log."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.ops.kernel_log.classify import classify_all
from orkbench_tui.ops.kernel_log.counting import count
from orkbench_tui.ops.kernel_log.records import parse_kmsg, unescape
from orkbench_tui.ops.kernel_log.renderings import parse_log
from tests.ops.fake_board import SAMPLES

RESET = "RKNPU: soft reset, num: 6"


def read(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def test_raw_records() -> None:
    records = parse_log(read("kmsg-raw.txt"))
    assert len(records) == 23
    assert [record.sequence for record in records[:4]] == [0, 1, 604, 605]
    first = records[3]
    assert (first.level, first.facility, first.ts_us) == (6, 0, 7657029)
    assert first.device == "platform:fdab0000.npu"
    core = next(record for record in records if "core 0" in record.message)
    assert core.message.startswith("RKNPU: \tcore 0 irq status")


def test_one_read_a_record_gives_the_same() -> None:
    blobs: list[bytes] = []
    for line in read("kmsg-raw.txt").splitlines(keepends=True):
        if line.startswith(b" "):
            blobs[-1] += line
        else:
            blobs.append(line)
    assert list(parse_kmsg(blobs)) == parse_log(read("kmsg-raw.txt"))


def test_caller_field() -> None:
    records = parse_log(read("kmsg-raw-caller.txt"))
    assert [record.caller for record in records] == ["T2211", "C4"]
    assert records[0].message == RESET


def test_user_markers_are_not_the_kernel() -> None:
    (record,) = parse_log(b"12,1,5,-;RKNPU: soft reset, num: 6\n")
    assert record.facility == 1
    assert classify_all([record])[0].rule is None


@pytest.mark.parametrize(
    ("line", "level", "ts_us", "wall"),
    [
        ("[  418.239601] " + RESET, None, 418239601, ""),
        ("[  418.239601][ T2211] " + RESET, None, 418239601, ""),
        ("<6>[  418.239601] " + RESET, 6, 418239601, ""),
        ("kern  :info  : [  418.239601] " + RESET, 6, 418239601, ""),
        ("kern  :info  : [Sat Nov 29 21:58:26 2025] " + RESET, 6, None, "Sat Nov 29 21:58:26 2025"),
        ("[Sat Nov 29 21:58:26 2025] " + RESET, None, None, "Sat Nov 29 21:58:26 2025"),
        ("2026-11-29T21:53:19,708245+00:00 " + RESET, None, None, "2026-11-29T21:53:19,708245+00:00"),
        ("Nov 29 21:58:26 host kernel: [  418.239601] " + RESET, None, 418239601, "Nov 29 21:58:26"),
        ("Nov 29 21:58:26 host kernel: " + RESET, None, None, "Nov 29 21:58:26"),
        ("\x1b[32m[  418.239601] \x1b[0m" + RESET, None, 418239601, ""),
        ("[  418.239601] " + RESET + "\r", None, 418239601, ""),
        (RESET, None, None, ""),
    ],
)
def test_text_forms(line: str, level: int | None, ts_us: int | None, wall: str) -> None:
    (record,) = parse_log(line.encode() + b"\n")
    assert (record.message, record.level, record.ts_us, record.wall) == (RESET, level, ts_us, wall)


def test_json_of_dmesg() -> None:
    records = parse_log(read("dmesg-json-2.38.json"))
    assert [(record.level, record.ts_us) for record in records] == [
        (6, 7657029),
        (3, 418031628),
        (3, 418135576),
        (6, 418239601),
    ]


def test_json_of_a_saved_log_with_the_rest_of_the_file_in_every_message() -> None:
    lines = [RESET, "RKNPU: job commit failed"]
    entries = [{"pri": 6, "time": 1.5, "msg": "\n[    2.5] ".join(lines[index:])} for index in range(2)]
    records = parse_log(json.dumps({"dmesg": entries}).encode())
    assert [record.message for record in records] == lines


def test_json_of_the_journal() -> None:
    records = parse_log(read("journalctl-k.json"))
    assert [record.ts_us for record in records] == [7657029, 418031628, 418239601, 905902304]
    assert records[0].boot == "2f6e3b5a9c1d4e7f8a0b1c2d3e4f5a6b"
    assert records[3].device == "platform:fdab0000.npu" and records[3].level == 3


def test_journal_message_as_bytes_and_other_transports() -> None:
    entry = {"_TRANSPORT": "kernel", "MESSAGE": [*RESET.encode(), 255], "PRIORITY": "6"}
    other = {"_TRANSPORT": "syslog", "MESSAGE": RESET}
    records = parse_log(f"{json.dumps(entry)}\n{json.dumps(other)}\n".encode())
    assert len(records) == 1 and records[0].message.startswith(RESET)


def test_escapes() -> None:
    assert unescape(r"a\x09b\xe2\x80\x94c\x5cd") == "a\tb—c\\d"
    assert unescape("plain") == "plain"


@pytest.mark.parametrize("name", ["dmesg-T.txt", "dmesg-x.txt", "dmesg-json-2.38.json", "journalctl-k.json"])
def test_every_rendering_counts_the_same(name: str) -> None:
    facts = count(classify_all(parse_log(read(name))))
    assert (facts.hangs, facts.resets) == (1, 1)


@given(st.binary(max_size=300))
def test_never_raises(data: bytes) -> None:
    count(classify_all(parse_log(data)))


@given(
    st.lists(st.sampled_from([p.read_bytes() for p in sorted(SAMPLES.glob("*dmesg*"))]), max_size=2),
    st.data(),
)
def test_damaged_logs(logs: list[bytes], data: st.DataObject) -> None:
    blob = b"".join(logs)[:4000]
    start = data.draw(st.integers(0, max(0, len(blob))))
    count(classify_all(parse_log(blob[start:] + blob[:start])))


@given(
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=60),
    st.integers(0, 10**12),
    st.integers(0, 10**9),
)
def test_kmsg_round_trip(message: str, ts_us: int, sequence: int) -> None:
    escaped = "".join(
        chr(b) if 32 <= b < 127 and b != 92 else f"\\x{b:02x}"
        for b in message.encode("utf-8", "surrogatepass")
    )
    (record,) = parse_kmsg([f"6,{sequence},{ts_us},-;{escaped}\n SUBSYSTEM=x\n".encode()])
    assert (record.sequence, record.ts_us) == (sequence, ts_us)
    if "\x1b" not in message:
        assert record.message == message.rstrip("\r\n \t")


@pytest.mark.parametrize(
    "line",
    [
        "[  418.239601] rock-5b kernel: " + RESET,
        "[  418.239601 <    0.000012>] " + RESET,
        "[Nov29 21:58] " + RESET,
        "[  +0.104012] " + RESET,
        "Nov 29 21:58:26.239601 rock-5b kernel: " + RESET,
        "2025-11-29T21:58:26+0000 rock-5b kernel: " + RESET,
        "10.5.0.2: kern:    info: [2025-11-29T21:58:26.239601Z]: " + RESET,
        "kern: warning: [2025-11-29T21:58:26.239601Z]: " + RESET,
    ],
)
def test_more_text_forms(line: str) -> None:
    (record,) = parse_log(line.encode())
    assert record.message == RESET


def test_a_line_beyond_reason_is_cut() -> None:
    (record,) = parse_log(b"[ 1.000000] RKNPU: failed to destroy dma addr: 0x0, size: " + b"9" * 10_000_000)
    assert len(record.message) < 20_000
    assert count(classify_all([record])).leaked_bytes == 0
