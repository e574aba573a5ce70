"""A program that stands for ssh on PATH: what it prints and how it ends is told by a file for each host."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

_PROGRAM = """#!{python}
import json, os, sys, time
place = {folder!r}
words = sys.argv[1:]
with open(os.path.join(place, "called"), "a") as out:
    out.write(json.dumps(words) + "\\n")
host = words[words.index("--") - 1]
with open(os.path.join(place, host.replace("/", "_") + ".json")) as file:
    steps = json.load(file)
for kind, value in steps:
    if kind == "out":
        os.write(1, value.encode())
    elif kind == "err":
        os.write(2, value.encode())
    elif kind == "sleep":
        time.sleep(value)
    elif kind == "exit":
        sys.exit(value)
"""


class FakeSsh:
    """``folder`` goes first on PATH. ``answers`` sets what a host does when it is called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "ssh"
        program.write_text(_PROGRAM.format(python=sys.executable, folder=str(folder)))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def answers(self, host: str, *steps: tuple[str, str | float]) -> None:
        path = self.folder / f"{host.replace('/', '_')}.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(steps))
        fresh.replace(path)

    @property
    def path(self) -> str:
        return f"{self.folder}:{os.environ['PATH']}"

    def calls(self) -> list[list[str]]:
        called = self.folder / "called"
        return [json.loads(line) for line in called.read_text().splitlines()] if called.exists() else []
