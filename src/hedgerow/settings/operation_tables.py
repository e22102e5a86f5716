"""The tables of `hedgerow.toml` for how a site is operated: TLS, privacy, alerts."""

from __future__ import annotations

import re
from typing import Literal

from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.settings import checks

_MIN_KEY_LENGTH = 16
_WEBHOOK = re.compile(r"https?://[^\s/@]+(?:/\S*)?")
_MAIL_ADDRESS = re.compile(r"[^\s@<>,;\x00-\x1f]+@[^\s@<>,;\x00-\x1f]+")


class AlertsSettings(Table, frozen=True):
    """Messages to the operator. Without a webhook and without mail_to there are none."""

    kinds: tuple[Literal["campaign", "crawl", "challenges", "store", "site"], ...] = (
        "campaign", "crawl", "challenges", "store", "site",
    )  # fmt: skip
    site: str = ""
    webhook: str = ""
    webhook_format: Literal["json", "slack"] = "json"
    mail_to: tuple[str, ...] = ()
    mail_from: str = ""
    mail_server: str = "127.0.0.1:25"
    mail_tls: Literal["off", "starttls", "tls"] = "off"
    mail_user: str = ""
    mail_password: str = ""
    repeat_after: float = 21_600.0
    per_hour: int = 10
    crawl_stopped: int = 300

    @property
    def enabled(self) -> bool:
        return bool(self.webhook or self.mail_to)

    def faults(self) -> Faults:
        yield from positive_faults(self, "repeat_after", "per_hour", "crawl_stopped")
        yield from checks.listen_faults("mail_server", self.mail_server)
        if self.webhook and not _WEBHOOK.fullmatch(self.webhook):
            # The address is not repeated here: it is a secret.
            yield "webhook", "is not an address that starts with https:// or http://"
        for address in (*self.mail_to, *filter(None, (self.mail_from,))):
            if not _MAIL_ADDRESS.fullmatch(address):
                yield "mail_to", f"{address!r} is not a mail address such as admin@example.org"
        if self.mail_user and self.mail_tls == "off":
            yield "mail_tls", "must be starttls or tls: a password must not be sent in the clear"


class PrivacySettings(Table, frozen=True):
    """How the ledger stores addresses. *key* is the secret of the hashes; empty: a file in the state directory."""

    addresses: Literal["full", "truncated", "hashed"] = "full"
    key: str = ""

    def faults(self) -> Faults:
        if self.key and len(self.key) < _MIN_KEY_LENGTH:
            yield "key", f"must have at least {_MIN_KEY_LENGTH} characters: all addresses can be tried with a short one"


class TlsSettings(Table, frozen=True):
    """TLS for visitors. *redirect* is the address of a listener that sends plain http to https."""

    certificate: str = ""
    key: str = ""
    minimum: Literal["1.2", "1.3"] = "1.2"
    redirect: str = ""

    def faults(self) -> Faults:
        for name, other in (("certificate", "key"), ("key", "certificate")):
            if getattr(self, other) and not getattr(self, name):
                yield name, f"is needed beside {other}"
        if self.redirect:
            yield from checks.listen_faults("redirect", self.redirect)
            if not self.certificate:
                yield "redirect", "needs a certificate: there is no https to redirect to"
