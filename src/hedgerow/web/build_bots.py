"""
From settings to the known bots, and where what is known of them lies. Apart from `build`, so that who only reads logs
need not read all that a gate is made of.
"""

from __future__ import annotations

import os
from pathlib import Path

from hedgerow.request.bots import CATEGORIES, BotPolicy, BotProofs, Bots, Category, KnownBot, known_bots
from hedgerow.settings.schema import Settings
from hedgerow.web.bot_ranges import as_ranges, load_ranges


def state_directory(settings: Settings) -> Path:
    """Where key and ledger live: as set, else systemd's state directory, else the user's."""
    if settings.directory:
        return Path(settings.directory).expanduser()
    if systemd := os.environ.get("STATE_DIRECTORY"):
        return Path(systemd.partition(":")[0])
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "hedgerow"


def ranges_path(settings: Settings) -> Path:
    """The file of published ranges."""
    return state_directory(settings) / "ranges.json"


def all_bots(settings: Settings) -> tuple[KnownBot, ...]:
    """The bots of the table and the signers of the settings; none where they are switched off."""
    if not settings.bots.enabled:
        return ()
    signers = (KnownBot(one.name, one.category, signer=one.host.lower()) for one in settings.bots.signers)
    return (*known_bots(), *signers)


def build_bots(settings: Settings, proofs: BotProofs) -> Bots:
    """The known bots, with the ranges that `hedgerow bots update` has read and what becomes of each category."""
    bots = settings.bots
    policies: dict[Category, BotPolicy] = {name: getattr(bots, name.replace("-", "_")) for name in CATEGORIES}
    proofs.true_for, proofs.false_for = bots.true_for, bots.false_for
    ranges = as_ranges(load_ranges(ranges_path(settings))) if bots.enabled else {}
    return Bots(settings.identity.bots, known=all_bots(settings), ranges=ranges, policies=policies, proofs=proofs)
