"""Choices per subnet as few entries: a wider prefix stands for all subnets within it that choose alike.

On a fat-tree this yields the two-level tables of Al-Fares et al.: at an edge or aggregation switch the prefixes below
it and one entry for everything up, at a core one prefix a pod.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from testbed.routing.addressing import ROOT, Subnet
from testbed.routing.shortest import Ports


class Table:
    """One switch's entries: `entries` (prefix -> ports, the longest match wins) give each subnet its `choice`."""

    def __init__(self, subnets: Sequence[Subnet], choice: Mapping[int, Ports]) -> None:
        self._subnets = subnets
        self.choice = choice
        self.entries: dict[str, Ports] = {}
        rest = dict(choice)
        if choice:
            common = _most_common(choice)
            alike = [subnets[i] for i, ports in choice.items() if ports == common]
            if len({subnet.pod or subnet.prefix for subnet in alike}) > 1:
                self.entries[ROOT] = common
                rest = {i: ports for i, ports in choice.items() if ports != common}
        self.entries = self._by_pod(rest, self._pods(choice)) | self.entries
        self._owner: dict[int, str] = {}  # the prefix whose entry decides for a subnet
        self._members: dict[str, list[int]] = {prefix: [] for prefix in self.entries}
        for i in choice:
            candidates = (subnets[i].prefix, subnets[i].pod, ROOT)
            self._owner[i] = next(prefix for prefix in candidates if prefix in self.entries)
            self._members[self._owner[i]].append(i)
        self._pod_sizes = {prefix: self._pods(members) for prefix, members in self._members.items()}

    def override(self, changed: Mapping[int, Ports]) -> dict[str, Ports]:
        """The entries to replace or add so that the subnets in `changed` choose anew and all others as before."""
        result: dict[str, Ports] = {}
        by_owner: dict[str, dict[int, Ports]] = {}
        for i, ports in changed.items():
            by_owner.setdefault(self._owner[i], {})[i] = ports
        for prefix, news in by_owner.items():
            common, decided, members = self.entries[prefix], news, self._members[prefix]
            if 2 * len(news) > len(members):
                decided = {i: news.get(i, common) for i in members}
                common = _most_common(decided)
                if common != self.entries[prefix]:
                    result[prefix] = common
            rest = {i: ports for i, ports in decided.items() if ports != common}
            result |= self._by_pod(rest, self._pod_sizes[prefix])
        return result

    def _pods(self, members: Sequence[int] | Mapping[int, Ports]) -> Counter[str]:
        return Counter(pod for i in members if (pod := self._subnets[i].pod) is not None)

    def _by_pod(self, choice: Mapping[int, Ports], sizes: Mapping[str, int]) -> dict[str, Ports]:
        """One entry for a pod where all of its subnets (`sizes` of them) choose alike, else one each."""
        entries: dict[str, Ports] = {}
        pods: dict[str, list[int]] = {}
        for i, ports in choice.items():
            if (pod := self._subnets[i].pod) is not None:
                pods.setdefault(pod, []).append(i)
            else:
                entries[self._subnets[i].prefix] = ports
        for pod, members in pods.items():
            if len(members) == sizes[pod] > 1 and len({choice[i] for i in members}) == 1:
                entries[pod] = choice[members[0]]
            else:
                entries |= {self._subnets[i].prefix: choice[i] for i in members}
        return entries


def _most_common(choice: Mapping[int, Ports]) -> Ports:
    return Counter(choice.values()).most_common(1)[0][0]
