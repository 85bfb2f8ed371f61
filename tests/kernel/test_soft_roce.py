"""RoCE on the wire against the kernel's own: `rdma_rxe` with rdma-core's ibv_rc_pingpong, our endpoint as its server.

The device of `rdma_rxe` stands at one end of a veth pair, our endpoint's UDP sockets at the other, in a namespace. Both
ends check every ICRC; netem loses packets both ways, so that both ends go back, to what the other asks for by NAK or
after a timeout of its own.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

NAMESPACE, DEVICE, RXE = "tb-rxe-peer", "tb-rxe0", "tbrxe"
OURS, KERNELS = "10.91.0.1", "10.91.0.2"
LIMIT_S = 280
PACKET_BYTES = 1024


def can_be_loaded(module: str) -> bool:
    modprobe = shutil.which("modprobe") or "/sbin/modprobe"
    return (
        Path(modprobe).exists() and not subprocess.run([modprobe, module], capture_output=True, check=False).returncode
    )


pytestmark = [
    pytest.mark.kernel,
    pytest.mark.root,
    pytest.mark.skipif(
        not shutil.which("ibv_rc_pingpong") or not can_be_loaded("rdma_rxe"),
        reason="needs the kernel's soft-RoCE (rdma_rxe) and ibverbs-utils; see `make test-kernel`",
    ),
]


def do(*commands: str) -> None:
    for command in commands:
        subprocess.run(command.split(), check=True, capture_output=True, text=True, timeout=LIMIT_S)


@pytest.fixture(name="gid_index")
def _gid_index() -> Iterator[int]:
    """A veth pair with the kernel's RoCE device at this end; the index of its IPv4 GID."""
    do(
        f"ip netns add {NAMESPACE}",
        f"ip link add {DEVICE} type veth peer name {DEVICE}p netns {NAMESPACE}",
        f"ip address add {KERNELS}/24 dev {DEVICE}",
        f"ip link set {DEVICE} up",
        f"ip -n {NAMESPACE} address add {OURS}/24 dev {DEVICE}p",
        f"ip -n {NAMESPACE} link set {DEVICE}p up",
        f"rdma link add {RXE} type rxe netdev {DEVICE}",
    )
    try:
        gids = Path(f"/sys/class/infiniband/{RXE}/ports/1/gids")
        mapped = "".join(f"{int(part):02x}" for part in KERNELS.split("."))
        yield next(int(gid.name) for gid in gids.iterdir() if gid.read_text().strip().replace(":", "").endswith(mapped))
    finally:
        do(f"rdma link delete {RXE}", f"ip link delete {DEVICE}", f"ip netns delete {NAMESPACE}")


def play(gid_index: int, size: int, rounds: int) -> dict[str, int | str]:
    """What our side counted, after the kernel's has ended well."""
    ours = [sys.executable, "-m", "tests.kernel.rc_pingpong", OURS, KERNELS, str(size), str(rounds)]
    with subprocess.Popen(
        ["ip", "netns", "exec", NAMESPACE, *ours], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        try:
            assert server.stdout.readline() == "listening\n", server.stderr.read()
            kernels = f"ibv_rc_pingpong -d {RXE} -g {gid_index} -m {PACKET_BYTES} -s {size} -n {rounds} {OURS}"
            client = subprocess.run(kernels.split(), capture_output=True, text=True, timeout=LIMIT_S, check=False)
            assert client.returncode == 0, f"{client.stdout}{client.stderr}"
            told, complaints = server.communicate(timeout=LIMIT_S)
        finally:
            server.kill()
    assert server.returncode == 0, f"{told}{complaints}"
    assert f"{2 * size * rounds} bytes" in client.stdout
    result: dict[str, int | str] = json.loads(told)
    return result


@pytest.mark.parametrize("size", [1, 1024, 4097, 65536])
def test_the_kernel_and_we_understand_each_other(gid_index: int, size: int) -> None:
    rounds, packets = 10, -(-size // PACKET_BYTES)
    counts = play(gid_index, size, rounds)
    assert (counts["rounds"], counts["wrong"], counts["failure"]) == (rounds, 0, "")
    assert counts["malformed"] == counts["bad_icrc"] == 0
    assert counts["sent_bytes"] == rounds * size, counts  # nothing twice
    assert int(counts["sent_packets"]) > rounds * packets  # and acknowledgements


def test_both_go_back_when_packets_are_lost(gid_index: int) -> None:
    """What is lost of ours are whole runs: the kernel cuts them into packets at the other end only."""
    do(
        f"tc qdisc add dev {DEVICE} root netem loss 2%",
        f"ip netns exec {NAMESPACE} tc qdisc add dev {DEVICE}p root netem loss 10%",
    )
    counts = play(gid_index, 65536, 20)
    assert (counts["rounds"], counts["wrong"], counts["failure"]) == (20, 0, "")
    assert counts["malformed"] == counts["bad_icrc"] == 0
    assert int(counts["naks"]) > 0  # packets of the kernel were missed, and came again
    assert int(counts["retransmitted_packets"]) > 0  # and it missed some of ours
