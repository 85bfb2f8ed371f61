"""The command line: which verbs there are, and how every error becomes one message and an exit status.

A verb is a module `testbed.cli.<name>` with `register(app)`. Only the module of the verb that was asked for is
imported, so that `testbed --help` answers at once; what a verb needs from the rest of Testbed it imports itself.
"""

import importlib
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import NoReturn

import typer

from testbed import __version__
from testbed.errors import TestbedError, UsageError


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb, the module that registers it, and its line in the help."""

    name: str
    module: str
    summary: str


VERBS = (
    Verb("doctor", "doctor", "What this machine has, lacks and can carry."),
    Verb("validate", "validate", "Every mistake in a spec, with its place; touches nothing."),
    Verb("plan", "plan", "What would happen: network, routes, schedule, predicted load."),
    Verb("run", "run", "Run an experiment and print what it measured."),
    Verb("up", "up", "Bring up a spec's network alone, for your own programs."),
    Verb("exec", "exec", "Run a command on a host of the network that is up."),
    Verb("down", "down", "Take that network down."),
    Verb("report", "report", "One self-contained HTML page about runs."),
    Verb("compare", "compare", "Runs side by side, with ratios and their intervals."),
    Verb("list", "list", "What can be named in a spec."),
    Verb("schedule", "schedule", "A collective's schedule: its steps and its proof."),
    Verb("p4", "p4", "Compile switch programs and test them with packets."),
    Verb("status", "status", "What runs now."),
    Verb("clean", "clean", "Remove what dead runs left behind."),
)
NOT_BUILT = ("sweep", "trace", "remote")
_VERBOSITY = {"-q": "quiet", "--quiet": "quiet", "-v": "verbose", "--verbose": "verbose"}
_ClickException = typer.BadParameter.__mro__[2]  # click's own or the copy that newer typers bring


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (default: this process's) and exit with the status that the contract gives."""
    sys.exit(execute(list(sys.argv[1:] if arguments is None else arguments)))


def execute(arguments: list[str]) -> int:
    """Carry out a command line; its exit status. Errors go to stderr, as one message each."""
    try:
        app, arguments = _app(arguments)
        status = app(arguments, prog_name="testbed", standalone_mode=False)
        sys.stdout.flush()
    except TestbedError as error:
        return _told(error)
    except (KeyboardInterrupt, typer.Abort):
        print("testbed: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, e.g. `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if isinstance(error, _ClickException):
            return _misused(error)
        return _defect(error)
    return status if isinstance(status, int) else 0


def _app(arguments: list[str]) -> tuple[typer.Typer, list[str]]:
    """The application for a command line: with the one verb it names, or all of them by name only."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback(invoke_without_command=True)(_options)
    position = next((i for i, word in enumerate(arguments) if not word.startswith("-")), None)
    if position is None:
        for verb in VERBS:
            app.command(verb.name, help=verb.summary)(lambda: None)
        return app, arguments or ["--help"]
    name = arguments[position]
    if name in NOT_BUILT:
        raise UsageError(f"`testbed {name}` is not supported yet")
    module = next((verb.module for verb in VERBS if verb.name == name), None)
    if module is None:
        from testbed.suggest import closest

        near = closest(name, [verb.name for verb in VERBS])
        hint = f"did you mean `testbed {near}`?" if near else "`testbed --help` lists the verbs"
        raise UsageError(f"there is no verb {name!r}", hint=hint)
    importlib.import_module(f"testbed.cli.{module}").register(app)
    return app, with_verbosity(app, arguments[:position], name, arguments[position + 1 :])


def with_verbosity(app: typer.Typer, before: list[str], name: str, after: list[str]) -> list[str]:
    """The command line with -q and -v, wherever they stand, where they are understood: of `exec`, only before it."""
    plain = [] if name == "exec" else after[: after.index("--")] if "--" in after else after
    flags = [word for word in (*before, *plain) if word in _VERBOSITY]
    takes = {
        parameter for command in app.registered_commands for parameter in signature(command.callback or main).parameters
    }
    own = [flag for flag in flags if _VERBOSITY[flag] in takes]
    kept = [word for word in plain if word not in _VERBOSITY]
    return [*before, *(flag for flag in flags if flag not in before), name, *own, *kept, *after[len(plain) :]]


def _options(
    version: bool = typer.Option(False, "--version", help="Print the version."),
    quiet: bool = typer.Option(False, "-q", "--quiet", help="Only results and errors."),
    verbose: bool = typer.Option(False, "-v", "--verbose", help="Say more of what happens, on stderr."),
) -> None:
    """Measure how long a collective takes on a network, packet by packet, from one YAML spec."""
    if version:
        print(f"testbed {__version__}")
        raise typer.Exit
    level = logging.ERROR if quiet else logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(stream=sys.stderr, format="testbed: %(message)s", level=logging.WARNING)
    logging.getLogger("testbed").setLevel(level)
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it warns of a cache that it cannot keep


def _told(error: TestbedError) -> int:
    from testbed.spec.errors import SpecErrors  # light, and only needed here

    print(error.message if isinstance(error, SpecErrors) else f"testbed: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)
    return error.exit_status


def _misused(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "testbed"
    print(f"testbed: {error.format_message()}", file=sys.stderr)  # type: ignore[attr-defined]
    print(f"  `{command} --help` says how it is used", file=sys.stderr)
    return 2


def _defect(error: Exception) -> int:
    """An error that nobody foresaw: one line, and the traceback in a file for whoever mends it."""
    if os.environ.get("TESTBED_DEBUG") == "1":
        traceback.print_exception(error)
        return 1
    import tempfile  # only here: it takes a tenth of the start of whoever needs it not

    with tempfile.NamedTemporaryFile("w", prefix="testbed-", suffix=".log", delete=False) as log:
        traceback.print_exception(error, file=log)
    print(f"testbed: unexpected {type(error).__name__}: {error}", file=sys.stderr)
    whose = _own_code(error) or "a defect of Testbed"
    print(f"  {whose}; the details are in {log.name} (TESTBED_DEBUG=1 prints them)", file=sys.stderr)
    return 1


def _own_code(error: Exception) -> str | None:
    """Where in a `FILE.py:NAME` an error comes from, or whose class lacks what was asked of it; None: neither."""
    from testbed.plugins import MODULES

    for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
        if str(frame.f_globals.get("__name__")).startswith(MODULES):
            return f"it comes from {frame.f_code.co_filename}, line {line}, in {frame.f_code.co_name}"
    kind = type(getattr(error, "obj", None))
    if kind.__module__.startswith(MODULES):
        return f"{kind.__name__} is in {kind.__module__.removeprefix(MODULES)}.py"
    return None
