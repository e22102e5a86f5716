"""
Network groups: short-lived sources that belong together by what they share.

A source with a dozen requests has no series to compare. But the workers of one crawler are in the same networks, ask
for the same kinds of pages in the same proportions, and divide the work: a page that one has fetched is not fetched by
another. Sources that are not people are first grouped by network (IPv4 /24 with neighbours in a /20, IPv6 /48), or by a
user agent that hardly any person has, unless user agents are hidden. Groups with enough requests are then compared
(`group_links`), and those that belong together are one campaign.

Networks count that have several automatic sources and hardly any people. A log has very many sources, so IPv4 addresses
are numbers here, and only networks that are found get a name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from ipaddress import IPv6Address
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.core.ip_bytes import format_ipv4, pack_ipv4
from hedgerow.report.campaigns.group_links import GroupLink, NetworkGroupLimits, Requests, links
from hedgerow.report.campaigns.traffic_similarity import SimilarGroups

Ints = NDArray[np.int64]

_OTHER = 1 << 24
"""Networks that are none of IPv4 have numbers from here on."""


class _Group(NamedTuple):
    """Sources that belong together. *networks* is empty for a group by user agent."""

    networks: tuple[str, ...]
    members: tuple[int, ...]
    text: str


def find(
    names: Sequence[str],
    people: NDArray[np.bool_],
    requests: Requests,
    agents: Sequence[str] | None = None,
    limits: NetworkGroupLimits | None = None,
    *,
    doubtful: NDArray[np.bool_] | None = None,
) -> list[SimilarGroups]:
    """
    Return the campaigns among sources with these *names* (addresses), largest first. *people* are never members.

    *agents* are the user agents, None to hide them. *doubtful* marks people who only look like people.
    """
    wanted = limits or NetworkGroupLimits()
    groups = _by_network(names, people, doubtful if doubtful is not None else np.zeros_like(people), wanted)
    if agents is not None:
        groups = _by_agent(groups, people, agents, wanted)
    leader = list(range(len(groups)))

    def find_leader(number: int) -> int:
        while leader[number] != number:
            number = leader[number]
        return number

    linked: list[tuple[int, GroupLink]] = []
    of_pages, of_robots = (_group_of(groups, some) for some in (requests.sources, requests.robots.sources))
    for one, other, link in links(of_pages, of_robots, requests, wanted):
        linked.append((one, link))
        first, second = sorted((find_leader(one), find_leader(other)))
        leader[second] = first
    joined: dict[int, list[_Group]] = defaultdict(list)
    for number, group in enumerate(groups):
        joined[find_leader(number)].append(group)
    why: dict[int, list[GroupLink]] = defaultdict(list)
    for one, link in linked:
        why[find_leader(one)].append(link)
    found = [_told(parts, why[number], names) for number, parts in joined.items()]
    return sorted(found, key=lambda one: (-len(one.members), one.members))


def _told(parts: list[_Group], links: list[GroupLink], names: Sequence[str]) -> SimilarGroups:
    members = tuple(sorted({member for group in parts for member in group.members}))
    if not links:
        return SimilarGroups(
            "company", members, 1.0, f"{len(members):,} sources that are no people's: {parts[0].text}."
        )
    networks = sorted({network for group in parts for network in _networks(group, names)})
    shown = ", ".join(networks[:3]) + (f" and {len(networks) - 3} more" if len(networks) > 3 else "")  # noqa: PLR2004
    reasons = " and ".join(sorted({link.reason for link in links}))
    alike = float(np.mean([link.affinity for link in links]))
    text = f"{len(members):,} sources in {len(networks)} networks ({shown}) that {reasons}."
    return SimilarGroups("company", members, round(alike, 4), text)


def _networks(group: _Group, names: Sequence[str]) -> Iterable[str]:
    return group.networks or {network_of(names[number])[0] for number in group.members} - {""}


def _by_network(
    names: Sequence[str], people: NDArray[np.bool_], doubtful: NDArray[np.bool_], limits: NetworkGroupLimits
) -> list[_Group]:
    found = []
    there = full(names, people, doubtful, members=limits.members, share=limits.people, around=limits.around)
    for networks, wide, members in there:
        text = f"all from {networks[0] if len(networks) == 1 else wide}, where hardly anybody else is"
        found.append(_Group(networks, members, text))
    return found


def _by_agent(
    groups: list[_Group], people: NDArray[np.bool_], agents: Sequence[str], limits: NetworkGroupLimits
) -> list[_Group]:
    """Add groups that share a user agent hardly any person has. Their members leave the other *groups*."""
    persons = Counter(agents[number] for number in np.nonzero(people)[0].tolist())
    using: dict[str, list[int]] = defaultdict(list)
    for number in np.nonzero(~people)[0].tolist():
        if agents[number]:
            using[agents[number]].append(number)
    found = []
    taken: set[int] = set()
    for agent in sorted(using):
        members = using[agent]
        if len(members) < limits.members or persons[agent] > limits.people * (len(members) + persons[agent]):
            continue
        text = f"they share a user agent that hardly any person has, {agent[:60]!r}"
        found.append(_Group((), tuple(members), text))
        taken.update(members)
    for group in groups:
        left = tuple(number for number in group.members if number not in taken)
        if len(left) >= limits.members:
            found.append(group._replace(members=left))
    return found


def _group_of(groups: list[_Group], sources: Ints) -> Ints:
    """Return the number of the group of each source, -1 for none."""
    number_of = np.full(int(sources.max(initial=-1)) + 1, -1, dtype=np.int64)
    for number, group in enumerate(groups):
        members = np.array(group.members, dtype=np.int64)
        number_of[members[members < len(number_of)]] = number
    return number_of[sources] if len(sources) else np.zeros(0, dtype=np.int64)


class Neighbours(NamedTuple):
    """*networks* inside the network *wide*, and the sources in them. Networks are sorted by text, members ascending."""

    networks: tuple[str, ...]
    wide: str
    members: tuple[int, ...]


def network_of(address: str) -> tuple[str, str]:
    """
    Return the network of an address and the wider network of its neighbours; empty texts for a name that is no address.
    """
    plain = _ipv4(address)
    if plain:
        return _texts(int.from_bytes(plain) >> 8)
    try:
        parsed = IPv6Address(address.partition("/")[0])
    except ValueError:
        return "", ""
    words = parsed.exploded.split(":")
    return ":".join(words[:3]) + "::/48", ":".join(words[:2]) + "::/32"


def _ipv4(address: str) -> bytes:
    """Return the bytes of an IPv4 address or network, b"" for anything else."""
    try:
        return pack_ipv4(address.partition("/")[0])
    except (OSError, ValueError):
        return b""


def _texts(number: int) -> tuple[str, str]:
    """Return the texts of the IPv4 /24 with this number, and of its /20."""
    own, wide = number << 8, number >> 4 << 12
    return f"{format_ipv4(own.to_bytes(4))}/24", f"{format_ipv4(wide.to_bytes(4))}/20"


def full(
    names: Sequence[str],
    people: NDArray[np.bool_],
    doubtful: NDArray[np.bool_],
    *,
    members: int,
    share: float,
    around: int,
) -> list[Neighbours]:
    """
    Find neighbouring networks of which at least one has *members* sources that are not *people*.

    A network counts if at most *share* of its sources are people. A single source beside a full network belongs to it;
    several networks with one source each are only neighbours. A source that only looks like a person (*doubtful*) is a
    member if its network has *around* others: some crawlers load a whole page now and then.
    """
    network, texts = _numbered(names)
    there = np.flatnonzero(network >= 0)
    numbers, which = np.unique(network[there], return_inverse=True)
    crowd = np.bincount(which[people[there]], minlength=len(numbers))
    inside = np.bincount(which, minlength=len(numbers)) - crowd
    counts = (inside > 0) & (crowd <= share * (inside + crowd))
    # A network and its neighbours have the same number here, whichever kind they are.
    wider = {wide: number for number, (_, wide) in texts.items()}
    others = [wider[texts[number][1]] for number in numbers[numbers >= _OTHER].tolist()]
    wide = np.append(numbers[numbers < _OTHER] >> 4, np.array(others, np.int64))
    wanted = counts & np.isin(wide, wide[counts & (inside >= members)])
    # The sources of each network that is wanted, in their order.
    member = ~people[there] | (doubtful[there] & (inside[which] >= around))
    chosen = np.flatnonzero(wanted[which] & member)
    order = chosen[np.argsort(which[chosen], kind="stable")]
    sources = np.split(there[order], np.flatnonzero(np.diff(which[order])) + 1)
    found: dict[str, list[tuple[str, list[int]]]] = {}
    for number, some in zip(numbers[wanted].tolist(), sources, strict=False):
        own, wide_text = texts[number] if number >= _OTHER else _texts(number)
        found.setdefault(wide_text, []).append((own, some.tolist()))
    return [
        Neighbours(
            tuple(sorted(own for own, _ in found[text])),
            text,
            tuple(sorted(source for _, some in found[text] for source in some)),
        )
        for text in sorted(found)
    ]


def _numbered(names: Sequence[str]) -> tuple[Ints, dict[int, tuple[str, str]]]:
    """Return the number of each source's network (-1: no address), and the texts of networks that are not IPv4."""
    found = np.full(len(names), -1, np.int64)
    plain = [_ipv4(name) for name in names]
    is_plain = np.array(list(map(bool, plain)), np.bool_)
    found[is_plain] = np.frombuffer(b"".join(plain), ">u4") >> 8
    numbers: dict[tuple[str, str], int] = {}
    for place in np.flatnonzero(~is_plain).tolist():
        network = network_of(names[place])
        if network[0]:
            found[place] = numbers.setdefault(network, _OTHER + len(numbers))
    return found, {number: network for network, number in numbers.items()}
