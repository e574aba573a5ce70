"""Transitions on the simulated chip: right with them, wrong without, for every pair of run paths."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.matmul.formats import FORMATS
from orkbench_tui.driver.mode_gate import Priming
from orkbench_tui.driver.modes import Mode, ModeState, Profile, transition, transition_table
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.run_paths import PATH_MODES, PathMode, RunPath, path_mode
from orkbench_tui.driver.submit import Submitter
from orkbench_tui.sim.chip.mode_residue import SPOILS, RunKind
from tests.driver.path_operands import matches, random_matrix

FORMAT_NAMES = ("int8", "fp16", "int4")
PATHS = (RunPath.BLOCKING, RunPath.SPREAD, RunPath.CHAIN, RunPath.STREAM, RunPath.DOORBELL)
SDP = "element-wise"
Run = Callable[[], bool]
Key = tuple[str, str]


@pytest.fixture
def dealt(monkeypatch):
    """Jobs of a stream go to the cores in turn, not to whichever asks first."""

    def stream(self, jobs, cores=None):
        for index, job in enumerate(jobs):
            self.run_on(index % (cores or 3), job)

    monkeypatch.setattr(Submitter, "stream", stream)


def _entered(key: Key) -> PathMode:
    path, name = key
    if path == SDP:
        return PathMode(Mode.F16 if name == "fp16" else Mode.I8, Profile.SDP)
    return path_mode(RunPath(path), FORMATS[name])


def _element_wise(npu: Npu, name: str) -> Run:
    random = np.random.default_rng(6)
    a = random_matrix(FORMATS[name], (8, 32), random)
    return lambda: np.array_equal(npu.sdp.relu(a), np.maximum(a, 0))


def _runs(npu: Npu) -> dict[Key, Run]:
    """One run of two linked programs or more per path and format; each says whether its result is right."""
    random = np.random.default_rng(3)
    runs: dict[Key, Run] = {(SDP, name): _element_wise(npu, name) for name in ("int8", "fp16")}
    for name in FORMAT_NAMES:
        format = FORMATS[name]
        w = random_matrix(format, (2 * format.precision.kernel_group, 512), random)
        a = random_matrix(format, (2, 512), random)
        weight = npu.load(format, name, w)

        def right(outputs, a=a, w=w, format=format) -> bool:
            return all(matches(format, output, a, w) for output in outputs)

        def task(weight=weight, a=a) -> ChainTask:
            return ChainTask(weight, 2, a=a)

        # Two weights of three cores each: a job of two programs on some core.
        matmul = npu.matmul([weight] * 6, 2)
        chain, chains = npu.chain([task(), task()]), [npu.chain([task(), task()]) for _ in range(3)]
        robin = npu.round_robin(chains)

        def blocking(matmul=matmul, a=a, right=right) -> bool:
            matmul.a[:] = a  # matmuls of one size share it
            matmul.run_on(0)
            return right(matmul.outputs)

        def spread(matmul=matmul, a=a, right=right) -> bool:
            matmul.a[:] = a
            matmul.run()
            return right(matmul.outputs)

        def chained(chain=chain, right=right) -> bool:
            chain.run()
            return right(chain.outputs)

        def streamed(robin=robin, chains=chains, right=right) -> bool:
            robin.run()
            return all(right(chain.outputs) for chain in chains)

        def rung(task=task, right=right) -> bool:
            with npu.doorbell() as doorbell:
                doorbell.build([task(), task()])
                doorbell.begin()
                doorbell.end()
                return right(doorbell.outputs)

        made = (blocking, spread, chained, streamed, rung)
        runs |= {(path, name): run for path, run in zip(PATHS, made, strict=True)}
    return runs


MATMULS: list[Key] = list(itertools.product(PATHS, FORMAT_NAMES))
KEYS = [*MATMULS, (SDP, "int8"), (SDP, "fp16")]


def test_every_run_path_is_right_after_every_other_and_after_a_cold_start(npu):
    runs, visited = _runs(npu), set()
    for before, after in itertools.product(KEYS, repeat=2):
        for key in (before, after):
            entered = _entered(key)
            visited.add((entered.profile, npu.modes.last_mode, entered.mode))
            assert runs[key](), f"{key} after {before}, from {npu.modes.last_mode}"
    for key, run in runs.items():
        npu.reset()
        assert npu.modes.last_mode is Mode.COLD
        entered = _entered(key)
        visited.add((entered.profile, Mode.COLD, entered.mode))
        assert run(), f"{key} after a reset"
    reachable = {(entered.profile, entered.mode) for entered in (*PATH_MODES.values(), *map(_entered, KEYS))}
    assert {
        (profile, source, target)
        for profile, source, target in transition_table()
        if (profile, target) in reachable
    } <= visited, "a cell no run of the driver goes through"


def test_element_wise_work_between_two_precisions_hides_no_transition(npu):
    """It keeps everything, so what the matmul before it left is still there for the one after it."""
    runs = _runs(npu)
    some = [key for key in MATMULS if key[0] in (RunPath.BLOCKING, RunPath.CHAIN)]
    for before, between, after in itertools.product(some, KEYS[-2:], some):
        for key in (before, between, after):
            assert runs[key](), f"{key} of {before}, {between}, {after}"


def _behind_16_bits_on_one_core(npu: Npu) -> bool:
    runs = _runs(npu)
    assert runs[RunPath.SPREAD, "int4"](), "int4 on every core"
    assert runs[RunPath.BLOCKING, "fp16"](), "16 bits, which end what int4 left, on core 0 only"
    return runs[RunPath.SPREAD, "int8"]()


def test_what_int4_left_on_a_core_that_16_bit_work_did_not_reach_is_reset_away(npu, dealt):
    assert _behind_16_bits_on_one_core(npu)


def test_with_one_step_back_only_int8_finds_what_int4_left(npu, monkeypatch, dealt):
    monkeypatch.setattr(
        ModeState,
        "step",
        lambda self, target, profile: transition(profile, self.last_mode, target, self.knobs),
    )
    assert not _behind_16_bits_on_one_core(npu)


KINDS = {"int8": RunKind.INT8, "fp16": RunKind.WIDE, "int4": RunKind.INT4_LINKED}


def test_with_the_transitions_removed_the_chip_is_wrong_exactly_where_precisions_do_not_mix(
    npu, monkeypatch, dealt
):
    runs = _runs(npu)
    order = npu.context.gate._reset
    for before, after in itertools.product(MATMULS, repeat=2):
        npu.reset()
        # The cores are as after a reset; the driver believes them to be in the mode it goes to.
        monkeypatch.setattr(npu.context.gate, "_reset", lambda: None)
        assert runs[before](), "the first run after a reset is right"
        wrong = (KINDS[before[1]], KINDS[after[1]]) in SPOILS
        assert runs[after]() is not wrong, f"{after} after {before} without a reset"
        monkeypatch.setattr(npu.context.gate, "_reset", order)
    npu.reset()
    assert all(run() for run in runs.values())


@pytest.mark.parametrize("name", FORMAT_NAMES)
@pytest.mark.parametrize("path", [RunPath.BLOCKING, RunPath.SPREAD, RunPath.CHAIN, RunPath.STREAM])
def test_with_the_re_warm_removed_the_first_result_after_a_reset_is_old(npu, monkeypatch, dealt, path, name):
    run = _runs(npu)[path, name]
    npu.reset()
    monkeypatch.setattr(Priming, "due", lambda self, gate, *, cold: False)
    assert not run(), "nothing was cleaned since the reset"
    assert run(), "the first run has warmed the cores it used"


def test_with_the_re_warm_removed_a_fused_matmul_shows_old_results_too(npu, monkeypatch):
    random = np.random.default_rng(4)
    w, a = random_matrix(FORMATS["int8"], (32, 64), random), random_matrix(FORMATS["int8"], (4, 64), random)
    bias = random.integers(-1000, 1000, 32, dtype=np.int32)
    fused = npu.sdp.biased(npu.load(FORMATS["int8"], "w", w), 4, bias)
    expected = a.astype(np.int32) @ w.T.astype(np.int32) + bias
    np.testing.assert_array_equal(fused.run(a), expected)
    npu.reset()
    np.testing.assert_array_equal(fused.run(np.zeros_like(a)), np.tile(bias, (4, 1)))
    monkeypatch.setattr(Priming, "due", lambda self, gate, *, cold: False)
    npu.reset()
    np.testing.assert_array_equal(fused.run(a), np.tile(bias, (4, 1)), "what was there before")
    np.testing.assert_array_equal(fused.run(a), expected)


def test_a_core_that_joins_later_is_primed_for_results_made_before_the_reset(npu):
    """The first run after a reset takes one core, the second three, into memory that was there before."""
    random = np.random.default_rng(5)
    format = FORMATS["int8"]
    w, a = random_matrix(format, (192, 512), random), random_matrix(format, (2, 512), random)
    weight = npu.load(format, "w", w)
    narrow, wide = npu.matmul([weight], 2), npu.matmul([weight] * 9, 2)
    npu.reset()
    narrow.a[:] = a
    narrow.run_on(0)
    for core in range(3):
        wide.a[:] = a
        wide.run_on(core)
        assert all(matches(format, output, a, w) for output in wide.outputs)
        for output in wide.outputs:
            output[:] = 0


def test_keeping_warm_costs_neither_reset_nor_clean(npu):
    runs = _runs(npu)
    warm = [runs[path, name] for path in PATHS[:4] for name in ("int8", "fp16")]
    for run in warm:
        assert run()
    resets, epoch, syncs = npu.counters.resets, npu.context.gate.epoch, []
    for _ in range(2):
        before = npu.memory.syncs
        assert all(run() for run in warm)
        syncs.append(npu.memory.syncs - before)
    assert (npu.counters.resets, npu.context.gate.epoch) == (resets, epoch)
    assert syncs[0] == syncs[1]


def test_forgotten_sizes_prime_the_result_again_without_moving_it(npu):
    """Cells with Z ask for new buffers; ours are baked into programs, so the same ones count as new."""
    runs = _runs(npu)
    assert runs[RunPath.SPREAD, "fp16"]()
    used, epoch = npu.memory.used_bytes(0), npu.context.gate.epoch
    assert runs[RunPath.SPREAD, "int4"]() and npu.modes.last_mode is Mode.I4
    step = transition_table()[path_mode(RunPath.SPREAD, FORMATS["fp16"]).profile, Mode.I4, Mode.F16]
    assert step.code == "Wp+Zp"
    assert runs[RunPath.SPREAD, "fp16"]()
    assert npu.context.gate.epoch == epoch + 2
    assert npu.memory.used_bytes(0) == used
