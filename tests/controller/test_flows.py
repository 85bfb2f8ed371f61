"""Entries as messages: what Open vSwitch's own tools read in the bytes that would go to a switch."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.controller.parts import FOLDER, Datapath, entry, module, printed

COOKIE = "cookie:0x7e57bed"


@pytest.fixture
def flows() -> Any:
    return module("flows")


@pytest.fixture
def nicira() -> Any:
    return module("nicira")


@pytest.fixture
def groups() -> Any:
    return module("groups")


def test_one_port(flows: Any) -> None:
    for kind in ("single", "ecmp", "spray"):
        message = flows.route(Datapath(), entry("10.0.1.7/32", kind, 3), [])
        assert printed(message) == f"ADD priority=132,ip,nw_dst=10.0.1.7 {COOKIE} actions=output:3"


def test_no_port_drops(flows: Any) -> None:
    message = flows.route(Datapath(), entry("10.0.1.0/24", "single"), [])
    assert printed(message) == f"ADD priority=124,ip,nw_dst=10.0.1.0/24 {COOKIE} actions=drop"


def test_several_ports_by_a_salted_hash_that_takes_udp_ports_in(flows: Any, nicira: Any) -> None:
    made = entry("10.1.0.0/16", "ecmp", 4, 5, 9)
    message = flows.route(Datapath(), made, nicira.choose(Datapath(), made, 0x1234, 6))
    assert printed(message) == (
        f"ADD priority=116,ip,nw_dst=10.1.0.0/16 {COOKIE} actions=load:0x6->NXM_NX_REG1[],"
        f"multipath(symmetric_l3l4+udp,{0x1234},modulo_n,3,0,NXM_NX_REG0[]),goto_table:1"
    )


def test_the_hash_s_outcome_chooses_among_the_ports(nicira: Any) -> None:
    messages = nicira.make_group(Datapath(), entry("10.1.0.0/16", "ecmp", 4, 5, 9), 6)
    assert [printed(message) for message in messages] == [
        f"ADD table:1 priority=100,reg0={index:#x},reg1=0x6 {COOKIE} actions=output:{port}".replace("0x0,", "0,")
        for index, port in enumerate((4, 5, 9))
    ]


def test_spraying_goes_by_the_low_bits_of_the_source_mac(flows: Any, nicira: Any) -> None:
    made = entry("10.1.0.0/16", "spray", 1, 2)
    assert printed(flows.route(Datapath(), made, nicira.choose(Datapath(), made, 77, 3))) == (
        f"ADD priority=116,ip,nw_dst=10.1.0.0/16 {COOKIE} actions=load:0x3->NXM_NX_REG1[],goto_table:1"
    )
    first = printed(nicira.make_group(Datapath(), made, 3)[1])
    assert (
        first
        == f"ADD table:1 priority=100,reg1=0x3,dl_src=00:00:00:00:00:01/00:00:00:00:00:0f {COOKIE} actions=output:2"
    )


@pytest.mark.parametrize("ports", [2, 3, 4, 5, 8, 16])
def test_sprayed_packets_are_spread_as_evenly_as_sixteen_values_can(ports: int, nicira: Any) -> None:
    made = entry("10.1.0.0/16", "spray", *range(1, ports + 1))
    messages = [printed(message) for message in nicira.make_group(Datapath(), made, 1)]
    values = {re.search(r"dl_src=00:00:00:00:00:(..)/00:00:00:00:00:0f", text)[1] for text in messages}  # type: ignore[index]
    assert values == {f"{value:02x}" for value in range(16)}
    shares = Counter(text.rpartition("output:")[2] for text in messages)
    assert set(shares) == {str(port) for port in range(1, ports + 1)}
    assert max(shares.values()) - min(shares.values()) <= 1


@pytest.mark.parametrize("kind", ["ecmp", "spray"])
def test_other_switches_get_a_group_with_a_bucket_for_each_port(kind: str, flows: Any, groups: Any) -> None:
    made = entry("10.1.0.0/16", kind, 4, 5, 9)
    message = flows.route(Datapath(), made, groups.choose(Datapath(), made, 77, 6))
    assert printed(message) == f"ADD priority=116,ip,nw_dst=10.1.0.0/16 {COOKIE} actions=group:6"
    (message,) = groups.make_group(Datapath(), made, 6)
    buckets = ",".join(f"bucket=actions=output:{port}" for port in (4, 5, 9))
    assert printed(message) == f"ADD group_id=6,type=select,{buckets}"
    assert printed(groups.remove(Datapath(), 6)) == "DEL group_id=6,type=select"


def test_an_entry_is_taken_away_by_itself(flows: Any) -> None:
    assert printed(flows.remove(Datapath(), entry("10.0.1.0/24", "ecmp", 1, 2))) == (
        "DEL_STRICT priority=124,ip,nw_dst=10.0.1.0/24 actions=drop"
    )


def test_what_matches_nothing_is_dropped_never_flooded(flows: Any) -> None:
    assert printed(flows.miss(Datapath())) == f"ADD priority=0 {COOKIE} actions=drop"


def test_a_set_of_ports_has_one_number_a_switch() -> None:
    switch = module("ecmp")._Switch("s0", Datapath())
    asked = [
        entry("10.1.0.0/16", "ecmp", 1, 2),
        entry("10.2.0.0/16", "ecmp", 1, 2),
        entry("10.3.0.0/16", "ecmp", 2, 3),
        entry("10.1.0.0/16", "spray", 1, 2),
        entry("10.4.0.0/16", "single", 1),
        entry("10.5.0.0/16", "single"),
        entry("10.6.0.0/16", "ecmp", 2, 3),
    ]
    assert [switch.group(each) for each in asked] == [
        *((1, True), (1, False), (2, True), (3, True)),
        *((0, False), (0, False), (2, False)),
    ]


# The API's names as classic ryu has them, over os-ken's modules; and no os-ken by its own name.
UNDER_RYU = """
import sys, types
from importlib import import_module

names = ["base.app_manager", "controller.ofp_event", "controller.handler", "lib.hub", "ofproto.nicira_ext"]
names += ["ofproto.ofproto_v1_3", "ofproto.ofproto_v1_3_parser", "cfg"]
for name in names:
    real = import_module("os_ken." + name)
    fake = types.ModuleType("ryu." + name)
    fake.__dict__.update({k: v for k, v in vars(real).items() if not k.startswith("__")})
    if name == "base.app_manager":
        fake.RyuApp = fake.__dict__.pop("OSKenApp")
    sys.modules["ryu." + name] = fake
    for parent in ("ryu", "ryu." + name.partition(".")[0]):
        package = sys.modules.setdefault(parent, types.ModuleType(parent))
        package.__path__ = []
    if "." in name:
        room, _, last = name.partition(".")
        setattr(sys.modules["ryu." + room], last, fake)
parser, ofproto = import_module("os_ken.ofproto.ofproto_v1_3_parser"), import_module("os_ken.ofproto.ofproto_v1_3")
if sys.argv[2] == "ryu":
    for name in [name for name in sys.modules if name.partition(".")[0] == "os_ken"]:
        sys.modules[name] = None

sys.path.insert(0, sys.argv[1])
import ecmp, flows, groups, nicira, routes, ryu_api

assert ryu_api.PACKAGE == sys.argv[2], ryu_api.PACKAGE
assert issubclass(ecmp.Ecmp, sys.modules["ryu.base.app_manager"].RyuApp)
handlers = [m for m in vars(ecmp.Ecmp).values() if hasattr(m, "callers")]
assert len(handlers) == 9, handlers
switch = types.SimpleNamespace(ofproto=ofproto, ofproto_parser=parser)
for kind in ("ecmp", "spray"):
    entry = routes.Entry("10.1.0.0/16", kind, (1, 2, 3))
    messages = [flows.miss(switch)]
    for words in (nicira, groups):
        messages += [flows.route(switch, entry, words.choose(switch, entry, 9, 2)), *words.make_group(switch, entry, 2)]
    for message in messages:
        message.set_xid(1)
        message.serialize()
        print(bytes(message.buf).hex())
"""


def test_the_same_files_load_under_classic_ryu_s_names(tmp_path: Path) -> None:
    """No ryu is needed: its package tree is made of os-ken's modules, which are then out of reach by their own name."""
    script = tmp_path / "load.py"
    script.write_text(UNDER_RYU)
    said = {}
    for package in ("os_ken", "ryu"):
        done = subprocess.run(
            [sys.executable, str(script), str(FOLDER), package], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        said[package] = done.stdout
    assert said["ryu"] == said["os_ken"]
    assert said["ryu"].count("\n") == 2 * (1 + 2 + 1) + 3 + 16
