"""The boot menu as text: read it, change its default, add a kernel, and find what was edited by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orkbench_tui.ops.kernel.extlinux import parse_menu, with_default, with_entry, without_entry
from tests.ops.kernel.kernel_scene import delivered

MENU = delivered("rk3576")[0]["/boot/extlinux/extlinux.conf"].decode()


def test_the_menu_of_a_board_is_read() -> None:
    menu = parse_menu(MENU)
    assert menu.generated and menu.default == "l0" and menu.foreign_labels() == ()
    first = menu.first
    assert first is not None and first.release == "6.1.84-8-rk2410"
    assert first.initrd == "/boot/initrd.img-6.1.84-8-rk2410" and first.append.startswith("root=UUID=")
    assert first.tree_folder == "/usr/lib/linux-image-6.1.84-8-rk2410/"


def test_an_entry_is_added_made_default_and_taken_away() -> None:
    first = parse_menu(MENU).first
    assert first is not None
    entry = type(first)(
        "ork", "new", "/boot/vmlinuz-x", "/boot/initrd.img-x", "/boot/dtb-x/", "", "", "root=a ro"
    )
    changed = with_default(with_entry(MENU, entry), "ork")
    menu = parse_menu(changed)
    assert menu.first == entry and [one.label for one in menu.entries] == ["l0", "l0r", "ork"]
    assert with_default(with_entry(changed, entry), "ork") == changed
    back = parse_menu(with_default(without_entry(changed, "ork"), "l0"))
    assert back == parse_menu(MENU)


def test_labels_of_others_are_told() -> None:
    edited = MENU + "label mine\n\tlinux /boot/vmlinuz-mine\n"
    assert parse_menu(edited).foreign_labels() == ("mine",)
    assert not parse_menu(edited.replace("generated automatically", "")).generated
    assert parse_menu("default gone\nlabel l0\n linux /x\n").first is None
    assert with_default("label l0\n linux /x\n", "l0").startswith("default l0\n")


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    parse_menu(text)
    with_default(text, "l0")
    without_entry(text, "l0")
