"""
What a visitor sees who is refused, or whom the site behind us cannot answer.

Three forms, by what the client asked for: a page for a person in front of a browser, JSON for a program that
prefers it, plain text for the rest. Never HTML for a script, a feed reader or git. Each says what happened,
when it ends and whom to ask. Nothing is loaded from anywhere, and nothing may be kept in a cache.
"""

from __future__ import annotations

import binascii
import math
import re
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from html import escape
from typing import Literal, NamedTuple
from urllib.parse import quote

import msgspec

from hedgerow.core.decision import Decision
from hedgerow.core.visit import Kind

UpstreamFailure = Literal["connect", "timeout", "busy", "broken"]
Form = Literal["html", "json", "text"]
Header = tuple[bytes, bytes]


class ResponsePage(msgspec.Struct, frozen=True):
    """A whole answer. Header names are in lower case, as ASGI wants them."""

    status: int
    headers: list[Header]
    body: bytes


class _Message(NamedTuple):
    """
    What is said, before it takes a form; in plain words, nothing escaped.

    *name* and *code* are for programs. *lead* comes before the reason, *advice* after it; *ask* precedes whom
    to ask. *wait* is in seconds, 0 where no end is known; *until* is the end itself.
    """

    status: int
    name: str
    code: str
    title: str
    reason: str
    advice: str
    ask: str = ""
    site: str = ""
    lead: str = ""
    wait: int = 0
    until: float = 0.0


class _Said(msgspec.Struct, frozen=True):
    """A message as JSON."""

    decision: str
    code: str
    reason: str
    reference: str | None
    retry_after: int | None
    contact: str | None


_MOST_WAIT = 366 * 86_400
_MOST_ACCEPT = 1_000
_QUALITY = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")
_NOT_TOKEN = re.compile(r"[^A-Za-z0-9._:-]+")
_EMAIL = re.compile(r"[^@\s<>\"'?&]+@[^@\s<>\"'?&]+\.[^@\s<>\"'?&]+")
_LINK = re.compile(r"https?://[^\s<>\"']+", re.IGNORECASE)
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_NOBODY = "the administrator of this site"
_TAKEN_FOR = "This visit looked like that of an automatic program, so the site has stopped answering it for now:"
_LISTED = "The administrators of this site have decided not to answer:"
_REFUSED = "The request was not carried out. Nothing was lost: what you had saved here is still there."

STYLE = (
    ":root{color-scheme:light dark;--ink:#1d2521;--soft:#4a564f;--paper:#f4f5f0;--card:#fff;--line:#cfd6ce;"
    "--link:#14603a}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6ebe6;--soft:#b3beb6;--paper:#141816;--card:#1d2320;"
    "--line:#3a443e;--link:#8fd3a8}}"
    "*{box-sizing:border-box}"
    "body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1rem;background:var(--paper);"
    "color:var(--ink);font:1.0625rem/1.6 system-ui,sans-serif;overflow-wrap:anywhere}"
    "body>div{width:100%;max-width:38rem;padding:clamp(1.25rem,5vw,2.5rem);background:var(--card);"
    "border:1px solid var(--line);border-top:.375rem solid var(--link);border-radius:.5rem}"
    "header,footer{color:var(--soft);font-size:.9375rem}"
    "header{margin-bottom:.5rem}"
    "h1{margin:0 0 1rem;font-size:1.625rem;line-height:1.25}"
    "p,blockquote{margin:0 0 1rem}"
    "main>:last-child{margin-bottom:0}"
    "blockquote{padding-left:1rem;border-left:.25rem solid var(--line)}"
    "a{color:var(--link)}a:focus-visible{outline:.1875rem solid;outline-offset:.125rem}"
    "dl{margin:1.5rem 0 0;padding-top:1rem;border-top:1px solid var(--line);"
    "display:grid;grid-template-columns:auto 1fr;gap:.25rem 1rem}"
    "dd{margin:0}"
)
# A page is these, with its name, its site, its text and its reference in between.
_BEFORE_NAME = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>"""
_BEFORE_SITE = f"""</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>
<div>
"""
_AFTER = """</div>
</body>
</html>
"""
_STYLE_HASH = binascii.b2a_base64(sha256(STYLE.encode()).digest(), newline=False)
_POLICY = (
    b"default-src 'none'; style-src 'sha256-%b'; img-src data:; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'self'" % _STYLE_HASH
)
_FORM_HEADERS: dict[Form, list[Header]] = {
    "html": [(b"content-type", b"text/html; charset=utf-8"), (b"content-security-policy", _POLICY)],
    "json": [(b"content-type", b"application/json")],
    "text": [(b"content-type", b"text/plain; charset=utf-8")],
}
_COMMON_HEADERS: list[Header] = [
    (b"cache-control", b"no-store"),
    (b"vary", b"Accept"),
    (b"x-content-type-options", b"nosniff"),
]


_NOT_NOW = frozenset({"prefetch", "store"})


def refusal(
    decision: Decision,
    *,
    at: float,
    reference: str,
    contact: str = "",
    accept: str = "",
    kind: Kind = "page",
    method: str = "GET",
    site: str = "",
) -> ResponsePage:
    """
    The answer to a visit at *at* that is not let in.

    Too many requests are 429 and end by waiting; a trap is 403; a prefetch that is declined 503, upon which a browser
    does without, and so is who comes while nothing can be decided. A challenge that the client could not show
    comes here too, as 429. *contact* is an e-mail address, a URL or any text; *site* the site's name.
    """
    evidence = max(decision.evidence, key=lambda e: e.weight, default=None)
    if evidence is None:
        code, reason, detector = "", "Your requests looked automatic.", ""
    else:
        code, reason, detector = evidence.code, evidence.text, evidence.detector
    too_many = detector == "density"
    left = decision.until - at
    wait = max(1, math.ceil(left)) if left < _MOST_WAIT else _MOST_WAIT
    if detector == "lists" and not decision.until:
        # Kept out for good.
        wait = 0
    message = _Message(
        429 if too_many or decision.action == "challenge" else 503 if detector in _NOT_NOW else 403,
        decision.action,
        header_word(code),
        "Please wait a while" if too_many else "This request was not let through",
        reason,
        _REFUSED,
        "If you are a person and this was a mistake, we are sorry. Please ask",
        site,
        _LISTED if detector == "lists" else _TAKEN_FOR,
        wait,
        at + wait if wait else 0.0,
    )
    ref = header_word(reference)
    said = f"{decision.action}; code={message.code}; ref={ref}"
    return _answer(message, ref, contact, accept, kind, method, [(b"hedgerow-decision", said.encode())])


_FAILURES: dict[UpstreamFailure, _Message] = {
    "connect": _Message(
        502, "unavailable", "upstream-connect", "The site cannot be reached",
        "The server behind this address does not answer.",
        "It may be restarting. Please try again in a moment.", "If it lasts, please tell",
    ),
    "timeout": _Message(
        504, "unavailable", "upstream-timeout", "The site takes too long",
        "The server behind this address did not answer in time.",
        "Please try again in a moment. If you were sending something, look first whether it arrived.",
        "If it lasts, please tell",
    ),
    "busy": _Message(
        503, "unavailable", "upstream-busy", "The site is busy",
        "The server behind this address has too much to do right now.",
        "Your request was not carried out. Please try again in a moment.", "If it lasts, please tell",
    ),
    "broken": _Message(
        502, "unavailable", "upstream-broken", "The site gave a broken answer",
        "The server behind this address broke off its answer, or gave one that cannot be read.",
        "Please try again. If you were sending something, look first whether it arrived.",
        "If it lasts, please tell",
    ),
}  # fmt: skip
_NOT_FOUND = _Message(
    404,
    "not-found",
    "not-found",
    "Page not found",
    "There is no page at this address.",
    "Please check the address.",
)
_INTERNAL = _Message(
    500, "error", "internal", "Something went wrong", "This request could not be handled.",
    "The fault is ours, not yours. Please try again in a moment.", "If it happens again, please tell",
)  # fmt: skip


def unavailable(
    failure: UpstreamFailure,
    *,
    reference: str,
    contact: str = "",
    accept: str = "",
    kind: Kind = "page",
    method: str = "GET",
    site: str = "",
    retry_after: int = 5,
) -> ResponsePage:
    """The answer where the site itself gave none. *retry_after*, in seconds, is for a busy one."""
    wait = max(1, retry_after) if failure == "busy" else 0
    message = _FAILURES[failure]._replace(site=site, wait=wait)
    return _answer(message, header_word(reference), contact, accept, kind, method)


def not_found(*, accept: str = "", kind: Kind = "page", method: str = "GET") -> ResponsePage:
    """A plain 404: one of our links that is held against nobody, framed or prefetched."""
    return _answer(_NOT_FOUND, "", "", accept, kind, method)


def moved(target: str) -> ResponsePage:
    """A permanent redirect to a page of this site."""
    # A path that begins with two slashes would name another host.
    where = ("/." if target.startswith("//") else "") + target
    headers = [(b"location", where.encode("latin-1")), (b"content-length", b"0"), (b"cache-control", b"no-store")]
    return ResponsePage(301, headers, b"")


def internal_error(
    *,
    reference: str,
    contact: str = "",
    accept: str = "",
    kind: Kind = "page",
    method: str = "GET",
    site: str = "",
) -> ResponsePage:
    """A plain 500: something is broken here."""
    return _answer(_INTERNAL._replace(site=site), header_word(reference), contact, accept, kind, method)


def _answer(
    message: _Message,
    reference: str,
    contact: str,
    accept: str,
    kind: Kind,
    method: str,
    headers: list[Header] | None = None,
) -> ResponsePage:
    form = form_for(accept, kind)
    if form == "html":
        body = _as_html(message, reference, contact)
    elif form == "json":
        body = _as_json(message, reference, contact)
    else:
        body = _as_text(message, reference, contact)
    headers = [
        *_FORM_HEADERS[form], (b"content-length", b"%d" % len(body)), *_COMMON_HEADERS, *(headers or ()),
    ]  # fmt: skip
    if message.wait:
        headers.append((b"retry-after", b"%d" % message.wait))
    # A HEAD is told how long the answer to a GET would be.
    return ResponsePage(message.status, headers, b"" if method == "HEAD" else body)


def header_word(text: str) -> str:
    """*text* as it may stand in a header: what might end a field or a line becomes a hyphen."""
    return _NOT_TOKEN.sub("-", text[:64])


# ---- The three forms


def _as_html(message: _Message, reference: str, contact: str) -> bytes:
    name, header, footer = message.title, "", ""
    if message.site:
        site = escape(message.site)
        name, header = f"{name} - {site}", f"<header>{site}</header>\n"
    reason = escape(message.reason)
    if message.lead:
        text = f"<p>{message.lead}</p>\n<blockquote>{reason}</blockquote>\n<p>{message.advice}</p>\n"
    else:
        text = f"<p>{reason}</p>\n<p>{message.advice}</p>\n"
    if message.until:
        stamp, words = _moment(message.until)
        text += (
            f"<p>You can come back <strong>{in_words(message.wait)}</strong>, at "
            f'<time datetime="{stamp}">{words}</time>. '
            "Please do not try earlier: the wait may begin anew.</p>\n"
        )
    if message.ask:
        text += f"<p>{message.ask} {contact_html(contact) % reference} and give the reference below.</p>\n"
    if reference:
        footer = (
            f"<footer><dl><dt>Reference</dt><dd>{reference}</dd><dt>Code</dt><dd>{message.code}</dd></dl></footer>\n"
        )
    main = f"<main>\n<h1>{message.title}</h1>\n{text}</main>\n"
    return f"{_BEFORE_NAME}{name}{_BEFORE_SITE}{header}{main}{footer}{_AFTER}".encode("utf-8", "replace")


def _as_json(message: _Message, reference: str, contact: str) -> bytes:
    reason = message.reason.encode("utf-8", "replace").decode()
    said = _Said(message.name, message.code, reason, reference or None, message.wait or None, contact or None)
    return msgspec.json.encode(said)


def _as_text(message: _Message, reference: str, contact: str) -> bytes:
    reason = f"{message.lead}\n{message.reason}" if message.lead else message.reason
    lines = [message.title, "", reason, message.advice]
    if message.until:
        lines.append(f"You can come back {in_words(message.wait)}, at {_moment(message.until)[1]}.")
    if message.ask:
        lines.append(f"{message.ask} {contact or _NOBODY} and give the reference below.")
    if reference:
        lines += ["", f"Reference: {reference}", f"Code: {message.code}"]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _moment(at: float) -> tuple[str, str]:
    """A time for machines and for people."""
    when = datetime.fromtimestamp(int(at), UTC)
    stamp = when.isoformat()
    return stamp, f"{stamp[11:16]} UTC on {when.day} {_MONTHS[when.month - 1]} {when.year}"


def in_words(seconds: float) -> str:
    """
    A wait, as one would say it.

    >>> in_words(20), in_words(3600), in_words(40_000), in_words(300_000)
    ('in less than a minute', 'in about 60 minutes', 'in about 11 hours', 'in about 3 days')
    """
    if seconds < 50:  # noqa: PLR2004 - rounded, the rest is a minute or more
        return "in less than a minute"
    unit, name = (60, "minute")
    if seconds >= 90 * 60:
        unit, name = (3600, "hour") if seconds < 36 * 3600 else (86_400, "day")
    number = round(seconds / unit)
    return f"in about {number} {name}{'' if number == 1 else 's'}"


@lru_cache(maxsize=16)
def contact_html(contact: str) -> str:
    """
    Whom to ask, with a place `%.0s` or `%s` for the reference.

    A link where *contact* is an e-mail address or a URL, else its words.
    """
    contact = contact.strip()
    words = escape(contact or _NOBODY).replace("%", "%%")
    if _EMAIL.fullmatch(contact):
        address = quote(contact, safe="@+").replace("%", "%%")
        return f'<a href="mailto:{address}?subject=Reference%%20%s">{words}</a>'
    if _LINK.fullmatch(contact):
        return f'<a href="{words}" rel="noreferrer">{words}</a>%.0s'
    return f"{words}%.0s"


# ---- Which form


def form_for(accept: str, kind: Kind) -> Form:
    """
    The form that a client wants which sends *accept* (RFC 9110, 12.5.1).

    HTML only for a page, and only where it is named: a program's `*/*` gets text. Where JSON and text are
    wanted alike, JSON if it is named.

    >>> form_for("text/html,*/*;q=0.8", "page"), form_for("text/html, */*", "call"), form_for("*/*", "page")
    ('html', 'text', 'text')
    """
    return _form_for(accept[:_MOST_ACCEPT], kind)


@lru_cache(maxsize=512)
def _form_for(accept: str, kind: Kind) -> Form:
    wanted = _wanted(accept)
    html = wanted.get("text/html", 0.0) if kind == "page" else 0.0
    json_named = max((q for name, q in wanted.items() if name.endswith(("/json", "+json"))), default=-1.0)
    anything = wanted.get("*/*", 0.0)
    json = json_named if json_named >= 0 else wanted.get("application/*", anything)
    text = wanted.get("text/plain", wanted.get("text/*", anything))
    if html > 0 and html >= max(json, text):
        return "html"
    return "json" if json > text or json == text == json_named > 0 else "text"


def _wanted(accept: str) -> dict[str, float]:
    """The media ranges of an Accept header with their qualities; what cannot be read is left out."""
    wanted: dict[str, float] = {}
    for part in accept.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() == "q":
                quality = float(value) if _QUALITY.fullmatch(value.strip()) else 0.0
        if "/" in name:
            wanted[name] = max(quality, wanted.get(name, 0.0))
    return wanted
