"""
Manners: whether a bot keeps to the site's robots.txt, and who has lost its welcome because it did not.

A crawler may go by a robots.txt that it read a day ago (RFC 9309, 2.4). So a rule is held against nobody before it has
stood for that long; the robots.txt that is found at the start is taken to have stood.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple, Protocol

from protego import Protego

_MOST_HOSTS = 16
_MOST_VERSIONS = 8
_ALWAYS_OPEN = "/robots.txt"


class _Version(NamedTuple):
    """A robots.txt, and until when it was the site's."""

    text: bytes
    rules: Protego
    until: float


class _Host:
    """The robots.txt of a host: what was its until lately, and what is."""

    def __init__(self) -> None:
        self.versions: list[_Version] = []
        self.read_at = -inf
        self.asked_at = -inf


class RevokedBots(Protocol):
    """Who has lost its welcome, and until when: a dictionary, or what several processes share."""

    def get(self, bot: str, /) -> float | None: ...

    def __setitem__(self, bot: str, until: float, /) -> None: ...


class RobotsCompliance:
    """
    Remembers the robots.txt of each host, and the bots that have disobeyed one.

    It is read again when it is *refresh* seconds old. Who disobeys is unwelcome for *unwelcome_for* seconds. A bot may
    go by what was true *grace* seconds ago.
    """

    def __init__(self, *, refresh: float = 3600.0, unwelcome_for: float = 86_400.0, grace: float = 86_400.0) -> None:
        self.refresh = refresh
        self.unwelcome_for = unwelcome_for
        self._grace = grace
        self._hosts: dict[str, _Host] = {}
        self.revoked_bots: RevokedBots = {}

    def due(self, host: str, at: float) -> bool:
        """Whether the robots.txt of *host* should be read now. Says so once, and again if nothing came of it."""
        known = self._hosts.get(host)
        if known is None:
            if len(self._hosts) >= _MOST_HOSTS:
                del self._hosts[next(iter(self._hosts))]
            known = self._hosts[host] = _Host()
        if at - known.read_at < self.refresh or at - known.asked_at < min(self.refresh, 60.0):
            return False
        known.asked_at = at
        return True

    def learn(self, host: str, text: bytes, at: float) -> None:
        """The robots.txt of *host* is *text*, as of *at*."""
        known = self._hosts.get(host)
        if known is None:
            return
        known.read_at = at
        if known.versions and known.versions[-1].text == text:
            return
        if known.versions:
            known.versions[-1] = known.versions[-1]._replace(until=at)
        known.versions.append(_Version(text, Protego.parse(text.decode("utf-8", "replace")), inf))
        known.versions = [v for v in known.versions if v.until >= at - self._grace][-_MOST_VERSIONS:]

    def disobeys(self, host: str, agent: str, target: str, at: float) -> bool:
        """Whether a bot called *agent* was told not to fetch *target*, by every robots.txt it may have read."""
        known = self._hosts.get(host)
        if known is None or not known.versions or target.partition("?")[0] == _ALWAYS_OPEN:
            return False
        url = "http://site" + target
        return not any(
            version.rules.can_fetch(url, agent) for version in known.versions if version.until >= at - self._grace
        )

    def send_away(self, bot: str, at: float) -> None:
        """*bot* has disobeyed."""
        self.revoked_bots[bot] = at + self.unwelcome_for

    def bot_verifier(self, bot: str, at: float) -> bool:
        """Whether *bot* has not disobeyed lately."""
        until = self.revoked_bots.get(bot)
        return until is None or until <= at
