"""Mininet nodes whose namespaces are made beforehand in a batch, and whose shells start when first needed.

Plain Mininet forks a shell for every node and configures it line by line; here `net.get("h0").cmd(...)` works just the
same, but costs nothing until it is called.
"""

from subprocess import Popen
from typing import Any

from mininet.node import Host, Node, Switch

from testbed.emulation import namespaces
from testbed.emulation.commands import environment


class LazyShell(Node):  # type: ignore[misc]  # mininet has no types
    """A Mininet node in a namespace that already exists. Put it before the Mininet class in the list of bases."""

    def __init__(self, name: str, *, namespace: str, environment: dict[str, str] | None = None, **params: Any) -> None:
        self.namespace = namespace
        self._environment = environment or {}
        self._described = False
        # To Mininet, inNamespace means that it makes the namespace and moves interfaces there.
        super().__init__(name, **{**params, "inNamespace": False})
        self._described = True

    @classmethod
    def setup(cls) -> None:
        """Mininet would end the whole process if a tool is missing; `testbed doctor` and the first use tell instead."""

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 - Mininet's name
        """Called by Mininet when a node is made: not yet."""

    def config(self, **_params: Any) -> dict[str, Any]:
        """Addresses, neighbours and offloads are set for all nodes together, by `testbed.emulation.interfaces`."""
        return {}

    def sendCmd(self, *args: Any, **kwargs: Any) -> None:  # noqa: N802 - Mininet's name
        self._need_shell()
        super().sendCmd(*args, **kwargs)

    def cmd(self, *args: Any, **kwargs: Any) -> str:
        if not self._described:
            return ""  # a switch's constructor would bring its loopback up
        self._need_shell()
        return str(super().cmd(*args, **kwargs))

    def popen(self, *args: Any, **kwargs: Any) -> "Popen[bytes]":
        """As in Mininet; without a shell of the node's, since a namespace with a name needs none to be entered."""
        return super().popen(*args, **{"mncmd": [], **kwargs})  # type: ignore[no-any-return]

    def _need_shell(self) -> None:
        if not self.shell:
            super().startShell()

    def _popen(self, cmd: list[str], **params: Any) -> "Popen[bytes]":
        params.setdefault("env", {**environment(), **self._environment})
        return super()._popen(namespaces.entering(self.namespace, cmd), **params)  # type: ignore[no-any-return]


class PlannedHost(LazyShell, Host):  # type: ignore[misc]
    """A host of the plan."""


class P4Switch(LazyShell, Switch):  # type: ignore[misc]
    """A switch of the plan that runs a P4 program: in the fabric's memory, or as a process of bmv2's."""

    def start(self, _controllers: Any) -> None:
        """Nothing: it is there, with its routes, before the first packet."""

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 - Mininet's name
        """Nothing: it goes with the fabric, or its process."""
