"""Measures what aggregating programs take for a packet on one core, without links: ns by program, values and framing.

    python -m tests.bench.aggregate [--children N] [--rounds N]

Contributions of all children to all of 512 slots, version by version; the same again, which is answered from the sums;
and contributions that a switch only forwards.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from testbed.dataplane.native.control import ActionCall, FieldMatch
from testbed.dataplane.native.exchange import Exchange
from tests.dataplane.aggregation import AGGREGATOR, WORKER, Job, add, configure, program

SLOTS = 512
Frames = Sequence[tuple[int, bytes]]


def best_ns(name: str, job: Job | None, frames: Frames, before: Frames = ()) -> float:
    """The least of three switches' ns a packet."""
    taken = []
    for _ in range(3):
        with Exchange(program(name)) as switch:
            if job is not None:
                configure(switch, job)
            route = ActionCall("to_port", {"port": 1})
            switch.control.insert("routes", [FieldMatch(AGGREGATOR, prefix=16)], route)
            if before:
                switch.bench(before, len(before))
            taken.append(switch.bench(frames, len(frames)) / len(frames))
    return min(taken)


def measure(name: str, values: int, in_roce: bool, options: argparse.Namespace) -> None:
    job = Job([(child, WORKER + child + 1) for child in range(options.children)], slots=SLOTS, values=values)
    draw = np.random.default_rng(1)
    vectors = [draw.integers(-(2**31), 2**31, values).astype(np.int32) for _ in job.children]
    frames = [
        (child, add(job, child, chunk, vectors[child], in_roce=in_roce))
        for chunk in range(SLOTS * options.rounds)
        for child in range(options.children)
    ]
    lot = SLOTS * options.children
    added, again = best_ns(name, job, frames), best_ns(name, job, frames[:lot], frames[:lot])
    routed = best_ns(name, None, frames[:lot])
    framing = "RoCE" if in_roce else "UDP"
    print(
        f"{name:14} {values:3} values in {framing:4}: {added:5.0f} ns added (one in {options.children} leaves),"
        f" {again:5.0f} ns answered again, {routed:5.0f} ns forwarded"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--children", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    for name in ("aggregate", "aggregate_tree"):
        for values in (32, 256):
            for in_roce in (False, True):
                measure(name, values, in_roce, options)


if __name__ == "__main__":
    main()
