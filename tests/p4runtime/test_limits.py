"""Changes for which packets would be held up for too long are refused, and leave all as it was."""

from collections.abc import Iterator

import grpc
import pytest
from finsy.proto import p4r

from tests.p4runtime.client import Client, codes_of
from tests.p4runtime.rig import EVERYTHING, Rig, config_of, frame
from tests.p4runtime.test_protocol import STEP, step

ATOMIC, CONTINUE = p4r.WriteRequest.ROLLBACK_ON_ERROR, p4r.WriteRequest.CONTINUE_ON_ERROR
RECONCILE = p4r.SetForwardingPipelineConfigRequest.RECONCILE_AND_COMMIT


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """On which nothing may take any time."""
    monkeypatch.setattr("testbed.dataplane.p4runtime.device._HELD_S", -1.0)
    with Rig() as made:
        yield made


@pytest.fixture
def client(rig: Rig) -> Iterator[Client]:
    with Client(rig.address, 1) as made:
        yield made.becomes_primary()


def test_a_batch_that_is_one_change(rig: Rig, client: Client) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        client.insert(step("forward", 2), atomicity=ATOMIC)
    assert codes_of(caught.value) == ["RESOURCE_EXHAUSTED"]
    assert rig.send(frame(STEP)) == []
    client.insert(step("forward", 2), atomicity=CONTINUE)
    assert rig.send(frame(STEP)) == [(2, frame(STEP))]


def test_a_program_that_takes_over_the_state(rig: Rig, client: Client) -> None:
    client.insert(step("forward", 2), atomicity=CONTINUE)
    with pytest.raises(grpc.RpcError) as caught:
        client.configure(RECONCILE, config_of(EVERYTHING))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert rig.send(frame(STEP)) == [(2, frame(STEP))]
    assert client.read(step("forward", 2)) != []
