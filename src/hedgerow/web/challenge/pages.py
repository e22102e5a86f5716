"""
Pages around a challenge, except the question itself (`question_page`), and the files that they load.

They are plain HTML in six languages that works without scripts, styles or images. They load nothing from elsewhere,
unless an external provider is configured, and no cache keeps them. A client that is not a browser window gets JSON or
text instead.
"""

from __future__ import annotations

import gzip
import secrets
import tomllib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from html import escape
from importlib.resources import files

import msgspec

from hedgerow.challenge.client_preferences import language_of
from hedgerow.challenge.protocol import Ticket
from hedgerow.web import response_pages as common
from hedgerow.web.response_pages import Header, ResponsePage

_DATA = "hedgerow.data.challenge"
_STYLE = common.STYLE + common.load_style(_DATA)
_STYLE_HASH = common.style_hash(_STYLE)
_ASSET_HEADERS = [
    (b"cache-control", b"public, max-age=31536000, immutable"), (b"vary", b"Accept-Encoding"),
    (b"x-content-type-options", b"nosniff"),
]  # fmt: skip
_ASSETS = {
    "challenge.js": ("challenge.js",),
    "page.js": ("page.js",),
    "solve.js": ("sha256/sha256.min.js", "solve.js"),
}
"""The scripts that pages load, and the files that each is made of."""
_SAID = {"label": "work_label", "verifying": "work_verifying", "verified": "work_verified", "failed": "work_failed"}
_DECLINED = "This client looks like an automatic program. A person can show otherwise by opening the site in a browser."


@lru_cache(maxsize=1)
def _words() -> dict[str, dict[str, str]]:
    """Return the words of all languages, English first."""
    return tomllib.loads(files(_DATA).joinpath("words.toml").read_text("utf-8"))


@lru_cache(maxsize=1)
def _assets() -> tuple[str, dict[tuple[str, bool], ResponsePage]]:
    """
    Return a name for this version of the files that pages load, and responses by path and whether they are compressed.

    The address of a file changes with its content, so caches keep it for ever.
    """
    folder, responses = files(_DATA), {}
    plain = {name: b"\n".join(folder.joinpath(part).read_bytes() for part in parts) for name, parts in _ASSETS.items()}
    version = sha256(b"".join(plain.values())).hexdigest()[:12]
    for name, content in plain.items():
        headers = [(b"content-type", b"text/javascript; charset=utf-8"), *_ASSET_HEADERS]
        for compressed, body in ((False, content), (True, gzip.compress(content, 9, mtime=0))):
            coding = [(b"content-encoding", b"gzip")] if compressed else []
            size = (b"content-length", b"%d" % len(body))
            responses[f"{version}/{name}", compressed] = ResponsePage(200, [*headers, *coding, size], body)
    return version, responses


def asset(path: str, accept_encoding: bytes) -> ResponsePage | None:
    """Return the file `VERSION/name`, or None."""
    return _assets()[1].get((path, b"gzip" in accept_encoding.lower()))


CLEARANCE_SCRIPT = f"{_assets()[0]}/page.js".encode()
"""The script that obtains a clearance: its address below the reserved path."""


class ClientPreferences(msgspec.Struct, frozen=True):
    """What pages for one client depend on. *path* is the reserved path, *site* the name of the site."""

    accept_language: str
    path: str
    site: str
    contact: str
    reference: str
    code: str

    @property
    def language(self) -> str:
        return language_of(self.accept_language, tuple(_words()))

    @property
    def words(self) -> Words:
        return _words_in(self.language)

    def decision_header(self, action: str) -> Header:
        return common.decision_header(action, self.code, self.reference)


class Words:
    """The words of one language."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.plain = _words()[language]
        self.escaped = {name: escape(text) for name, text in self.plain.items()}
        self.said = escape(msgspec.json.encode({name: self.plain[word] for name, word in _SAID.items()}).decode())
        """What the script says about the calculation, as JSON in an attribute."""

    def __call__(self, name: str, /, **values: str) -> str:
        """Return words as HTML, with *values* filled in."""
        text = self.escaped[name]
        for key, value in values.items():
            text = text.replace(f"{{{key}}}", escape(value))
        return text


_words_in = lru_cache(maxsize=32)(Words)


def render(template: str, preferences: ClientPreferences, **values: str) -> str:
    """Return a template as HTML. Its fields are *values*, which are HTML, and the words of the language."""
    fields = preferences.words.escaped | {"path": escape(preferences.path)} | values
    return files(_DATA).joinpath(template).read_text("utf-8").format_map(fields)


def resend_form(ticket: Ticket, preferences: ClientPreferences, headers: Sequence[Header]) -> ResponsePage:
    """Return a page that sends a kept form: by itself if scripts run, else by a button."""
    assert ticket.form is not None
    coding = "multipart/form-data" if ticket.form.coding == "multipart" else "application/x-www-form-urlencoded"
    fields = "".join(
        f'<input type="hidden" name="{_value(name)}" value="{_value(value)}">\n'
        if value is not None
        else f'<input type="file" name="{_value(name)}" hidden>\n'
        for name, value in ticket.form.fields
    )
    main = render("resend.html", preferences, target=escape(ticket.target), coding=coding, fields=fields)
    nonce = secrets.token_urlsafe(16)
    return html(200, page(preferences, "solved", main, nonce, ("challenge.js",)), policy(nonce), headers)


def form_lost(ticket: Ticket, preferences: ClientPreferences, headers: Sequence[Header]) -> ResponsePage:
    """Return a page for a visitor who solved a challenge and must fill in again a form that could not be kept."""
    words = preferences.words
    main = f'<p>{words("again")}</p>\n<p><a href="{escape(ticket.back)}">{words("back")}</a></p>\n'
    return html(200, page(preferences, "solved", main), policy(), headers)


def blocked(preferences: ClientPreferences) -> ResponsePage:
    """Return a page for a visitor who was challenged too often."""
    words = preferences.words
    contact = common.contact_html(preferences.contact or words.plain["nobody"]) % preferences.reference
    main = f"<p>{words('blocked_lead')}</p>\n<p>{words('ask').replace('{contact}', contact, 1)}</p>\n"
    return html(403, page(preferences, "blocked", main), policy(), [preferences.decision_header("refuse")])


def declined(preferences: ClientPreferences, *, accept: str, method: str, retry_after: int) -> ResponsePage:
    """Return the response to a client that is not a browser window: 429, in English, for its operator."""
    form = common.form_for(accept, "call")
    contact, reference, code = preferences.contact, preferences.reference, preferences.code
    if form == "json":
        body = msgspec.json.encode(
            common.JsonPage("challenge", code, _DECLINED, reference, retry_after, contact or None)
        )
    else:
        ask = f"Ask {contact} if it is not one.\n" if contact else ""
        body = f"{_DECLINED}\n{ask}\nReference: {reference}\nCode: {code}\n".encode("utf-8", "replace")
    more = [(b"retry-after", b"%d" % retry_after), preferences.decision_header("challenge")]
    return common.make_response(429, common.FORM_HEADERS[form], body, more, method=method)


def page(
    preferences: ClientPreferences, title: str, main: str, nonce: str = "", assets: Iterable[str] = ()
) -> str:  # fmt: skip
    """Return a whole page; *assets* are the files that it loads, with *nonce*."""
    words = preferences.words
    path = f"{escape(preferences.path)}{_assets()[0]}"
    loads = "".join(f'<script type="module" src="{path}/{name}" nonce="{nonce}"></script>\n' for name in assets)
    details = ((words("reference"), preferences.reference), (words("code"), preferences.code))
    return common.html_document(
        words(title), main, details, site=preferences.site, language=words.language, style=_STYLE, loads=loads
    )


def policy(nonce: str = "", external: tuple[str, ...] = ()) -> str:
    """
    Return a content security policy that allows files with *nonce* and those of an *external* provider.

    It does not restrict where forms may go. Browsers apply that to all redirects after a form, and would break a site
    that redirects to a log-in or a payment elsewhere.
    """
    sources = " ".join(external)
    own = f"'nonce-{nonce}'" if nonce else ""
    rules = {
        "default-src": "'none'",
        "script-src": f"{own} {sources}".strip() or "'none'",
        "style-src": f"'{_STYLE_HASH}' {sources}".strip(),
        "img-src": f"data: {sources}".strip(),
        "media-src": "data:",
        "worker-src": "'self'" if nonce else "'none'",
        "frame-src": sources or "'none'",
        "connect-src": sources or "'none'",
        "base-uri": "'none'",
        "frame-ancestors": "'self'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def html(status: int, text: str, policy: str, headers: Sequence[Header]) -> ResponsePage:
    more = [(b"referrer-policy", b"same-origin"), (b"content-security-policy", policy.encode()), *headers]
    return common.make_response(
        status, [common.HTML_TYPE], text.encode("utf-8", "replace"), more, vary=b"Accept, Accept-Language"
    )


def _value(text: str) -> str:
    """Return *text* as the value of a hidden field: HTML would turn CR LF into one line break."""
    return escape(text).replace("\r", "&#13;").replace("\n", "&#10;")
