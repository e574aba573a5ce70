"""What a run does not do: read the environment, allocate, sync more than it must, reset on its own."""

import ast
from pathlib import Path

import numpy as np
import pytest

import orkbench_tui.driver
from orkbench_tui.driver import uapi
from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.memory import Memory
from orkbench_tui.driver.npu import Npu
from tests.driver.gated_board import FaultyDevice
from tests.driver.path_operands import expected, random_matrix

DRIVER = Path(orkbench_tui.driver.__file__).parent
MODULES = sorted(DRIVER.rglob("*.py"))


@pytest.fixture
def random():
    return np.random.default_rng(9)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(DRIVER)))
def test_no_driver_module_reads_the_environment(path):
    """Settings come in as arguments; a look-up per run would cost more than a compiled run does."""
    names = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute | ast.Name)
    }
    assert not names & {"environ", "getenv", "environb"}


def test_only_the_npu_itself_asks_for_a_reset():
    asking = [path.name for path in MODULES if "ActionCode.ACT_RESET" in path.read_text()]
    assert asking == ["npu.py"]


@pytest.mark.parametrize(("n", "k"), [(32, 64), (256, 2048), (64, 8224)])
def test_a_weight_takes_one_sync_beside_that_of_its_fresh_buffer(npu, random, n, k):
    before = npu.memory.syncs
    npu.load(INT8, "w", random_matrix(INT8, (n, k), random))
    assert npu.memory.syncs - before == 2


def test_a_thousand_runs_take_no_memory_and_two_syncs_each(board, random):
    device = FaultyDevice(board, lambda request, argument, nth: False)
    with Npu(device) as npu:
        weight = npu.load(INT8, "w", random_matrix(INT8, (32, 64), random))
        matmul = npu.matmul([weight], 2)
        matmul.run_on(0)
        before = dict(device.counts)
        for _ in range(1000):
            matmul.run_on(0)
        made = {request: count - before[request] for request, count in device.counts.items()}
    assert made[uapi.RKNPU_MEM_CREATE] == 0
    assert made[uapi.RKNPU_MEM_SYNC] == 2000
    assert made[uapi.RKNPU_SUBMIT] == 1000 * len(matmul._jobs or [1])


def test_chains_over_the_cores_are_synced_before_the_first_and_after_the_last_submit(
    npu, random, monkeypatch
):
    weight = npu.load(INT8, "w", w := random_matrix(INT8, (32, 512), random))
    a = random_matrix(INT8, (2, 512), random)
    chains = [npu.chain([ChainTask(weight, 2, a=a)]) for _ in range(6)]
    robin = npu.round_robin(chains)
    robin.run()
    seen = []
    sync, run_on = Memory.sync, type(npu.context.submitter).run_on
    monkeypatch.setattr(
        Memory, "sync", lambda self, part, way: (seen.append(int(way)), sync(self, part, way))[1]
    )
    monkeypatch.setattr(
        type(npu.context.submitter),
        "run_on",
        lambda self, core, job: (seen.append("submit"), run_on(self, core, job))[1],
    )
    robin.run()
    assert seen == [1] * 6 + ["submit"] * 6 + [2] * 6
    for chain in chains:
        np.testing.assert_array_equal(chain.outputs[0], expected(INT8, a, w))


def test_results_of_polled_paths_are_read_in_ordinary_memory(npu, random):
    """Uncached memory is read once, in one piece, never by the caller."""
    weight = npu.load(INT8, "w", random_matrix(INT8, (32, 512), random))
    a = random_matrix(INT8, (1, 512), random)
    program = npu.compile(weight, a)
    doorbell = npu.doorbell()
    doorbell.build([ChainTask(weight, 1, a=a)])
    uncached = [b for b in npu.memory._buffers.values() if not b.flags & uapi.MemFlag.CACHEABLE]
    assert uncached
    for output in (*program.outputs, *doorbell.outputs):
        assert not any(np.shares_memory(output, buffer.view) for buffer in uncached)
