"""What a client can be shown: whether a person would see a page, and in which language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from hedgerow.challenge.form_data import coding_of
from hedgerow.core.request_kind import kind_of
from hedgerow.core.visit import Visit

_WINDOWS = frozenset({b"document", b"iframe", b"frame"})
_FEEDS = ("application/atom", "application/rss", "application/rdf", "application/feed", "text/calendar")
_QUALITY = re.compile(r"0(?:\.\d{0,3})?|1(?:\.0{0,3})?", re.ASCII)
_MAX_HEADER_LENGTH = 500


def wants_page(visit: Visit, headers: Mapping[bytes, bytes]) -> bool:
    """
    Return whether a person in front of a browser window would see the response.

    Never for scripts, feed readers, API clients, git, images, prefetches or HEAD. Browsers state the purpose in
    Sec-Fetch-*. A client without these headers must accept HTML and no feed.
    """
    if visit.prefetch or b"x-requested-with" in headers or b"upgrade" in headers or b"range" in headers:
        return False
    if visit.method == "POST":
        media = headers.get(b"content-type", b"").decode("latin-1")
        if media and coding_of(media) is None and not media.lower().startswith("text/plain"):
            return False
    elif visit.method != "GET":
        return False
    destination = headers.get(b"sec-fetch-dest")
    if destination is not None:
        return destination in _WINDOWS and headers.get(b"sec-fetch-mode", b"navigate") == b"navigate"
    accept = headers.get(b"accept", b"").decode("latin-1")
    return kind_of("GET", visit.target) == "page" and prefers_html(accept)


def prefers_html(accept: str) -> bool:
    """
    Return whether a client that sends *accept* names HTML, names no feed, and prefers HTML to JSON.

    >>> prefers_html("text/html,*/*;q=0.8"), prefers_html("*/*"), prefers_html("application/x+json, text/html;q=0.01")
    (True, False, False)
    """
    return _prefers_html(accept[:_MAX_HEADER_LENGTH])


@lru_cache(maxsize=512)
def _prefers_html(accept: str) -> bool:
    accepted = dict(quality_values(accept))
    if any(name.startswith(_FEEDS) for name in accepted):
        return False
    html = accepted.get("text/html", 0.0)
    return html > 0 and html >= max((q for name, q in accepted.items() if name.endswith("json")), default=0.0)


def language_of(accept_language: str, known: Sequence[str]) -> str:
    """
    Return the language of *known* that a client prefers, or the first one if it accepts none.

    >>> language_of("fr-CH, fr;q=0.9, en;q=0.8", ("en", "fr")), language_of("", ("en", "fr"))
    ('fr', 'en')
    """
    return _language_of(accept_language[:_MAX_HEADER_LENGTH], tuple(known))


@lru_cache(maxsize=512)
def _language_of(accept_language: str, known: tuple[str, ...]) -> str:
    best, language = 0.0, known[0]
    for name, quality in quality_values(accept_language):
        first = name.partition("-")[0]
        if quality > best and (first in known or first == "*"):
            best, language = quality, first if first in known else known[0]
    return language


def quality_values(header: str) -> Sequence[tuple[str, float]]:
    """Return the elements of a header such as Accept with their quality values, in order."""
    elements = []
    for part in header.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            key, _, value = (piece.strip() for piece in parameter.partition("="))
            if key == "q":
                quality = float(value) if _QUALITY.fullmatch(value) else 0.0
        if name:
            elements.append((name, quality))
    return elements
