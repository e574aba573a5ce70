"""Which kind of reading a captured file is: by its name, else by what stands in it."""

from __future__ import annotations

import re
from enum import Enum

from orkbench_tui.ops.diagnosis.capture import CapturedFile
from orkbench_tui.ops.kernel_log.classify import classify_all
from orkbench_tui.ops.kernel_log.renderings import parse_log

__all__ = ["Kind", "kind_of"]


class Kind(Enum):
    LOG = "kernel log"
    HOLDERS = "open descriptors"
    PROCESSES = "processes"
    MEMINFO = "/proc/meminfo"
    LOAD = "NPU load"
    VERSION = "driver version"
    UNAME = "kernel release"
    ID = "user and groups"
    LISTING = "folder listing"
    SYSFS = "file values"
    OUTPUT = "program output"
    GGUF = "model file header"
    PATCH = "patch output"
    MM = "SRAM map"
    INTERRUPTS = "/proc/interrupts"
    COMPATIBLE = "device tree names"
    CMDLINE = "kernel command line"
    CONFIG = "kernel configuration"
    MODULES = "/proc/modules"
    IMAGE = "head of a boot file"
    LOADAVG = "/proc/loadavg"
    MOUNTS = "mounts"
    STAT = "/proc/stat"
    NODE = "driver node"
    UNKNOWN = "unknown"


# Names without extension and without ``input.``, first match wins.
_NAMES: tuple[tuple[str, Kind], ...] = (
    (r"dmesg.*|kmsg.*|journal.*|kern(?:el)?[-_.]?log.*|klog.*|syslog.*|messages", Kind.LOG),
    (r"fds?|fd[-_].*|holders|lsof.*|fuser.*", Kind.HOLDERS),
    (r"ps|ps[-_].*|processes|tasks|top", Kind.PROCESSES),
    (r"meminfo.*|memory", Kind.MEMINFO),
    (r"(?:npu[-_])?load(?:[-_].*)?", Kind.LOAD),
    (r"(?:npu[-_]|driver[-_]|rknpu[-_])?version.*", Kind.VERSION),
    (r"uname.*|osrelease", Kind.UNAME),
    (r"id|groups", Kind.ID),
    (r"ls[-_.].*|ls|tree.*|find[-_].*|(?:boot|dir)[-_](?:dir|files|listing|tree)|listing.*", Kind.LISTING),
    (r"sysfs.*|devfreq.*|cpufreq.*|thermal.*|governors?|trips|debugfs.*", Kind.SYSFS),
    (r"stderr.*|stdout.*|output.*|console.*|uboot.*|u-boot.*|serial.*|cli.*|run.*", Kind.OUTPUT),
    (r"gguf.*|model.*", Kind.GGUF),
    (r"patch.*|git[-_]apply.*|git[-_]am.*|build.*", Kind.PATCH),
    (r"(?:npu[-_])?mm(?:[-_].*)?", Kind.MM),
    (r"(?:proc[-_])?interrupts.*", Kind.INTERRUPTS),
    (r"compatible.*|model-compatible", Kind.COMPATIBLE),
    (r"(?:proc[-_])?cmdline.*", Kind.CMDLINE),
    (r"config.*|kconfig.*", Kind.CONFIG),
    (r"(?:proc[-_])?modules|lsmod.*", Kind.MODULES),
    (
        r"image.*|kernel[-_]?image.*|xxd.*|hexdump.*|file.*|vmlinuz.*|head.*|dtb.*|.*\.dtb|u?initrd.*",
        Kind.IMAGE,
    ),
    (r"loadavg.*", Kind.LOADAVG),
    (r"mounts?.*|findmnt.*", Kind.MOUNTS),
    (r"(?:proc[-_])?stat(?:[-_].*)?", Kind.STAT),
    (
        r"(?:npu|rknpu)[-_](?:power|freq|volt|delayms|reset|counters)(?:[-_].*)?|(?:power|freq|volt|delayms|reset|counters)",
        Kind.NODE,
    ),
)
_BY_NAME = tuple((re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in _NAMES)

_CONTENT: tuple[tuple[str, Kind], ...] = (
    (r"\A\s*NPU load:", Kind.LOAD),
    (r"\A\s*MemTotal:\s+\d", Kind.MEMINFO),
    (r"\A\s*RKNPU driver: v\d[^\n]{0,80}\s*\Z", Kind.VERSION),
    (r"\A\s*uid=\d+", Kind.ID),
    (r"\A\s*SRAM bitmap:", Kind.MM),
    (r"\A\s*CPU0\s+CPU1?", Kind.INTERRUPTS),
    (r"^(?:patching file |Hunk #\d+ |error: patch failed: |checking file )", Kind.PATCH),
    (r"^[ \t]*/(?:sys|proc)/[^\s:=]{1,300}[ \t]*[:=][ \t]*\S", Kind.SYSFS),
    (r"^[ \t]*(?:[A-Z%]{1,8}[ \t]+){0,8}PID\b[^\n]{0,200}\b(?:STAT|S)\b", Kind.PROCESSES),
    (r"^[ \t]*\d{1,9}[ \t]+\S[^\n]{0,200}->[ \t]*/dev/", Kind.HOLDERS),
    (r"^[bcdlps-][rwxsStT-]{9}[.+]?[ \t]+\d+[ \t]+\S+[ \t]+\S+", Kind.LISTING),
    (r"^00000000:? [ ]?[0-9a-f]{2}", Kind.IMAGE),
    (r"^(?:# )?CONFIG_[A-Z0-9_]+(?:=| is not set)", Kind.CONFIG),
)
_BY_CONTENT = tuple((re.compile(pattern, re.MULTILINE), kind) for pattern, kind in _CONTENT)
_SNIFF = 65_536


def kind_of(file: CapturedFile) -> Kind:
    """Never raises; UNKNOWN for what neither name nor content tells."""
    stem = re.sub(r"\.(?:txt|log|json|jsonl|out|err)$", "", file.name, flags=re.IGNORECASE)
    named = next((kind for pattern, kind in _BY_NAME if pattern.fullmatch(stem)), None)
    if file.binary:
        return named if named in (Kind.COMPATIBLE, Kind.IMAGE) else Kind.UNKNOWN
    if named is Kind.LOG or not file.text.strip():
        return named or Kind.UNKNOWN
    found = next((kind for pattern, kind in _BY_CONTENT if pattern.search(file.text[:_SNIFF])), None)
    if named is not None:
        return named
    if _is_model_header(file.text):
        return Kind.GGUF
    if found is not None:
        return found
    return Kind.LOG if _is_kernel_log(file.text) else Kind.UNKNOWN


def _is_model_header(text: str) -> bool:
    return (
        text.lstrip().startswith("{")
        and re.search(r'"(?:magic|tensor_count|kv)"\s*:', text[:_SNIFF]) is not None
    )


def _is_kernel_log(text: str) -> bool:
    """Stamps on most lines, or lines the rule table knows."""
    records = parse_log(text[:_SNIFF].encode())
    stamped = sum(record.ts_us is not None or bool(record.wall) for record in records)
    if records and stamped * 2 >= len(records):
        return True
    return any(item.rule is not None for item in classify_all(records))
