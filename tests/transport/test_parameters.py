"""The constants: as published, scaled by their rules, refused with a reason; and the registry around them."""

import pytest

from testbed.spec.model import TransportSpec
from testbed.transport import (
    TRANSPORTS,
    Endpoint,
    ParameterError,
    Path,
    find,
    problems,
    queue_pairs,
    settle,
    written,
)
from testbed.transport.congestion import CONGESTIONS
from testbed.transport.roce import RoceEndpoint

SLOW = Path(rate_bps=100_000_000, base_rtt_ns=1_000_000, mtu_bytes=1500, max_burst_packets=8, queueing_ns=5_000_000)


def values(path=SLOW, **keys):
    return settle(TransportSpec(kind="roce", **keys), path).values


def test_published_values_stand_without_scaling():
    assert values(scale="none") == {
        "verb": "write", "mtu": 1024, "window": 128, "ack_every": 64, "timeout": 20, "retries": 7, "rnr_retries": 7,
        "rnr_timer": 12, "dscp": 26, "cnp_dscp": 48,
    }  # fmt: skip


def test_scaled_values_follow_their_rules():
    scaled = values()
    packet_ns = (1024 + 12 + 14 + 20 + 8 + 4 + 24) * 80  # 100 Mb/s: 80 ns a byte
    window = 3 * -(-1_000_000 // packet_ns)
    assert (scaled["mtu"], scaled["window"], scaled["ack_every"]) == (1024, window, window // 4)
    least_ns = 4 * 1_000_000 + 5_000_000 + window * packet_ns
    assert 4_096 * 2 ** (scaled["timeout"] - 1) < least_ns <= 4_096 * 2 ** scaled["timeout"]
    assert scaled["rnr_timer"] == 14  # 1.28 ms, the least of the table that covers 1 ms
    assert (scaled["retries"], scaled["rnr_retries"]) == (7, 7)


@pytest.mark.parametrize(
    ("link", "mtu"), [(300, 256), (336, 256), (1500, 1024), (4175, 2048), (4176, 4096), (9000, 4096)]
)
def test_the_mtu_leaves_room_for_the_headers(link, mtu):
    assert values(Path(10**9, 100_000, link, 64))["mtu"] == mtu


@pytest.mark.parametrize("kind", TRANSPORTS)
@pytest.mark.parametrize("link", [256, 1500, 9000, 65535])
def test_what_links_scale_is_within_what_may_be_given(kind, link):
    """Else the resolved spec, which has it, would be refused."""
    path = Path(10**9, 100_000, link, 64)
    assert not problems(TransportSpec(**written(TransportSpec(kind=kind), path)))


@pytest.mark.parametrize(("kind", "key"), [("ubt", "window"), ("optinic", "slack"), ("irn", "retries")])
def test_numbers_of_which_no_clock_could_have_the_times_are_refused(kind, key):
    assert "out of range" in problems(TransportSpec(kind=kind, **{key: 10**30}))[key][0]


def test_the_window_holds_two_runs_and_is_capped():
    assert values(Path(10**8, 10_000, 1500, 64))["window"] == 128
    assert values(Path(10**8, 10_000, 1500, 1))["window"] == 16
    assert values(Path(10**12, 10**9, 1500, 1))["window"] == 4096


def test_given_values_are_taken_and_others_follow_them():
    given = values(window=1000, mtu=256)
    assert (given["window"], given["mtu"], given["ack_every"]) == (1000, 256, 64)


@pytest.mark.parametrize("congestion", [*CONGESTIONS, {"kind": "dcqcn", "g": 0.5}, {"kind": "swift", "beta": 0.5}])
@pytest.mark.parametrize("scale", ["auto", "none"])
def test_the_resolved_section_reads_back_as_the_same_values(congestion, scale):
    spec = TransportSpec(kind="roce", congestion=congestion, scale=scale, retries=3)
    resolved = written(spec, SLOW)
    again = settle(TransportSpec(**resolved), Path(10**11, 5_000, 9000, 64))
    assert again == settle(spec, SLOW)


def test_all_problems_are_found_at_once():
    spec = TransportSpec(
        kind="roce", mtu=1000, timeout=32, retires=3, verb="read", window="many", retries=True,
        congestion={"kind": "dcqcn", "cnp_interval": "5", "beta": 1, "least_rate": "0bps"},
    )  # fmt: skip
    found = problems(spec)
    assert set(found) == {
        "mtu", "timeout", "retires", "verb", "window", "retries",
        "congestion.cnp_interval", "congestion.beta", "congestion.least_rate",
    }  # fmt: skip
    assert "256, 512, 1024, 2048, 4096" in found["mtu"][0]
    assert "from 0 to 31" in found["timeout"][0]
    assert found["retires"] == ("unknown key", "did you mean retries?")
    assert "e.g. 10us" in found["congestion.cnp_interval"][0]
    with pytest.raises(ParameterError, match=r"transport\.mtu") as caught:
        settle(spec, SLOW)
    assert (caught.value.problems, caught.value.exit_status) == (found, 2)


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        (TransportSpec(kind="udp"), "kind"),
        (TransportSpec(kind="nowhere.py:MINE"), "kind"),
        (TransportSpec(kind="roce", congestion="cubic"), "congestion"),
        (TransportSpec(kind="tcp", congestion="dcqcn"), "congestion"),
        (TransportSpec(kind="aggregation", congestion="dcqcn"), "congestion"),
        (TransportSpec(kind="tcp", window=3), "window"),
    ],
)
def test_what_cannot_be_named(spec, key):
    assert list(problems(spec)) == [key]


def test_the_kernel_carries_tcp():
    assert TRANSPORTS["tcp"].make is None
    assert settle(TransportSpec(kind="tcp"), SLOW).values == {"control": "cubic"}


def test_an_own_transport(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from testbed.transport import TRANSPORTS\nMINE = TRANSPORTS['roce']\nOTHER = 3\n")
    spec = TransportSpec(kind=f"{file}:MINE", retries=2)
    settings = settle(spec, SLOW)
    assert (settings.kind, settings.values["retries"]) == (spec.kind, 2)
    assert written(spec, SLOW)["kind"] == spec.kind
    with pytest.raises(ParameterError, match="not a Transport"):
        find(f"{file}:OTHER")


def test_roce_makes_endpoints():
    make = TRANSPORTS["roce"].make
    end = make(SLOW, 0, queue_pairs(4), settle(TransportSpec(), SLOW), 1)
    assert isinstance(end, Endpoint)
    assert isinstance(end, RoceEndpoint)


def test_queue_pair_numbers_do_not_meet():
    numbers = [peer.queue_pair + other for peer in queue_pairs(50) for other in range(50)]
    assert len(set(numbers)) == 2500
    assert max(numbers) < 2**24


@pytest.mark.parametrize(
    ("entry", "parameter"),
    [
        pytest.param(entry, parameter, id=f"{entry.name}-{parameter.name}")
        for entry in (*TRANSPORTS.values(), *CONGESTIONS.values())
        for parameter in entry.parameters
    ],
)
def test_every_constant_says_where_it_is_from_and_reads_back(entry, parameter):
    listed = parameter.as_json()
    assert listed["source"]
    assert listed["summary"]
    assert (parameter.scaled is None) == (listed["scale"] == "as published")
    assert parameter.parse(listed["default"]) == parameter.default
    if parameter.scaled is not None:
        others = {each.name: each.default for each in entry.parameters}
        scaled = parameter.scaled(SLOW, others | {"mtu": 1024, "window": 99})
        assert parameter.parse(parameter.written(scaled)) == scaled
