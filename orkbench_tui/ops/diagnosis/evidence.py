"""Everything a diagnosis may look at, read once from a capture."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orkbench_tui.ops.board_identity import parse_strings
from orkbench_tui.ops.diagnosis.capture import Capture, CapturedFile, DeniedSource
from orkbench_tui.ops.diagnosis.kinds import Kind, kind_of
from orkbench_tui.ops.diagnosis.processes import (
    Process,
    display_nodes,
    npu_holders,
    parse_holders,
    parse_processes,
)
from orkbench_tui.ops.diagnosis.readings import (
    Entry,
    PathError,
    User,
    parse_listing,
    parse_user,
    parse_values,
    path_errors,
)
from orkbench_tui.ops.kernel.configuration import parse_configuration
from orkbench_tui.ops.kernel_log.boots import split_boots
from orkbench_tui.ops.kernel_log.classify import Classified, classify
from orkbench_tui.ops.kernel_log.counting import LogFacts, count
from orkbench_tui.ops.kernel_log.records import LogRecord
from orkbench_tui.ops.kernel_log.renderings import parse_log
from orkbench_tui.ops.telemetry.holders import Holder
from orkbench_tui.ops.telemetry.memory import Memory, parse_meminfo
from orkbench_tui.ops.telemetry.npu_load import CoreLoad, parse_npu_load

__all__ = ["Evidence", "ModelSupport", "gather"]


@dataclass(frozen=True, slots=True)
class ModelSupport:
    """What the runner can read, told by the caller: names of pre-tokenizers, numbers of tensor types.

    ``type_names`` names numbers that it can read and numbers that it cannot.

    Empty sets mean that nothing is known, and then only a loader's own message counts.
    """

    tokenizers: frozenset[str] = frozenset()
    tokenizer_models: frozenset[str] = frozenset()
    tensor_types: frozenset[int] = frozenset()
    tensor_type_names: frozenset[str] = frozenset()
    type_names: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Parsed readings. None, "" or an empty tuple where a source was not given.

    ``log`` holds the lines of the newest boot that a rule knows, in order; ``earlier`` those of earlier boots
    after which the kernel cannot have gone on.
    """

    capture: Capture
    kinds: tuple[tuple[str, Kind], ...] = ()
    log_given: bool = False
    log: tuple[Classified, ...] = ()
    messages: tuple[str, ...] = ()
    facts: LogFacts = field(default_factory=LogFacts)
    earlier: tuple[Classified, ...] = ()
    boots: int = 0
    holders_given: bool = False
    holders: tuple[Holder, ...] = ()
    npu_nodes: frozenset[str] = frozenset()
    processes: tuple[Process, ...] = ()
    memory: Memory | None = None
    load_text: str = ""
    loads: tuple[CoreLoad, ...] | None = None
    driver: str = ""
    driver_version: str = ""
    kernel: str = ""
    user: User | None = None
    entries: tuple[Entry, ...] = ()
    folders: frozenset[str] = frozenset()
    values: dict[str, str] = field(default_factory=dict)
    output: tuple[str, ...] = ()
    errors: tuple[PathError, ...] = ()
    model: dict[str, Any] | None = None
    patch: tuple[str, ...] = ()
    images: tuple[CapturedFile, ...] = ()
    command_line: str = ""
    config: dict[str, str] = field(default_factory=dict)
    modules: tuple[str, ...] = ()
    modules_given: bool = False
    compatible: tuple[str, ...] = ()
    support: ModelSupport = field(default_factory=ModelSupport)

    @property
    def live(self) -> bool:
        return self.capture.live

    @property
    def unknown_files(self) -> tuple[str, ...]:
        return tuple(name for name, kind in self.kinds if kind is Kind.UNKNOWN)

    @property
    def usable(self) -> bool:
        """Whether anything was recognised."""
        return any(kind is not Kind.UNKNOWN for _, kind in self.kinds)

    def of(self, *ids: str) -> list[Classified]:
        """Log lines whose rule id is one of ``ids`` or lies below one that ends with a dot."""
        return [
            item
            for item in self.log
            if item.rule
            and any(item.rule.id == i or (i.endswith(".") and item.rule.id.startswith(i)) for i in ids)
        ]

    def value(self, pattern: str) -> list[tuple[str, str]]:
        """Paths and values whose path matches, in path order."""
        form = re.compile(pattern)
        return sorted((path, text) for path, text in self.values.items() if form.search(path))

    def said(self, pattern: str) -> list[str]:
        """Lines of program output that match, ignoring case."""
        form = re.compile(pattern, re.IGNORECASE)
        return [line for line in self.output if form.search(line)]

    @property
    def mainline(self) -> bool:
        return self.driver == "rocket"

    @property
    def denied(self) -> tuple[DeniedSource, ...]:
        return tuple(item for item in self.capture.unreadable if item.reason == "denied")


_TERMINAL = ("npu.power.panic", "kernel.panic", "kernel.abort", "kernel.stall")
# Programs that fail say so in a line; what is longer or more is a dump.
_MAX_OUTPUT_LINES = 20_000
_MAX_OUTPUT_COLUMNS = 2_000
_VERSIONS = (
    re.compile(r"\[drm\] Initialized rknpu (\d{1,3}\.\d{1,3}\.\d{1,3})"),
    re.compile(r"Initialized RKNPU\d? driver: v(\d{1,3}\.\d{1,3}\.\d{1,3})"),
    re.compile(r"(?i)rknpu\d? driver(?: version)?: *v?(\d{1,3}\.\d{1,3}\.\d{1,3})"),
)


def gather(capture: Capture, support: ModelSupport | None = None) -> Evidence:
    """Read every file of a capture; damaged and unknown ones are named, never fatal."""
    kinds = tuple((file.name, kind_of(file)) for file in capture.files)
    by_kind: dict[Kind, list[CapturedFile]] = {}
    for file, (_, kind) in zip(capture.files, kinds, strict=True):
        by_kind.setdefault(kind, []).append(file)

    def text(*wanted: Kind) -> str:
        return "\n".join(file.text for kind in wanted for file in by_kind.get(kind, []))

    logs = by_kind.get(Kind.LOG, [])
    records, earlier, boots = _newest_boot(logs, by_kind.get(Kind.OUTPUT, []))
    items = [classify(record) for record in records]
    values = parse_values(text(Kind.SYSFS))
    output = tuple(
        line[:_MAX_OUTPUT_COLUMNS]
        for kind in (Kind.OUTPUT, Kind.UNKNOWN)
        for file in by_kind.get(kind, [])
        if not file.binary
        for line in file.text.splitlines()[:_MAX_OUTPUT_LINES]
        if line.strip()
    )
    messages = tuple(record.message for record in records)
    entries, folders = _listings(by_kind.get(Kind.LISTING, []))
    compatible = _compatible(by_kind.get(Kind.COMPATIBLE, []), values)
    load = text(Kind.LOAD) or next((v for p, v in values.items() if p.endswith("rknpu/load")), "")
    modules = tuple(line.split()[0] for line in text(Kind.MODULES).splitlines() if line.split())
    holders_text = text(Kind.HOLDERS)
    nodes = _npu_nodes(messages, entries, values, holders_text)
    meminfo = text(Kind.MEMINFO)
    user_text = text(Kind.ID)
    every_text = "\n".join(
        file.text
        for file, (_, kind) in zip(capture.files, kinds, strict=True)
        if kind is not Kind.LOG and not file.binary
    )
    return Evidence(
        capture=capture,
        kinds=kinds,
        log_given=bool(logs),
        log=tuple(item for item in items if item.rule is not None),
        messages=messages,
        facts=count(items),
        earlier=earlier,
        boots=boots,
        holders_given=bool(by_kind.get(Kind.HOLDERS)),
        holders=npu_holders(parse_holders(holders_text), nodes),
        npu_nodes=nodes,
        processes=parse_processes(text(Kind.PROCESSES)),
        memory=parse_meminfo(meminfo) if meminfo else None,
        load_text=load,
        loads=next((found for line in load.splitlines() if (found := parse_npu_load(line))), None),
        driver=_driver(messages, modules, entries, values),
        driver_version=_version(messages, text(Kind.VERSION), values, output),
        kernel=_kernel(text(Kind.UNAME), messages, values),
        user=parse_user(user_text) if user_text else None,
        entries=entries,
        folders=folders,
        values=values,
        output=output,
        errors=tuple(path_errors(every_text[: 8 << 20])),
        model=_model(by_kind.get(Kind.GGUF, [])),
        patch=tuple(text(Kind.PATCH).splitlines()),
        images=tuple(by_kind.get(Kind.IMAGE, [])),
        command_line=text(Kind.CMDLINE).strip() or _command_line(messages),
        config=_config(text(Kind.CONFIG)),
        modules=modules,
        modules_given=bool(by_kind.get(Kind.MODULES)),
        compatible=compatible,
        support=support or ModelSupport(),
    )


def _newest_boot(
    logs: Iterable[CapturedFile], outputs: Iterable[CapturedFile]
) -> tuple[list[LogRecord], tuple[Classified, ...], int]:
    """Records of the newest boot over all log files, terminal events of earlier ones, boots seen.

    The same line in two renderings of one log counts once.
    """
    newest: list[LogRecord] = []
    seen: set[tuple[int | None, str]] = set()
    ended: list[Classified] = []
    boots = 0
    for index, (file, is_log) in enumerate([*((f, True) for f in logs), *((f, False) for f in outputs)]):
        parsed = parse_log(file.text.encode("utf-8", "replace"))
        if not is_log:
            # Serial consoles and pasted sessions hold kernel lines between others.
            parsed = [r for r in parsed if (r.ts_us is not None or r.wall) and classify(r).rule is not None]
        *before, last = split_boots(parsed)
        boots = max(boots, len(before) + bool(last))
        for boot in before:
            items = [classify(record) for record in boot[-400:]]
            ended += [item for item in items if item.rule and item.rule.id in _TERMINAL]
        messages = {message for _, message in seen}
        for record in last:
            key = (record.ts_us, record.message)
            if index and (key in seen or (record.ts_us is None and record.message in messages)):
                continue
            newest.append(record)
        seen |= {(record.ts_us, record.message) for record in last}
    return newest, tuple(ended), boots


def _npu_nodes(
    messages: Iterable[str], entries: Iterable[Entry], values: dict[str, str], holders_text: str
) -> frozenset[str]:
    """Device nodes known to be the NPU's; empty when nothing says so."""
    nodes: set[str] = set()
    holders = parse_holders(holders_text)
    for message in messages:
        if found := re.search(r"\[drm\] Initialized rknpu \S+ .*on minor (\d{1,2})\b", message):
            # Render nodes count on their own: a display without one shifts them.
            nodes.add(f"/dev/dri/card{int(found[1])}")
            nodes |= {f"/dev/dri/renderD{number}" for number in range(128, 144)} - display_nodes(holders)
    for entry in entries:
        if re.search(r"\.(?:rk)?npu-(?:render|card)$", entry.name) and entry.target:
            nodes.add("/dev/dri/" + entry.target.rsplit("/", 1)[-1])
    for path, value in values.items():
        found = re.search(r"/drm/((?:card|renderD)\d{1,3})/(?:device/)?uevent$", path)
        if found and "DRIVER=RKNPU" in value.upper():
            nodes.add(f"/dev/dri/{found[1]}")
    if not nodes and re.search(r"(?im)^\s*#.*\bNPU\b.*\bonly\b", holders_text):
        nodes |= {item.node for item in holders}
    if nodes:
        nodes |= {"/dev/rknpu", "/dev/accel/accel0"}
    return frozenset(nodes)


def _listings(files: Iterable[CapturedFile]) -> tuple[tuple[Entry, ...], frozenset[str]]:
    entries: list[Entry] = []
    folders: set[str] = set()
    for file in files:
        stem = re.sub(r"\.(?:txt|log)$", "", file.name)
        folder = "/" + re.sub(r"^(?:ls|tree|find)[-_.]?", "", stem).replace("-", "/").replace("_", "/").strip(
            "/"
        )
        found = parse_listing(file.text, folder)
        entries += found
        folders |= {folder} | {entry.folder for entry in found}
    return tuple(entries), frozenset(folders)


def _driver(
    messages: Iterable[str], modules: Iterable[str], entries: Iterable[Entry], values: dict[str, str]
) -> str:
    for message in messages:
        if found := re.search(r"\[drm\] Initialized (rknpu|rocket) |^(rocket) [0-9a-f]+\.npu: ", message):
            return found[1] or found[2]
        if re.match(r"RKNPU\d?(?: \S+)?: ", message):
            return "rknpu"
    names = set(modules)
    if "rknpu" in names or any("/module/rknpu/" in path or "/debug/rknpu/" in path for path in values):
        return "rknpu"
    if "rocket" in names or any("/drivers/rocket" in path for path in values):
        return "rocket"
    return "rocket" if any(re.fullmatch(r"accel\d+", entry.name) for entry in entries) else ""


def _version(messages: Iterable[str], version: str, values: dict[str, str], output: Iterable[str]) -> str:
    for path, text in values.items():
        if path.endswith(("rknpu/version", "module/rknpu/version")) and (
            found := re.search(r"\d{1,3}\.\d{1,3}\.\d{1,3}", text)
        ):
            return found[0]
    if found := re.search(r"\d{1,3}\.\d{1,3}\.\d{1,3}", version):
        return found[0]
    for source in (messages, output):
        for line in source:
            for form in _VERSIONS:
                if found := form.search(line[:4096]):
                    return found[1]
    return ""


def _kernel(uname: str, messages: Iterable[str], values: dict[str, str]) -> str:
    for text in (uname, values.get("/proc/sys/kernel/osrelease", "")):
        if found := re.search(r"\b\d{1,2}\.\d{1,3}(?:\.\d{1,4})?[\w.+-]*", text):
            return found[0]
    for message in messages:
        if found := re.match(r"Linux version (\S+)", message):
            return found[1]
    return ""


def _command_line(messages: Iterable[str]) -> str:
    return next((m.split(":", 1)[1].strip() for m in messages if m.startswith("Kernel command line:")), "")


def _compatible(files: Iterable[CapturedFile], values: dict[str, str]) -> tuple[str, ...]:
    names: list[str] = []
    for file in files:
        for part in parse_strings(file.text.encode()):
            names += part.split()
    for path, text in values.items():
        if path.endswith("/compatible"):
            names += re.split(r"[\s\0]+", text)
    return tuple(name for name in names if name)


def _config(text: str) -> dict[str, str]:
    return {f"CONFIG_{name}": value for name, value in parse_configuration(text).items()}


def _model(files: Iterable[CapturedFile]) -> dict[str, Any] | None:
    for file in files:
        try:
            value = json.loads(file.text)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    return None
