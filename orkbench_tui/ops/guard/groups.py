"""/etc/group: who is in which group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Group", "members", "parse_groups", "with_member"]


@dataclass(frozen=True, slots=True)
class Group:
    gid: int
    users: tuple[str, ...]


def parse_groups(text: str) -> dict[str, Group]:
    """Lines that are no group are passed over."""
    found = {}
    for line in text.splitlines():
        parts = line.split(":")
        if len(parts) == 4 and parts[2].isdigit():
            found[parts[0]] = Group(int(parts[2]), tuple(name for name in parts[3].split(",") if name))
    return found


def members(groups: Mapping[str, Group], user: str, group: str) -> str:
    """``member`` or ``no member``, as steps and pages say it."""
    return "member" if group in groups and user in groups[group].users else "no member"


def with_member(text: str, user: str, group: str, *, inside: bool) -> str:
    """The file with a user in a group, or out of it."""
    lines = []
    for line in text.splitlines():
        parts = line.split(":")
        if len(parts) == 4 and parts[0] == group:
            users = [name for name in parts[3].split(",") if name and name != user]
            parts[3] = ",".join([*users, user] if inside else users)
            line = ":".join(parts)
        lines.append(line)
    return "\n".join(lines) + "\n"
