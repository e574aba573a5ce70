"""``python -m orkbench_tui.sim``: the simulated board's process. Started by ``sim.lifecycle``."""

from __future__ import annotations

import argparse
import fcntl
import os
import resource
import signal
import sys
from pathlib import Path

from orkbench_tui.sim.board_variant import BoardVariant
from orkbench_tui.sim.boards.catalogue import BOARDS, DEFAULT_BOARD
from orkbench_tui.sim.clock import PACES
from orkbench_tui.sim.server import Server


def _more_file_descriptors() -> None:
    """Every buffer is one memfd: take what the hard limit allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m orkbench_tui.sim")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--pace", choices=PACES, default="fast")
    parser.add_argument("--idle-s", type=float, default=300.0)
    parser.add_argument("--sram", action="store_true")
    parser.add_argument("--patch-import-domain", action="store_true")
    parser.add_argument("--board", choices=BOARDS, default=DEFAULT_BOARD)
    parser.add_argument("--disk", type=Path)
    options = parser.parse_args()
    variant = BoardVariant(
        sram=options.sram, patch_import_domain=options.patch_import_domain, board=options.board
    )
    with options.socket.with_suffix(".pid").open("a+") as pid_file:
        try:
            fcntl.flock(pid_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another simulated board runs here already", flush=True)
            return 1
        pid_file.truncate(0)
        pid_file.write(f"{os.getpid()}\n")
        pid_file.flush()
        _more_file_descriptors()
        server = Server(
            options.socket, pace=options.pace, idle_s=options.idle_s, variant=variant, disk=options.disk
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: server.stop())
        print(f"simulated board: pid {os.getpid()}, {options.socket}", flush=True)
        server.serve()
        print("simulated board: stopped", flush=True)
        # Threads that wait for jobs would keep the interpreter; their clients see the socket close.
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
