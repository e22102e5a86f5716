"""
Rules for countries and network operators: `[[lists.networks]]` in the settings.

The first rule that names the country or the operator of an address applies. An address about which the files say
nothing has no rule, so private networks and loopback have none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Literal

from hedgerow.core.decision import Decision, Evidence
from hedgerow.core.settings_table import Faults, Table

GROUP = "network"
"""The group of evidence about networks."""
AsnOf = Callable[[str], int]
"""Returns the AS number of the operator of an address, 0 if unknown."""
CountryOf = Callable[[str], str]
"""Returns the country of an address in two letters, "" if unknown."""

_COUNTRY = re.compile(r"[A-Z]{2}")
_CACHE_SIZE = 1 << 14
_MAX_ASN = 2**32 - 1


class NetworkRule(Table, frozen=True):
    """What is done with visitors from a *country*, in two capital letters, or of an operator, by AS number."""

    action: Literal["allow", "block", "challenge"]
    country: tuple[str, ...] = ()
    asn: tuple[int, ...] = ()
    reason: str = ""

    def faults(self) -> Faults:
        if not self.country and not self.asn:
            yield "action", "needs a country or an asn to apply to"
        for country in self.country:
            if not _COUNTRY.fullmatch(country):
                yield "country", f"{country!r} is not a country in two capital letters, such as NL"
        for number in self.asn:
            if not 0 < number <= _MAX_ASN:
                yield "asn", f"{number} is not an AS number, such as 64496"


class NetworkRules:
    """The rules of a site. *asn_of* and *country_of* are set when their files are read."""

    def __init__(self, rules: Sequence[NetworkRule]) -> None:
        self._rules = tuple(rules)
        self._asn_of: AsnOf = lambda _: 0
        self._country_of: CountryOf = lambda _: ""
        self._renew()

    def use(self, *, asn_of: AsnOf | None = None, country_of: CountryOf | None = None) -> None:
        """Use other files."""
        self._asn_of = asn_of or self._asn_of
        self._country_of = country_of or self._country_of
        self._renew()

    def find(self, address: str) -> tuple[NetworkRule, str] | None:
        """Return the rule for an address, and the country or operator that it names."""
        return self._cached(address)

    def decide(self, address: str) -> Decision | None:
        """Return the decision of a rule that allows or blocks an address. None: it is judged as usual."""
        found = self._cached(address)
        if found is None or found[0].action == "challenge":
            return None
        rule, named = found
        allows = rule.action == "allow"
        text = f"Visitors from {named} are {'let in' if allows else 'refused'} by a rule."
        code, weight = ("network-allowed", 0.0) if allows else ("network-blocked", 1.0)
        return Decision("pass" if allows else "refuse", (Evidence(GROUP, code, weight, text, details=rule.reason),))

    def _renew(self) -> None:
        # A new cache, not a cleared one: a concurrent lookup may still add its result to the old one.
        self._cached = lru_cache(_CACHE_SIZE)(self._find)

    def _find(self, address: str) -> tuple[NetworkRule, str] | None:
        country = number = None
        for rule in self._rules:
            if rule.country:
                country = self._country_of(address) if country is None else country
                if country in rule.country:
                    return rule, f"the country {country}"
            if rule.asn:
                number = self._asn_of(address) if number is None else number
                if number in rule.asn:
                    return rule, f"the network operator AS{number}"
        return None
