"""A `simple_switch` that does not answer a call in time: no later call takes that answer for its own."""

import socket

import pytest

from testbed.dataplane.bmv2.runtime import CONTEXT, Runtime
from testbed.errors import RunFailed

pytest.importorskip("thriftpy2")


def test_a_connection_with_an_answer_outstanding_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.dataplane.bmv2.runtime.CALL_LIMIT_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    with Runtime(ours) as runtime, theirs:
        with pytest.raises(RunFailed, match="does not answer bm_register_read"):
            runtime.call("bm_register_read", CONTEXT, "seen", 0)
        asked = theirs.recv(1 << 16)
        assert b"seen" in asked
        with pytest.raises(RunFailed, match="does not answer bm_register_read"):
            runtime.call("bm_register_read", CONTEXT, "seen", 1)
        assert theirs.recv(1 << 16) == b"", "no more was asked"
