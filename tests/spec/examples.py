"""Specs that are right, and what is wrong with others."""

from pathlib import Path

from testbed.spec.errors import SpecError, SpecErrors
from testbed.spec.reader import read_spec

RIGHT = """\
name: tour
engine: emulation
topology: {kind: fat-tree, k: 4}
links:
  - {name: all, select: all, rate: 1Gbps, delay: 10us, queue: 256KiB}
  - {name: lossy, select: core, ecn: {min: 64KiB, max: 192KiB}, loss: 0.5%}
workers: {count: 8, placement: spread}
transport: {kind: roce, mtu: 1024, congestion: dcqcn}
workload: {kind: collective, algorithm: ring, size: 1MiB, dtype: float32}
traffic:
  - {kind: constant, from: h9, to: h12, rate: 100Mbps}
faults:
  - {kind: stall, worker: 0, probability: 1%, factor: 20, of: step}
  - {kind: link-down, select: c0-a0_0, at: 5ms, for: 1ms}
capture: {select: [h0], snap: 128B}
limits: {wall: 10min, stall: 30s}
sweep: {transport.kind: [roce, tcp], links.lossy.loss: [0%, 1%]}
expect:
  - {metric: cct_ns.p50, of: {transport.kind: roce}, to: {transport.kind: tcp}, at_most: 1.5}
"""


SMALL = """\
name: small
topology: {kind: star, hosts: 4}
links:
  - {name: all, rate: 1Gbps, loss: 0.5%}
workers: {count: 4}
transport: {kind: roce, mtu: 1024, congestion: dcqcn}
workload: {size: 4KiB}
"""

COMMAND = """\
name: own
topology: {kind: graph, hosts: [a, b], switches: 1, links: [a-s0, [b, s0]]}
workers: {count: 2, placement: [b, a]}
workload: {kind: command, command: [echo, hello]}
faults:
  - {kind: link-set, select: a>s0, at: 2ms, for: 1ms, rate: 10Mbps, loss: {kind: gilbert-elliott, mean: 1%, burst: 3}}
  - {kind: kill, worker: [0, 1], at: 1s}
traffic: [{kind: incast, from: [a], to: b, size: 3B, every: 1500ns, start: 1ms, stop: 2min}]
time_dilation: 7
"""

JOBS = """\
name: shared
topology: {kind: dumbbell, left: 4, right: 4}
jobs:
  train: {workers: {count: 4, placement: [h0, h4, h1, h5]}, workload: {size: 1MiB}}
  bulk:
    workers: {count: 2}
    transport: {kind: roce, mtu: 1024, congestion: dcqcn}
    workload: {size: 64KiB, iterations: 5}
    start: 2ms
faults:
  - {kind: slow, worker: train/3, factor: 2}
  - {kind: kill, worker: [bulk/all, train/0], at: 1s}
  - {kind: slow, worker: all, factor: 2}
sweep: {jobs.bulk.transport.kind: [roce, tcp], jobs.train.workload.size: [1MiB, 2MiB]}
expect:
  - metric: jobs.train.cct_ns.p50
    of: {jobs.bulk.transport.kind: roce}
    to: {jobs.bulk.transport.kind: tcp}
    at_most: 2
  - {metric: jobs.bulk.wrong, equals: 0}
"""


STRESS = """\
name: stress
topology: {kind: star, hosts: 6}
links:
  - {rate: 100Mbps, delay: 50us}
workers: {count: 4}
workload: {size: 64KiB}
traffic:
  - {kind: flows, sizes: web-search, load: 30%, scale: 0.01, of: host, from: [h4, h5], start: 1ms}
  - {kind: flows, sizes: 64KiB, every: 20ms, to: h0}
faults:
  - {kind: stall, worker: all, probability: 1%, for: 2ms, of: step, distribution: lognormal, tail_ratio: 3}
  - {kind: link-set, select: all, at: 5ms, for: 2ms, every: 20ms, loss: 40%}
  - {kind: tail-drop, worker: [0, 1], share: 10%, probability: 50%}
environment: {tail_ratio: 3, by: slow-host, events: 0.1, severity: 2.5, reached: 3.02, tolerance: 2%, limit: 5min,
  baseline: {algorithm: halving-doubling, transport: {kind: roce, mtu: 1024}}}
"""


def mistakes(folder: Path, text: str | bytes, *overrides: str) -> tuple[SpecError, ...]:
    path = folder / "spec.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    try:
        read_spec(path, overrides)
    except SpecErrors as errors:
        return errors.errors
    return ()
