"""The controller's modules, its messages as Open vSwitch's own tools read them, and a plan of two switches."""

import json
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).parents[2] / "controller"


@cache
def module(name: str) -> ModuleType:
    """A module of the controller, as its runner finds it."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return import_module(name)


class Datapath:
    """As much of a connected switch as messages are made from."""

    def __init__(self) -> None:
        from os_ken.ofproto import ofproto_v1_3, ofproto_v1_3_parser

        self.ofproto = ofproto_v1_3
        self.ofproto_parser = ofproto_v1_3_parser


def entry(prefix: str, kind: str, *ports: int) -> Any:
    return module("routes").Entry(prefix, kind, ports)


def printed(message: Any) -> str:
    """A message in the words of `ovs-ofctl`, which reads it from the bytes that would go to the switch."""
    message.set_xid(1)
    message.serialize()
    octets = bytes(message.buf).hex(" ")
    done = subprocess.run(
        ["ovs-ofctl", "ofp-print", "-"], input=octets, capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.partition("(xid=0x1):")[2].strip().replace(" out_port:0", "")  # which only a deletion looks at


def plan_json() -> dict[str, Any]:
    """Switches s0 and s1 with four cables between them (0 to 3, ports 1 to 4 at both), a host at s1's port 5."""
    cables = [
        {"index": 2 * n + way, "source": f"s{way}", "source_port": n + 1, "target": f"s{1 - way}", "target_port": n + 1}
        for n in range(4)
        for way in (0, 1)
    ]
    host = {"index": 8, "source": "h0", "source_port": 0, "target": "s1", "target_port": 5}
    back = {"index": 9, "source": "s1", "source_port": 5, "target": "h0", "target_port": 0}
    there = {"prefix": "10.0.1.0/24", "kind": "ecmp", "ports": [1, 2, 3, 4]}
    plan = {
        "switches": {
            "s0": {
                "dpid": 1,
                "salt": 77,
                "entries": [there, {"prefix": "10.0.0.9/32", "kind": "single", "ports": [9]}],
            },
            "s1": {"dpid": 2, "salt": 78, "entries": [{"prefix": "10.0.1.1/32", "kind": "single", "ports": [5]}]},
        },
        "alternates": [
            *(
                {"cables": [n], "entries": {"s0": [{**there, "ports": [p for p in (1, 2, 3, 4) if p != n + 1]}]}}
                for n in range(4)
            ),
            {
                "cables": [0, 1],
                "entries": {"s0": [{**there, "ports": [3]}, {"prefix": "10.0.2.0/24", "kind": "single", "ports": []}]},
            },
        ],
        "graph": {"links": [*cables, host, back]},
    }
    return json.loads(json.dumps(plan))
