"""
Verification of visitors that claim to be bots, by address, signature and robots.txt compliance.

A verified bot passes if the policy for its category allows it and it obeys robots.txt. Others are judged like
everybody.
"""

from __future__ import annotations

from typing import NamedTuple

from hedgerow.core.visit import Proof
from hedgerow.request.bot_signature import Keys, Request, Signatures
from hedgerow.request.bots import BotProofs, Bots, KnownBot
from hedgerow.request.robots_compliance import RobotsCompliance

_ROBOTS_SIGN = ("robots",)
_SIGNATURE_SIGNS = {
    "forged": ("signature-forged",), "replayed": ("signature-replayed",), "expired": ("signature-expired",),
}  # fmt: skip


class BotCache:
    """What is known about bots while the site runs: host names of addresses, keys, robots.txt compliance."""

    def __init__(self) -> None:
        self.proofs = BotProofs()
        self.keys = Keys()
        self.robots_compliance = RobotsCompliance()


class BotMatch(NamedTuple):
    """*bot* is the name of a verified bot that may pass, or "". The other fields are those of `Visit`."""

    bot: str
    claim: str = ""
    proof: Proof = ""
    anomalies: tuple[str, ...] = ()


_NO_MATCH = BotMatch("")


class BotVerifier:
    """
    Recognises bots.

    Without *signatures* none is checked. Without *robots_compliance* no bot has to obey robots.txt.
    """

    def __init__(
        self,
        bots: Bots | None = None,
        signatures: Signatures | None = None,
        robots_compliance: RobotsCompliance | None = None,
    ) -> None:
        self.bots = Bots() if bots is None else bots
        self.robots_compliance = robots_compliance
        self._signatures = signatures
        self._any_bots = bool(self.bots)

    def match(self, request: Request, address: str, user_agent: str, target: str) -> BotMatch:
        """
        Return the bot that sent a request. *target* is the requested page without any marker.

        A valid signature decides. Without one, the claim in the user agent is checked by address.
        """
        signed = self._signatures.check(request) if self._signatures is not None else None
        if signed is None:
            return self.match_address(request.at, address, user_agent, request.host, target)
        if signed.bot is not None and signed.outcome == "verified":
            return self._verified(signed.bot, request.at, request.host, target)
        by_address = self.match_address(request.at, address, user_agent, request.host, target)
        if by_address.bot or signed.bot is None:
            return by_address
        anomalies = by_address.anomalies + _SIGNATURE_SIGNS.get(signed.outcome, ())
        if not by_address.claim:
            pending = signed.outcome == "pending"
            return BotMatch("", signed.bot.name, "pending" if pending else "unprovable", anomalies)
        return by_address._replace(anomalies=anomalies)

    def match_address(self, at: float, address: str, user_agent: str, host: str = "", target: str = "") -> BotMatch:
        """Return the bot with this address and user agent. Log lines have no more than these."""
        if not self._any_bots:
            return _NO_MATCH
        name = self.bots.verified(address, user_agent)
        bot = self.bots.claimed(user_agent)
        if name or bot is None:
            return BotMatch(name) if name else _NO_MATCH
        proof = self.bots.prove(bot, address, at)
        if proof == "verified":
            return self._verified(bot, at, host, target)
        anomalies = _ROBOTS_SIGN if proof == "unprovable" and self._disobeys(bot, at, host, target) else ()
        return BotMatch("", bot.name, proof, anomalies)

    def _verified(self, bot: KnownBot, at: float, host: str, target: str) -> BotMatch:
        anomalies: tuple[str, ...] = ()
        if self.robots_compliance is not None:
            if self._disobeys(bot, at, host, target):
                anomalies = _ROBOTS_SIGN
                self.robots_compliance.revoke(bot.name, at)
            if self.robots_compliance.is_revoked(bot.name, at):
                return BotMatch("", bot.name, "verified", anomalies)
        return BotMatch(bot.name if self.bots.allows(bot) else "", bot.name, "verified", anomalies)

    def _disobeys(self, bot: KnownBot, at: float, host: str, target: str) -> bool:
        return bool(
            self.robots_compliance and bot.robots and self.robots_compliance.disobeys(host, bot.robots, target, at)
        )
