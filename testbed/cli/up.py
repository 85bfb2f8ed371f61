"""`testbed up SPEC`: the network of a spec alone, for one's own programs, until `testbed down`."""

import json
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("up")(up)


def up(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The experiment's YAML file.")],
    settings: Annotated[list[str] | None, typer.Option("-S", metavar="KEY=VALUE", help="Set a key.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the network as JSON.")] = False,
) -> None:
    """Bring the network of SPEC up and leave it up; `testbed exec HOST -- CMD` runs programs on its hosts."""
    from testbed.doctor.capacity import capabilities
    from testbed.emulation.keeper import bring_up
    from testbed.emulation.namespaces import host_name
    from testbed.plan import plan as make_plan
    from testbed.spec.reader import read_spec

    def say(stage: str) -> None:
        typer.echo(stage, err=True)

    plan = make_plan(read_spec(spec, settings or ()), capabilities(say))
    state, times = bring_up(plan)
    hosts = [
        {"host": host, "ip": address.ip, "mac": address.mac, "namespace": host_name(state.run_id, host)}
        for host, address in plan.addresses.items()
    ]
    if as_json:
        setup_s = round(times.total_s, 3)
        typer.echo(
            json.dumps(
                {"run_id": state.run_id, "time_dilation": plan.dilation, "setup_s": setup_s, "hosts": hosts}, indent=1
            )
        )
        return
    cables = len(plan.graph.links) // 2
    typer.echo(
        f"network {state.run_id} is up after {times.total_s:.1f} s: {len(hosts)} hosts, "
        f"{len(plan.graph.switches)} switches, {cables} links, time dilation {plan.dilation}"
    )
    width = max(len(entry["host"]) for entry in hosts)
    for entry in hosts:
        typer.echo(f"{entry['host']:<{width}}  {entry['ip']:<15}  {entry['mac']}  {entry['namespace']}")
    first, second = hosts[0], hosts[-1]
    typer.echo(f"try: testbed exec {first['host']} -- ping -c 3 {second['ip']}; and at the end: testbed down", err=True)
