"""Domains: several windows at once, who may switch when, what it costs, and the order of the end."""

from __future__ import annotations

import errno
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orkbench_tui.driver import uapi
from orkbench_tui.driver.domains import ANCHOR_BYTES, Domains, DomainSettings
from orkbench_tui.driver.failures import LifetimeError
from orkbench_tui.driver.matmul.formats import FP16, INT8
from orkbench_tui.driver.memory import Memory
from orkbench_tui.driver.npu import Npu
from orkbench_tui.driver.teardown import switches, teardown_order
from orkbench_tui.errors import RefusedError, UnhealthyError
from orkbench_tui.ops.kernel_log.tracker import LogTracker
from orkbench_tui.sim import lifecycle
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.inprocess import InProcessBoard

GIB = 1 << 30


def open_npu(board: InProcessBoard) -> Npu:
    quick = DomainSettings(settle_us=0)
    return Npu(board.device(), timeout_ms=2000, heap=board.heap, domain_settings=quick)


@pytest.fixture
def many(board: InProcessBoard) -> Iterator[Npu]:
    with open_npu(board) as npu:
        yield npu


def rows(seed: int, n: int = 96, k: int = 128) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (n, k), dtype=np.int8)


def exact(npu: Npu, weight, matrix: np.ndarray, m: int = 5) -> bool:  # type: ignore[no-untyped-def]
    matmul = npu.matmul_int8([weight], m)
    a = rows(99, m, matrix.shape[1])
    matmul.a[:] = a
    matmul.run()
    right = np.array_equal(matmul.outputs[0], a.astype(np.int32) @ matrix.T.astype(np.int32))
    matmul.close()
    return right


def kernel_switches(board: InProcessBoard) -> int:
    return b"".join(board.kernel.log.after(39)).count(b"switch iommu domain from")


@dataclass
class Recorder:
    """Stands in for the driver action and the clock."""

    asked: list[int] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    now: float = 100.0

    def domains(self, memory: Memory, **options: object) -> Domains:
        settings = DomainSettings(settle_us=0, **options.pop("settings", {}))  # type: ignore[arg-type]
        return Domains(memory, self.asked.append, settings, now=lambda: self.now, sleep=self.sleep, **options)  # type: ignore[arg-type]

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def memory(board: InProcessBoard) -> Memory:
    return Memory(board.device(), window_bytes=1 << 32, guard_bytes=3900 << 20)


# -- weights anywhere ----------------------------------------------------------------------------------


def test_weights_of_many_domains_are_exact(many: Npu) -> None:
    matrices = {domain: rows(domain) for domain in (0, 1, 5, 15)}
    weights = {domain: many.load(INT8, f"w{domain}", m, domain=domain) for domain, m in matrices.items()}
    for _ in range(3):
        for domain in matrices:
            assert exact(many, weights[domain], matrices[domain])
            assert many.domain_switching.active == domain


def test_every_domain_has_scratch_of_its_own(many: Npu) -> None:
    for domain in (1, 2):
        assert exact(many, many.load(INT8, "w", rows(domain), domain=domain), rows(domain))
    used = {use.id: use for use in many.domains()}
    assert set(used) == {1, 2}, "nothing was put into domain 0"
    assert used[1].used_bytes == used[2].used_bytes > (2 << 20)


def test_the_same_addresses_in_two_domains_are_two_weights(many: Npu) -> None:
    first = many.load(INT8, "a", rows(1), domain=1)
    second = many.load(INT8, "b", rows(2), domain=2)
    assert first.buffer.iova == second.buffer.iova
    assert exact(many, first, rows(1)) and exact(many, second, rows(2))


def test_other_formats_follow(many: Npu) -> None:
    matrix = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float16)
    matmul = many.matmul([many.load(FP16, "w", matrix, domain=4)], 3)
    a = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float16)
    matmul.a[:] = a
    matmul.run()
    np.testing.assert_allclose(
        matmul.outputs[0], a.astype(np.float64) @ matrix.T.astype(np.float64), rtol=1e-3, atol=1e-3
    )


def test_weights_of_two_domains_share_no_matmul(many: Npu) -> None:
    weights = [many.load(INT8, "w", rows(d), domain=d) for d in (1, 2)]
    with pytest.raises(ValueError, match=r"one domain, not \[1, 2\]"):
        many.matmul_int8(weights, 1)


def test_more_than_one_window_of_weights_is_held(board: InProcessBoard) -> None:
    memory = Memory(board.device(), window_bytes=1 << 32, guard_bytes=3900 << 20)
    for domain in range(3):
        for _ in range(3):
            memory.allocate(GIB, uapi.MemFlag.NON_CONTIGUOUS | 0x400, domain)
    assert [use.used_bytes for use in memory.domains()] == [3 * GIB] * 3
    memory.free_all()


def test_a_sixteenth_domain_is_the_last(many: Npu) -> None:
    with pytest.raises(RefusedError, match=r"GRD-09.*domain 16"):
        many.load(INT8, "w", rows(0), domain=16)


# -- accounting ----------------------------------------------------------------------------------------


def test_switches_are_counted_by_kind_and_agree_with_the_kernel(board: InProcessBoard, many: Npu) -> None:
    weights = [many.load(INT8, "w", rows(d), domain=d) for d in range(3)]
    matmuls = [many.matmul_int8([weight], 2) for weight in weights]
    loaded = many.domain_switching.counters
    assert (loaded.first_touch, many.memory.implicit_switches) == (2, 0)
    for _ in range(4):
        for matmul in matmuls:
            matmul.run()
            matmul.run()
    counters = many.domain_switching.counters
    assert counters.first_touch == 2
    assert counters.total - loaded.total == 12
    assert counters.steady == counters.total - 2
    assert counters.total == kernel_switches(board)
    assert counters.switch_s > 0


def test_layers_in_one_domain_cost_no_steady_switch(many: Npu) -> None:
    matmuls = [many.matmul_int8([many.load(INT8, f"w{i}", rows(i), domain=1)], 1) for i in range(4)]
    before = many.domain_switching.counters.total
    for matmul in matmuls * 3:
        matmul.run()
    assert many.domain_switching.counters.total == before


def test_activating_the_active_domain_does_nothing(memory: Memory) -> None:
    recorder = Recorder()
    domains = recorder.domains(memory)
    domains.activate(0)
    domains.activate(2)
    domains.activate(2)
    domains.activate(0)
    assert recorder.asked == [2, 0]
    assert (domains.counters.total, domains.counters.first_touch, domains.counters.steady) == (2, 1, 1)


def test_one_domain_alone_never_asks_the_driver(board: InProcessBoard) -> None:
    """Drivers up to 0.8 do not know the action."""
    with open_npu(board) as npu:
        npu._set_domain = lambda domain: pytest.fail("asked")  # type: ignore[method-assign]
        assert exact(npu, npu.load(INT8, "w", rows(1)), rows(1))
        assert exact(npu, npu.load(INT8, "i", rows(2), imported=True), rows(2))


@pytest.mark.parametrize("imported", [True, False])
def test_a_program_begins_in_domain_0_wherever_the_one_before_it_went(
    board: InProcessBoard, imported: bool
) -> None:
    with open_npu(board) as npu:
        npu.domain_switching.activate(2)
    assert board.kernel.domains.live == 2
    with open_npu(board) as npu:
        assert exact(npu, npu.load(INT8, "w", rows(1), imported=imported), rows(1))
    assert board.kernel.domains.leaked_mappings == 0


def test_a_kernel_that_ignores_the_call_is_found_out(memory: Memory) -> None:
    domains = Domains(memory, lambda domain: None, DomainSettings(settle_us=0), get_domain=lambda: 0)
    with pytest.raises(UnhealthyError, match="did not enter domain 3"):
        domains.activate(3)


def test_the_settle_time_is_slept_and_counted(memory: Memory) -> None:
    recorder = Recorder()
    domains = Domains(memory, recorder.asked.append, now=lambda: recorder.now, sleep=recorder.sleep)
    domains.activate(1)
    assert recorder.slept == [0.001]
    assert domains.counters.settle_s == 0.001


# -- waiting -------------------------------------------------------------------------------------------


def test_a_switch_waits_for_those_inside(memory: Memory) -> None:
    recorder = Recorder()
    domains = recorder.domains(memory)
    domains.enter(1)
    order: list[str] = []

    def other() -> None:
        with domains.use(2):
            order.append("in 2")

    thread = threading.Thread(target=other)
    thread.start()
    with domains.use(1):
        order.append("in 1 again")
    assert order == ["in 1 again"] and recorder.asked == [1]
    order.append("left 1")
    domains.leave()
    thread.join(5)
    assert order == ["in 1 again", "left 1", "in 2"]
    assert recorder.asked == [1, 2]


def test_nobody_waits_for_unattended_work(memory: Memory) -> None:
    domains = Recorder().domains(memory)
    domains.enter(1, unattended=True)
    with pytest.raises(LifetimeError, match="runs in domain 1"):
        domains.enter(2)
    with domains.use(1):
        pass
    domains.leave(unattended=True)
    domains.enter(2)


def test_threads_in_several_domains_stay_exact(many: Npu) -> None:
    weights = {domain: many.load(INT8, "w", rows(domain), domain=domain) for domain in (1, 2, 3)}
    failures: list[int] = []

    def work(domain: int) -> None:
        for _ in range(8):
            if not exact(many, weights[domain], rows(domain)):
                failures.append(domain)

    threads = [threading.Thread(target=work, args=(domain,)) for domain in weights]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)


# -- lost jobs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timeout_ms", "cap_ms", "waited"), [(60_000, 90_000, 60.0), (1500, 60_000, 1.5), (60_000, 5000, 5.0)]
)
def test_leaving_a_dirty_domain_waits_by_the_lost_jobs_own_time_out(
    memory: Memory, timeout_ms: int, cap_ms: int, waited: float
) -> None:
    recorder, reaped = Recorder(), []
    domains = recorder.domains(memory, settings={"reap_max_ms": cap_ms}, reap=reaped.append)
    domains.activate(1)
    domains.mark_dirty(1, timeout_ms)
    recorder.now += 0.5
    domains.activate(1)
    assert recorder.slept == [] and domains.dirty == (1,), "staying costs nothing"
    domains.activate(2)
    assert recorder.slept == [pytest.approx(waited - 0.5 + 0.05)]
    assert reaped == [1] and domains.dirty == ()
    assert domains.counters.reaped == 1


def test_the_longest_of_two_lost_jobs_counts(memory: Memory) -> None:
    recorder = Recorder()
    domains = recorder.domains(memory)
    domains.activate(1)
    domains.mark_dirty(1, 3000)
    domains.mark_dirty(1, 1000)
    domains.activate(0)
    assert recorder.slept == [pytest.approx(3.05)]


def test_a_wait_that_is_over_costs_nothing(memory: Memory) -> None:
    recorder = Recorder()
    domains = recorder.domains(memory)
    domains.activate(1)
    domains.mark_dirty(1, 1000)
    recorder.now += 10
    domains.activate(0)
    assert recorder.slept == []


# -- anchors -------------------------------------------------------------------------------------------


def test_one_anchor_per_domain_and_none_in_domain_zero(memory: Memory) -> None:
    domains = Recorder().domains(memory)
    for domain in (0, 1, 1, 3, 1):
        domains.anchor(domain)
    assert domains.anchors == (1, 3)
    assert [(b.size, b.anchor) for b in memory.buffers(1)] == [(ANCHOR_BYTES, True)]
    assert memory.buffers(0) == []


def test_the_anchor_makes_imports_exact_and_without_it_the_last_columns_are_wrong(
    board: InProcessBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = rows(3, 512, 512)
    a = rows(99, 4, 512)
    right = a.astype(np.int32) @ matrix.T.astype(np.int32)

    def result(domain: int) -> np.ndarray:
        with open_npu(board) as npu:
            matmul = npu.matmul_int8([npu.load(INT8, "w", matrix, domain=domain, imported=True)], 4)
            matmul.a[:] = a
            matmul.run()
            return matmul.outputs[0].copy()

    assert np.array_equal(result(1), right)
    monkeypatch.setattr(Domains, "anchor", lambda self, domain: None)
    wrong = result(2)
    assert np.array_equal(wrong[:, 0], right[:, 0]), "looking at C[0] alone proves nothing"
    assert (wrong[:, -64:] != right[:, -64:]).mean() > 0.9
    assert np.array_equal(wrong[:, :448], right[:, :448])


# -- the end -------------------------------------------------------------------------------------------


def _fill(npu: Npu, domains: range) -> None:
    for domain in domains:
        for index in range(4):
            matrix = rows(index)
            weight = npu.load(INT8, f"w{index}", matrix, domain=domain, imported=index % 2 == 1)
            assert exact(npu, weight, matrix)


@pytest.mark.parametrize("patched", [False, True])
def test_the_end_costs_one_switch_per_domain(patched: bool) -> None:
    board = InProcessBoard(variant=BoardVariant(patch_import_domain=patched))
    npu = open_npu(board)
    _fill(npu, range(4))
    order = teardown_order(npu.memory._buffers.values())
    assert len(order) > 20
    assert switches(order, npu.memory.kernel_domain) == 4
    before = kernel_switches(board)
    npu.close()
    assert kernel_switches(board) - before == 4
    assert board.kernel.memory.objects == 0
    board.close()


def test_freeing_in_the_order_of_loading_would_cost_far_more(many: Npu) -> None:
    for index in range(12):
        many.load(INT8, "w", rows(index), domain=index % 3)
    held = sorted(many.memory._buffers.values(), key=lambda b: b.obj_addr)
    assert switches(held, 0) >= 10
    assert switches(teardown_order(held), 0) == 2


def test_imports_go_before_anchors_in_both_kernels(board: InProcessBoard) -> None:
    for patched in (False, True):
        other = InProcessBoard(variant=BoardVariant(patch_import_domain=patched))
        with open_npu(other) as npu:
            _fill(npu, range(3))
            order = teardown_order(npu.memory._buffers.values())
            for domain in (1, 2):
                mine = [b for b in order if b.domain == domain]
                anchor = next(i for i, b in enumerate(mine) if b.anchor)
                assert all(b.source is None for b in mine[anchor:])
                assert anchor == len(mine) - 1
        other.close()


def test_no_domain_is_activated_while_objects_are_freed(board: InProcessBoard) -> None:
    npu = open_npu(board)
    _fill(npu, range(3))
    asked: list[int] = []
    npu._set_domain = asked.append  # type: ignore[method-assign]
    npu.close()
    assert asked == []
    with pytest.raises(RefusedError, match="GRD-05"):
        npu.domain_switching.activate(1)


def test_the_end_waits_until_nobody_is_inside(memory: Memory) -> None:
    domains = Recorder().domains(memory)
    memory.allocate(4096)
    domains.enter(0)
    done = threading.Event()

    def end() -> None:
        domains.release_all()
        done.set()

    thread = threading.Thread(target=end)
    thread.start()
    assert not done.wait(0.05)
    assert memory.used_bytes(0) == 4096
    domains.leave()
    assert done.wait(5)
    assert memory.used_bytes(0) == 0


# -- the leak, seen from above -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patched", "domains", "leaked"), [(False, 1, 0), (False, 2, 2), (False, 3, 4), (True, 3, 0)]
)
def test_a_run_leaks_its_imports_outside_domain_zero_unless_the_kernel_is_patched(
    patched: bool, domains: int, leaked: int
) -> None:
    board = InProcessBoard(variant=BoardVariant(patch_import_domain=patched))
    for run in range(1, 4):
        with open_npu(board) as npu:
            _fill(npu, range(domains))
        log = b"".join(board.kernel.log.after(39))
        assert log.count(b"__iommu_dma_unmap+0xe4/0xf8\n") in (0, 2 * leaked * run, leaked * run)
        assert log.count(b"WARNING: CPU") == board.kernel.domains.leaked_mappings == leaked * run
    board.close()


def test_native_weights_leak_nothing_in_any_domain(board: InProcessBoard) -> None:
    with open_npu(board) as npu:
        for domain in range(4):
            npu.load(INT8, "w", rows(domain), domain=domain)
    assert board.kernel.domains.leaked_mappings == 0


# -- processes -----------------------------------------------------------------------------------------

_OTHER = """
import sys, numpy as np
from pathlib import Path
from orkbench_tui.driver.domains import DomainSettings
from orkbench_tui.driver.matmul.formats import INT8
from orkbench_tui.driver.npu import Npu
from orkbench_tui.sim.client import SimDevice, SimDmaHeap
path, domain = sys.argv[1], int(sys.argv[2])
with Npu(SimDevice(path), heap=lambda: SimDmaHeap(path), domain_settings=DomainSettings(settle_us=0)) as npu:
    w = np.random.default_rng(domain).integers(-128, 128, (256, 256), dtype=np.int8)
    weight = npu.load(INT8, "w", w, domain=domain, imported=True)
    m = npu.matmul_int8([weight], 3)
    m.run()
    print("ready", flush=True)
    sys.stdin.readline()
    for seed in range(15):
        m.a[:] = a = np.random.default_rng(seed).integers(-128, 128, (3, 256), dtype=np.int8)
        m.run()
        assert np.array_equal(m.outputs[0], a.astype(np.int32) @ w.T.astype(np.int32)), seed
print("exact")
"""


@pytest.fixture
def socket_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The socket of a simulated board in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="orkdom-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield str(lifecycle.start().socket_path)
        lifecycle.stop()


def test_two_processes_in_different_domains_are_exact_and_their_leak_outlives_them(
    socket_path: str,
) -> None:
    others = []
    for domain in (1, 2):
        other = subprocess.Popen(
            [sys.executable, "-c", _OTHER, socket_path, str(domain)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        # The first run of a process resets the NPU, which would end the jobs of the other one.
        assert other.stdout is not None and other.stdout.readline() == "ready\n"
        others.append(other)
    for other in others:
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
    assert [other.communicate(timeout=60)[0] for other in others] == ["exact\n", "exact\n"]
    status = lifecycle.status()
    assert status is not None
    assert (status.clients, status.leaked_mappings) == (0, 2)
    lifecycle.stop()
    again = lifecycle.start(variant=BoardVariant(patch_import_domain=True))
    assert (again.leaked_mappings, again.patch_import_domain) == (0, True)


def test_a_domain_the_kernel_cannot_enter_is_a_typed_error(board: InProcessBoard, many: Npu) -> None:
    def refuse(request: int, argument: bytearray) -> int:
        raise OSError(errno.EINVAL, "switch")

    many.load(INT8, "w", rows(1))
    many._device.ioctl = refuse  # type: ignore[method-assign]
    with pytest.raises(UnhealthyError, match="SET_IOMMU_DOMAIN_ID"):
        many.domain_switching.activate(1)
    assert many.domain_switching.active == 0


def test_the_log_monitor_counts_what_leaked(board: InProcessBoard) -> None:
    with open_npu(board) as npu:
        _fill(npu, range(3))
    tracker = LogTracker()
    tracker.feed(board.files().kernel_log(-1))
    assert tracker.facts().unmap_warnings == board.kernel.domains.leaked_mappings == 4


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["native", "import", "free", "run"]), st.integers(0, 3)), max_size=14
    ),
    patched=st.booleans(),
)
@example(steps=[("import", 1), ("native", 1), ("free", 0), ("free", 0)], patched=False)
def test_any_order_of_work_is_exact_and_ends_clean(steps: list[tuple[str, int]], patched: bool) -> None:
    board = InProcessBoard(variant=BoardVariant(patch_import_domain=patched))
    npu = open_npu(board)
    held: list[tuple[Any, int]] = []
    imports = 0
    for seed, (step, which) in enumerate(steps):
        if step in ("native", "import"):
            imported = step == "import"
            imports += imported and which != 0
            held.append((npu.load(INT8, "w", rows(seed, 32, 32), domain=which, imported=imported), seed))
        elif held and step == "free":
            npu.free(held.pop(which % len(held))[0])
        elif held:
            weight, made = held[which % len(held)]
            assert exact(npu, weight, rows(made, 32, 32))
    asked = npu.domain_switching.counters.total + npu.memory.implicit_switches
    # A stock kernel frees every import in domain 0, whatever domain it was asked for: there and back.
    unseen = 0 if patched else 2 * imports
    assert asked + unseen >= kernel_switches(board)
    npu.close()
    assert board.kernel.memory.objects == board.kernel.memory.heap.allocated == 0
    assert board.kernel.domains.leaked_mappings == (0 if patched else imports)
    board.close()


@pytest.mark.parametrize("noted", [True, False])
def test_a_lost_job_is_reaped_before_the_switch_and_blocks_it_otherwise(
    board: InProcessBoard, many: Npu, noted: bool
) -> None:
    first, second = (many.load(INT8, "w", rows(d), domain=d) for d in (1, 0))
    matmul = many.matmul_int8([first], 2)
    matmul.run()
    job = matmul._jobs[0]
    task = uapi.Task.from_buffer(job.descriptors.view.data, 0)
    task.int_mask = 0xC00  # an interrupt that never comes
    many.memory.sync(job.descriptors, uapi.SyncFlag.TO_DEVICE)
    many.context.submitter.start_on(0, job)
    if noted:
        many.domain_switching.mark_dirty(1, 20)
        assert exact(many, second, rows(0))
        assert many.domain_switching.counters.reaped == 1
        assert b"time out" not in b"".join(board.kernel.log.after(39))
    else:
        with pytest.raises(UnhealthyError, match="SET_IOMMU_DOMAIN_ID"):
            many.domain_switching.activate(0)
        assert b"switch iommu domain time out" in b"".join(board.kernel.log.after(39))
