"""Lines of a kernel log classified in a second: a million random ones, parsed, classified and counted."""

from __future__ import annotations

import time

from orkbench_tui.ops.kernel_log.classify import classify
from orkbench_tui.ops.kernel_log.counting import Counter
from orkbench_tui.ops.kernel_log.renderings import parse_log
from tests.ops.random_log import random_lines

BATCH = 20_000


def run(lines: int = 1_000_000) -> None:
    parse_s = classify_s = 0.0
    counter = Counter()
    known = total = 0
    for seed in range(lines // BATCH):
        data = b"\n".join(random_lines(BATCH, seed))
        start = time.perf_counter()
        records = parse_log(data)
        middle = time.perf_counter()
        for record in records:
            item = classify(record)
            counter.add(item)
            known += item.rule is not None
        parse_s += middle - start
        classify_s += time.perf_counter() - middle
        total += BATCH
    print(
        f"{total} random log lines: {total / (parse_s + classify_s):,.0f} lines/s parsed, classified and counted "
        f"({total / classify_s:,.0f} without parsing), {known} matched a rule (host)"
    )
