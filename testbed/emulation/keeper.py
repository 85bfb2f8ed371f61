"""The process that holds a network up for `testbed up`, from its start until `testbed down`.

It owns the network as a run does its own: the children die with it, and its end, however it comes, leaves a record that
`testbed clean` can follow. The command that starts it waits until the network is up and then goes.
"""

import contextlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from testbed.emulation.network import CONTROL, EmulatedNetwork, SetupTimes
from testbed.emulation.state import ROOT, ProcessKey, RunState
from testbed.errors import Interrupted, MachineLacks, RunFailed, TestbedError, UsageError
from testbed.fabric.counters import Swapped
from testbed.plan.model import Plan
from testbed.run.channel import Channel, ChannelClosed, ChannelTimeout, Message

_TICK_S = 0.1
_DOWN_S = 60.0
_SWAP_S = 120.0  # a program that has to be compiled first
_SWAP: Mapping[str, tuple[type, ...]] = {
    "id": (int,),
    "switch": (str,),
    "program": (str,),
    "entries": (str, type(None)),
    "keep": (bool,),
}  # what such a request must have
_OPERATOR = "operator"  # how who asks says hello
_DIED = '{"error": "the process that holds the network died", "hint": "run `testbed clean`", "status": 1}'


def bring_up(plan: Plan, *, root: Path = ROOT) -> tuple[RunState, SetupTimes]:
    """Bring a network up that stays when this process ends. Raises what `EmulatedNetwork.start` raises."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _keep(plan, root, writing)
    os.close(writing)
    try:
        with os.fdopen(reading) as stream:
            text = stream.read()
    except BaseException:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        raise
    answer: dict[str, Any] = json.loads(text or _DIED)
    if "error" in answer:
        os.waitpid(pid, 0)
        raise _told(answer)
    return RunState.load(root / answer["run_id"]), SetupTimes(**answer["times"])


def swap_program(state: RunState, switch: str, program: str, entries: str | None, *, keep: bool) -> Swapped:
    """Have the process that holds a network exchange a switch's program.

    Raises what `EmulatedNetwork.swap` raises, and RunFailed if the process does not answer.
    """
    try:
        channel = Channel.connect(state.directory / CONTROL, role=_OPERATOR)
    except OSError as error:
        raise RunFailed(f"network {state.run_id} does not answer: {error.strerror}", hint="testbed status") from error
    channel.name = f"network {state.run_id}"
    try:
        asked = {"op": "swap", "switch": switch, "program": program, "entries": entries, "keep": keep}
        answer = channel.request(asked, _SWAP_S)
    finally:
        channel.close()
    if "refused" in answer:
        raise _told(answer["refused"])
    answer = answer["swapped"]
    return Swapped(answer["switch"], answer["blackout_ns"], tuple(answer["kept"]), tuple(answer["reset"]))


def bring_down(state: RunState) -> None:
    """End the process that holds a network and wait until all is gone; raises RunFailed if that takes too long."""
    owner: ProcessKey = state.record.owner
    if owner.alive:
        os.kill(owner.pid, signal.SIGTERM)
    deadline = time.monotonic() + _DOWN_S
    while owner.alive:
        if time.monotonic() > deadline:
            raise RunFailed(f"network {state.run_id} did not go down within {_DOWN_S:g} s", hint="run `testbed clean`")
        time.sleep(_TICK_S / 10)
    if state.directory.exists():
        raise RunFailed(f"network {state.run_id} did not go down cleanly", hint="run `testbed clean`")


def _keep(plan: Plan, root: Path, report: int) -> NoReturn:
    """The life of the keeper."""
    status = 1
    try:
        _leave_terminal()
        signal.signal(signal.SIGTERM, _interrupt)
        status = _hold(plan, root, report)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _hold(plan: Plan, root: Path, report: int) -> int:
    def tell(**fields: Any) -> None:
        os.write(report, json.dumps(fields).encode())
        os.close(report)

    try:
        state = RunState.create("up", plan.spec.name, root, root=root)
    except TestbedError as error:
        tell(**_telling(error))
        return error.exit_status
    logs = state.directory / "logs"
    logs.mkdir()
    _log_to(logs / "keeper.log")
    network = EmulatedNetwork(plan, state, logs)
    status = 0
    try:
        times = network.start()
        tell(run_id=state.run_id, times=asdict(times))
        while True:
            _attend(network)
    except Interrupted:
        pass
    except TestbedError as error:
        status = error.exit_status
        tell(**_telling(error))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    problems = network.stop()
    if problems:
        print(*problems, sep="\n", file=sys.stderr)
    else:
        state.remove()
    return status


def _attend(network: EmulatedNetwork) -> None:
    """Serve who asks for something, as `testbed p4 swap` does; one who goes before the answer does no harm."""
    with contextlib.suppress(ChannelClosed, ChannelTimeout):  # who connects and says nothing
        network.hub.accept(0.0)
    for channel, messages in network.hub.wait(_TICK_S):
        for message in messages if channel.hello["hello"] == _OPERATOR else ():
            with contextlib.suppress(ChannelClosed):
                _serve(network, channel, message)


def _serve(network: EmulatedNetwork, channel: Channel, request: Message) -> None:
    """Carry a request of an operator's out."""
    try:
        for key, kinds in _SWAP.items():
            if not isinstance(request.get(key), kinds):
                raise UsageError(f"a request to swap has {', '.join(_SWAP)}, and {key} is {request.get(key)!r}")
        swapped = network.swap(
            request["switch"], request["program"], request["entries"], keep_registers=request["keep"]
        )
    except TestbedError as error:
        channel.answer(request, refused=_telling(error))
    else:
        channel.answer(request, swapped=asdict(swapped))


def _telling(error: TestbedError) -> dict[str, Any]:
    """An error as it is told to another process, where `_told` makes it again."""
    return {"error": error.message, "hint": error.hint, "status": error.exit_status}


def _told(answer: Mapping[str, Any]) -> TestbedError:
    kinds: Mapping[int, type[TestbedError]] = {each.exit_status: each for each in (UsageError, MachineLacks)}
    return kinds.get(answer["status"], RunFailed)(answer["error"], hint=answer.get("hint", ""))


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Interrupted("asked to go down")


def _leave_terminal() -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def _log_to(path: Path) -> None:
    with path.open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
