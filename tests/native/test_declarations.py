"""What is declared is defined, what is public is there, and what the check must not be fooled by."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from tests.native.declarations import (
    PACKAGE,
    SOURCES,
    _promised_and_missing,
    borrowed_headers,
    functions,
    main,
    nameless,
    undefined,
)


def test_every_declared_kernel_is_defined_and_every_public_name_is_there() -> None:
    declared = set().union(*(functions(path.read_text())[0] for path in SOURCES.rglob("*.h")))
    assert len(declared) > 30
    assert undefined(SOURCES) == [] and borrowed_headers(SOURCES) == [] and nameless(PACKAGE) == []


@pytest.mark.parametrize("name", ["dispatch.c", "pool.c", "hot_path.c"])
def test_a_definition_that_is_taken_away_is_missed(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "src"
    shutil.copytree(SOURCES, folder)
    assert main([str(folder)]) == 0
    (folder / name).unlink()
    assert undefined(folder) and main([str(folder)]) == 1


@pytest.mark.parametrize(
    ("text", "declared", "defined"),
    [
        ("int f(int a);\nint g(int a) { return f(a); }\n", {"f"}, {"g"}),
        ("typedef void (*step)(int);\ntypedef int number(int);\n", set(), set()),
        ('/* int old(int a); */\n// int older(void);\nconst char *t = "int x(void);";\n', set(), set()),
        ("#define CALL(x) \\\n  int made(x);\nstatic inline int h(void)\n{ return 1; }\n", set(), {"h"}),
        ("STRIP(ork_strip_neon, , dot)\nvoid f(void) { CHECK(a, b); }\n", set(), {"ork_strip_neon", "f"}),
        ("void run(void) {\n    f(1);\n    return g(2);\n}\n", set(), {"run"}),
        ("const ork_kernels *ork_chosen_kernels(void);\n", {"ork_chosen_kernels"}, set()),
    ],
    ids=["plain", "types", "comments", "macros", "made", "calls", "pointers"],
)
def test_what_looks_like_a_declaration_and_is_none(text: str, declared: set[str], defined: set[str]) -> None:
    assert functions(text) == (declared, defined)


def test_folders_below_and_cpp_sources_count(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    (tmp_path / "deep").mkdir()
    (tmp_path / "api" / "a.h").write_text("int there(void);\nint gone(void);\n")
    (tmp_path / "deep" / "a.cpp").write_text("int there(void) { return 1; }\n")
    assert undefined(tmp_path) == ["a.h: gone is defined nowhere"]


def test_private_headers_stay_in_their_folder(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    (tmp_path / "own.h").write_text("")
    (tmp_path / "api" / "a.h").write_text('#include "own.h"\n')
    (tmp_path / "b.c").write_text('#include "own.h"\n#include "../secret.h"\n#include <stdio.h>\n')
    assert borrowed_headers(tmp_path) == [
        "a.h: a public header includes own.h",
        "b.c: ../secret.h is not a header of this folder",
    ]


def test_a_public_name_without_a_thing_is_found() -> None:
    tree = ast.parse('__all__ = ["there", "gone", "taken"]\nfrom x import taken\ndef there(): ...\n')
    assert _promised_and_missing(tree) == {"gone"}
