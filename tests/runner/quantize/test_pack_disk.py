"""What packs take, and which may go: told, and never done."""

from __future__ import annotations

import json
from pathlib import Path

from orkbench_tui import locations
from orkbench_tui.runner.quantize.pack_cache import PACK_REVISION, pack_name
from orkbench_tui.runner.quantize.pack_disk import pack_disk, pack_disk_lines, packs_of
from tests.conftest import ork

GIB = 1 << 30


def _name(model: str, scheme: str = "w8a8-rot", digest: int = 1, revision: int = PACK_REVISION) -> str:
    name = pack_name(Path(f"{model}.gguf"), digest.to_bytes(32, "big"), scheme)
    return name.replace(f"-r{PACK_REVISION}.", f"-r{revision}.")


def test_a_pack_of_an_earlier_revision_is_a_candidate_and_no_other() -> None:
    old, new = _name("27b", revision=PACK_REVISION - 1), _name("27b")
    other, foreign = _name("27b", scheme="w4a8-g32-rot", digest=2), "copied-by-hand.orkpack"
    packs = packs_of(
        [(new, 12 * GIB, 12 * GIB), (old, 16 * GIB, 16 * GIB), (other, GIB, GIB), (foreign, 5, 4096)]
    )
    assert [pack.name for pack in packs] == [old, new, other, foreign]
    assert [bool(pack.superseded) for pack in packs] == [True, False, False, False]
    assert (packs[2].model, packs[2].scheme) == ("27b", "w4a8-g32-rot") and packs[3].scheme == ""
    lines = pack_disk_lines(packs, 3 * GIB)
    assert "may go: of revision" in lines[0] and "candidates 16384.0 MiB" in lines[-1]
    assert "Nothing is deleted" in lines[-1]


def test_the_command_lists_and_leaves_everything_there() -> None:
    folder = locations.packs_dir()
    folder.mkdir(parents=True, exist_ok=True)
    old = folder / _name("m", revision=1)
    old.write_bytes(bytes(100_000))
    (folder / "link.orkpack").symlink_to(old)
    (folder / "folder.orkpack").mkdir()
    before = sorted(folder.iterdir())
    data = json.loads(ork("pack", "disk", "--json").stdout)["data"]
    assert [pack["name"] for pack in data["packs"]] == [old.name]
    assert data["candidate_bytes"] == data["allocated_bytes"] >= 100_000 and data["free_bytes"] > 0
    assert sorted(folder.iterdir()) == before


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert pack_disk(tmp_path / "none") == ()
    assert ork("pack", "disk").stdout.startswith("0 packs")
