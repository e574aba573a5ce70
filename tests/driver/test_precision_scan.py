"""Who names a precision: those that are about it, those that are about several, and not what all of them share."""

from __future__ import annotations

from pathlib import Path

import pytest

import orkbench_tui.driver
from orkbench_tui.driver.timing.published import figure
from tests.driver.precision_scan import Kind, kind_of, references, table

DRIVER = Path(orkbench_tui.driver.__file__).parent

SEVERAL = {
    "matmul/formats.py": "the table of formats",
    "matmul/grouped.py": "groups of 4-bit and of 8-bit activations",
    "regcmd/operation_matmul.py": "names the format of any program",
    "regcmd/operation_tables.py": "the codes of all formats",
    "regcmd/programs.py": "the register groups of all formats",
    "regcmd/registers.py": "the field that selects one",
    "run_paths.py": "the modes of all formats",
    "sdp/formats.py": "the table of element-wise formats",
    "sdp/fused.py": "stages behind int8 and fp16 matmuls",
    "sdp/fused_programs.py": "the same",
}

SHARED = (
    "chain.py", "completion.py", "descriptor_state.py", "device.py", "domains.py", "doorbell.py",
    "doorbell_spread.py", "drain.py", "importer.py", "memory.py", "mode_gate.py", "polled_run.py", "recovery.py",
    "submit.py", "task_set.py", "teardown.py", "matmul/linked.py", "matmul/operands.py", "matmul/plan.py",
    "matmul/compiled.py", "matmul/splitting.py", "matmul/weights.py",
)  # fmt: skip


def test_modules_that_name_several_precisions_are_these_and_each_has_its_reason() -> None:
    assert {name for name, kind in table(DRIVER).items() if kind is Kind.MULTI} == set(SEVERAL)
    assert all(SEVERAL.values())


@pytest.mark.parametrize("name", SHARED)
def test_what_all_precisions_share_names_none(name: str) -> None:
    assert kind_of((DRIVER / name).read_text(encoding="utf-8")) is Kind.NONE


def test_the_scan_counts_uses_and_not_words() -> None:
    source = (
        "from formats import INT4, FP16\n# INT8\ntext = 'INT8'\nif f is INT4 or m.FP16 or INT4:\n    pass\n"
    )
    assert references(source) == {"int4": 2, "fp16": 1}
    assert [kind_of(text) for text in ("x = 1", "x = INT8", "x = INT8, INT4")] == list(Kind)


def test_the_published_leak_is_counted() -> None:
    """References of three modules of int8 to fp16 and int4, before they were moved: 26 in all."""
    leak = {"dyn": (9, 1), "colsplit": (12, 0), "dyn_ctl": (1, 3)}
    total = 0
    for fp16, int4 in leak.values():
        found = references("\n".join(["x = FP16"] * fp16 + ["x = INT4"] * int4))
        assert (found["fp16"], found["int4"]) == (fp16, int4)
        total += found.total()
    assert total == figure("RES-68 before").value == 26
