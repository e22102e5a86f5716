"""Verified bots: good bots that are known by the networks they come from, as the settings name them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hedgerow.identity.address import Networks


class Bot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    A bot that is welcome.

    It is verified when it comes from one of *networks* and, where *user_agent* is given, its user agent holds that
    word: a search engine's network may also carry people.
    """

    name: str
    networks: tuple[str, ...]
    user_agent: str = ""


class Bots:
    """Tells whether a visit is a verified bot's."""

    def __init__(self, bots: Sequence[Bot] = ()) -> None:
        self._bots = tuple((bot.name, Networks(bot.networks), bot.user_agent.lower()) for bot in bots)

    def __bool__(self) -> bool:
        return bool(self._bots)

    def verified(self, address: str, user_agent: str) -> str:
        """The bot's name, or "" where the visitor is no verified bot."""
        for name, networks, word in self._bots:
            if address in networks and word in user_agent.lower():
                return name
        return ""
