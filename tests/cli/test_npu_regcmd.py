"""``ork npu regcmd``: what it prints, what it reads, how it refuses."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pytest

from orkbench_tui.cli.main import run
from orkbench_tui.errors import ExitCode
from tests.driver.regcmd import captures

PLACES = ["--a", "0xfff00000", "--w", "ffc00000", "--c", "ff800000"]
GOLDEN = ["--dtype", "int8", "--shape", "4,64,64", *PLACES, "--geometry", "cube", "--form", "mtx"]


@pytest.fixture
def stdin(monkeypatch):
    def feed(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return feed


@pytest.mark.parametrize("verb", [[], ["emit"]])
def test_emit_prints_one_word_a_line(verb, capsys):
    assert run(["npu", "regcmd", *verb, *GOLDEN]) == 0
    assert capsys.readouterr().out.split() == captures.MTX_GOLDEN.split()


@pytest.mark.parametrize("verb", [[], ["emit"]])
def test_emit_as_json(verb, capsys):
    assert run(["npu", "regcmd", *verb, *GOLDEN, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "ork.npu.regcmd/1" and document["source"] == "host"
    data = document["data"]
    assert data["words"] == captures.MTX_GOLDEN.split()
    assert (data["dtype"], data["body_words"], data["enable"], data["int_mask"]) == (
        "int8->int32",
        104,
        "0xd",
        "0x300",
    )


@pytest.mark.parametrize("geometry", ["row_major", "cube", "fold"])
@pytest.mark.parametrize("as_json", [False, True])
def test_what_emit_prints_decode_reads(geometry, as_json, capsys, stdin):
    words = ["--dtype", "fp16", "--shape", "8,96,48", *PLACES, "--geometry", geometry]
    assert run(["npu", "regcmd", *words, *(["--json"] if as_json else [])]) == 0
    stdin(capsys.readouterr().out.encode())
    assert run(["npu", "regcmd", "decode", "-", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    operation = data["operation"]
    short = ("op", "dtype", "m", "k", "n", "a", "w", "c")
    assert {name: data[name] for name in short} == {name: operation[name] for name in short}
    assert (operation["op"], operation["dtype"], operation["geometry"]) == ("matmul", "fp16->fp32", geometry)
    assert (operation["m"], operation["k"], operation["n"]) == (8, 96, 48)
    assert (operation["a"], operation["w"], operation["c"]) == ("0xfff00000", "0xffc00000", "0xff800000")
    assert operation["problems"] == []


def test_decode_of_raw_words_shows_fields_and_the_operation(tmp_path, capsys):
    file = tmp_path / "program.bin"
    file.write_bytes(np.array(captures.golden(), dtype="<u8").tobytes())
    assert run(["npu", "regcmd", "decode", str(file)]) == 0
    text = capsys.readouterr().out
    assert "cna_data_size1           0x003f0040  channel_real_minus1=63 channel=64" in text
    assert "operation: matmul  int8->int32  m=4  k=64  n=64  cube" in text
    assert "task: enable 0xd, int_mask 0x300" in text
    assert "error" not in text and "finding" not in text


def test_decode_of_a_foreign_chain(tmp_path, capsys):
    body = captures.golden()[:104]
    stream = [*captures.program(body, 0x0D, 0xFFF00000, 26), *captures.sdp(captures.SDP_ROWS[0][1])]
    file = tmp_path / "chain.json"
    file.write_text(json.dumps([f"{word:016x}" for word in stream]))
    assert run(["npu", "regcmd", "decode", str(file), "--json", "--operations"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert [program["operation"]["op"] for program in data["programs"]] == ["matmul", "sdp mul"]
    assert data["programs"][0]["operation"]["chained_to"] == "0xfff00000"
    assert "instructions" not in data["programs"][0] and data["findings"] == []


def test_problems_and_findings_are_printed(tmp_path, capsys):
    file = tmp_path / "broken.json"
    words = captures.matmul(captures.RKNN_ROW_MAJOR, r1040=0xA1, r1020=0x10004)
    file.write_text(json.dumps([*words[:-4], 0x0201 << 48 | 0x1FF0, 0, *words[-4:]]))
    assert run(["npu", "regcmd", "decode", str(file)]) == 0
    text = capsys.readouterr().out
    assert "error: banks: 1 data banks and 10 weight banks" in text
    assert "no register of CNA is known at 0x1ff0" in text


def test_a_long_stream_is_summed_up(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("orkbench_tui.cli.npu_regcmd.LISTED_WORDS", 200)
    file = tmp_path / "long.json"
    file.write_text(json.dumps(captures.golden() * 3))
    assert run(["npu", "regcmd", "decode", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["data"]["programs"]) == 3 and document["warnings"]
    assert "instructions" not in document["data"]["programs"][0]
    assert run(["npu", "regcmd", "decode", str(file)]) == 0
    assert "the words are not listed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "code", "why"),
    [
        (b"", ExitCode.FAILED, "is empty"),
        (b"\x04\x40\x0e\x00\x00", ExitCode.FAILED, "5 bytes are not a whole number"),
        (b"[1,", ExitCode.FAILED, "is not JSON"),
        (b'["xyz"]', ExitCode.FAILED, "entry 0 is 'xyz'"),
        (b"[0, 0]", ExitCode.FAILED, "no program"),
        (b'["\x1b[31m"]', ExitCode.FAILED, "is not JSON"),
        (None, ExitCode.USAGE, "no file"),
    ],
)
def test_a_bad_file_is_one_line(content, code, why, tmp_path, capsys):
    file = tmp_path / "program"
    if content is not None:
        file.write_bytes(content)
    assert run(["npu", "regcmd", "decode", str(file)]) == code
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert why in captured.err and "\x1b" not in captured.err and "defect" not in captured.err


def test_a_huge_file_is_refused(tmp_path, capsys):
    file = tmp_path / "huge"
    with file.open("wb") as stream:
        stream.truncate((64 << 20) + 8)
    assert run(["npu", "regcmd", "decode", str(file)]) == ExitCode.FAILED
    assert "over 64 MiB" in capsys.readouterr().err


def test_a_file_of_nothing_but_starts_is_refused(tmp_path, capsys):
    file = tmp_path / "starts"
    file.write_bytes(np.full(1 << 16, 0x0081 << 48 | 0x0D << 16 | 8, dtype="<u8").tobytes())
    assert run(["npu", "regcmd", "decode", str(file)]) == ExitCode.FAILED
    assert "65536 programs, a run has up to 65535" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"--shape": "4,31,64"}, "K = 31: allowed: 32 to 16384, a multiple of 32"),
        ({"--shape": "9999,64,64"}, "M = 9999: allowed: 1 to 1022"),
        ({"--shape": "4,64,99999"}, "N = 99999: allowed: 32 to 8192"),
        ({"--shape": "4,64"}, "--shape 4,64: allowed: three whole numbers"),
        ({"--shape": "4,-64,64"}, "--shape 4,-64,64"),
        ({"--shape": "4,64,x"}, "--shape 4,64,x"),
        ({"--dtype": "int9"}, "--dtype int9: allowed: int8"),
        ({"--a": "8"}, "--a 0x8: allowed: 0x0 to 0xfffffff0, a multiple of 16"),
        ({"--w": "100000000"}, "--w 0x100000000"),
        ({"--c": "where"}, "--c where: allowed: a hex number"),
        ({"--geometry": "ring"}, "--geometry ring: allowed"),
        ({"--form": "ring"}, "--form ring: allowed"),
        ({"--c": None}, "--c is missing"),
    ],
)
@pytest.mark.parametrize("verb", [[], ["emit"]])
def test_a_bad_option_is_a_usage_error(verb, changes, why, capsys):
    options = {"--dtype": "int8", "--shape": "4,64,64", "--a": "0", "--w": "0", "--c": "0", **changes}
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    assert run(["npu", "regcmd", *verb, *words]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == "" and why in captured.err and captured.err.count("\n") == 1


def test_options_in_front_of_decode_are_refused(capsys):
    assert run(["npu", "regcmd", "--dtype", "int8", "decode", "f"]) == ExitCode.USAGE
    assert "options before 'decode'" in capsys.readouterr().err


def test_no_words_is_help_and_a_usage_error(capsys):
    assert run(["npu", "regcmd"]) == ExitCode.USAGE
    assert "decode" in capsys.readouterr().out
