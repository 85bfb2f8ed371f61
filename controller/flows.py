"""Entries as OpenFlow 1.3 messages with Open vSwitch's Nicira extensions; pure functions of a datapath.

Table 0 matches the destination's prefix. A choice among ports is made in table 1, where each set of ports is a *group*
(a number in reg1): by `multipath` over the addresses and ports, salted per switch, whose result is in reg0 (OpenFlow
1.3's own SELECT groups polarise on Open vSwitch and leave UDP ports out); or, for spraying, by the low four bits of the
source MAC, which the fabric draws anew for each packet and hop.
"""

import ipaddress

from ryu_api import nicira_ext

COOKIE = 0x7E57BED
SYMMETRIC_L3L4_UDP = 3  # NX_HASH_FIELDS_SYMMETRIC_L3L4_UDP: both packages lack the name
SPRAY_VALUES = 16
ROUTE_TABLE, CHOICE_TABLE = 0, 1
MISS_PRIORITY, CHOICE_PRIORITY = 0, 100


def route(datapath, entry, salt, group):
    """The flow of table 0 for one entry."""
    parser = datapath.ofproto_parser
    if not entry.ports:
        instructions = []
    elif len(entry.ports) == 1:
        instructions = [_apply(datapath, [parser.OFPActionOutput(entry.ports[0])])]
    else:
        actions = [_set_register(parser, "reg1", group)]
        if entry.kind == "ecmp":
            actions.append(
                parser.NXActionMultipath(
                    fields=SYMMETRIC_L3L4_UDP,
                    basis=salt & 0xFFFF,
                    algorithm=nicira_ext.NX_MP_ALG_MODULO_N,
                    max_link=len(entry.ports) - 1,  # the wire carries the highest number
                    arg=0,
                    ofs_nbits=nicira_ext.ofs_nbits(0, 31),
                    dst="reg0",
                )
            )
        instructions = [_apply(datapath, actions), parser.OFPInstructionGotoTable(CHOICE_TABLE)]
    return _add(datapath, ROUTE_TABLE, entry.priority, _destination(parser, entry.prefix), instructions)


def choices(datapath, entry, group):
    """The flows of table 1 that send a group's packets to the chosen port."""
    parser = datapath.ofproto_parser
    if entry.kind == "spray":
        chosen = [
            (
                parser.OFPMatch(reg1=group, eth_src=(f"00:00:00:00:00:{v:02x}", "00:00:00:00:00:0f")),
                v % len(entry.ports),
            )
            for v in range(SPRAY_VALUES)
        ]
    else:
        chosen = [(parser.OFPMatch(reg1=group, reg0=i), i) for i in range(len(entry.ports))]
    return [
        _add(
            datapath,
            CHOICE_TABLE,
            CHOICE_PRIORITY,
            match,
            [_apply(datapath, [parser.OFPActionOutput(entry.ports[index])])],
        )
        for match, index in chosen
    ]


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
    return _add(datapath, ROUTE_TABLE, MISS_PRIORITY, datapath.ofproto_parser.OFPMatch(), [])


def _destination(parser, prefix):
    network = ipaddress.ip_network(prefix)
    return parser.OFPMatch(eth_type=0x0800, ipv4_dst=(str(network.network_address), str(network.netmask)))


def _set_register(parser, register, value):
    return parser.NXActionRegLoad(ofs_nbits=nicira_ext.ofs_nbits(0, 31), dst=register, value=value)


def _apply(datapath, actions):
    return datapath.ofproto_parser.OFPInstructionActions(datapath.ofproto.OFPIT_APPLY_ACTIONS, actions)


def _add(datapath, table, priority, match, instructions):
    return datapath.ofproto_parser.OFPFlowMod(
        datapath=datapath,
        cookie=COOKIE,
        table_id=table,
        command=datapath.ofproto.OFPFC_ADD,
        priority=priority,
        match=match,
        instructions=instructions,
    )
