"""Every test gets its own home: no test reads or writes the user's folders, simulator or lock."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_XDG = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fresh home for the test; a simulator started in it is stopped at the end."""
    home = tmp_path_factory.mktemp("home")
    for variable in [name for name in os.environ if name.startswith("ORK_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(home))
    for name in _XDG:
        folder = home / name.lower()
        folder.mkdir(mode=0o700)
        monkeypatch.setenv(name, str(folder))
    yield home
    if (home / "xdg_runtime_dir" / "ork" / "sim").exists():
        subprocess.run(
            [sys.executable, "-m", "orkbench_tui.cli.main", "sim", "stop"], check=False, capture_output=True, timeout=60
        )
