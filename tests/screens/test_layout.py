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
    for size in ((79, 24), (80, 23), (80, 20), (60, 18), (200, 18), (60, 80)):
        assert shape_of(*size) is Shape.MIDDLE, size
    assert shape_of(60, 15) is Shape.COMPACT and shape_of(200, 17) is Shape.COMPACT
    assert shape_of(59, 15) is Shape.TOO_SMALL and shape_of(60, 14) is Shape.TOO_SMALL


@given(st.integers(60, 300), st.integers(18, 120), st.integers(1, 3))
def test_every_panel_has_room_from_the_middle_size_up(width: int, height: int, cores: int) -> None:
    boxes = arrange(width, height, cores)
    assert boxes["npu"].height >= 1 + cores
    assert boxes["cpu"].height >= 7 and boxes["cpu"].width >= 27 and boxes["board"].width >= 33
    assert boxes["users"].height >= 2 and boxes["log"].height >= 3


def test_the_full_size_is_as_it_was() -> None:
    boxes = arrange(80, 24, 3)
    assert [boxes[name].height for name in ("npu", "cpu", "users", "log")] == [7, 7, 4, 4]
    assert boxes["cpu"].width == boxes["board"].width == 40


def test_taller_terminals_give_every_panel_its_share() -> None:
    small, tall = arrange(80, 24, 3), arrange(80, 60, 3)
    for name in ("npu", "cpu", "users", "log"):
        assert tall[name].height > small[name].height
    assert (small["npu"].height - 1) % 3 == 0 and (tall["npu"].height - 1) % 3 == 0
