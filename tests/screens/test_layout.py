"""Where panels stand: every cell covered once at every size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.screens.layout import Shape, arrange, shape_of


@given(st.integers(1, 300), st.integers(1, 120), st.integers(0, 8))
def test_boxes_cover_the_terminal_exactly_once(width: int, height: int, cores: int) -> None:
    covered: dict[tuple[int, int], str] = {}
    for name, box in arrange(width, height, cores).items():
        assert box.width > 0 and box.height > 0, name
        for y in range(box.y, box.y + box.height):
            for x in (box.x, box.x + box.width - 1):
                assert (x, y) not in covered or box.width == 1
                covered[x, y] = name
    rows: dict[int, int] = {}
    for box in arrange(width, height, cores).values():
        for y in range(box.y, box.y + box.height):
            rows[y] = rows.get(y, 0) + box.width
    assert rows == dict.fromkeys(range(height), width)


def test_shapes() -> None:
    assert shape_of(80, 24) is Shape.FULL
    assert shape_of(79, 24) is Shape.COMPACT and shape_of(80, 23) is Shape.COMPACT
    assert shape_of(60, 15) is Shape.COMPACT
    assert shape_of(59, 15) is Shape.TOO_SMALL and shape_of(60, 14) is Shape.TOO_SMALL


def test_taller_terminals_give_every_panel_its_share() -> None:
    small, tall = arrange(80, 24, 3), arrange(80, 60, 3)
    for name in ("npu", "cpu", "users", "log"):
        assert tall[name].height > small[name].height
    assert (small["npu"].height - 1) % 3 == 0 and (tall["npu"].height - 1) % 3 == 0
