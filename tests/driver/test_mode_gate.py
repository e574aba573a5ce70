"""The door to the cores: resets only while nobody is inside, and nobody inside is disturbed."""

import threading

import numpy as np
import pytest

from orkbench_tui.driver.counters import Counters
from orkbench_tui.driver.failures import LifetimeError
from orkbench_tui.driver.matmul.formats import FP16, INT4, INT8
from orkbench_tui.driver.mode_gate import ModeGate
from orkbench_tui.driver.modes import Mode, ModeKnobs, ModeState, Profile
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.run_paths import PATH_MODES, PathMode, RunPath, path_mode
from orkbench_tui.errors import UnhealthyError
from tests.driver.path_operands import matches, random_matrix

INT8_PATH = PathMode(Mode.I8, Profile.SC_MM)
CHAIN_PATH = PathMode(Mode.I8_CHAIN, Profile.CHAIN_NT)
INT4_PATH = PathMode(Mode.I4_CHAIN, Profile.I4CHAIN)


class Board:
    def __init__(self):
        self.resets = 0
        self.failing = False

    def reset(self):
        if self.failing:
            raise UnhealthyError("no reset")
        self.resets += 1


@pytest.fixture
def board():
    return Board()


@pytest.fixture
def gate(board):
    return ModeGate(ModeState(3), board.reset, Counters())


def test_the_first_output_of_a_mode_is_primed_once(gate):
    assert gate.enter(INT8_PATH) is True
    gate.leave(INT8_PATH)
    assert gate.enter(INT8_PATH) is False
    gate.leave(INT8_PATH)
    assert gate.enter(PathMode(Mode.I8, Profile.MC_MM)) is True, "the other half of the flags"


def test_a_reset_waits_until_nobody_is_inside(gate, board):
    gate.enter(INT8_PATH)
    entered = threading.Event()

    def other():
        gate.enter(INT4_PATH)
        entered.set()

    thread = threading.Thread(target=other)
    thread.start()
    assert not entered.wait(0.1) and board.resets == 1
    gate.leave(INT8_PATH)
    assert entered.wait(5) and board.resets == 2
    thread.join()


def test_a_transition_that_keeps_everything_disturbs_nobody(gate, board):
    gate.enter(INT8_PATH)
    gate.enter(CHAIN_PATH, unattended=True)
    gate.enter(INT8_PATH)
    assert board.resets == 1


def test_nobody_waits_for_an_unattended_job(gate, board):
    gate.enter(CHAIN_PATH, unattended=True)
    with pytest.raises(LifetimeError, match="entering mode I4_CHAIN: a job in mode I8_CHAIN runs"):
        gate.enter(INT4_PATH)
    gate.leave(CHAIN_PATH, unattended=True)
    gate.enter(INT4_PATH)
    assert board.resets == 2


def test_a_failed_reset_leaves_the_mode_as_it_was(gate, board):
    gate.enter(INT8_PATH)
    gate.leave(INT8_PATH)
    board.failing = True
    with pytest.raises(UnhealthyError):
        gate.enter(INT4_PATH)
    assert gate.state.last_mode is Mode.I8
    board.failing = False
    gate.enter(INT4_PATH)
    assert board.resets == 2


def test_after_a_failure_the_next_entry_is_cold(gate, board):
    gate.enter(INT8_PATH)
    gate.state.lut_loaded[1] = True
    gate.leave(INT8_PATH, failed=True)
    assert gate.state.last_mode is Mode.COLD and not any(gate.state.lut_loaded)
    assert gate.enter(INT8_PATH) is True
    assert board.resets == 2


def test_an_ordered_reset_waits_for_those_inside_and_leaves_nothing_assumed(gate, board):
    gate.enter(INT8_PATH)
    gate.state.lut_loaded[0] = True
    done = threading.Event()
    thread = threading.Thread(target=lambda: (gate.reset(), done.set()))
    thread.start()
    assert not done.wait(0.1) and board.resets == 1
    gate.leave(INT8_PATH)
    assert done.wait(5) and board.resets == 2
    thread.join()
    state, epoch = gate.state, gate.epoch
    assert state.last_mode is Mode.COLD
    assert not any((*state.warm_cores, state.warm_scalar, *state.lut_loaded, *state.task_built))
    assert gate.enter(INT8_PATH) is True and board.resets == 3
    assert gate.epoch == epoch + 1


def test_an_ordered_reset_is_refused_beside_an_unattended_job(gate, board):
    gate.enter(CHAIN_PATH, unattended=True)
    with pytest.raises(LifetimeError, match="resetting the NPU: a job runs"):
        gate.reset()
    assert board.resets == 1 and gate.state.last_mode is Mode.I8_CHAIN


def test_after_an_ordered_reset_that_failed_nothing_is_assumed_either(gate, board):
    gate.enter(INT8_PATH)
    gate.leave(INT8_PATH)
    board.failing = True
    with pytest.raises(UnhealthyError):
        gate.reset()
    assert gate.state.last_mode is Mode.COLD


def test_a_reset_within_a_run_keeps_its_mode_and_ends_the_epoch(gate, board):
    gate.enter(INT8_PATH)
    gate.state.lut_loaded[1] = True
    epoch = gate.epoch
    gate.reset_within()
    assert gate.state.last_mode is Mode.I8 and not any(gate.state.lut_loaded)
    assert (gate.epoch, board.resets) == (epoch + 1, 2)


def test_element_wise_work_keeps_the_mode_of_the_matmul_before_it(gate):
    gate.enter(INT4_PATH)
    gate.leave(INT4_PATH)
    element_wise = PathMode(Mode.I8, Profile.SDP)
    gate.enter(element_wise)
    gate.leave(element_wise)
    assert gate.state.last_mode is Mode.I4_CHAIN


def test_every_format_has_every_path_but_compiled():
    for format in (INT8, FP16, INT4):
        for path in set(RunPath) - {RunPath.COMPILED}:
            assert path_mode(path, format) in PATH_MODES.values()
    with pytest.raises(KeyError):
        path_mode(RunPath.COMPILED, FP16)


@pytest.mark.parametrize(("knobs", "resets"), [(ModeKnobs(), 6), (ModeKnobs(nothrash=True), 1)])
def test_knobs_reach_the_runs(knobs, resets):
    from orkbench_tui.sim.inprocess import InProcessBoard

    random = np.random.default_rng(0)
    with Npu(InProcessBoard().device(), knobs=knobs) as npu:
        runs = []
        for format in (INT8, INT4):
            w, a = random_matrix(format, (64, 512), random), random_matrix(format, (2, 512), random)
            matmul = npu.matmul([npu.load(format, "w", w)], 2)
            runs.append((format, matmul, a, w))
        for _ in range(3):
            for format, matmul, a, w in runs:
                matmul.a[:] = a
                matmul.run()
                assert matches(format, matmul.outputs[0], a, w)
        assert npu.counters.resets == resets
