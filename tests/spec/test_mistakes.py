"""Every kind of mistake is found at its line and column, under its key, with what was probably meant."""

import os
from pathlib import Path

import pytest

from testbed.errors import UsageError
from testbed.spec.errors import SpecErrors
from testbed.spec.reader import read_spec

from .examples import RIGHT, mistakes


def edited(before: str, after: str) -> str:
    """RIGHT with one piece replaced; what is not there cannot be."""
    assert RIGHT.count(before) == 1, before
    return RIGHT.replace(before, after)


def test_the_right_spec_is_right(tmp_path: Path) -> None:
    assert mistakes(tmp_path, RIGHT) == ()


_CONSTANT = "{kind: constant, from: h9, to: h12, rate: 100Mbps}"
CASES = [  # what, a piece of RIGHT, what it becomes (§: where the mistake is told), key, in the message, suggestion
    ("unknown key", "engine:", "§engin:", "engin", "unknown key", "engine"),
    ("unknown nested key", "queue: 256KiB", "§queu: 256KiB", "links.all.queu", "unknown key", "queue"),
    (
        "missing key",
        "name: tour\nengine: emulation\ntopology: {kind: fat-tree, k: 4}\n",
        "§name: tour\nengine: emulation\n",
        "topology",
        "is missing",
        "",
    ),
    ("missing nested key", "workers: {count: 8, ", "§workers: {", "workers.count", "is missing", ""),
    ("wrong word", "engine: emulation", "engine: §emulaton", "engine", "'emulaton'", "emulation"),
    ("wrong word or list", "placement: spread", "placement: §spred", "workers.placement", "'spred'", "spread"),
    ("wrong type", "count: 8", "count: §eight", "workers.count", "'eight' is not a whole number", ""),
    ("out of bounds", "count: 8", "count: §0", "workers.count", "must be at least 1", ""),
    ("mapping for a list", "select: [h0]", "select: §{a: h0}", "capture.select", "not text or a list", ""),
    ("list for a mapping", "limits: {wall: 10min, stall: 30s}", "limits: §[1]", "limits", "not a mapping", ""),
    ("no value", "engine: emulation", "engine:§", "engine", "has no value", ""),
    ("wrong unit", "rate: 1Gbps", "rate: §1 Gbit/s", "links.all.rate", "not a rate", "1Gbps"),
    ("unit in lower case", "queue: 256KiB", "queue: §256kib", "links.all.queue", "not a size", "256KiB"),
    ("no unit", "delay: 10us", "delay: §10", "links.all.delay", "not a time", ""),
    ("negative", "delay: 10us", "delay: §-10us", "links.all.delay", "cannot be negative", ""),
    ("finer than a unit", "delay: 10us", "delay: §0.5ns", "links.all.delay", "finer", ""),
    ("over 100 %", "probability: 1%", "probability: §3", "faults.0.probability", "not a probability", "3%"),
    ("given twice", "engine: emulation", "§name: again", "name", "given twice (first in line 1)", ""),
    ("unsafe name", "name: tour", "name: §my/tour!", "name", "names a folder", "my-tour"),
    ("unknown topology", "fat-tree", "§fat-tre", "topology.kind", "no topology", "fat-tree"),
    ("unknown topology key", "k: 4}", "k: 4, §hostz: 3}", "topology.hostz", "not a parameter", ""),
    ("odd k", "k: 4}", "k: §5}", "topology.k", "even", "k: 4 or k: 6"),
    ("topology key missing", "fat-tree, k: 4", "§star", "topology.kind", "needs 'hosts'", ""),
    ("unknown node", "select: core", "select: §c99", "links.lossy.select", "no node is called 'c99'", ""),
    ("unknown selector", "select: core", "select: §cor", "links.lossy.select", "no node is called 'cor'", "core"),
    ("no such link", "select: core", "select: §h0-c0", "links.lossy.select", "no link joins h0 and c0", ""),
    (
        "two links of a name",
        "name: all, select: all, rate: 1Gbps, delay: 10us, queue: 256KiB}",
        "name: all, rate: 1Gbps}\n  - {name: §all, delay: 10us}",
        "links.all.name",
        "two entries",
        "",
    ),
    (
        "nothing set",
        "{name: all, select: all, rate: 1Gbps, delay: 10us, queue: 256KiB}",
        "§{name: all, select: all}",
        "links.all",
        "sets nothing",
        "",
    ),
    ("rate 0", "rate: 1Gbps", "rate: §0", "links.all.rate", "carries nothing", ""),
    ("queue under a frame", "queue: 256KiB", "queue: §1KiB", "links.all.queue", "hold no frame", "1518B"),
    ("jitter over delay", "queue: 256KiB", "jitter: §11us", "links.all.jitter", "more than the delay", ""),
    ("mtu too small", "queue: 256KiB", "mtu: §100", "links.all.mtu", "from 256", ""),
    (
        "packet over the mtu",
        "to: h12, rate: 100Mbps",
        "to: h12, rate: 100Mbps, packet: §1500B",
        "traffic.0.packet",
        "1500 bytes and 28 of headers do not fit the link",
        "1472B",
    ),
    (
        "packet over IP's",
        "to: h12, rate: 100Mbps",
        "to: h12, rate: 100Mbps, packet: §65508B",
        "traffic.0.packet",
        "do not fit",
        "1472B",
    ),
    (
        "traffic before zero",
        "to: h12, rate: 100Mbps",
        "to: h12, rate: 100Mbps, start: §-1ms",
        "traffic.0.start",
        "not supported yet",
        "",
    ),
    ("fault before zero", "at: 5ms, for: 1ms", "at: §-5ms, for: 1ms", "faults.1.at", "not supported yet", ""),
    (
        "mtu by a fault",
        "kind: link-down, select: c0-a0_0, at: 5ms",
        "kind: link-set, select: c0-a0_0, at: 5ms, §mtu: 9000",
        "faults.1.mtu",
        "cannot change while packets flow",
        "",
    ),
    (
        "jitter over delay by a fault",
        "kind: link-down, select: c0-a0_0, at: 5ms",
        "kind: link-set, select: c0-a0_0, at: 5ms, jitter: §11us, reorder: true",
        "faults.1.jitter",
        "a jitter of 11us is more than the delay of 10us",
        "",
    ),
    (
        "queue under a frame by a fault",
        "kind: link-down, select: c0-a0_0, at: 5ms",
        "kind: link-set, select: c0-a0_0, at: 5ms, queue: §1KiB",
        "faults.1.queue",
        "hold no frame",
        "1518B",
    ),
    (
        "what cannot learn",
        "algorithm: ring, size: 1MiB",
        "algorithm: ring, gradients: digits-mlp, collective: §all-gather",
        "workload.collective",
        "digits-mlp learns from",
        "allreduce",
    ),
    ("too many runs", "limits: {wall", "repeat: §1000000000\nlimits: {wall", "repeat", "more than 100000", ""),
    (
        "name too long for a file",
        "kind: fat-tree, k: 4",
        "kind: §" + "x" * 300 + ".py:f",
        "topology.kind",
        "no file",
        "",
    ),
    ("exponent", "delay: 10us", "delay: §1e999999s", "links.all.delay", "too great", ""),
    ("ecn upside down", "min: 64KiB", "min: §640KiB", "links.lossy.ecn.min", "more than max", ""),
    (
        "burst under 1",
        "loss: 0.5%",
        "loss: {kind: gilbert-elliott, mean: 1%, burst: §0.5}",
        "links.lossy.loss.burst",
        "at least 1",
        "",
    ),
    (
        "burst of bernoulli",
        "loss: 0.5%",
        "loss: {mean: 1%, burst: §4}",
        "links.lossy.loss.burst",
        "come alone",
        "kind: gilbert-elliott",
    ),
    (
        "burst too short",
        "loss: 0.5%",
        "loss: {kind: gilbert-elliott, mean: 90%, burst: §3}",
        "links.lossy.loss.burst",
        "at least 9 packets",
        "",
    ),
    ("too many workers", "count: 8", "count: §17", "workers.count", "17 workers on 16 hosts", "16"),
    ("one rank", "count: 8", "count: §1", "workers.count", "at least 2 ranks", ""),
    ("unknown host", "8, placement: spread", "2, placement: [h0, §h16]", "workers.placement.1", "no host", "h6"),
    (
        "a switch as host",
        "8, placement: spread",
        "2, placement: [h0, §e0_0]",
        "workers.placement.1",
        "is a switch",
        "",
    ),
    (
        "host twice",
        "8, placement: spread",
        "2, placement: [h0, §h0]",
        "workers.placement.1",
        "already has rank 0",
        "",
    ),
    ("too few hosts", "placement: spread", "placement: §[h0, h1]", "workers.placement", "2 hosts for 8", "count: 2"),
    ("unknown constant", "mtu: 1024", "§mtuu: 1024", "transport.mtuu", "not a parameter of roce", "mtu"),
    ("wrong constant", "mtu: 1024", "mtu: §1000", "transport.mtu", "not one of 256, 512, 1024", "1024"),
    ("mtu over the link's", "mtu: 1024", "mtu: §4096", "transport.mtu", "set the links' mtu to 4200", "1024"),
    (
        "unknown congestion",
        "congestion: dcqcn",
        "congestion: §dcqn",
        "transport.congestion",
        "no congestion control",
        "dcqcn",
    ),
    (
        "unknown congestion key",
        "congestion: dcqcn",
        "congestion: {kind: dcqcn, §gg: 1}",
        "transport.congestion.gg",
        "not a parameter",
        "g",
    ),
    ("unknown algorithm", "algorithm: ring", "algorithm: §rings", "workload.algorithm", "no algorithm", "ring"),
    (
        "wrong algorithm",
        "algorithm: ring",
        "algorithm: §pairwise",
        "workload.algorithm",
        "does not do allreduce",
        "ring",
    ),
    (
        "no size",
        "workload: {kind: collective, algorithm: ring, size: 1MiB, ",
        "§workload: {kind: collective, algorithm: ring, ",
        "workload.size",
        "is missing",
        "",
    ),
    ("size of a model", "size: 1MiB", "§size: 1MiB, gradients: digits-mlp", "workload.size", "of its own", ""),
    ("part of an element", "size: 1MiB", "size: §1001B", "workload.size", "float32 elements of 4", "1004B"),
    (
        "unknown gradients",
        "dtype:",
        "gradients: §digit-mlp, dtype:",
        "workload.gradients",
        "digits-mlp",
        "digits-mlp",
    ),
    ("no such file", "dtype:", "gradients: §mine.npy, dtype:", "workload.gradients", "no file 'mine.npy'", ""),
    (
        "integers of a model",
        "size: 1MiB, dtype: float32",
        "gradients: digits-mlp, dtype: §int32",
        "workload.dtype",
        "int32",
        "float32",
    ),
    ("root out of range", "dtype:", "root: §8, dtype:", "workload.root", "no rank 8", ""),
    (
        "no command",
        "workload: {kind: collective, algorithm: ring, size: 1MiB, dtype: float32",
        "§workload: {kind: command",
        "workload.command",
        "is missing",
        "",
    ),
    (
        "key of a collective",
        "kind: collective, algorithm: ring, size: 1MiB, dtype: float32",
        "kind: command, command: [ls], §size: 4B",
        "workload.size",
        "does not go with kind: command",
        "",
    ),
    (
        "traffic without a rate",
        "{kind: constant, from: h9, to: h12, rate: 100Mbps}",
        "§{kind: constant, from: h9, to: h12}",
        "traffic.0.rate",
        "is missing",
        "",
    ),
    (
        "incast without a time",
        "{kind: constant, from: h9, to: h12, rate: 100Mbps",
        "§{kind: incast, from: h9, to: h12, size: 1KiB",
        "traffic.0.every",
        "is missing",
        "",
    ),
    ("traffic to itself", "from: h9", "from: §h12", "traffic.0.from", "to itself", ""),
    ("traffic to nobody", "to: h12", "to: §h21", "traffic.0.to", "no host", "h2"),
    ("key of another traffic", "rate: 100Mbps", "rate: 100Mbps, §every: 1ms", "traffic.0.every", "not go with", ""),
    ("worker out of range", "worker: 0", "worker: §8", "faults.0.worker", "ranks are 0 to 7", "7"),
    (
        "no time of a fault",
        "{kind: link-down, select: c0-a0_0, at: 5ms, ",
        "§{kind: link-down, select: c0-a0_0, ",
        "faults.1.at",
        "is missing",
        "",
    ),
    ("unknown fault", "kind: stall", "kind: §stal", "faults.0.kind", "'stal'", "stall"),
    ("key of another fault", "at: 5ms", "at: 5ms, §factor: 2", "faults.1.factor", "does not go with", ""),
    (
        "stall of no length",
        "{kind: stall, worker: 0, probability: 1%, factor: 20, ",
        "§{kind: stall, worker: 0, probability: 1%, ",
        "faults.0",
        "needs one of for, factor",
        "",
    ),
    ("speeding up", "factor: 20", "factor: §0.5", "faults.0.factor", "at least 1", ""),
    ("fault on no link", "select: c0-a0_0", "select: §c0-a0_9", "faults.1.select", "'a0_9'", "a0_1"),
    ("capture on no node", "[h0]", "[h0, §h16]", "capture.select.1", "'h16'", "h6"),
    ("no wall time", "wall: 10min", "wall: §0", "limits.wall", "is 0", "1s"),
    ("next to no wall time", "wall: 10min", "wall: §1ns", "limits.wall", "is 1ns and must be at least 1s", "1s"),
    ("next to no stall", "stall: 30s", "stall: §999us", "limits.stall", "must be at least 1ms", "1ms"),
    ("dilation for ever", "engine: emulation", "time_dilation: §1000001", "time_dilation", "at most 1000000", "auto"),
    ("rate beyond", "rate: 1Gbps", "rate: §1000Tbps", "links.all.rate", "at most 100Tbps", ""),
    ("other digits", "rate: 1Gbps", "rate: §١Gbps", "links.all.rate", "not a rate", ""),
    ("size beyond", "size: 1MiB", "size: §1025GiB", "workload.size", "at most 1024GiB", ""),
    ("factor beyond", "factor: 20", "factor: §1e300", "faults.0.factor", "at most 1000000", ""),
    ("a line's end in a name", "select: [h0]", 'select: §"h0\\n"', "capture.select", "no node", "h0"),
    ("root of a ring", "dtype: float32", "dtype: float32, §root: 1", "workload.root", "ring has no root", ""),
    (
        "NUL in a command",
        "kind: collective, algorithm: ring, size: 1MiB, dtype: float32",
        'kind: command, command: §[echo, "a\\0b"]',
        "workload.command",
        "NUL",
        "",
    ),
    (
        "bound of a text",
        "metric: cct_ns.p50, of: {transport.kind: roce}, to: {transport.kind: tcp}, at_most",
        "metric: status, §at_most",
        "expect.0.at_most",
        "only `equals`",
        "",
    ),
    ("swept twice over", "[roce, tcp]", "[roce, tcp, §roce]", "sweep.transport.kind.2", "is there twice", ""),
    ("zip twice over", "sweep: {", "sweep: {§zip: {seed: [1, 1]}, ", "sweep.zip", "the same values twice", ""),
    ("dilation under 1", "engine: emulation", "time_dilation: §0", "time_dilation", "at least 1", "auto"),
    (
        "sweep of an unknown key",
        "sweep: {transport.kind:",
        "sweep: {§worker.count: [2], transport.kind:",
        "worker",
        "unknown key",
        "workers",
    ),
    ("sweep of no entry", "links.lossy.loss: [0%", "§links.losy.loss: [0%", "links.losy", "no such entry", "lossy"),
    (
        "sweep of one value",
        "transport.kind: [roce, tcp], links",
        "transport.kind: [roce, tcp], seed: §3, links",
        "sweep.seed",
        "must be a list",
        "",
    ),
    ("sweep of the sweep", "sweep: {", "sweep: {§repeat: [1], ", "sweep.repeat", "cannot be swept", ""),
    (
        "zip out of step",
        "sweep: {",
        "sweep: {§zip: {seed: [1, 2], workers.count: [2]}, ",
        "sweep.zip",
        "same length",
        "",
    ),
    ("wrong at one point", "[0%, 1%]", "[0%, §1x]", "links.lossy.loss", "not a probability", ""),
    ("unknown metric", "cct_ns.p50", "§cct_ns.p5", "expect.0.metric", "has no 'cct_ns.p5'", "cct_ns.p95"),
    (
        "point of no sweep",
        "of: {transport.kind: roce}",
        "of: {§transport.knd: roce}",
        "expect.0.of.transport.knd",
        "is not swept",
        "transport.kind",
    ),
    (
        "value of no sweep",
        "to: {transport.kind: tcp}",
        "to: {transport.kind: §tpc}",
        "expect.0.to.transport.kind",
        "not among",
        "tcp",
    ),
    (
        "no bound",
        "{metric: cct_ns.p50, of: {transport.kind: roce}, to: {transport.kind: tcp}, at_most: 1.5}",
        "§{metric: cct_ns.p50, of: {transport.kind: roce}, to: {transport.kind: tcp}}",
        "expect.0",
        "expects nothing",
        "",
    ),
    (
        "not built yet: key",
        "kind: fat-tree, k: 4",
        "kind: fat-tree, k: 4, §multiport: true",
        "topology.multiport",
        "not supported yet",
        "",
    ),
    ("host of an emulation", "engine:", "§host: {per_packet: 1us}\nengine:", "host", "emulated ones take", ""),
    ("not built yet: workload", "kind: collective", "kind: §training", "workload.kind", "not supported yet", ""),
    ("flows without sizes", _CONSTANT, "§{kind: flows, load: 30%}", "traffic.0.sizes", "is missing: flows", ""),
    ("flows without a load", _CONSTANT, "§{kind: flows, sizes: 1KiB}", "traffic.0", "needs one of load, every", ""),
    (
        "flows at a load and a time",
        _CONSTANT,
        "{kind: flows, sizes: hadoop, load: 30%, §every: 1ms}",
        "traffic.0.every",
        "not both",
        "",
    ),
    (
        "unknown sizes",
        _CONSTANT,
        "{kind: flows, sizes: §web-serch, load: 30%}",
        "traffic.0.sizes",
        "'web-serch' is neither one of web-search, data-mining, hadoop, ali-storage nor a file",
        "web-search",
    ),
    (
        "no file of sizes",
        _CONSTANT,
        "{kind: flows, sizes: §mine.txt, load: 30%}",
        "traffic.0.sizes",
        "there is no file 'mine.txt' beside the spec",
        "",
    ),
    (
        "flows of no size",
        _CONSTANT,
        "{kind: flows, sizes: 1KiB, scale: §0, load: 30%}",
        "traffic.0.scale",
        "must be more than 0",
        "",
    ),
    (
        "flows of less than a byte",
        _CONSTANT,
        "{kind: flows, sizes: hadoop, scale: §1.0e-6, load: 30%}",
        "traffic.0.scale",
        "less than one",
        "",
    ),
    (
        "flows to themselves",
        _CONSTANT,
        "{kind: flows, sizes: 1KiB, load: 30%, from: h3, to: §h3}",
        "traffic.0.to",
        "there is no other",
        "",
    ),
    (
        "flows over links that are not there",
        _CONSTANT,
        "{kind: flows, sizes: 1KiB, load: 30%, of: §c99}",
        "traffic.0.of",
        "no node is called 'c99'",
        "",
    ),
    (
        "flows in packets",
        _CONSTANT,
        "{kind: flows, sizes: 1KiB, load: 1%, §packet: 1KiB}",
        "traffic.0.packet",
        "not go",
        "",
    ),
    (
        "a distribution without its ratio",
        "{kind: stall, worker: 0, probability: 1%, factor: 20, of: step}",
        "§{kind: stall, worker: 0, probability: 1%, factor: 20, of: step, distribution: pareto}",
        "faults.0.tail_ratio",
        "is missing: p99 / p50",
        "",
    ),
    (
        "a ratio without its distribution",
        "{kind: stall, worker: 0, probability: 1%, factor: 20, of: step}",
        "§{kind: stall, worker: 0, probability: 1%, factor: 20, of: step, tail_ratio: 3}",
        "faults.0.distribution",
        "is missing: tail_ratio is that of a lognormal or a pareto",
        "lognormal",
    ),
    (
        "a ratio of one",
        "factor: 20, of: step}",
        "factor: 20, distribution: pareto, tail_ratio: §1}",
        "faults.0.tail_ratio",
        "must be more than 1",
        "",
    ),
    (
        "a window that never ends",
        "kind: link-down, select: c0-a0_0, at: 5ms, for: 1ms",
        "kind: link-set, select: c0-a0_0, at: 5ms, for: 1ms, every: §1ms, loss: 40%",
        "faults.1.every",
        "is 1ms, and it lasts 1ms each time",
        "",
    ),
    (
        "links that go down again and again",
        "kind: link-down, select: c0-a0_0, at: 5ms, for: 1ms",
        "kind: link-down, select: c0-a0_0, at: 5ms, for: 1ms, §every: 2ms",
        "faults.1.every",
        "does not go with link-down",
        "",
    ),
    (
        "environment of no ratio",
        "engine:",
        "§environment: {by: stalls}\nengine:",
        "environment.tail_ratio",
        "missing",
        "",
    ),
    (
        "environment of less than nothing",
        "engine:",
        "environment: {tail_ratio: §0.5}\nengine:",
        "environment.tail_ratio",
        "must be from 1",
        "",
    ),
    (
        "an environment beyond all clocks",
        "engine:",
        "environment: {tail_ratio: 3, severity: §1.0e+300}\nengine:",
        "environment.severity",
        "must be from 0 to 1,000,000",
        "",
    ),
    (
        "unknown mechanism",
        "engine:",
        "environment: {tail_ratio: 3, by: §stall}\nengine:",
        "environment.by",
        "'stall' is not one of congestion, stalls, slow-host",
        "stalls",
    ),
    (
        "a host that is always slow",
        "engine:",
        "environment: {tail_ratio: 3, by: slow-host, events: §1}\nengine:",
        "environment.events",
        "the share of iterations that are slow",
        "",
    ),
    (
        "unknown baseline",
        "engine:",
        "environment: {tail_ratio: 3, baseline: {algorithm: §rng}}\nengine:",
        "environment.baseline.algorithm",
        "rng is no algorithm for allreduce",
        "ring",
    ),
    (
        "a baseline's wrong transport",
        "engine:",
        "environment: {tail_ratio: 3, baseline: {transport: {kind: §tpc}}}\nengine:",
        "environment.baseline.transport.kind",
        "no transport is called 'tpc'",
        "tcp",
    ),
    (
        "what was reached with nothing",
        "engine:",
        "environment: {tail_ratio: 3, §reached: 3.01}\nengine:",
        "environment.reached",
        "leave this out",
        "",
    ),
    (
        "a program of switches that have none",
        "kind: link-down, select: c0-a0_0, at: 5ms, for: 1ms",
        "kind: §swap-program, select: c0, at: 5ms, program: spray",
        "faults.1.kind",
        "programs are exchanged on native switches, and these are ovs",
        "",
    ),
]


@pytest.mark.parametrize(
    ("before", "after", "key", "message", "suggestion"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_mistake_is_told_where_it_is(
    tmp_path: Path, before: str, after: str, key: str, message: str, suggestion: str
) -> None:
    text = edited(before, after)
    ahead = text[: text.index("§")].split("\n")
    found = mistakes(tmp_path, text.replace("§", ""))
    assert [(e.line, e.column, e.key, e.suggestion) for e in found] == [
        (len(ahead), len(ahead[-1]) + 1, key, suggestion)
    ]
    assert message in found[0].message


def test_many_and_long_mistakes_are_told_in_short(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(RIGHT + "".join(f"k{number}{'y' * 900}: 1\n" for number in range(150)))
    with pytest.raises(SpecErrors) as told:
        read_spec(path)
    lines = told.value.message.splitlines()
    assert (len(told.value.errors), len(lines)) == (150, 101)
    assert lines[-1] == f"{path}: and 50 more mistakes"
    assert max(len(line) - len(str(path)) for line in lines) < 800


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe: is not a regular file"):
        read_spec(tmp_path / "pipe")


@pytest.mark.parametrize("line", ["raise SystemExit(3)", "import nothing_of_this_name", "raise RuntimeError"])
def test_a_file_of_one_s_own_that_cannot_be_imported_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "own.py").write_text(line)
    (found,) = mistakes(tmp_path, edited("fat-tree, k: 4", "own.py:build"))
    assert found.key == "topology.kind"
    assert f"{tmp_path / 'own.py'} failed to load" in found.message


def test_an_mtu_of_roce_may_have_its_unit(tmp_path: Path) -> None:
    assert mistakes(tmp_path, edited("mtu: 1024", "mtu: 1KiB")) == ()
    (found,) = mistakes(tmp_path, edited("mtu: 1024", "mtu: 4096B"))
    assert "does not fit the link" in found.message


def test_tails_are_of_messages_that_endpoints_send(tmp_path: Path) -> None:
    """The kernel sends those of tcp, to which the sweep goes."""
    stall = "{kind: stall, worker: 0, probability: 1%, factor: 20, of: step}"
    found = mistakes(tmp_path, edited(stall, "{kind: tail-drop, worker: 0, share: 5%}"))
    assert [(error.key, error.message) for error in found] == [
        (
            "transport.kind",
            "with transport.kind=tcp, links.lossy.loss=0%, faults.0.kind tail-drop is of messages that endpoints send, "
            "and tcp sends none in emulation, where the kernel does",
        )
    ]
    nothing = edited(stall, "{kind: tail-drop, worker: 0, share: 0%}").replace("[roce, tcp]", "[roce]")
    assert [error.key for error in mistakes(tmp_path, nothing.partition("expect:")[0])] == ["faults.0.share"]


def test_a_tail_that_no_packet_begins_in_is_told(tmp_path: Path) -> None:
    """Messages of 128 KiB, in packets of 1 KiB: a share of 1/128 takes one, 0.7 % none."""
    stall = "{kind: stall, worker: 0, probability: 1%, factor: 20, of: step}"
    for share, keys in (("0.8%", []), ("0.7%", ["faults.0.share"])):
        text = edited(stall, f"{{kind: tail-drop, worker: 0, share: {share}}}").replace("[roce, tcp]", "[roce]")
        found = mistakes(tmp_path, text.partition("expect:")[0])
        assert [error.key for error in found] == keys
    assert "whose last packet has 1024: none begins there" in found[0].message
    assert found[0].suggestion == "1%"
