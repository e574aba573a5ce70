"""Captures from texts, with what the runner can read; and one log in every rendering."""

from __future__ import annotations

import json
from pathlib import Path

from orkbench_tui.ops.diagnosis.capture import Capture, from_bytes
from orkbench_tui.ops.diagnosis.diagnose import diagnose
from orkbench_tui.ops.diagnosis.evidence import Evidence, ModelSupport, gather
from orkbench_tui.ops.diagnosis.verdict import Verdict
from orkbench_tui.ops.kernel_log.renderings import parse_log

DATA = Path(__file__).parents[2] / "data"
CASES = sorted((DATA / "cases" / "br").iterdir())
SAMPLES = DATA / "samples"

SUPPORT = ModelSupport(
    tokenizers=frozenset({"gpt2", "smollm", "qwen2", "llama-bpe"}),
    tokenizer_models=frozenset({"gpt2"}),
    tensor_types=frozenset({0, 1, 2, 3, 8, 10, 12, 14, 30}),
    tensor_type_names=frozenset({"F32", "F16", "Q4_0", "Q4_1", "Q8_0", "Q2_K", "Q4_K", "Q6_K", "BF16"}),
)


def evidence(files: dict[str, str]) -> Evidence:
    captured = tuple(from_bytes(name, text.encode()) for name, text in files.items())
    return gather(Capture("replay", captured), SUPPORT)


def verdicts(files: dict[str, str]) -> tuple[Verdict, ...]:
    return diagnose(evidence(files))


def first(files: dict[str, str]) -> Verdict:
    return verdicts(files)[0]


def case_files(case: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(case.iterdir()) if path.name != "expected.json"}


def renderings(text: str) -> dict[str, str]:
    """A plain dmesg text in the other forms it is seen in."""
    records = parse_log(text.encode())
    stamps = [(r.ts_us or 0) / 1e6 for r in records]
    rows = list(zip(stamps, [r.message for r in records], strict=True))
    return {
        "plain": "".join(f"[{t:12.6f}] {m}\n" for t, m in rows),
        "raw": "".join(f"<3>[{t:12.6f}] {m}\n" for t, m in rows),
        "decoded": "".join(f"kern  :err   : [{t:12.6f}] {m}\n" for t, m in rows),
        "ctime": "".join(f"[Sat Nov 29 21:{int(t) // 60 % 60:02}:{int(t) % 60:02} 2025] {m}\n" for t, m in rows),
        "syslog": "".join(f"Nov 29 21:58:26 pi5 kernel: [{t:12.6f}] {m}\n" for t, m in rows),
        "short": "".join(f"Nov 29 21:58:26 pi5 kernel: {m}\n" for _, m in rows),
        "monotonic": "".join(f"[{t:12.6f}] pi5 kernel: {m}\n" for t, m in rows),
        "talos": "".join(f"10.0.0.7: kern:  err: [2025-11-29T21:58:26.1Z]: {m}\n" for _, m in rows),
        "crlf": "".join(f"[{t:12.6f}] {m}\r\n" for t, m in rows),
        "colour": "".join(f"\x1b[32m[{t:12.6f}] \x1b[0m{m}\n" for t, m in rows),
        "kmsg": "".join(
            f"3,{n},{round(t * 1e6)},-;{m}\n SUBSYSTEM=platform\n".replace("\t", "\\x09")
            for n, (t, m) in enumerate(rows, 100)
        ),
        "json": json.dumps({"dmesg": [{"pri": 3, "time": t, "msg": m} for t, m in rows]}),
        "journal": "".join(
            json.dumps({"_TRANSPORT": "kernel", "PRIORITY": "3", "MESSAGE": m, "_BOOT_ID": "ab" * 16,
                        "_SOURCE_MONOTONIC_TIMESTAMP": str(round(t * 1e6))}) + "\n"
            for t, m in rows
        ),
    }  # fmt: skip
