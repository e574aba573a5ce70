"""The patch series: it is whole, it applies to the regions it names, and applying is all or nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from orkbench_tui.errors import InvalidFileError, OrkError, RefusedError, UsageError
from orkbench_tui.ops.kernel.artefacts import find_artefacts
from orkbench_tui.ops.kernel.build import BuildOrder, build_kernel
from orkbench_tui.ops.kernel.features import FEATURES
from orkbench_tui.ops.kernel.patch_series import default_folder, load_series
from orkbench_tui.ops.kernel.patch_tree import State, apply_patches, check_patches, find_tree
from orkbench_tui.sim.boot.content import device_tree, kernel_image
from orkbench_tui.sim.boot.rehearsal import PATCHES
from tests.conftest import ork
from tests.ops.kernel.preimage import make_tree

SERIES = load_series(default_folder())
LAYOUTS = ("drivers/rknpu", "src", ".")


def _content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_every_patch_says_what_it_is_for_and_every_file_is_named() -> None:
    named = {path for patch in SERIES.patches for path in patch.files.values()}
    assert named == set(SERIES.folder.rglob("*.patch"))
    for patch in SERIES.patches:
        assert all((patch.title, patch.purpose, patch.risk, patch.verify, patch.rollback))
        for path in patch.files.values():
            text = path.read_text()
            assert text.startswith("Subject: ") and "\n---\ndiff --git" in text
            touched = re.findall(r"(?m)^diff --git a/(\S+)", text)
            assert touched and (
                patch.whole_tree or all(name.startswith("drivers/rknpu/") for name in touched)
            )
    assert {feature.patch for feature in FEATURES if feature.patch} <= {patch.id for patch in SERIES.patches}
    assert set(PATCHES) - {"sram"} <= {patch.id for patch in SERIES.patches}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("variant", sorted(SERIES.trees.values()))
def test_the_series_applies_to_the_regions_it_names_and_is_known_afterwards(
    tmp_path: Path, variant: str, layout: str
) -> None:
    make_tree(tmp_path, SERIES, variant, layout)
    tree = find_tree(tmp_path, SERIES)
    assert (tree.version, tree.driver, tree.variant) == (variant, layout, variant)
    patches = tuple(patch for patch in SERIES.patches if variant in patch.files and not patch.whole_tree)
    before = _content(tmp_path)
    assert {one.state for one in check_patches(tree, SERIES, patches)} == {State.FITS}
    assert _content(tmp_path) == before
    assert {one.state for one in apply_patches(tree, SERIES, patches)} == {State.APPLIED}
    after = _content(tmp_path)
    assert after != before
    apply_patches(tree, SERIES, patches)
    assert _content(tmp_path) == after
    text = b"".join(after.values()).decode()
    assert "hw_jobs" in text and "rknpu_job_unqueue" in text


def test_a_tree_inside_another_repository_is_changed_all_the_same(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    folder = tmp_path / "sub"
    make_tree(folder, SERIES, "0.9.8", "src")
    tree = find_tree(folder, SERIES)
    before = _content(folder)
    apply_patches(tree, SERIES, SERIES.chosen((), "0.9.8"))
    assert _content(folder) != before


def test_one_that_does_not_fit_leaves_the_tree_as_it_was(tmp_path: Path) -> None:
    make_tree(tmp_path, SERIES, "0.9.8")
    place = tmp_path / "drivers/rknpu/rknpu_job.c"
    place.write_text(place.read_text().replace("msleep(100);", "msleep(200);"))
    tree, before = find_tree(tmp_path, SERIES), _content(tmp_path)
    with pytest.raises(
        RefusedError, match=r"job-domain-ref cannot be applied: context moved.*rknpu_job\.c:\d+"
    ):
        apply_patches(tree, SERIES, SERIES.chosen((), "0.9.8"))
    assert _content(tmp_path) == before
    place.unlink()
    states = {one.patch.id: one.state for one in check_patches(tree, SERIES, SERIES.chosen((), "0.9.8"))}
    assert states["job-domain-ref"] is State.MISSING and states["import-domain"] is State.FITS


def test_a_write_that_fails_in_the_middle_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from orkbench_tui.ops.kernel import patch_tree

    make_tree(tmp_path, SERIES, "0.9.8")
    tree, before, calls, real = find_tree(tmp_path, SERIES), _content(tmp_path), [], patch_tree._git

    def failing(folder: Path, *rest: object) -> tuple[int, str]:
        if folder == tmp_path:
            calls.append(1)
            if len(calls) == 3:
                return 1, "error: no space left"
        return real(folder, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(patch_tree, "_git", failing)
    with pytest.raises(OrkError, match="put back"):
        apply_patches(tree, SERIES, SERIES.chosen((), "0.9.8"))
    assert len(calls) == 3 and _content(tmp_path) == before


def test_needs_come_along_and_names_are_known() -> None:
    ids = [patch.id for patch in SERIES.chosen(("domain-state",), "0.9.8")]
    assert ids == ["import-domain", "defer-destroy", "job-hw-time", "domain-state"]
    with pytest.raises(UsageError, match="there are: import-domain"):
        SERIES.chosen(("speed",), "0.9.8")
    assert SERIES.chosen((), "0.4.2") == ()


def test_trees_that_are_none_and_versions_without_a_variant(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="no rknpu driver"):
        find_tree(tmp_path, SERIES)
    make_tree(tmp_path, SERIES, "0.9.8")
    header = tmp_path / "drivers/rknpu/include/rknpu_drv.h"
    header.write_text(header.read_text().replace("DRIVER_PATCHLEVEL 8", "DRIVER_PATCHLEVEL 3"))
    tree = find_tree(tmp_path, SERIES)
    with pytest.raises(RefusedError, match=r"no patch is made for driver 0\.9\.3"):
        apply_patches(tree, SERIES, SERIES.chosen((), tree.variant))
    (found,) = check_patches(tree, SERIES, SERIES.chosen(("import-domain",), tree.variant))
    assert found.state is State.NO_VARIANT


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("version = 2", "version 2"),
        ("patch = [", "no TOML"),
        ("version = 1\n[[patch]]\nid = 'x'\n", "lacks"),
        ("version = 1\n", "lacks"),
    ],
)
def test_a_series_that_cannot_be_read(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "series.toml").write_text(text)
    with pytest.raises(InvalidFileError, match=why):
        load_series(tmp_path)


MAKEFILE = """
olddefconfig Image modules dtbs:
	@echo $@ >> $(O)/done
	@mkdir -p $(O)/arch/arm64/boot/dts/rockchip
	@cp $(CURDIR)/Image $(O)/arch/arm64/boot/Image
	@cp $(CURDIR)/board.dtb $(O)/arch/arm64/boot/dts/rockchip/rk3588-rock-5b.dtb
modules_install:
	@mkdir -p $(INSTALL_MOD_PATH)/lib/modules/6.1.115-ork1
	@touch $(INSTALL_MOD_PATH)/lib/modules/6.1.115-ork1/modules.dep
	@ln -s /somewhere $(INSTALL_MOD_PATH)/lib/modules/6.1.115-ork1/build
kernelrelease:
	@echo 6.1.115-ork1
"""


def _buildable(folder: Path) -> Path:
    make_tree(folder, SERIES, "0.9.8")
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "Image").write_bytes(kernel_image("6.1.115-ork1"))
    (folder / "board.dtb").write_bytes(device_tree(("radxa,rock-5b",), "ROCK 5B", "", ()))
    config = folder.parent / "config"
    config.write_text("CONFIG_EXT4_FS=y\n")
    return config


def _order(folder: Path, config: Path, out: Path, names: tuple[str, ...] = ()) -> BuildOrder:
    tree = find_tree(folder, SERIES)
    return BuildOrder(tree, SERIES, SERIES.chosen(names, tree.variant), out, config, "-ork1", "no-such-", 1)


def test_a_build_is_laid_out_for_deploy_with_its_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "linux"
    config = _buildable(folder)
    tree = find_tree(folder, SERIES)
    apply_patches(tree, SERIES, SERIES.chosen((), "0.9.8"))
    before = _content(folder)
    said: list[str] = []
    stage = build_kernel(_order(folder, config, tmp_path / "out", ("npu-sram",)), said.append)
    assert _content(folder) == before and "make olddefconfig" in said
    kernel = find_artefacts(stage)
    assert kernel.release == kernel.inside == "6.1.115-ork1" and kernel.trees is not None
    assert kernel.modules is not None and not os.path.lexists(kernel.modules / "build")
    assert kernel.configured()["ROCKCHIP_RKNPU_SRAM"] == "y"
    manifest = json.loads((stage / "manifest.json").read_text())
    assert manifest["patches"] == [patch.id for patch in SERIES.chosen((), "0.9.8")]
    assert manifest["source"] == "no git repository" and len(manifest["config_sha256"]) == 64


def test_what_cannot_be_built_is_refused_and_a_failed_step_names_its_log(tmp_path: Path) -> None:
    folder = tmp_path / "linux"
    config = _buildable(folder)
    for order, error, why in (
        (_order(folder, config, folder / "out"), UsageError, "inside the tree"),
        (_order(folder, tmp_path / "none", tmp_path / "out"), UsageError, "no configuration"),
        (_order(folder, config, tmp_path), UsageError, "not empty"),
    ):
        with pytest.raises(error, match=why):
            build_kernel(order, lambda text: None)
    (folder / "Image").unlink()
    with pytest.raises(OrkError, match=r"make olddefconfig failed.*build\.log"):
        build_kernel(_order(folder, config, tmp_path / "out"), lambda text: None)
    make_tree(tmp_path / "module", SERIES, "0.9.8", "src")
    with pytest.raises(InvalidFileError, match="no whole kernel"):
        build_kernel(_order(tmp_path / "module", config, tmp_path / "out2"), lambda text: None)


def test_the_commands(tmp_path: Path) -> None:
    make_tree(tmp_path / "t", SERIES, "0.9.8", "src")
    listed = ork("kernel", "patches", "list", "--json")
    assert [row["id"] for row in json.loads(listed.stdout)["data"]] == [patch.id for patch in SERIES.patches]
    assert "verify" in ork("kernel", "patches", "list").stdout
    refused = ork("kernel", "patches", "check", str(tmp_path / "t"), "--only", "npu-sram")
    assert refused.returncode == 7 and "needs a whole kernel tree" in refused.stdout
    done = ork("kernel", "patches", "apply", str(tmp_path / "t"), "--json")
    assert {row["state"] for row in json.loads(done.stdout)["data"]["patches"]} == {"applied"}
    wrong = ork("kernel", "patches", "check", str(tmp_path / "none"))
    assert wrong.returncode == 1 and wrong.stderr.count("\n") == 1


def test_the_anchor_applies_alone_and_after_all_others(tmp_path: Path) -> None:
    """It comes into the branch that makes a domain, behind the line that makes it the device's own."""
    alone = SERIES.chosen(("domain-anchor",), "0.9.8")
    assert [patch.id for patch in alone] == ["domain-anchor"] and alone[0].optional
    for folder, patches in (
        (tmp_path / "one", alone),
        (tmp_path / "all", SERIES.chosen((), "0.9.8") + alone),
    ):
        make_tree(folder, SERIES, "0.9.8")
        tree = find_tree(folder, SERIES)
        assert {one.state for one in apply_patches(tree, SERIES, patches)} == {State.APPLIED}
        text = (folder / "drivers/rknpu/rknpu_iommu.c").read_text()
        made, own, page = (
            text.index(part) for part in ("fresh = true;", "default_domain = dst_domain;", "dma_map_page(")
        )
        assert made < own < page < text.index("switch iommu domain from %d to %d")
