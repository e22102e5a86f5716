"""The tables of `hedgerow.toml` for how a site is operated: TLS, privacy."""

from __future__ import annotations

from typing import Literal

from hedgerow.core.settings_table import Faults, Table
from hedgerow.settings import checks

_MIN_KEY_LENGTH = 16


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
