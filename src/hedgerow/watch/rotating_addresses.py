"""
Campaigns of rotating addresses: visitors that the detector of rotating addresses asked for a clearance.

They never return, so nothing connects one address with another but the time: all of them within an hour of each other
are one campaign. It is only reported. Some of these visitors are people, who obtain a clearance and are no members.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b

from hedgerow.core.address import network_of
from hedgerow.core.decision import Campaign, Decision
from hedgerow.core.visit import Visit
from hedgerow.detectors.rotating_addresses import ROTATION_CODES

_PAUSE = 3600.0
_MIN_MEMBERS = 10
_MAX_MEMBERS = 10_000
_MAX_CAMPAIGNS = 32
_MINUTE = 60.0


class _Group:
    """The addresses that came within an hour of each other."""

    def __init__(self, at: float, requests: float = 0.0) -> None:
        self.since = self.seen = at
        self.requests = requests
        self.members: OrderedDict[str, None] = OrderedDict()
        self.networks: set[str] = set()
        self.is_full = False

    @property
    def id(self) -> str:
        return blake2b(f"rotating {self.since}".encode(), digest_size=3).hexdigest().upper()

    def add(self, prefix: str, address: str) -> bool:
        """Add an address; return whether it is new."""
        if prefix in self.members:
            return False
        if len(self.members) >= _MAX_MEMBERS:
            self.is_full = True
            return False
        self.members[prefix] = None
        self.networks.add(network_of(address) or prefix)
        return True

    def to_campaign(self) -> Campaign:
        rate = self.requests / max(1.0, (self.seen - self.since) / _MINUTE)
        many = f"{'more than ' if self.is_full else ''}{len(self.members):,} addresses"
        networks = f"{len(self.networks):,} network{'s' if len(self.networks) != 1 else ''}"
        text = (
            f"{many} of {networks} read the site one after the other, {rate:,.0f} requests a minute: by links that "
            "were handed on from address to address, or page by page without marked links. They were asked for a "
            "clearance and obtained none."
        )
        return Campaign(
            self.id, "rotating", self.since, self.seen, tuple(self.members), text, pages=self.requests,
            networks=len(self.networks), rate=rate,
        )  # fmt: skip


class RotatingAddresses:
    """Collects visitors with rotating addresses into campaigns. Not thread-safe, but for `campaigns`."""

    def __init__(self) -> None:
        self._groups: list[_Group] = []

    def campaigns(self) -> Sequence[Campaign]:
        """Return all campaigns in memory, oldest first."""
        return [group.to_campaign() for group in list(self._groups) if len(group.members) >= _MIN_MEMBERS]

    def restore(self, campaigns: Sequence[Campaign]) -> None:
        for campaign in campaigns[-_MAX_CAMPAIGNS:]:
            group = _Group(campaign.since, campaign.pages)
            group.seen = campaign.seen
            for name in campaign.members:
                group.add(name, name.partition("/")[0])
            self._groups.append(group)

    def see(self, visit: Visit, decision: Decision) -> Campaign | None:
        """Take one more visit into account; return a campaign that it founds."""
        group = self._groups[-1] if self._groups else None
        if visit.visitor != visit.prefix:
            if group is not None:
                # It was asked, and has a clearance now.
                group.members.pop(visit.prefix, None)
            return None
        if not any(one.code in ROTATION_CODES for one in decision.evidence):
            return None
        if group is None or visit.at - group.seen > _PAUSE:
            group = _Group(visit.at)
            self._groups = [*self._groups, group][-_MAX_CAMPAIGNS:]
        group.seen = max(group.seen, visit.at)
        group.requests += 1
        is_new = group.add(visit.prefix, visit.address)
        return group.to_campaign() if is_new and len(group.members) == _MIN_MEMBERS else None
