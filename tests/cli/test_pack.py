"""``ork pack``, and a pack that runs where its model file is gone."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from orkbench_tui.runner.quantize.pack_model import pack_gguf
from tests.conftest import ork
from tests.reference.tiny_models import write_tiny_llama


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_tiny_llama(tmp_path / "tiny.gguf", quant="Q8_0")


@pytest.fixture
def pack(tiny: Path, tmp_path: Path) -> Path:
    pack_gguf(tiny, tmp_path / "tiny.orkpack", created=0)
    return tmp_path / "tiny.orkpack"


def data_of(*words: str, code: int = 0) -> dict[str, Any]:
    done = ork("pack", *words, "--json")
    assert done.returncode == code, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)["data"]
    return data


def test_a_pack_alone_answers_as_its_model_does(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORK_DISPATCH", "all=npu")
    words = ("run", "complete", "hello there", "--max-tokens", "6", "--temperature", "0", "--json", "--model")
    with_model = json.loads(ork(*words, str(tiny), "--quant", "w8a8-rot").stdout)["data"]
    out = tmp_path / "away" / "any-name.orkpack"
    out.parent.mkdir()
    assert ork("pack", "build", str(tiny), "--out", str(out)).returncode == 0
    tiny.unlink()
    done = ork(*words, str(out))
    assert done.returncode == 0, done.stderr
    alone = json.loads(done.stdout)["data"]
    assert alone["text"] == with_model["text"] and alone["npu"]["submits"] > 0
    assert (alone["model"], alone["quant"]) == ("any-name", "w8a8-rot")
    chat = ork("run", "chat", "--once", "hi", "--max-tokens", "4", "--model", str(out))
    assert chat.returncode == 0 and chat.stdout.strip(), chat.stderr


def test_a_pack_has_no_float_weights(pack: Path) -> None:
    done = ork("run", "complete", "hi", "--quant", "f32", "--model", str(pack))
    assert done.returncode == 2 and "holds no float32 weights" in done.stderr


def _changed(pack: Path, offset: int, value: bytes) -> None:
    data = bytearray(pack.read_bytes())
    data[offset : offset + len(value)] = value
    if offset < 256:
        data[152:156] = bytes(4)
        data[152:156] = struct.pack("<I", zlib.crc32(data[:256]))
    pack.write_bytes(data)


@pytest.mark.parametrize("what", ["newer", "flipped", "cut", "empty", "foreign"])
def test_packs_that_cannot_be_used_are_refused_with_the_reason(pack: Path, what: str) -> None:
    content = pack.read_bytes()
    if what == "newer":
        _changed(pack, 8, struct.pack("<H", 9))
    elif what == "flipped":
        _changed(pack, 5000, bytes([content[5000] ^ 1]))
    else:
        pack.write_bytes({"cut": content[:9000], "empty": b"", "foreign": b"<html>hello</html>"}[what])
    reasons = {"newer": "version 9", "flipped": "checksum of tensor", "cut": "damaged", "empty": "empty",
               "foreign": "HTML"}  # fmt: skip
    for words in (
        ("run", "complete", "hi", "--max-tokens", "1", "--model", str(pack)),
        ("pack", "verify", str(pack)),
    ):
        done = ork(*words)
        assert done.returncode == 1 and reasons[what] in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1 or what == "flipped"


def test_plan_shows_domains_before_anything_is_built(tiny: Path, tmp_path: Path) -> None:
    facts = data_of("plan", str(tiny))
    assert len(facts["domains"]) == 1 and facts["layers_per_domain"] is None
    assert facts["domains"][0]["layers"] == [-1, 0, 1, 2]
    assert not list(tmp_path.glob("*.orkpack*"))
    big = data_of("plan", "--shapes", "qwen-27b-like:w4a4")
    assert len(big["domains"]) == 11 and big["worst_domain_bytes"] / 2**30 == pytest.approx(1.06, abs=0.005)
    text = ork("pack", "plan", "--shapes", "qwen-27b-like").stdout
    assert "22.66 GiB of weights in 13 domains" in text and "GiB of weights by domain" in text and "█" in text
    assert "while it runs, without keys and values: 2" in text
    assert big["working_set"]["needed_bytes"] > big["weight_bytes"]
    assert ork("pack", "plan").returncode == 2


def test_a_model_that_fits_nowhere_is_refused_with_the_weight_named(tmp_path: Path) -> None:
    rows = [{"name": f"blk.{n}.ffn_up.weight", "K": 32768, "N": 65536} for n in range(20)]
    (tmp_path / "s.json").write_text(json.dumps(rows))
    done = ork("pack", "plan", "--shapes", str(tmp_path / "s.json"))
    assert done.returncode == 12 and "blk.16.ffn_up.weight" in done.stderr


def test_build_info_verify_diff(tiny: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.orkpack", tmp_path / "b.orkpack"
    built = data_of("build", str(tiny), "--out", str(first), "--jobs", "1")
    assert (
        built["scheme"] == "w8a8-rot"
        and built["file_bytes"] == first.stat().st_size
        and built["peak_bytes"] > 1 << 20
    )
    assert data_of("build", str(tiny), "--out", str(second), "--quant", "w8a8")["scheme"] == "w8a8"
    facts = data_of("info", str(first))
    assert facts["packed"] == 22 and facts["rotation_blocks"] == {"32": 3, "128": 19}
    assert facts["placement"]["domains"][0]["weights"] == 22
    assert "scheme     w8a8-rot" in ork("pack", "info", str(first)).stdout
    assert (
        data_of("verify", str(first))["checked_bytes"]
        > data_of("verify", str(first), "--level", "index")["checked_bytes"]
    )
    found = data_of("diff", str(first), str(second), code=1)["differences"]
    assert found[0] == {"what": "scheme", "first": "w8a8-rot", "second": "w8a8"}
    assert any(row["what"] == "tensor blk.0.attn_q.weight rotation" for row in found)
    assert data_of("diff", str(first), str(first))["differences"] == []


@pytest.mark.parametrize("words", [("diff",), ("reside",)])
def test_damage_is_neither_no_difference_nor_loaded(
    pack: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    whole = tmp_path / "whole.orkpack"
    whole.write_bytes(pack.read_bytes())
    _changed(pack, 5000, bytes([whole.read_bytes()[5000] ^ 1]))
    others = (str(whole),) if words == ("diff",) else ()
    done = ork("pack", *words, *others, str(pack))
    assert done.returncode == 1 and "checksum of tensor" in done.stderr
    assert "ork pack build" in done.stderr and not done.stdout


def test_a_file_of_the_other_kind_is_told_what_it_is_for(tiny: Path, pack: Path) -> None:
    assert "becomes a pack by: ork pack build" in ork("pack", "info", str(tiny)).stderr
    assert "name the model it was made from" in ork("pack", "build", str(pack)).stderr


def test_a_folder_for_the_finished_file_is_refused_before_the_work_and_a_new_one_made(
    tiny: Path, tmp_path: Path
) -> None:
    for words in (("build",), ("calibrate",)):
        done = ork("pack", *words, str(tiny), "-o", str(tmp_path))
        assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith(
            f"error: {tmp_path} is a folder"
        )
        assert "packing" not in done.stderr and "calibrating" not in done.stderr
    assert ork("pack", "build", str(tiny), "-o", str(tmp_path / "new" / "er" / "x.orkpack")).returncode == 0


def test_nothing_of_another_model_is_overwritten(tiny: Path, pack: Path, tmp_path: Path) -> None:
    other = write_tiny_llama(tmp_path / "other.gguf", seed=8)
    before = pack.read_bytes()
    done = ork("pack", "build", str(other), "--out", str(pack))
    assert done.returncode == 7 and "another model" in done.stderr and pack.read_bytes() == before
    assert ork("pack", "build", str(other), "--out", str(pack), "--replace").returncode == 0
    assert (tmp_path / "tiny.orkpack.old").read_bytes() == before
    assert ork("pack", "build", str(tiny), "--quant", "w3").returncode == 2


def test_a_terminated_build_is_gone_on_with(tmp_path: Path) -> None:
    source, out = write_tiny_llama(tmp_path / "m.gguf"), tmp_path / "m.orkpack"
    code = (
        "import os, signal, orkbench_tui.cli.pack as p, orkbench_tui.cli.main as m\n"
        "def show(display):\n"
        "    return lambda what, done, total: os.kill(os.getpid(), 9) if 'blk.1' in what else None\n"
        "p._with_peak = show\n"
        f"m.run(['pack', 'build', {str(source)!r}, '--out', {str(out)!r}])"
    )
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, timeout=60).returncode == -9
    assert not out.exists()
    done = ork("pack", "build", str(source), "--out", str(out))
    assert done.returncode == 0 and "an earlier build was stopped" in done.stderr
    assert ork("pack", "verify", str(out)).returncode == 0
    assert not list(tmp_path.glob("*.tmp*"))


def test_errors_of_one_matmul(tiny: Path, tmp_path: Path) -> None:
    data = data_of("qerr", str(tiny), "--tensor", "blk.1.ffn_up.weight")
    assert data["source_type"] == "Q8_0" and data["low_bit_source"] is False
    errors = data["errors"]
    assert errors["q4_0 (ggml)"]["of_q4_0"] == 1
    assert errors["w8a8-rot"]["relative"] < errors["w4a8-g32-rot"]["relative"] < errors["w4a4"]["relative"]
    for row in errors.values():
        assert 0 < row["p50"] < row["p90"] < row["p99"] <= row["worst"]
    text = ork("pack", "qerr", str(tiny)).stdout
    assert "nf4-a8" in text and "1.00x" in text
    assert ork("pack", "qerr", str(tiny), "--tensor", "nothing").returncode == 2


def test_a_low_bit_source_is_refused_unless_forced_and_then_stamped(tmp_path: Path) -> None:
    from orkbench_tui.runner.gguf_file import GgufFile

    source = write_tiny_llama(tmp_path / "low.gguf", quant="Q4_0")
    with GgufFile.open(source) as file:
        assert file.tensors["blk.0.ffn_down.weight"].type.name == "Q4_0"
    done = ork("pack", "qerr", str(source))
    assert done.returncode == 7 and "round it twice" in done.stderr
    assert data_of("qerr", str(source), "--force")["low_bit_source"] is True


def test_one_module_owns_the_plotting_library() -> None:
    import orkbench_tui

    root = Path(orkbench_tui.__file__).parent
    users = [str(p.relative_to(root)) for p in root.rglob("*.py") if "import plotext" in p.read_text()]
    assert users == ["cli/plots.py"]


def test_packing_needs_no_npu_and_gives_the_bytes_a_machine_with_one_makes(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No board is here: packing and the CPU's arithmetic work, and what needs the NPU ends at once."""
    monkeypatch.setenv("ORK_TARGET", "board")
    without, beside = tmp_path / "without.orkpack", tmp_path / "beside.orkpack"
    assert ork("pack", "build", str(tiny), "--out", str(without)).returncode == 0
    assert (
        ork("run", "complete", "a", "--model", str(tiny), "--quant", "f32", "--max-tokens", "1").returncode
        == 0
    )
    for words in (("npu", "matmul", "--shape", "1,32,32"), ("run", "complete", "a", "--model", str(without))):
        refused = ork(*words)
        assert refused.returncode == 3 and refused.stderr.count("error:") == 1, refused.stderr
    monkeypatch.setenv("ORK_TARGET", "sim")
    assert ork("sim", "start").returncode == 0
    assert ork("pack", "build", str(tiny), "--out", str(beside)).returncode == 0
    assert ork("pack", "diff", str(without), str(beside)).returncode == 0
