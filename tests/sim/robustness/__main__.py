"""Long seeded runs: ``python -m tests.sim.robustness fuzz|soak``."""

from __future__ import annotations

import argparse
import sys

from tests.sim.robustness import fuzz, soak


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.robustness")
    which = parser.add_subparsers(dest="which", required=True)
    fuzzing = which.add_parser("fuzz", help="mutated ioctl sequences and register programs")
    fuzzing.add_argument("--cases", type=int, default=100_000)
    fuzzing.add_argument("--seed", type=int, default=0)
    soaking = which.add_parser("soak", help="four clients at once")
    soaking.add_argument("--seconds", type=float, default=300.0)
    soaking.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    if options.which == "fuzz":
        print(fuzz.run(options.cases, options.seed, report=True))
        return 0
    found = soak.run(options.seconds, options.seed)
    print(found)
    return 0 if found.wrong == 0 and found.npu_bytes == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
