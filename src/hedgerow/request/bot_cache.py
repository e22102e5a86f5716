"""What is known about bots while the site runs. Settings that are reloaded keep it."""

from __future__ import annotations

from hedgerow.request.bot_signature import Keys
from hedgerow.request.bots import BotProofs
from hedgerow.request.robots_compliance import RobotsCompliance


class BotCache:
    """What is known about bots while the site runs: host names of addresses, keys, robots.txt compliance."""

    def __init__(self) -> None:
        self.proofs = BotProofs()
        self.keys = Keys()
        self.robots_compliance = RobotsCompliance()
