"""Counts over whole logs: incidents, never lines or the ``num`` of a reset."""

from __future__ import annotations

from pathlib import Path

import pytest

from orkbench_tui.ops.kernel_log.classify import Classified, classify, classify_all
from orkbench_tui.ops.kernel_log.counting import LogFacts, count
from orkbench_tui.ops.kernel_log.folding import LogRow, fold
from orkbench_tui.ops.kernel_log.records import LogRecord
from orkbench_tui.ops.kernel_log.renderings import parse_log
from orkbench_tui.ops.kernel_log.report import log_document, log_lines
from orkbench_tui.ops.kernel_log.rules import RULES, Severity, without_prefix
from orkbench_tui.ops.kernel_log.tracker import LogTracker
from tests.ops.fake_board import SAMPLES, kmsg, sample_text

CASES = SAMPLES.parent / "cases" / "br"


def items(name: str) -> list[Classified]:
    path = CASES / name[:6] / "input.dmesg.txt" if name.startswith("BR-") else SAMPLES / name
    return classify_all(parse_log(path.read_bytes()))


def facts(name: str) -> LogFacts:
    return count(items(name))


def ids(name: str) -> set[str]:
    return {item.rule.id for item in items(name) if item.rule}


def test_a_healthy_boot_has_no_problem() -> None:
    found = facts("dmesg-healthy-boot.txt")
    assert (found.problems, found.unknown_npu, found.resets) == (0, 0, 0)
    assert not found.lower_bound


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "dmesg-reset-storm.txt",
            {"hangs": 4, "resets": 4, "resets_forced": 4, "irq_mismatches": 1, "aborts": 1},
        ),
        ("dmesg-reset-storm-userspace.txt", {"hangs": 0, "resets": 14, "resets_forced": 0}),
        (
            "dmesg-domain-switch-timeout.txt",
            {
                "switch_timeouts": 6,
                "leaked_objects": 1,
                "leaked_bytes": 16777216,
                "uncommitted": 1,
                "hangs": 0,
            },
        ),
        ("dmesg-iova-exhaustion.txt", {"unmap_warnings": 2, "iova_failures": 2, "hangs": 0}),
        ("dmesg-page-fault.txt", {"page_faults": 3, "page_faults_suppressed": 411, "hangs": 1, "resets": 1}),
        ("dmesg-hung-task.txt", {"hung_tasks": 1, "hangs": 0}),
        ("dmesg-timeout-driver-0.8.2.txt", {"hangs": 1, "interrupted": 1, "resets": 1, "aborts": 0}),
        ("dmesg-timeout-driver-0.9.7.txt", {"hangs": 1, "resets": 1, "resets_forced": 1}),
        ("dmesg-rk3566-dkms-boot.txt", {"hangs": 1, "resets": 1}),
        ("dmesg-rk3576-boot.txt", {"hangs": 0, "resets": 0, "problems": 0}),
        ("dmesg-rocket-mainline.txt", {"hangs": 1, "resets": 0}),
        ("dmesg-wrap-gap.txt", {"resets": 1, "switches": 12, "lower_bound": True}),
        ("dmesg-T.txt", {"hangs": 1, "resets": 1, "resets_forced": 1}),
        ("kmsg-raw.txt", {"hangs": 1, "resets": 1, "lost_records": True, "lower_bound": True}),
        ("BR-006.dmesg.txt", {"hangs": 1, "resets": 1, "resets_forced": 1}),
        ("BR-009.dmesg.txt", {"hangs": 6, "resets": 6, "resets_forced": 6}),
        ("BR-011.dmesg.txt", {"switch_timeouts": 3, "hangs": 0, "iova_failures": 0}),
        ("BR-013.dmesg.txt", {"iova_failures": 1, "oom_kills": 0, "cma_failures": 0}),
        ("BR-021.dmesg.txt", {"cma_failures": 2, "oom_kills": 0, "iova_failures": 0}),
        ("BR-022.dmesg.txt", {"oom_kills": 1, "hangs": 0, "iova_failures": 0}),
    ],
)
def test_counts(name: str, expected: dict[str, int]) -> None:
    found = facts(name)
    assert {key: getattr(found, key) for key in expected} == expected


@pytest.mark.parametrize(
    "path",
    sorted([*SAMPLES.glob("dmesg*"), *CASES.glob("*/*dmesg*")]),
    ids=lambda p: f"{p.parent.name}-{p.name}",
)
def test_every_npu_line_of_the_samples_has_a_rule(path: Path) -> None:
    assert count(classify_all(parse_log(path.read_bytes()))).unknown_npu == 0


def test_classes_of_other_troubles() -> None:
    assert "npu.power.panic" in ids("dmesg-power-domain-panic.txt")
    assert {"npu.devfreq.opp", "npu.devfreq.absent", "gpu.noise"} <= ids("dmesg-opp-warnings.txt")
    assert {"npu.iommu.fault", "npu.iommu.wedged"} <= ids("dmesg-page-fault.txt")
    assert "npu.mem.still_mapped" in ids("dmesg-iova-exhaustion.txt")


def test_figures_are_read_out_of_the_lines() -> None:
    core = next(item for item in items("BR-006.dmesg.txt") if item.rule and item.rule.id == "npu.job.core")
    assert (core.figures["core"], core.figures["raw"]) == ("1", "0x0")
    killed = next(item for item in items("BR-022.dmesg.txt") if item.kind == "oom")
    assert (killed.figures["pid"], killed.figures["task"]) == ("2001", "llm_demo")


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ("RKNPU3: soft reset, num: 6", "npu.reset"),
        ("RKNPU: soft reset", "npu.reset"),
        (
            "RKNPU fdab0000.npu: RKNPU: switch iommu domain time out, failed, id: 1",
            "npu.iommu.switch_timeout",
        ),
        ("RKNPU 22000000.npu: RKNPU: failed to soft reset for rknpu: -110", "npu.reset.failed"),
        ("RKNPU ff300000.npu: can't request region for resource [mem 0x1-0x2]", "npu.boot.benign"),
        (
            "RKNPU fdab0000.rknpu: RKNPU: invalid iommu domain id: 17, reuse domain id: 0",
            "npu.iommu.domain_id",
        ),
        (
            "RKNPU: failed to wait job, task counter: 0, flags: 0x5, ret = -512, elapsed time: 1us",
            "npu.job.interrupted",
        ),
        ("RKNPU: job abort, flags: 0x0, ret: -512, elapsed time: 2632132us", "npu.job.abort.signal"),
        ("RKNPU: something no driver said before", "npu.unknown"),
        ("RKNPU fdab0000.npu: RKNPU: a new kind of line", "npu.unknown"),
    ],
)
def test_prefixes_and_node_names(message: str, rule: str) -> None:
    found = classify(LogRecord(message)).rule
    assert found is not None and found.id == rule


def test_lines_about_other_devices_have_no_rule() -> None:
    for message in (
        "EXT4-fs (nvme0n1p1): mounted filesystem",
        "usb 1-1: new device",
        "Memory: 32466012K available",
    ):
        assert classify(LogRecord(message)).rule is None


def test_rules_are_complete() -> None:
    for rule in RULES:
        assert rule.meaning, rule.id
        assert rule.next_step or rule.severity <= Severity.NOTICE or rule.id.endswith(".detail"), rule.id


def test_two_boots_in_one_journal_count_the_last() -> None:
    records = [LogRecord("RKNPU: soft reset, num: 6", ts_us=9_000_000, boot="a")] * 3
    records += [LogRecord("RKNPU: soft reset, num: 6", ts_us=5_000_000, boot="b")]
    found = count(classify_all(records))
    assert (found.resets, found.boots, found.lower_bound) == (1, 2, True)


def test_a_hang_is_one_row_that_says_what_happened() -> None:
    rows = fold([], [item for item in items("dmesg-reset-storm.txt") if item.rule])
    assert [row.rule_id for row in rows] == ["npu.job.timeout"] * 4 + ["npu.irq.mismatch", "npu.job.abort"]
    assert (
        rows[1].message == "job timed out on core 1 after 6.1 s: 17 tasks done, raw status 0xc0000000; reset"
    )
    assert len(rows[1].lines) == 5


def test_hangs_of_older_drivers_fold_too() -> None:
    rows = fold([], [item for item in items("dmesg-timeout-driver-0.8.2.txt") if item.rule])
    assert [row.rule_id for row in rows] == ["npu.job.timeout", "npu.job.interrupted", "npu.job.abort.signal"]
    assert rows[0].message.endswith("; reset")


def test_repeats_fold_but_unknown_lines_with_other_words_do_not() -> None:
    rows = fold([], [item for item in items("dmesg-wrap-gap.txt") if item.rule])
    assert [(row.rule_id, row.count) for row in rows] == [("npu.iommu.switch", 12), ("npu.reset", 1)]
    unknown = [classify(LogRecord(f"RKNPU: odd {word}")) for word in ("one", "one", "two")]
    assert [(row.count, row.message) for row in fold([], unknown)] == [
        (2, "RKNPU: odd one"),
        (1, "RKNPU: odd two"),
    ]


def test_following_gives_the_same_as_reading_at_once() -> None:
    records = kmsg(sample_text("dmesg-reset-storm.txt"))
    tracker, whole = LogTracker(), LogTracker()
    for record in records:
        tracker.feed([record])
        tracker.feed([record])
    whole.feed(records)
    assert tracker.facts() == whole.facts() and tracker.rows == whole.rows
    assert tracker.after_sequence == len(records) - 1


def test_a_gap_while_following_is_said() -> None:
    tracker = LogTracker()
    tracker.feed([b"6,0,1,-;Booting\n", b"6,1,2,-;RKNPU: soft reset, num: 6\n"])
    assert not tracker.facts().lower_bound
    tracker.feed([b"6,900,3,-;RKNPU: soft reset, num: 6\n"])
    assert tracker.facts().lower_bound and tracker.facts().resets == 2


def test_report_explains_each_class_once() -> None:
    found = items("dmesg-reset-storm.txt")
    lines = log_lines([item for item in found if item.rule], count(found))
    assert sum("accepted and never completed" in text for text in lines) == 1
    assert lines[-1].startswith("at least jobs timed out: 4, resets: 4")
    document = log_document(found, count(found))
    assert document["counts"]["resets"] == 4 and len(document["records"]) == 22


def test_without_prefix() -> None:
    assert without_prefix("RKNPU fdab0000.npu: RKNPU: bin=0") == "bin=0"
    assert without_prefix("[drm] Initialized rknpu") == "[drm] Initialized rknpu"


def test_row_limit() -> None:
    rows = [LogRow("x", Severity.INFO, str(n), "", "") for n in range(3)]
    assert [row.message for row in fold(rows, [], limit=2)] == ["1", "2"]


def test_two_boots_in_plain_text_count_the_newest() -> None:
    start = "[    0.000000] Booting Linux on physical CPU 0x0\n[    0.000000] Linux version 6.1.115\n"
    hang = (
        "[  412.031628] RKNPU: failed to wait job, task counter: 0, flags: 0x5, ret = 0, elapsed time: 6us\n"
    )
    found = count(classify_all(parse_log((start + hang + hang + start + hang).encode())))
    assert (found.hangs, found.boots, found.lower_bound) == (1, 2, False)
    unmarked = count(classify_all(parse_log((hang + "[    3.0] usb 1-1: x\n" + hang).encode())))
    assert (unmarked.hangs, unmarked.boots) == (1, 2)


def test_the_summary_names_lost_records_and_trouble_without_a_counter() -> None:
    lost = parse_log(b"6,1,10,-;RKNPU: soft reset, num: 6\n6,9,20,-;RKNPU: soft reset, num: 6\n")
    items = classify_all(lost)
    assert log_lines(items, count(items))[-1].endswith("records were lost in between")
    refused = classify_all(
        parse_log(b"[ 1.0] RKNPU fdab0000.npu: RKNPU: failed to soft reset for rknpu: -110\n")
    )
    assert "lines of warning or worse: 1" in log_lines(refused, count(refused))[-1]
