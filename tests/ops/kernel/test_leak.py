"""The leak of imports: reproduced on both kernels of the simulated board, counted per run, compared by kernel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from orkbench_tui.driver.npu import Npu
from orkbench_tui.errors import InvalidFileError, NoMemoryError
from orkbench_tui.ops.kernel.leak import (
    LeakReport,
    LeakRun,
    count_since,
    leak_lines,
    leak_table,
    mark_of,
    read_leak_report,
    reproduce,
    upstream_report,
)
from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.inprocess import InProcessBoard


def _runs(board: InProcessBoard, counts: list[int], imports: int = 1) -> tuple[LeakRun, ...]:
    @contextmanager
    def opened() -> Iterator[Npu]:
        with Npu(board.device(), heap=board.heap) as npu:
            yield npu

    log = board.files().kernel_log
    return tuple(reproduce(opened, log, count, imports=imports) for count in counts)


def _report(kernel: str, runs: tuple[LeakRun, ...]) -> LeakReport:
    return LeakReport(kernel, "build", "0.9.8", "sim", runs)


@pytest.mark.parametrize("patched", [False, True])
def test_only_imports_outside_domain_zero_leak_and_only_without_the_patch(patched: bool) -> None:
    board = InProcessBoard(variant=BoardVariant(patch_import_domain=patched))
    runs = _runs(board, [1, 2, 3, 3], imports=2)
    leaked = [run.warnings for run in runs]
    if patched:
        assert leaked == [0, 0, 0, 0]
    else:
        # At least every import outside domain 0; an unmap in the wrong domain may take another's with it.
        assert leaked[0] == 0 and all(
            (count or 0) >= 2 * n for count, n in zip(leaked[1:], (1, 2, 2), strict=True)
        )
    assert all(run.exact and not run.failure for run in runs)
    assert board.kernel.domains.leaked_mappings == sum(count or 0 for count in leaked)
    board.close()


def test_each_run_is_counted_from_its_own_part_of_the_log() -> None:
    warning = (
        b"4,%d,1,-;WARNING: CPU: 5 PID: 1 at drivers/iommu/dma-iommu.c:852 __iommu_dma_unmap+0xe4/0xf8\n"
    )
    before = [warning % number for number in range(5)]
    mark = mark_of(before)
    assert mark == 4 and count_since(before, mark) == (0, True)
    after = [*before, warning % 5, b"6,6,2,-;usb 1-1: new device\n", warning % 7]
    assert count_since(after, mark) == (2, True)
    assert count_since(after[:5] + after[6:], mark) == (1, False), "record 5 is gone: the ring wrapped"
    assert mark_of([]) is None


def test_a_log_that_cannot_be_read_leaves_the_count_unknown() -> None:
    board = InProcessBoard()

    @contextmanager
    def opened() -> Iterator[Npu]:
        with Npu(board.device(), heap=board.heap) as npu:
            yield npu

    run = reproduce(opened, lambda after: [], 2)
    assert run.warnings is None and not run.exact
    assert "cannot be read" in leak_lines(_report("k", (run,)))[1]
    board.close()


def test_runs_before_a_failure_are_counted() -> None:
    left = iter([None, None, NoMemoryError("no addresses in domain 1")])

    @contextmanager
    def opened() -> Iterator[Npu]:
        if (error := next(left)) is not None:
            raise error
        board = InProcessBoard()
        with Npu(board.device(), heap=board.heap) as npu:
            yield npu
        board.close()

    runs = tuple(reproduce(opened, lambda after: [], 1) for _ in range(3))
    report = _report("stock", runs)
    assert report.before_failure == 2 and "no addresses" in runs[2].failure
    assert "2 of 3 runs before a failure" in leak_lines(report)[-1]
    assert _report("patched", runs[:2] * 3).before_failure == 6


def test_kernels_that_leak_alike_are_not_the_cause_and_others_are_told() -> None:
    three = [_report(name, _three(30)) for name in ("stock", "sram", "sram+patch")]
    lines = leak_table(three)
    assert lines[0].split() == ["kernel", "1", "dom", "2", "dom", "3", "dom"]
    assert lines[2].split() == ["sram", "0", "30", "30"]
    assert "the same in every kernel" in lines[-1]
    assert leak_table([*three, _report("import-domain", _three(0))])[-1] == "it differs by kernel"
    other = _report("short", _three(30)[:1])
    assert "nothing follows" in leak_table([three[0], other])[-1]
    assert len(leak_table(three[:1])) == 2


def _three(warnings: int) -> tuple[LeakRun, ...]:
    return tuple(LeakRun(n, n, warnings if n > 1 else 0, True) for n in (1, 2, 3))


def test_a_table_of_both_simulated_kernels_differs() -> None:
    reports = []
    for patched in (False, True):
        board = InProcessBoard(variant=BoardVariant(patch_import_domain=patched))
        reports.append(_report("patched" if patched else "stock", _runs(board, [1, 3])))
        board.close()
    assert leak_table(reports)[-1] == "it differs by kernel"


def test_a_report_survives_its_document_and_damage_is_named() -> None:
    report = _report("6.1.115-vendor-rk35xx", (*_three(30), LeakRun(4, 8, None, False, "ENOMEM")))
    assert read_leak_report(json.loads(json.dumps(report.as_dict()))) == report
    assert read_leak_report({"data": report.as_dict()}) == report
    for bad in ([], {}, {"runs": [{}]}, {"runs": 3}):
        with pytest.raises(InvalidFileError):
            read_leak_report(bad)


def test_the_report_for_the_maintainers_has_reproducer_kernel_and_counts() -> None:
    text = upstream_report(_report("6.1.115-vendor-rk35xx", _three(30)))
    for part in (
        "6.1.115-vendor-rk35xx",
        "driver 0.9.8",
        "RKNPU_MEM_CREATE",
        "ork kernel leak",
        "| 3 | 3 | 30 |",
    ):
        assert part in text
    assert "not known" in upstream_report(replace(_report("k", ()), build="", driver=""))
