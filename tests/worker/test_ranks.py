"""Whole ranks, forked as in a run: on loopback for everybody, over veth between namespaces for root."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import RunFailed
from testbed.plan.serial import to_json
from testbed.spec.model import FaultSpec
from testbed.units import Quantity

from .harness import Ranks, make_plan, mesh

pytestmark = pytest.mark.slow
root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network namespaces")
# Far above what a busy machine delays a process by, so that nothing is retransmitted for that alone.
CALM = {"rate_bps": 10**8, "delay_ns": 5_000_000}
WAITING_S = 10.0


def agree(done: dict[int, dict[str, Any]]) -> None:
    """All ranks have the exact result, and the same."""
    assert [notice["wrong"] for notice in done.values()] == [0] * len(done)
    assert len({notice["digest"] for notice in done.values()}) == 1


@pytest.mark.parametrize("transport", ["roce", "tcp"])
@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling"])
def test_an_allreduce_of_three_ranks_is_bit_exact(transport: str, algorithm: str, tmp_path: Path) -> None:
    workload = {"dtype": "int32", "size": "100kB", "algorithm": algorithm}
    plan = make_plan(3, transport=transport, loopback=True, workload=workload, **CALM)
    with Ranks(plan, tmp_path) as ranks:
        for number in range(3):
            done = ranks.iterate(number)
            agree(done)
            for notice in done.values():
                assert notice["start_ns"] <= notice["end_ns"]
                assert notice["nmse"] == 0.0
                assert notice["missing_bytes"] == 0
        if algorithm == "ring":  # 2 (n-1)/n of the buffer, in and out
            assert sum(notice["received_bytes"] for notice in done.values()) == 4 * 100_000


@pytest.mark.parametrize("algorithm", ["tar", "tar-2d"])
def test_coded_gradients_are_decoded_by_all_ranks_alike(algorithm: str, tmp_path: Path) -> None:
    """What is learnt has the same bits everywhere; padding, of two layers to 3 and 17 blocks, crosses the network."""
    codec = {"kind": "hadamard", "block": 1024, "stride": 4}
    workload = {"gradients": "digits-mlp", "size": None, "algorithm": algorithm, "codec": codec}
    with Ranks(make_plan(4, loopback=True, workload=workload, **CALM), tmp_path) as ranks:
        for number in range(2):
            done = ranks.iterate(number)
            agree(done)
            assert all(0 < notice["nmse"] < 1e-12 for notice in done.values())
            # Both send 3/2 of the buffer from each rank: 2 (n - 1) / n, and (2 (m - 1) + G - 1) / m for m = G = 2.
            assert {notice["received_bytes"] for notice in done.values()} == {20 * 1024 * 4 * 3 // 2}


@pytest.mark.parametrize("transport", ["roce", "tcp"])
def test_without_numbers_the_same_bytes_move_and_nothing_is_checked(transport: str, tmp_path: Path) -> None:
    workload = {"size": "300kB", "gradients": "none"}
    plan = make_plan(3, transport=transport, loopback=True, workload=workload, **CALM)
    with Ranks(plan, tmp_path) as ranks:
        for number in range(2):
            done = ranks.iterate(number)
            assert {(notice["wrong"], notice["nmse"]) for notice in done.values()} == {(None, None)}
            # A ring allreduce: 2 (n-1)/n of the buffer into each rank.
            assert [notice["received_bytes"] for notice in done.values()] == [400_000] * 3


def test_counts_of_wire_packets_balance(tmp_path: Path) -> None:
    plan = make_plan(3, loopback=True, **CALM)
    with Ranks(plan, tmp_path) as ranks:
        ranks.iterate(0)
        deadline = time.monotonic() + 5
        while True:  # the last acknowledgements may still be on their way
            counters = [channel.request({"op": "counters"})["counters"] for channel in ranks.channels.values()]
            sent, received = (sum(c[name] for c in counters) for name in ("sent_packets", "received_packets"))
            if sent == received or time.monotonic() > deadline:
                break
    assert sent == received > 0
    assert all(c["corrupt_packets"] == c["malformed_packets"] == 0 for c in counters)


def test_a_model_learns_the_same_on_all_ranks(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    plan = make_plan(2, loopback=True, workload={"gradients": "digits-mlp", "size": None}, **CALM)
    with Ranks(plan, tmp_path) as ranks:
        first, *_, last = [ranks.iterate(number) for number in range(6)]
    agree(last)
    assert last[0]["metrics"]["loss"] < first[0]["metrics"]["loss"]
    assert first[0]["digest"] != last[0]["digest"]
    # two ranks: each layer's halves once to add and once as the sum
    assert last[0]["received_bytes"] == 4 * 19_210


@pytest.mark.parametrize("transport", ["roce", "tcp"])
def test_a_dead_rank_is_seen_at_once_and_the_others_can_say_what_they_wait_for(transport: str, tmp_path: Path) -> None:
    plan = make_plan(3, transport=transport, loopback=True, **CALM)
    with Ranks(plan, tmp_path) as ranks:
        ranks.iterate(0)
        ranks.tell(op="prepare", iteration=1)
        ranks.gather("ready")
        os.kill(ranks.channels[2].hello["pid"], signal.SIGKILL)
        with pytest.raises(RunFailed, match="rank 2 on h2 is gone"):
            ranks.gather("done")
        del ranks.channels[2]
        ranks.tell(op="release", iteration=1, at_ns=time.monotonic_ns())
        if transport == "roce":
            deadline = time.monotonic() + WAITING_S  # until they have begun, and have what they can get
            waiting: list[str] = []
            while not any("rank 2" in text for text in waiting):
                assert time.monotonic() < deadline, waiting
                waiting = [channel.request({"op": "progress"})["waiting"] for channel in ranks.channels.values()]
        else:
            with pytest.raises(AssertionError, match="the transfer with rank 2 failed"):
                ranks.gather("done")


def test_corrupted_packets_are_counted_and_change_nothing(tmp_path: Path) -> None:
    plan = make_plan(2, loopback=True, **CALM)
    with Ranks(plan, tmp_path) as ranks, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((plan.addresses["h1"].ip, 0))
        ranks.tell(op="prepare", iteration=0)
        ranks.gather("ready")
        for index in range(100):
            sock.sendto(os.urandom(16 + 4 * index), (plan.addresses["h0"].ip, 4791))
        ranks.tell(op="release", iteration=0, at_ns=time.monotonic_ns())
        done = ranks.gather("done")
    agree(done)
    assert done[0]["counters"]["corrupt_packets"] == 100


def test_compute_and_stalls_come_before_the_collective(tmp_path: Path) -> None:
    fault = FaultSpec(kind="stall", worker=1, probability=1.0, **{"for": Quantity(50_000_000)})
    plan = make_plan(2, loopback=True, workload={"compute": "20ms"}, faults=(fault,), **CALM)
    with Ranks(plan, tmp_path) as ranks:
        ranks.tell(op="prepare", iteration=0)
        ranks.gather("ready")
        at_ns = time.monotonic_ns() + 20_000_000
        ranks.tell(op="release", iteration=0, at_ns=at_ns)
        done = ranks.gather("done")
    assert done[0]["start_ns"] >= at_ns + 20_000_000
    assert done[1]["start_ns"] >= at_ns + 70_000_000
    assert done[0]["end_ns"] >= done[1]["start_ns"]
    for notice in done.values():
        assert 0 <= notice["start_late_ns"] < 10**9


def test_ranks_go_when_the_run_goes(tmp_path: Path) -> None:
    with Ranks(make_plan(2, loopback=True), tmp_path) as ranks:
        pids = [channel.hello["pid"] for channel in ranks.channels.values()]
    assert ranks.process.returncode == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_ranks_go_when_their_parent_is_killed(tmp_path: Path) -> None:
    with Ranks(make_plan(2, loopback=True), tmp_path) as ranks:
        ranks.process.kill()
        ranks.process.wait(5)
        for channel in ranks.channels.values():
            with pytest.raises(RunFailed):
                channel.receive(5)
        ranks.channels.clear()


def test_a_rank_that_cannot_begin_says_why_at_once(tmp_path: Path) -> None:
    plan = make_plan(2, loopback=True)
    with Ranks(plan, tmp_path, {"h0": "tw-nowhere", "h1": "tw-nowhere"}) as ranks:
        notice = ranks.channels[1].receive(5)
    assert notice["event"] == "failed"
    assert "tw-nowhere" in notice["reason"]


def test_an_unknown_request_is_answered_with_an_error(tmp_path: Path) -> None:
    with Ranks(make_plan(2, loopback=True), tmp_path) as ranks, pytest.raises(RunFailed, match="knows no request"):
        ranks.channels[0].request({"op": "dance"})


@root
@pytest.mark.root
@pytest.mark.beside
@pytest.mark.parametrize("transport", ["roce", "tcp"])
def test_over_veth_between_namespaces(transport: str, tmp_path: Path) -> None:
    plan = make_plan(3, transport=transport, workload={"dtype": "int32", "size": "1MB"}, **CALM)
    with mesh(plan) as namespaces, Ranks(plan, tmp_path, namespaces) as ranks:
        answer = ranks.channels[0].request({"op": "rtt", "peer": 1, "count": 5, "bytes": 1472, "patience_ns": 10**9})
        assert len(answer["round_trips_ns"]) == 5
        train = ranks.channels[2].request(
            {"op": "train", "peer": 0, "packets": 1000, "bytes": 1472, "patience_ns": 10**10}
        )
        assert train["received"] == 1000
        for number in range(2):
            agree(ranks.iterate(number))


def command_rows(tmp_path: Path, command: str | tuple[str, ...]) -> tuple[dict[int, dict[str, Any]], str]:
    plan = make_plan(2, loopback=True, workload={"kind": "command", "command": command, "size": None})
    with Ranks(plan, tmp_path) as ranks:
        done = ranks.iterate(0)
    return done, ranks.log.read_text()


def test_a_command_finds_its_rank_and_its_json_lines_become_rows(tmp_path: Path) -> None:
    script = (
        'echo "rank $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT in $TESTBED_RUN"; '
        'echo "{\\"iteration\\": 0, \\"start_ns\\": 1$RANK, \\"end_ns\\": 2$RANK}"; echo oops >&2; printf end'
    )
    done, log = command_rows(tmp_path, script)
    rows = {rank: notice["rows"] for rank, notice in done.items()}
    assert rows == {rank: [{"iteration": 0, "start_ns": 10 + rank, "end_ns": 20 + rank}] for rank in range(2)}
    net = 1 + os.getpid() % 254
    for rank in range(2):
        assert f"[rank {rank}] rank {rank} of 2 at 127.{net}.0.1:5000 in {tmp_path.name}" in log
        assert f"[rank {rank}] oops" in log
        assert f"[rank {rank}] end" in log


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("exit 3", "exited with status 3"),
        ("kill -TERM $$", "was ended by SIGTERM"),
        (("/nowhere/at/all",), "'/nowhere/at/all' cannot be started"),
    ],
)
def test_a_command_that_fails_says_how(command: str | tuple[str, ...], reason: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=reason):
        command_rows(tmp_path, command)


def test_a_command_is_ended_with_the_run(tmp_path: Path) -> None:
    plan = make_plan(2, loopback=True, workload={"kind": "command", "command": "echo $$; exec sleep 60", "size": None})
    with Ranks(plan, tmp_path) as ranks:
        ranks.tell(op="prepare", iteration=0)
        ranks.gather("ready")
        ranks.tell(op="release", iteration=0, at_ns=time.monotonic_ns())
        deadline = time.monotonic() + 5
        while ranks.log.read_text().count("\n") < 2:
            assert time.monotonic() < deadline
        waiting = ranks.channels[0].request({"op": "progress"})["waiting"]
        assert "sleep 60" in waiting
    pids = [int(line.split()[-1]) for line in ranks.log.read_text().splitlines()]
    assert len(pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_plan_without_a_workload_is_refused(tmp_path: Path) -> None:
    data = to_json(make_plan(2, loopback=True))
    data["spec"]["workload"] = None
    (tmp_path / "plan.json").write_text(json.dumps(data))
    argv = [sys.executable, "-m", "testbed.worker", "--plan", str(tmp_path / "plan.json"), "--control", "x"]
    done = subprocess.run([*argv, "--namespaces", "{}"], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (2, "worker: the plan has no workload\n")


def test_an_interrupt_ends_all_without_a_word(tmp_path: Path) -> None:
    with Ranks(make_plan(2, loopback=True), tmp_path) as ranks:
        for pid in (ranks.process.pid, *(channel.hello["pid"] for channel in ranks.channels.values())):
            os.kill(pid, signal.SIGINT)
        ranks.process.wait(5)
        assert ranks.log.read_text() == ""
        ranks.channels.clear()
