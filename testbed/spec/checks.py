"""What must hold of a spec as a whole, and that its expectations can be judged."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from testbed.spec.engine_checks import check_engine
from testbed.spec.environment_checks import check_environment
from testbed.spec.errors import listed
from testbed.spec.findings import Findings
from testbed.spec.job_checks import check_jobs
from testbed.spec.message_checks import check_messages
from testbed.spec.model import MOST_DILATION, Spec
from testbed.spec.network_checks import check_network, network
from testbed.spec.sum_checks import check_sums
from testbed.spec.switch_checks import check_switches
from testbed.spec.tail_checks import check_tails
from testbed.spec.traffic_checks import check_traffic
from testbed.spec.words import branches
from testbed.suggest import closest
from testbed.units import format_duration, shown

_LEAST_WALL_NS = 10**9  # setting a network up takes longer
_LEAST_STALL_NS = 10**6
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check(spec: Spec, findings: Findings) -> None:
    """Report all that is wrong with `spec`, which was read from the tree of `findings`."""
    net = network(spec, findings)
    _check_names(spec, findings)
    _check_limits(spec, findings)
    check_jobs(net)
    check_network(net)
    check_traffic(net)
    check_environment(net)
    check_switches(net)
    check_sums(net)
    check_tails(net)
    check_engine(net)
    check_messages(net)


def check_expectations(spec: Spec, sweep: Sequence[Mapping[str, Any]], findings: Findings) -> None:
    """Report what is wrong with `expect`; `sweep` are the points' values (none: there is no sweep)."""
    if not spec.expect:
        return
    from testbed.results.model import JobResult, Result  # only here: making these models takes a while

    expect, jobs = spec.expect, list(spec.jobs or ())
    metrics = dict(_leaves(Result))
    metrics |= {f"jobs.{name}.{path}": leaf for name in jobs for path, leaf in _leaves(JobResult)}
    for index, one in enumerate(expect):
        path = ("expect", index)
        parent = one.metric.rpartition(".")[0]
        if metrics.get(parent) == dict[str, int]:  # whose names are not known before it has run
            metrics[one.metric] = int
        if one.metric not in metrics:
            first = f"jobs.{jobs[0]}." if jobs else ""
            message = f"result.json has no {one.metric!r}, but e.g. {first}cct_ns.p50, {first}busbw_bps.ring, wrong"
            findings.add((*path, "metric"), message, closest(one.metric, metrics))
        elif not {int, float} & set(branches(metrics[one.metric])):
            for key, given in (("at_most", one.at_most), ("at_least", one.at_least), ("to", one.to)):
                if given is not None:
                    message = f"needs a metric that is a number, and {one.metric} is none: only `equals` goes with it"
                    findings.add((*path, key), message, at_key=True)
        bounds = {"at_most": one.at_most, "at_least": one.at_least, "equals": one.equals}
        if all(bound is None for bound in bounds.values()):
            findings.add(path, "expects nothing: give at_most, at_least or equals")
        if one.at_most is not None and one.at_least is not None and one.at_least > one.at_most:
            findings.add((*path, "at_least"), "is more than at_most")
        for key, point in (("of", one.of), ("to", one.to)):
            if point is not None:
                _check_point((*path, key), point, sweep, findings)


def _check_point(
    path: tuple[str | int, ...], point: Mapping[str, Any], sweep: Sequence[Mapping[str, Any]], findings: Findings
) -> None:
    swept = list(dict.fromkeys(key for values in sweep for key in values))
    known = True
    for key, value in point.items():
        values = [row[key] for row in sweep if key in row]
        if key not in swept:
            what = f"the sweep has {listed(swept)}" if swept else "there is no sweep"
            findings.add((*path, key), f"is not swept: {what}", closest(key, swept), at_key=True)
            known = False
        elif value not in values:
            texts = list(dict.fromkeys(str(v) for v in values))
            message = f"{shown(value)} is not among its values in the sweep: {listed(texts)}"
            findings.add((*path, key), message, closest(value, texts) if isinstance(value, str) else "")
            known = False
    if known and point and not any(all(values.get(k) == v for k, v in point.items()) for values in sweep):
        findings.add(path, "no point of the sweep has all of these values")


def _leaves(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The paths of a result that lead to one value."""
    for name, field in model.model_fields.items():
        if name == "jobs":
            continue
        path = prefix + (field.alias or name)
        parts = [b for b in branches(field.annotation) if isinstance(b, type) and issubclass(b, BaseModel)]
        if parts:
            yield from _leaves(parts[0], path + ".")
        else:
            yield path, field.annotation


def _check_names(spec: Spec, findings: Findings) -> None:
    if not _SAFE_NAME.fullmatch(spec.name) and not findings.set_aside("name"):
        safe = re.sub(r"[^A-Za-z0-9._-]+", "-", spec.name).strip("-._")[:100]
        message = f"{shown(spec.name)} names a folder: letters, digits, dots, dashes, underscores; at most 100"
        findings.add(("name",), message, safe)


def _check_limits(spec: Spec, findings: Findings) -> None:
    for key, limit_ns, least_ns, why in (
        ("wall", spec.limits.wall_ns, _LEAST_WALL_NS, "the run would end before it begins"),
        ("stall", spec.limits.stall_ns, _LEAST_STALL_NS, "every wait would be a stall"),
    ):
        if limit_ns < least_ns:
            least, given = format_duration(least_ns), format_duration(limit_ns) if limit_ns else "0"
            findings.add(("limits", key), f"is {given} and must be at least {least}: {why}", least)
    if spec.time_dilation != "auto" and spec.time_dilation < 1:
        message = f"is {spec.time_dilation} and must be at least 1: it makes the network slower, never faster"
        findings.add(("time_dilation",), message, "auto")
    elif spec.time_dilation != "auto" and spec.time_dilation > MOST_DILATION:
        findings.add(("time_dilation",), f"must be at most {MOST_DILATION}: a second would take 12 days", "auto")
    if not 0 <= spec.seed < 2**63:
        findings.add(("seed",), f"is {spec.seed} and must be from 0 to 2^63 - 1")
