"""
`Visit`: one request, live or from a log. Data only.

A live request and a log line give the same `Visit`, so the engine has one code path for both. Its time is `at`, in
seconds since 1970; the engine and everything it calls never read the clock.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["page", "call", "asset", "prefetch"]
"""
page: what a person reads. call: an XHR, a form post, or anything else a script requests. asset: images, styles,
scripts, fonts, media and other responses without HTML. prefetch: a page that a browser loads before the click.
"""

Origin = Literal["same", "cross", "none", "unknown"]
"""Where the request says it came from: this site, another site, nowhere (typed, bookmarked), or it does not say."""

Proof = Literal["", "pending", "unprovable", "false", "verified"]
"""
Outcome of checking a visitor's claim to be a known bot: no claim, still being checked, cannot be checked, false, true.
"""

BY_SCRIPT = "by-script"
"""Code in `anomalies` for a page that a script requested, as an endless list does to load its next part."""

FORM = "form"
"""Code in `anomalies` for a form that a browser window sends. If it is answered with a page, that was read."""

READ_BY = "read-by:"
"""The start of a code in `anomalies` for an account that may be invented: see `Visit.reader`, which follows."""

NO_NAVIGATION = "no-navigation"
"""Code in `anomalies` for a hidden link that the browser fetched without showing it: for a script, as an image."""

ELSEWHERE = "elsewhere"
"""
Code in `anomalies` for a request that another site made the browser send, without a click: see `core.request_kind`.

Such requests count apart from the visitor's own, and nothing that they do is held against anybody.
"""

INTO_WINDOW = "into-window"
"""Code in `anomalies` beside `ELSEWHERE` for a page that another site opened in a window, where its user sees it."""

ARRIVAL = "arrival"
"""
Code in `anomalies` for a page over plain HTTP, without our cookies, and not by a link of this site.

Browsers do not say there whether another site shows it in a frame, where they send no cookies. So it counts apart from
the pages that are read, and is not held against anybody. Once it is too much, the browser has to show that it keeps a
cookie.
"""

UNMARKED_SITE = "unmarked-site"
"""Code in `anomalies` for a visit at a time in which no links were marked, because the site only observed."""

BY_PROGRAM = "by-program"
"""Code in `anomalies` for a request that no browser makes: see `request.client_kind`."""

WRONG_COOKIE = "wrong-cookie"
"""Code in `anomalies` for a cookie of ours that we did not make: invented, changed or cut off."""

ANSWERED = "answered"
"""Code in `anomalies` for a visit that another server has answered already: only a block can stop the next one."""

MarkerKind = Literal["page", "form", "frame", "trap", "maze", "visitor", "sequence"]
"""What a marked link is. sequence: a link to the next or the previous page, such as of a manual."""

HIDDEN_KINDS: frozenset[MarkerKind] = frozenset({"trap", "maze"})
"""Kinds of links that no person can see. They lead to no page."""


class Marker(msgspec.Struct, frozen=True, gc=False):
    """
    The content of a marked link after decryption.

    *issued_to* is the digest of the visitor who received the link, *parent* the digest of the page it was on. *target*
    is the path and query that it leads to, empty for a trap.

    *generation* is how often links were handed on, from visitor to visitor or from one address of a browser to the
    next, on the way to this one. It starts again from 0 when a visitor comes without a marked link or obtains a
    clearance.
    """

    kind: MarkerKind
    issued_to: bytes
    parent: bytes
    target: str
    generation: int = 0


class Visit(msgspec.Struct, frozen=True, gc=False, rename={"raw_target": "asked", "anomalies": "signs"}):
    """
    One request, live or from a log.

    - *visitor*: key of the visitor: the account if known, else the clearance after a solved challenge, else *prefix*.
    - *prefix*: the address prefix (IPv4 /32, IPv6 /64).
    - *target*: path and query of the requested page without any marker. *raw_target*: what was sent, if that differs.
    - *tampered*: the request carried a marker that could not be decrypted, or that was made for another link.
    - *linked*: digests of the visitors that this browser was before, such as before a login or at another address.
    - *bot*: name of the verified bot that is allowed to pass, or "".
    - *claim*: the known bot that the visitor claims to be. *proof*: the outcome of checking that.
    - *anomalies*: codes of what is unusual about the request's headers, bot claim or clearance.
    - *fingerprint*: the TLS fingerprint that a trusted proxy reports.
    - *old_http*: a log line says HTTP/1.0. For a live request this is one of *anomalies*.
    - *status*: 0 until the response is known. The engine never reads it: a live decision and a replay must agree.
    """

    at: float
    address: str
    visitor: str
    prefix: str
    method: str
    target: str
    kind: Kind = "page"
    account: str = ""
    host: str = ""
    user_agent: str = ""
    referrer: str = ""
    origin: Origin = "unknown"
    prefetch: bool = False
    bot: str = ""
    marker: Marker | None = None
    status: int = 0
    raw_target: str = ""
    tampered: bool = False
    linked: tuple[bytes, ...] = ()
    claim: str = ""
    proof: Proof = ""
    anomalies: tuple[str, ...] = ()
    fingerprint: str = ""
    old_http: bool = False

    @property
    def reader(self) -> str:
        """
        The key under which the pages of a day count: the visitor's own.

        Anybody can invent the session cookie of an account. Then it is that of the clearance or the address.
        """
        if self.account:
            for code in self.anomalies:
                if code.startswith(READ_BY):
                    return code.removeprefix(READ_BY)
        return self.visitor

    @property
    def referring_target(self) -> str:
        """The path and query of the page that the request says it comes from, or "" if it does not say."""
        _, separator, rest = self.referrer.partition("://")
        return "/" + rest.partition("/")[2] if separator else ""

    @property
    def path(self) -> str:
        """The path of the requested page."""
        return self.target.partition("?")[0]

    @property
    def is_path_hidden(self) -> bool:
        """Whether the browser knows the page by another path, as by an opaque address."""
        return self.raw_target != "" and self.raw_target.partition("?")[0] != self.path

    @property
    def is_page_unknown(self) -> bool:
        """Whether nothing but a tampered marker says which page was meant, as in an opaque address."""
        return self.tampered and self.raw_target in {"", self.target}


_READING = frozenset({"GET", "HEAD"})


def is_fetched(visit: Visit) -> bool:
    """
    Return whether a page counts apart from those that are read: one for a script, or a prefetched one.

    A script may send anything and be answered with a page.
    """
    if visit.method not in _READING:
        return FORM not in visit.anomalies
    return BY_SCRIPT in visit.anomalies or visit.kind == "prefetch"


def may_be_caused_elsewhere(visit: Visit) -> bool:
    """Return whether another site made the browser send this, or nobody knows: then it is not held against anybody."""
    return ELSEWHERE in visit.anomalies or ARRIVAL in visit.anomalies
