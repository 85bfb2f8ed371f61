"""Control streams: JSON lines however the kernel cuts them, answers among notices, and the end of a peer."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from testbed.errors import RunFailed
from testbed.run.channel import Channel, ChannelClosed, ChannelTimeout, Hub

SHORT_S, LONG_S = 0.02, 10.0


@pytest.fixture
def pair() -> Iterator[tuple[Channel, socket.socket]]:
    """A channel, and the raw socket of its peer."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    channel = Channel(ours, "rank 3")
    yield channel, theirs
    channel.close()
    theirs.close()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path / "c")
    yield hub
    hub.close()


def line(**message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def test_a_line_comes_whole_however_it_is_cut(pair: tuple[Channel, socket.socket]) -> None:
    channel, peer = pair
    for byte in line(event="ready", text="zwölf\n€"):
        assert channel.poll() == []
        peer.sendall(bytes([byte]))
    assert channel.receive(LONG_S) == {"event": "ready", "text": "zwölf\n€"}


def test_many_messages_in_one_read_keep_their_order_and_the_rest_stays(pair: tuple[Channel, socket.socket]) -> None:
    channel, peer = pair
    peer.sendall(b"".join(line(n=n) for n in range(1000)) + b'{"n": 10')
    assert channel.receive(LONG_S) == {"n": 0}
    assert channel.poll() == [{"n": n} for n in range(1, 1000)]
    peer.sendall(b"00}\n")
    assert channel.receive(LONG_S) == {"n": 1000}


def test_a_message_larger_than_the_socket_s_buffer(pair: tuple[Channel, socket.socket]) -> None:
    channel, peer = pair
    rows = [{"name": f"s{n}-eth1", "packets": n} for n in range(50_000)]
    thread = Thread(target=peer.sendall, args=(line(id=1, rows=rows),))
    thread.start()
    assert channel.receive(LONG_S)["rows"] == rows
    thread.join(LONG_S)


def test_nothing_in_time(pair: tuple[Channel, socket.socket]) -> None:
    channel, peer = pair
    peer.sendall(b'{"half": ')
    began = time.monotonic()
    with pytest.raises(ChannelTimeout, match="rank 3 said nothing in time"):
        channel.receive(SHORT_S)
    assert time.monotonic() - began >= SHORT_S
    assert not channel.closed


def test_what_a_peer_said_before_it_went_is_heard(pair: tuple[Channel, socket.socket]) -> None:
    channel, peer = pair
    peer.sendall(line(event="failed") + b'{"cut')
    peer.close()
    assert channel.poll() == [{"event": "failed"}]
    assert channel.closed
    with pytest.raises(ChannelClosed, match="rank 3 is gone"):
        channel.receive(LONG_S)
    with pytest.raises(ChannelClosed, match="rank 3 is gone"):
        channel.send({"op": "prepare"})


def test_a_peer_that_resets_the_stream_is_gone(pair: tuple[Channel, socket.socket]) -> None:
    channel, peer = pair
    channel.send({"unread": "makes the kernel reset instead of end"})
    peer.close()
    with pytest.raises(ChannelClosed, match="rank 3 is gone"):
        channel.receive(LONG_S)


def test_an_answer_is_found_among_notices_and_these_stay_in_order(pair: tuple[Channel, socket.socket]) -> None:
    channel, peer = pair
    peer.sendall(line(event="a"))
    assert channel.poll() == [{"event": "a"}]
    peer.sendall(line(event="b") + line(id=99, stale=True) + line(event="c") + line(id=1, rows=[1]) + line(event="d"))
    assert channel.request({"op": "counters"}, LONG_S) == {"id": 1, "rows": [1]}
    assert json.loads(peer.recv(1 << 16)) == {"op": "counters", "id": 1}
    assert channel.poll() == [{"event": "b"}, {"id": 99, "stale": True}, {"event": "c"}, {"event": "d"}]


def test_an_answer_that_is_an_error(pair: tuple[Channel, socket.socket]) -> None:
    channel, peer = pair
    peer.sendall(line(event="a") + line(id=1, error="unknown request"))
    with pytest.raises(RunFailed, match="rank 3: unknown request"):
        channel.request({"op": "nonsense"}, LONG_S)
    assert channel.poll() == [{"event": "a"}]


def test_a_request_without_an_answer_says_which(pair: tuple[Channel, socket.socket]) -> None:
    channel, peer = pair
    peer.sendall(line(event="a"))
    with pytest.raises(ChannelTimeout, match=r"rank 3 did not answer 'counters' within 0\.02 s"):
        channel.request({"op": "counters"}, SHORT_S)
    peer.sendall(line(id=1) + line(id=2))
    assert channel.request({"op": "again"}, LONG_S) == {"id": 2}, "the late answer is not taken for this one's"
    assert channel.poll() == [{"event": "a"}, {"id": 1}]


def test_children_say_who_they_are(hub: Hub) -> None:
    assert hub.accept(0.0) is None
    child = Channel.connect(hub.path, "rank", rank=1, name="rank 1 on h1")
    channel = hub.accept(LONG_S)
    assert channel is not None
    assert (channel.name, channel.hello["hello"], channel.hello["rank"]) == ("rank 1 on h1", "rank", 1)
    assert list(hub.wait(0.0)) == []
    channel.send({"op": "progress", "id": 7})
    child.answer(child.receive(LONG_S), waiting="nothing")
    assert channel.receive(LONG_S) == {"id": 7, "waiting": "nothing"}
    child.close()


def test_a_closed_child_is_told_once_with_its_last_words(hub: Hub) -> None:
    children = [Channel.connect(hub.path, "rank", rank=rank) for rank in range(2)]
    channels = [hub.accept(LONG_S) for _ in children]
    children[0].send({"event": "done"})
    children[0].close()
    assert list(hub.wait(LONG_S)) == [(channels[0], [{"event": "done"}])]
    assert channels[0] is not None
    assert channels[0].closed
    assert hub.channels == [channels[1]]
    assert list(hub.wait(0.0)) == []
    children[1].close()


def test_a_hub_that_closes_ends_its_children_and_takes_its_socket_along(hub: Hub) -> None:
    child = Channel.connect(hub.path, "fabric")
    assert hub.accept(LONG_S) is not None
    hub.close()
    with pytest.raises(ChannelClosed):
        child.receive(LONG_S)
    assert not hub.path.exists()
    child.close()


@pytest.mark.parametrize("nonsense", [b"swap s0\n", b"[1, 2]\n", b"\xff\xfe{}\n", b"\n"])
def test_who_sends_nonsense_is_told_so_and_left(nonsense: bytes, pair: tuple[Channel, socket.socket]) -> None:
    channel, peer = pair
    peer.sendall(line(event="ready") + nonsense)
    assert channel.poll() == [{"event": "ready"}]
    assert channel.closed
    told = json.loads(peer.recv(1000))
    assert "is no JSON object, which each line must be" in told["error"]
    assert peer.recv(1000) == b"", "the stream has ended"
    with pytest.raises(ChannelClosed):
        channel.receive(SHORT_S)


def test_nonsense_in_place_of_an_answer_is_named(pair: tuple[Channel, socket.socket]) -> None:
    channel, peer = pair
    peer.sendall(b"<html>\n")
    with pytest.raises(ChannelClosed, match="rank 3 sent nonsense: '<html>' is no JSON object"):
        channel.request({"op": "counters"}, LONG_S)


@pytest.mark.parametrize("first", [b"{}\n", b'{"hello": 5}\n', b"hello\n"])
def test_who_does_not_say_hello_is_not_let_in(first: bytes, hub: Hub) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(hub.path))
        stranger.sendall(first)
        with pytest.raises(ChannelClosed, match="a new child sent nonsense"):
            hub.accept(LONG_S)
        assert "error" in json.loads(stranger.recv(1000))
    assert hub.channels == []
