"""The tables of `hedgerow.toml` for how a site is operated: TLS, privacy, alerts, traces."""

from __future__ import annotations

import re
from typing import Literal

from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.settings import checks

_MIN_KEY_LENGTH = 16
_WEBHOOK = re.compile(r"https?://[^\s/@]+(?:/\S*)?")
_HOST_NAME = re.compile(r"(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]*[a-z][a-z0-9-]*", re.ASCII)
_DIRECTORY = re.compile(r"https://[^\s/@]+(?:/\S*)?")
_MAIL_ADDRESS = re.compile(r"[^\s@<>,;\x00-\x1f]+@[^\s@<>,;\x00-\x1f]+")


class AlertsSettings(Table, frozen=True):
    """Messages to the operator. Without a webhook and without mail_to there are none."""

    kinds: tuple[Literal["campaign", "crawl", "challenges", "complaints", "store", "site", "certificate"], ...] = (
        "campaign", "crawl", "challenges", "complaints", "store", "site", "certificate",
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


class TracesSettings(Table, frozen=True):
    """Traces of requests, sent to *endpoint* by OTLP over HTTP. *share* of the requests are recorded."""

    enabled: bool = False
    endpoint: str = "http://127.0.0.1:4318/v1/traces"
    share: float = 1.0
    service_name: str = "hedgerow"

    def faults(self) -> Faults:
        if not _WEBHOOK.fullmatch(self.endpoint):
            yield "endpoint", "is not an address that starts with https:// or http://"
        if not 0 <= self.share <= 1:
            yield "share", f"must be between 0 and 1, not {self.share:g}"
        if not self.service_name:
            yield "service_name", "must not be empty"


class PrivacySettings(Table, frozen=True):
    """
    How the ledger stores addresses, and how long the audit log and reports are kept.

    *key* is the secret of the hashes; empty: a file in the state directory.
    """

    addresses: Literal["full", "truncated", "hashed"] = "full"
    key: str = ""
    audit_days: float = 365.0
    report_days: float = 90.0

    def faults(self) -> Faults:
        yield from positive_faults(self, "audit_days", "report_days")
        if self.key and len(self.key) < _MIN_KEY_LENGTH:
            yield "key", f"must have at least {_MIN_KEY_LENGTH} characters: all addresses can be tried with a short one"


class TlsSettings(Table, frozen=True):
    """
    TLS for visitors. *redirect* is the address of a listener that sends plain http to https.

    *acme* are host names for which a certificate is obtained from *acme_directory*, and renewed.
    """

    certificate: str = ""
    key: str = ""
    minimum: Literal["1.2", "1.3"] = "1.2"
    redirect: str = ""
    acme: tuple[str, ...] = ()
    acme_directory: str = "https://acme-v02.api.letsencrypt.org/directory"
    acme_email: str = ""
    acme_ca: str = ""

    @property
    def is_obtained(self) -> bool:
        """Whether the certificate comes from an authority. One that is named is used instead."""
        return bool(self.acme) and not self.certificate

    @property
    def plain_listen(self) -> str:
        """The address of the listener for plain http: certificate authorities ask at port 80."""
        return self.redirect or (":80" if self.is_obtained else "")

    def faults(self) -> Faults:
        for name in self.acme:
            if not _HOST_NAME.fullmatch(name):
                yield "acme", f"{name!r} is not a host name such as www.example.org; wildcards need another way"
        if not _DIRECTORY.fullmatch(self.acme_directory):
            yield "acme_directory", "is the https address of an ACME directory"
        if self.acme_email and not _MAIL_ADDRESS.fullmatch(self.acme_email):
            yield "acme_email", f"{self.acme_email!r} is not a mail address such as admin@example.org"
        for name, other in (("certificate", "key"), ("key", "certificate")):
            if getattr(self, other) and not getattr(self, name):
                yield name, f"is needed beside {other}"
        if self.redirect:
            yield from checks.listen_faults("redirect", self.redirect)
            if not self.certificate and not self.acme:
                yield "redirect", "needs a certificate: there is no https to redirect to"
