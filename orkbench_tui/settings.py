"""Every setting, in one dataclass: defaults, then config file, then environment, then flags.

``Settings.load()`` reads ``config.toml`` and ``ORK_<NAME>`` variables; a command passes its flags to
``with_flags``. An unknown key or a value of the wrong kind is an error that names the nearest known
key and the allowed values, never a silent default.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_type_hints

from orkbench_tui import locations
from orkbench_tui.errors import InvalidFileError, UsageError
from orkbench_tui.user_files import read_text_bounded

__all__ = [
    "Settings",
    "allowed_words",
    "checked_setting",
    "nearest_setting",
    "setting_from_text",
    "unknown_variables",
]


def _setting(
    default: Any,
    doc: str,
    *,
    choices: tuple[str, ...] = (),
    low: float | None = None,
    high: float | None = None,
) -> Any:
    return field(default=default, metadata={"doc": doc, "choices": choices, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user can set. Field names are the keys of config.toml; ``ORK_`` + upper case in the environment."""

    target: str = _setting("auto", "which board to use", choices=("auto", "board", "sim"))
    board_root: str = _setting("/", "root folder of the board's files, for recorded boards")
    model: str = _setting(
        "smollm2-135m-instruct", "model to run when none is named: a catalogue name or a GGUF file"
    )
    quant: str = _setting(
        "auto",
        "arithmetic of the linear layers; auto is w8a8-rot, and nf4-mixed for models of experts",
        choices=("auto", "w8a8-rot", "w8a8", "w4a8-g32-rot", "nf4-mixed", "f32"),
    )
    threads: int = _setting(
        0, "CPU threads for the engine; 0 takes the big cores this process may use", low=0, high=256
    )
    context: int = _setting(2048, "tokens of context kept", low=16, high=1 << 20)
    kv_cache: str = _setting(
        "auto",
        "type of the key-value cache; auto is f16, and f32 with quant f32",
        choices=("auto", "f16", "int8", "f32"),
    )
    overlap: str = _setting(
        "auto",
        "whether two parts of a prompt are under way, one on the NPU while the CPU has the other; auto takes "
        "what is faster here",
        choices=("auto", "on", "off"),
    )
    context_limit: str = _setting(
        "stop",
        "what a full context does: stop the answer, or shift, which drops the oldest",
        choices=("stop", "shift"),
    )
    dispatch: str = _setting(
        "",
        "where matmuls of prompts run, for example gate-up=npu,down=cpu; what is not named goes where it is "
        "predicted faster, as `ork run explain` tells",
    )
    npu_timeout_ms: int = _setting(60000, "time a submitted job may take", low=1, high=600_000)
    npu_workers: str = _setting(
        "big", "where the threads that drive the NPU run: on the big cores, or on any", choices=("big", "any")
    )
    npu_failure_files: int = _setting(
        8, "failed NPU jobs kept as files, the newest; 0 keeps none", low=0, high=100
    )
    chat_history: str = _setting(
        "on", "whether questions are kept for the arrow keys of the next chat", choices=("on", "off")
    )
    refresh_s: float = _setting(1.0, "seconds between samples on live screens", low=0.1, high=60.0)
    alert_temperature_c: float = _setting(
        85.0, "degrees from which on a zone is an alert; it ends 5 below", low=30.0, high=150.0
    )
    alert_memory_pct: float = _setting(
        95.0, "percent of RAM in use from which on it is an alert; it ends 5 below", low=1.0, high=100.0
    )
    alert_cma_pct: float = _setting(
        100.0,
        "percent of contiguous memory in use from which on it is an alert; the page cache may fill all of it",
        low=1.0,
        high=100.0,
    )
    alert_stuck_s: float = _setting(
        5.0, "seconds a core may be busy without completing anything", low=2.0, high=3600.0
    )
    alert_hung_s: float = _setting(
        30.0, "seconds a program may sleep in the NPU's driver while nothing completes", low=10.0, high=3600.0
    )
    alert_command: str = _setting(
        "",
        "program to run when an alert begins or ends; the facts are in its environment as ORKBENCH_ALERT_…",
    )
    power_command: str = _setting(
        "",
        "program that cuts a board's power and gives it back, {board} standing for its name; run by "
        "`ork board power-cycle` alone, once the name was typed",
    )
    remote_ork: str = _setting("ork", "how ork is called on other boards, with its path if ssh needs it")
    remote_target: str = _setting(
        "board",
        "which board other machines show: their own, or a simulated one",
        choices=("board", "auto", "sim"),
    )
    theme: str = _setting("dark", "colours of the live screens", choices=("dark", "light"))
    sim_pace: str = _setting(
        "fast", "whether the simulated NPU makes callers wait its predicted time", choices=("fast", "real")
    )
    sim_idle_s: float = _setting(
        300.0, "seconds without a client after which the simulated board stops", low=1.0, high=86400.0
    )

    @staticmethod
    def load(
        *, config: Path | None = None, environment: Mapping[str, str] | None = None, **flags: Any
    ) -> Settings:
        """Settings from all sources. ``flags`` that are None are treated as not given.

        Raises:
            UsageError: unknown key, unreadable file, or a value outside its range.
        """
        given = _given(config or locations.config_file(), os.environ if environment is None else environment)
        return Settings(**{name: value for name, (value, _) in given.items()}).with_flags(**flags)

    @staticmethod
    def origins(
        *, config: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Where each setting comes from: ``default``, the config file's path, or the variable's name."""
        given = _given(config or locations.config_file(), os.environ if environment is None else environment)
        return {name: given[name][1] if name in given else "default" for name in _FIELDS}

    def with_flags(self, **flags: Any) -> Settings:
        """A copy with the given flags applied; None means not given."""
        given = {
            key: _checked(key, value, f"--{key.replace('_', '-')}")
            for key, value in flags.items()
            if value is not None
        }
        return dataclasses.replace(self, **given)


_FIELDS = {f.name: f for f in dataclasses.fields(Settings)}
_TYPES = get_type_hints(Settings)
_KINDS: dict[type, str] = {str: "text in quotes", int: "a whole number", float: "a number"}

_MAX_FILE_BYTES = 1 << 20


def _given(path: Path, environment: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    """What file and environment set: value and origin by name."""
    given: dict[str, tuple[Any, str]] = {}
    # A link that leads nowhere or in circles was put there by somebody, and is no absent file.
    if os.path.lexists(path):
        try:
            text = read_text_bounded(path, _MAX_FILE_BYTES, "settings file", do="fix or remove it")
            table = tomllib.loads(text)
        except InvalidFileError as error:
            raise UsageError(
                f"cannot read settings from {path}", why=error.why, do="fix or remove it"
            ) from None
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise UsageError(
                f"cannot read settings from {path}", why=str(error), do="fix or remove the file"
            ) from error
        for key, value in table.items():
            name = _known(key, str(path))
            given[name] = (_checked(name, value, str(path)), str(path))
    for name in _FIELDS:
        variable = f"ORK_{name.upper()}"
        if variable in environment:
            given[name] = (_checked(name, _parsed(name, environment[variable], variable), variable), variable)
    return given


def setting_from_text(name: str, text: str, where: str) -> Any:
    """``text``, as typed or from a variable, as the value of a setting.

    Raises:
        UsageError: no number, or outside its range. ``where`` is named.
    """
    return _checked(name, _parsed(name, text, where), where)


def checked_setting(key: str, value: Any, where: str) -> Any:
    """A value from a file, checked. Raises UsageError: no such setting, the wrong kind, or outside its range."""
    return _checked(_known(key, where), value, where)


def allowed_words(name: str) -> str:
    """What a setting may be, as text: its choices, its range, or its kind."""
    meta, kind = _FIELDS[name].metadata, _TYPES[name]
    if meta["choices"]:
        return ", ".join(meta["choices"])
    if meta["low"] is not None:
        return f"{'whole number' if kind is int else 'number'}, {meta['low']} to {meta['high']}"
    return "any text"


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """``ORK_`` variables that set nothing: most likely misspelt."""
    known = {f"ORK_{name.upper()}" for name in _FIELDS} | {"ORK_DEBUG"}
    return sorted(
        name
        for name in environment
        if name.startswith("ORK_") and not name.startswith("ORK_BENCH_") and name not in known
    )


def nearest_setting(key: str) -> str:
    """The setting a misspelt ``key`` most likely means; "" where none is near."""
    return next(iter(difflib.get_close_matches(key, _FIELDS, n=1)), "")


def _known(key: str, where: str) -> str:
    if key not in _FIELDS:
        near = nearest_setting(key)
        hint = f"did you mean {near}" if near else f"known: {', '.join(_FIELDS)}"
        raise UsageError(f"unknown setting {key!r} in {where}", do=hint)
    return key


def _parsed(name: str, text: str, where: str) -> Any:
    kind = _TYPES[name]
    if kind is str:
        return text
    try:
        return kind(text)
    except ValueError:
        raise UsageError(
            f"{where}={text!r} is not a number", do=f"{name}: {_FIELDS[name].metadata['doc']}"
        ) from None


def _checked(name: str, value: Any, where: str) -> Any:
    kind, meta = _TYPES[name], _FIELDS[name].metadata
    allowed = (int, float) if kind is float else get_args(kind) or (kind,)
    if not isinstance(value, allowed) or isinstance(value, bool):
        raise UsageError(f"{name} = {value!r} in {where}", why=f"expected {_KINDS[kind]}")
    if meta["choices"] and value not in meta["choices"]:
        raise UsageError(f"{name} = {value!r} in {where}", why=f"allowed: {', '.join(meta['choices'])}")
    if meta["low"] is not None and not meta["low"] <= value <= meta["high"]:
        raise UsageError(f"{name} = {value} in {where}", why=f"allowed: {meta['low']} to {meta['high']}")
    return kind(value)
