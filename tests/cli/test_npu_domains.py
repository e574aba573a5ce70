"""``ork npu domains`` on published files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from orkbench_tui.cli.npu import app
from orkbench_tui.driver.domains import DomainSettings
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.occupancy import Publisher
from orkbench_tui.sim.inprocess import InProcessBoard


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("orkbench_tui.target.occupancy_dir", lambda: tmp_path)
    return tmp_path


def _run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["domains", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_nobody_is_said(folder: Path) -> None:
    assert _run() == "no running program of ours holds NPU memory\n"
    assert json.loads(_run("--json"))["data"] == {"processes": []}


def test_a_process_is_shown_domain_by_domain(folder: Path) -> None:
    board = InProcessBoard()
    publisher = Publisher(folder, device="card1", source="sim", command="ork run\x1b[31m")
    settings = DomainSettings(settle_us=0)
    with Npu(board.device(), heap=board.heap, publisher=publisher, domain_settings=settings) as npu:
        matrix = np.ones((64, 64), dtype=np.int8)
        hole = npu.load(INT8, "first", matrix)
        npu.load(INT8, "second", matrix)
        npu.free(hole)
        npu.load(INT8, "import", matrix, domain=2, imported=True)
        publisher.publish(npu.memory, npu.counters, domains=npu.domain_switching, force=True)
        (process,) = json.loads(_run("--json"))["data"]["processes"]
        assert process["pid"] == os.getpid() and process["source"] == "sim"
        zero, two = process["domains"]
        assert (zero["id"], zero["buffers"], zero["holes"], zero["active"]) == (0, 1, 2, False)
        assert zero["used_bytes"] == 4096
        assert (two["imports"], two["imported_bytes"], two["anchors"], two["active"]) == (1, 4096, 1, True)
        assert two["used_bytes"] == (64 << 10) + 4096
        assert process["active_domain"] == 2
        assert process["switches"] == {"total": 1, "first_touch": 1, "steady": 0, "implicit": 0}
        text = _run()
        assert "\x1b" not in text and "largest hole" in text and "active" in text
        assert "switches: 1, of them 1 first touch and 0 steady" in text
        assert _run("--target", "board") == "no running program of ours holds NPU memory\n"
    assert _run() == "no running program of ours holds NPU memory\n"
    board.close()


def test_figures_an_older_process_does_not_give_are_unknown(folder: Path) -> None:
    record = {
        "pid": os.getpid(), "command": "ork", "device": "card1", "source": "board", "started": 1.0,
        "domains": [
            {"id": 0, "used_bytes": 4096, "buffers": 1, "largest_free_bytes": 1, "capacity_bytes": 1 << 32}
        ],
        "counters": {"submits": 0, "tasks": 0, "hw_ns": 0},
    }  # fmt: skip
    (folder / f"{os.getpid()}.json").write_text(json.dumps(record))
    assert _run().count("unknown") == 2
    (process,) = json.loads(_run("--json"))["data"]["processes"]
    assert process["domains"][0]["holes"] is None and process["switches"] is None
