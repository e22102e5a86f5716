"""
Sharing: who uses links that were minted for another, whose links they are, and who so belongs together.

A visitor *borrows* when it uses a link that was minted for another, who *lends*. People do so now and then: PathMarker
saw 0.23 % of their visits. Workers of one crawler that share a pool of links do hardly anything else. So a visitor is
held to be a sharer when it borrows a good part of its pages, and lends as well or has borrowed a lot; sharers that
borrow from each other are a community; and a community with enough links is a campaign.

A link is worth less the more visitors use it, and nothing once it is public: of those who follow a link that somebody
has posted nobody becomes a sharer. Crawlers that hide behind this must fetch each page several times, and each such
visit is still evidence against its maker.

What is remembered fades: pages and links halve every few hours, and there is room for so many of each.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

import msgspec

from hedgerow.core.decision import Campaign
from hedgerow.core.visit import Visit
from hedgerow.markers.token import NOBODY, visitor_digest
from hedgerow.watch.link_graph import LinkGraph, LinkGroup, Node, NodeSnapshot
from hedgerow.watch.sessions.lru import forget_oldest

_MOST_PAGES = 64.0
_SURE = 1e-6
_FORGOTTEN = 6
_CROSSED = 3
_MOST_CAMPAIGNS = 256
_MOST_MEMBERS = 10_000
_LEAST_PAGES = 3


class SharingLimits(msgspec.Struct, frozen=True):
    """
    What makes a campaign.

    At least *members* sharers that have borrowed *links* links in all, each at least *share* of its own marked pages.
    *chance* is the share that people borrow. A sharer that lends nothing has borrowed *taken* links. All of it halves
    every *half_life* seconds.
    """

    members: int = 3
    links: float = 10.0
    share: float = 0.4
    chance: float = 0.0023
    taken: float = 5.0
    half_life: float = 14_400.0


class SharingFinding(NamedTuple):
    """A campaign, the visitors that are new in it, and the ids of campaigns that have turned out to be this one."""

    campaign: Campaign
    joined: tuple[str, ...]
    merged: tuple[str, ...] = ()


def _link(issuer: bytes, parent: bytes, target: str, asked: str) -> int:
    """The short name of a link, the same after a restart."""
    whole = b"\0".join((issuer, parent, f"{target}\0{asked}".encode("utf-8", "surrogateescape")))
    return int.from_bytes(blake2b(whole, digest_size=4).digest(), "big")


def tail(count: float, expected: float) -> float:
    """
    How likely *count* or more of a rare thing are, where *expected* are normal.

    >>> round(tail(2, 0.35), 3), tail(0, 1.0)
    (0.049, 1.0)
    """
    whole = math.floor(count)
    term, below = math.exp(-expected), 0.0
    for n in range(whole):
        below += term
        term *= expected / (n + 1)
    if below < 1 - 1e-9:
        return 1 - below
    # What is left is too small for a difference: the first term of the rest is nearly all of it.
    return min(1.0, term)


class LinkSharing:
    """
    Finds campaigns among visitors that share links. At most *most_visitors* and *most_links* are remembered; who was
    silent for the longest is forgotten first.
    """

    def __init__(
        self, limits: SharingLimits | None = None, *, most_visitors: int = 100_000, most_links: int = 50_000
    ) -> None:
        self.limits = limits or SharingLimits()
        self._most_visitors = most_visitors
        self._nodes: dict[bytes, Node] = {}
        self._links = LinkGraph(most_links)
        self._groups: OrderedDict[str, LinkGroup] = OrderedDict()
        self._changed: set[bytes] | None = None

    def keep(self) -> None:
        """From now on remember what changes: somebody is going to ask."""
        if self._changed is None:
            self._changed = set()

    def __len__(self) -> int:
        """How many visitors are remembered."""
        return len(self._nodes)

    def campaigns(self) -> Sequence[Campaign]:
        """All campaigns that are remembered, the oldest first. Any thread may ask."""
        return [self._told(group) for group in list(self._groups.values())]

    def restore(self, campaigns: Sequence[Campaign]) -> None:
        """Take over the campaigns that were known before a restart."""
        for campaign in campaigns[-_MOST_CAMPAIGNS:]:
            group = self._groups[campaign.id] = LinkGroup(campaign.id, campaign.since)
            group.seen, group.links, group.pages = campaign.seen, campaign.links, campaign.pages
            for name in campaign.members[:_MOST_MEMBERS]:
                group.members[name] = None
                node = self._node(visitor_digest(name), campaign.seen)
                node.name = name
                node.join(group)

    def changed(self, most: int | None = None) -> dict[bytes, tuple[float, bytes] | None]:
        """
        What is known of visitors and has changed since this was asked last, at most *most*: when each was last seen,
        and what it is; None: it is forgotten, or has just begun.
        """
        names = list(islice(self._changed or (), most))
        (self._changed or set()).difference_update(names)
        changed: dict[bytes, tuple[float, bytes] | None] = {}
        for who in names:
            node = self._nodes.get(who)
            worth = node is not None and (node.pages >= _LEAST_PAGES or node.tied)
            changed[who] = (node.at, node.to_bytes()) if worth and node is not None else None
        return changed

    def restore_ties(self, kept: Sequence[tuple[bytes, bytes]]) -> None:
        """
        Take over who borrowed from whom before a restart, the oldest first; after the campaigns.

        Who has used a link is told by those who have borrowed it. What members of campaigns have used is not known any
        more: their campaign is.
        """
        for who, value in kept[-self._most_visitors :]:
            its = NodeSnapshot.read(value)
            if its is not None:
                node = self._node(who, its.at)
                node.restore(its)
                for link, _, _ in node.borrowed():
                    self._links.use(link, who)
        if self._changed is not None:
            self._changed.clear()

    def see(self, visit: Visit, issuer: bytes | None) -> SharingFinding | None:
        """
        One more visit; *issuer* is whom its link was minted for, where that is another. What it brings to light.

        Only marked pages count: what a page brings along and what somebody types in says nothing.
        """
        marker = visit.marker
        if visit.kind != "page" or marker is None or marker.issued_to == NOBODY or not visit.visitor:
            return None
        who, at = visitor_digest(visit.visitor), visit.at
        node = self._node(who, at)
        # The same string as its session is kept under: two would take more room.
        node.name = visit.visitor
        node.pages = min(self._pages(node, at) + 1, _MOST_PAGES)
        node.at = max(at, node.at)
        group = node.campaign
        if group is not None:
            group.pages += 1
            group.seen = max(group.seen, at)
        if issuer is None:
            return None
        link = _link(issuer, marker.parent, marker.target, visit.target)
        if not self._borrow(node, who, issuer, link, at):
            return None
        mine, other = node.campaign, self._nodes[issuer].campaign
        if mine is not None and other is not None and mine is not other:
            return self._cross(mine, other)
        # Who asks but once is not seen again: it becomes a sharer when its links are used.
        for one, key in ((node, who), (self._nodes[issuer], issuer)):
            found = self._look(one, key, at) if one.name and self._shares(one, at) else None
            if found is not None:
                return found
        return None

    def _cross(self, mine: LinkGroup, other: LinkGroup) -> SharingFinding | None:
        """A member of one campaign has borrowed from one of another: after a few times both are one."""
        mine.crossed[other.id] += 1
        if mine.crossed[other.id] + other.crossed[mine.id] < _CROSSED:
            return None
        group = self._joined((mine, other))
        return SharingFinding(self._told(group), (), (other.id if group is mine else mine.id,))

    def _node(self, who: bytes, at: float) -> Node:
        node = self._nodes.pop(who, None)
        if node is None:
            node = Node(at)
            if len(self._nodes) >= self._most_visitors:
                gone = forget_oldest(self._nodes)
                if self._changed is not None:
                    self._changed.update(gone)
        self._nodes[who] = node
        if self._changed is not None:
            self._changed.add(who)
        return node

    def _faded(self, since: float, at: float) -> float:
        return math.exp2(-max(0.0, at - since) / self.limits.half_life)

    def _pages(self, node: Node, at: float) -> float:
        return node.pages * self._faded(node.at, at)

    def _borrow(self, node: Node, who: bytes, issuer: bytes, link: int, at: float) -> bool:
        """Take down who used whose link; false where it had used the very same before."""
        if not self._links.use(link, who):
            # A page that is read once more is neither one's own nor borrowed.
            node.pages -= 1
            return False
        group = node.campaign
        if group is not None:
            group.links += 1
        else:
            node.borrow(link, at, issuer)
        owner = self._node(issuer, at)
        if owner.campaign is None:
            owner.lend(who, at)
        return True

    def _borrowed(self, node: Node, at: float) -> float:
        return sum(self._links.worth(link) * self._faded(since, at) for link, since, _ in node.borrowed())

    def _takes(self, node: Node, at: float) -> bool:
        """Whether a visitor has borrowed so much that it need not lend."""
        if node.campaign is not None:
            return True
        borrowed = self._borrowed(node, at)
        return borrowed >= self.limits.taken and borrowed >= self.limits.share * self._pages(node, at)

    def _shares(self, node: Node, at: float) -> bool:
        """Whether a visitor is a sharer; who is in a campaign is one."""
        if node.campaign is not None:
            return True
        borrowed = self._borrowed(node, at)
        if not borrowed or borrowed < self.limits.share * self._pages(node, at):
            return False
        oldest = at - _FORGOTTEN * self.limits.half_life
        lends = any(since > oldest for _, since in node.lent())
        return lends or borrowed >= self.limits.taken

    def _look(self, node: Node, who: bytes, at: float) -> SharingFinding | None:
        """The community around a sharer, where it is a campaign, or belongs to one."""
        if node.campaign is not None:
            return None
        community, met = self._community(node, who, at)
        links = sum(self._borrowed(one, at) for one in community)
        pages = sum(self._pages(one, at) for one in community)
        if met:
            group = self._joined(met)
        else:
            limits = self.limits
            if len(community) < limits.members or links < limits.links:
                return None
            if tail(links, limits.chance * pages) > _SURE:
                return None
            group = self._founded(community, at)
        group.links += links
        group.pages += pages
        group.seen = max(group.seen, at)
        joined = []
        for one in community:
            if len(group.members) < _MOST_MEMBERS:
                one.join(group)
                if self._changed is not None:
                    self._changed.add(visitor_digest(one.name))
                if one.name not in group.members:
                    group.members[one.name] = None
                    joined.append(one.name)
        merged = tuple(one.id for one in met if one is not group)
        return SharingFinding(self._told(group), tuple(joined), merged) if joined else None

    def _community(self, node: Node, who: bytes, at: float) -> tuple[list[Node], list[LinkGroup]]:
        """
        The sharers that are tied to one, and the campaigns that they are in already.

        Those in a campaign are not looked behind. The others are few, or they would be a campaign.
        """
        seen, waiting = {who}, [node]
        community: list[Node] = []
        met: dict[str, LinkGroup] = {}
        while waiting:
            one = waiting.pop()
            community.append(one)
            for key in self._neighbours(one, at):
                if key in seen:
                    continue
                seen.add(key)
                other = self._nodes.get(key)
                if other is None or not other.name or not self._shares(other, at):
                    continue
                group = other.campaign
                if group is None:
                    waiting.append(other)
                else:
                    met[group.id] = group
        return community, list(met.values())

    def _neighbours(self, node: Node, at: float) -> Iterator[bytes]:
        """
        Who is tied to a sharer: those it has borrowed from and lent to.

        Those who have taken a lot from the same lender are tied, too, whatever the lender is: one that collects links
        and hands them out.
        """
        takes = self._takes(node, at)
        for link, _, issuer in node.borrowed():
            if not self._links.worth(link):
                continue
            yield issuer
            owner = self._nodes.get(issuer)
            if takes and owner is not None:
                yield from [key for key, _ in owner.lent() if key in self._nodes and self._takes(self._nodes[key], at)]
        yield from [key for key, _ in node.lent()]

    def _founded(self, community: Sequence[Node], at: float) -> LinkGroup:
        names = "\n".join(sorted(one.name for one in community))
        digest = blake2b(f"{at} {names}".encode("utf-8", "surrogateescape"), digest_size=3).hexdigest().upper()
        group = self._groups[digest] = LinkGroup(digest, at)
        oldest = at - _FORGOTTEN * self.limits.half_life
        for name in [name for name, one in self._groups.items() if one.seen < oldest]:
            self._groups.pop(name).over = True
        if len(self._groups) > _MOST_CAMPAIGNS:
            self._groups.popitem(last=False)[1].over = True
        return group

    def _joined(self, met: Sequence[LinkGroup]) -> LinkGroup:
        """One campaign out of those that have met: the oldest."""
        group = min(met, key=lambda one: one.since)
        for other in met:
            if other is not group:
                del self._groups[other.id]
                other.into = group
                group.members |= other.members
                group.links += other.links
                group.pages += other.pages
        return group

    def _told(self, group: LinkGroup) -> Campaign:
        members, share = tuple(group.members), min(1.0, group.links / max(group.pages, 1.0))
        text = (
            f"{len(members)} visitors used {group.links:,.0f} links that were minted for one another: {share:.0%} of"
            f" the pages they asked for by a link, where {self.limits.chance:.1%} is chance."
        )
        return Campaign(group.id, "sharing", group.since, group.seen, members, text, group.links, group.pages)
