"""
Detection of campaigns among visitors that use links issued to one another.

A marked link is issued to one visitor. People sometimes use a link that was issued to another visitor: PathMarker
measured 0.23 % of their visits. Workers of one crawler that share a pool of links do it for nearly every page. A
visitor is a sharer if foreign links are a large part of its pages, and others use its links or it used many. Sharers
that use each other's links form a community. A community with enough links is a campaign.

A link counts less the more visitors use it, and nothing once it is public. Readers of a link that somebody posted
therefore never become sharers. Crawlers can only hide behind this by fetching each page several times. Each such visit
is still evidence against the visitor.

All counts fade: pages and links halve every few hours. The number of visitors and links in memory is bounded.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from hedgerow.core.decision import Campaign
from hedgerow.core.visit import Visit
from hedgerow.markers.token import NOBODY, visitor_digest
from hedgerow.watch.link_graph import LinkGroup, LinkUsers, NodeSnapshot, VisitorNode
from hedgerow.watch.sessions.lru import LruDict

_MAX_PAGES = 64.0
_MAX_CHANCE = 1e-6
_FORGET_AFTER_HALF_LIVES = 6
_MERGE_AFTER_CROSSINGS = 3
_MAX_CAMPAIGNS = 256
_MAX_MEMBERS = 10_000
_MIN_PAGES = 3
_TIMES_FOR_TWO = 2


class SharingLimits(msgspec.Struct, frozen=True):
    """
    The limits that define a campaign.

    A campaign has at least *members* sharers that used *links* foreign links in total; fewer sharers, but two at least,
    are one if they used twice as many. For each sharer, foreign links
    are at least *share* of its marked pages. *chance* is the share that people use by chance. A sharer whose own links
    nobody uses has used *heavy_use* foreign links. All counts halve every *half_life* seconds.
    """

    members: int = 3
    links: float = 10.0
    share: float = 0.4
    chance: float = 0.0023
    heavy_use: float = 5.0
    half_life: float = 14_400.0


class SharingFinding(NamedTuple):
    """A campaign, the visitors that joined it with this visit, and the ids of campaigns merged into it."""

    campaign: Campaign
    joined: tuple[str, ...]
    merged: tuple[str, ...] = ()


def _link_number(issuer: bytes, parent: bytes, target: str, requested: str) -> int:
    """Return the number of a link. It is the same after a restart."""
    data = b"\0".join((issuer, parent, f"{target}\0{requested}".encode("utf-8", "surrogateescape")))
    return int.from_bytes(blake2b(data, digest_size=4).digest(), "big")


def poisson_tail(count: float, expected: float) -> float:
    """
    Return the Poisson probability of *count* or more events where *expected* are normal.

    >>> round(poisson_tail(2, 0.35), 3), poisson_tail(0, 1.0)
    (0.049, 1.0)
    """
    whole = math.floor(count)
    term, below = math.exp(-expected), 0.0
    for n in range(whole):
        below += term
        term *= expected / (n + 1)
    if below < 1 - 1e-9:
        return 1 - below
    # The difference would lose all precision. The first remaining term is nearly the whole tail.
    return min(1.0, term)


def _divide(one: VisitorNode, other: VisitorNode, issuer: bytes) -> bool:
    """
    Return whether two visitors have divided the links of *issuer* among themselves: few were used by both.

    Crawlers do that. Readers of a newsletter, and servers that show previews, use the same links.
    """
    if other.campaign is not None:
        return True
    mine, others = one.links_of(issuer), other.links_of(issuer)
    return 2 * len(mine & others) < min(len(mine), len(others))


class LinkSharing:
    """Finds campaigns among visitors that share links. The visitors and links idle longest are forgotten first."""

    def __init__(
        self, limits: SharingLimits | None = None, *, max_visitors: int = 100_000, max_links: int = 50_000
    ) -> None:
        self.limits = limits or SharingLimits()
        self._nodes: LruDict[bytes, VisitorNode] = LruDict(max_visitors)
        self._links = LinkUsers(max_links)
        self._groups: OrderedDict[str, LinkGroup] = OrderedDict()

    def record_changes(self) -> None:
        """Record from now on which visitors change, for `changed`."""
        self._nodes.record_changes()

    def __len__(self) -> int:
        return len(self._nodes)

    def campaigns(self) -> Sequence[Campaign]:
        """Return all campaigns in memory, oldest first. Safe to call from any thread."""
        return [self._to_campaign(group) for group in list(self._groups.values())]

    def restore(self, campaigns: Sequence[Campaign]) -> None:
        for campaign in campaigns[-_MAX_CAMPAIGNS:]:
            group = self._groups[campaign.id] = LinkGroup(campaign.id, campaign.since)
            group.seen, group.links, group.pages = campaign.seen, campaign.links, campaign.pages
            for name in campaign.members[:_MAX_MEMBERS]:
                group.members[name] = None
                node = self._node(visitor_digest(name), campaign.seen)
                node.name = name
                node.join(group)

    def changed(self, limit: int | None = None) -> dict[bytes, tuple[float, bytes] | None]:
        """Return last time and serialised node of visitors that changed; None if forgotten or only just begun."""
        changed: dict[bytes, tuple[float, bytes] | None] = {}
        for visitor in self._nodes.take_changed(limit):
            node = self._nodes.get(visitor)
            is_significant = node is not None and (node.pages >= _MIN_PAGES or node.is_connected)
            changed[visitor] = (node.at, node.to_bytes()) if is_significant and node is not None else None
        return changed

    def restore_ties(self, snapshots: Sequence[tuple[bytes, bytes]]) -> None:
        """Restore visitors and the users of their links, oldest first, after `restore`."""
        for visitor, value in snapshots[-self._nodes.limit :]:
            snapshot = NodeSnapshot.from_bytes(value)
            if snapshot is not None:
                node = self._node(visitor, snapshot.at)
                node.restore(snapshot)
                for link, _, _ in node.used_links():
                    self._links.add(link, visitor)
        self._nodes.forget_changes(*self._nodes)

    def see(self, visit: Visit, issuer: bytes | None) -> SharingFinding | None:
        """
        Take one more visit into account and return what it reveals.

        *issuer* is the visitor that the link was issued to, if that is another one. Only marked page views count:
        assets and typed addresses prove nothing.
        """
        marker = visit.marker
        if visit.kind != "page" or marker is None or marker.issued_to == NOBODY or not visit.visitor:
            return None
        visitor, at = visitor_digest(visit.visitor), visit.at
        node = self._node(visitor, at)
        # The session of the visitor has the same string as its key. A second string would take more memory.
        node.name = visit.visitor
        node.pages = min(self._pages(node, at) + 1, _MAX_PAGES)
        node.at = max(at, node.at)
        group = node.campaign
        if group is not None:
            group.pages += 1
            group.seen = max(group.seen, at)
        if issuer is None:
            return None
        link = _link_number(issuer, marker.parent, marker.target, visit.target)
        if not self._record_use(node, visitor, issuer, link, at):
            return None
        mine, other = node.campaign, self._nodes[issuer].campaign
        if mine is not None and other is not None and mine is not other:
            return self._cross(mine, other)
        # The issuer is checked as well: it may never return, and becomes a sharer when others use its links.
        for one, key in ((node, visitor), (self._nodes[issuer], issuer)):
            finding = self._find_campaign(one, key, at) if one.name and self._is_sharer(one, at) else None
            if finding is not None:
                return finding
        return None

    def _cross(self, mine: LinkGroup, other: LinkGroup) -> SharingFinding | None:
        """Count a link use between two campaigns. After a few of them the campaigns merge."""
        mine.crossed[other.id] += 1
        if mine.crossed[other.id] + other.crossed[mine.id] < _MERGE_AFTER_CROSSINGS:
            return None
        group = self._merge((mine, other))
        return SharingFinding(self._to_campaign(group), (), (other.id if group is mine else mine.id,))

    def _node(self, visitor: bytes, at: float) -> VisitorNode:
        return self._nodes.use(visitor, lambda: VisitorNode(at))

    def _decay(self, since: float, at: float) -> float:
        return math.exp2(-max(0.0, at - since) / self.limits.half_life)

    def _pages(self, node: VisitorNode, at: float) -> float:
        return node.pages * self._decay(node.at, at)

    def _record_use(self, node: VisitorNode, visitor: bytes, issuer: bytes, link: int, at: float) -> bool:
        """Record a link use. Return false if the visitor had used the same link before."""
        if not self._links.add(link, visitor):
            # A repeated page view counts neither as a page of its own nor as a foreign link.
            node.pages -= 1
            return False
        group = node.campaign
        if group is not None:
            group.links += 1
        else:
            node.add_used_link(link, at, issuer)
        owner = self._node(issuer, at)
        if owner.campaign is None:
            owner.add_user(visitor, at)
        return True

    def _foreign_links(self, node: VisitorNode, at: float) -> float:
        return sum(self._links.weight(link) * self._decay(since, at) for link, since, _ in node.used_links())

    def _is_sharer(self, node: VisitorNode, at: float, *, heavy: bool = False) -> bool:
        """
        Return whether a visitor is a sharer, or a *heavy* one: nobody need use its own links.

        Every member of a campaign is a heavy sharer.
        """
        if node.campaign is not None:
            return True
        used_links = self._foreign_links(node, at)
        if not used_links or used_links < self.limits.share * self._pages(node, at):
            return False
        oldest = at - _FORGET_AFTER_HALF_LIVES * self.limits.half_life
        has_users = not heavy and any(since > oldest for _, since in node.users())
        return has_users or used_links >= self.limits.heavy_use

    def _find_campaign(self, node: VisitorNode, visitor: bytes, at: float) -> SharingFinding | None:
        """Return the campaign around a sharer, if its community founds or joins one."""
        if node.campaign is not None:
            return None
        community, met = self._community(node, visitor, at)
        links = sum(self._foreign_links(one, at) for one in community)
        pages = sum(self._pages(one, at) for one in community)
        if met:
            group = self._merge(met)
        else:
            is_small = links < self._links_needed(len(community))
            if is_small or poisson_tail(links, self.limits.chance * pages) > _MAX_CHANCE:
                return None
            group = self._new_group(community, at)
        group.links += links
        group.pages += pages
        group.seen = max(group.seen, at)
        joined = []
        for one in community:
            if len(group.members) < _MAX_MEMBERS:
                one.join(group)
                self._nodes.mark_changed(visitor_digest(one.name))
                if one.name not in group.members:
                    group.members[one.name] = None
                    joined.append(one.name)
        merged = tuple(one.id for one in met if one is not group)
        return SharingFinding(self._to_campaign(group), tuple(joined), merged) if joined else None

    def _links_needed(self, members: int) -> float:
        """Return the number of links that make a campaign of this many members. Two need more than a crowd."""
        if members >= self.limits.members:
            return self.limits.links
        return _TIMES_FOR_TWO * self.limits.links if members > 1 else math.inf

    def _community(self, node: VisitorNode, visitor: bytes, at: float) -> tuple[list[VisitorNode], list[LinkGroup]]:
        """Return the sharers connected to one without passing a campaign, and the campaigns next to them."""
        seen, pending = {visitor}, [node]
        community: list[VisitorNode] = []
        met: dict[str, LinkGroup] = {}
        while pending:
            one = pending.pop()
            community.append(one)
            for key in self._neighbours(one, at):
                if key in seen:
                    continue
                seen.add(key)
                other = self._nodes.get(key)
                if other is None or not other.name or not self._is_sharer(other, at):
                    continue
                group = other.campaign
                if group is None:
                    pending.append(other)
                else:
                    met[group.id] = group
        return community, list(met.values())

    def _neighbours(self, node: VisitorNode, at: float) -> Iterator[bytes]:
        """
        Yield the visitors connected to a sharer: issuers of links it used, and users of its own links.

        Heavy users of the same issuer are also connected, even if the issuer only collects links and hands them out.
        """
        is_heavy = self._is_sharer(node, at, heavy=True)
        for link, _, issuer in node.used_links():
            if not self._links.weight(link):
                continue
            yield issuer
            owner = self._nodes.get(issuer)
            if is_heavy and owner is not None:
                known = [key for key, _ in owner.users() if key in self._nodes]
                yield from [
                    key for key in known
                    if self._is_sharer(self._nodes[key], at, heavy=True) and _divide(node, self._nodes[key], issuer)
                ]  # fmt: skip
        yield from [key for key, _ in node.users()]

    def _new_group(self, community: Sequence[VisitorNode], at: float) -> LinkGroup:
        names = "\n".join(sorted(one.name for one in community))
        digest = blake2b(f"{at} {names}".encode("utf-8", "surrogateescape"), digest_size=3).hexdigest().upper()
        group = self._groups[digest] = LinkGroup(digest, at)
        oldest = at - _FORGET_AFTER_HALF_LIVES * self.limits.half_life
        for name in [name for name, one in self._groups.items() if one.seen < oldest]:
            self._groups.pop(name).over = True
        if len(self._groups) > _MAX_CAMPAIGNS:
            self._groups.popitem(last=False)[1].over = True
        return group

    def _merge(self, met: Sequence[LinkGroup]) -> LinkGroup:
        group = min(met, key=lambda one: one.since)
        for other in met:
            if other is not group:
                del self._groups[other.id]
                other.merged_into = group
                group.members |= other.members
                group.links += other.links
                group.pages += other.pages
        return group

    def _to_campaign(self, group: LinkGroup) -> Campaign:
        members, share = tuple(group.members), min(1.0, group.links / max(group.pages, 1.0))
        text = (
            f"{len(members)} visitors used {group.links:,.0f} links that were issued to one another: {share:.0%} of"
            f" the pages they requested by a marked link. {self.limits.chance:.1%} is expected by chance."
        )
        return Campaign(group.id, "sharing", group.since, group.seen, members, text, group.links, group.pages)
