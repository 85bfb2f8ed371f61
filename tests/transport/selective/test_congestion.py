"""Every congestion control of the registry under selective repeat and on Falcon's paths: all arrives, nothing hangs."""

from random import Random

import pytest

from testbed.transport import TRANSPORTS
from testbed.transport.congestion import CONGESTIONS
from tests.transport.conformance.carriage import Carriage, Parcel
from tests.transport.conformance.subjects import Subject
from tests.transport.pump import impaired


@pytest.mark.parametrize("control", CONGESTIONS)
@pytest.mark.parametrize("kind", ["irn", "srnic", "falcon"])
def test_under_loss_and_marks(kind, control):
    subject = Subject(TRANSPORTS[kind], kind, congestion=control)
    messages = [Parcel(i % 2, 1 - i % 2, i, 20_000) for i in range(6)]
    random = Random(2)
    carriage = Carriage(subject, messages, impaired(random, loss=0.02, reorder=0.02))
    carriage.network.marks = lambda _, burst, __: bool(burst.ecn) and random.random() < 0.1
    carriage.run().check()
