"""The main job from the command line: a real model, answers through the simulated NPU, seen from outside."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from orkbench_tui.errors import ExitCode
from tests.conftest import ork

pytestmark = pytest.mark.model

PARIS = ("run", "complete", "The capital of France is", "--temperature", "0", "--max-tokens", "3", "--json")
SKY = (
    "run",
    "chat",
    "--once",
    "Explain in one sentence why the sky is blue.",
    "--temperature",
    "0",
    "--json",
)


def _data(run):
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)["data"]


def test_a_completion_says_paris_and_ran_on_the_npu(home_with_model):
    data = _data(ork(*PARIS))
    assert "Paris" in data["text"]
    assert set(data) == {
        "text", "model", "target", "quant", "prompt_tokens", "generated_tokens", "load_s", "residence",
        "prefill_tok_s", "decode_tok_s", "stop_reason", "npu",
    }  # fmt: skip
    loaded = data["residence"]
    assert loaded["weights"] == loaded["expected"] > 0 and loaded["submits"] == 0
    assert sum(domain["bytes"] for domain in loaded["domains"]) == loaded["bytes"] > 0
    assert set(data["npu"]) == {"submits", "tasks", "predicted_ms"}
    assert data["npu"]["submits"] > 0 and data["npu"]["tasks"] >= data["npu"]["submits"]
    assert data["target"] == "sim" and data["quant"] == "w8a8-rot"
    assert data["prompt_tokens"] == 5 and data["generated_tokens"] == 3


def test_a_chat_speaks_of_scattered_light_and_is_the_same_every_time(home_with_model):
    first, second = (_data(ork(*SKY, "--max-tokens", "60")) for _ in range(2))
    assert "scatter" in first["text"].lower()
    assert first["text"] == second["text"]
    assert first["npu"]["submits"] == second["npu"]["submits"] > 0


def test_the_answer_in_process_is_the_answer_over_the_socket(home_with_model, default_model):
    from orkbench_tui import locations
    from orkbench_tui.driver.npu import Npu
    from orkbench_tui.runner.chat import GenerationLimits, generate
    from orkbench_tui.runner.engine import Engine
    from orkbench_tui.runner.orkpack.reader import OrkPack
    from orkbench_tui.runner.quantize.pack_cache import packed_model
    from orkbench_tui.runner.sampler import Sampler, Sampling
    from orkbench_tui.runner.tokenizer import Tokenizer
    from orkbench_tui.sim.inprocess import InProcessBoard

    prompt = "Water boils at a temperature of"
    over_socket = _data(ork("run", "complete", prompt, "--temperature", "0", "--max-tokens", "24", "--json"))
    pack_path = packed_model(default_model, locations.packs_dir(), lambda *_: None, "w8a8-rot")
    with OrkPack.open(pack_path) as pack, Npu(InProcessBoard().device()) as npu:
        tokenizer = Tokenizer.from_metadata(pack.metadata)
        answer = generate(
            Engine.from_pack(pack, npu, context=512),
            tokenizer,
            tokenizer.encode(prompt),
            Sampler(Sampling(temperature=0.0)),
            limits=GenerationLimits(24, ()),
            on_text=lambda _: None,
            should_stop=lambda: False,
        )
    assert answer.text == over_socket["text"]


def test_another_process_sees_the_cores_loaded_and_the_holder(home_with_model):
    words = [sys.executable, "-m", "orkbench_tui.cli.main", "run", "ppl", "--json"]
    worker = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    busiest = [0, 0, 0]
    holders = set()
    domains = []
    try:
        deadline = time.monotonic() + 120
        while (
            worker.poll() is None
            and time.monotonic() < deadline
            and not (min(busiest) > 0 and holders and domains)
        ):
            data = _data(ork("board", "status", "--json"))
            loads = [core["load_pct"] for core in data["npu"]["cores"]]
            busiest = [max(old, new) for old, new in zip(busiest, loads, strict=True)]
            processes = data["occupancy"]["processes"]
            holders |= {process["pid"] for process in processes}
            domains += [domain for process in processes for domain in process["domains"]]
    finally:
        worker.terminate()
        worker.communicate()
    assert min(busiest) > 0
    assert worker.pid in holders
    assert max(domain["used_bytes"] for domain in domains) > 100e6


def test_killing_the_simulator_in_mid_answer_is_one_line_and_the_next_run_works(home_with_model):
    pid = _data(ork("sim", "start", "--json"))["pid"]
    words = [sys.executable, "-m", "orkbench_tui.cli.main", "run", "ppl"]
    worker = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert any("[1/" in line for line in worker.stderr)
    os.kill(pid, signal.SIGKILL)
    _, errors = worker.communicate(timeout=60)
    assert worker.returncode == ExitCode.NO_DEVICE
    lines = [line for line in errors.splitlines() if not line.startswith("[")]
    assert len(lines) == 1 and lines[0].startswith("error: "), errors
    assert "Paris" in _data(ork(*PARIS))["text"]


def test_the_npu_is_held_by_one_program_and_the_second_is_told_by_whom(home_with_model):
    words = [sys.executable, "-m", "orkbench_tui.cli.main", "run", "ppl"]
    worker = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert any("[1/" in line for line in worker.stderr)
        second = ork(*PARIS)
    finally:
        worker.terminate()
        worker.communicate()
    assert second.returncode == ExitCode.BUSY
    assert f"pid {worker.pid}" in second.stderr and second.stdout == ""


def test_a_prompt_longer_than_the_context_is_refused_with_the_numbers(home_with_model):
    run = ork("run", "complete", "word " * 200, "--context", "64", "--json")
    assert run.returncode == ExitCode.USAGE
    errors = [line for line in run.stderr.splitlines() if line.startswith("error: ")]
    assert run.stdout == "" and len(errors) == 1 and run.stderr.splitlines()[-1] == errors[0]
    assert "201 tokens" in errors[0] and "64" in errors[0] and "--context" in errors[0]


def test_the_demo_is_a_status_page_and_an_answer(home_with_model):
    run = ork("demo", stdin=subprocess.DEVNULL)
    assert run.returncode == 0, run.stderr
    assert "NPU load" in run.stdout and "scatter" in run.stdout.lower()
    assert "started the simulated board" in run.stderr


def test_a_model_damaged_after_the_pull_is_never_used(own_home, default_model):
    from orkbench_tui import locations

    locations.models_dir().mkdir(parents=True)
    stored = locations.models_dir() / default_model.name
    content = bytearray(default_model.read_bytes())
    content[60_000_000:60_000_100] = b"\xaa" * 100
    stored.write_bytes(content)
    run = ork(*PARIS)
    assert run.returncode == ExitCode.FAILED and run.stdout == ""
    assert "is damaged" in run.stderr and "ork model pull" in run.stderr
    assert ork("model", "pull").returncode == 0
    assert stored.read_bytes() == default_model.read_bytes()
