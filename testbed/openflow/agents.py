"""The thread that connects all agents to the controller and keeps them connected."""

from collections.abc import Sequence

from testbed.openflow.device import AgentSwitch, Datapath


class Agents:
    """The agents of one fabric; see the package's docstring. Not there yet: the signatures alone."""

    def __init__(self, switches: Sequence[AgentSwitch], datapath: Datapath, controller: tuple[str, int]) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Begin to connect."""

    def port_changed(self, switch: str, port: int, *, up: bool) -> None:
        """A cable was cut or mended at a port."""

    def stop(self) -> None:
        """Close all connections and end the thread."""
