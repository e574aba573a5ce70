"""Every number format through every way of submitting gives the same, right result."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.matmul.formats import FORMATS, INT8
from orkbench_tui.driver.modes import Mode, transition_table
from orkbench_tui.driver.run_paths import PATH_MODES
from orkbench_tui.driver.task_rules import FULL_K_GRANULE
from tests.driver.path_operands import FORMAT_NAMES, NARROW, expected, matches, random_matrix

_MODEST = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def _sizes(format, groups, columns):
    """K and N the chain paths take: int8 needs whole multiples of 512."""
    granule = FULL_K_GRANULE if format.precision.input_bits == 8 else format.precision.k_granule
    return granule * groups, format.precision.kernel_group * columns


def _tasks(npu, format, sizes, random, rows=None):
    """(tasks, activations, matrices), the weights loaded; results are narrowed where the format is."""
    tasks, pairs = [], []
    for index, (height, groups, columns) in enumerate(sizes):
        k, n = _sizes(format, groups, columns)
        w = random_matrix(format, (n, k), random)
        a = random_matrix(format, (rows or height, k), random)
        weight = npu.load(format, f"w{index}", w)
        tasks.append(ChainTask(weight, len(a), a=a, convert=NARROW.get(format.name)))
        pairs.append((a, w))
    return tasks, pairs


@pytest.mark.parametrize("name", FORMAT_NAMES)
@_MODEST
@given(
    m=st.integers(1, 70),
    k=st.integers(1, 900),
    n=st.integers(1, 150),
    seed=st.integers(0, 2**31),
    one=st.booleans(),
)
def test_blocking_and_spread(npu, name, m, k, n, seed, one):
    format, random = FORMATS[name], np.random.default_rng(seed)
    a, w = random_matrix(format, (m, k), random), random_matrix(format, (n, k), random)
    weight = npu.load(format, "w", w)
    matmul = npu.matmul([weight], m, NARROW.get(name))
    matmul.a[:] = 0
    matmul.a[:, :k] = a
    matmul.run_on(1) if one else matmul.run()
    assert matches(format, matmul.outputs[0][:, :n], a, w)
    assert not matmul.outputs[0][:, n:].any()
    matmul.close()
    npu.free(weight)


@pytest.mark.parametrize("name", FORMAT_NAMES)
@_MODEST
@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 40), st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=5
    ),
    seed=st.integers(0, 2**31),
    core=st.integers(0, 2),
)
def test_chain(npu, name, sizes, seed, core):
    format, random = FORMATS[name], np.random.default_rng(seed)
    rows = sizes[0][0] if name.startswith("fp16") else None
    tasks, pairs = _tasks(npu, format, sizes, random, rows)
    before = npu.counters
    chain = npu.chain(tasks, core=core)
    chain.run()
    used = npu.counters.since(before)
    assert used.submits == used.core_submits[core] == 1 and used.tasks == chain.steps
    for output, (a, w) in zip(chain.outputs, pairs, strict=True):
        assert matches(format, output, a, w)
    chain.close()
    for task in tasks:
        npu.free(task.weight)


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_chains_over_the_cores(npu, name):
    format, random = FORMATS[name], np.random.default_rng(7)
    made = [_tasks(npu, format, [(6, 1, 1), (6, 2, 2)], random) for _ in range(7)]
    chains = [npu.chain(tasks) for tasks, _ in made]
    before = npu.counters
    robin = npu.round_robin(chains)
    for _ in range(3):
        for chain in chains:
            for output in chain.outputs:
                output[:] = 1
        robin.run()
        for chain, (_, pairs) in zip(chains, made, strict=True):
            for output, (a, w) in zip(chain.outputs, pairs, strict=True):
                assert matches(format, output, a, w)
    assert npu.counters.since(before).submits == 21
    assert robin.cores == 3


@pytest.mark.parametrize("name", FORMAT_NAMES)
@_MODEST
@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 64), st.integers(1, 2), st.integers(1, 3)), min_size=1, max_size=5
    ),
    seed=st.integers(0, 2**31),
    core=st.integers(0, 2),
)
def test_doorbell(npu, name, sizes, seed, core):
    format, random = FORMATS[name], np.random.default_rng(seed)
    rows = sizes[0][0] if name.startswith("fp16") else None
    tasks, pairs = _tasks(npu, format, sizes, random, rows)
    with npu.doorbell(core=core) as doorbell:
        doorbell.build(tasks)
        doorbell.begin()
        assert doorbell.end() == len(tasks)
        for output, (a, w) in zip(doorbell.outputs, pairs, strict=True):
            assert matches(format, output, a, w)
    for task in tasks:
        npu.free(task.weight)


@_MODEST
@given(
    groups=st.integers(1, 8),
    columns=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    seed=st.integers(0, 2**31),
    core=st.integers(0, 2),
)
def test_compiled(npu, groups, columns, seed, core):
    random = np.random.default_rng(seed)
    k = FULL_K_GRANULE * groups
    matrices = [random_matrix(INT8, (32 * count, k), random) for count in columns]
    weights = [npu.load(INT8, f"w{index}", w) for index, w in enumerate(matrices)]
    a = np.zeros((1, k), np.int8)
    program = npu.compile(weights, a, core=core)
    for _ in range(3):
        a[:] = random_matrix(INT8, (1, k), random)
        program.run()
        for output, w in zip(program.outputs, matrices, strict=True):
            np.testing.assert_array_equal(output, expected(INT8, a, w))
    program.close()
    for weight in weights:
        npu.free(weight)


@pytest.mark.parametrize("name", FORMAT_NAMES)
def test_extreme_operands_do_not_hide_the_pattern(npu, name):
    """Results that are all the largest, the smallest or zero still count as results."""
    format = FORMATS[name]
    k, n = _sizes(format, 1, 1)
    low, high = {
        "fp16": (-8.0, 8.0),
        "fp16->fp16": (-8.0, 8.0),
        "int4": (-8, 7),
        "int16": (-32768, 32767),
    }.get(name, (-128, 127))
    for left, right in ((low, low), (low, high), (high, high), (0, low)):
        w = np.full((n, k), right, dtype=format.operand)
        a = np.full((3, k), left, dtype=format.operand)
        weight = npu.load(format, "w", w)
        npu.context.windows.of(1 << 20).learn(1e-4)
        with npu.doorbell() as doorbell:
            doorbell.build([ChainTask(weight, 3, a=a, convert=NARROW.get(name))])
            for bits in range(40):
                npu.context.windows.of(1 << bits).estimate_s = 1e-4
            doorbell.begin()
            assert doorbell.end() == 1
            assert matches(format, doorbell.outputs[0], a, w)


def test_every_path_and_format_names_a_cell_of_the_mode_table():
    table = transition_table()
    for entered in PATH_MODES.values():
        for source in Mode:
            assert (entered.profile, source, entered.mode) in table


def test_repeated_int8_runs_reset_once_whatever_the_path(npu, board):
    random = np.random.default_rng(0)
    tasks, pairs = _tasks(npu, INT8, [(1, 1, 1)], random)
    matmul = npu.matmul([tasks[0].weight], 1)
    chain = npu.chain(tasks)
    program = npu.compile(tasks[0].weight, pairs[0][0])
    matmul.a[:] = pairs[0][0]
    for _ in range(5):
        matmul.run()
        matmul.run_on(2)
        chain.run()
        npu.round_robin([chain]).run()
        program.run()
        with npu.doorbell() as doorbell:
            doorbell.build(tasks)
            doorbell.begin()
    assert npu.counters.resets == npu.modes.resets == 1
    assert board.kernel.scheduler.resets == 1


def test_a_mode_that_needs_it_resets_the_device(npu, board):
    random = np.random.default_rng(0)
    by_name = {name: _tasks(npu, FORMATS[name], [(2, 1, 1)], random) for name in ("int8", "fp16", "int4")}
    chains = {name: npu.chain(tasks) for name, (tasks, _) in by_name.items()}
    resets = []
    for name in ("int8", "fp16", "int8", "int4", "int4", "int8", "fp16"):
        chains[name].run()
        a, w = by_name[name][1][0]
        assert matches(FORMATS[name], chains[name].outputs[0], a, w)
        resets.append(board.kernel.scheduler.resets)
    assert resets == [1, 1, 1, 2, 2, 3, 3]
    assert npu.counters.resets == 3
