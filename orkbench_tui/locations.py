"""Where our files live (XDG), one function per place. Nothing here creates a folder."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import PlatformDirs

_DIRS = PlatformDirs("ork", appauthor=False)


def config_file() -> Path:
    return Path(_DIRS.user_config_dir) / "config.toml"


def models_dir() -> Path:
    """Downloaded model files, and partial downloads beside them."""
    return Path(_DIRS.user_cache_dir) / "models"


def packs_dir() -> Path:
    """Weight packs made from models; safe to delete, they are made again."""
    return Path(_DIRS.user_cache_dir) / "packs"


def state_dir() -> Path:
    """Journals, chat history, recordings."""
    return Path(_DIRS.user_state_dir)


def chat_history_file() -> Path:
    """Questions asked in the chat, one JSON string a line; readable by its user alone."""
    return state_dir() / "chat_history.jsonl"


def runtime_dir() -> Path:
    """Sockets, locks and live publications; gone after a reboot.

    ``$XDG_RUNTIME_DIR/ork`` where a login session has one, else ``/tmp/ork-<uid>``: the fallback
    must be the same for every terminal of a user, with or without a login session.
    """
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and Path(base).is_dir():
        return Path(base) / "ork"
    return Path(f"/tmp/ork-{os.getuid()}")
