"""OpenFlow 1.3 for native switches: an agent each, which turns a controller's flows and groups into forwarding entries.

How a fabric process starts them, from the thread that is in the controller's network namespace:

    agents = Agents(switches, datapath, ("127.0.0.1", 6653))
    agents.start()                           # returns at once; one thread serves all switches
    agents.port_changed("s0", 3, up=False)   # from any thread, when a cable is cut or mended
    agents.stop()                            # closes the connections and joins the thread; entries stay as they are

`switches` are `AgentSwitch`es, `datapath` is what moves packets (both in `device.py`). Each agent connects to the
controller, again and again where it must, as Open vSwitch does; without a controller packets go on by what is there.
Tables are changed only inside `with datapath.held()`, all changes that came together at once, and read likewise.

What the tables of p4/include/routing.p4 can hold is accepted, all else is refused by an error that says what it was:

- Flows of table 0 match all packets, IPv4, or a prefix of `ipv4_dst`; priorities may be any, and decide before the
  prefix's length. They drop, or send to one port, to one group or to the controller. A flow that matches all packets
  leads to nothing or to the controller; the programs drop what is not IPv4, whatever the flow. The time to live is
  decremented with or without the action that says so. No timeouts, no buffers, no meters.
- Groups: SELECT, whose buckets each have one port and any weight; the program chooses by what it is made for: `l3_ecmp`
  by a hash of the flow, `spray` anew for each packet. INDIRECT, and ALL with one bucket, are that port.
- The salt of a program's hash is not the controller's affair: whoever makes the switch sets it (`Forwarding.set_salt`).
"""

from testbed.openflow.agents import Agents
from testbed.openflow.device import AgentSwitch, Datapath, Port, PortCounters

__all__ = ["AgentSwitch", "Agents", "Datapath", "Port", "PortCounters"]
