"""A failed job leaves what was submitted, word for word, and the error names the file."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.driver.chain import ChainTask
from orkbench_tui.driver.failure_files import read_failure
from orkbench_tui.driver.failure_reading import read_job_programs
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.recovery import MAX_ATTEMPTS
from orkbench_tui.errors import NoDeviceError, UnhealthyError
from orkbench_tui.ops.checks import exact_matmul
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.driver.failing_board import documents, failing_npu
from tests.driver.gated_board import is_nonblock


def _refusing(number: int):
    def fault(request: int, argument: bytearray, nth: int) -> bool:
        if request == uapi.RKNPU_SUBMIT:
            raise OSError(number, "injected")
        return False

    return fault


def _chain(npu: Npu, tasks: int = 3, core: int = 2):
    random = np.random.default_rng(7)
    a, b = (random.integers(-128, 128, shape, dtype=np.int8) for shape in ((1, 512), (64, 512)))
    weight = npu.load(INT8, "w", b)
    return npu.chain([ChainTask(weight, 1, a=a)] * tasks, core=core), weight


@pytest.mark.parametrize("number", [errno.ETIMEDOUT, errno.EINVAL, errno.EIO])
def test_a_submit_that_fails_leaves_a_file_its_error_names(
    board: InProcessBoard, tmp_path: Path, number: int
) -> None:
    with failing_npu(board, tmp_path, _refusing(number)) as npu:
        chain, _ = _chain(npu)
        with pytest.raises(UnhealthyError) as raised:
            chain.run()
    (path,) = tmp_path.iterdir()
    assert f"`ork npu failures {path.name}`" in raised.value.do
    assert "look at `ork board log`" in raised.value.do, "the first next step is still told"
    data = read_failure(str(path))["data"]
    assert data["failure"]["what"] == raised.value.what and errno.errorcode[number] in data["failure"]["why"]


def test_every_field_is_that_of_the_job(board: InProcessBoard, tmp_path: Path) -> None:
    with failing_npu(board, tmp_path, _refusing(errno.ETIMEDOUT)) as npu:
        chain, weight = _chain(npu)
        with pytest.raises(UnhealthyError):
            chain.run()
        (document,) = documents(tmp_path)
        data = document["data"]
        assert (document["source"], data["soc"], data["driver_version"]) == ("sim", "rk3588", "0.9.8")
        assert data["hw_version"] == hex(uapi.HW_VERSION_RK3588)
        (job,) = data["jobs"]
        assert (job["core"], job["core_mask"], job["flags"]) == (2, "0x4", "PC|PINGPONG")
        assert (job["waited_for"], job["timeout_ms"], job["domain"]) == (True, 60000, 0)
        sent = job["submit"]
        assert (sent["task_number"], sent["core_mask"]) == (3, "0x4")
        assert sent["subcore_task"][2] == {"task_start": sent["task_start"], "task_number": 3}
        rows = job["descriptors"]
        assert [row["index"] - sent["task_start"] for row in rows] == [0, 1, 2]
        assert {(row["enable_mask"], row["int_mask"], row["int_status"]) for row in rows} == {
            ("0xd", "0x300", "0x0")
        }
        held = {buffer.handle: buffer for use in npu.domains() for buffer in npu.memory.buffers(use.id)}
        assert {row["handle"] for row in data["buffers"]} == set(held)
        for row in data["buffers"]:
            buffer = held[row["handle"]]
            assert (int(row["iova"], 16), row["size"]) == (buffer.iova, buffer.size)
            assert int(row["flags"], 16) == buffer.flags
        task_array = next(row for row in data["buffers"] if row["descriptors"])
        assert task_array["obj_addr"] == sent["task_obj_addr"]
        assert (
            data["modes"]["last_mode"] == npu.modes.last_mode.value
            or data["modes"]["last_mode"] == "I8_CHAIN"
        )
        assert data["modes"]["resets"] == data["counters"]["resets"] == 1
        programs = read_job_programs(job, data, 99)
        assert [program.index for program in programs] == [row["index"] for row in rows]
        for program in programs:
            operation = program.operation
            assert operation is not None and not program.differs
            assert (operation.op, operation.dtype, operation.m, operation.k, operation.n) == (
                "matmul",
                "int8->int32",
                1,
                512,
                64,
            )
            weights = next(use for use in program.addresses if use.role == "w")
            assert weights.buffer == weight.buffers[0].handle
            assert {use.role for use in program.addresses} == {"a", "w", "c"}
            assert all(use.buffer is not None for use in program.addresses)


def test_words_are_those_the_controller_was_to_fetch(board: InProcessBoard, tmp_path: Path) -> None:
    with failing_npu(board, tmp_path, _refusing(errno.ETIMEDOUT)) as npu:
        chain, _ = _chain(npu)
        with pytest.raises(UnhealthyError):
            chain.run()
        (document,) = documents(tmp_path)
        words = document["data"]["words"]
        for row in document["data"]["jobs"][0]["descriptors"]:
            address = int(row["regcmd_addr"], 16)
            buffer = next(b for b in npu.memory.buffers(0) if b.iova <= address < b.iova + b.size)
            at = address - buffer.iova
            there = buffer.view[at : at + 8 * row["words"]].view(np.uint64)
            kept = [int(word, 16) for word in words[row["first_word"] : row["first_word"] + row["words"]]]
            assert kept == there.tolist()


def test_contents_of_weights_are_not_kept(board: InProcessBoard, tmp_path: Path) -> None:
    with failing_npu(board, tmp_path, _refusing(errno.ETIMEDOUT)) as npu:
        marked = np.full((64, 512), 0x5A, dtype=np.int8)
        weight = npu.load(INT8, "w", marked)
        chain = npu.chain([ChainTask(weight, 1, a=np.full((1, 512), 0x5A, dtype=np.int8))])
        with pytest.raises(UnhealthyError):
            chain.run()
    (path,) = tmp_path.iterdir()
    assert "5a5a5a5a" not in path.read_text()
    assert path.stat().st_size < 20_000


def test_a_result_that_never_comes_leaves_the_lost_job_not_the_one_that_waited_for_it(
    board: InProcessBoard, tmp_path: Path
) -> None:
    lost = failing_npu(board, tmp_path, lambda request, argument, nth: is_nonblock(request, argument))
    with lost as npu, pytest.raises(UnhealthyError) as raised:
        exact_matmul(npu, 1, 512, 64, dtype="fp16", path="doorbell", core=1)
    (path,) = tmp_path.iterdir()
    assert f"`ork npu failures {path.name}`" in raised.value.do and "`ork board recover`" in raised.value.do
    data = read_failure(str(path))["data"]
    assert (data["jobs"][0]["core"], data["jobs"][0]["waited_for"]) == (1, False)
    assert data["counters"]["drops"] == 1, "written at the first loss, before any reset"
    assert npu.counters.drops == MAX_ATTEMPTS + 1


@pytest.mark.parametrize("path", ["doorbell", "compiled"])
def test_a_job_that_was_lost_and_recovered_is_told_and_kept(
    board: InProcessBoard, tmp_path: Path, path: str
) -> None:
    taken: list[int] = []

    def fault(request: int, argument: bytearray, nth: int) -> bool:
        if is_nonblock(request, argument) and not taken:
            taken.append(nth)
            return True
        return False

    with failing_npu(board, tmp_path, fault) as npu:
        assert exact_matmul(npu, 1, 512, 64, path=path).wrong == 0
        (kept,) = tmp_path.iterdir()
        told = [line for line in npu.notices if kept.name in line]
    assert len(told) == 1 and "was lost and ran again" in told[0]
    job = read_failure(str(kept))["data"]["jobs"][0]
    assert (job["core"], job["waited_for"], job["owner"]) == (0, False, "matmul")


def test_a_compiled_program_the_kernel_refuses_leaves_its_file(board: InProcessBoard, tmp_path: Path) -> None:
    with (
        failing_npu(board, tmp_path, _refusing(errno.EINVAL)) as npu,
        pytest.raises(UnhealthyError) as raised,
    ):
        exact_matmul(npu, 1, 512, 64, path="compiled")
    (path,) = tmp_path.iterdir()
    assert path.name in raised.value.do


def test_results_that_come_and_are_wrong_leave_the_last_submits(
    board: InProcessBoard, tmp_path: Path
) -> None:
    with failing_npu(board, tmp_path, lambda request, argument, nth: request == uapi.RKNPU_SUBMIT) as npu:
        result = exact_matmul(npu, 16, 512, 64, core=1)
    assert result.wrong
    data = read_failure(str(tmp_path / result.failure_file))["data"]
    assert f"{result.wrong} of {16 * 64} elements are wrong" in data["failure"]["why"]
    assert [job["core"] for job in data["jobs"]] == [1] * result.submits
    assert sum(len(job["descriptors"]) for job in data["jobs"]) == result.tasks


def test_right_results_leave_nothing(board: InProcessBoard, tmp_path: Path) -> None:
    with failing_npu(board, tmp_path, lambda request, argument, nth: False) as npu:
        assert exact_matmul(npu, 16, 512, 64).failure_file == ""
    assert not list(tmp_path.iterdir())


def test_a_device_that_went_away_leaves_nothing(board: InProcessBoard, tmp_path: Path) -> None:
    with failing_npu(board, tmp_path, _refusing(errno.ENODEV)) as npu, pytest.raises(NoDeviceError) as raised:
        _chain(npu)[0].run()
    assert not list(tmp_path.iterdir()) and "npu failures" not in raised.value.line()


def test_an_unwritable_folder_hides_no_error(board: InProcessBoard, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with (
        failing_npu(board, blocked / "failures", _refusing(errno.ETIMEDOUT)) as npu,
        pytest.raises(UnhealthyError, match="did not finish in time") as raised,
    ):
        _chain(npu)[0].run()
    assert "npu failures" not in raised.value.line()


def test_a_driver_that_tells_no_version_leaves_a_file_all_the_same(
    board: InProcessBoard, tmp_path: Path
) -> None:
    def fault(request: int, argument: bytearray, nth: int) -> bool:
        if request == uapi.RKNPU_ACTION and uapi.Action.from_buffer_copy(argument).flags < 2:
            raise OSError(errno.EIO, "injected")
        return _refusing(errno.ETIMEDOUT)(request, argument, nth)

    with failing_npu(board, tmp_path, fault) as npu, pytest.raises(UnhealthyError):
        _chain(npu)[0].run()
    (document,) = documents(tmp_path)
    assert document["data"]["driver_version"] is None and document["data"]["words"]


def test_without_files_the_error_is_as_it_was(board: InProcessBoard, tmp_path: Path) -> None:
    with (
        failing_npu(board, tmp_path, _refusing(errno.ETIMEDOUT), keep=0) as npu,
        pytest.raises(UnhealthyError) as raised,
    ):
        _chain(npu)[0].run()
    assert not list(tmp_path.iterdir()) and raised.value.do == "look at `ork board log`, then run again"
