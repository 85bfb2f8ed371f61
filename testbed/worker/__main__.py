"""`python -m testbed.worker`: the ranks of a run, started by the run itself."""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

signal.signal(signal.SIGINT, signal.SIG_DFL)  # an interrupt ends it, and its ranks, without a word
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: each rank's own threads would take others' cores

from testbed import compiled

compiled.install()

from testbed.errors import TestbedError
from testbed.plan.serial import from_json
from testbed.worker.clock import ModelClock
from testbed.worker.setup import share
from testbed.worker.zygote import run_ranks


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m testbed.worker", description=__doc__)
    parser.add_argument("--plan", type=Path, required=True, help="plan.json")
    parser.add_argument("--control", type=Path, required=True, help="the run's control socket, in a folder of its id")
    parser.add_argument(
        "--namespaces", type=json.loads, required=True, help="rank or server -> network namespace, as JSON"
    )
    arguments = parser.parse_args()
    try:
        plan = from_json(json.loads(arguments.plan.read_text()))
        clock = ModelClock(time.monotonic_ns(), plan.dilation)
        jobs = [share(plan, job, arguments.control.parent.name, clock) for job in plan.jobs]
    except TestbedError as error:
        print(f"worker: {error.message}", file=sys.stderr)
        return error.exit_status
    return run_ranks(jobs, arguments.control, {int(rank): name for rank, name in arguments.namespaces.items()})


if __name__ == "__main__":
    sys.exit(main())
