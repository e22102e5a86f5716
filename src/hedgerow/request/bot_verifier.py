"""
Welcome: the one verdict on a visitor that says it is a bot, from its address, its signature and its manners.

A verified bot is welcome where the policy for its category says so and it keeps to robots.txt. Everybody else is
judged like everybody else.
"""

from __future__ import annotations

from typing import NamedTuple

from hedgerow.core.visit import Proof
from hedgerow.request.bot_signature import Keys, Request, Signatures
from hedgerow.request.bots import BotProofs, Bots, KnownBot
from hedgerow.request.robots_compliance import RobotsCompliance

_ROBOTS = ("robots",)
_SIGNS = {
    "forged": ("signature-forged",), "replayed": ("signature-replayed",), "expired": ("signature-expired",),
}  # fmt: skip


class BotCache:
    """What is remembered about bots, for as long as the site runs: names of addresses, keys, manners."""

    def __init__(self) -> None:
        self.proofs = BotProofs()
        self.keys = Keys()
        self.robots_compliance = RobotsCompliance()


class BotMatch(NamedTuple):
    """*bot* is the welcome bot's name, or ""; *claim*, *proof* and *signs* are the visit's."""

    bot: str
    claim: str = ""
    proof: Proof = ""
    signs: tuple[str, ...] = ()


_NOBODY = BotMatch("")


class BotVerifier:
    """
    Recognises bots. Without *signatures* none is checked; without *robots_compliance* nobody is held to robots.txt.
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
        self._some = bool(self.bots)

    def of(self, request: Request, address: str, user_agent: str, target: str) -> BotMatch:
        """
        Who is asking, if it is a bot. *target* is the page asked for, without any marker.

        A good signature decides. Where there is none, or a bad one, the claim of the user agent is looked into.
        """
        signed = self._signatures.check(request) if self._signatures is not None else None
        if signed is None:
            return self.of_address(request.at, address, user_agent, request.host, target)
        if signed.bot is not None and signed.outcome == "verified":
            return self._proven(signed.bot, request.at, request.host, target)
        seen = self.of_address(request.at, address, user_agent, request.host, target)
        if seen.bot or signed.bot is None:
            return seen
        signs = seen.signs + _SIGNS.get(signed.outcome, ())
        if not seen.claim:
            pending = signed.outcome == "pending"
            return BotMatch("", signed.bot.name, "pending" if pending else "unprovable", signs)
        return seen._replace(signs=signs)

    def of_address(self, at: float, address: str, user_agent: str, host: str = "", target: str = "") -> BotMatch:
        """The same from address and user agent alone, as a log has them."""
        if not self._some:
            return _NOBODY
        name = self.bots.verified(address, user_agent)
        bot = self.bots.claimed(user_agent)
        if name or bot is None:
            return BotMatch(name) if name else _NOBODY
        proof = self.bots.prove(bot, address, at)
        if proof == "verified":
            return self._proven(bot, at, host, target)
        signs = _ROBOTS if proof == "unprovable" and self._disobeys(bot, at, host, target) else ()
        return BotMatch("", bot.name, proof, signs)

    def _proven(self, bot: KnownBot, at: float, host: str, target: str) -> BotMatch:
        signs: tuple[str, ...] = ()
        if self.robots_compliance is not None:
            if self._disobeys(bot, at, host, target):
                signs = _ROBOTS
                self.robots_compliance.send_away(bot.name, at)
            if not self.robots_compliance.bot_verifier(bot.name, at):
                return BotMatch("", bot.name, "verified", signs)
        return BotMatch(bot.name if self.bots.welcomes(bot) else "", bot.name, "verified", signs)

    def _disobeys(self, bot: KnownBot, at: float, host: str, target: str) -> bool:
        return bool(
            self.robots_compliance and bot.robots and self.robots_compliance.disobeys(host, bot.robots, target, at)
        )
