"""The law of direction, and that cheap commands stay cheap."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_import_contracts_hold():
    run = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:]


@pytest.mark.parametrize(
    ("words", "forbidden"),
    [
        (
            ["--help"],
            {"numpy", "textual", "jinja2", "tokenizers", "gguf", "rich", "plotext", "sh", "psutil", "cffi"},
        ),
        (["run", "--help"], {"numpy", "textual", "jinja2", "tokenizers", "gguf", "plotext", "sh"}),
        (["board", "--help"], {"numpy", "textual", "jinja2", "tokenizers", "gguf", "plotext", "sh"}),
        (["sim", "--help"], {"numpy", "textual", "jinja2", "tokenizers", "gguf", "plotext", "sh"}),
        (["config", "show"], {"numpy", "textual", "jinja2", "tokenizers", "gguf", "plotext", "sh"}),
    ],
)
def test_a_command_imports_only_what_it_needs(words, forbidden):
    code = (
        "import sys\n"
        "from orkbench_tui.cli.main import run\n"
        f"status = run({words!r})\n"
        "print('\\n' + ' '.join(sys.modules), file=sys.stderr)\n"
        "sys.exit(status)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    loaded = {name.split(".")[0] for name in run.stderr.splitlines()[-1].split()}
    assert not loaded & forbidden
