"""
A visit: one request, live or from a log. The noun that everything else is about; no behaviour.

The same `Visit` comes out of a live request and out of a log line, so the engine has one code path for both. Its time
is `at`, in seconds since 1970; nothing below the adapters asks the clock.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["page", "call", "asset", "prefetch"]
"""
page: what a person reads and a crawler wants. call: an XHR, a form post, anything a page's script does. asset: images,
styles, scripts, fonts, media, which a page brings along by the dozen, and whatever else is answered with no HTML.
prefetch: a page that a browser fetches ahead of a click that may never come.
"""

Origin = Literal["same", "cross", "none", "unknown"]
"""
Where the request says it came from: a page of this site, another site, nowhere (typed, bookmarked), or it does not say.
"""

Proof = Literal["", "pending", "unprovable", "false", "verified"]
"""
What became of a visitor's word that it is a known bot: it gave none, it is being looked into, nobody can tell, it is a
lie, it is true.
"""

BY_SCRIPT = "by-script"
"""The sign of a page that a script asked for, as the request says: an endless list loads its next part like this."""

MarkerKind = Literal["page", "form", "frame", "trap", "maze", "visitor"]


class Marker(msgspec.Struct, frozen=True, gc=False):
    """
    What a link of ours carries, once unsealed.

    *issued_to* is the digest of the visitor it was given to, *parent* the digest of the page it stood on, and *target*
    where it leads: path and query. A trap leads nowhere.
    """

    kind: MarkerKind
    issued_to: bytes
    parent: bytes
    target: str


class Visit(msgspec.Struct, frozen=True, gc=False):
    """
    One request: when, who, what.

    *visitor* is who is asking: the account where one is known, else the clearance of who has solved a challenge, else
    *prefix*, the address prefix (IPv4 /32, IPv6 /64). *target* is path and query of the page asked for, without any
    marker; *asked* is what was sent, where that differs. *tampered* says that a marker was there and would not open.
    *linked* are the digests of the visitors that this browser was before: who logs in, or roams to another address, is
    still one. *bot* names the verified good bot that is welcome, or is empty. *claim* names the known bot that the
    visitor says it is, and *proof* what became of that. *signs* are codes of what was odd about the request.
    *fingerprint* is what a trusted proxy says of the TLS handshake. *old_http* says that a log's line was in HTTP/1.0
    (of a live request `signs` say what is odd about that). *status* is 0 until the answer is known; the engine
    never reads it, or a live decision could differ from a replayed one.
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
    asked: str = ""
    tampered: bool = False
    linked: tuple[bytes, ...] = ()
    claim: str = ""
    proof: Proof = ""
    signs: tuple[str, ...] = ()
    fingerprint: str = ""
    old_http: bool = False
