"""A switch s0 with ports 1 to 4 and a controller at it, without sockets."""

from collections.abc import Iterator

import pytest

from testbed.openflow.agent import Agent
from tests.openflow.parts import Controller, Memory


@pytest.fixture
def memory() -> Iterator[Memory]:
    memory = Memory()
    yield memory
    memory.close()


@pytest.fixture(scope="module")
def lasting() -> Iterator[Memory]:
    """A switch s0 that many agents have one after the other: to make one takes a tenth of a second."""
    memory = Memory()
    memory.add("s0", 42, (1, 2, 3, 4))
    yield memory
    memory.close()


@pytest.fixture
def agent(memory: Memory) -> Agent:
    return Agent(memory.add("s0", 42, (1, 2, 3, 4)), memory, 0)


@pytest.fixture
def controller(agent: Agent) -> Controller:
    return Controller(agent)
