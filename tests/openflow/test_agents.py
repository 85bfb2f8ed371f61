"""The thread behind the agents: it connects again whatever happened, and one switch's trouble is not another's."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from testbed.openflow import Agents
from testbed.openflow.agent import Agent
from tests.openflow.parts import Memory, OsKen, frame

LIMIT_S = 20.0
HELLO = struct.pack("!BBHI", 4, 0, 8, 1)
FEATURES = struct.pack("!BBHI", 4, 5, 8, 2)
BARRIER = struct.pack("!BBHI", 4, 20, 8, 3)


class Peer:
    """A controller's end of one connection."""

    def __init__(self, server: socket.socket) -> None:
        self._socket, _ = server.accept()
        self._socket.settimeout(LIMIT_S)

    def say(self, data: bytes) -> None:
        self._socket.sendall(data)

    def hear(self) -> tuple[int, bytes]:
        """Type and body of the next message."""
        head = self._take(8)
        _, kind, length, _ = struct.unpack("!BBHI", head)
        return kind, self._take(length - 8)

    def dpid(self) -> int:
        """Greet, and ask who it is."""
        self.say(HELLO + FEATURES)
        assert self.hear()[0] == 0
        kind, body = self.hear()
        assert kind == 6
        return int.from_bytes(body[:8], "big")

    def lead_all_here(self) -> None:
        """Have all packets sent to the controller."""
        self.say(OsKen().all_to_the_controller() + BARRIER)
        assert self.hear()[0] == 21

    def is_over(self) -> bool:
        """Wait for the end of the connection, whatever comes before."""
        try:
            while self._socket.recv(4096):
                pass
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self._socket.close()

    def _take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            assert more, "the switch hung up"
            data += more
        return data


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(LIMIT_S)
        yield made


def test_each_switch_comes_and_comes_again(server: socket.socket, memory: Memory) -> None:
    switches = [memory.add(f"s{n}", n, (1, 2)) for n in (1, 2)]
    agents = Agents(switches, memory, server.getsockname())
    agents.start()
    peers = {peer.dpid(): peer for peer in (Peer(server), Peer(server))}
    assert set(peers) == {1, 2}
    peers[1].close()
    again = Peer(server)
    assert again.dpid() == 1
    peers[2].say(BARRIER)
    assert peers[2].hear()[0] == 21, "the other one never noticed"
    agents.port_changed("s2", 1, up=False)
    kind, body = peers[2].hear()
    assert (kind, struct.unpack_from("!B7xI", body)) == (12, (2, 1))
    agents.stop()
    assert peers[2].is_over()
    assert again.is_over()
    agents.stop()
    agents.port_changed("s2", 1, up=True)  # too late, and no harm


@pytest.mark.parametrize(
    "rubbish",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00" * 64,
        HELLO + b"\x04\x02\x00\x00\x00\x00\x00\x00",
        b"\x01\x00\x00\x08\x00\x00\x00\x01",
    ],
)
def test_what_is_no_controller_is_left_and_tried_again(rubbish: bytes, server: socket.socket, memory: Memory) -> None:
    agents = Agents([memory.add("s0", 7, (1, 2))], memory, server.getsockname())
    agents.start()
    peer = Peer(server)
    peer.say(rubbish)
    assert peer.is_over()
    assert Peer(server).dpid() == 7
    agents.stop()


def test_an_error_of_the_switch_s_own_ends_that_connection_alone(
    server: socket.socket, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = Agents([memory.add("s0", 7, (1, 2))], memory, server.getsockname())
    agents.start()
    peer = Peer(server)
    peer.dpid()

    def stuck() -> contextlib.AbstractContextManager[None]:
        raise RuntimeError("the loop did not come to rest")

    monkeypatch.setattr(memory, "held", stuck)
    controller = OsKen()
    peer.say(controller.write(controller.ofproto_parser.OFPTableStatsRequest(controller, 0)))
    assert peer.is_over()
    assert Peer(server).dpid() == 7
    agents.stop()


@pytest.mark.parametrize("what", ["port_changed", "punted"])
def test_what_fails_in_one_agent_does_not_end_the_others(
    what: str, server: socket.socket, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    switches = [memory.add(f"s{n}", n, (1, 2)) for n in (1, 2)]
    real = getattr(Agent, what)

    def failing(agent: Agent, *given: Any, **more: Any) -> None:
        if agent.switch.name == "s1":
            raise struct.error("too long")
        real(agent, *given, **more)

    monkeypatch.setattr(Agent, what, failing)
    agents = Agents(switches, memory, server.getsockname())
    agents.start()
    peers = {peer.dpid(): peer for peer in (Peer(server), Peer(server))}
    for peer in peers.values():
        peer.lead_all_here()
    if what == "punted":
        memory.forward("s1", 1, frame("10.0.0.1"))
    else:
        agents.port_changed("s1", 1, up=False)
    assert peers[1].is_over()
    assert Peer(server).dpid() == 1
    memory.forward("s2", 1, frame("10.0.0.1"))
    agents.port_changed("s2", 1, up=False)
    assert {peers[2].hear()[0], peers[2].hear()[0]} == {10, 12}
    agents.stop()


def test_no_socket_is_no_end(server: socket.socket, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    made, left = socket.socket, [OSError(24, "Too many open files")] * 2

    def few(*given: Any, **more: Any) -> socket.socket:
        if left and given == (socket.AF_INET, socket.SOCK_STREAM):
            raise left.pop()
        return made(*given, **more)

    agents = Agents([memory.add("s0", 7, (1, 2))], memory, server.getsockname())
    monkeypatch.setattr(socket, "socket", few)
    agents.start()
    assert Peer(server).dpid() == 7
    assert not left
    agents.stop()


def test_frames_that_cannot_be_had_are_asked_for_again(
    server: socket.socket, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.openflow.agents.LAST_RETRY_S", 0.01)
    agents = Agents([memory.add("s0", 7, (1, 2))], memory, server.getsockname())
    real, errors = memory.punted, [RuntimeError("the fabric is busy")]

    def failing() -> list[tuple[str, int, bytes]]:
        if errors:
            raise errors.pop()
        return [*real(), ("no agent's", 1, b"")]

    monkeypatch.setattr(memory, "punted", failing)
    agents.start()
    peer = Peer(server)
    peer.dpid()
    peer.lead_all_here()
    memory.forward("s0", 1, frame("10.0.0.1"))
    assert peer.hear()[0] == 10
    assert not errors
    agents.stop()


def test_what_came_before_a_flow_led_to_the_controller_is_not_told_later(server: socket.socket, memory: Memory) -> None:
    agents = Agents([memory.add("s0", 7, (1, 2))], memory, server.getsockname())
    memory.punt("s0", 1, frame("10.0.0.1"))
    agents.start()
    peer = Peer(server)
    peer.dpid()
    memory.punt("s0", 1, frame("10.0.0.2"))
    peer.lead_all_here()
    memory.punt("s0", 1, frame("10.0.0.3"))
    kind, body = peer.hear()
    assert (kind, body[-len(frame("10.0.0.3")) :]) == (10, frame("10.0.0.3"))
    agents.stop()


def test_stopping_at_any_time(memory: Memory) -> None:
    switch = memory.add("s0", 7, (1, 2))
    with socket.create_server(("127.0.0.1", 0)) as gone:
        nobody = gone.getsockname()
    Agents([switch], memory, nobody).stop()
    refused = Agents([switch], memory, nobody)
    refused.start()
    refused.stop()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        waiting = Agents([switch], memory, silent.getsockname())
        waiting.start()
        waiting.stop()


def test_a_thread_that_does_not_end_is_left_and_closes_its_connections_itself(
    server: socket.socket, memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("testbed.openflow.agents._STOP_S", 0.01)
    asked, goes_on = threading.Event(), threading.Event()

    @contextlib.contextmanager
    def slow() -> Iterator[None]:
        asked.set()
        assert goes_on.wait(LIMIT_S)
        yield

    monkeypatch.setattr(memory, "held", slow)
    agents = Agents([memory.add("s0", 7, (1, 2))], memory, server.getsockname())
    agents.start()
    peer = Peer(server)
    peer.dpid()
    peer.say(OsKen().all_to_the_controller())
    assert asked.wait(LIMIT_S)
    agents.stop()
    assert "is left alone" in caplog.text
    caplog.clear()
    goes_on.set()
    assert peer.is_over()
    assert caplog.text == "", "nothing broke under it"
