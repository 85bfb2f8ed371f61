"""A connection to the runtime of one `simple_switch`: Thrift's binary protocol, three services on one socket."""

import socket
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed.errors import MachineLacks, RunFailed

CALL_LIMIT_S = 30.0
CONTEXT = 0  # simple_switch has one
_INTERFACE = Path(__file__).with_name("runtime.thrift")
_SERVICES = {"Standard": "standard", "SimplePreLAG": "simple_pre_lag", "SimpleSwitch": "simple_switch"}
# TableOperationErrorCode and its like: what the switch means by the numbers of its refusals.
_TABLE_CODES = {
    1: "the table is full",
    2: "there is no such entry",
    3: "that entry is gone",
    4: "the table counts nothing",
    7: "there is no such table",
    8: "there is no such action",
    9: "the table has an action profile",
    17: "there is an entry for that already",
    18: "the key does not fit the table",
    20: "the default action is fixed by the program",
    21: "the default entry is fixed by the program",
    25: "the entries are fixed by the program",
    26: "the arguments do not fit the action",
}


class Refused(RunFailed):
    """The switch refuses a call."""


@cache
def interface() -> Any:
    """The types and services of `runtime.thrift`; raises MachineLacks without a Thrift library."""
    try:
        import thriftpy2
    except ImportError:
        raise MachineLacks(
            "bmv2's switches are filled over Thrift, and its Python library is not installed",
            hint="pip install 'testbed[bmv2]'",
        ) from None
    return thriftpy2.load(str(_INTERFACE), module_name="testbed_bmv2_thrift")


class Runtime:
    """`connected`: a stream socket to the switch's Thrift port, which closes with this. A context manager."""

    def __init__(self, connected: socket.socket) -> None:
        types = interface()
        from thriftpy2.protocol import TBinaryProtocol
        from thriftpy2.protocol.multiplex import TMultiplexedProtocol
        from thriftpy2.thrift import TClient
        from thriftpy2.transport import TBufferedTransport, TSocket

        connected.settimeout(CALL_LIMIT_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._refused: type[Exception] = types.Refused
        self._socket = connected
        protocol = TBinaryProtocol(TBufferedTransport(TSocket(sock=connected)))
        self._clients = [
            TClient(getattr(types, service), TMultiplexedProtocol(protocol, name))
            for service, name in _SERVICES.items()
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a method of any service; raises Refused, or RunFailed if the switch does not answer, now and later."""
        from thriftpy2.thrift import TApplicationException, TException

        method = next(getattr(client, name) for client in self._clients if hasattr(client, name))
        try:
            return method(*arguments)
        except self._refused as error:
            code = getattr(error, "code", 0)
            reason = _TABLE_CODES.get(code, f"code {code}") if name.startswith("bm_mt_") else f"code {code}"
            raise Refused(f"{name}: {reason}") from None
        except TApplicationException as error:
            raise Refused(f"{name}: {error.message}") from None
        except (TException, OSError, EOFError) as error:
            self.close()  # what comes yet would be taken for the answer to another call
            raise RunFailed(f"simple_switch does not answer {name}: {error}") from None
