"""Figures and profiles of other tools, in the forms they print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.driver.timing.published import figure
from orkbench_tui.errors import InvalidFileError
from orkbench_tui.runner.bench.foreign import foreign_lines, read_foreign
from orkbench_tui.runner.bench.profiles import op_shares, stack_profile
from tests.conftest import ork

LLAMA_MD = """\
| model          |     size |   params | backend | threads |   test |           t/s |
| -------------- | -------: | -------: | ------- | ------: | -----: | ------------: |
| qwen2 7B Q8_0  | 7.54 GiB |   7.62 B | ork     |       4 |  pp512 |  45.30 ± 0.21 |
| qwen2 7B Q8_0  | 7.54 GiB |   7.62 B | ork     |       4 |  tg128 |   0.90 ± 0.02 |

build: fc0d618c8 (4712)
"""
VENDOR = """\
I rkllm: --------------------------------------------------------------------------------------
I rkllm:  Stage         Total Time (ms)  Tokens    Time per Token (ms)      Tokens per Second
I rkllm: --------------------------------------------------------------------------------------
I rkllm:  Prefill       2260.75          163       13.87                    72.10
I rkllm:  Generate      15763.55         64        246.31                   4.06
"""


def _values(text: str) -> dict[str, float]:
    return {f"{row.tool} {row.test}": row.value for row in read_foreign(text)}


def test_llama_bench_in_its_forms() -> None:
    rows = read_foreign(LLAMA_MD)
    assert [(row.test, row.value, row.spread, row.build) for row in rows] == [
        ("pp512", 45.30, 0.21, "fc0d618c8"),
        ("tg128", 0.90, 0.02, "fc0d618c8"),
    ]
    documents = [
        {"n_prompt": 512, "n_gen": 0, "avg_ts": 45.3, "stddev_ts": 0.2, "build_commit": "fc0d618c8"},
        {"n_prompt": 512, "n_gen": 128, "avg_ts": 7.5, "stddev_ts": 0.1},
    ]
    for text in (json.dumps(documents), "\n".join(map(json.dumps, documents))):
        assert _values(text) == {"llama-bench pp512": 45.3, "llama-bench pp512+tg128": 7.5}
    assert {row.label for row in rows} == {"published"}
    assert "45.3" in foreign_lines(rows)[1] and "build fc0d618c8" in foreign_lines(rows)[1]


def test_the_vendor_s_runtime_and_rk_bench_give_the_study_s_figures() -> None:
    assert _values(VENDOR) == {"rkllm pp163": 72.10, "rkllm tg64": 4.06}
    text = "prefill: 163 tokens, 72.1 tok/s\nprefill: 1390 tokens, 68.9 tok/s\ndecode: 4.06 tok/s\n"
    found = _values(text)
    assert found == {"rk_bench prefill 163": 72.1, "rk_bench prefill 1390": 68.9, "rk_bench decode": 4.06}
    for key, name in (("163 tokens", "prefill 163"), ("1390 tokens", "prefill 1390"), ("decode", "decode")):
        assert found[f"rk_bench {name}"] == figure(f"RES-78 {key}").value


def test_the_open_stack_s_bench_perplexity_and_matmul_comparison() -> None:
    text = "prefill: 512 tok in 2949.8 ms = 173.57 tok/s (ubatch=512)\ndecode: 64 tok = 3.64 tok/s\n"
    assert _values(text) == {"ork_bench pp512 ubatch 512": 173.57, "ork_bench decode": 3.64}
    assert figure("RES-50 prefill").value == 173.57
    assert _values("chunk 7 PPL 11.2\nfinal PPL = 10.4421 (exp mean NLL)\n") == {
        "ork_ppl perplexity": 10.4421
    }
    rows = _values("MxKxN ork1 ork3 rknn1 ratio\n512x2048x2048  4763 2480 2573 1.85x\n")
    assert rows["rknn_vs_ork 512x2048x2048 ork 1 core"] == figure("RES-08 copied").value
    assert rows["rknn_vs_ork 512x2048x2048 rknn 1 core"] == figure("RES-07 closed runtime").value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing here",
        "prefill: 512 tok in 2949.8 ms = 999 tok/s (ubatch=512)",
        "prefill: 512 tok in 0 ms = 173 tok/s",
        "prefill: 1.2.3 tok/s",
        VENDOR.replace("72.10", "172.10"),
        '[{"n_prompt": 512, "n_gen": 0, "avg_ts": "fast"}]',
    ],
)
def test_what_is_no_figure_or_contradicts_itself_is_refused(text: str) -> None:
    with pytest.raises(InvalidFileError):
        read_foreign(text)


@given(st.text(max_size=300))
def test_any_text_is_figures_or_one_error(text: str) -> None:
    for reader in (read_foreign, op_shares, stack_profile):
        try:
            assert reader(text)
        except InvalidFileError as error:
            assert "\n" not in error.line()


def test_shares_of_operations_add_up_to_all_of_it() -> None:
    shares = op_shares("MUL_MAT 120.5 ms\nSOFT_MAX: 30 ms\nROPE 9500 us\nMUL_MAT 0.04 s\ntotal 200 ms\n")
    assert [share.name for share in shares] == ["MUL_MAT", "SOFT_MAX", "ROPE"]
    assert shares[0].ms == pytest.approx(160.5) and shares[0].percent == pytest.approx(80.25)
    assert sum(share.percent for share in shares) == pytest.approx(100)


def _stack(*frames: str) -> str:
    return "".join(
        f"#{at}  0x0000ffff{at:08x} in {name} (x=1) at a.c:{at}\n" for at, name in enumerate(frames)
    )


def test_thirty_stacks_in_the_loader_are_a_load_and_no_computation() -> None:
    loading = _stack("orki_i4_untile_blob", "ork_i4a8_mm_load_tiled", "ggml_backend_graph_compute", "main")
    found = stack_profile(loading * 30)
    assert (found.samples, found.dominant, found.classes) == (30, "load", {"load": 30})
    assert found.frames == (("orki_i4_untile_blob", 30),)
    waiting = _stack("ioctl", "ork_submit", "ork_i8_mm_run", "main")
    mixed = stack_profile(loading * 10 + waiting * 20 + _stack("strange", "main") * 2)
    assert mixed.dominant == "compute" and mixed.classes == {"load": 10, "compute": 20, "unknown": 2}
    assert mixed.frames[0] == ("ork_submit", 20)
    assert stack_profile(loading + waiting).dominant == ""


def test_the_command_shows_whatever_the_text_holds(tmp_path: Path) -> None:
    texts = {
        "figures": (LLAMA_MD, "fc0d618c8"),
        "stacks": (_stack("ioctl", "ork_run", "main") * 3, "3 stacks: compute"),
        "operations": ("MUL_MAT 3 ms\nROPE 1 ms\n", "75.0 %"),
    }
    for name, (text, shown) in texts.items():
        (tmp_path / name).write_text(text)
        done = ork("run", "bench", "read", str(tmp_path / name))
        assert done.returncode == 0 and shown in done.stdout, done.stderr
        document = json.loads(ork("run", "bench", "read", str(tmp_path / name), "--json").stdout)
        assert name in document["data"]
    (tmp_path / "other").write_text("hello")
    refused = ork("run", "bench", "read", str(tmp_path / "other"))
    assert refused.returncode == 1 and "no figures of a known tool" in refused.stderr
