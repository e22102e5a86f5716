"""From settings to the known bots. Imports little, because `hedgerow report` uses it too."""

from __future__ import annotations

from hedgerow.request.bots import CATEGORIES, BotPolicy, BotProofs, Bots, Category, KnownBot, known_bots
from hedgerow.settings.schema import Settings
from hedgerow.web.bot_ranges import as_ranges, load_ranges
from hedgerow.web.paths import ranges_path


def all_bots(settings: Settings) -> tuple[KnownBot, ...]:
    """Return the known bots and the signers of the settings; none if bots are switched off."""
    if not settings.bots.enabled:
        return ()
    signers = (KnownBot(one.name, one.category, signer=one.host.lower()) for one in settings.bots.signers)
    return (*known_bots(), *signers)


def refused_bots(settings: Settings) -> list[KnownBot]:
    """Return the bots whose category the settings refuse."""
    policies = _policies(settings)
    return [bot for bot in all_bots(settings) if policies[bot.category] == "refuse"]


def build_bots(settings: Settings, proofs: BotProofs) -> Bots:
    """Build the known bots, with the address ranges that `hedgerow bots update` has stored."""
    ranges = as_ranges(load_ranges(ranges_path(settings))) if settings.bots.enabled else {}
    return Bots(
        settings.identity.bots,
        known=all_bots(settings),
        ranges=ranges,
        policies=_policies(settings),
        proofs=proofs,
    )


def _policies(settings: Settings) -> dict[Category, BotPolicy]:
    return {name: getattr(settings.bots, name.replace("-", "_")) for name in CATEGORIES}
