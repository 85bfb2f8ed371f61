"""What the contract names and this version has not built yet, or never can be: refused by name, never ignored.

A part that gets built takes its line out of these tables.
"""

from testbed.spec.document import Node, Step, without_job
from testbed.spec.findings import Findings

UNBUILT_KEYS = ("topology.multiport",)
NEVER_KEYS = {"faults.mtu": "cannot change while packets flow: an MTU is set under `links`"}
UNBUILT_VALUES: dict[str, tuple[str, ...]] = {
    "topology.kind": ("bcube", "dcell", "wdm-ring", "circuit", "ramp", "edge-cloud"),
    "workload.kind": ("training", "trace"),
    "workload.algorithm": ("trivance", "stragglar", "optree", "ramp", "coded-reduce"),
}  # fmt: skip


def refuse_unbuilt(findings: Findings) -> None:
    """Report and set aside what is not built yet; a section as a whole where its `kind` is."""
    _refuse(findings, findings.root, ())


def _refuse(findings: Findings, node: Node, path: tuple[Step, ...]) -> None:
    key = without_job(".".join(step for step in path if isinstance(step, str)))
    if key in UNBUILT_KEYS or key in NEVER_KEYS:
        findings.add(path, NEVER_KEYS.get(key, "is not supported yet"), at_key=True)
        findings.drop(path)
    elif isinstance(node.value, dict):
        for step, child in list(node.value.items()):
            _refuse(findings, child, (*path, step))
    elif isinstance(node.value, list):
        for index in reversed(range(len(node.value))):  # entries may go on the way
            _refuse(findings, node.value[index], (*path, index))
    elif node.value in UNBUILT_VALUES.get(key, ()) or node.value in UNBUILT_VALUES.get(key.removesuffix(".kind"), ()):
        findings.add(path, f"{node.value} is not supported yet")
        findings.drop(path[:-1] if path[-1] == "kind" else path)
