"""`testbed doctor`: what this machine has, lacks and can carry."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.console import console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from testbed.doctor.facts import Fact
    from testbed.plan.model import Capabilities, Carried


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("doctor")
    def doctor(
        as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
        again: Annotated[bool, typer.Option(help="Measure anew what this machine carries.")] = False,
    ) -> int:
        """What this machine has, lacks and can carry; exit status 3 if something needed is missing."""
        from testbed.doctor import load_capabilities
        from testbed.doctor.capacity import measure
        from testbed.doctor.facts import look
        from testbed.doctor.store import save_capabilities
        from testbed.errors import MachineLacks

        facts = look()
        missing = [fact for fact in facts if fact.needed and not fact.found]
        measured = None if again else load_capabilities()
        if measured is None and not missing:
            measured = measure()
            save_capabilities(measured)
        if as_json:
            print(
                json.dumps(
                    {"facts": [asdict(f) for f in facts], "capabilities": measured and asdict(measured)}, indent=1
                )
            )
        else:
            _print(facts, measured)
        return MachineLacks.exit_status if missing else 0


def _print(facts: "Sequence[Fact]", measured: "Capabilities | None") -> None:
    from rich.table import Table

    table = Table("", "what", "here", "what its lack costs", "what mends it", box=None, pad_edge=False)
    for fact in facts:
        mark = "ok" if fact.found else "NEEDED" if fact.needed else "-"
        lack = ("", "") if fact.found else (fact.cost, fact.mend)
        table.add_row(mark, fact.name, fact.detail, *lack)
    out = console()
    out.print(table)
    if measured is None:
        out.print("\nwhat it carries cannot be measured until the above is mended")
        return
    out.print("\nwhat it carries, measured over a shaped k=4 fat-tree, in real time:")
    out.print(_carried(measured))


def _carried(measured: "Capabilities") -> "Table":
    """A row for each kind of switch."""
    from rich.table import Table

    table = Table(
        "switches", "packet-hops/s", "late on arrival", "inside a switch", "links by", box=None, pad_edge=False
    )
    tc = measured.netem and measured.datapath == "kernel"
    links = "tc (impaired ones by the fabric)" if tc else "the fabric"
    ovs = measured.through("ovs")
    table.add_row(f"ovs, {measured.datapath} datapath", *_figures(ovs), f"{ovs.switch_ns / 1000:,.0f} us", links)
    if measured.native is not None:
        table.add_row("native", *_figures(measured.native), "no time", "the fabric")
    else:
        table.add_row("native", "no C compiler")
    if measured.bmv2 is not None:
        table.add_row("bmv2", *_figures(measured.bmv2), f"{measured.bmv2.switch_ns / 1000:,.0f} us", "the fabric")
    else:
        table.add_row("bmv2", "not installed")
    return table


def _figures(carried: "Carried") -> tuple[str, str]:
    return f"{carried.packet_hops_per_s:,.0f}", f"{carried.path_excess_ns / 1000:,.0f} us"
