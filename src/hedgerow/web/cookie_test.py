"""
Whether a browser keeps cookies, asked by a redirect that nobody sees.

Over plain http browsers do not say whether another site shows a page in a frame. But they keep no cookies there. So
where too many pages may be frames, the next one comes with a cookie and leads to the same page again, by a marked
address. With the cookie it is a page that somebody reads; without it, it is still one that may be a frame.
"""

from __future__ import annotations

from hedgerow.core.decision import COOKIE_TESTED, Decision
from hedgerow.core.visit import ARRIVAL, Visit
from hedgerow.markers.resolve import PageLocation
from hedgerow.markers.rewrite import PageRewriter
from hedgerow.markers.token import NO_PAGE, visitor_digest
from hedgerow.web import response_pages as pages
from hedgerow.web.app import App
from hedgerow.web.response import visitor_cookie
from hedgerow.web.response_pages import ResponsePage

_FOUND = 302


def cookie_test(app: App, visit: Visit, decision: Decision) -> ResponsePage | None:
    """Return the redirect, or None if the visit is to be turned away as decided."""
    if ARRIVAL not in visit.anomalies or visit.method != "GET" or visit.kind != "page" or visit.marker is not None:
        return None
    others = sum(one.weight for one in decision.evidence if one.code not in COOKIE_TESTED)
    if decision.code not in COOKIE_TESTED or others >= app.gate.engine.policy.thresholds.refuse_at:
        return None
    codec, issued_to = app.tokens.of(visit.host), visitor_digest(visit.visitor)
    target = visit.target.encode("latin-1")
    page = PageRewriter(
        PageLocation(b"http", visit.host.encode("latin-1"), target), app.rules, app.settings.marker.prefix.encode(),
        app.skeletons, codec, issued_to, NO_PAGE, at=visit.at,
    )  # fmt: skip
    address = page.mark(target)
    if address is None:
        return None
    cookie = visitor_cookie(codec, issued_to, issued_to, secure=False)
    # Some WSGI servers want a type, also where there is no body.
    more = [(b"content-type", b"text/plain"), (b"set-cookie", cookie)]
    return pages.redirect(_FOUND, address.decode("latin-1"), more)
