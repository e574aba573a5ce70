"""The residency map: every domain of the plan with its bytes, full-K and sliced apart, the fullest named."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from orkbench_tui.ops.telemetry.wording import byte_size
from orkbench_tui.runner.orkpack.placement import plan_placement
from orkbench_tui.runner.orkpack.shapes import shapes_named
from orkbench_tui.screens.text_line import plain, width_of
from orkbench_tui.screens.view_state import ViewState
from orkbench_tui.screens.views.residency import residency_lines
from tests.screens.fake_services import FakeWorld
from tests.screens.feed import quiet_app
from tests.screens.test_pages import text_of, until

SLICED = plan_placement(shapes_named("qwen-27b-like"))
# One domain whose weights are held in both forms.
PLAN = dataclasses.replace(
    SLICED, domains=(dataclasses.replace(SLICED.domains[0], full_k=777 << 20), *SLICED.domains[1:])
)


@pytest.mark.parametrize(("width", "height"), [(60, 13), (80, 22), (160, 48)])
def test_every_domain_is_reached_and_the_fullest_is_named(width: int, height: int) -> None:
    assert len(PLAN.domains) > 1
    seen: dict[int, str] = {}
    for first in range(len(PLAN.domains)):
        lines = residency_lines("big", PLAN, first, ViewState(), width, height)
        assert len(lines) <= height and all(width_of(item) <= width for item in lines)
        for row in map(plain, lines[2:-2]):
            if row[1:2] == "d":
                seen[int(row[2:].split()[0])] = row
    assert set(seen) == {domain.id for domain in PLAN.domains}
    for domain in PLAN.domains:
        assert byte_size(domain.sliced) in seen[domain.id] and byte_size(domain.full_k) in seen[domain.id]
        assert f"{domain.total / PLAN.policy.ceiling_bytes:.0%}" in seen[domain.id]
    assert "777 MiB" in seen[0]
    worst = max(PLAN.domains, key=lambda domain: domain.total)
    assert plain(lines[-1]).startswith(f" d{worst.id}: {byte_size(worst.total)} of ")


async def test_a_file_that_is_no_pack_says_why_and_the_list_stays(tmp_path: Path) -> None:
    services = FakeWorld(tmp_path).services()
    services.packs_dir.mkdir()
    (services.packs_dir / "a.orkpack").write_bytes(b"no pack at all")
    app = quiet_app(services=services)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6")
        await until(pilot, "models", "pack  a ")
        await pilot.press("G", "o")
        await until(pilot, "models", "weight pack")
        assert "Models and packs" in text_of(app, "models")
