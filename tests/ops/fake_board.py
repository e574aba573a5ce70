"""A board of plain text: the paths of an RK3588 board, with values a test can change between two reads."""

from __future__ import annotations

import json
import os
from pathlib import Path

from orkbench_tui.ops.files import Access, Reading

SAMPLES = Path(__file__).parents[1] / "data" / "samples"

GOVERNORS = "rknpu_ondemand dmc_ondemand userspace powersave performance simple_ondemand\n"


def sample_text(name: str) -> str:
    return (SAMPLES / name).read_text()


def rk3588_files() -> dict[str, str]:
    files = {
        "/proc/device-tree/model": "Radxa ROCK 5B\0",
        "/proc/device-tree/compatible": "radxa,rock-5b\0rockchip,rk3588\0",
        "/proc/sys/kernel/osrelease": "6.1.115-vendor-rk35xx\n",
        "/proc/sys/kernel/hostname": "rock-5b\n",
        "/proc/sys/kernel/random/boot_id": "2f6e3b5a-9c1d-4e7f-8a0b-1c2d3e4f5a6b\n",
        "/sys/module/rknpu/version": "0.9.8\n",
        "/proc/stat": sample_text("proc-stat-rk3588-t0.txt"),
        "/proc/meminfo": sample_text("meminfo-rk3588-32g-page-cache-full.txt"),
        "/proc/uptime": "6000.00 40000.00\n",
        "/proc/interrupts": sample_text("proc-interrupts-rk3588.txt"),
        "/proc/cpuinfo": "".join(
            f"processor\t: {cpu}\nCPU implementer\t: 0x41\nCPU part\t: {'0xd05' if cpu < 4 else '0xd0b'}\n\n"
            for cpu in range(8)
        ),
        "/sys/kernel/debug/rknpu/load": sample_text("npu-load-rk3588-busy.txt"),
        "/sys/kernel/debug/rknpu/power": "on\n",
        "/sys/class/devfreq/fdab0000.npu/cur_freq": "1000000000\n",
        "/sys/class/devfreq/fdab0000.npu/max_freq": "1000000000\n",
        "/sys/class/devfreq/fdab0000.npu/governor": "rknpu_ondemand\n",
        "/sys/class/devfreq/fdab0000.npu/available_governors": GOVERNORS,
        "/sys/class/devfreq/fdab0000.npu/available_frequencies": "300000000 500000000 800000000 1000000000 \n",
        "/sys/class/devfreq/fdab0000.npu/load": "0@1000000000Hz\n",
        "/sys/class/devfreq/dmc/cur_freq": "2112000000\n",
        "/sys/class/devfreq/dmc/max_freq": "2112000000\n",
        "/sys/class/devfreq/dmc/governor": "dmc_ondemand\n",
        "/sys/class/devfreq/dmc/load": "14@2112000000Hz\n",
        "/sys/class/drm/renderD128/device/uevent": "DRIVER=rockchip-drm\n",
        "/sys/class/drm/renderD129/device/uevent": "DRIVER=RKNPU\nOF_FULLNAME=/npu@fdab0000\n",
        "/proc/3120/comm": "llama-cli\n",
    }
    zones = {"soc": 46230, "bigcore0": 47153, "bigcore1": 45307, "littlecore": 45307, "center": 44384}
    for index, (name, value) in enumerate({**zones, "gpu": 43461, "npu": 48076}.items()):
        files[f"/sys/class/thermal/thermal_zone{index}/type"] = f"{name}-thermal\n"
        files[f"/sys/class/thermal/thermal_zone{index}/temp"] = f"{value}\n"
    for number, (celsius, kind) in enumerate(((75, "passive"), (85, "passive"), (115, "critical"))):
        files[f"/sys/class/thermal/thermal_zone0/trip_point_{number}_temp"] = f"{celsius}000\n"
        files[f"/sys/class/thermal/thermal_zone0/trip_point_{number}_type"] = f"{kind}\n"
    for number, (kind, top) in enumerate(
        (("thermal-cpufreq-0", 6), ("thermal-devfreq-0", 7), ("pwm-fan", 4))
    ):
        folder = f"/sys/class/thermal/cooling_device{number}"
        files |= {
            f"{folder}/type": f"{kind}\n",
            f"{folder}/max_state": f"{top}\n",
            f"{folder}/cur_state": "0\n",
        }
    files["/sys/kernel/debug/pm_genpd/pm_genpd_summary"] = (
        "domain                          status          children        performance\n"
        "    /device                                             runtime status\n" + "-" * 94 + "\n"
        "gpu                             off-0                                           0\n"
        "nputop                          on                                              0\n"
        "                                                npu1, npu2\n"
        "    fdab0000.npu                    active                      0\n"
        "npu1                            on                                              0\n"
        "npu2                            off-0                                           0\n"
    )
    files["/sys/kernel/debug/dma_buf/bufinfo"] = (
        "\nDma-buf Objects:\nsize            flags           mode            count           exp_name        ino\n"
        "00131072        00080007        00080007        00000002        system          00000042\n"
        "\nTotal 1 objects, 131072 bytes\n"
    )
    for policy, (cpus, current, top) in {
        0: ("0 1 2 3", 1800000, 1800000),
        4: ("4 5", 2256000, 2256000),
        6: ("6 7", 2304000, 2304000),
    }.items():
        root = f"/sys/devices/system/cpu/cpufreq/policy{policy}"
        files[f"{root}/related_cpus"] = cpus + "\n"
        files[f"{root}/scaling_cur_freq"] = f"{current}\n"
        files[f"{root}/cpuinfo_max_freq"] = f"{top}\n"
        files[f"{root}/scaling_governor"] = "ondemand\n"
    return files


def kmsg(text: str, first_sequence: int = 0) -> list[bytes]:
    """Raw records from plain dmesg text."""
    records = []
    for sequence, line in enumerate(text.splitlines(), first_sequence):
        stamp, _, message = line[1:].partition("] ")
        seconds, _, fraction = stamp.strip().partition(".")
        escaped = message.replace("\t", "\\x09")
        records.append(f"6,{sequence},{int(seconds) * 1000000 + int(fraction)},-;{escaped}\n".encode())
    return records


class FakeBoard:
    """BoardFiles from a dict. ``denied`` paths answer EACCES; ``gone`` makes every call fail."""

    def __init__(self, files: dict[str, str] | None = None, label: str = "board") -> None:
        self.files = rk3588_files() if files is None else files
        self.label = label
        self.log = kmsg(sample_text("dmesg-healthy-boot.txt"))
        self.links = {"/proc/3120/fd/7": "/dev/dri/renderD129"}
        self.denied: set[str] = set()
        self.gone = False
        self.batches = 0

    def read(self, path: str) -> Reading:
        if self.gone:
            raise ConnectionResetError("the board went away")
        if path in self.denied:
            return Reading(path, Access.DENIED, errno_name="EACCES")
        if path == "/dev/kmsg":
            return Reading(path, Access.PRESENT, b"".join(self.log))
        if path in self.files:
            return Reading(path, Access.PRESENT, self.files[path].encode())
        return Reading(path, Access.ABSENT, errno_name="ENOENT")

    def read_many(self, paths: list[str]) -> list[Reading]:
        self.batches += 1
        return [self.read(path) for path in paths]

    def list(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        names = {
            name[len(prefix) :].split("/", 1)[0]
            for name in [*self.files, *self.links]
            if name.startswith(prefix)
        }
        return sorted(names)

    def readlink(self, path: str) -> str | None:
        return self.links.get(path)

    def kernel_log(self, after_sequence: int = -1) -> list[bytes]:
        if "/dev/kmsg" in self.denied:
            return []
        return [record for record in self.log if int(record.split(b",", 2)[1]) > after_sequence]

    def close(self) -> None:
        return None


def publish(folder: Path, *, pid: int | None = None, source: str = "board", submits: int = 1200) -> Path:
    """An occupancy file of a living process (this one unless told)."""
    folder.mkdir(parents=True, exist_ok=True)
    pid = os.getpid() if pid is None else pid
    path = folder / f"{pid}.json"
    path.write_text(
        json.dumps(
            {
                "pid": pid,
                "command": "ork run chat",
                "device": "/dev/dri/card1",
                "source": source,
                "started": 1764452400.0,
                "domains": [
                    {
                        "id": 0,
                        "used_bytes": 327155712,
                        "buffers": 14,
                        "largest_free_bytes": 3758096384,
                        "capacity_bytes": 4294967296,
                    }
                ],
                "counters": {"submits": submits, "tasks": submits * 3, "hw_ns": 5_000_000},
            }
        )
    )
    return path
