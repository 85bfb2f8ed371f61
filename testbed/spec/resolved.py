"""A spec written out: every key with the value used and its unit, as YAML that reads back to an equal Spec."""

from collections.abc import Mapping
from typing import Any

import yaml

from testbed.codec import written
from testbed.spec.model import COLLECTIVE_KEYS, Section, Spec, TrafficSpec, WorkloadSpec
from testbed.spec.traffic_checks import TRAFFIC
from testbed.units import format_bytes, format_duration, format_fine_duration, format_rate

_FORMATS = {"_ns": format_duration, "_ps": format_fine_duration, "_bytes": format_bytes, "_bps": format_rate}


def resolved_data(spec: Spec) -> dict[str, Any]:
    """The spec as plain data with YAML's keys; what is not set is left out."""
    return _section(spec)


def resolved_text(spec: Spec, transports: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """The resolved `spec.yaml`; `transports`: by job that section with every constant (`testbed.transport.written`)."""
    data = resolved_data(spec)
    for name, transport in (transports or {}).items():
        holder = data["jobs"][name] if name else data
        holder["transport"] = dict(transport)
    for name, job in spec.all_jobs.items():
        if job.workload is not None and (codec := job.workload.coded_by) is not None:
            (data["jobs"][name] if name else data)["workload"]["codec"] = written(codec)
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def _section(section: Section) -> dict[str, Any]:
    data = {}
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if value is None or value == ():
            continue
        unit = next((formatted for suffix, formatted in _FORMATS.items() if name.endswith(suffix)), None)
        data[field.alias or name] = unit(value) if unit else _plain(value)
    if isinstance(section, WorkloadSpec) and section.kind == "command":
        data = {key: value for key, value in data.items() if key not in COLLECTIVE_KEYS}
    if isinstance(section, TrafficSpec):
        data = {key: value for key, value in data.items() if key in TRAFFIC[section.kind].all}
    if isinstance(section, Spec) and section.jobs:
        del data["transport"]  # each job has its own
    return data | {key: _plain(value) for key, value in (section.model_extra or {}).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Section):
        return _section(value)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return value


class _Dumper(yaml.SafeDumper):
    """Without anchors: the same value twice is written twice."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True
