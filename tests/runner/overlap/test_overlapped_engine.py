"""Overlapped prompts through the engine: every bit as in the serial order, on every kind of NPU."""

from __future__ import annotations

import errno
import mmap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.device import Device
from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import OrkError, UnhealthyError
from orkbench_tui.runner.engine import Engine
from orkbench_tui.runner.orkpack.reader import OrkPack
from orkbench_tui.runner.quantize.pack_model import pack_gguf
from orkbench_tui.sim import lifecycle
from orkbench_tui.sim.client import SimDevice
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.reference.tiny_models import VOCABULARY, TinyShape, write_tiny_llama
from tests.runner.exact_npu import ExactNpu

TOKENS = np.random.default_rng(6).integers(0, VOCABULARY, 400).tolist()
SHAPE = TinyShape(layers=3, embedding=144, heads=6, kv_heads=2, feed_forward=200)


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OrkPack]:
    path = tmp_path_factory.mktemp("overlap")
    pack_gguf(write_tiny_llama(path / "tiny.gguf", shape=SHAPE), path / "tiny.orkpack")
    with OrkPack.open(path / "tiny.orkpack") as opened:
        yield opened


def check_same_bits(pack: OrkPack, npu: object, lengths: tuple[int, ...] = (64, 100, 151)) -> Engine:
    overlapped = Engine.from_pack(pack, npu, overlap="on")  # type: ignore[arg-type]
    serial = Engine.from_pack(pack)
    for count in lengths:
        tokens = TOKENS[:count]
        assert overlapped.prefill(tokens).tobytes() == serial.prefill(tokens).tobytes(), count
        assert overlapped.decode(7).tobytes() == serial.decode(7).tobytes()
    for held, expected in zip(overlapped.held(), serial.held(), strict=True):
        # Lanes of the last block of keys that no token has filled are left out by neither.
        assert held.tobytes() == expected.tobytes()
    assert overlapped.stats.overlap is not None
    assert overlapped.stats.overlap.overlapped_prompts == len(lengths)
    return overlapped


def test_the_bits_of_the_serial_order_with_shared_memory_full_of_rubbish(pack: OrkPack) -> None:
    engine = check_same_bits(pack, ExactNpu(), (64, 130))
    engine.rewind(0)
    every = Engine.from_pack(pack).logits_of(TOKENS[:300])
    assert engine.logits_of(TOKENS[:300]).tobytes() == every.tobytes()


def test_the_same_with_three_under_way_in_a_long_prompt(tmp_path: Path) -> None:
    shape = TinyShape(layers=2, embedding=64, heads=2, kv_heads=1, feed_forward=96, context_length=1024)
    pack_gguf(write_tiny_llama(tmp_path / "long.gguf", shape=shape), tmp_path / "long.orkpack")
    tokens = (3 * TOKENS)[:940]
    with OrkPack.open(tmp_path / "long.orkpack") as pack:
        overlapped = Engine.from_pack(pack, ExactNpu(), overlap="on")
        assert overlapped.prefill(tokens).tobytes() == Engine.from_pack(pack).prefill(tokens).tobytes()


@pytest.mark.parametrize("cache", ["f32", "int8"])
def test_the_same_with_other_caches(pack: OrkPack, cache) -> None:
    overlapped = Engine.from_pack(pack, ExactNpu(), overlap="on", cache_type=cache)
    serial = Engine.from_pack(pack, cache_type=cache)
    assert overlapped.logits_of(TOKENS[:200]).tobytes() == serial.logits_of(TOKENS[:200]).tobytes()


def test_the_same_on_the_simulated_board_in_this_process(pack: OrkPack) -> None:
    board = InProcessBoard()
    with Npu(board.device()) as npu:
        check_same_bits(pack, npu)
    board.close()


def test_the_same_over_the_socket(pack: OrkPack) -> None:
    status = lifecycle.start(pace="fast", idle_s=60)
    with Npu(SimDevice(status.socket_path)) as npu:
        check_same_bits(pack, npu, (100,))


def test_both_rooms_are_really_in_use_at_once(pack: OrkPack) -> None:
    npu = ExactNpu()
    threads: set[str] = set()
    npu.before_run = lambda: threads.add(threading.current_thread().name)
    engine = Engine.from_pack(pack, npu, overlap="on")
    engine.prefill(TOKENS[:20])
    assert "npu-room" not in threads, "short prompts do not overlap"
    threads.clear()
    engine.prefill(TOKENS[:100])
    assert threads == {"npu-room"}


def test_a_failing_npu_leaves_an_engine_that_works(pack: OrkPack) -> None:
    npu = ExactNpu()
    engine = Engine.from_pack(pack, npu, overlap="on")
    runs = 0

    def fail_at(which: int) -> Callable[[], None]:
        def maybe() -> None:
            nonlocal runs
            runs += 1
            if runs == which:
                raise UnhealthyError("the job timed out")

        return maybe

    expected = Engine.from_pack(pack).prefill(TOKENS[:200])
    for which in (1, 2, 7, 20):
        runs = 0
        npu.before_run = fail_at(which)
        with pytest.raises(UnhealthyError, match="timed out"):
            engine.prefill(TOKENS[:200])
        assert engine.position == 0
        assert not [thread for thread in threading.enumerate() if thread.name == "npu-room"]
        npu.before_run = None
        assert engine.prefill(TOKENS[:200]).tobytes() == expected.tobytes()
        engine.rewind(0)


class LosesOneJob:
    """A device whose submit number ``which`` times out, as the kernel says it."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.name = device.name
        self.which = -1
        self._lock = threading.Lock()

    def ioctl(self, request: int, argument: bytearray) -> int:
        if request == uapi.RKNPU_SUBMIT:
            with self._lock:
                self.which -= 1
                lost = self.which == 0
            if lost:
                raise OSError(errno.ETIMEDOUT, "the job timed out")
        return self._device.ioctl(request, argument)

    def mmap(self, offset: int, length: int) -> mmap.mmap:
        return self._device.mmap(offset, length)

    def close(self) -> None:
        self._device.close()


@pytest.mark.parametrize("which", [1, 6, 17])
def test_a_job_that_times_out_on_the_board_leaves_driver_and_engine_usable(pack: OrkPack, which: int) -> None:
    board = InProcessBoard()
    device = LosesOneJob(board.device())
    expected = Engine.from_pack(pack).prefill(TOKENS[:100])
    with Npu(device) as npu:
        engine = Engine.from_pack(pack, npu, overlap="on")
        device.which = which
        with pytest.raises(OrkError, match="running a job"):
            engine.prefill(TOKENS[:100])
        assert engine.position == 0
        assert engine.prefill(TOKENS[:100]).tobytes() == expected.tobytes()
    board.close()


@pytest.mark.parametrize("overlap", ["on", "off"])
def test_a_prompt_stops_between_micro_batches_and_goes_on(pack: OrkPack, overlap) -> None:
    engine = Engine.from_pack(pack, ExactNpu(), overlap=overlap)
    asked = 0

    def second_time() -> bool:
        nonlocal asked
        asked += 1
        return asked == (2 if overlap == "on" else 1)

    assert engine.prefill_until(TOKENS, second_time) is None
    assert engine.position == 256
    assert engine.stats.prompt_tokens == 256
    rest = engine.prefill_until(TOKENS[256:], lambda: False)
    assert rest is not None and rest.tobytes() == Engine.from_pack(pack).prefill(TOKENS).tobytes()


def test_auto_tries_both_and_takes_the_faster(pack: OrkPack) -> None:
    engine = Engine.from_pack(pack, ExactNpu(), overlap="auto")
    expected = Engine.from_pack(pack).prefill(TOKENS[:200]).tobytes()
    for _ in range(4):
        assert engine.prefill(TOKENS[:200]).tobytes() == expected
        engine.rewind(0)
    report = engine.stats.overlap
    assert report is not None and report.serial_rate and report.overlapped_rate
    assert report.overlapped_prompts >= 1


@pytest.mark.model
def test_the_default_model_in_two_rooms(tmp_path: Path, default_model: Path) -> None:
    pack_gguf(default_model, tmp_path / "model.orkpack")
    tokens = np.random.default_rng(1).integers(0, 40000, 200).tolist()
    board = InProcessBoard()
    with OrkPack.open(tmp_path / "model.orkpack") as pack, Npu(board.device()) as npu:
        overlapped = Engine.from_pack(pack, npu, context=256, overlap="on")
        serial = Engine.from_pack(pack, npu, context=256, overlap="off")
        assert overlapped.prefill(tokens).tobytes() == serial.prefill(tokens).tobytes()
        assert overlapped.decode(5).tobytes() == serial.decode(5).tobytes()
    board.close()
