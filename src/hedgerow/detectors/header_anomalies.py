"""
The headers of a page request contradict each other or lack what browsers send (PathMarker's heuristics).

Each of these weighs little, and together they are never enough to decide. curl, feed readers and text browsers lack
headers that browsers send, and are welcome. A client that claims to be Chrome and lacks what Chrome sends weighs more.

A client sends the same headers each time, so this evidence is steady: it makes other evidence count sooner and does not
grow with the number of visits. One group does grow, "disguise": headers that contradict the browser they name in so
many ways that no extension, proxy or cautious person explains it. An automated browser that says so hides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from hedgerow.core.decision import Evidence, PolicyRule
from hedgerow.core.settings_table import Table
from hedgerow.core.state import StateReply
from hedgerow.core.visit import HIDDEN_KINDS, Visit
from hedgerow.detectors.spec import DetectorContext, DetectorSpec, EvidenceCode, EvidenceGroup, ReportRule
from hedgerow.markers.token import visitor_digest
from hedgerow.request.header_anomalies import find_anomalies

MOST = 0.6
"""What all headers evidence of one visit may weigh together."""

CODES = {
    code: EvidenceCode("headers", code, weight, text, when)
    for code, weight, text, when in (
        ("automation", 0.3, "The browser says that it is driven by a program.",
         "The user agent, or `Sec-CH-UA`, names an automated browser: HeadlessChrome, PhantomJS, Selenium."),
        ("browser-version", 0.25, "The browser names one version in its user agent and another elsewhere.",
         "`Sec-CH-UA` names another version of Chrome than the user agent."),
        ("browser-hints", 0.2, "The user agent names one browser, the other headers are those of another.",
         "`Sec-CH-UA` from a client that claims to be Firefox or Safari, which never send it."),
        ("browser-no-fetch", 0.2,
         "The user agent names a browser, and what that browser sends with a request is missing.",
         "Chrome 80, Firefox 90, Safari 17 or newer without `Sec-Fetch-*`, over https or on the machine itself."),
        ("browser-accept", 0.2, "A browser that opens a page and does not want HTML.",
         "A navigation (`Sec-Fetch-Mode`) that does not accept HTML."),
        ("browser-no-hints", 0.1, "The user agent names Chrome, and Chrome's other headers are missing.",
         "Chrome 90 or newer without `Sec-CH-UA`, over https or on the machine itself."),
        ("browser-plain", 0.1, "The user agent names a browser, and the request says neither language nor type.",
         "A browser without `Accept` or `Accept-Language`."),
        ("browser-http", 0.1, "The user agent names a current browser, and the request is in HTTP/1.0.",
         "A browser that speaks HTTP/1.0."),
        ("browser-order", 0.1, "The headers are not in the order in which that browser sends them.",
         "User agent, `Accept`, `Accept-Encoding` and `Accept-Language` are not in that browser's order."),
        ("no-agent", 0.1, "The request has no user agent.", ""),
        ("odd-agent", 0.1, "The user agent says nothing.", "A user agent that says nothing (`Mozilla/5.0`)."),
        ("browser-no-encoding", 0.05, "The user agent names a browser, and the request takes no compressed answer.",
         "A browser without `Accept-Encoding`; some virus scanners remove it."),
        ("cookie-refused", 0.05, "The visitor followed a link of ours and did not keep our cookie.",
         "The visitor follows a marked link that it was given together with our cookie, and has no such cookie."),
        ("no-accept", 0.03, "The request does not say what it accepts.", "No `Accept`."),
        ("program", 0.02, "The user agent names a program that fetches pages.", "curl, wget, an HTTP library."),
        ("no-language", 0.02, "The request names no language.", "No `Accept-Language`."),
        ("no-referrer", 0.02, "The request does not say where it comes from.",
         "With any of the above: no sign of where the request comes from."),
    )
}  # fmt: skip
DISGUISED_FROM = 0.4
"""Weight of contradictions from which on a request is considered disguised."""
_DISGUISED = EvidenceCode(
    "disguise", "disguised", 0.1, "The headers contradict, in several ways, the browser they name.",
    f"The contradictions above (`browser-…`) weigh {DISGUISED_FROM} or more together: no extension, proxy or cautious "
    "person explains that.",
)  # fmt: skip
_DISGUISE = _DISGUISED.evidence()
_EVIDENCE = {code: declared.evidence() for code, declared in CODES.items()}
_HONEST = frozenset({"pending", "verified"})
_UNREFERRED = frozenset({"/"})
_SEEN_IN_LOGS = frozenset({"automation", "browser-http", "no-agent", "odd-agent", "program"})
_NOT_IN_LOGS = {b"accept": b"text/html", b"accept-language": b"en", b"accept-encoding": b"gzip"}
"""Headers that an access log does not have, as any browser sends them."""


class HeadersSettings(Table, frozen=True):
    """Anomalies in a request's headers."""

    enabled: Annotated[
        bool,
        Meta(
            description="Collect evidence from [header anomalies](detectors.md#headers). Small weights, never enough "
            "to decide alone."
        ),
    ] = True


class HeaderAnomalyDetector:
    """
    Gives evidence of the signs of a visit. *cookies* says that pages come with our cookie.

    A bot whose claim is true, or still being checked, is no browser and need not look like one.
    """

    def __init__(self, *, cookies: bool) -> None:
        self._cookies = cookies

    def __call__(self, visit: Visit, reply: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one signature for all
        if visit.kind != "page" or visit.proof in _HONEST or not (visit.anomalies or visit.marker):
            return ()
        anomalies = [sign for sign in visit.anomalies if sign in _EVIDENCE]
        if anomalies and visit.origin == "unknown" and visit.target not in _UNREFERRED:
            # On its own this is a bookmark.
            anomalies.append("no-referrer")
        if self._cookies and self._refused_cookie(visit):
            anomalies.append("cookie-refused")
        if not anomalies:
            return ()
        evidence = _within_cap([_EVIDENCE[sign] for sign in anomalies])
        if sum(e.weight for e in evidence if e.code.startswith("browser-")) >= DISGUISED_FROM:
            evidence.append(_DISGUISE)
        return evidence

    @staticmethod
    def _refused_cookie(visit: Visit) -> bool:
        """Tell whether the visitor uses a link from a page that set our cookie, without having that cookie."""
        marker = visit.marker
        return (
            marker is not None
            and not visit.linked
            and marker.kind not in HIDDEN_KINDS
            and marker.issued_to == visitor_digest(visit.visitor)
        )


def _within_cap(evidence: list[Evidence]) -> list[Evidence]:
    """Return the heaviest of *evidence*, as many as together weigh no more than `MOST`."""
    kept: list[Evidence] = []
    left = MOST
    for one in sorted(evidence, key=lambda e: -e.weight):
        if one.weight <= left + 1e-9:
            kept.append(one)
            left -= one.weight
    return kept


def judge_source(user_agent: str, http_1_0: bool) -> Sequence[Evidence]:
    """Give evidence of a source in an access log, which has only its user agent and its version of HTTP."""
    fields = {b"user-agent": user_agent.encode("latin-1", "replace")} | _NOT_IN_LOGS
    anomalies = find_anomalies(fields, scheme="http", host="", version="1.0" if http_1_0 else "1.1")
    return [_EVIDENCE[sign] for sign in anomalies if sign in _SEEN_IN_LOGS]


def _build(context: DetectorContext) -> HeaderAnomalyDetector | None:
    enabled = context.settings.table(HeadersSettings).enabled
    return HeaderAnomalyDetector(cookies=context.marks_links) if enabled else None


DETECTOR = DetectorSpec(
    name="headers",
    doc=__doc__,
    order=50,
    groups=(
        EvidenceGroup("headers", PolicyRule("refuse", 0.0, steady=True)),
        EvidenceGroup("disguise", PolicyRule("refuse", 0.0)),
    ),
    codes=(*CODES.values(), _DISGUISED),
    build=_build,
    enabled="`headers.enabled`",
    table="headers",
    schema=HeadersSettings,
    report=lambda _: ReportRule(("user_agent", "http_1_0"), judge_source),
)
