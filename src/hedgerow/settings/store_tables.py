"""The tables of `hedgerow.toml` for what is stored: state, ledger, and lists."""

from __future__ import annotations

import re
from typing import Literal

from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.request.network_rules import NetworkRule
from hedgerow.settings import checks

ListName = Literal["white", "black"]
OnFailure = Literal["open", "closed"]
"""What a site does while a store is unreachable: it goes on alone, or lets nobody in."""

_REDIS_URL = re.compile(
    r"(?:rediss?://(?:[^@/\s]*@)?[^@/\s:]+(?::\d{1,5})?|rediss?://(?:[^@/\s]*@)?\[[0-9A-Fa-f:.]+\](?::\d{1,5})?)(?:/\d*)?|unix:///\S+"
)


class StateSettings(Table, frozen=True):
    """Counters, blocks and scores. *memory* is the maximum for counters; 300 bytes per visitor are plenty."""

    memory: int = 300_000_000
    blocks: int = 100_000
    durable: bool = True
    url: str = ""
    password: str = ""
    ca_file: str = ""
    prefix: str = "hedgerow:"
    timeout: float = 0.03
    on_failure: OnFailure = "open"

    def faults(self) -> Faults:
        yield from positive_faults(self, "blocks", "timeout")
        yield from checks.minimum_faults(self, memory=1_000_000)
        if self.url and not _REDIS_URL.fullmatch(self.url):
            yield "url", "is not an address such as redis://127.0.0.1:6379/0, rediss://... or unix:///path"
        if not self.prefix or not self.prefix.isascii() or not self.prefix.isprintable():
            yield "prefix", "must be some ASCII characters: other programs may use the same Redis"


class LedgerSettings(Table, frozen=True):
    enabled: bool = True
    path: str = ""
    keep_days: float = 30.0
    queue: int = 100_000
    url: str = ""
    spool: int = 1_000_000_000
    on_failure: OnFailure = "open"

    def faults(self) -> Faults:
        yield from positive_faults(self, "keep_days", "queue", "spool")
        yield from checks.postgresql_faults(self.url)


class Subscription(Table, frozen=True):
    """
    A list of somebody else that is read every *every* seconds, from *url* or *file*.

    Its entries end *keep* seconds after they were last read.
    """

    name: str
    url: str = ""
    file: str = ""
    list: ListName = "black"
    format: Literal["", "plain", "csv", "json", "fail2ban", "crowdsec"] = ""
    every: float = 86_400.0
    keep: float = 604_800.0
    max_bytes: int = 20_000_000

    @property
    def source(self) -> str:
        return self.url or self.file

    def faults(self) -> Faults:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,60}", self.name):
            yield "name", f"{self.name!r} must be letters, digits and . _ - only"
        if bool(self.url) == bool(self.file):
            yield "url", "name one source: url or file"
        if self.url and not re.fullmatch(r"https?://[^\s\"'<>@]+", self.url):
            yield "url", "is not an address such as https://example.org/list.txt"
        yield from positive_faults(self, "keep", "max_bytes")
        yield from checks.minimum_faults(self, ": do not ask others more often", every=60)
        if self.keep < self.every:
            yield "keep", f"must be at least every, {self.every:g}, or entries end before they are read again"


class ListsSettings(Table, frozen=True):
    enabled: bool = True
    path: str = ""
    url: str = ""
    asn_file: str = ""
    country_file: str = ""
    networks: tuple[NetworkRule, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()

    def faults(self) -> Faults:
        yield from checks.postgresql_faults(self.url)
        names = [subscription.name for subscription in self.subscriptions]
        for number, name in enumerate(names):
            if name in names[:number]:
                yield f"subscriptions.{number}.name", f"{name!r} is the name of another subscription"
        for number, rule in enumerate(self.networks):
            for field, file in (("asn", "asn_file"), ("country", "country_file")):
                if getattr(rule, field) and not getattr(self, file):
                    yield f"networks.{number}.{field}", f"needs {file}"
