"""A choice among ports as OpenFlow 1.3 has it: a SELECT group with a bucket for each port.

How the switch chooses is its own affair. Testbed's native switches do it as their program says: by a hash of the flow,
with a salt that the run gives to each switch, or by a draw for each packet.
"""

import flows


def choose(datapath, _entry, _salt, group):
    """The instructions by which a packet gets to one of a group's ports."""
    return [flows.apply(datapath, [datapath.ofproto_parser.OFPActionGroup(group)])]


def make_group(datapath, entry, group):
    """The message that makes a group of an entry's ports, all with the same share."""
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    buckets = [parser.OFPBucket(weight=1, actions=[parser.OFPActionOutput(port)]) for port in entry.ports]
    return [parser.OFPGroupMod(datapath, ofproto.OFPGC_ADD, ofproto.OFPGT_SELECT, group, buckets)]


def remove(datapath, group):
    """Delete a group and what leads to it."""
    ofproto = datapath.ofproto
    return datapath.ofproto_parser.OFPGroupMod(datapath, ofproto.OFPGC_DELETE, ofproto.OFPGT_SELECT, group)
