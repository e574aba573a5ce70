"""Guards without a refusal of their own: what makes their condition impossible to express."""

import ast
import ctypes
import inspect
import os
import threading
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import orkbench_tui
from orkbench_tui.driver import doorbell, head_attention, uapi
from orkbench_tui.driver.affinity import pin_this_thread
from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.chain_rules import OpKind
from orkbench_tui.driver.device import Device
from orkbench_tui.driver.doorbell import Doorbell
from orkbench_tui.driver.matmul import formats
from orkbench_tui.driver.matmul.formats import FORMATS, FP16, INT4, INT8
from orkbench_tui.driver.matmul.linked import LinkedPrograms
from orkbench_tui.driver.memory import Memory
from orkbench_tui.driver.modes import ModeKnobs
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.sdp.kinds import NOT_HERE
from orkbench_tui.driver.sdp.table import ROWS
from orkbench_tui.driver.soc import RK3588
from orkbench_tui.errors import OrkError, RefusedError, UsageError
from orkbench_tui.runner.dispatch.dispatcher import MOVABLE, Dispatcher, parse_overrides
from orkbench_tui.runner.dispatch.unit import Op, Place, Unit
from orkbench_tui.runner.gguf_file import GgufFile
from orkbench_tui.runner.models.read_architecture import architecture_of
from orkbench_tui.settings import Settings
from tests.driver.gated_board import FaultyDevice
from tests.driver.path_operands import random_matrix
from tests.reference.tiny_models import write_tiny_llama

PACKAGE = Path(orkbench_tui.__file__).parent


@pytest.fixture
def random():
    return np.random.default_rng(41)


def _names_in(function) -> set[str]:
    tree = ast.parse(inspect.getsource(function))
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


# -- GRD-11 -----------------------------------------------------------------------------------------


def test_batches_over_sliced_weights_are_refused_and_one_task_is_told_its_k(npu, random):
    weight = npu.load(INT8, "deep", random_matrix(INT8, (32, 8704), random))
    assert len(weight.slices) == 2
    before = npu.counters
    with pytest.raises(RefusedError, match=r"GRD-11.*deep has K = 8704 in 2 slices.*run it alone"):
        npu.chain([ChainTask(weight, 1)] * 2)
    with pytest.raises(RefusedError, match="GRD-10"):
        npu.chain([ChainTask(weight, 1)])
    with pytest.raises(RefusedError, match="GRD-11"):
        npu.doorbell().build([ChainTask(weight, 1)] * 2)
    assert npu.counters == before


# -- GRD-19, GRD-60 ---------------------------------------------------------------------------------


def test_row_limits_of_fp16_and_int8_share_neither_code_nor_constants():
    rules = {format.name: format.rows_cap for format in (INT8, FP16, INT4)}
    assert len(set(rules.values())) == 3
    own = {name: _names_in(rule) for name, rule in rules.items()}
    helpers = {name for name, value in vars(formats).items() if inspect.isfunction(value)}
    assert not own["int8"] & own["fp16"] & (helpers | {n for n in vars(formats) if n.startswith("_")})
    assert not any("int8" in name.lower() for name in own["fp16"])


@pytest.mark.parametrize("k", [256, 512, 1024, 2048, 4096])
def test_an_fp16_limit_by_int8_sizes_would_be_looser(k):
    assert FP16.rows_cap(RK3588, k, 512) < INT8.rows_cap(RK3588, k, 512)


# -- GRD-24 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["run", "run_on", "chain"])
def test_a_cold_start_submits_as_often_as_a_warm_one(board, random, path):
    """No pass is run twice for warmth, so none can race with the caller's output."""
    device = FaultyDevice(board, lambda request, argument, nth: False)
    with Npu(device) as npu:
        weight = npu.load(INT8, "w", random_matrix(INT8, (96, 512), random))
        output = npu.dma_array((2, 96), np.int32)
        a = random_matrix(INT8, (2, 512), random)
        matmul = npu.matmul([weight], 2, a=a, outputs=[output])
        chain = npu.chain([ChainTask(weight, 2, a=a, output=output)])
        run = {"run": matmul.run, "run_on": lambda: matmul.run_on(1), "chain": chain.run}[path]
        counts = []
        for _ in range(2):
            before = len(device.submits)
            run()
            counts.append(len(device.submits) - before)
        assert counts[0] == counts[1] > 0


# -- GRD-25, GRD-26, GRD-27, GRD-41 -----------------------------------------------------------------


def test_only_threads_are_pinned_and_never_the_process():
    setting = [path for path in PACKAGE.rglob("*.py") if "sched_setaffinity" in path.read_text()]
    assert [path.name for path in setting] == ["affinity.py"]
    before = os.sched_getaffinity(0)
    pinned = []

    def pin():
        pin_this_thread(frozenset({min(before)}))
        pinned.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=pin)
    thread.start()
    thread.join()
    assert pinned == [{min(before)}]
    assert os.sched_getaffinity(0) == before


def test_more_threads_than_big_cores_are_warned_of(monkeypatch):
    from orkbench_tui.cli import model_session

    monkeypatch.setattr("orkbench_tui.runner.processors.fast_processors", lambda: 4)
    line = model_session.thread_warning(8)
    assert line.startswith("GRD-26") and "8 threads, 4 big cores" in line
    assert model_session.thread_warning(4) == ""


@pytest.mark.parametrize("word", ["noreset", "xspec", "skip_reset", "moe_npu", "affinity"])
def test_no_setting_and_no_knob_has_such_a_name(word):
    names = {field.name.lower() for field in (*fields(Settings), *fields(ModeKnobs))}
    names.remove("sdp_noreset")  # element-wise work, a row of the table
    assert not any(word in name for name in names)
    text = (PACKAGE / "settings.py").read_text().lower()
    assert f"ork_{word}" not in text


def test_no_combination_of_knobs_takes_the_int4_chain_without_a_reset():
    from itertools import product

    from orkbench_tui.driver.modes import Mode, Profile, transition

    for values in product([False, True], repeat=3):
        knobs = ModeKnobs(*values)
        for source in set(Mode) - {Mode.I4_CHAIN}:
            assert transition(Profile.I4CHAIN, source, Mode.I4_CHAIN, knobs).reset


# -- GRD-45, GRD-46, GRD-47 -------------------------------------------------------------------------


def _public(kind) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_a_running_chain_can_be_ended_early_and_lengthened_and_nothing_else():
    assert {name for name in _public(Doorbell) if callable(getattr(Doorbell, name))} == {
        "append",
        "begin",
        "build",
        "close",
        "end",
        "halt",
        "listing",
        "progress",
    }
    changing = {name for name in _public(LinkedPrograms) if inspect.isfunction(vars(LinkedPrograms)[name])}
    used = {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(doorbell)))
        if isinstance(node, ast.Attribute)
    }
    assert changing & used == {"end_after", "extend", "join"}


def _told(view) -> list[tuple[int, ...]]:
    """What descriptors tell the kernel; what it writes back is left out."""
    size = ctypes.sizeof(uapi.Task)
    tasks = [uapi.Task.from_buffer_copy(bytes(view[at : at + size])) for at in range(0, 7 * size, size)]
    return [(task.regcmd_addr, task.regcfg_amount, task.enable_mask, task.int_mask) for task in tasks]


def test_descriptors_are_written_before_the_run_and_never_during_it(npu, random, monkeypatch):
    weight = npu.load(INT8, "w", random_matrix(INT8, (32, 512), random))
    a = random_matrix(INT8, (1, 512), random)
    doorbell = npu.doorbell()
    doorbell.build([ChainTask(weight, 1, a=a)] * 6, reserve=1)
    tasks = doorbell._run.linked.tasks
    before = _told(tasks.view)
    synced = []
    sync = Memory.sync
    monkeypatch.setattr(
        Memory, "sync", lambda self, part, way: (synced.append(part), sync(self, part, way))[1]
    )
    doorbell.begin()
    doorbell.halt(2)
    doorbell.end()
    assert _told(tasks.view) == before
    assert not any(getattr(part, "buffer", part) is tasks.buffer for part in synced)


def test_the_device_is_ioctl_mmap_and_close():
    verbs = {name for name in vars(Device) if not name.startswith("_") and name != "name"}
    assert verbs == {"ioctl", "mmap", "close"}


def test_int4_operands_go_through_no_other_format():
    packing = {name for name, format in FORMATS.items() if format.packs_nibbles}
    assert packing == {"int4"}
    for name, format in FORMATS.items():
        if name != "int4":
            assert format.precision.input_bits * 1 == 8 * np.dtype(format.operand).itemsize


# -- GRD-52, GRD-53, GRD-56 -------------------------------------------------------------------------


def test_a_reset_does_not_clear_what_a_lost_job_left_and_its_memory_is_kept(board, random, monkeypatch):
    monkeypatch.setattr("orkbench_tui.driver.recovery.LAST_WINDOW_S", 0.02)
    device = FaultyDevice(
        board,
        lambda request, argument, nth: (
            request == uapi.RKNPU_SUBMIT
            and bool(uapi.Submit.from_buffer_copy(argument).flags & uapi.JobFlag.NONBLOCK)
        ),
    )
    with Npu(device, timeout_ms=1500) as npu:
        weight = npu.load(INT8, "w", random_matrix(INT8, (32, 512), random))
        for bits in range(48):
            npu.context.windows.of(1 << bits).learn(1e-5)
        doorbell = npu.doorbell()
        doorbell.build([ChainTask(weight, 1, a=random_matrix(INT8, (1, 512), random))])
        doorbell.begin()
        with pytest.raises(Exception, match="never finished"):
            doorbell.end()
        assert npu.domain_switching.dirty == (0,), "the wait for the kernel to drop it still stands"
        held = npu.memory.used_bytes(0)
        doorbell.close()
        npu.reset()
        assert npu.domain_switching.dirty == (0,)
        assert npu.memory.used_bytes(0) == held


# -- GRD-29, GRD-50, GRD-51 -------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 512])
def test_experts_run_on_the_cpu_whatever_the_overrides_say(rows):
    experts = Unit(Op.EXPERTS, rows, 2048, (768,) * 24)
    for words in ("", "all=npu"):
        assert Dispatcher(parse_overrides(words)).decide(experts).place is Place.CPU
    with pytest.raises(UsageError, match="experts=npu"):
        parse_overrides("experts=npu")


@pytest.mark.parametrize("architecture", ["qwen3next", "kimi-linear", "jamba"])
def test_models_with_a_delta_net_are_refused_by_name_and_none_reaches_the_npu(tmp_path, architecture):
    path = write_tiny_llama(tmp_path / "a.gguf", architecture=architecture)
    with GgufFile.open(path) as model, pytest.raises(OrkError, match=architecture):
        architecture_of(model)
    assert not any("scan" in name or "ssm" in name for name in (*OpKind, *(row.op for row in ROWS)))
    assert not any("delta" in name for name in Op)
    assert not any("delta" in str(op) for op in MOVABLE)


def test_softmax_is_the_host_s_and_no_setting_moves_it():
    assert NOT_HERE[OpKind.SOFTMAX_F16].startswith("host")
    assert not any("softmax" in row.op for row in ROWS)
    assert not any("softmax" in field.name for field in fields(Settings))
    with pytest.raises(UsageError, match="softmax=npu"):
        parse_overrides("softmax=npu")
    # Attention on the NPU uses no element-wise work, so its exponentials cannot be there.
    tree = ast.parse(inspect.getsource(head_attention))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any("sdp" in str(module) for module in imported)
