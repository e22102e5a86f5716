"""
Headers: what is odd about a request (PathMarker's heuristics of user agent, cookies and referrer).

Nobody is a crawler for one of these: they are worth little each, and together never enough to decide. curl, feed
readers and text browsers lack headers that browsers have, and are welcome; who says it is Chrome and lacks what Chrome
sends is worth more. Only pages count.

A client sends the same headers each time. So this evidence is steady: it makes what else is found count sooner, and
does not grow with the visits. One thing does, under a name of its own, "disguise": what contradicts the browser that
it names in so many ways that no extension, proxy or cautious person explains it. A driven browser that says so hides
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.core.decision import Evidence
from hedgerow.core.state import StateReply
from hedgerow.core.visit import Visit
from hedgerow.markers.token import visitor_digest

MOST = 0.6
"""What all of them together may weigh."""

WEIGHTS: dict[str, tuple[float, str]] = {
    "automation": (0.3, "The browser says that it is driven by a program."),
    "browser-version": (0.25, "The browser names one version in its user agent and another elsewhere."),
    "browser-hints": (0.2, "The user agent names one browser, the other headers are those of another."),
    "browser-no-fetch": (0.2, "The user agent names a browser, and what that browser sends with a request is missing."),
    "browser-accept": (0.2, "A browser that opens a page and does not want HTML."),
    "browser-no-hints": (0.1, "The user agent names Chrome, and Chrome's other headers are missing."),
    "browser-plain": (0.1, "The user agent names a browser, and the request says neither language nor type."),
    "browser-http": (0.1, "The user agent names a browser of today, and the request is in HTTP/1.0."),
    "browser-order": (0.1, "The headers are not in the order in which that browser sends them."),
    "no-agent": (0.1, "The request has no user agent."),
    "odd-agent": (0.1, "The user agent says nothing."),
    "browser-no-encoding": (0.05, "The user agent names a browser, and the request takes no compressed answer."),
    "cookie-refused": (0.05, "The visitor followed a link of ours and did not keep our cookie."),
    "no-accept": (0.03, "The request does not say what it accepts."),
    "program": (0.02, "The user agent names a program that fetches pages."),
    "no-language": (0.02, "The request names no language."),
    "no-referrer": (0.02, "The request does not say where it comes from."),
}
DISGUISED_FROM = 0.4
"""From which weight of contradictions on a request is held to be disguised."""
_DISGUISED = Evidence("disguise", "disguised", 0.1, "The headers contradict, in several ways, the browser they name.")
_EVIDENCE = {code: Evidence("headers", code, weight, text) for code, (weight, text) in WEIGHTS.items()}
_HONEST = frozenset({"pending", "verified"})
_UNREFERRED = frozenset({"/"})


class HeaderAnomalyDetector:
    """
    Evidence from the signs of a visit. *cookies* says that pages come with our cookie.

    A bot whose claim is true, or not looked into yet, is no browser and does not have to look like one.
    """

    def __init__(self, *, cookies: bool) -> None:
        self._cookies = cookies

    def __call__(self, visit: Visit, memory: StateReply) -> Sequence[Evidence]:  # noqa: ARG002 - one shape for all
        if visit.kind != "page" or visit.proof in _HONEST or not (visit.signs or visit.marker):
            return ()
        signs = [sign for sign in visit.signs if sign in _EVIDENCE]
        if signs and visit.origin == "unknown" and visit.target not in _UNREFERRED:
            # On its own it is a bookmark.
            signs.append("no-referrer")
        if self._cookies and self._refused_cookie(visit):
            signs.append("cookie-refused")
        if not signs:
            return ()
        found = _within([_EVIDENCE[sign] for sign in signs])
        if sum(e.weight for e in found if e.code.startswith("browser-")) >= DISGUISED_FROM:
            found.append(_DISGUISED)
        return found

    @staticmethod
    def _refused_cookie(visit: Visit) -> bool:
        """Whether the visitor uses a link that it was given on a page with our cookie, and has no such cookie."""
        marker = visit.marker
        return (
            marker is not None
            and not visit.linked
            and marker.kind not in {"trap", "maze"}
            and marker.issued_to == visitor_digest(visit.visitor)
        )


def _within(evidence: list[Evidence]) -> list[Evidence]:
    """The weightiest of *evidence*, as many as may count together."""
    kept: list[Evidence] = []
    left = MOST
    for one in sorted(evidence, key=lambda e: -e.weight):
        if one.weight <= left + 1e-9:
            kept.append(one)
            left -= one.weight
    return kept
