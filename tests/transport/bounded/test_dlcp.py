"""What DLCP tells switches of a packet, and what a pull may lose."""

import numpy as np
import pytest

from testbed.transport.endpoint import ECN_ECT0, ECN_NOT_ECT, Message, Received
from tests.transport.pump import Network

from .pairs import MTU, endpoints, is_data, operation

EACH = MTU // 4  # values a chunk


def sent(values, first_byte=0, layers=(0,), dtype="float32", **keys):
    """The (DSCP, ECN, first chunk, chunks) of the runs of a message of `values` that lies at `first_byte`."""
    end = endpoints("dlcp", **keys)[0]
    message = Message(2, True, True, 1, 7, 0, first_byte, values.nbytes)
    end.begin(operation(message, layers=layers, dtype=dtype), 0)
    end.post_send(2, 1, 7, values.view(np.uint8).data, 0)
    runs = [burst for burst in end.transmit(0, 1000) if is_data(burst.headers[0])]
    return [(run.dscp, run.ecn, int.from_bytes(run.headers[0][12:16], "big") // MTU, run.packets) for run in runs]


def test_small_packets_may_be_dropped_and_large_ones_are_marked():
    values = np.concatenate([np.full(EACH, each, np.float32) for each in (0.1, 3, -4, 0.2, 0.3, -5)])
    assert sent(values) == [
        (30, ECN_NOT_ECT, 0, 1),
        (26, ECN_ECT0, 1, 2),
        (30, ECN_NOT_ECT, 3, 2),
        (26, ECN_ECT0, 5, 1),
    ]


def test_the_quantile_that_is_small():
    values = np.repeat(np.arange(1, 11, dtype=np.float32), EACH)
    for share in (0, 0.2, 0.5):
        small = sum(count for dscp, _, _, count in sent(values, small=share) if dscp == 30)
        assert small == 10 * share


def test_values_of_other_types_and_short_messages():
    assert sent(np.repeat(np.array([5, -1], np.int32), EACH), dtype="int32")[1][0] == 30
    assert sent(np.repeat(np.array([1, 9], np.float16), MTU // 2), dtype="float16")[0][0] == 30
    assert [run[0] for run in sent(np.ones(3, np.float32))] == [26]


@pytest.mark.parametrize(("layer", "dscp"), [(0, 26), (1, 34)])
def test_front_layers_are_the_last_of_the_gradient(layer, dscp):
    """As backpropagation yields them: the first message of a gradient is the model's last layer."""
    values = np.ones(EACH, np.float32)
    assert [run[0] for run in sent(values, first_byte=(0, 4000)[layer], layers=(0, 4000))] == [dscp]


def test_front_layers_leave_first():
    end = endpoints("dlcp")[0]
    messages = [Message(n, True, True, 1, n, 0, first, MTU) for n, first in ((2, 0), (4, 1000), (6, 2000))]
    end.begin(operation(*messages, layers=(0, 1000, 2000)), 0)
    for message in messages:
        end.post_send(message.id, 1, message.tag, bytes(MTU), 0)
    tags = [int.from_bytes(run.headers[0][4:8], "big") for run in end.transmit(0, 3) if is_data(run.headers[0])]
    assert tags == [6, 4, 2]


@pytest.mark.parametrize(("reduce", "chunks"), [(True, 90), (False, 99)])
@pytest.mark.parametrize("bound", [0.1, 0.005])
def test_a_pull_loses_less_than_a_push(reduce, chunks, bound):
    ends = endpoints("dlcp", bound=bound, pull_bound=0.01)
    size = 100 * MTU
    ends[1].begin(operation(Message(1, False, reduce, 0, 7, 0, 0, size)), 0)
    buffer = bytearray(size)
    ends[1].post_receive(1, 0, 7, memoryview(buffer), 0)
    ends[0].post_send(2, 1, 7, b"\1" * size, 0)
    network = Network(ends, lambda *_: (10_000,))
    network.run()
    (received,) = network.events[1]
    assert isinstance(received, Received)
    assert buffer.count(1) == (chunks if bound == 0.1 else 100) * MTU


def test_ports_are_fixed_or_drawn_from_the_seed():
    def ports(seed, **keys):
        end = endpoints("dlcp", seed=seed, **keys)[0]
        end.post_send(2, 1, 7, bytes(64 * MTU), 0)
        return [burst.source_port for burst in end.transmit(0, 64)]

    assert len(set(ports(1))) == 1
    drawn = ports(1, ports="random", entropies=8)
    assert (len(drawn), len(set(drawn))) == (64, 8)
    assert drawn == ports(1, ports="random", entropies=8) != ports(2, ports="random", entropies=8)
