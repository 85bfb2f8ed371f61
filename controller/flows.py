"""Entries as OpenFlow 1.3 messages that every switch understands; pure functions of a datapath.

Table 0 matches the destination's prefix. How a choice among several ports is said depends on the switch: `nicira.py`
for Open vSwitch, `groups.py` for all others.
"""

import ipaddress

COOKIE = 0x7E57BED
ROUTE_TABLE = 0
MISS_PRIORITY = 0


def route(datapath, entry, choice):
    """The flow of table 0 for one entry; `choice` is what it does with packets for which there are several ports."""
    parser = datapath.ofproto_parser
    instructions = choice
    if not entry.ports:
        instructions = []
    elif len(entry.ports) == 1:
        instructions = [apply(datapath, [parser.OFPActionOutput(entry.ports[0])])]
    return add(datapath, ROUTE_TABLE, entry.priority, _destination(parser, entry.prefix), instructions)


def remove(datapath, entry):
    """Delete the flow of table 0 of an entry."""
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    return parser.OFPFlowMod(
        datapath=datapath,
        table_id=ROUTE_TABLE,
        command=ofproto.OFPFC_DELETE_STRICT,
        priority=entry.priority,
        match=_destination(parser, entry.prefix),
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
    )


def miss(datapath):
    """Count and drop what no entry matches: nothing is ever flooded."""
    return add(datapath, ROUTE_TABLE, MISS_PRIORITY, datapath.ofproto_parser.OFPMatch(), [])


def add(datapath, table, priority, match, instructions):
    """A flow of ours."""
    return datapath.ofproto_parser.OFPFlowMod(
        datapath=datapath,
        cookie=COOKIE,
        table_id=table,
        command=datapath.ofproto.OFPFC_ADD,
        priority=priority,
        match=match,
        instructions=instructions,
    )


def apply(datapath, actions):
    """The instruction to carry actions out at once."""
    return datapath.ofproto_parser.OFPInstructionActions(datapath.ofproto.OFPIT_APPLY_ACTIONS, actions)


def _destination(parser, prefix):
    network = ipaddress.ip_network(prefix)
    return parser.OFPMatch(eth_type=0x0800, ipv4_dst=(str(network.network_address), str(network.netmask)))
