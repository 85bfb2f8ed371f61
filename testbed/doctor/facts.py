"""Looks this machine over in one pass; changes nothing (kernel features are tried in a throw-away namespace)."""

import os
import platform
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from testbed import compiled
from testbed.emulation.commands import environment, path_of

_TUN = "/dev/net/tun"
_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0  # linux/if_tun.h
_TAP_FLAGS = 0x0002 | 0x1000 | 0x4000  # IFF_TAP | IFF_NO_PI | IFF_VNET_HDR
_USO = 0x01 | 0x02 | 0x04 | 0x20 | 0x40  # TUN_F_CSUM | TSO4 | TSO6 | USO4 | USO6
_SOL_UDP, _UDP_SEGMENT, _UDP_GRO = 17, 103, 104  # linux/udp.h
_LIMIT_S = 10


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing looked for: what its lack costs, the line that mends it, and whether `run` is lost without."""

    name: str
    found: bool
    detail: str
    cost: str = ""
    mend: str = ""
    needed: bool = False


def look() -> list[Fact]:
    """Everything, in the order it is printed."""
    return [
        Fact("root", os.geteuid() == 0, f"uid {os.geteuid()}", "no emulation", "run it with sudo", needed=True),
        Fact("python", sys.version_info >= (3, 11), platform.python_version(), "Testbed does not start", needed=True),
        Fact("kernel", True, platform.release()),
        Fact("cores", (os.cpu_count() or 1) >= 2, str(os.cpu_count()), "ranks and switches share one core"),
        *(_tool(name, "openvswitch-switch", "no Open vSwitch", needed=True) for name in _OVS_TOOLS),
        *(_tool(name, "iproute2", "no emulation", needed=True) for name in ("ip", "tc", "ss")),
        *(_tool(name, "util-linux", "no emulation", needed=True) for name in _UTIL_LINUX_TOOLS),
        _tool("mnexec", "mininet", 'no shells of Mininet\'s (`net.get("h0").cmd(...)`)'),
        _python("os_ken", "os-ken", "no controller"),
        _python("mininet", "mininet==2.3.0.dev6", "no emulation"),
        _python("finsy", "finsy", "no P4Runtime (`controller: p4runtime`, `p4 run --p4runtime`)"),
        _python("sklearn", "scikit-learn", "no `gradients: digits-mlp`"),
        _trial("tun", _tap, "no links by the fabric", f"modprobe tun (and {_TUN} must be there)", needed=True),
        _trial(
            "udp segmentation in tun", tun_segmentation, "packets cross the kernel one by one", "Linux 6.2 or newer"
        ),
        _trial("udp segmentation", _udp_segment, "workers send packets one by one", "Linux 4.18 or newer"),
        _trial("htb", lambda: not _lacking(_HTB), "hosts cannot be held back at their own port", _KERNEL, needed=True),
        _link_shaping(),
        _trial(
            "openvswitch datapath",
            kernel_datapath,
            "Open vSwitch forwards in userspace, some ten times slower",
            _KERNEL,
        ),
        _tool("tshark", "tshark", "captures cannot be cross-checked"),
        _tool("iperf3", "iperf3", "no comparison in `make bench`"),
        Fact(
            "compiled endpoints",
            compiled.ready(),
            "yes" if compiled.ready() else "no",
            "endpoints run interpreted, in large simulations some three times as slow, until one compiles them",
            f"{sys.executable} -m testbed.compiled",
        ),
        Fact(
            "C compiler",
            compiler() is not None,
            compiler() or f"no {os.environ.get('CC') or 'cc'}",
            "no native switches, which compile their programs",
            "apt-get install gcc",
        ),
        Fact(
            "bmv2",
            not bmv2_lacks(),
            bmv2_lacks() or str(path_of("simple_switch")),
            "no `switches: {kind: bmv2}`",
            "build simple_switch from its public source; pip install 'testbed[bmv2]'",
        ),
        Fact(
            "bmv2 over P4Runtime",
            bmv2_grpc(),
            path_of("simple_switch_grpc") or "simple_switch_grpc is not installed",
            "no `controller: p4runtime` with `switches: {kind: bmv2}`",
            "build simple_switch_grpc from its public source",
        ),
    ]


_KERNEL = "a distribution's own kernel (e.g. apt-get install linux-image-amd64) has it"
_OVS_TOOLS = ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl")
_UTIL_LINUX_TOOLS = ("nsenter", "setpriv", "prlimit", "unshare")
# What `testbed.emulation.tc` asks of the kernel, in an order in which each can be tried: part -> the command.
_HTB = {"htb": "tc qdisc add dev lo root handle 1: htb default 1"}
_LINK_SHAPING = {
    "netem": "tc qdisc add dev lo root handle 10: netem delay 1ms",
    "ifb": "ip link add name probe type ifb",
    "clsact": "tc qdisc add dev lo clsact",
    "matchall": "tc filter add dev lo ingress handle 1 prio 1 matchall action mirred egress redirect dev probe",
}


def compiler() -> str | None:
    """Where the C compiler is, looked for as the native target looks for it."""
    return path_of(os.environ.get("CC") or "cc")


def bmv2_lacks() -> str:
    """What of bmv2 this machine has not, in words; nothing if it has all."""
    if path_of("simple_switch") is None:
        return "simple_switch is not installed"
    return "" if util.find_spec("thriftpy2") else "no Thrift library (thriftpy2)"


def bmv2_grpc() -> bool:
    """Whether bmv2 can be driven over P4Runtime."""
    return path_of("simple_switch_grpc") is not None


def netem() -> bool:
    """Whether the kernel shapes links: has netem, and what it takes to delay a host's packets at the switch."""
    return not _lacking(_LINK_SHAPING)


def kernel_datapath() -> bool:
    """Whether the kernel has Open vSwitch's datapath, loaded or to be loaded."""
    if Path("/sys/module/openvswitch").exists():
        return True
    return _succeeds(["modprobe", "-n", "-q", "openvswitch"])


def tun_segmentation() -> bool:
    """Whether a TAP takes and gives UDP super-packets (TUN_F_USO4, Linux 6.2)."""
    return _tap(_USO)


def _tap(offload: int = 0) -> bool:
    # In a namespace of its own, so that no interface ever shows on this machine.
    script = (
        "import fcntl,os,struct\n"
        f"fd=os.open({_TUN!r},os.O_RDWR)\n"
        f"fcntl.ioctl(fd,{_TUNSETIFF},struct.pack('16sH22x',b'testbed-probe',{_TAP_FLAGS}))\n"
        f"fcntl.ioctl(fd,{_TUNSETOFFLOAD},{offload})\n"
    )
    return _succeeds(["unshare", "-n", sys.executable, "-c", script])


def _udp_segment() -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.setsockopt(_SOL_UDP, _UDP_SEGMENT, 1024)
            probe.setsockopt(_SOL_UDP, _UDP_GRO, 1)
        except OSError:
            return False
    return True


def _lacking(parts: Mapping[str, str]) -> list[str]:
    """Those of the kernel's parts whose command fails, all tried in one namespace that ends with them."""
    script = "\n".join(f"{command} >&2 || echo {part}" for part, command in parts.items())
    try:
        argv = ["unshare", "-n", "sh", "-c", script]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_LIMIT_S, env=environment(), check=False)
    except (OSError, subprocess.TimeoutExpired):
        return list(parts)
    return done.stdout.split() if done.returncode == 0 else list(parts)


def _link_shaping() -> Fact:
    cost = "links are shaped by the fabric, not the kernel"
    if os.geteuid() != 0:
        return _trial("link shaping", netem, cost, _KERNEL)
    lacking = _lacking(_LINK_SHAPING)
    detail = f"refused by this kernel: {', '.join(lacking)}" if lacking else f"works: {', '.join(_LINK_SHAPING)}"
    return Fact("link shaping", not lacking, detail, cost, _KERNEL)


def _trial(name: str, works: Callable[[], bool], cost: str, mend: str, *, needed: bool = False) -> Fact:
    if os.geteuid() != 0 and name != "udp segmentation":
        return Fact(name, False, "cannot be tried without root", cost, "run `testbed doctor` with sudo", needed)
    found = works()
    return Fact(name, found, "works" if found else "refused by this kernel", cost, mend, needed)


def _tool(name: str, package: str, cost: str, *, needed: bool = False) -> Fact:
    path = path_of(name)
    return Fact(name, path is not None, path or "not installed", cost, f"apt-get install {package}", needed)


def _python(module: str, package: str, cost: str) -> Fact:
    found = util.find_spec(module) is not None
    return Fact(f"python: {module}", found, "installed" if found else "not installed", cost, f"pip install '{package}'")


def _succeeds(argv: list[str]) -> bool:
    try:
        return (
            subprocess.run(argv, capture_output=True, timeout=_LIMIT_S, env=environment(), check=False).returncode == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
