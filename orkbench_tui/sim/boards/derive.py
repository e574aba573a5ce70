"""Files of one board from those of another: renamed, dropped, replaced."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from typing import TypeVar

__all__ = ["cpu_files", "encoded", "kernel_config", "renamed", "without"]

_T = TypeVar("_T")


def renamed(texts: Mapping[str, bytes], names: Mapping[str, str]) -> dict[str, bytes]:
    """Paths and contents with every name replaced."""
    changed = {}
    for path, data in texts.items():
        for old, new in names.items():
            path = path.replace(old, new)
            data = data.replace(old.encode(), new.encode())
        changed[path] = data
    return changed


def without(entries: Mapping[str, _T], parts: Iterable[str]) -> dict[str, _T]:
    """The entries whose path has none of the parts."""
    unwanted = tuple(parts)
    return {path: value for path, value in entries.items() if not any(part in path for part in unwanted)}


def encoded(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in texts.items()}


def kernel_config(*lines: str) -> bytes:
    """/proc/config.gz."""
    return gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0)


def cpu_files(
    clusters: Mapping[int, tuple[tuple[int, ...], int, int]], parts: Mapping[int, str], governor: str
) -> dict[str, bytes]:
    """cpufreq policies, /proc/cpuinfo and the list of cores; ``parts`` gives each policy's MIDR part number."""
    root = "/sys/devices/system/cpu"
    cores = sorted(core for members, _, _ in clusters.values() for core in members)
    fastest = max(high for _, _, high in clusters.values())
    files = {f"{root}/{name}": f"0-{cores[-1]}\n" for name in ("online", "possible", "present")}
    info = ""
    for policy, (members, low, high) in clusters.items():
        folder = f"{root}/cpufreq/policy{policy}"
        names = " ".join(map(str, members)) + "\n"
        steps = [step for step in (low, 816000, 1200000, 1608000, 1800000, 2016000) if step < high]
        files |= {
            f"{folder}/scaling_governor": f"{governor}\n",
            f"{folder}/scaling_min_freq": f"{low}\n",
            f"{folder}/scaling_max_freq": f"{high}\n",
            f"{folder}/cpuinfo_min_freq": f"{low}\n",
            f"{folder}/cpuinfo_max_freq": f"{high}\n",
            f"{folder}/scaling_available_governors": "conservative ondemand userspace powersave performance schedutil \n",
            f"{folder}/scaling_available_frequencies": " ".join(map(str, [*steps, high])) + " \n",
            f"{folder}/affected_cpus": names,
            f"{folder}/related_cpus": names,
        }
        for core in members:
            files[f"{root}/cpu{core}/online"] = "1\n"
            files[f"{root}/cpu{core}/cpu_capacity"] = f"{high * 1024 // fastest}\n"
            files[f"{root}/cpu{core}/regs/identification/midr_el1"] = f"0x00000000410f{parts[policy][2:]}0\n"
            info += (
                f"processor\t: {core}\nBogoMIPS\t: 48.00\nFeatures\t: fp asimd evtstrm aes pmull sha1 sha2 "
                f"crc32\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: "
                f"{parts[policy]}\nCPU revision\t: 4\n\n"
            )
    files["/proc/cpuinfo"] = info
    return encoded(files)
