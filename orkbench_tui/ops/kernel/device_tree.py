"""A reader of flattened device trees: enough to tell which board one is for and what its nodes say."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from orkbench_tui.errors import InvalidFileError
from orkbench_tui.ops.kernel.formats import DTB_MAGIC

__all__ = ["DeviceTree", "parse_device_tree"]

_HEADER = struct.Struct(">10I")
_BEGIN, _END, _PROPERTY, _NOP, _FINISH = 1, 2, 3, 4, 9
_MAX_DEPTH = 64
MAX_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class DeviceTree:
    """``nodes`` maps a path ("/" for the root) to its properties as bytes."""

    nodes: Mapping[str, Mapping[str, bytes]]

    @property
    def compatible(self) -> tuple[str, ...]:
        """What the root says the board is, most exact first."""
        return strings(self.nodes.get("/", {}).get("compatible", b""))

    @property
    def model(self) -> str:
        return (strings(self.nodes.get("/", {}).get("model", b"")) or ("unknown",))[0]

    def npu(self) -> tuple[str, Mapping[str, bytes]] | None:
        """Path and properties of the vendor driver's NPU node; None without one."""
        for path, properties in self.nodes.items():
            if any(
                name.endswith(("-rknpu", ",rknpu")) for name in strings(properties.get("compatible", b""))
            ):
                return path, properties
        return None


def strings(value: bytes) -> tuple[str, ...]:
    """The texts of a string-list property."""
    return tuple(part.decode("utf-8", "replace") for part in value.split(b"\0") if part)


def parse_device_tree(data: bytes, name: str = "device tree") -> DeviceTree:
    """Raises InvalidFileError for anything that is not a whole, well-formed tree."""

    def wrong(why: str) -> InvalidFileError:
        return InvalidFileError(name, why=why, do="take the dtb of the same kernel package")

    if len(data) < _HEADER.size or data[:4] != DTB_MAGIC:
        raise wrong("it does not begin with d0 0d fe ed")
    _, total, at_structs, at_strings, _, version, _, _, string_bytes, struct_bytes = _HEADER.unpack_from(data)
    if total > len(data):
        raise wrong(f"it says {total} bytes and has {len(data)}: cut short")
    if not 16 <= version <= 64:
        raise wrong(f"it is of version {version}")
    if at_structs + struct_bytes > total or at_strings + string_bytes > total:
        raise wrong("its blocks lie outside of it")
    block, names = data[at_structs : at_structs + struct_bytes], data[at_strings : at_strings + string_bytes]
    try:
        return DeviceTree(_nodes(block, names))
    except (struct.error, ValueError) as error:
        raise wrong(f"its structure is damaged ({error})") from error


def _nodes(block: bytes, names: bytes) -> dict[str, dict[str, bytes]]:
    """Raises ValueError or struct.error."""
    nodes: dict[str, dict[str, bytes]] = {}
    path: list[str] = []
    at = 0
    while True:
        (token,) = struct.unpack_from(">I", block, at)
        at += 4
        if token == _BEGIN:
            end = block.index(b"\0", at)
            path.append(block[at:end].decode("ascii", "replace"))
            if len(path) > _MAX_DEPTH:
                raise ValueError(f"more than {_MAX_DEPTH} levels")
            nodes.setdefault("/".join(path) or "/", {})
            at = (end + 4) & ~3
        elif token == _END:
            path.pop()
            if not path:
                return nodes
        elif token == _PROPERTY:
            length, name_at = struct.unpack_from(">II", block, at)
            at += 8
            if not path or at + length > len(block):
                raise ValueError("a property outside its node")
            name = names[name_at : names.index(b"\0", name_at)].decode("ascii", "replace")
            nodes["/".join(path) or "/"][name] = block[at : at + length]
            at = (at + length + 3) & ~3
        elif token == _FINISH:
            raise ValueError("it ends inside a node")
        elif token != _NOP:
            raise ValueError(f"token {token}")
