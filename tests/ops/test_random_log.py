"""Random log lines never raise; the rate over a million is measured by ``python -m tests.bench log_rate``."""

from __future__ import annotations

from orkbench_tui.ops.kernel_log.boots import split_boots
from orkbench_tui.ops.kernel_log.classify import classify_all
from orkbench_tui.ops.kernel_log.counting import count
from orkbench_tui.ops.kernel_log.folding import fold
from orkbench_tui.ops.kernel_log.renderings import parse_log
from tests.ops.diagnosis.given import verdicts
from tests.ops.random_log import random_lines

LINES = 20_000


def test_twenty_thousand_random_lines() -> None:
    data = b"\n".join(random_lines(LINES))
    records = parse_log(data)
    items = classify_all(records)
    assert len(items) == len(records) > LINES * 0.9
    assert sum(item.rule is not None for item in items) > LINES // 4
    facts = count(items)
    assert facts.records and sum(len(boot) for boot in split_boots(records)) == len(records)
    assert fold([], items[:2000])


def test_a_diagnosis_of_random_lines() -> None:
    for seed in range(8):
        text = b"\n".join(random_lines(400, seed)).decode("utf-8", "replace")
        assert verdicts({"dmesg.txt": text, "stderr.txt": text, "sysfs.txt": text, "patch-output.txt": text})
