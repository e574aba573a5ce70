"""Cases typed after public reports: the class, its severity, what the advice says and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orkbench_tui.ops.diagnosis.capture import read_capture
from orkbench_tui.ops.diagnosis.diagnose import diagnose, is_healthy
from orkbench_tui.ops.diagnosis.evidence import gather
from orkbench_tui.ops.diagnosis.redaction import Redactor
from tests.ops.diagnosis.given import CASES, SUPPORT, case_files, renderings, verdicts


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_case(case: Path) -> None:
    expected = json.loads((case / "expected.json").read_text())
    found = diagnose(gather(read_capture([case]), SUPPORT))
    top = found[0]
    assert top.kind in (expected["class"], *expected["also_accept"])
    assert top.severity.word == expected["severity"]
    assert not {verdict.kind for verdict in found} & set(expected["never_class"])
    advice, refuse = " ".join(top.advice).lower(), " ".join(top.refuse).lower()
    for entry in expected["advice_must_mention"]:
        assert any(word.strip().lower() in advice for word in entry.split("|")), entry
    for entry in expected["refuse"]:
        assert entry.lower() in refuse
    for name, value in expected["facts"].items():
        if name != "note":
            assert top.facts[name] == value, name
    assert is_healthy(found) is (expected["class"] == "healthy")


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_redaction_does_not_change_the_verdict(case: Path) -> None:
    files = case_files(case)
    before = verdicts(files)
    after = verdicts(Redactor(hosts=["rock-5b"], users=["kim"], others=["1f2e3d4c5b6a7988"]).redact(files))
    assert [(v.kind, v.severity, v.facts) for v in after] == [(v.kind, v.severity, v.facts) for v in before]


@pytest.mark.parametrize(
    "case", [c for c in CASES if (c / "input.dmesg.txt").exists()], ids=lambda path: path.name
)
def test_every_rendering_of_the_log_gives_the_same(case: Path) -> None:
    files = case_files(case)
    before = verdicts(files)
    for name, text in renderings(files["input.dmesg.txt"]).items():
        after = verdicts({**files, "input.dmesg.txt": text})
        assert [(v.kind, v.severity, v.advice) for v in after] == [
            (v.kind, v.severity, v.advice) for v in before
        ], name
        assert {**after[0].facts, "lower_bound": 0} == {**before[0].facts, "lower_bound": 0}, name


@pytest.mark.parametrize(
    "node", ["fdab0000.npu", "27700000.npu", "fde40000.npu", "ff300000.npu", "22000000.npu", "fdab0000.rknpu"]
)
@pytest.mark.parametrize("prefix", ["RKNPU", "RKNPU3"])
@pytest.mark.parametrize(
    "case", [c for c in CASES if (c / "input.dmesg.txt").exists()], ids=lambda path: path.name
)
def test_node_names_and_prefixes(case: Path, prefix: str, node: str) -> None:
    files = case_files(case)
    before = verdicts(files)
    log = files["input.dmesg.txt"].replace("RKNPU", prefix)
    for name in ("fdab0000.rknpu", "fdab0000.npu"):
        log = log.replace(name, node)
    after = verdicts({**files, "input.dmesg.txt": log})
    assert [(v.kind, v.severity, v.facts) for v in after] == [(v.kind, v.severity, v.facts) for v in before]


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_file_names_do_not_matter_much(case: Path) -> None:
    """Without the prefix, and with names that say nothing: what stands in a file tells its kind."""
    files = case_files(case)
    bare = verdicts({name.removeprefix("input."): text for name, text in files.items()})
    assert bare == verdicts(files)
    if not any(name.startswith(("input.uname", "input.compatible")) for name in files):
        anonymous = {f"{n}.dat": text for n, text in enumerate(files.values())}
        assert verdicts(anonymous)[0].kind == bare[0].kind


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_noise_around_it_changes_nothing(case: Path) -> None:
    files = case_files(case)
    before = verdicts(files)
    noise = "[    1.000000] usb 1-1: new high-speed USB device\n[    2.0] rk_iommu fdd97e00.iommu: Page fault at 0x0000000000001000 of type read\n"
    if "input.dmesg.txt" in files:
        files["input.dmesg.txt"] = (
            noise + files["input.dmesg.txt"] + "[99999.000000] EXT4-fs (mmcblk0p2): mounted\n"
        )
    files["notes-of-the-reporter.bin"] = "\0\1\2\3" * 100
    assert [(v.kind, v.severity) for v in verdicts(files)] == [(v.kind, v.severity) for v in before]
