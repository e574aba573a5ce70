"""What a kernel's name says, and where its files say otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.ops.kernel.features import FEATURES, Found
from orkbench_tui.ops.kernel.variant import MARKS, contradictions, kernel_variant


@pytest.mark.parametrize(
    ("release", "version", "base", "features"),
    [
        ("6.1.115-vendor-rk35xx", (6, 1, 115), "vendor-rk35xx", set()),
        ("6.1.115-vendor-rk35xx-sram", (6, 1, 115), "vendor-rk35xx", {"sram"}),
        ("6.1.115-vendor-rk35xx-fence", (6, 1, 115), "vendor-rk35xx", {"fence"}),
        ("6.1.115-vendor-rk35xx-sram-fence-npu1", (6, 1, 115), "vendor-rk35xx", {"sram", "fence"}),
        ("6.1.43-15-rk2312", (6, 1, 43), "15", set()),
        ("6.12.1", (6, 12, 1), "", set()),
        ("6.6-rockchip-sram", (6, 6, 0), "rockchip", {"sram"}),
    ],
)
def test_a_release_gives_version_base_and_features(
    release: str, version: tuple[int, int, int], base: str, features: set[str]
) -> None:
    found = kernel_variant(release)
    assert found is not None and (found.version, found.base, found.features) == (version, base, features)
    if not features and base == "vendor-rk35xx":
        assert found.stock


@pytest.mark.parametrize("text", ["", "sram", "6", "6.1.", "v6.1.115", "6.1.115+dirty\x00"])
def test_what_is_no_release_is_none(text: str) -> None:
    assert kernel_variant(text) is None


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    found = kernel_variant(text)
    assert found is None or found.release == text.strip()


def _found(name: str, present: bool | None) -> Found:
    feature = next(feature for feature in FEATURES if feature.name == name)
    return Found(feature, present, f"CONFIG_{feature.symbol} says so")


def test_a_name_is_held_against_the_kernel_s_own_files() -> None:
    assert set(MARKS.values()) <= {feature.name for feature in FEATURES}
    plain, sram = kernel_variant("6.1.115-vendor-rk35xx"), kernel_variant("6.1.115-vendor-rk35xx-sram")
    assert plain is not None and sram is not None
    assert contradictions(plain, [_found("sram", False), _found("fence", None)]) == ()
    assert contradictions(sram, [_found("sram", True)]) == ()
    (denied,) = contradictions(sram, [_found("sram", False)])
    assert "names sram, but: CONFIG_ROCKCHIP_RKNPU_SRAM says so" in denied
    (hidden,) = contradictions(plain, [_found("sram", True)])
    assert "does not name sram" in hidden
