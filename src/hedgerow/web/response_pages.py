"""
Pages that a visitor gets instead of the site's: refusals, failures of the upstream, and links without a page.

Each has three forms, chosen by what the client accepts: HTML for a browser window, JSON for a program that prefers it,
plain text for all others. A script, a feed reader or git never gets HTML. Each form says what happened, when it ends
and whom to ask. It loads nothing from elsewhere, and no cache may keep it.
"""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Literal, NamedTuple
from urllib.parse import quote

import msgspec

from hedgerow.challenge.client_preferences import quality_values
from hedgerow.core.decision import CLOSED, Decision, Evidence
from hedgerow.core.visit import Kind
from hedgerow.detectors.registry import registry

UpstreamFailure = Literal["connect", "timeout", "busy", "broken"]
Form = Literal["html", "json", "text"]
Header = tuple[bytes, bytes]

_TOO_MANY_REQUESTS = 429
_BUSY_WAIT = 5
_MAX_WAIT = 366 * 86_400
_MAX_ACCEPT = 1_000
_NOT_TOKEN = re.compile(r"[^A-Za-z0-9._:-]+")
_EMAIL = re.compile(r"[^@\s<>\"'?&]+@[^@\s<>\"'?&]+\.[^@\s<>\"'?&]+")
_LINK = re.compile(r"https?://[^\s<>\"']+", re.IGNORECASE)
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DEFAULT_CONTACT = "the administrator of this site"


class ResponsePage(msgspec.Struct, frozen=True):
    """A complete response. Header names are in lower case, as ASGI requires."""

    status: int
    headers: list[Header]
    body: bytes


class PageRequest(NamedTuple):
    """
    The request that a page answers, and how its sender can ask about it.

    *reference* names this one response. *contact* is an e-mail address, a URL or any text.
    """

    accept: str = ""
    kind: Kind = "page"
    method: str = "GET"
    reference: str = ""
    contact: str = ""


class JsonPage(msgspec.Struct, frozen=True):
    decision: str
    code: str
    reason: str
    reference: str | None
    retry_after: int | None
    contact: str | None


class _Message(NamedTuple):
    """
    The content of a page, before it gets a form; nothing is escaped.

    *decision* and *code* are for programs. *lead* comes before the reason, *advice* after it. *ask* precedes the
    contact. *wait* is in seconds, 0 if no end is known; *until* is the end itself. *start* is the address of a page at
    which the visitor can begin.
    """

    status: int
    decision: str
    code: str
    title: str
    reason: str
    advice: str
    ask: str = ""
    lead: str = ""
    wait: int = 0
    until: float = 0.0
    start: str = ""


def _failure(status: int, name: str, title: str, reason: str, advice: str, wait: int = 0) -> _Message:
    ask = "If it lasts, please tell"
    return _Message(status, "unavailable", f"upstream-{name}", title, reason, advice, ask, wait=wait)


_FAILURES: dict[UpstreamFailure, _Message] = {
    "connect": _failure(
        502, "connect", "The site cannot be reached", "The server behind this address does not answer.",
        "It may be restarting. Please try again in a moment.",
    ),
    "timeout": _failure(
        504, "timeout", "The site takes too long", "The server behind this address did not answer in time.",
        "Please try again in a moment. If you were sending something, look first whether it arrived.",
    ),
    "busy": _failure(
        503, "busy", "The site is busy", "The server behind this address has too much to do right now.",
        "Your request was not carried out. Please try again in a moment.", _BUSY_WAIT,
    ),
    "broken": _failure(
        502, "broken", "The site gave a broken answer",
        "The server behind this address broke off its answer, or gave one that cannot be read.",
        "Please try again. If you were sending something, look first whether it arrived.",
    ),
}  # fmt: skip
_NOT_FOUND = _Message(
    404, "not-found", "not-found", "Page not found", "There is no page at this address.", "Please check the address."
)
_LOOKED_AUTOMATIC = "This visit looked like that of an automatic program, so the site has stopped answering it for now:"
_LISTED = "The administrators of this site have decided not to answer:"
_REFUSED = "The request was not carried out. Nothing was lost: what you had saved here is still there."
_MISTAKE = "If you are a person and this was a mistake, we are sorry. Please ask"
_CLOSED = _Message(
    403, "refuse", CLOSED, "This page has to be opened from another page", "",
    "Nothing is wrong with your browser, and waiting does not help. Please follow the links of this site.",
    "If a message or another site led you here, please tell",
)  # fmt: skip
_LICENSE = _Message(402, "refuse", "license-needed", "A license is needed", "", "", "For a license, please ask")
_LICENSE_CHALLENGE = b'License error="invalid_request", error_description="A license is needed for this site."'
_NO_EVIDENCE = Evidence("", "", 0.0, "Your requests looked automatic.")


def load_style(folder: str) -> str:
    """Return the rules of a style sheet that comes with the package, without comments and line breaks."""
    lines = files(folder).joinpath("page.css").read_text("utf-8").splitlines()
    return "".join(line for line in lines if not line.startswith("/*"))


def style_hash(style: str) -> str:
    return "sha256-" + binascii.b2a_base64(sha256(style.encode()).digest(), newline=False).decode()


STYLE = load_style("hedgerow.data")
_DOCUMENT = files("hedgerow.data").joinpath("page.html").read_text("utf-8")
_POLICY = (
    f"default-src 'none'; style-src '{style_hash(STYLE)}'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)
HTML_TYPE: Header = (b"content-type", b"text/html; charset=utf-8")
FORM_HEADERS: dict[Form, list[Header]] = {
    "html": [HTML_TYPE, (b"content-security-policy", _POLICY.encode())],
    "json": [(b"content-type", b"application/json")],
    "text": [(b"content-type", b"text/plain; charset=utf-8")],
}


def refusal(
    decision: Decision, request: PageRequest, *, at: float, site: str = "", start: str = "", license_url: str = ""
) -> ResponsePage:  # fmt: skip
    """
    Return the response to a visit at *at* that is not let in; *site* is the name of the site.

    Its status is that of the heaviest evidence, or 429 for a client that cannot show a challenge. For a closed page
    *start* is the address at which a visitor can begin. A bot that needs a license gets a link to *license_url*.
    """
    evidence = max(decision.evidence, key=lambda e: e.weight, default=_NO_EVIDENCE)
    if evidence.code == CLOSED:
        message = _CLOSED._replace(reason=evidence.text, start=start)
        return _respond(message, request, [decision_header("refuse", CLOSED, request.reference)], site)
    if evidence.detector == "license":
        message = _LICENSE._replace(reason=evidence.text, advice=f"The terms are at {license_url}")
        headers = [(b"link", license_link(license_url)), (b"www-authenticate", _LICENSE_CHALLENGE)]
        own = decision_header("refuse", header_word(evidence.code), request.reference)
        return _respond(message, request, [own, *headers], site)
    status = registry().statuses.get(evidence.detector, 403)
    is_listed = evidence.detector == "lists"
    # A list entry without an end keeps the visitor out for good.
    wait = 0 if is_listed and not decision.until else max(1, math.ceil(min(decision.until - at, _MAX_WAIT)))
    title = "Please wait a while" if status == _TOO_MANY_REQUESTS else "This request was not let through"
    message = _Message(
        _TOO_MANY_REQUESTS if decision.action == "challenge" else status, decision.action, header_word(evidence.code),
        title, evidence.text, _REFUSED, _MISTAKE, _LISTED if is_listed else _LOOKED_AUTOMATIC,
        wait, at + wait if wait else 0.0,
    )  # fmt: skip
    return _respond(message, request, [decision_header(message.decision, message.code, request.reference)], site)


def license_link(url: str) -> bytes:
    """Return the value of a Link header with the terms of the site, as RSL 1.0 says; b"" without an address."""
    return b'<%b>; rel="license"; type="application/rsl+xml"' % url.encode() if url else b""


def unavailable(failure: UpstreamFailure, request: PageRequest) -> ResponsePage:
    """Return the response to a visit that the upstream did not answer."""
    return _respond(_FAILURES[failure], request)


def not_found(request: PageRequest) -> ResponsePage:
    """Return a plain 404, for a marked link without a page whose use is not held against the visitor."""
    return _respond(_NOT_FOUND, request)


def redirect(status: int, target: str, headers: Sequence[Header] = ()) -> ResponsePage:
    """Return a redirect to a page of this site."""
    # A path that begins with two slashes would name another host.
    location = ("/." if target.startswith("//") else "") + target
    own = [(b"location", location.encode("latin-1")), (b"content-length", b"0"), (b"cache-control", b"no-store")]
    return ResponsePage(status, [*own, *headers], b"")


def no_content(headers: Sequence[Header] = ()) -> ResponsePage:
    return ResponsePage(204, [(b"cache-control", b"no-store"), *headers], b"")


def make_response(
    status: int, kind: Sequence[Header], body: bytes, more: Sequence[Header], *, method: str = "GET",
    vary: bytes = b"Accept",
) -> ResponsePage:  # fmt: skip
    """Return a response that no cache keeps. *kind* are headers about its form, *more* its other headers."""
    headers = [
        *kind, (b"content-length", b"%d" % len(body)), (b"cache-control", b"no-store"), (b"vary", vary),
        (b"x-content-type-options", b"nosniff"), *more,
    ]  # fmt: skip
    # The response to a HEAD has the length of the response to a GET.
    return ResponsePage(status, headers, b"" if method == "HEAD" else body)


def _respond(message: _Message, request: PageRequest, more: Sequence[Header] = (), site: str = "") -> ResponsePage:
    form = form_for(request.accept, request.kind)
    render = {"html": _as_html, "json": _as_json, "text": _as_text}[form]
    body = render(message, request._replace(reference=header_word(request.reference)), site)
    if message.wait:
        more = [*more, (b"retry-after", b"%d" % message.wait)]
    return make_response(message.status, FORM_HEADERS[form], body, more, method=request.method)


def header_word(text: str) -> str:
    """Return *text* as it may stand in a header: whatever could end a field or a line becomes a hyphen."""
    return _NOT_TOKEN.sub("-", text[:64])


def decision_header(action: str, code: str, reference: str) -> Header:
    return b"hedgerow-decision", f"{action}; code={header_word(code)}; ref={header_word(reference)}".encode()


# ---- The three forms


def html_document(
    title: str, main: str, details: Sequence[tuple[str, str]], *, site: str, language: str = "en", style: str = STYLE,
    loads: str = "",
) -> str:  # fmt: skip
    """
    Return a whole page. *title*, *main* and *loads*, which goes into the head, are HTML.

    *details* are terms and values for the footer.
    """
    name, header = (f"{title} - {escape(site)}", f"<header>{escape(site)}</header>\n") if site else (title, "")
    terms = "".join(f"<dt>{term}</dt><dd>{escape(value)}</dd>" for term, value in details)
    footer = f"<footer><dl>{terms}</dl></footer>\n" if terms else ""
    return _DOCUMENT.format(
        language=language, name=name, loads=loads, style=style, header=header, title=title, main=main, footer=footer
    )


def _as_html(message: _Message, request: PageRequest, site: str) -> bytes:
    reason = escape(message.reason)
    main = f"<p>{message.lead}</p>\n<blockquote>{reason}</blockquote>\n" if message.lead else f"<p>{reason}</p>\n"
    main += f"<p>{message.advice}</p>\n"
    if message.start:
        main += f'<p><a href="{escape(message.start)}">Go to the start page</a></p>\n'
    if message.until:
        stamp, words = _moment(message.until)
        main += (
            f"<p>You can come back <strong>{in_words(message.wait)}</strong>, at "
            f'<time datetime="{stamp}">{words}</time>. '
            "Please do not try earlier: the wait may begin anew.</p>\n"
        )
    if message.ask:
        contact = contact_html(request.contact) % request.reference
        main += f"<p>{message.ask} {contact} and give the reference below.</p>\n"
    details = (("Reference", request.reference), ("Code", message.code)) if request.reference else ()
    return html_document(message.title, main, details, site=site).encode("utf-8", "replace")


def _as_json(message: _Message, request: PageRequest, _: str) -> bytes:
    reason = message.reason.encode("utf-8", "replace").decode()
    contact = request.contact if message.ask else ""
    reference, wait = request.reference or None, message.wait or None
    return msgspec.json.encode(JsonPage(message.decision, message.code, reason, reference, wait, contact or None))


def _as_text(message: _Message, request: PageRequest, _: str) -> bytes:
    lines = [message.title, "", *([message.lead] if message.lead else ()), message.reason, message.advice]
    if message.start:
        lines.append(f"Start page: {message.start}")
    if message.until:
        lines.append(f"You can come back {in_words(message.wait)}, at {_moment(message.until)[1]}.")
    if message.ask:
        lines.append(f"{message.ask} {request.contact or _DEFAULT_CONTACT} and give the reference below.")
    if request.reference:
        lines += ["", f"Reference: {request.reference}", f"Code: {message.code}"]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _moment(at: float) -> tuple[str, str]:
    """Return a time for machines and for people."""
    when = datetime.fromtimestamp(int(at), UTC)
    stamp = when.isoformat()
    return stamp, f"{stamp[11:16]} UTC on {when.day} {_MONTHS[when.month - 1]} {when.year}"


def in_words(seconds: float) -> str:
    """
    Return a wait in words.

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
    Return whom to ask: a link if *contact* is an e-mail address or a URL, else its text.

    Use it with `%` and the reference, which goes into the subject of an e-mail.
    """
    contact = contact.strip()
    words = escape(contact or _DEFAULT_CONTACT).replace("%", "%%")
    if _EMAIL.fullmatch(contact):
        address = quote(contact, safe="@+").replace("%", "%%")
        return f'<a href="mailto:{address}?subject=Reference%%20%s">{words}</a>'
    if _LINK.fullmatch(contact):
        return f'<a href="{words}" rel="noreferrer">{words}</a>%.0s'
    return f"{words}%.0s"


# ---- The choice of the form


def form_for(accept: str, kind: Kind) -> Form:
    """
    Return the form for a client that sends *accept* (RFC 9110, 12.5.1).

    It is HTML only for a page, and only if the client names HTML: `*/*` gets text. If JSON and text are accepted
    equally, it is JSON if the client names JSON.

    >>> form_for("text/html,*/*;q=0.8", "page"), form_for("text/html, */*", "call"), form_for("*/*", "page")
    ('html', 'text', 'text')
    """
    return _form_for(accept[:_MAX_ACCEPT], kind)


@lru_cache(maxsize=512)
def _form_for(accept: str, kind: Kind) -> Form:
    wanted: dict[str, float] = {}
    for name, quality in quality_values(accept):
        if "/" in name:
            wanted[name] = max(quality, wanted.get(name, 0.0))
    html = wanted.get("text/html", 0.0) if kind == "page" else 0.0
    json_named = max((q for name, q in wanted.items() if name.endswith(("/json", "+json"))), default=-1.0)
    anything = wanted.get("*/*", 0.0)
    json = json_named if json_named >= 0 else wanted.get("application/*", anything)
    text = wanted.get("text/plain", wanted.get("text/*", anything))
    if html > 0 and html >= max(json, text):
        return "html"
    return "json" if json > text or json == text == json_named > 0 else "text"
