"""
Robots.txt compliance: whether a bot obeys the site's robots.txt, and which bots lost their pass by disobeying.

A crawler may use a copy of robots.txt that is a day old (RFC 9309, 2.4). So a new rule does not count against anybody
for a day. The robots.txt found at start-up is assumed to be older.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple, Protocol

from protego import Protego

_MAX_HOSTS = 16
_MAX_VERSIONS = 8
_ALWAYS_ALLOWED = "/robots.txt"


class _Version(NamedTuple):
    """A robots.txt, and the time until which the site served it."""

    text: bytes
    rules: Protego
    until: float


class _Host:
    def __init__(self) -> None:
        self.versions: list[_Version] = []
        self.read_at = -inf
        self.asked_at = -inf


class RevokedBots(Protocol):
    """The end of each bot's revocation by name: a dictionary, or a store that several processes share."""

    def get(self, bot: str, /) -> float | None: ...

    def __setitem__(self, bot: str, until: float, /) -> None: ...


class RobotsCompliance:
    """
    The recent versions of each host's robots.txt, and the bots that disobeyed one.

    A robots.txt is fetched again after *refresh* seconds. A bot that disobeys does not pass for *unwelcome_for*
    seconds. A bot may use a copy that is *grace* seconds old.
    """

    def __init__(self, *, refresh: float = 3600.0, unwelcome_for: float = 86_400.0, grace: float = 86_400.0) -> None:
        self.refresh = refresh
        self.unwelcome_for = unwelcome_for
        self._grace = grace
        self._hosts: dict[str, _Host] = {}
        self.revoked_bots: RevokedBots = {}

    def due(self, host: str, at: float) -> bool:
        """Return whether to fetch the robots.txt of *host* now: once when it is old, and again after a failure."""
        known = self._hosts.get(host)
        if known is None:
            if len(self._hosts) >= _MAX_HOSTS:
                del self._hosts[next(iter(self._hosts))]
            known = self._hosts[host] = _Host()
        if at - known.read_at < self.refresh or at - known.asked_at < min(self.refresh, 60.0):
            return False
        known.asked_at = at
        return True

    def learn(self, host: str, text: bytes, at: float) -> None:
        """Record that the robots.txt of *host* is *text*, as of *at*."""
        known = self._hosts.get(host)
        if known is None:
            return
        known.read_at = at
        if known.versions and known.versions[-1].text == text:
            return
        if known.versions:
            known.versions[-1] = known.versions[-1]._replace(until=at)
        known.versions.append(_Version(text, Protego.parse(text.decode("utf-8", "replace")), inf))
        known.versions = [v for v in known.versions if v.until >= at - self._grace][-_MAX_VERSIONS:]

    def disobeys(self, host: str, agent: str, target: str, at: float) -> bool:
        """Return whether every robots.txt that bot *agent* may have read forbids *target*."""
        known = self._hosts.get(host)
        if known is None or not known.versions or target.partition("?")[0] == _ALWAYS_ALLOWED:
            return False
        url = "http://site" + target
        return not any(
            version.rules.can_fetch(url, agent) for version in known.versions if version.until >= at - self._grace
        )

    def revoke(self, bot: str, at: float) -> None:
        self.revoked_bots[bot] = at + self.unwelcome_for

    def is_revoked(self, bot: str, at: float) -> bool:
        until = self.revoked_bots.get(bot)
        return until is not None and until > at
