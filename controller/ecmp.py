"""The default app: installs the plan's routes on every switch, confirms them by barriers, and reacts to link failures.

Written once against the Ryu API. Under `testbed run` it is started by `runner.py`; by hand, under either package,
with the environment variable TESTBED_PLAN naming a `plan.json` (e.g. `TESTBED_PLAN=plan.json ryu-manager ecmp.py`).
It asks each switch what it is, since Open vSwitch needs to be told of a choice among ports in words of its own.
What it does not do: compute a route, flood, or answer packets.
"""

import os

import flows
import groups
import nicira
from routes import Routes
from ryu_api import CONFIG_DISPATCHER, DEAD_DISPATCHER, MAIN_DISPATCHER, App, ofp_event, ofproto_v1_3, set_ev_cls

OPEN_VSWITCH = b"Open vSwitch"  # its hardware description


class Ecmp(App):
    """Routes by prefix, with a hash or a draw per packet where several ports lead on."""

    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]  # noqa: RUF012 - the API's way

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.routes = Routes.read(os.environ["TESTBED_PLAN"])
        self.report = self._log
        self._switches = {}  # name -> _Switch, those that are connected
        self._dark = set()  # (switch, port) whose link is down
        self._down = set()  # cables: those with a dark end, as the two ends tell of it one after the other
        self._counting = None

    # -- what the runner asks ------------------------------------------------------------------------------------

    def count(self, done):
        """Ask every switch for its port and flow counters; `done(rows)` when all have answered.

        A row is {switch, kind: port|flow, name, packets, bytes, dropped}.
        """
        self._counting = _Counting(done, {(name, kind) for name in self._switches for kind in ("port", "flow")})
        for switch in list(self._switches.values()):
            parser, ofproto = switch.datapath.ofproto_parser, switch.datapath.ofproto
            switch.datapath.send_msg(parser.OFPPortStatsRequest(switch.datapath, 0, ofproto.OFPP_ANY))
            switch.datapath.send_msg(
                parser.OFPFlowStatsRequest(switch.datapath, 0, flows.ROUTE_TABLE, ofproto.OFPP_ANY, ofproto.OFPG_ANY)
            )
        self._counting.finish_if_done()

    # -- switches --------------------------------------------------------------------------------------------------

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])
    def switch_changed(self, event):
        datapath = event.datapath
        name = self.routes.names.get(datapath.id)
        if name is None:
            if datapath.id is not None:
                self.report("unknown-switch", dpid=datapath.id)
        elif event.state == MAIN_DISPATCHER:
            self._switches[name] = _Switch(name, datapath)
            datapath.send_msg(datapath.ofproto_parser.OFPDescStatsRequest(datapath, 0))
        elif name in self._switches and self._switches[name].datapath is datapath:
            del self._switches[name]
            self.report("switch-lost", switch=name)

    @set_ev_cls(ofp_event.EventOFPDescStatsReply, MAIN_DISPATCHER)
    def described(self, event):
        datapath = event.msg.datapath
        switch = self._switch(event)
        if switch is None:
            return
        if event.msg.body.hw_desc == OPEN_VSWITCH:
            self._begin(switch, nicira)
        else:
            datapath.send_msg(datapath.ofproto_parser.OFPGroupDescStatsRequest(datapath, 0))

    @set_ev_cls(ofp_event.EventOFPGroupDescStatsReply, MAIN_DISPATCHER)
    def groups_described(self, event):
        """What an earlier connection left on the switch is used until the new flows are there."""
        switch = self._switch(event)
        if switch is None:
            return
        switch.left_over += [group.group_id for group in event.msg.body]
        if not event.msg.flags & event.msg.datapath.ofproto.OFPMPF_REPLY_MORE:
            self._begin(switch, groups)

    @set_ev_cls(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)
    def barrier_passed(self, event):
        switch = self._switch(event)
        if switch is None or not switch.pending:
            return
        switch.pending -= 1
        if switch.pending == 0 and all(
            name in self._switches and self._switches[name].confirmed for name in self.routes.salts
        ):
            self.report("installed", switches=len(self._switches), down=sorted(self._down))

    @set_ev_cls(ofp_event.EventOFPErrorMsg, MAIN_DISPATCHER)
    def switch_refused(self, event):
        name = self.routes.names.get(event.msg.datapath.id, event.msg.datapath.id)
        self.report("refused", switch=name, type=event.msg.type, code=event.msg.code)

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def port_changed(self, event):
        deleted = event.msg.reason == event.msg.datapath.ofproto.OFPPR_DELETE
        self._see(event.msg.datapath, [event.msg.desc], deleted)

    @set_ev_cls(ofp_event.EventOFPPortDescStatsReply, [CONFIG_DISPATCHER, MAIN_DISPATCHER])
    def ports_described(self, event):
        """What the ports are like when a switch connects: the package asks, before the switch counts as connected."""
        self._see(event.msg.datapath, event.msg.body)

    def _see(self, datapath, ports, deleted=False):
        """Ports are as described, or gone; what that changes is installed everywhere."""
        name = self.routes.names.get(datapath.id)
        for port in ports:
            if self.routes.cable(name, port.port_no) is not None:
                dark = deleted or port.state & datapath.ofproto.OFPPS_LINK_DOWN
                (self._dark.add if dark else self._dark.discard)((name, port.port_no))
        before, self._down = self._down, {self.routes.cable(*end) for end in self._dark}
        if self._down != before:
            self.report("links", down=sorted(self._down), foreseen=self.routes.foresaw(self._down))
            for switch in list(self._switches.values()):
                if switch.words is not None:
                    self._install(switch)

    def _begin(self, switch, words):
        """Install for the first time on this connection, in the words that the switch understands."""
        switch.words = words
        switch.last_group = max(switch.left_over, default=0)
        switch.datapath.send_msg(flows.miss(switch.datapath))
        self._install(switch)

    def _install(self, switch):
        """Bring a switch from what it has to what it should have now; a barrier confirms it."""
        wanted = self.routes.entries(switch.name, self._down)
        send = switch.datapath.send_msg
        for entry in wanted.values():
            if switch.installed.get(entry.prefix) != entry:
                for message in switch.messages(entry, self.routes.salts[switch.name]):
                    send(message)
        for prefix, entry in switch.installed.items():
            if prefix not in wanted:
                send(flows.remove(switch.datapath, entry))
        for group in switch.left_over:
            send(groups.remove(switch.datapath, group))
        switch.installed, switch.left_over = wanted, []
        switch.pending += 1
        send(switch.datapath.ofproto_parser.OFPBarrierRequest(switch.datapath))

    # -- counters --------------------------------------------------------------------------------------------------

    @set_ev_cls(ofp_event.EventOFPPortStatsReply, MAIN_DISPATCHER)
    def ports_counted(self, event):
        name = self.routes.names.get(event.msg.datapath.id)
        limit = event.msg.datapath.ofproto.OFPP_MAX
        self._counted(
            event,
            name,
            "port",
            [
                _row(name, "port", f"{name}-eth{s.port_no}", s.rx_packets, s.rx_bytes, s.rx_dropped + s.tx_dropped)
                for s in event.msg.body
                if s.port_no < limit
            ],
        )

    @set_ev_cls(ofp_event.EventOFPFlowStatsReply, MAIN_DISPATCHER)
    def flows_counted(self, event):
        name = self.routes.names.get(event.msg.datapath.id)
        rows = []
        for s in event.msg.body:
            prefix = _prefix(s.match.get("ipv4_dst"))
            dropped = 0 if s.instructions else s.packet_count
            rows.append(_row(name, "flow", prefix, s.packet_count, s.byte_count, dropped))
        self._counted(event, name, "flow", rows)

    def _counted(self, event, name, kind, rows):
        if self._counting is not None:
            more = event.msg.flags & event.msg.datapath.ofproto.OFPMPF_REPLY_MORE
            self._counting.take((name, kind), rows, not more)

    def _switch(self, event):
        """The switch that an event is from, if it is one of the plan's."""
        return self._switches.get(self.routes.names.get(event.msg.datapath.id))

    def _log(self, what, **fields):
        self.logger.info("%s %s", what, fields)


class _Switch:
    """A connected switch: what is installed on it and how many barriers are outstanding."""

    def __init__(self, name, datapath):
        self.name = name
        self.datapath = datapath
        self.words = None  # the module that says how a choice is made, once the switch has said what it is
        self.installed = {}
        self.pending = 0
        self.left_over = []  # groups of an earlier connection
        self.last_group = 0
        self._groups = {}

    @property
    def confirmed(self):
        return self.words is not None and self.pending == 0

    def messages(self, entry, salt):
        """What installs an entry."""
        group, new = self.group(entry)
        made = self.words.make_group(self.datapath, entry, group) if new else []
        choice = self.words.choose(self.datapath, entry, salt, group) if group else []
        return [*made, flows.route(self.datapath, entry, choice)]

    def group(self, entry):
        """The number of the entry's set of ports, and whether it is new; 0 where there is nothing to choose."""
        if len(entry.ports) < 2:
            return 0, False
        key = entry.kind, entry.ports
        new = key not in self._groups
        if new:
            self.last_group += 1
            self._groups[key] = self.last_group
        return self._groups[key], new


class _Counting:
    """One round of counting: rows until every (switch, kind) has answered."""

    def __init__(self, done, waiting):
        self._done = done
        self._waiting = waiting
        self._rows = []

    def take(self, key, rows, last):
        if key in self._waiting:
            self._rows.extend(rows)
            if last:
                self._waiting.discard(key)
                self.finish_if_done()

    def finish_if_done(self):
        if not self._waiting and self._done is not None:
            done, self._done = self._done, None
            done(self._rows)


def _row(switch, kind, name, packets, bytes_, dropped):
    return {"switch": switch, "kind": kind, "name": name, "packets": packets, "bytes": bytes_, "dropped": dropped}


def _prefix(match):
    """How a destination match is written in the plan: 10.0.0.0/24; a miss has none."""
    if match is None:
        return "miss"
    address, mask = match if isinstance(match, tuple) else (match, "255.255.255.255")
    return f"{address}/{sum(bin(int(octet)).count('1') for octet in mask.split('.'))}"
