"""Whether all experts can be in NPU memory: arithmetic that agrees with what was published of real models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from orkbench_tui.driver.experts.pool import ExpertPool
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.timing.published import figure
from orkbench_tui.errors import RefusedError
from orkbench_tui.runner.expert_residency import (
    expert_residency,
    require_experts_resident,
    weights_of_window,
)
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.models.architecture import Architecture, Experts
from orkbench_tui.runner.models.read_architecture import architecture_of
from orkbench_tui.runner.orkpack.placement import Policy
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.reference.tiny_experts import write_tiny_experts

GIB = 1 << 30


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Architecture:
    with GgufFile.open(write_tiny_experts(tmp_path_factory.mktemp("m") / "m.gguf")) as model:
        return architecture_of(model)


def of_size(tiny: Architecture, *, layers: int, embedding: int, experts: int, ff: int) -> Architecture:
    return replace(
        tiny, layers=layers, embedding=embedding, moe=Experts(experts, 8, ff), windows=(0,) * layers
    )


def test_the_35b_model_is_refused_before_anything_runs(tiny: Architecture) -> None:
    """256 experts of 3.15 MB in 40 layers: 30 GiB as int8, eight windows, more than a board of 31 GiB has left."""
    model = of_size(tiny, layers=40, embedding=2048, experts=256, ff=512)
    found = expert_residency(model, 29 * GIB)
    assert found.weights == 256 * 40 * 3
    assert found.bytes == 256 * 40 * 3 * 2048 * 512 == pytest.approx(3.15e6 * 256 * 40, rel=0.002)
    assert found.bytes > 4 * GIB and found.windows == -(-found.bytes // found.window_bytes)
    with pytest.raises(RefusedError, match=r"GRD-28.*30720 weights.*keep experts on the CPU"):
        require_experts_resident(found)


def test_more_than_sixteen_windows_are_refused_whatever_the_memory(tiny: Architecture) -> None:
    model = of_size(tiny, layers=94, embedding=4096, experts=128, ff=1536)
    found = expert_residency(model, None)
    assert found.windows > 16 and "allowed: 16" in found.refusal
    with pytest.raises(RefusedError, match="GRD-28"):
        require_experts_resident(found)


def test_a_model_that_fits_is_let_in(tiny: Architecture) -> None:
    found = expert_residency(tiny, GIB)
    assert (found.weights, found.windows, found.refusal) == (8 * 3 * 3, 1, "")
    require_experts_resident(found)
    assert expert_residency(tiny, 100_000).refusal
    small = expert_residency(tiny, None, Policy(ceiling_bytes=100_000))
    # Pages of 4096 and whole weights: a window is not filled to its last byte.
    assert small.windows > small.bytes / 100_000
    with pytest.raises(ValueError, match="no experts"):
        expert_residency(replace(tiny, moe=None), None)


def test_one_window_ends_where_upstream_ran_into_it() -> None:
    """Weights of 2048 by 512 with their second copy over the whole K: about 1909 to 2067 were seen to fit."""
    fit = weights_of_window(2048, 512, want_full_k=True)
    assert fit == pytest.approx(figure("RES-25 wall").value, rel=0.03)
    assert fit < figure("RES-25 in the pack").value, "all of that pack's experts never fit one window"


def test_a_pool_that_does_not_fit_the_window_loads_nothing() -> None:
    board = InProcessBoard()
    with Npu(board.device()) as npu:
        most = weights_of_window(4096, 4096)
        before = npu.memory.used_bytes(0)
        with pytest.raises(RefusedError, match=rf"GRD-28.*{most + 1} places"):
            ExpertPool(npu, most + 1, 4096, 4096, lambda _expert: np.zeros(0, np.int8))
        assert npu.memory.used_bytes(0) == before
    board.close()
