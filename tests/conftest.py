"""Every test gets its own home: no test reads or writes the user's folders, simulator or lock.

Only the default model is shared: it is pulled once, by the product's own command, into the user's
cache, and linked into the homes of the tests that ask for it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orkbench_tui import locations

# A shell that starts the suite in the background has it ignore Ctrl-C, and programs under test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

_XDG = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")
_USER_ENVIRONMENT = dict(os.environ)
_USER_MODELS = locations.models_dir()


def ork(*words: str, timeout: float = 120, **options: object) -> subprocess.CompletedProcess[str]:
    """Run ``ork`` in a process of its own and return what it said."""
    return subprocess.run(
        [sys.executable, "-m", "orkbench_tui.cli.main", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,  # type: ignore[call-overload]
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long seeded runs only where they are asked for: ``pytest -m soak``."""
    if "soak" in config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("soak")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


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
        ork("sim", "stop")


@pytest.fixture(scope="session")
def default_model() -> Path:
    """The default model file, pulled by ``ork model pull`` when the user's cache does not have it."""
    pull = ork("model", "pull", timeout=1200, env=_USER_ENVIRONMENT)
    assert pull.returncode == 0, pull.stderr
    return next(_USER_MODELS.glob("SmolLM2-135M-Instruct.Q4_1.gguf"))


@pytest.fixture(scope="session")
def shared_packs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of weight packs for the whole run: packing the model takes seconds."""
    return tmp_path_factory.mktemp("packs")


@pytest.fixture
def home_with_model(own_home: Path, default_model: Path, shared_packs: Path) -> Path:
    """A home whose cache holds the default model and the run's packs."""
    locations.models_dir().mkdir(parents=True)
    (locations.models_dir() / default_model.name).symlink_to(default_model)
    locations.packs_dir().symlink_to(shared_packs)
    return own_home
