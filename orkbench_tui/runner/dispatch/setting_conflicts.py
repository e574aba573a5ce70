"""Settings that are right one by one and cannot hold together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orkbench_tui.errors import UsageError
from orkbench_tui.runner.dispatch.dispatcher import parse_overrides

__all__ = ["contradiction"]


def contradiction(values: Mapping[str, Any]) -> str:
    """Why these values do not go together, "" where they do. ``values`` are settings by name."""
    try:
        places = parse_overrides(values.get("dispatch", ""))
    except UsageError as error:
        return error.line()
    if values.get("quant") == "f32" and (
        wanted := [name for name, place in places.items() if place == "npu"]
    ):
        return f"with quant f32 everything runs on the CPU, and dispatch wants {', '.join(wanted)} on the NPU"
    return ""
