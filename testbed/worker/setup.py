"""From the plan to what one rank is made of: its programs, its transport, its probes. The same for every rank."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath

import numpy as np

from testbed.collective.program import program
from testbed.collective.schedule import Schedule
from testbed.errors import UsageError
from testbed.plan.model import Plan
from testbed.plan.paths import Paths
from testbed.plan.predict import Network, buffers, endpoint_path, schedule_of
from testbed.run.channel import Channel
from testbed.transport.endpoint import Path
from testbed.worker import process
from testbed.worker.clock import ModelClock
from testbed.worker.loop import Loop
from testbed.worker.memory import SharedInputs
from testbed.worker.nic import Nic
from testbed.worker.probe import Prober
from testbed.worker.rank import Driver, Rank
from testbed.worker.tcp import TcpCarrier
from testbed.worker.workload import Workload


@dataclass(frozen=True, slots=True)
class Common:
    """What all ranks share, made once by their parent."""

    plan: Plan
    schedule: Schedule
    layers: tuple[int, ...]  # elements
    path: Path
    inputs: SharedInputs
    clock: ModelClock
