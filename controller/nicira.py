"""A choice among ports on Open vSwitch, with its Nicira extensions.

It is made in table 1, where each set of ports is a *group* (a number in reg1): by `multipath` over the addresses and
ports, salted per switch, whose result is in reg0 (OpenFlow 1.3's own SELECT groups polarise on Open vSwitch and leave
UDP ports out); or, for spraying, by the low four bits of the source MAC, which the fabric draws anew for each packet
and hop.
"""

import flows
from ryu_api import nicira_ext

SYMMETRIC_L3L4_UDP = 3  # NX_HASH_FIELDS_SYMMETRIC_L3L4_UDP: both packages lack the name
SPRAY_VALUES = 16
CHOICE_TABLE = 1
CHOICE_PRIORITY = 100


def choose(datapath, entry, salt, group):
    """The instructions by which a packet gets to one of a group's ports."""
    parser = datapath.ofproto_parser
    actions = [parser.NXActionRegLoad(ofs_nbits=nicira_ext.ofs_nbits(0, 31), dst="reg1", value=group)]
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
    return [flows.apply(datapath, actions), parser.OFPInstructionGotoTable(CHOICE_TABLE)]


def make_group(datapath, entry, group):
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
        flows.add(
            datapath,
            CHOICE_TABLE,
            CHOICE_PRIORITY,
            match,
            [flows.apply(datapath, [parser.OFPActionOutput(entry.ports[index])])],
        )
        for match, index in chosen
    ]
