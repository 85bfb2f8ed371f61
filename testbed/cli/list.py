"""`testbed list [WHAT...]`: what can be named in a spec, one line each; with `--json` every constant too."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from testbed.errors import UsageError
from testbed.suggest import closest

if TYPE_CHECKING:
    from testbed.spec.keys import Keys

Entries = list[dict[str, Any]]


def register(app: typer.Typer) -> None:
    app.command("list", help=f"What can be named in a spec: {', '.join(REGISTRIES)}.")(show)


def show(
    what: Annotated[list[str] | None, typer.Argument(metavar="WHAT", help="Some of these; default: all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With every constant: default, unit, source.")] = False,
) -> None:
    names = [name for words in what or REGISTRIES for name in words.split(",") if name]
    for name in names:
        if name not in REGISTRIES:
            near = closest(name, REGISTRIES)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(REGISTRIES)}"
            raise UsageError(f"there is no list of {name!r}", hint=hint)
    found = {name: REGISTRIES[name]() for name in names}
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    width = max((len(entry["name"]) for entries in found.values() for entry in entries), default=0)
    for name, entries in found.items():
        if len(found) > 1:
            typer.echo(f"{name}:" if entries else f"{name}: none yet")
        for entry in entries:
            typer.echo(f"{'  ' if len(found) > 1 else ''}{entry['name']:{width}}  {entry['summary']}")


def _topologies() -> Entries:
    from testbed.topology import TOPOLOGIES

    return [
        {"name": name, "summary": one.summary, "parameters": _named(one.parameters)} for name, one in TOPOLOGIES.items()
    ]


def _collectives() -> Entries:
    from testbed.collective import DEFAULTS, algorithms_for

    return [
        {"name": name, "summary": f"by {', '.join(algorithms_for(name))}", "algorithms": list(algorithms_for(name))}
        for name in DEFAULTS
    ]


def _algorithms() -> Entries:
    from testbed.collective import ALGORITHMS, IN_NETWORK, IN_NETWORK_DOC

    scheduled = [
        {
            "name": name,
            "summary": f"{one.doc} ({', '.join(one.collectives)})",
            "collectives": list(one.collectives),
            "parameters": [p.as_json() for p in one.parameters],
        }
        for name, one in ALGORITHMS.items()
    ]
    alone = {"name": IN_NETWORK, "summary": IN_NETWORK_DOC, "collectives": ["allreduce"], "parameters": []}
    return [*scheduled, alone]


def _transports() -> Entries:
    from testbed.transport import TRANSPORTS
    from testbed.transport.state import state_bytes

    return [
        {
            "name": name,
            "summary": one.summary,
            "parameters": [p.as_json() for p in one.parameters],
            "state_bytes": state_bytes(name, {p.name: p.default for p in one.parameters}),
        }
        for name, one in TRANSPORTS.items()
    ]


def _congestion() -> Entries:
    from testbed.transport.congestion import CONGESTIONS

    return [
        {"name": name, "summary": one.summary, "parameters": [p.as_json() for p in one.parameters]}
        for name, one in CONGESTIONS.items()
    ]


def _gradients() -> Entries:
    from testbed.training import GRADIENTS

    return [*_named(GRADIENTS), {"name": "FILE.npy, FILE.npz", "summary": "arrays of one's own, one a layer"}]


def _faults() -> Entries:
    from testbed.spec.network_checks import FAULTS

    return _kinds(FAULTS)


def _traffic() -> Entries:
    from testbed.spec.traffic_checks import TRAFFIC

    return _kinds(TRAFFIC)


def _sizes() -> Entries:
    from testbed.stress.sizes import SIZES

    return [
        *({"name": name, "summary": summary, "points": sizes.points} for name, (summary, sizes) in SIZES.items()),
        {"name": "FILE.txt, FILE.csv, FILE.cdf", "summary": "lines of bytes and the share of flows up to that"},
        {"name": "64KiB", "summary": "all flows are of one size"},
    ]


def _environments() -> Entries:
    from testbed.spec.environment_checks import MECHANISMS

    return _named(MECHANISMS)


def _programs() -> Entries:
    from testbed.resources import shared_folder

    found = sorted(shared_folder("p4").glob("*.p4"))
    return _named({path.stem: path.read_text(encoding="utf-8").partition("\n")[0].lstrip("/ ") for path in found})


def _codecs() -> Entries:
    from testbed.codec import CODECS, NONE

    coded = [
        {"name": name, "summary": one.summary, "parameters": [p.as_json() for p in one.parameters]}
        for name, one in CODECS.items()
    ]
    return [{"name": NONE, "summary": "gradients move as they are", "parameters": []}, *coded]


REGISTRIES: Mapping[str, Callable[[], Entries]] = {
    "topologies": _topologies,
    "collectives": _collectives,
    "algorithms": _algorithms,
    "transports": _transports,
    "congestion": _congestion,
    "gradients": _gradients,
    "traffic": _traffic,
    "sizes": _sizes,
    "environments": _environments,
    "faults": _faults,
    "codecs": _codecs,
    "programs": _programs,
}


def _named(summaries: Mapping[str, str]) -> Entries:
    return [{"name": name, "summary": summary} for name, summary in summaries.items()]


def _kinds(kinds: "Mapping[str, Keys]") -> Entries:
    def takes(keys: "Keys") -> str:
        parts = ("; needs ", keys.needs), (" and one of ", keys.one_of), ("; may have ", keys.may)
        return "".join(f"{words}{', '.join(names)}" for words, names in parts if names)

    return [{"name": kind, "summary": keys.summary + takes(keys)} for kind, keys in kinds.items()]
