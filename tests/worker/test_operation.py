"""What an endpoint is told of a collective: all messages that its rank will post, and where they lie."""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from testbed.collective import generate
from testbed.collective.program import program
from testbed.transport.endpoint import ALL, Buffer, Completion, Operation
from testbed.worker.iteration import Iteration
from testbed.worker.operation import Announcer, operation

LAYERS = (10, 7)  # elements


class Recorder:
    """A carrier and an endpoint that keeps what it is told, in order."""

    def __init__(self) -> None:
        self.log: list[object] = []
        self.operation: Operation | None = None

    def begin(self, operation: Operation, now: int) -> None:
        self.operation = operation
        self.log.append(("begin", now))

    def start(self, now: int) -> None:
        self.log.append(("start", now))

    def skips(self) -> bool:
        return True

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:
        self.log.append((id, True, peer, tag, memoryview(buffer).nbytes, now))

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        assert completion == ALL
        self.log.append((id, False, peer, tag, buffer.nbytes, now))


def test_an_informed_endpoint_knows_of_every_message_before_it_is_posted() -> None:
    schedule, recorder = generate("allreduce", "ring", 3), Recorder()
    programs = [program(schedule, 1, elements) for elements in LAYERS]
    tags = sum(each.tags for each in programs)
    announcer = Announcer(recorder, programs, warmup=2)
    buffers = [np.zeros(elements, np.float32) for elements in LAYERS]
    iteration = Iteration(programs, buffers, recorder, 5 * tags, {}, told=announcer.of(5, 5 * tags, np.float32))
    iteration.prepare(100)
    told = recorder.operation
    assert told is not None
    assert (told.number, told.warmup, told.itemsize, told.dtype, told.layers) == (5, False, 4, "float32", (0, 40))
    iteration.start(200)
    assert recorder.log[0] == ("begin", 100)
    started = recorder.log.index(("start", 200))
    posted = recorder.log[1:started] + recorder.log[started + 1 :]
    assert len(recorder.log[1:started]) == 2 * 4, "all receives, before the start"
    announced = {(m.id, m.send, m.peer, m.tag, m.bytes, 200 if m.send else 100) for m in told.messages}
    assert set(posted) < announced, "sends of later steps are announced too"
    assert [m.step for m in told.messages if m.send] == [0, 1, 2, 3] * 2
    assert [m.reduce for m in told.messages if not m.send] == [True, True, False, False] * 2
    assert iteration.skipped


def test_messages_of_a_step_lie_apart_in_the_gradient_and_cover_it() -> None:
    programs = [program(generate("allreduce", "ring", 3), 0, elements) for elements in LAYERS]
    told = operation(programs, 0, True, 0, np.float16)
    assert told.warmup
    summed = sorted((m.first_byte, m.first_byte + m.bytes) for m in told.messages if not m.send and not m.reduce)
    own = sorted((m.first_byte, m.first_byte + m.bytes) for m in told.messages if m.send and not m.reduce)
    covered = sorted({*summed, *own})
    assert covered[0][0] == 0
    assert covered[-1][1] == 2 * sum(LAYERS)
    assert all(one[1] == other[0] for one, other in pairwise(covered))


def test_who_does_not_ask_is_not_told() -> None:
    assert Announcer(object(), [], 0).of(0, 0, np.float32) is None


def test_an_endpoint_that_wants_to_know_hears_how_the_training_does_before_each_collective() -> None:
    class Curious(Recorder):
        def learned(self, metrics: Mapping[str, float]) -> None:
            self.log.append(("learned", metrics["accuracy"]))

    curious, accuracy = Curious(), iter([0.5, 0.6])
    programs = [program(generate("allreduce", "ring", 2), 0, 4)]
    announcer = Announcer(curious, programs, 0, lambda: {"accuracy": next(accuracy)})
    for number in range(2):
        told = announcer.of(number, 0, np.float32)
        assert told is not None
        told.begin(10 * number)
    assert curious.log == [("learned", 0.5), ("begin", 0), ("learned", 0.6), ("begin", 10)]
