"""Figures of this machine: ``python -m tests.bench [part ...]``; all when none is named.

Every figure is ``host`` unless it says otherwise. Nothing here is asserted in the test suite.
"""

from __future__ import annotations

import importlib
import sys

PARTS = (
    "startup",
    "exact",
    "paths",
    "hot_path",
    "sim",
    "crash_points",
    "recover",
    "speed",
    "perplexity",
    "log_rate",
    "screens",
)

# Run only when named.
APART = ("peers",)


def main(words: list[str]) -> int:
    known = (*PARTS, *APART)
    unknown = [word for word in words if word not in known]
    if unknown:
        print(f"unknown part {unknown[0]!r}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    for part in words or PARTS:
        print(f"== {part}", flush=True)
        importlib.import_module(f"tests.bench.{part}").run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
