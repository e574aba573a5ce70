"""Finds functions that are declared and defined nowhere, headers that are private elsewhere, and public names without a thing.

``python -m tests.native.declarations [FOLDER]`` prints what is wrong and ends with 1 when anything is.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "orkbench_tui"
SOURCES = PACKAGE / "native" / "src"
_SUFFIXES = (".c", ".cc", ".cpp", ".h", ".hpp")

_NOISE = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|^[ \t]*#(?:[^\n\\]|\\.)*(?:\\\n[^\n]*)*", re.S | re.M
)
_FUNCTION = re.compile(
    r"^(?P<head>[A-Za-z_][\w \t*]*?[ \t*])(?P<name>[A-Za-z_]\w*)\s*\((?P<args>[^(){};]*)\)\s*"
    r"(?:__attribute__\s*\(\(.*?\)\)\s*)?(?P<end>[;{])",
    re.M,
)
_MADE_BY_MACRO = re.compile(r"^[A-Z][A-Z0-9_]+\((\w+),[^;\n]*\)[ \t]*$", re.M)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)
_WORDS = {"return", "else", "typedef", "case", "goto", "sizeof"}


def functions(text: str) -> tuple[set[str], set[str]]:
    """(declared, defined) names of a C text.

    Four things look like a declaration and are none: a function pointer's type, a call, what stands in a comment or a
    string, and a function with its body in a header, which is a definition. So is a macro's first argument, where
    the macro stands by itself.
    """
    plain = _NOISE.sub(" ", text)
    declared, defined = set(), set(_MADE_BY_MACRO.findall(plain))
    for found in _FUNCTION.finditer(plain):
        words = set(re.findall(r"\w+", found["head"]))
        if words & _WORDS or not words:
            continue
        (defined if found["end"] == "{" else declared).add(found["name"])
    return declared, defined


def undefined(folder: Path) -> list[str]:
    """Functions some header declares and no source defines; the whole tree below counts."""
    declared: dict[str, Path] = {}
    defined: set[str] = set()
    for path in sorted(folder.rglob("*")):
        if path.suffix in _SUFFIXES:
            here, made = functions(path.read_text(encoding="utf-8"))
            defined |= made
            if path.suffix.startswith(".h"):
                declared |= dict.fromkeys(here, path)
    return [
        f"{path.name}: {name} is defined nowhere" for name, path in declared.items() if name not in defined
    ]


def borrowed_headers(folder: Path) -> list[str]:
    """Public headers (``api``) that include others, and headers taken from outside the folder."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.suffix not in _SUFFIXES:
            continue
        for name in _INCLUDE.findall(path.read_text(encoding="utf-8")):
            if path.parent.name == "api":
                found.append(f"{path.name}: a public header includes {name}")
            elif (
                not (folder / name).resolve().is_relative_to(folder.resolve())
                or not (folder / name).is_file()
            ):
                found.append(f"{path.name}: {name} is not a header of this folder")
    return found


def nameless(package: Path) -> list[str]:
    """Names in ``__all__`` that their module does not bind."""
    return [
        f"{path.relative_to(package)}: {name} is not there"
        for path in sorted(package.rglob("*.py"))
        for name in sorted(_promised_and_missing(ast.parse(path.read_text(encoding="utf-8"))))
    ]


def _promised_and_missing(tree: ast.Module) -> set[str]:
    bound: set[str] = set()
    promised: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
        ):
            promised |= {value.value for value in ast.walk(node.value) if isinstance(value, ast.Constant)}
    return {str(name) for name in promised} - bound


def main(words: list[str]) -> int:
    folder = Path(words[0]) if words else SOURCES
    wrong = [*undefined(folder), *borrowed_headers(folder)]
    if not words:
        wrong += nameless(PACKAGE)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
