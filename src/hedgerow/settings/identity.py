"""The table [identity]: addresses, accounts and the site's own bots."""

from __future__ import annotations

from typing import Literal

from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.request.bots import Bot
from hedgerow.settings.checks import network_faults


class IdentitySettings(Table, frozen=True):
    trusted_proxies: tuple[str, ...] = ()
    forwarded_header: Literal["x-forwarded-for", "forwarded", "x-real-ip"] = "x-forwarded-for"
    account_cookie: str = ""
    account_header: str = ""
    strikes: int = 3
    bots: tuple[Bot, ...] = ()
    tls_header: str = ""

    def faults(self) -> Faults:
        yield from network_faults("trusted_proxies", self.trusted_proxies)
        yield from positive_faults(self, "strikes")
        for name in ("account_header", "tls_header"):
            if getattr(self, name) and not self.trusted_proxies:
                yield name, "is believed from trusted proxies only; name them in trusted_proxies"
        for number, bot in enumerate(self.bots):
            yield from network_faults(f"bots.{number}.networks", bot.networks)
            if not bot.name:
                yield f"bots.{number}.name", "must not be empty"
            if not bot.networks:
                yield f"bots.{number}.networks", "must not be empty: a bot is verified by them"
