"""A plan as JSON (`plan.json`) and back, without loss.

Link parameters, which most links share, are listed once in `link_parameters`; a link names them by their place there.
A job's own part of the spec stands there. All else stands as in `testbed.plan.model`, by the same names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from testbed.errors import UsageError
from testbed.plan.model import (
    Address,
    Aggregation,
    Alternate,
    Bmv2Switch,
    Buffer,
    Child,
    Entry,
    JobPlan,
    NativeSwitch,
    Pfc,
    Plan,
    Prediction,
    Summing,
    SumServer,
    Switching,
    SwitchPlan,
)
from testbed.spec.model import Spec
from testbed.topology.graph import Ecn, Graph, Link, LinkParameters, Loss, Node
from testbed.units import Quantity

SCHEMA = 1
_UNITS = ("_ns", "_bytes", "_bps")


def to_json(plan: Plan) -> dict[str, Any]:
    """Only dicts, lists, strings, numbers and None."""
    parameters = list(dict.fromkeys(link.parameters for link in plan.graph.links))
    place = {each: i for i, each in enumerate(parameters)}
    return {
        "schema": SCHEMA,
        "spec": plan.spec.model_dump(mode="json"),
        "graph": {
            "kind": plan.graph.kind,
            "nodes": [asdict(node) for node in plan.graph.nodes.values()],
            "link_parameters": [asdict(each) for each in parameters],
            "links": [
                {
                    "index": link.index,
                    "source": link.source,
                    "source_port": link.source_port,
                    "target": link.target,
                    "target_port": link.target_port,
                    "parameters": place[link.parameters],
                }
                for link in plan.graph.links
            ],
        },
        "addresses": {host: asdict(address) for host, address in plan.addresses.items()},
        "switches": {
            name: {"dpid": switch.dpid, "salt": switch.salt, "entries": _entries(switch.entries)}
            for name, switch in plan.switches.items()
        },
        "alternates": [
            {
                "cables": list(alternate.cables),
                "entries": {name: _entries(entries) for name, entries in alternate.entries.items()},
            }
            for alternate in plan.alternates
        ],
        "placement": list(plan.placement),
        "jobs": [
            {
                "name": job.name,
                "seed": job.seed,
                "first": job.first,
                "placement": list(job.placement),
                "prediction": asdict(job.prediction),
                "aggregation": asdict(job.aggregation) if job.aggregation else None,
            }
            for job in plan.jobs
        ],
        "switching": {
            "kind": plan.switching.kind,
            "controller": plan.switching.controller,
            "native": {name: asdict(switch) for name, switch in plan.switching.native.items()},
            "bmv2": {name: asdict(switch) for name, switch in plan.switching.bmv2.items()},
        },
        "datapath": plan.datapath,
        "drivers": list(plan.drivers),
        "dilation": plan.dilation,
        "prediction": asdict(plan.prediction),
    }


def from_json(data: Mapping[str, Any]) -> Plan:
    """The plan that `to_json` wrote; raises UsageError for another schema."""
    if data.get("schema") != SCHEMA:
        raise UsageError(f"a plan of schema {data.get('schema')!r}", hint=f"this Testbed reads schema {SCHEMA}")
    spec = Spec.model_validate(_with_units(data["spec"]))
    return Plan(
        spec=spec,
        graph=_graph(data["graph"]),
        addresses={host: Address(**address) for host, address in data["addresses"].items()},
        switches={
            name: SwitchPlan(switch["dpid"], switch["salt"], _read_entries(switch["entries"]))
            for name, switch in data["switches"].items()
        },
        alternates=tuple(
            Alternate(
                tuple(alternate["cables"]),
                {name: _read_entries(entries) for name, entries in alternate["entries"].items()},
            )
            for alternate in data["alternates"]
        ),
        jobs=tuple(_job(job, spec) for job in data["jobs"]),
        switching=_switching(data["switching"]),
        datapath=data["datapath"],
        drivers=tuple(data["drivers"]),
        dilation=data["dilation"],
        prediction=Prediction(**data["prediction"]),
    )


def _entries(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    return [{"prefix": entry.prefix, "kind": entry.kind, "ports": list(entry.ports)} for entry in entries]


def _read_entries(entries: Iterable[Mapping[str, Any]]) -> tuple[Entry, ...]:
    return tuple(Entry(entry["prefix"], entry["kind"], tuple(entry["ports"])) for entry in entries)


def _job(data: Mapping[str, Any], spec: Spec) -> JobPlan:
    return JobPlan(
        name=data["name"],
        spec=spec.all_jobs[data["name"]],
        seed=data["seed"],
        first=data["first"],
        placement=tuple(data["placement"]),
        prediction=Prediction(**data["prediction"]),
        aggregation=aggregation(data["aggregation"]) if data["aggregation"] else None,
    )


def aggregation(data: Mapping[str, Any]) -> Aggregation:
    """A job's tree of sums, as `to_json` wrote it."""
    switches = {name: _summing(summing) for name, summing in data["switches"].items()}
    server = data["server"] and SumServer(**{**data["server"], "address": Address(**data["server"]["address"])})
    return Aggregation(**{**data, "switches": switches, "server": server})


def _summing(data: Mapping[str, Any]) -> Summing:
    children = tuple(Child(**{**child, "address": Address(**child["address"])}) for child in data["children"])
    return Summing(children, data["parent"], data["index"], Address(**data["address"]), data["shift"])


def _switching(data: Mapping[str, Any]) -> Switching:
    native = {name: _native(switch) for name, switch in data["native"].items()}
    bmv2 = {name: Bmv2Switch(**switch) for name, switch in data["bmv2"].items()}
    return Switching(data["kind"], data["controller"], native, bmv2)


def _native(data: Mapping[str, Any]) -> NativeSwitch:
    scheduler, buffer, pfc = data["scheduler"], data["buffer"], data["pfc"]
    return NativeSwitch(
        program=data["program"],
        scheduler=scheduler if scheduler == "strict" else tuple(scheduler),
        buffer=Buffer(**buffer) if buffer else None,
        pfc=Pfc(**{**pfc, "priorities": tuple(pfc["priorities"])}) if pfc else None,
        trim_bytes=data["trim_bytes"],
        entries=data["entries"],
    )


def _graph(data: Mapping[str, Any]) -> Graph:
    parameters = [_parameters(each) for each in data["link_parameters"]]
    links = [Link(**{**link, "parameters": parameters[link["parameters"]]}) for link in data["links"]]
    return Graph(data["kind"], {node["name"]: Node(**node) for node in data["nodes"]}, tuple(links))


def _parameters(data: Mapping[str, Any]) -> LinkParameters:
    ecn = Ecn(**data["ecn"]) if data["ecn"] else None
    loss = Loss(**data["loss"]) if data["loss"] else None
    return LinkParameters(**{**data, "ecn": ecn, "loss": loss})


def _with_units(value: Any, key: str = "") -> Any:
    """The spec's quantities, which the model refuses as bare numbers, marked as being in base units."""
    if isinstance(value, dict):
        return {name: _with_units(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_units(each, key) for each in value]
    return Quantity(value) if type(value) is int and key.endswith(_UNITS) else value
