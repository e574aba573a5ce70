"""Where our files live (XDG), one function per place. Nothing here creates a folder."""

from __future__ import annotations

import os
from pathlib import Path

# Variable, and what stands for it below the home folder.
_CONFIG = ("XDG_CONFIG_HOME", ".config")
_CACHE = ("XDG_CACHE_HOME", ".cache")
_STATE = ("XDG_STATE_HOME", ".local/state")


def _ours(variable: str, otherwise: str) -> Path:
    """Our folder below an XDG base; the specification has relative paths ignored."""
    base = os.environ.get(variable, "")
    return (Path(base) if base.startswith("/") else Path.home() / otherwise) / "ork"


def variable_of(path: Path) -> str:
    """The variable that moves ``path``, or a folder on the way to it, elsewhere; "" for none of our places."""
    for variable, otherwise in (_CACHE, _STATE, _CONFIG):
        ours = _ours(variable, otherwise)
        if path.is_relative_to(ours) or ours.is_relative_to(path):
            return variable
    runtime = runtime_dir()
    return "XDG_RUNTIME_DIR" if path.is_relative_to(runtime) or runtime.is_relative_to(path) else ""


def config_file() -> Path:
    return _ours(*_CONFIG) / "config.toml"


def models_dir() -> Path:
    """Downloaded model files, and partial downloads beside them."""
    return _ours(*_CACHE) / "models"


def packs_dir() -> Path:
    """Weight packs made from models; safe to delete, they are made again."""
    return _ours(*_CACHE) / "packs"


def state_dir() -> Path:
    """Journals, chat history, recordings."""
    return _ours(*_STATE)


def chat_history_file() -> Path:
    """Questions asked in the chat, one JSON string a line; readable by its user alone."""
    return state_dir() / "chat_history.jsonl"


def runtime_dir() -> Path:
    """Sockets, locks and live publications; gone after a reboot.

    ``$XDG_RUNTIME_DIR/ork`` where a login session has one, else ``/tmp/ork-<uid>``: the fallback
    must be the same for every terminal of a user, with or without a login session.
    """
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and base.startswith("/") and Path(base).is_dir():
        return Path(base) / "ork"
    return Path(f"/tmp/ork-{os.getuid()}")
