"""What boards punish, provoked: the damage, the counters of the kernel log, and every line known to its table.

Rows: how it is provoked, the errno (None: the call succeeds), whether the result is right (None: there is none),
what the log counts. The mode hazards and the first output of a cold core have tests of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from errno import EINVAL, ENODEV, ENOMEM, ETIMEDOUT

import numpy as np
import pytest

from orkbench_tui.driver import uapi
from orkbench_tui.ops.kernel_log.classify import classify_all
from orkbench_tui.ops.kernel_log.counting import count
from orkbench_tui.ops.kernel_log.records import parse_kmsg
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.chip.conv_native import execute_native
from orkbench_tui.sim.faults.catalogue import Event
from orkbench_tui.sim.inprocess import InProcessBoard
from tests.sim import programs
from tests.sim.board_client import UNCACHED, Client, Matmul, matmul
from tests.sim.chip import build
from tests.sim.kernel.imports import chain, destroy, errno_of, import_into

_ONE_HANG = {"hangs": 1, "resets": 1, "resets_forced": 1}


@dataclass(frozen=True)
class Hazard:
    provoke: Callable[[InProcessBoard, Client], bool | None]
    fails: int | None = None
    right: bool | None = None
    counts: dict[str, int] = field(default_factory=dict)
    sram: bool = False
    dead_after: bool = False
    """Only a power cycle helps."""


def _work(client: Client) -> Matmul:
    return matmul(client, 4, 64, 32)


def _right(work: Matmul, sync: bool = True) -> bool:
    return bool(np.array_equal(work.result(sync), work.expected))


def _stale_operand(board: InProcessBoard, client: Client) -> bool:
    work = _work(client)
    work.a[:] = 1
    client.put(work.memory_a, work.a, sync=False)
    client.submit(work.tasks, 1)
    return _right(work)


def _stale_result(board: InProcessBoard, client: Client) -> bool:
    work = _work(client)
    client.submit(work.tasks, 1)
    return _right(work, sync=False)


def _dirty_line(board: InProcessBoard, client: Client) -> bool:
    """The CPU wrote to the result's buffer and cleans it after the job: its old line covers the result."""
    work = _work(client)
    work.memory_c.view[64:128] = 0x77
    client.submit(work.tasks, 1)
    client.sync(work.memory_c, 3)
    return _right(work, sync=False)


def _partial_sync(board: InProcessBoard, client: Client) -> bool:
    work = _work(client)
    client.submit(work.tasks, 1)
    client.sync(work.memory_c, 2, 0, 4 * work.expected.size // 2)
    return _right(work, sync=False)


def _seven_mappings(board: InProcessBoard, client: Client) -> bool:
    rng = np.random.default_rng(1)
    weights = []
    for _ in range(7):
        rows = rng.integers(-128, 128, (32, 64), dtype=np.int8)
        one = import_into(client, board, rows.size)
        one.put(programs.weight_tiles(rows))
        weights.append((one.iova, rows))
    work = chain(client, weights)
    work.run()
    return True


def _big_import(board: InProcessBoard, client: Client) -> None:
    import_into(client, board, 64 << 20)


def _no_anchor(board: InProcessBoard, client: Client) -> bool:
    rows = np.random.default_rng(2).integers(1, 128, (512, 64), dtype=np.int8)
    one = import_into(client, board, rows.size, domain=3)
    one.put(programs.weight_tiles(rows))
    work = chain(client, [(one.iova, rows)], domain=3)
    work.run()
    result = work.results()[0]
    assert np.array_equal(result[:, :32], work.expected[0][:, :32]), "the first columns are right"
    return bool(np.array_equal(result, work.expected[0]))


def _sram_task_array(board: InProcessBoard, client: Client) -> None:
    client.allocate(4096, 0x40B | 0x100)


def _three_cores(board: InProcessBoard, client: Client) -> None:
    client.submit(_work(client).tasks, 1, core_mask=7)


def _row_cap(board: InProcessBoard, client: Client) -> None:
    m = 8177
    source, target = client.allocate(16 * m), client.allocate(16 * m)
    registers = build.sdp(m, 16, formats=0, rdma=0x7801, src=source.iova, dst=target.iova)
    _, tasks = client.write_programs([build.program(registers, 0x18)[:-4]], 0x18)
    client.submit(tasks, 1)


def _wrong_int_mask(board: InProcessBoard, client: Client) -> None:
    work = _work(client)
    client.set_task(work.tasks, 0, int_mask=0x100)
    client.submit(work.tasks, 1)


def _stale_descriptor(board: InProcessBoard, client: Client) -> None:
    """The amount of a shorter program: the enable word is not fetched. A reset changes nothing about it."""
    work = _work(client)
    client.set_task(work.tasks, 0, regcfg_amount=64)
    assert errno_of(lambda: client.submit(work.tasks, 1)) == ETIMEDOUT
    client.action(uapi.ActionCode.ACT_RESET)
    client.submit(work.tasks, 1)


def _other_domain(board: InProcessBoard, client: Client) -> None:
    client.submit(_work(client).tasks, 1, domain=1)


def _link_to_garbage(board: InProcessBoard, client: Client) -> None:
    """A run whose links go on where no program is."""
    work = matmul(client, 4, 64, 32, copies=2)
    words = work.commands.view.view(np.uint64)
    body = len(words[: work.commands.size // 16])
    at = next(i for i in range(body) if int(words[i]) & 0xFFFF == 0x10 and int(words[i]) >> 48 == programs.PC)
    words[at] = np.uint64(programs.word(programs.PC, 0x1000_0000, 0x10))
    client.sync(work.commands, 1)
    client.submit(work.tasks, 2)


def _link_beyond(board: InProcessBoard, client: Client) -> None:
    client.submit(matmul(client, 4, 64, 32, copies=3).tasks, 2)


def _self_link(board: InProcessBoard, client: Client) -> bool:
    """Bounded by the count: it completes."""
    work = _work(client)
    body = work.commands.view.view(np.uint64)[:108].tolist()
    commands, tasks = client.write_programs([body], last=(0, 0))
    following = programs.trailer(commands.iova, 108)
    client.put(commands, np.array(following, np.uint64), 8 * 108)
    client.submit(tasks, 1)
    return _right(work)


def _lost_job(board: InProcessBoard, client: Client) -> None:
    """A job that nobody waits for and that never completes: other domains starve, a reset does not help."""
    work = _work(client)
    client.set_task(work.tasks, 0, int_mask=0x100)
    client.submit(work.tasks, 1, flags=7, timeout=60_000)
    job = board.kernel.scheduler.cores[0].owner
    with board.kernel.condition:
        assert job is not None and board.kernel.condition.wait_for(lambda: job.hung, 10)
    client.action(uapi.ActionCode.ACT_RESET)
    client.allocate(4096, domain=1)


def _import_leak(board: InProcessBoard, client: Client) -> None:
    client.allocate(4096, domain=1)
    for _ in range(3):
        destroy(client, import_into(client, board, 1 << 20, domain=1))
    assert board.kernel.domains.leaked_mappings == 3


def _seventeenth_domain(board: InProcessBoard, client: Client) -> None:
    client.allocate(4096, domain=16)


def _kernel_reads_user_memory(board: InProcessBoard, client: Client) -> None:
    work = _work(client)
    array = client.allocate(4096, UNCACHED)
    array.view[:40] = work.tasks.view[:40]
    client.submit(array, 1)


HAZARDS = {
    "operand that was not synced": Hazard(_stale_operand, right=False),
    "result that was not synced": Hazard(_stale_result, right=False),
    "result that was synced in part": Hazard(_partial_sync, right=False),
    "dirty line over a result": Hazard(_dirty_line, right=False),
    "seven imported mappings in a chain": Hazard(_seven_mappings, ETIMEDOUT, counts=_ONE_HANG),
    "import of 64 MiB": Hazard(_big_import, ENOMEM),
    "import before an anchor": Hazard(_no_anchor, right=False, counts={"switches": 1}),
    "task array in SRAM": Hazard(_sram_task_array, ENODEV, sram=True, dead_after=True),
    "three cores, slots 0 to 2": Hazard(_three_cores, ETIMEDOUT, counts=_ONE_HANG, dead_after=True),
    "8177 rows": Hazard(_row_cap, ETIMEDOUT, counts=_ONE_HANG),
    "half an interrupt mask": Hazard(_wrong_int_mask, ETIMEDOUT, counts=_ONE_HANG | {"irq_mismatches": 1}),
    "stale descriptor": Hazard(_stale_descriptor, ETIMEDOUT, counts={"hangs": 2, "resets": 3, "resets_forced": 2}),
    "buffers of another domain": Hazard(_other_domain, ETIMEDOUT, counts=_ONE_HANG | {"switches": 1, "page_faults": 1}),
    "unbounded: links into nothing": Hazard(_link_to_garbage, ETIMEDOUT, counts=_ONE_HANG | {"page_faults": 1}),
    "link beyond the count": Hazard(_link_beyond, EINVAL, counts={"aborts": 1}),
    "link to itself": Hazard(_self_link, right=True),
    "lost job": Hazard(_lost_job, EINVAL, counts={"resets": 1, "irq_mismatches": 1, "switch_timeouts": 1}),
    "imports destroyed outside domain 0": Hazard(_import_leak, counts={"unmap_warnings": 3, "switches": 6}),
    "seventeenth domain": Hazard(_seventeenth_domain, EINVAL),
    "task array without kernel mapping": Hazard(_kernel_reads_user_memory, 14),
}  # fmt: skip


@pytest.mark.parametrize("name", HAZARDS)
def test_a_hazard_does_its_damage_and_leaves_its_lines(name: str) -> None:
    hazard = HAZARDS[name]
    board = InProcessBoard(variant=BoardVariant(sram=hazard.sram))
    client = Client(board.device())
    boot = parse_kmsg(board.kernel.log.after(-1))
    start = max(record.sequence or 0 for record in boot)
    answers: list[bool | None] = []
    assert errno_of(lambda: answers.append(hazard.provoke(board, client))) == hazard.fails
    if hazard.right is not None:
        assert answers == [hazard.right]

    items = classify_all(parse_kmsg(board.kernel.log.after(start)))
    facts = count(items)
    watched = {
        "hangs", "resets", "resets_forced", "aborts", "uncommitted", "irq_mismatches", "switches", "switch_timeouts",
        "page_faults", "unmap_warnings", "iova_failures",
    }  # fmt: skip
    assert {key: getattr(facts, key) for key in watched} == dict.fromkeys(watched, 0) | hazard.counts
    assert [item.record.message for item in items if item.rule and item.rule.id == "npu.unknown"] == []

    assert bool(board.kernel.wedged) == hazard.dead_after
    if hazard.dead_after:
        assert errno_of(lambda: _plain(client)) in (ENODEV, ETIMEDOUT)
        board.machine.restart(Event.REBOOT)
        board.machine.restart(Event.POWER_CYCLE)
        assert _plain(Client(board.device()))
    board.close()


def _plain(client: Client) -> bool:
    work = _work(client)
    client.submit(work.tasks, 1)
    return _right(work)


def test_descriptors_are_a_snapshot_and_programs_are_read_when_reached() -> None:
    """Patching a running chain: the count and the descriptors no more, the links still."""
    entered, go_on = threading.Event(), threading.Event()

    def execute(operation: object, space: object) -> None:
        entered.set()
        assert go_on.wait(20)
        execute_native(operation, space)  # type: ignore[arg-type]

    board = InProcessBoard(execute=execute)
    client = Client(board.device())
    work = matmul(client, 4, 64, 32, copies=4)
    outcome: list[uapi.Submit] = []
    thread = threading.Thread(target=lambda: outcome.append(client.submit(work.tasks, 4)))
    thread.start()
    assert entered.wait(10)
    for index in (1, 2):
        client.set_task(work.tasks, index, regcmd_addr=0, regcfg_amount=1, int_mask=0)
    words = work.commands.view.view(np.uint64)
    links = [
        at for at, word in enumerate(words.tolist()) if word >> 48 == programs.PC and word & 0xFFFF == 0x14
    ]
    words[links[2]] = np.uint64(programs.word(programs.PC, 0, 0x14))
    client.sync(work.commands, 1)
    go_on.set()
    thread.join(20)
    assert outcome[0].task_counter == 4, "the driver answers the number that was asked for"
    assert board.kernel.scheduler.cores[0].interrupts == 1
    assert _right(work)
    board.close()
