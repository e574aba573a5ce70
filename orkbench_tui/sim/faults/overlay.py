"""What faults change of the board's files: bytes instead of others, more files, closed and missing ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from orkbench_tui.sim.boards.profile import BoardProfile
from orkbench_tui.sim.faults.foreign import PROGRAMS, STUCK_PID, ForeignProgram

__all__ = ["Overlay", "overlay_of"]

_DEBUGFS = "/sys/kernel/debug"
HOT_HZ = 800_000_000
_HOT = (90_000, 88_461, 87_538, 86_615)
IMAGE = "/boot/Image"


@dataclass(frozen=True, slots=True)
class Overlay:
    """``hidden`` and ``denied`` are path prefixes; ``denied_names`` are file names denied in every folder."""

    files: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    denied_names: tuple[str, ...] = ()

    def hides(self, path: str) -> bool:
        return any(path == prefix or path.startswith(f"{prefix}/") for prefix in self.hidden)

    def names(self, folder: str) -> set[str]:
        """Names that the overlay adds to a folder."""
        prefix = f"{folder.rstrip('/')}/"
        return {
            path[len(prefix) :].split("/")[0]
            for path in (*self.files, *self.links)
            if path.startswith(prefix)
        }

    def denies(self, path: str) -> bool:
        return any(path == prefix or path.startswith(f"{prefix}/") for prefix in self.denied) or (
            path.rsplit("/", 1)[-1] in self.denied_names
        )


def _driver_nodes(profile: BoardProfile) -> tuple[str, ...]:
    """What is there only while the driver is bound to its device."""
    number = int(profile.node.removeprefix("/dev/dri/renderD"))
    names = (f"card{number - 128}", f"renderD{number}")
    return (
        f"{_DEBUGFS}/rknpu",
        "/proc/rknpu",
        *(f"/dev/dri/{name}" for name in names),
        *(f"/sys/class/drm/{name}" for name in names),
        *(f"/dev/dri/by-path/platform-{profile.npu}-{kind}" for kind in ("card", "render")),
        f"/sys/devices/platform/{profile.npu}/drm",
        f"/sys/devices/platform/{profile.npu}/devfreq",
        f"/sys/devices/platform/{profile.npu}/driver",
        f"/sys/class/devfreq/{profile.npu}",
        f"/sys/bus/platform/drivers/RKNPU/{profile.npu}",
    )


def overlay_of(profile: BoardProfile, faults: dict[str, str], *, bound: bool = True) -> Overlay:
    """``bound`` is whether the rknpu driver has its device."""
    files: dict[str, bytes] = {}
    links: dict[str, str] = {}
    for program in PROGRAMS:
        if program.fault in faults:
            _process(files, links, profile, program)
    if "process-stuck-D" in faults:
        files[f"/proc/{STUCK_PID}/stack"] = (
            b"[<0>] __mutex_lock.constprop.0+0x1a4/0x5c0\n"
            b"[<0>] rknpu_iommu_domain_get_and_switch+0x38/0x120\n[<0>] rknpu_gem_object_destroy+0x48/0x1a0\n"
        )
    if "page-cache-full" in faults:
        files["/proc/meminfo"] = _full_meminfo(profile)
    if "hot" in faults:
        for number in range(len(profile.thermal_zones)):
            temperature = _HOT[min(number, len(_HOT) - 1)]
            files[f"/sys/devices/virtual/thermal/thermal_zone{number}/temp"] = f"{temperature}\n".encode()
        for name, state in profile.cooling_when_hot.items():
            files[f"/sys/devices/virtual/thermal/{name}/cur_state"] = f"{state}\n".encode()
    if "boot-image-broken" in faults:
        files[IMAGE] = b"\0" * 12
    denied: tuple[str, ...] = ()
    if "permission-denied" in faults:
        denied = (
            _DEBUGFS,
            *((("/dev/kmsg", "/proc/kmsg")) if profile.restricts_kernel_log else ("/proc/kmsg",)),
        )
    return Overlay(
        files,
        links,
        hidden=(
            *((_DEBUGFS,) if "debugfs-missing" in faults else ()),
            *(() if bound else _driver_nodes(profile)),
        ),
        denied=denied,
        denied_names=("cpuinfo_cur_freq",) if "permission-denied" in faults else (),
    )


def _process(
    files: dict[str, bytes],
    links: dict[str, str],
    profile: BoardProfile,
    program: ForeignProgram,
) -> None:
    pid, name, state = program.pid, program.name, program.state
    folder = f"/proc/{pid}"
    tail = f"1 {pid} {pid} 0 -1 4194560 4125 0 12 0 5120 2044 0 0 20 0 4 0 21044 812412928 20480"
    files |= {
        f"{folder}/comm": f"{name}\n".encode(),
        f"{folder}/cmdline": f"/usr/bin/{name}\0".encode(),
        f"{folder}/stat": f"{pid} ({name}) {state} {tail}\n".encode(),
        f"{folder}/status": f"Name:\t{name}\nState:\t{state}\nPid:\t{pid}\nVmRSS:\t   81920 kB\n".encode(),
        f"{folder}/wchan": program.waits_in.encode(),
    }
    links[f"{folder}/fd/7"] = profile.node


def _full_meminfo(profile: BoardProfile) -> bytes:
    total = profile.memory_kb
    rows = {
        "MemTotal": total, "MemFree": 412_388, "MemAvailable": total * 11 // 12, "Buffers": 181_204,
        "Cached": total - 3_517_792, "SwapCached": 0, "Active": 1_120_440, "Inactive": total - 4_296_900,
        "SwapTotal": 0, "SwapFree": 0, "Dirty": 144, "Shmem": 21_004, "KReclaimable": 610_220,
        "Slab": 801_144, "CmaTotal": profile.cma_kb, "CmaFree": 3_120,
    }  # fmt: skip
    return "".join(f"{name + ':':<15} {max(0, value):8} kB\n" for name, value in rows.items()).encode()
