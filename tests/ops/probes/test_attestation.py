"""Verdicts are bound to the driver's files: any change makes them stale, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orkbench_tui.cli.main import run
from orkbench_tui.errors import InvalidFileError
from orkbench_tui.ops.probes.attestation import attestation, core_hashes, staleness
from orkbench_tui.ops.probes.catalogue import PROBES
from orkbench_tui.ops.probes.declaration import Answer, Control, Result, Verdict

RESULT = Result(PROBES["fill"], Control(True, "seen"), Answer(Verdict.PASS, "why"))


def _package(folder: Path) -> Path:
    for name in ("driver/a.py", "driver/matmul/b.py", "native/src/c.c", "native/src/c.h", "runner/d.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_the_core_is_the_driver_and_the_kernels(tmp_path: Path) -> None:
    hashes = core_hashes(_package(tmp_path))
    assert list(hashes) == ["driver/a.py", "driver/matmul/b.py", "native/src/c.c", "native/src/c.h"]
    assert {"driver/submit.py", "native/src/pool.c"} <= set(core_hashes())


@pytest.mark.parametrize("name", ["driver/a.py", "driver/matmul/b.py", "native/src/c.c", "native/src/c.h"])
def test_it_is_stale_when_any_core_file_changes(tmp_path: Path, name: str) -> None:
    package = _package(tmp_path)
    document = attestation([RESULT], label="sim", version="1", kernel="k", hashes=core_hashes(package))
    assert document["verdicts"] == {"fill": "pass"}
    (package / "runner/d.py").write_text("else")
    assert staleness(document, core_hashes(package)).fresh
    (package / name).write_text("changed")
    assert staleness(document, core_hashes(package)).changed == (name,)
    (package / name).unlink()
    assert staleness(document, core_hashes(package)).removed == (name,)
    (package / "driver/new.py").write_text("")
    found = staleness(document, core_hashes(package))
    assert (found.added, found.fresh) == (("driver/new.py",), False)


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"schema": "x", "core": {"a": "b"}}, {"schema": "ork.npu.attestation/1", "core": {}}],
)
def test_what_is_no_attestation(document: object) -> None:
    with pytest.raises(InvalidFileError):
        staleness(document, {})


def test_a_probe_s_verdict_is_kept_and_told_fresh_or_stale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "attest.json"
    assert run(["npu", "probe", "chain-envelope", "--target", "sim", "--attest", str(path)]) == 0
    document = json.loads(path.read_text())
    assert document["verdicts"] == {"chain-envelope": "pass"} and document["label"] == "sim"
    assert run(["npu", "probe", "--attested", str(path)]) == 0
    assert "fresh" in capsys.readouterr().out
    document["core"]["driver/npu.py"] = "0" * 64
    path.write_text(json.dumps(document))
    assert run(["npu", "probe", "--attested", str(path)]) == 1
    assert "stale: driver/npu.py changed since" in capsys.readouterr().out
    path.write_text("nothing")
    assert run(["npu", "probe", "--attested", str(path)]) == 1
