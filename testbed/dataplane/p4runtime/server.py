"""The gRPC server: one thread with an event loop, in which requests, streams and what switches tell take turns."""

import asyncio
import errno
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import grpc
from finsy.proto import p4r, p4r_grpc, rpc_status
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from grpc import StatusCode

from testbed.dataplane.p4runtime.device import Datapath, Device
from testbed.dataplane.p4runtime.pipeline import verify
from testbed.dataplane.p4runtime.refusal import Refusal, invalid, missing
from testbed.errors import MachineLacks, RunFailed
from testbed.threads import join

API_VERSION = "1.5.0"
POLL_S = 0.005  # for what switches tell, while a client is primary
_START_S = 10.0
_END_S = 1.0  # for a message that is under way when a stream ends
_MOST_MESSAGE_BYTES = 64 << 20  # of a request: a program's JSON
_MOST_METADATA_BYTES = 4 << 20  # in which a failed batch has an error an update
_MOST_WAITING = 4096  # messages to a client that does not read; packets, digests and the like are dropped then
_FAILED = "some of it failed"
_NONE = "a message that is none of P4Runtime's"
_DETAILS = "grpc-status-details-bin"
_OPTIONS = (
    ("grpc.max_receive_message_length", _MOST_MESSAGE_BYTES),
    ("grpc.max_metadata_size", _MOST_METADATA_BYTES),
    ("grpc.so_reuseport", 0),  # two servers at one address are a mistake
)
_log = logging.getLogger(__name__)
T = TypeVar("T")


class P4RuntimeServer:
    """Serves devices at one address. `start` and `stop` are called by one thread."""

    def __init__(self, devices: Sequence[Device], datapath: Datapath, address: str) -> None:
        """`address`: HOST:PORT; port 0 is one that is free, and `address` then says which."""
        self.address = address
        self._devices = {device.number: device for device in devices}
        self._datapath = datapath
        self._thread = threading.Thread(target=self._run, name="p4runtime", daemon=True)
        self._started = threading.Event()
        self._failure: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()

    def start(self) -> None:
        """Listen, in the network namespace of the calling thread. Raises RunFailed where that cannot be."""
        _check_free(self.address)
        self._thread.start()
        if not self._started.wait(_START_S):
            raise RunFailed(f"P4Runtime does not listen at {self.address} after {_START_S:g} s")
        if self._failure is not None:
            raise RunFailed(f"P4Runtime cannot listen at {self.address}: {self._failure}") from self._failure

    def stop(self) -> None:
        """End all streams and the thread. Twice is fine."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ending.set)
            join(self._thread)

    def port_changed(self, device: int, port: int, *, up: bool) -> None:
        """Tell clients that a cable was cut or mended at a port; from any thread."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(lambda: self._devices[device].port_changed(port, up=up))

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        server = grpc.aio.server(interceptors=[_Understood()], options=_OPTIONS)
        try:
            service = _Service(self._devices, self._held, self._pass_on)
            p4r_grpc.add_P4RuntimeServicer_to_server(service, server)
            port = server.add_insecure_port(self.address)
            self.address = f"{self.address.rpartition(':')[0]}:{port}"
            await server.start()
            self._loop = asyncio.get_running_loop()
        except Exception as error:
            self._failure = error
            return
        finally:
            self._started.set()
        telling = asyncio.create_task(self._tell())
        await self._ending.wait()
        telling.cancel()
        await server.stop(grace=0)

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            try:
                if any(device.arbitration.primary is not None for device in self._devices.values()):
                    self._pass_on()
                    for device in self._devices.values():
                        device.tick(self._held, time.monotonic_ns(), time.time_ns())
            except Exception:
                _log.exception("what switches tell cannot be had")

    def _pass_on(self) -> None:
        """Packets to clients."""
        for number, _, frame in self._datapath.punted():
            if number in self._devices:
                self._devices[number].packet_in(frame)

    @contextmanager
    def _held(self) -> Iterator[None]:
        try:
            with self._datapath.held():
                yield
        except RuntimeError as error:
            raise Refusal(StatusCode.UNAVAILABLE, f"the switch does not come to rest: {error}") from error


def _check_free(address: str) -> None:
    """Raises RunFailed, saying why, where nobody can listen; gRPC tells that to its log alone."""
    host, _, port = address.rpartition(":")
    try:
        family, kind, _, _, found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what has ended there is in nobody's way
            trial.bind(found)
            trial.listen()
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        why = "another process listens there" if taken else error.strerror or str(error)
        told = f"P4Runtime cannot listen at {address}: {why}"
        raise RunFailed(told, hint="name another port, or 0 for one that is free" if taken else "") from error


class _Stream:
    """One client's stream; messages wait here until it takes them."""

    def __init__(self) -> None:
        self.device: Device | None = None
        self.waiting: asyncio.Queue[p4r.StreamMessageResponse | None] = asyncio.Queue()  # None: the end

    def tell(self, message: p4r.StreamMessageResponse) -> None:
        if message.HasField("arbitration") or self.waiting.qsize() < _MOST_WAITING:
            self.waiting.put_nowait(message)

    def hear(self, message: p4r.StreamMessageRequest, devices: dict[int, Device]) -> None:
        """Raises Refusal, which ends the stream."""
        if not message.HasField("arbitration"):
            if self.device is None:
                raise Refusal(StatusCode.FAILED_PRECONDITION, "a stream begins with an arbitration")
            self.device.stream(self, message)
            return
        number = message.arbitration.device_id
        if self.device is None:
            device = _device(devices, number)
            device.arbitrate(self, message.arbitration)
            self.device = device
        elif number != self.device.number:
            raise Refusal(StatusCode.FAILED_PRECONDITION, f"this stream is of device {self.device.number}")
        else:
            self.device.arbitrate(self, message.arbitration)

    def leave(self) -> None:
        if self.device is not None:
            self.device.leave(self)
            self.device = None


Context = Any  # grpc.aio.ServicerContext, which has no types


class _Understood(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Refuses a request whose bytes are none; gRPC would log a traceback, and answer UNKNOWN with a text of its own."""

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        handler = await continuation(details)
        if handler is None or handler.request_streaming:  # a stream ends itself
            return handler

        def parse(data: bytes) -> Any:
            try:
                return handler.request_deserializer(data)
            except DecodeError:
                return None

        async def one(request: Any, context: Context) -> Any:
            await _require(request, context)
            return await handler.unary_unary(request, context)

        async def many(request: Any, context: Context) -> AsyncIterator[Any]:
            await _require(request, context)
            async for response in handler.unary_stream(request, context):
                yield response

        if handler.response_streaming:
            return handler._replace(request_deserializer=parse, unary_stream=many)
        return handler._replace(request_deserializer=parse, unary_unary=one)


class _Service(p4r_grpc.P4RuntimeServicer):
    """The calls; each ends with a status, whatever it was asked."""

    def __init__(self, devices: dict[int, Device], held: Callable[[], Any], pass_on: Callable[[], None]) -> None:
        self._devices = devices
        self._held = held
        self._pass_on = pass_on
        self._setting = asyncio.Lock()  # of pipelines: compiling takes its time

    async def Write(self, request: p4r.WriteRequest, context: Context) -> p4r.WriteResponse:  # noqa: N802
        async def answer() -> p4r.WriteResponse:
            device = _device(self._devices, request.device_id)
            outcomes = device.write(request, self._held, time.monotonic_ns())
            await _settle(outcomes, context)
            return p4r.WriteResponse()

        return await _answered(answer, context)

    async def Read(self, request: p4r.ReadRequest, context: Context) -> AsyncIterator[p4r.ReadResponse]:  # noqa: N802
        async def answer() -> tuple[list[p4r.ReadResponse], list[Refusal | None]]:
            device = _device(self._devices, request.device_id)
            return device.read(request, self._held, time.monotonic_ns())

        responses, outcomes = await _answered(answer, context)
        for response in responses:
            yield response
        await _settle(outcomes, context)

    async def SetForwardingPipelineConfig(  # noqa: N802
        self, request: p4r.SetForwardingPipelineConfigRequest, context: Context
    ) -> p4r.SetForwardingPipelineConfigResponse:
        async def answer() -> p4r.SetForwardingPipelineConfigResponse:
            async with self._setting:
                await self._set(_device(self._devices, request.device_id), request)
            return p4r.SetForwardingPipelineConfigResponse()

        return await _answered(answer, context)

    async def _set(self, device: Device, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        device.require_primary(request)
        action, actions = request.action, p4r.SetForwardingPipelineConfigRequest
        if action == actions.COMMIT:
            if request.HasField("config"):
                raise invalid("a commit has no config: it is of what was saved")
            with self._held():
                self._pass_on()
                device.commit()
            return
        if action not in (
            actions.VERIFY,
            actions.VERIFY_AND_SAVE,
            actions.VERIFY_AND_COMMIT,
            actions.RECONCILE_AND_COMMIT,
        ):
            raise invalid("a forwarding pipeline config is verified, saved, committed or reconciled")
        if not request.HasField("config"):
            raise invalid("a config is wanted")
        verified = await asyncio.to_thread(verify, request.config)
        device.require_primary(request)
        if action == actions.VERIFY:
            return
        with self._held():
            self._pass_on()
            if action == actions.RECONCILE_AND_COMMIT:
                device.reconcile(verified, time.monotonic_ns())
                return
            device.save(verified)
            if action == actions.VERIFY_AND_COMMIT:
                device.commit()

    async def GetForwardingPipelineConfig(  # noqa: N802
        self, request: p4r.GetForwardingPipelineConfigRequest, context: Context
    ) -> p4r.GetForwardingPipelineConfigResponse:
        async def answer() -> p4r.GetForwardingPipelineConfigResponse:
            config = _device(self._devices, request.device_id).config(request.response_type)
            return p4r.GetForwardingPipelineConfigResponse(config=config)

        return await _answered(answer, context)

    async def Capabilities(  # noqa: N802
        self, request: p4r.CapabilitiesRequest, context: Context
    ) -> p4r.CapabilitiesResponse:
        async def answer() -> p4r.CapabilitiesResponse:
            if request.device_id:
                _device(self._devices, request.device_id)
            return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

        return await _answered(answer, context)

    async def StreamChannel(  # type: ignore[override] # noqa: N802 - a handler may write to the context itself
        self, requests: AsyncIterator[p4r.StreamMessageRequest], context: Context
    ) -> None:
        stream = _Stream()

        async def say() -> None:
            while (message := await stream.waiting.get()) is not None:
                await context.write(message)

        async def answer() -> None:
            try:
                async for request in requests:
                    stream.hear(request, self._devices)
            except DecodeError as error:
                raise invalid(_NONE) from error
            finally:  # a status may not be sent while a message is
                stream.waiting.put_nowait(None)
                await asyncio.wait({saying}, timeout=_END_S)

        saying = asyncio.create_task(say())
        try:
            await _answered(answer, context)
        except asyncio.CancelledError:
            pass  # the client is gone, or the server ends: gRPC would log it as an error
        finally:
            saying.cancel()
            stream.leave()


def _device(devices: dict[int, Device], number: int) -> Device:
    if number not in devices:
        raise missing(f"there is no device {number}; there is {', '.join(map(str, devices))}")
    return devices[number]


async def _require(request: Any, context: Context) -> None:
    if request is None:
        await context.abort(StatusCode.INVALID_ARGUMENT, _NONE)


async def _answered(answer: Callable[[], Awaitable[T]], context: Context) -> T:
    """The answer, or the end of the call with the status that says why there is none."""
    try:
        return await answer()
    except Refusal as refusal:
        await context.abort(refusal.code, refusal.message)
    except MachineLacks as error:
        await context.abort(StatusCode.UNAVAILABLE, error.message)
    except (asyncio.CancelledError, grpc.aio.AbortError):
        raise
    except Exception:
        _log.exception("this was not foreseen")
        await context.abort(StatusCode.INTERNAL, "an error of this switch's own")
    raise AssertionError  # `abort` does not return


async def _settle(outcomes: Sequence[Refusal | None], context: Context) -> None:
    """End the call as the specification has it if some of a batch failed: UNKNOWN, with an error for each of it."""
    if all(outcome is None for outcome in outcomes):
        return
    status = rpc_status.Status(code=StatusCode.UNKNOWN.value[0], message=_FAILED)
    for outcome in outcomes:
        error = p4r.Error()
        if outcome is not None:
            error.canonical_code, error.message = outcome.number, outcome.message
        packed = any_pb2.Any()
        packed.Pack(error)
        status.details.append(packed)
    await context.abort(StatusCode.UNKNOWN, _FAILED, ((_DETAILS, status.SerializeToString()),))
