"""
The TLS handshake is not that of the browser which the visitor claims to be (JA4, from a trusted proxy).

Which handshakes belong to which browser is learned on this site, from visitors who obtain a clearance. A claimed
browser without a clearance gets evidence if its handshake was never seen with a clearance, or is that of programs which
say their name. The evidence is small and never enough alone. A visitor with a clearance is not judged at all.

People behind a proxy that opens TLS connections have the handshake of that proxy, whatever their browser. So a
handshake counts as known once anybody with it has obtained a clearance, with any browser. Nobody is judged before
enough people of a browser were seen, nor while many of them come with new handshakes, as after an update.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated

from msgspec import Meta

from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.core.settings_table import Table
from hedgerow.core.state import StateReply
from hedgerow.core.visit import BY_PROGRAM, ELSEWHERE, Visit
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup
from hedgerow.request.bots import declares_itself

_JA4 = re.compile(r"[tqd]\d\d[di]\d{4}[0-9A-Za-z]{2}_[0-9a-f]{12}_[0-9a-f]{12}")
_ENOUGH = 50
"""Clearances of a browser before anybody is judged. Chosen by hand."""
_MOST_NEW = 0.1
"""The share of new handshakes among the last clearances of a browser, above which nobody is judged. Chosen by hand."""
_MOST_KNOWN = 500
_MOST_ADDRESSES = 2_000

_UNKNOWN = EvidenceCode(
    "fingerprint", "tls-unknown", 0.15, "The TLS handshake is not one of {family} on this site.",
    "A claimed browser without a clearance has a JA4 fingerprint with which nobody has obtained a clearance here.",
)  # fmt: skip
_PROGRAM = EvidenceCode(
    "fingerprint", "tls-program", 0.3, "The TLS handshake is that of a program, and not one of {family}.",
    "The same, and programs that say their name have this fingerprint.",
)  # fmt: skip


class FingerprintSettings(Table, frozen=True):
    """JA4 fingerprints."""

    enabled: Annotated[
        bool,
        Meta(
            description="Compare the JA4 fingerprint of `identity.tls_header` with those that browsers have on this "
            "site. Small weights, never enough to decide alone."
        ),
    ] = True


@lru_cache(maxsize=1 << 12)
def family_of(user_agent: str) -> str:
    """
    Return which TLS library a claimed browser has, by its family; "" if it is not known.

    >>> [family_of(text) for text in ("Mozilla/5.0 Gecko/20100101 Firefox/140.0", "Mozilla/5.0 Chrome/138.0 Edg/138.0")]
    ['Firefox', 'Chromium']
    """
    if not user_agent.startswith("Mozilla/5.0") or declares_itself(user_agent):
        return ""
    if "iPhone" in user_agent or "iPad" in user_agent:
        # All browsers there use the library of the system.
        return "Safari"
    if "Firefox/" in user_agent:
        return "Firefox"
    if "Chrome/" in user_agent:
        return "Chromium"
    return "Safari" if "Version/" in user_agent and "Safari/" in user_agent else ""


class _Family:
    """What is known of the handshakes of one family of browsers."""

    def __init__(self) -> None:
        self.clearances = 0
        self.new_share = 1.0
        self.addresses: OrderedDict[str, None] = OrderedDict()

    def learn(self, address: str, *, is_new: bool) -> None:
        """Count a clearance, one for each address: one client cannot teach the site much."""
        if address in self.addresses:
            return
        self.addresses[address] = None
        if len(self.addresses) > _MOST_ADDRESSES:
            self.addresses.popitem(last=False)
        self.clearances += 1
        # A mean over about the last clearances that are needed.
        rate = 1 / min(self.clearances, _ENOUGH)
        self.new_share += rate * (is_new - self.new_share)

    @property
    def is_settled(self) -> bool:
        return self.clearances >= _ENOUGH and self.new_share <= _MOST_NEW


class TlsFingerprintDetector:
    """Gives evidence of handshakes. What it remembers is bounded, and that of this process."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}
        self._known: OrderedDict[str, None] = OrderedDict()
        self._of_programs: OrderedDict[str, None] = OrderedDict()

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one shape
        fingerprint = visit.fingerprint
        if not fingerprint or visit.reader != visit.prefix or visit.kind != "page" or ELSEWHERE in visit.anomalies:
            return ()
        if not _JA4.fullmatch(fingerprint):
            # Others, such as JA3, change with every connection of a browser.
            return ()
        if BY_PROGRAM in visit.anomalies or declares_itself(visit.user_agent):
            _remember(self._of_programs, fingerprint)
            return ()
        family = family_of(visit.user_agent)
        known = self._families.get(family)
        if known is None or not known.is_settled or fingerprint in self._known:
            return ()
        code = _PROGRAM if fingerprint in self._of_programs else _UNKNOWN
        return (code.evidence(family=family),)

    def on_clearance(self, visit: Visit) -> None:
        """Learn the handshake of a visitor that obtained a clearance."""
        fingerprint, family = visit.fingerprint, family_of(visit.user_agent)
        if not family or not _JA4.fullmatch(fingerprint):
            return
        if family not in self._families:
            self._families[family] = _Family()
        self._families[family].learn(visit.prefix, is_new=fingerprint not in self._known)
        _remember(self._known, fingerprint)


def _remember(fingerprints: OrderedDict[str, None], fingerprint: str) -> None:
    fingerprints[fingerprint] = None
    fingerprints.move_to_end(fingerprint)
    if len(fingerprints) > _MOST_KNOWN:
        fingerprints.popitem(last=False)


def _build(context: DetectorContext) -> TlsFingerprintDetector | None:
    is_wanted = context.has_fingerprints and context.settings.table(FingerprintSettings).enabled
    return TlsFingerprintDetector() if is_wanted else None


DETECTOR = DetectorSpec(
    name="fingerprint",
    doc=__doc__,
    order=62,
    groups=(EvidenceGroup("fingerprint", PolicyRule("refuse", 0.0, steady=True)),),
    codes=(_UNKNOWN, _PROGRAM),
    build=_build,
    enabled="`fingerprint.enabled`, where `identity.tls_header` is set",
    table="fingerprint",
    schema=FingerprintSettings,
    replay=False,
)
