"""The table [bots]: the treatment of known bots and their verification."""

from __future__ import annotations

from typing import Literal

from hedgerow.core.address import check_network
from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.request.bot_signature import public_key
from hedgerow.request.bots import BotPolicy, Category
from hedgerow.settings.checks import split_listen


class Signer(Table, frozen=True):
    """A bot that signs its requests: the *host* that publishes its keys, or the *keys* themselves."""

    name: str
    category: Category = "other"
    host: str = ""
    keys: tuple[str, ...] = ()

    def faults(self) -> Faults:
        if not self.name:
            yield "name", "must not be empty"
        if not self.host and not self.keys:
            yield "host", "must not be empty if there are no keys"
        if "/" in self.host:
            yield "host", f"{self.host!r} must be only a host, such as bot.example"
        for key in self.keys:
            if public_key(key) is None:
                yield "keys", f"{key!r} is not an Ed25519 key: 32 bytes in base64url, the x of a JWK"


class BotsSettings(Table, frozen=True):
    enabled: bool = True
    search: BotPolicy = "pass"
    ai_training: BotPolicy = "contain"
    ai_search: BotPolicy = "pass"
    ai_assistant: BotPolicy = "pass"
    archive: BotPolicy = "pass"
    monitoring: BotPolicy = "pass"
    preview: BotPolicy = "pass"
    feed: BotPolicy = "pass"
    seo: BotPolicy = "contain"
    other: BotPolicy = "contain"
    dns: bool = True
    resolver: str = ""
    true_for: float = 86_400.0
    false_for: float = 3600.0
    signatures: Literal["known", "any", "off"] = "known"
    signers: tuple[Signer, ...] = ()
    insecure_directories: bool = False
    robots: bool = True
    robots_refresh: float = 3600.0
    unwelcome_for: float = 86_400.0

    def faults(self) -> Faults:
        yield from positive_faults(self, "true_for", "false_for", "robots_refresh", "unwelcome_for")
        if self.resolver:
            try:
                host, _ = split_listen(self.resolver)
                check_network(host)
            except ValueError:
                yield "resolver", f"{self.resolver!r} is not ADDRESS:PORT, such as 127.0.0.1:53"
