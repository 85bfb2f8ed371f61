"""Which keys go with which kind of an entry that is of a kind: a fault, or background traffic."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from testbed.spec.document import Step
from testbed.spec.findings import Findings
from testbed.spec.model import FaultSpec, TrafficSpec


@dataclass(frozen=True, slots=True)
class Keys:
    """What a kind is, the keys that it needs, those of which it needs one, and those it may have besides."""

    summary: str
    needs: tuple[str, ...]
    one_of: tuple[str, ...] = ()
    may: tuple[str, ...] = ()

    @property
    def all(self) -> frozenset[str]:
        """Those, and `kind`."""
        return frozenset({"kind", *self.needs, *self.one_of, *self.may})


def given_keys(section: TrafficSpec | FaultSpec) -> set[str]:
    """The keys that were given, as YAML has them."""
    named = type(section).model_fields
    return {named[name].alias or name for name in section.model_fields_set}


def check_keys(
    findings: Findings,
    path: tuple[Step, ...],
    section: TrafficSpec | FaultSpec,
    kinds: Mapping[str, Keys],
    examples: Mapping[str, str],
) -> None:
    """Report the keys that its kind needs and that are missing, and those that do not go with it."""
    kind, given = section.kind, given_keys(section)
    keys = kinds[kind]
    for key in keys.needs:
        if key not in given:
            example = f", e.g. {key}: {examples[key]}" if key in examples else ""
            findings.add((*path, key), f"is missing: {kind} needs {_and(keys.needs)}{example}")
    whole = not findings.incomplete(findings.place(path)[0])
    if whole and keys.one_of and not given & set(keys.one_of):
        findings.add(path, f"{kind} needs one of {', '.join(keys.one_of)}")
    for key in sorted(given - keys.all):
        message = f"does not go with {kind}, which takes {_and(sorted(keys.all - {'kind'}))}"
        findings.add((*path, key), message, at_key=True)


def _and(words: Collection[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
