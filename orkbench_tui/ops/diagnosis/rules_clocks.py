"""Clocks that are not where they could be: heat first, then governors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.verdict import Verdict
from orkbench_tui.ops.diagnosis.wording import make, quotes

__all__ = ["governor", "thermal"]

_HOT_MC = 85_000
# The NPU's own protection lets go 5 degrees below its limit.
_HYSTERESIS_MC = 80_000
_CAPPED_SHARE = 0.95


def _number(text: str) -> int | None:
    word = text.split()[0] if text.split() else ""
    return int(word) if re.fullmatch(r"-?[0-9]{1,13}", word) else None


@dataclass(frozen=True, slots=True)
class _Node:
    """One clock. ``top`` is the highest it can run at, None when nothing says so."""

    path: str
    name: str
    governor: str
    now: int | None
    top: int | None
    limit: int | None

    @property
    def at_max(self) -> bool | None:
        if self.now is None or self.top is None:
            return None
        return self.now >= self.top * _CAPPED_SHARE


def _nodes(evidence: Evidence, folder: str, now: str, limits: tuple[str, ...], governor: str) -> list[_Node]:
    found: dict[str, dict[str, str]] = {}
    for path, text in evidence.values.items():
        if match := re.match(rf"(.*/{folder}/[^/]+)/(\w+)$", path):
            found.setdefault(match[1], {})[match[2]] = text
    nodes = []
    for path, files in sorted(found.items()):
        listed = [
            n
            for name in ("available_frequencies", "scaling_available_frequencies")
            for word in files.get(name, "").split()
            if (n := _number(word)) is not None
        ]
        tops = [n for name in limits if (n := _number(files.get(name, ""))) is not None]
        nodes.append(
            _Node(
                path,
                path.rsplit("/", 1)[-1],
                files.get(governor, ""),
                _number(files.get(now, "")),
                max([*listed, *tops], default=None),
                _number(files.get(limits[-1], "")),
            )
        )
    return nodes


def _clocks(evidence: Evidence) -> tuple[list[_Node], list[_Node], list[_Node]]:
    """NPU, DDR and CPU clocks."""
    devfreq = _nodes(evidence, "devfreq", "cur_freq", ("max_freq",), "governor")
    policies = _nodes(
        evidence, "cpufreq", "scaling_cur_freq", ("cpuinfo_max_freq", "scaling_max_freq"), "scaling_governor"
    )
    npu = [node for node in devfreq if re.search(r"(?:rk)?npu$", node.name)]
    ddr = [node for node in devfreq if node.name == "dmc" or node.name.endswith("dmc")]
    return npu, ddr, policies


def _zones(evidence: Evidence) -> dict[str, int]:
    """Milli-degrees by zone type."""
    types = {path.rsplit("/", 1)[0]: text for path, text in evidence.value(r"thermal_zone\d+/type$")}
    found: dict[str, int] = {}
    for path, text in evidence.value(r"thermal_zone\d+/temp$"):
        folder = path.rsplit("/", 1)[0]
        value = _number(text)
        if value is not None:
            found[types.get(folder, folder.rsplit("/", 1)[-1])] = (
                value if abs(value) >= 1000 else value * 1000
            )
    return found


def _cooling(evidence: Evidence) -> dict[str, int]:
    """Active cooling devices that take clocks down; a fan that turns is none."""
    types = {path.rsplit("/", 1)[0]: text for path, text in evidence.value(r"cooling_device\d+/type$")}
    active = {}
    for path, text in evidence.value(r"cooling_device\d+/cur_state$"):
        kind = types.get(path.rsplit("/", 1)[0], "")
        state = _number(text)
        if state and re.search(r"cpufreq|devfreq|npu|cpu|gpu", kind):
            active[kind] = state
    return active


def thermal(evidence: Evidence) -> Iterator[Verdict]:
    lines = evidence.of("thermal.throttle")
    zones, cooling = _zones(evidence), _cooling(evidence)
    npu, ddr, policies = _clocks(evidence)
    hottest = max(zones.items(), key=lambda item: item[1], default=("", 0))
    npu_temp = next((v for name, v in zones.items() if "npu" in name), None)
    capped = [n for n in npu if n.at_max is False and n.governor != "powersave"]
    trips = [
        n
        for _, text in evidence.value(r"trip_point_\d+_temp$")
        if (n := _number(text)) is not None and n < 100_000
    ]
    limit = max(trips, default=_HOT_MC)
    warm = max(npu_temp or 0, hottest[1])
    hot = hottest[1] >= min(limit, _HOT_MC)
    said = evidence.said(r"throttl|overheat|too hot")
    if not (lines or cooling or hot or said or (capped and warm >= _HYSTERESIS_MC)):
        return
    held = [n for n in (*npu, *ddr, *policies) if n.at_max is False]
    yield make(
        "thermal-throttle",
        f"heat holds clocks down: {hottest[0] or 'the board'}"
        + (f" at {hottest[1] / 1000:.1f} °C" if hottest[1] else "")
        + (f", NPU at {capped[0].now // 1_000_000} MHz" if capped and capped[0].now else ""),
        evidence=[
            *quotes(lines, 2),
            *[
                f"{name}: {value / 1000:.1f} °C"
                for name, value in sorted(zones.items(), key=lambda i: -i[1])[:3]
            ],
            *[f"cooling device {name}: state {state}" for name, state in cooling.items()],
            *[f"{n.path}: {n.now} of {n.top}" for n in held[:3]],
            *said[:2],
        ],
        advice=(
            "cool the board: heatsink, fan, air; then wait below 60 °C before the next run",
            "from 85 °C the NPU runs at 800 MHz without any log line; it comes back 5 °C lower",
            "measurements taken meanwhile are void: repeat them with the temperature written beside",
            "a governor cannot lift this cap: leave the governors as they are",
        ),
        refuse=(
            "raise or remove trip points",
            "pin the clocks against the cap",
            "keep the speed figures of this run",
        ),
        facts={
            "hottest_zone": hottest[0] or None,
            "hottest_mc": hottest[1] or None,
            "npu_temp_c": None if npu_temp is None else npu_temp / 1000,
            "npu_hz": npu[0].now if npu else None,
            "npu_at_max": npu[0].at_max if npu else None,
            "cooling": cooling,
        },
    )


def governor(evidence: Evidence) -> Iterator[Verdict]:
    npu, ddr, policies = _clocks(evidence)
    # An idle board lets its clocks rest: from a live board only what does not scale by itself says something.
    resting = ("simple_ondemand", "dmc_ondemand") if evidence.live else ()
    low_npu = [n for n in npu if n.at_max is False and n.governor not in resting]
    low_ddr = [n for n in ddr if n.at_max is False and n.governor not in resting]
    low_cpu = (
        [] if evidence.live else [n for n in policies if n.at_max is False and n.governor != "performance"]
    )
    limited = [
        n
        for n in (*npu, *ddr, *policies)
        if n.limit is not None and n.top is not None and n.limit < n.top * _CAPPED_SHARE
    ]
    low = [*low_npu, *low_ddr, *low_cpu]
    if evidence.mainline and low_npu:
        low = [*low_ddr, *low_cpu, *low_npu]
    if not low and not limited:
        return
    names = list(dict.fromkeys(n.name for n in (*low, *limited)))
    big = [n.name for n in low_cpu if n.name != "policy0"]
    yield make(
        "governor-not-max",
        f"clocks below their maximum: {', '.join(names)}",
        evidence=[
            f"{n.path}: {n.governor or 'governor unknown'}, {n.now} of {n.top}" for n in (*low, *limited)[:6]
        ],
        advice=(
            "the DDR clock (dmc) decides decode speed: for a measurement set its governor to performance, or userspace at the highest "
            "listed rate"
            if low_ddr
            else "",
            f"set the big CPU cores ({', '.join(big)}) to performance for the measurement"
            if big
            else "set the CPU policies to performance for the measurement"
            if low_cpu
            else "",
            "the NPU clock is below its highest listed rate: check its governor"
            if low_npu and not evidence.mainline
            else "under the mainline driver leave the NPU clock alone: setting it by hand can hang the board"
            if low_npu
            else "",
            f"a limit (max_freq) is below the hardware's: {', '.join(n.name for n in limited)}"
            if limited
            else "",
            "write the previous governors down first, and restore them afterwards (undo): desktop power daemons and reboots change "
            "them too",
            "`ork board doctor` shows what a benchmark needs before it starts",
        ),
        refuse=(
            "write governors without asking",
            "set the NPU clock under the mainline driver",
            "compare speed figures taken at different clocks",
        ),
        facts={
            "npu_at_max": npu[0].at_max if npu else None,
            "dmc_at_max": ddr[0].at_max if ddr else None,
            "cpu_at_max": all(n.at_max for n in policies)
            if policies and all(n.at_max is not None for n in policies)
            else _any_low(policies),
            "low": names,
        },
    )


def _any_low(policies: list[_Node]) -> bool | None:
    return False if any(n.at_max is False for n in policies) else None
