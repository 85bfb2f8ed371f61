"""The thread that connects all agents to the controller, and connects them again when that goes away."""

import contextlib
import errno
import logging
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from testbed.openflow.agent import Agent
from testbed.openflow.device import AgentSwitch, Datapath
from testbed.openflow.session import Hangup, Session

POLL_S = 0.005  # for frames to the controller, while a flow leads there
FIRST_RETRY_S, LAST_RETRY_S = 0.125, 1.0  # doubling; the last is the least that Open vSwitch can be set to
_CONNECT_S = 5.0
_STOP_S = 5.0
_CHUNK_BYTES = 1 << 16
_NS = 1_000_000_000
_log = logging.getLogger(__name__)


class Agents:
    """The agents of one fabric; see the package's docstring."""

    def __init__(self, switches: Sequence[AgentSwitch], datapath: Datapath, controller: tuple[str, int]) -> None:
        """`controller`: IPv4 address and port."""
        self._datapath = datapath
        self._selector = selectors.DefaultSelector()
        self._ear, self._bell = socket.socketpair()
        self._ear.setblocking(False)
        self._bell.setblocking(False)
        self._selector.register(self._ear, selectors.EVENT_READ)
        self._changes: deque[tuple[str, int, bool]] = deque()
        self._ending = False
        self._deaf_until_s = 0.0  # after the datapath failed to say what came
        self._thread = threading.Thread(target=self._run, name="openflow", daemon=True)
        self._lines = {
            switch.name: _Line(Agent(switch, datapath, time.monotonic_ns()), controller, self._selector)
            for switch in switches
        }

    def start(self) -> None:
        """Begin to connect, from the network namespace of the calling thread."""
        self._thread.start()

    def port_changed(self, switch: str, port: int, *, up: bool) -> None:
        """Tell the controller that a cable was cut or mended at a port."""
        if not self._ending:
            self._changes.append((switch, port, up))
            self._ring()

    def stop(self) -> None:
        """Close all connections and end the thread, or leave it to do so when it can. Twice is fine."""
        if self._ending:
            return
        self._ending = True
        if self._thread.ident is None:
            self._close()
            return
        self._ring()
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            _log.error("the thread of the OpenFlow agents is not done after %g s and is left alone", _STOP_S)

    def _close(self) -> None:
        for line in self._lines.values():
            line.close()
        self._selector.close()
        self._ear.close()
        self._bell.close()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):  # it is ringing already, or the thread has ended
            self._bell.send(b"!")

    def _run(self) -> None:
        try:
            self._serve()
        finally:
            self._close()

    def _serve(self) -> None:
        while not self._ending:
            ready = self._selector.select(self._patience_s())
            self._pass_on()  # before flows change: what came while none led here is not for those that will
            for key, events in ready:
                if key.data is None:
                    self._ear.recv(_CHUNK_BYTES)
                else:
                    key.data.ready(events)
            while self._changes:
                switch, port, up = self._changes.popleft()
                if switch in self._lines:
                    self._lines[switch].port_changed(port, up=up)
            for line in self._lines.values():
                line.tick()

    def _polls(self) -> bool:
        return any(line.agent.tables.asks_controller for line in self._lines.values())

    def _patience_s(self) -> float:
        due = min((line.due_s for line in self._lines.values()), default=float("inf"))
        wait = max(0.0, due - time.monotonic())
        return min(wait, POLL_S) if self._polls() else min(wait, 3600.0)

    def _pass_on(self) -> None:
        """Send frames to the controller; those of switches without a flow that leads there are forgotten."""
        if time.monotonic() < self._deaf_until_s:
            return
        try:
            frames = self._datapath.punted()
        except Exception:
            _log.exception("frames for the controller cannot be had")
            self._deaf_until_s = time.monotonic() + LAST_RETRY_S
            return
        for switch, in_port, frame in frames:
            if switch in self._lines and self._lines[switch].agent.tables.asks_controller:
                self._lines[switch].punted(in_port, frame)


class _Line:
    """One switch's connection, or the want of one."""

    def __init__(self, agent: Agent, controller: tuple[str, int], selector: selectors.BaseSelector) -> None:
        self.agent = agent
        self._controller = controller
        self._selector = selector
        self._socket: socket.socket | None = None
        self._session: Session | None = None
        self._retry_s = FIRST_RETRY_S
        self._deadline_s = 0.0  # without a session: when to connect, or to give a connect up

    @property
    def due_s(self) -> float:
        """When `tick` has something to do, on the monotonic clock."""
        return self._session.due_ns / _NS if self._session is not None else self._deadline_s

    def tick(self) -> None:
        if (session := self._session) is not None:
            self._guarded(lambda: session.tick(time.monotonic_ns()))
        elif time.monotonic() >= self._deadline_s:
            if self._socket is None:
                self._guarded(self._connect)
            else:
                self._lost("no answer to the attempt to connect")

    def ready(self, events: int) -> None:
        """The socket can be read or written."""
        if (session := self._session) is None:
            self._guarded(self._connected)
        elif events & selectors.EVENT_READ:
            self._guarded(lambda: self._read(session))
        else:
            self._flush()

    def port_changed(self, port: int, *, up: bool) -> None:
        self._guarded(lambda: self.agent.port_changed(port, up=up))

    def punted(self, in_port: int, frame: bytes) -> None:
        self._guarded(lambda: self.agent.punted(in_port, frame))

    def close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(KeyError):  # it never was registered
                self._selector.unregister(self._socket)
            self._socket.close()
        self._socket = self._session = None
        self.agent.send = lambda _: None

    def _connect(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(self._socket, selectors.EVENT_WRITE, self)
        self._deadline_s = time.monotonic() + _CONNECT_S
        failed = self._socket.connect_ex(self._controller)
        if failed not in (0, errno.EINPROGRESS):
            self._lost(os.strerror(failed))

    def _connected(self) -> None:
        assert self._socket is not None
        failed = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            self._lost(os.strerror(failed))
            return
        self._session = Session(self.agent, time.monotonic_ns())

    def _read(self, session: Session) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise Hangup("the controller closed the connection")
        session.receive(data, time.monotonic_ns())
        if session.greeted:
            self._retry_s = FIRST_RETRY_S

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do something, and send what comes of it; whatever goes wrong ends this connection alone."""
        try:
            work()
        except Hangup as error:
            self._flush()
            self._lost(str(error))
        except OSError as error:
            self._lost(str(error))
        except Exception:
            _log.exception("%s: this was not foreseen", self.agent.switch.name)
            self._lost("an error of this switch's own")
        else:
            self._flush()

    def _flush(self) -> None:
        """Send what can be sent now, and wait for what must come first."""
        if self._session is None or self._socket is None:
            return
        outgoing = self._session.outgoing
        try:
            while outgoing:
                del outgoing[: self._socket.send(outgoing[:_CHUNK_BYTES])]
        except BlockingIOError:
            pass
        except OSError as error:
            self._lost(str(error))
            return
        events = 0 if self._session.backlog else selectors.EVENT_READ
        self._selector.modify(self._socket, events | (selectors.EVENT_WRITE if outgoing else 0), self)

    def _lost(self, why: str) -> None:
        if self._session is not None:
            _log.warning("%s: connection lost: %s", self.agent.switch.name, why)
        self.close()
        self._deadline_s = time.monotonic() + self._retry_s
        self._retry_s = min(2 * self._retry_s, LAST_RETRY_S)
