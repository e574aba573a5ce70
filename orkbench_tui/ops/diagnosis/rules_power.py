"""Power domains, supplies, operating points."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orkbench_tui.ops.diagnosis.device_access import (
    driver_started,
)
from orkbench_tui.ops.diagnosis.evidence import Evidence
from orkbench_tui.ops.diagnosis.rules_domains import NPU_MMU
from orkbench_tui.ops.diagnosis.verdict import Level, Verdict
from orkbench_tui.ops.diagnosis.wording import make, quotes

__all__ = ["opp", "power"]


def power(evidence: Evidence) -> Iterator[Verdict]:
    lines = evidence.of("npu.power.domain", "npu.power.supply", "npu.power.panic")
    if not evidence.of("npu.iommu.fault"):
        silent = [i for i in evidence.of("npu.iommu.wedged") if NPU_MMU.match(i.record.message)]
        lines += silent
    aborts = evidence.of("kernel.abort")
    trace = any("rknpu" in message for message in evidence.messages[-200:])
    before = [
        item for item in evidence.earlier if item.rule and item.rule.id in ("npu.power.panic", "kernel.abort")
    ]
    if aborts and trace:
        lines += aborts
    panic = any("panic" in item.record.message for item in (*lines, *before, *evidence.of("kernel.panic")))
    if not lines and not before:
        return
    names = sorted({item.figures["name"] for item in lines if "name" in item.figures})
    names += sorted(
        {m[1] for item in (*lines, *before) if (m := re.search(r"domain '(\w+)'", item.record.message))}
    )
    codes = sorted({item.figures["ret"] for item in lines if "ret" in item.figures})
    yield make(
        "power-domain-failure",
        f"the NPU's power domain{' ' + ', '.join(names) if names else ''} did not come up"
        + (", and the kernel stopped (panic)" if panic else "")
        + (" in an earlier boot of this log" if before and not lines else ""),
        evidence=quotes([*lines[:4], *before[:2], *evidence.of("kernel.panic")[:1]]),
        advice=(
            "roll back: boot the stock kernel with the device tree (dtb) that belongs to it: a kernel and device tree that do not match leave the "
            "NPU's supply (vdd_npu) or clock out",
            "check the supply in the device tree: rknpu-supply and the domain's supply must name a regulator that is on "
            "(`vdd_npu: disabling` about 30 s after boot switches an unused one off)",
            "if the board does not come up, disable the NPU node in the device tree of the next boot and keep a serial console",
            "a unit that does not answer (`MMU_DTE_ADDR is not functioning`) has no power or is wedged: where a reboot does not help, "
            "power cycle the board"
            if evidence.of("npu.iommu.wedged")
            else "",
            "after such a line reboot before the NPU is used again: the driver counts the power as on"
            if not panic
            else "",
        ),
        refuse=("start another job", "power the domain on by hand through debugfs", "raise the voltage"),
        facts={
            "domains": names,
            "ret": [int(code[:9]) for code in codes],
            "panic": panic,
            "earlier_boot": bool(before and not lines),
        },
    )


def opp(evidence: Evidence) -> Iterator[Verdict]:
    lines = evidence.of("npu.devfreq.absent", "npu.devfreq.opp", "npu.power.dvfs")
    npu = evidence.value(r"/devfreq/[0-9a-f]+\.(?:rk)?npu/(?:cur_freq|available_frequencies)$")
    empty = [path for path, text in npu if path.endswith("available_frequencies") and not text.strip()]
    listed = [e.name for e in evidence.entries if e.folder.endswith("/devfreq")]
    absent = bool(listed) and not any(re.search(r"npu", name) for name in listed) and driver_started(evidence)
    fixed = [
        text
        for path, text in npu
        if path.endswith("cur_freq") and text.isdigit() and len(text) < 12 and int(text) == 200_000_000
    ]
    slow = [
        f"{path}: {text}"
        for path, text in evidence.value(r"clk\w*npu\w*/(?:clk_)?rate$")
        if text == "200000000"
    ]
    slow += evidence.said(r"clk\w*_npu\w*\s.*\b200000000\b")
    said = [
        *slow,
        *evidence.said(
            r"(?:no|missing|without).*(?:opp|operating[- ]points)|npu.*devfreq.*(?:missing|not found)|rknpu_ondemand.*not"
        ),
    ]
    if not (lines or empty or absent or fixed or said):
        if ddr := evidence.of("ddr.devfreq.absent"):
            yield make(
                "opp-missing",
                "no frequency control of the DDR with this firmware; the NPU is not concerned",
                evidence=quotes(ddr, 1),
                advice=(
                    "speed figures bound by DDR are not comparable with other boards: say so beside them",
                ),
                refuse=("compare decode speed with boards whose DDR is pinned",),
                facts={"devfreq": None, "ddr_devfreq": False},
                severity=Level.INFO,
            )
        return
    yield make(
        "opp-missing",
        "no frequency control of the NPU: it stays at its boot clock (200 MHz on RK3588), up to seven times slower",
        evidence=[
            *quotes(lines),
            *[f"{path}: {text}" for path, text in npu[:3]],
            *said[:2],
            *[f"/sys/class/devfreq/{n}" for n in listed[:3]],
        ],
        advice=(
            "use the device tree of the same kernel: its operating points (opp table) must fit the driver; each opp-microvolt entry "
            "needs one triplet for each supply the driver registers",
            "read the clock from devfreq cur_freq or clk_summary before timing anything: figures at the boot clock are not comparable",
            "the NPU computes correctly meanwhile",
            "leave the clock alone under the mainline driver: setting it by hand can hang the board"
            if evidence.driver == "rocket"
            else "",
        ),
        refuse=(
            "write the NPU clock by hand",
            "raise the voltage",
            "compare speed figures taken at this clock",
        ),
        facts={
            "devfreq": False if lines or absent or empty else None,
            "cur_freq_hz": int(fixed[0]) if fixed else None,
            "failures": len(lines),
        },
    )
