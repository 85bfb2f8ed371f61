"""`testbed exec HOST -- CMD`: run a program on a host of a network that is up."""

import os
from typing import Annotated

import typer

from testbed.cli._networks import chosen
from testbed.errors import MachineLacks, RunFailed, UsageError


def register(app: typer.Typer) -> None:
    settings = {"allow_interspersed_args": False, "ignore_unknown_options": True}
    app.command("exec", context_settings=settings)(execute)


def execute(
    host: Annotated[str, typer.Argument(metavar="HOST", help="A host of the network, e.g. h0.")],
    command: Annotated[list[str], typer.Argument(metavar="-- CMD", help="The program and its arguments.")],
    run_id: Annotated[str | None, typer.Option("--run", metavar="ID", help="Which network, if several.")] = None,
) -> None:
    """Run CMD on HOST, with this terminal; the exit status is CMD's."""
    from testbed.emulation import namespaces
    from testbed.emulation.commands import environment
    from testbed.suggest import did_you_mean

    state = chosen(run_id, also_runs=True)
    prefix = namespaces.host_name(state.run_id, "")
    hosts = [name.removeprefix(prefix) for name in state.record.namespaces if name.startswith(prefix)]
    if host not in hosts:
        raise UsageError(f"network {state.run_id} has no host {host!r}", hint=did_you_mean(host, hosts))
    died = [name for name in state.died if name != "controller"]  # without it switches go on as they were told
    if died:
        raise RunFailed(
            f"network {state.run_id} is broken: {', '.join(died)} died", hint="`testbed down`, then `testbed up` anew"
        )
    if os.geteuid() != 0:
        raise MachineLacks("entering a host's network namespace needs root", hint="sudo testbed exec …")
    program = command[1:] if command[0] == "--" else command
    if not program:
        raise UsageError("run what?", hint=f"e.g. testbed exec {host} -- ip address")
    argv = namespaces.entering(namespaces.host_name(state.run_id, host), program)
    os.execvpe(argv[0], argv, environment())
