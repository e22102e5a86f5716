"""
What a visitor sees who is challenged: the way on, and the end of all questions. The question is `challenge_question`.

Plain HTML that works without script, styles or pictures, in six languages; a few kilobytes, nothing from elsewhere
(unless an external provider is configured), nothing kept in a cache. Never for a client that is no browser window: that
gets JSON or text.
"""

from __future__ import annotations

import binascii
import gzip
import secrets
import tomllib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from html import escape
from importlib.resources import files

import msgspec

from hedgerow.challenge.client_preferences import language_of
from hedgerow.challenge.protocol import Ticket
from hedgerow.web.response_pages import STYLE, Header, ResponsePage, contact_html, form_for

_STYLE = STYLE + (
    "form{margin:0 0 1rem}"
    "h2{margin:1.5rem 0 .5rem;font-size:1.125rem}"
    "label{display:block;font-weight:600;margin-bottom:.25rem}"
    "input[type=text]{width:100%;max-width:18rem;padding:.5rem;font:inherit;letter-spacing:.15em;color:inherit;"
    "background:var(--card);border:.125rem solid var(--soft);border-radius:.25rem}"
    "button{padding:.5rem 1rem;margin:.25rem .25rem .25rem 0;font:inherit;cursor:pointer;color:var(--link);"
    "background:var(--card);border:.125rem solid var(--link);border-radius:.25rem}"
    "button.main{color:var(--card);background:var(--link)}"
    "button:focus-visible,input:focus-visible,audio:focus-visible{outline:.1875rem solid;outline-offset:.125rem}"
    "img{display:block;max-width:100%;height:auto;margin:0 0 .75rem;border:1px solid var(--line)}"
    "audio{display:block;width:100%;margin:0 0 .75rem}"
    ".hint{color:var(--soft);font-size:.9375rem;margin:.25rem 0 .75rem}"
    ".alert{padding:.5rem 1rem;border-left:.25rem solid var(--link);font-weight:600}"
    "#status:empty{display:none}"
    # Seen after a moment, unless our script has taken it away: also where scripts run and ours has not come.
    "#needs{animation:appear 0s 2s both}@keyframes appear{from{visibility:hidden}to{visibility:visible}}"
    "altcha-widget{display:block;--altcha-max-width:100%;--altcha-color-base:var(--card);"
    "--altcha-color-base-content:var(--ink);--altcha-color-neutral:var(--soft);"
    "--altcha-checkbox-border-color:var(--soft);--altcha-checkbox-border-width:2px;"
    "--altcha-color-success:var(--link);--altcha-color-success-content:var(--card);"
    "--altcha-checkbox-outline-color:var(--ink)}"
    # The tick lies over the box and would take the click.
    ".altcha-checkbox svg{pointer-events:none}"
)
_STYLE_HASH = "sha256-" + binascii.b2a_base64(sha256(_STYLE.encode()).digest(), newline=False).decode()
_FOREVER = b"public, max-age=31536000, immutable"
_ASSETS = {
    "challenge.js": b"text/javascript; charset=utf-8",
    "altcha/altcha.min.js": b"text/javascript; charset=utf-8",
    "altcha/pbkdf2.js": b"text/javascript; charset=utf-8",
    "altcha/altcha.css": b"text/css; charset=utf-8",
}


@lru_cache(maxsize=1)
def _words() -> dict[str, dict[str, str]]:
    return tomllib.loads(files("hedgerow.data.challenge").joinpath("words.toml").read_text("utf-8"))


def languages() -> tuple[str, ...]:
    """The languages that there are, English first."""
    return tuple(_words())


@lru_cache(maxsize=1)
def _assets() -> tuple[str, dict[str, tuple[bytes, bytes]]]:
    """What pages load from us, as it is and compressed, and a name for this version of it."""
    folder = files("hedgerow.data.challenge")
    plain = {name: folder.joinpath(name).read_bytes() for name in _ASSETS}
    version = sha256(b"".join(plain.values())).hexdigest()[:12]
    return version, {name: (content, gzip.compress(content, 9, mtime=0)) for name, content in plain.items()}


def asset(name: str, accept_encoding: bytes) -> ResponsePage | None:
    """The file `VERSION/name`, or None where there is none. Its address changes with its content: kept for ever."""
    version, assets = _assets()
    its_version, _, name = name.partition("/")
    if its_version != version or name not in assets:
        return None
    plain, packed = assets[name]
    headers = [
        (b"content-type", _ASSETS[name]),
        (b"cache-control", _FOREVER),
        (b"vary", b"Accept-Encoding"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if b"gzip" in accept_encoding.lower():
        headers.append((b"content-encoding", b"gzip"))
        plain = packed
    return ResponsePage(200, [*headers, (b"content-length", b"%d" % len(plain))], plain)


class ClientPreferences(msgspec.Struct, frozen=True):
    """Who is spoken to: in which language, under which address we answer, for which site, and whom one can ask."""

    accept_language: str
    path: str
    site: str
    contact: str
    reference: str
    code: str

    @property
    def language(self) -> str:
        return language_of(self.accept_language, languages())


class Words:
    """The words of one language."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._plain = _words()[language]
        self._escaped = {name: escape(text) for name, text in self._plain.items()}
        said = {
            "label": "work_label",
            "verifying": "work_verifying",
            "verified": "work_verified",
            "error": "work_failed",
            "expired": "work_failed",
            "failed": "work_failed",
            "waitAlert": "work_verifying",
        }
        named = {name: self._plain[word] for name, word in said.items()}
        self.widget = escape(msgspec.json.encode(named).decode())
        """What the widget says, as JSON in an attribute."""

    def plain(self, name: str) -> str:
        return self._plain[name]

    def __call__(self, name: str, /, **values: str) -> str:
        """Words for a page, with *values* filled in."""
        text = self._escaped[name]
        for key, value in values.items():
            text = text.replace(f"{{{key}}}", escape(value))
        return text


words_in = lru_cache(maxsize=32)(Words)


def onward(ticket: Ticket, manner: ClientPreferences, headers: list[Header]) -> ResponsePage:
    """The page that sends a form on which was kept: by itself where there is script, else by a button."""
    assert ticket.form is not None
    words = words_in(manner.language)
    nonce = secrets.token_urlsafe(16)
    coding = "multipart/form-data" if ticket.form.coding == "multipart" else "application/x-www-form-urlencoded"
    fields = "".join(
        f'<input type="hidden" name="{_value(name)}" value="{_value(value)}">\n'
        if value is not None
        else f'<input type="file" name="{_value(name)}" hidden>\n'
        for name, value in ticket.form.fields
    )
    main = (
        f'<p role="status">{words("continue")}</p>\n'
        f'<form id="continue" method="post" action="{escape(ticket.target)}" enctype="{coding}"'
        ' accept-charset="utf-8">\n'
        f'{fields}<button class="main">{words("send")}</button></form>\n'
    )
    body = page(words, manner, "solved", main, nonce, ("challenge.js",))
    return html(200, body, [(b"content-security-policy", policy(nonce).encode()), *headers])


def sent_again(ticket: Ticket, manner: ClientPreferences, headers: list[Header]) -> ResponsePage:
    """The page for who has solved a challenge and must send again what could not be kept."""
    words = words_in(manner.language)
    main = f'<p>{words("again")}</p>\n<p><a href="{escape(ticket.back)}">{words("back")}</a></p>\n'
    body = page(words, manner, "solved", main, "", ())
    return html(200, body, [(b"content-security-policy", policy("").encode()), *headers])


def blocked(manner: ClientPreferences) -> ResponsePage:
    """The page for who has been asked too often: whom to ask, and a reference."""
    words = words_in(manner.language)
    contact = contact_html(manner.contact or words.plain("nobody")) % manner.reference
    before, _, after = words("ask").partition("{contact}")
    main = f"<p>{words('blocked_lead')}</p>\n<p>{before}{contact}{after}</p>\n"
    body = page(words, manner, "blocked", main, "", ())
    headers = [
        (b"content-security-policy", policy("").encode()),
        (b"hedgerow-decision", f"refuse; code={manner.code}; ref={manner.reference}".encode()),
    ]
    return html(403, body, headers)


class _Said(msgspec.Struct, frozen=True):
    decision: str
    code: str
    reason: str
    reference: str
    retry_after: int
    contact: str | None


def declined(manner: ClientPreferences, *, accept: str, method: str, retry_after: int) -> ResponsePage:
    """What a client gets that is no browser window: 429 and JSON or text, in English, for its operator."""
    reason = (
        "This client looks like an automatic program. A person can show otherwise by opening the site in a browser."
    )
    form = form_for(accept, "call")
    if form == "json":
        contact = manner.contact or None
        body = msgspec.json.encode(_Said("challenge", manner.code, reason, manner.reference, retry_after, contact))
        media = b"application/json"
    else:
        who = f"Ask {manner.contact} if it is not one.\n" if manner.contact else ""
        text = f"{reason}\n{who}\nReference: {manner.reference}\nCode: {manner.code}\n"
        body, media = text.encode("utf-8", "replace"), b"text/plain; charset=utf-8"
    headers = [
        (b"content-type", media),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        (b"vary", b"Accept"),
        (b"x-content-type-options", b"nosniff"),
        (b"retry-after", b"%d" % retry_after),
        (b"hedgerow-decision", f"challenge; code={manner.code}; ref={manner.reference}".encode()),
    ]
    return ResponsePage(429, headers, b"" if method == "HEAD" else body)


def onto(target: str, headers: list[Header]) -> ResponsePage:
    """A redirect to the page that was asked for."""
    return ResponsePage(
        303,
        [(b"location", target.encode("latin-1")), (b"content-length", b"0"), (b"cache-control", b"no-store"), *headers],
        b"",
    )


def page(words: Words, manner: ClientPreferences, title: str, main: str, nonce: str, needs: Iterable[str]) -> str:
    """A page with what stands around the *main* part of each; *needs* are the files that it loads from us."""
    version = _assets()[0]
    loads = "".join(
        f'<link rel="stylesheet" href="{escape(manner.path)}{version}/{name}" nonce="{nonce}">\n'
        if name.endswith(".css")
        else f'<script type="module" src="{escape(manner.path)}{version}/{name}" nonce="{nonce}"></script>\n'
        for name in needs
    )
    heading = words(title)
    return (
        f'<!DOCTYPE html>\n<html lang="{words.language}">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{heading} - {escape(manner.site)}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="robots" content="noindex">\n<link rel="icon" href="data:,">\n'
        f"{loads}<style>{_STYLE}</style>\n</head>\n<body>\n<div>\n"
        f"<header>{escape(manner.site)}</header>\n<main>\n<h1>{heading}</h1>\n{main}</main>\n"
        f"<footer><dl><dt>{words('reference')}</dt><dd>{escape(manner.reference)}</dd>"
        f"<dt>{words('code')}</dt><dd>{escape(manner.code)}</dd></dl></footer>\n</div>\n</body>\n</html>\n"
    )


def policy(nonce: str, external: tuple[str, ...] = ()) -> str:
    """
    What the page may do: load our own script and style by a nonce, and nothing else but an external provider's.

    It says nothing of where forms may go: browsers hold all redirects after a form to that, and a site that sends
    people on to its log-in or a payment elsewhere would be broken.
    """
    sources = " ".join(external)
    own = f"'nonce-{nonce}'" if nonce else ""
    rules: Mapping[str, str] = {
        "default-src": "'none'",
        "script-src": f"{own} {sources}".strip() or "'none'",
        "style-src": f"'{_STYLE_HASH}' {own} {sources}".strip(),
        "img-src": f"data: {sources}".strip(),
        "media-src": "data:",
        "worker-src": "'self'" if nonce else "'none'",
        "frame-src": sources or "'none'",
        "connect-src": sources or "'none'",
        "base-uri": "'none'",
        "frame-ancestors": "'self'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def html(status: int, page: str | bytes, headers: list[Header]) -> ResponsePage:
    """A page as an answer."""
    body = page.encode("utf-8", "replace") if isinstance(page, str) else page
    return ResponsePage(
        status,
        [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
            (b"vary", b"Accept, Accept-Language"),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"same-origin"),
            *headers,
        ],
        body,
    )


def _value(text: str) -> str:
    """*text* as the value of a hidden field: HTML itself would make one line break of two characters."""
    return escape(text).replace("\r", "&#13;").replace("\n", "&#10;")
