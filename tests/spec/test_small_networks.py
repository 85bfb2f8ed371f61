"""What small networks have none of is told without advice that would not help."""

from pathlib import Path

import pytest

from .examples import mistakes

SPEC = """name: small
topology: {{kind: star, hosts: {hosts}}}
links: [{{select: {select}, rate: 1Gbps}}]
workers: {{count: {hosts}}}
workload: {{size: 4KiB}}
traffic: {traffic}
"""


@pytest.mark.parametrize("select", ["core", "[host, core]"])
def test_a_network_without_such_links_is_not_advised_to_say_the_same_again(tmp_path: Path, select: str) -> None:
    (found,) = mistakes(tmp_path, SPEC.format(hosts=2, select=select, traffic="[]"))
    assert (found.message, found.suggestion) == ("'core' selects no link: this network has none of these", "")


def test_flows_of_the_only_host_there_is_have_no_target(tmp_path: Path) -> None:
    flows = "[{kind: flows, sizes: hadoop, load: 10%}]"
    found = {each.key: each.message for each in mistakes(tmp_path, SPEC.format(hosts=1, select="all", traffic=flows))}
    assert found["traffic.0.to"] == "'h0' is also where flows come from: there is no other"
    assert mistakes(tmp_path, SPEC.format(hosts=2, select="all", traffic=flows)) == ()
