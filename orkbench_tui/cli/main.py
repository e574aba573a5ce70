"""``ork``: the command line. Words are parsed here and handed on; sub-commands load when used."""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import signal
import sys
import threading
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from orkbench_tui.cli import diagnostics, streams
from orkbench_tui.errors import ExitCode
from orkbench_tui.version import VERSION

# name -> (module with a Typer ``app`` or a ``command`` function, one-line help)
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("orkbench_tui.cli.run", "Run a model: chat, complete, serve, explain, bench, ppl."),
    "model": ("orkbench_tui.cli.model", "Get, list and inspect model files."),
    "pack": ("orkbench_tui.cli.pack", "Make weight packs, look into them, check and compare them."),
    "npu": ("orkbench_tui.cli.npu", "Look at the NPU and run matmuls on it."),
    "board": ("orkbench_tui.cli.board", "Watch and check the board."),
    "kernel": ("orkbench_tui.cli.kernel", "Kernels of the board: install for a trial, keep, go back."),
    "sim": ("orkbench_tui.cli.sim", "Start, stop and inspect the simulated board."),
    "config": ("orkbench_tui.cli.config", "Show settings and where they come from."),
    "demo": ("orkbench_tui.cli.demo", "A tour without questions: one status page, one short answer."),
}


# Typer carries its own copy of click from 0.28 on; its public exceptions lead to the right base classes.
_ClickException: type[Exception] = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
)
_UsageError: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "UsageError")


class _LazyGroup(TyperGroup):
    """A group that imports a sub-command only when it runs, so that ``ork --help`` stays cheap."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = typer.main.get_command(importlib.import_module(entry[0]).app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_text) for name, (_, help_text) in COMMANDS.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name and name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            ctx.fail(
                f"no command {name!r}" + (f"; did you mean {near[0]!r}?" if near else "; see ork --help")
            )
        return super().resolve_command(ctx, args)


_app = typer.Typer(
    cls=_LazyGroup,
    rich_markup_mode=None,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 1 failed, 2 usage, 3 no device, 4 denied, 5 busy, 6 unhealthy, 7 refused, 8 rolled back, 9 inconsistent, "
    "10 alert, 11 unreachable, 12 no memory, 130 interrupted. The live screens are `ork-tui`.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"ork {VERSION}", flush=True)
        raise typer.Exit


@_app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Workbench for RK3588-class boards and the language models that run on their NPU."""
    if context.invoked_subcommand is None:
        print(context.get_help(), flush=True)
        raise typer.Exit(ExitCode.USAGE)


def run(arguments: list[str] | None = None, *, app: typer.Typer = _app, prog: str = "ork") -> int:
    """Run ``ork`` (or another of our programs) with the given words and return the exit code."""
    status: int = ExitCode.OK
    try:
        status = _run(arguments, app, prog)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and not _reader_gone(error):
            if said := _SIGNALS.get(error.code):
                diagnostics.note(said)
            raise
        _drop_output()
        return ExitCode.OK
    except OSError as error:
        _drop_output()
        # A failure that was told already may have been this very one.
        return status or diagnostics.report(error)
    return status


def _run(arguments: list[str] | None, app: typer.Typer, prog: str) -> int:
    try:
        result = typer.main.get_command(app).main(args=arguments, prog_name=prog, standalone_mode=False)
    except typer.Exit as error:
        return error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return diagnostics.report(KeyboardInterrupt())
    except BrokenPipeError:
        raise
    except _ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), flush=True)  # type: ignore[attr-defined]
            return ExitCode.USAGE
        diagnostics.note(f"error: {error.format_message()}")  # type: ignore[attr-defined]
        return ExitCode.USAGE if isinstance(error, _UsageError) else ExitCode.FAILED
    except Exception as error:  # noqa: BLE001 - the last place that can turn a failure into one line
        return diagnostics.report(error)
    if result == ExitCode.INTERRUPTED:
        # Typer makes an exit code of Ctrl-C and says nothing.
        return diagnostics.report(KeyboardInterrupt())
    return result if isinstance(result, int) else ExitCode.OK


def _reader_gone(error: SystemExit) -> bool:
    """Typer turns a closed pipe into an exit of its own."""
    cause = error.__context__
    return isinstance(cause, OSError) and cause.errno == errno.EPIPE


def _drop_output() -> None:
    """Output nobody can take: the interpreter would try to write it once more at its end."""
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115


_SIGNALS: dict[object, str] = {
    ExitCode.TERMINATED.value: "terminated",
    ExitCode.HANGUP.value: "ended: the terminal hung up",
}


# Ending takes the time of the jobs that run; of simulated ones no longer than this.
_GRACE_S = 1.0


def _terminated(number: int, frame: object) -> None:
    grace = threading.Timer(_GRACE_S, _leave_simulator)
    grace.daemon = True
    grace.start()
    raise SystemExit(128 + number)


def _leave_simulator() -> None:
    if target := sys.modules.get("orkbench_tui.target"):
        target.leave_simulator()


def main() -> None:
    streams.prepare()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Under nohup a hang-up is ignored, and stays so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _terminated)
    sys.exit(run())


if __name__ == "__main__":
    main()
