"""CPU cores grouped by kind: the efficient ones and the fast ones, as a board's user thinks of them."""

from __future__ import annotations

from orkbench_tui.ops.telemetry.board_paths import BoardPaths
from orkbench_tui.ops.telemetry.sample import Clock, CpuCore, CpuGroup

__all__ = ["SOC_CORES", "group_cores"]

# Core kinds by chip, weakest first, for kernels whose cpuinfo does not name parts: (name, how many).
SOC_CORES: dict[str, tuple[tuple[str, int], ...]] = {
    "rk3588": (("A55", 4), ("A76", 4)),
    "rk3588s": (("A55", 4), ("A76", 4)),
    "rk3582": (("A55", 4), ("A76", 2)),
    "rk3576": (("A53", 4), ("A72", 4)),
    "rk3566": (("A55", 4),),
    "rk3568": (("A55", 4),),
    "rk3562": (("A53", 4),),
}


def group_cores(
    busy: dict[int, float | None],
    policy_clocks: dict[str, Clock],
    paths: BoardPaths,
    soc: str,
) -> tuple[CpuGroup, ...]:
    """Groups ordered from weak to strong; every core of ``busy`` is in exactly one.

    ``policy_clocks`` holds the clock of each cpufreq policy by its path.
    """
    clock_of = {
        cpu: policy_clocks.get(policy.path, Clock()) for policy in paths.policies for cpu in policy.cpus
    }
    strength = {cpu: clock.max_hz or 0 for cpu, clock in clock_of.items()}
    strength.update(paths.capacity)
    names = _names(sorted(busy), strength, paths, soc)
    members: dict[str, list[int]] = {}
    for cpu in sorted(busy):
        members.setdefault(names[cpu], []).append(cpu)
    groups = [
        CpuGroup(
            name=name,
            cores=tuple(CpuCore(cpu, busy[cpu], clock_of.get(cpu, Clock()).hz) for cpu in cpus),
            clocks=tuple(
                policy_clocks[policy.path]
                for policy in paths.policies
                if policy.path in policy_clocks and set(policy.cpus) & set(cpus)
            ),
        )
        for name, cpus in members.items()
    ]
    return tuple(
        sorted(groups, key=lambda group: (max(strength.get(c.index, 0) for c in group.cores), group.name))
    )


def _names(cpus: list[int], strength: dict[int, int], paths: BoardPaths, soc: str) -> dict[int, str]:
    known = dict(paths.core_names)
    if known and all(cpu in known for cpu in cpus):
        return known
    by_chip = [name for name, many in SOC_CORES.get(soc, ()) for _ in range(many)]
    if by_chip and len(by_chip) >= len(cpus) and cpus and cpus[-1] < len(by_chip):
        return {cpu: by_chip[cpu] for cpu in cpus}
    if paths.capacity:
        # Bins of one kind of core differ by a few percent; kinds differ by far more.
        top = max(strength.get(cpu, 0) for cpu in cpus)
        weak = {cpu for cpu in cpus if strength.get(cpu, 0) < 0.75 * top}
        if weak:
            return {cpu: "little" if cpu in weak else "big" for cpu in cpus}
    return dict.fromkeys(cpus, "CPU")
