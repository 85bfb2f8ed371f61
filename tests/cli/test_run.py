"""`testbed run` on real networks, small ones: its exit statuses, what it writes, what it survives, what it leaves."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.runs import ENDLESS, LIMIT_S, SMALL, TESTBED, Run, balance, measured, reasons, result_in
from tests.leftovers import left_of

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]
RANKS, ITERATIONS, WARMUP = 3, 3, 1
NAMED_WITHIN_S = 5.0


def test_a_run_leaves_its_files_and_a_table(tmp_path: Path) -> None:
    with Run(tmp_path) as run:
        result = measured(run)
    assert {path.name for path in run.directory.iterdir()} == {
        *("spec.yaml", "plan.json", "environment.json", "result.json", "iterations.csv", "links.csv"),
        *("switches.csv", "events.jsonl", "logs", "pcap"),
    }
    rows = [(row["iteration"], row["rank"], row["warmup"]) for row in run.table("iterations.csv")]
    assert rows == [
        *(("0", str(rank), "1") for rank in range(RANKS)),
        *((str(i), str(rank), "0") for i in range(ITERATIONS) for rank in range(RANKS)),
    ]
    assert len(run.links("packets")) == 2 * RANKS
    # A ring's ranks send 2 (n - 1) / n of the size each; an MTU of 1024 makes six packets of a third of 16 KiB.
    sent = run.links("job_packets")
    assert {name: count >= ITERATIONS * 4 * 6 for name, count in sent.items()} == dict.fromkeys(sent, True)
    flows = {row["name"]: int(row["packets"]) for row in run.table("switches.csv") if row["kind"] == "flow"}
    assert len(flows) == RANKS + 1
    assert flows["miss"] == 0
    assert result["payload_bytes"] == ITERATIONS * 2 * (RANKS - 1) * 16_384
    assert (result["cct_ns"]["n"], result["ranks"], result["time_dilation"]) == (ITERATIONS, RANKS, 20)
    assert "#wrong" in run.stdout
    assert run.stdout.rstrip().endswith(f"written to {run.directory}")
    assert "starting the workers" in run.stderr


def test_numbers_that_cannot_be_trusted_end_with_4(tmp_path: Path) -> None:
    # Ranks in software start further apart than a hundredth of some twenty microseconds.
    links, patient = [{"rate": "10Gbps", "delay": "1us"}], {"kind": "roce", "timeout": 16}
    with Run(tmp_path, "--json", time_dilation=1, links=links, transport=patient) as run:
        assert run.end() == 4, run.stderr
    (printed,) = json.loads(run.stdout)
    assert printed == run.result
    assert (printed["status"], printed["verdict"]["value"]) == ("ok", "invalid")
    assert "start-skew" in reasons(printed)


def test_a_refuted_expectation_ends_with_5_unless_the_numbers_are_invalid(tmp_path: Path) -> None:
    with Run(tmp_path, expect=[{"metric": "status", "equals": "failed"}]) as run:
        status = run.end()
    assert status == (4 if run.result["verdict"]["value"] == "invalid" else 5)
    assert "expect: status, equals failed: refuted (it is ok)" in run.stdout


def test_a_killed_rank_is_named_within_seconds(tmp_path: Path) -> None:
    with Run(tmp_path, **ENDLESS) as run:
        run.until_measuring()
        os.kill(run.child("rank 1"), signal.SIGKILL)
        run.until(lambda: "taking the network down" in run.stderr, "the end", NAMED_WITHIN_S)
        assert run.end() == 1
    assert "testbed: rank 1 on h1 is gone (it died or was killed)" in run.stderr
    assert run.result["status"] == "failed"
    lost = r" \[packets lost: \d+ at h1: UDP port without a listener\]"  # of those on their way to it
    assert re.fullmatch(rf"rank 1 on h1 is gone \(it died or was killed\)({lost})?", run.result["failure"])
    assert run.result["cct_ns"]["n"] > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_in_good_order(number: signal.Signals, tmp_path: Path) -> None:
    with Run(tmp_path, **ENDLESS) as run:
        run.until_measuring()
        run.process.send_signal(number)
        run.until(lambda: "taking the network down" in run.stderr, "the end", NAMED_WITHIN_S)
        run.process.send_signal(number)  # people press twice
        assert run.end() == 130
    result = run.result
    assert (result["status"], result["failure"]) == ("interrupted", f"interrupted by {number.name}")
    assert result["cct_ns"]["n"] >= 3
    assert len(run.table("iterations.csv")) >= 10


def test_an_interrupt_while_the_network_comes_up(tmp_path: Path) -> None:
    with Run(tmp_path) as run:
        run.until(lambda: "bringing the network up" in run.stderr, "the beginning")
        run.process.send_signal(signal.SIGINT)
        assert run.end() == 130
    assert run.result["status"] == "interrupted"


def test_without_its_controller_a_run_goes_on_and_says_so(tmp_path: Path) -> None:
    with Run(tmp_path, workload={"size": "4KiB", "iterations": 30, "warmup": 0}) as run:
        run.until_measuring()
        os.kill(run.child("controller"), signal.SIGKILL)
        result = measured(run)
    assert result["cct_ns"]["n"] == 30
    assert "controller" in reasons(result)["lost"]


@pytest.mark.usefixtures("one_cleans")
def test_a_run_that_is_killed_leaves_a_result_and_clean_removes_the_rest(tmp_path: Path) -> None:
    with Run(tmp_path, **ENDLESS) as run:
        run.until_measuring()
        run_id = run.state.run_id
        run.process.kill()
        run.process.wait(LIMIT_S)
    assert run.result["status"] == "failed"
    assert left_of(run_id)
    cleaned = subprocess.run([*TESTBED, "clean"], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert f"removing {run_id} (small)" in cleaned.stdout
    assert left_of(run_id) == []


def test_two_runs_side_by_side(tmp_path: Path) -> None:
    with Run(tmp_path / "one") as one, Run(tmp_path / "two", workload={"dtype": "int32"}) as two:
        first, second = measured(one), measured(two)
    assert first["run_id"] != second["run_id"]
    assert (first["dtype"], second["dtype"]) == ("float32", "int32")


def test_a_sweep_with_repeats(tmp_path: Path) -> None:
    sweep = {"transport.kind": ["roce", "tcp"]}
    with Run(tmp_path, "--json", sweep=sweep, repeat=2, workload={"iterations": 2}) as run:
        assert run.end() in (0, 4), run.stderr
    results = json.loads(run.stdout)
    assert [(r["transport"], r["repeat"], r["status"], r["wrong"], balance(r)) for r in results] == [
        (kind, repeat, "ok", 0, 0) for kind in ("roce", "tcp") for repeat in (0, 1)
    ]
    rows = run.table("sweep.csv")
    assert [row["run"] for row in rows] == ["000-repeat0", "000-repeat1", "001-repeat0", "001-repeat1"]
    assert [result_in(run.directory / row["run"]) for row in rows] == results
    assert all(left_of(result["run_id"]) == [] for result in results)


def test_what_is_captured_is_roce_without_a_fault(tmp_path: Path) -> None:
    with Run(tmp_path, "--capture", "h1") as run:
        result = measured(run)
    (capture,) = (run.directory / "pcap").iterdir()
    assert capture.name == "h1-eth0.pcapng"

    def frames(shown: str) -> int:
        argv = ["tshark", "-r", str(capture), "-Y", shown, "-T", "fields", "-e", "frame.number"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=True)
        return len(done.stdout.split())

    assert frames("_ws.malformed") == 0
    assert frames("infiniband") >= result["packets"]["sent"] * 2 / RANKS
    # Each of its two neighbours in the ring gets and gives 4 messages an iteration, warm-up included.
    assert frames("infiniband.aeth") > 0
    assert frames("ip.src == 10.0.0.3 && frame.packet_flags_direction != 2") == 0  # what h1 sends is outbound
    assert frames("ip.dst == 10.0.0.3 && frame.packet_flags_direction != 1") == 0
    assert frames("ip.src == 10.0.0.2 && infiniband && !infiniband.aeth") >= 4 * 6 * (ITERATIONS + WARMUP)


@pytest.mark.parametrize(
    ("impairment", "counter"),
    [("loss", "dropped_loss"), ("corrupt", "dropped_corrupt"), ("duplicate", "duplicated")],
)
def test_roce_recovers_and_every_packet_is_accounted_for(impairment: str, counter: str, tmp_path: Path) -> None:
    links = [{**SMALL["links"][0], impairment: "1%"}]
    with Run(tmp_path, links=links, workload={"iterations": 2}, transport={"kind": "roce", "mtu": 256}) as run:
        result = measured(run)
    assert result["packets"][counter] > 0
    assert (result["packets"]["retransmitted"] > 0) == (impairment != "duplicate")


def test_corrupted_packets_are_accounted_for_beside_background_traffic_that_is_corrupted_too(tmp_path: Path) -> None:
    with Run(
        tmp_path,
        links=[{**SMALL["links"][0], "corrupt": "4%"}],
        workload={"iterations": 4},
        transport={"kind": "roce", "mtu": 256},
        traffic=[{"kind": "constant", "from": "h0", "to": "h1", "rate": "100Mbps"}],
    ) as run:
        result = measured(run)
    struck, of_the_job = (sum(run.links(column).values()) for column in ("corrupted", "job_corrupted"))
    assert struck > of_the_job
    assert 0 < result["packets"]["dropped_corrupt"] <= of_the_job


def test_sprayed_packets_take_every_core_link_and_go_round_one_that_is_cut(tmp_path: Path) -> None:
    with Run(
        tmp_path,
        topology={"kind": "leaf-spine", "spines": 3, "leaves": 2, "hosts": 1},
        workers={"count": 2},
        routing={"kind": "spray"},
        workload={"size": "64KiB", "iterations": 12, "warmup": 0},
        faults=[{"kind": "link-down", "select": "leaf0-spine0", "at": "2ms"}],
    ) as run:
        measured(run)
    (struck,) = run.events("fault")
    assert (struck["fault"], struck["where"], struck["at_ns"]) == ("link-down", ["leaf0-spine0"], 2_000_000)
    carried = run.links("job_packets")
    for leaf in ("leaf0", "leaf1"):
        cut, *whole = (carried[f"{leaf}>spine{n}"] for n in range(3))
        assert 0 < cut < min(whole) / 2
        assert max(whole) < 1.5 * min(whole)


def test_a_link_that_is_set_anew_carries_what_it_then_can(tmp_path: Path) -> None:
    with Run(
        tmp_path,
        workload={"iterations": 12, "warmup": 0},
        faults=[{"kind": "link-set", "select": "all", "at": "2ms", "rate": "100Mbps"}],
    ) as run:
        measured(run)
    (fault,) = run.events("fault")
    struck_ns = fault["at_ns"] + fault["late_ns"] + 1_000_000  # all links, on a busy machine
    late = [
        int(r["end_ns"]) - int(r["start_ns"]) for r in run.table("iterations.csv") if int(r["start_ns"]) > struck_ns
    ]
    assert late
    assert min(late) > 16_384 * 4 / 3 * 8 / 0.1, "2 (n - 1) / n of the size at 0.1 bit/ns"


def test_background_traffic_is_counted_apart_and_marks_are_heeded(tmp_path: Path) -> None:
    with Run(
        tmp_path,
        topology={"kind": "star", "hosts": 5},
        links=[{**SMALL["links"][0], "ecn": {"min": "4KiB", "max": "16KiB"}}],
        transport={"kind": "roce", "congestion": "dcqcn"},
        traffic=[
            {"kind": "constant", "from": "h3", "to": "h1", "rate": "100Mbps"},
            {"kind": "incast", "from": ["h3", "h4"], "to": "h2", "size": "16KiB", "every": "500us"},
        ],
    ) as run:
        result = measured(run)
    assert result["background"]["received"] > 0
    assert result["packets"]["ecn_marked"] > 0
    background = {name: n - run.links("job_packets")[name] for name, n in run.links("packets").items()}
    assert {name for name, n in background.items() if n} == {"h3>s0", "h4>s0", "s0>h1", "s0>h2"}
    (achieved,) = run.events("traffic")
    assert achieved


def test_a_kill_of_the_spec_ends_what_cannot_do_without_the_rank(tmp_path: Path) -> None:
    with Run(
        tmp_path,
        workload={"iterations": 1000},
        transport={"kind": "roce", "retries": 2},
        faults=[{"kind": "kill", "worker": 1, "at": "1ms"}],
    ) as run:
        assert run.end() == 1
    assert re.search(r"rank [02] on h[02] failed: the transfer with rank 1 failed", run.result["failure"])
    assert [event["where"] for event in run.events("fault")] == [["rank 1"]]


def test_one_s_own_program_on_every_host(tmp_path: Path) -> None:
    program = (
        "import json, os, time\n"
        "print('hello from', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n"
        "now = time.monotonic_ns()\n"
        "print(json.dumps({'iteration': 7, 'start_ns': now, 'end_ns': now + 20_000}))\n"
    )
    (tmp_path / "program.py").write_text(program)
    workload = {
        "kind": "command",
        "command": ["python3", "program.py"],
        "size": None,
        "iterations": None,
        "warmup": None,
    }
    with Run(tmp_path, workload=workload) as run:
        assert run.end() in (0, 4), run.stderr
    rows = run.table("iterations.csv")
    assert [(row["iteration"], row["rank"]) for row in rows] == [("7", str(rank)) for rank in range(RANKS)]
    assert {int(row["end_ns"]) - int(row["start_ns"]) for row in rows} == {1000}, "a twentieth: model time"
    log = (run.directory / "logs" / "worker.log").read_text()
    assert {f"[rank {rank}] hello from {rank} of {RANKS}" for rank in range(RANKS)} <= set(log.splitlines())
