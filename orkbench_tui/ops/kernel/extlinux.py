"""The boot menu that u-boot-menu writes: /boot/extlinux/extlinux.conf, read and changed as text."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["BootMenu", "Entry", "parse_menu", "with_default", "with_entry", "without_entry"]

GENERATED = "generated automatically"
_OWN_LABEL = "ork"


@dataclass(frozen=True, slots=True)
class Entry:
    """One label. Values are "" where the menu does not give them."""

    label: str
    title: str
    kernel: str
    initrd: str
    tree_folder: str
    tree: str
    overlays: str
    append: str

    @property
    def release(self) -> str:
        """The release in the kernel's file name; "" when it has none."""
        return self.kernel.rpartition("vmlinuz-")[2] if "vmlinuz-" in self.kernel else ""


@dataclass(frozen=True, slots=True)
class BootMenu:
    """``generated``: it says that u-boot-update wrote it."""

    default: str
    entries: tuple[Entry, ...]
    generated: bool

    def entry(self, label: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.label == label), None)

    @property
    def first(self) -> Entry | None:
        """What boots when nobody chooses: the default, else the first."""
        return self.entry(self.default) or (self.entries[0] if self.entries and not self.default else None)

    def foreign_labels(self) -> tuple[str, ...]:
        """Labels that neither u-boot-update nor this program gives."""
        return tuple(e.label for e in self.entries if re.fullmatch(rf"l\d+r?|{_OWN_LABEL}", e.label) is None)


_FIELDS = {
    "menu label": "title",
    "linux": "kernel",
    "kernel": "kernel",
    "initrd": "initrd",
    "fdtdir": "tree_folder",
    "devicetreedir": "tree_folder",
    "fdt": "tree",
    "devicetree": "tree",
    "fdtoverlays": "overlays",
    "append": "append",
}


def parse_menu(text: str) -> BootMenu:
    """Lines it does not know are passed over, as the boot loader does."""
    default, entries = "", []
    now: dict[str, str] = {}
    for line in text.splitlines():
        words = line.strip()
        if not words or words.startswith("#"):
            continue
        key, _, value = words.partition(" ") if "\t" not in words.split(" ")[0] else words.partition("\t")
        key, value = key.lower(), value.strip()
        if key == "menu" and value.lower().startswith("label"):
            key, value = "menu label", value[5:].strip()
        if key == "default":
            default = value
        elif key == "label":
            now = {"label": value}
            entries.append(now)
        elif key in _FIELDS and now:
            now.setdefault(_FIELDS[key], value)
    names = ("label", "title", "kernel", "initrd", "tree_folder", "tree", "overlays", "append")
    return BootMenu(
        default,
        tuple(Entry(*(entry.get(name, "") for name in names)) for entry in entries),
        GENERATED in text,
    )


def with_default(text: str, label: str) -> str:
    """The menu with another default; one is put in front of the first label where there was none."""
    changed, count = re.subn(
        r"(?mi)^([ \t]*)default[ \t]+\S+[ \t]*$", rf"\g<1>default {label}", text, count=1
    )
    if count:
        return changed
    return re.sub(r"(?mi)^(?=[ \t]*label[ \t])", f"default {label}\n\n", text, count=1)


def without_entry(text: str, label: str) -> str:
    """The menu without one label's lines."""
    pattern = rf"(?mis)^[ \t]*label[ \t]+{re.escape(label)}[ \t]*\n.*?(?=^[ \t]*label[ \t]|\Z)"
    return re.sub(pattern, "", text)


def with_entry(text: str, entry: Entry) -> str:
    """The menu with this entry at its end, in place of one of the same label."""
    lines = [f"label {entry.label}", f"\tmenu label {entry.title}", f"\tlinux {entry.kernel}"]
    optional = (("initrd", entry.initrd), ("fdtdir", entry.tree_folder), ("fdt", entry.tree))
    lines += [f"\t{key} {value}" for key, value in (*optional, ("fdtoverlays", entry.overlays)) if value]
    lines += ["", f"\tappend {entry.append}"]
    rest = without_entry(text, entry.label).rstrip("\n")
    return rest + "\n\n" + "\n".join(lines) + "\n"
