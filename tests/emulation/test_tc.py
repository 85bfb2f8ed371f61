"""What tc is asked, and what its answers mean (texts as printed by iproute2 6.1)."""

from testbed.emulation.tc import Shape, parse_rates, relay_of


def test_a_switch_port_without_delay_is_htb_over_a_byte_queue() -> None:
    commands = list(Shape(100_000_000, 0, 262_144).set_up("s0-eth1"))
    assert commands[0] == "qdisc replace dev s0-eth1 root handle 1: htb default 1"
    assert "rate 100000000bit ceil 100000000bit burst 625 cburst 625 overhead 24" in commands[1]
    assert commands[2:] == ["qdisc replace dev s0-eth1 parent 1:1 handle 20: bfifo limit 262144"]


def test_a_delay_sits_between_rate_and_queue() -> None:
    *_, netem, queue = Shape(100_000_000, 2_000_000, 65_536).set_up("s0-eth1")
    assert "parent 1:1 handle 10: netem delay 2000.000us limit" in netem
    assert queue == "qdisc replace dev s0-eth1 parent 10:1 handle 20: bfifo limit 65536"


def test_netem_has_room_for_what_delay_and_queue_hold_in_the_shortest_packets() -> None:
    shape = Shape(1_000_000_000, 10_000_000, 1_000_000)
    inside_bytes = 1_000_000_000 * 0.010 / 8 + 1_000_000
    assert shape.netem_packets > inside_bytes / 64


def test_a_hosts_port_only_holds_its_sender_back() -> None:
    commands = list(Shape(100_000_000, 2_000_000, 65_536, hold_sender=True).set_up("h0-eth0"))
    assert not any("netem" in command for command in commands)
    limit = int(commands[-1].split()[-1])
    assert limit > 1000 * 212_992  # SO_SNDBUF's default, of many sockets


def test_its_delay_is_put_where_packets_enter_the_switch() -> None:
    netem, clsact, redirect = Shape(100_000_000, 2_000_000, 65_536, hold_sender=True).set_up_entry("e0_0-eth1")
    assert netem.startswith("qdisc replace dev e0_0-ifb1 root handle 10: netem delay 2000.000us")
    assert clsact == "qdisc replace dev e0_0-eth1 clsact"
    assert redirect.endswith("ingress handle 1 prio 1 matchall action mirred egress redirect dev e0_0-ifb1")
    assert len(relay_of("e10_10-eth10")) <= 15  # IFNAMSIZ without its zero


def test_a_change_leaves_the_root_alone() -> None:
    """The kernel cannot change an HTB root, and replacing it would lose the queue."""
    assert not any(" root " in command for command in Shape(1_000, 0, 1_000).change("s0-eth1", with_netem=True))


def test_rates_are_read_from_class_listings() -> None:
    text = (
        "class htb 1:1 root leaf 20: prio 0 quantum 60000 rate 12345Kbit overhead 24 ceil 12345Kbit linklayer ethernet "
        "burst 1597b/1 mpu 0b cburst 1597b/1 mpu 0b level 0 \n"
        " Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) \n"
        "class htb 1:1 root leaf 10: prio 0 rate 1Gbit overhead 24 ceil 1Gbit burst 6250b cburst 6250b \n"
        "class htb 1:1 root prio 0 rate 999bit overhead 24 ceil 999bit burst 1b cburst 1b \n"
    )
    assert parse_rates(text) == [12_345_000, 1_000_000_000, 999]
