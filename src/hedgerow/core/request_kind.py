"""
Classification of requests: the kind (page, call, asset, prefetch) and the origin (same site, other site, none).

Only pages count against limits, not the dozens of images and calls that a page loads. The kind of a log line follows
from method and path. A live browser also says what the response is for (Sec-Fetch-Dest). A client that claims to load
an image and receives a page is counted as a page, because the gate sees the type of the response.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from hedgerow.core.visit import Kind, Origin

# fmt: off
ASSETS = frozenset({
    "css", "js", "mjs", "map", "wasm", "webmanifest",
    "png", "jpg", "jpeg", "gif", "webp", "avif", "svg", "ico", "cur", "bmp", "tif", "tiff", "jxl", "heic",
    "woff", "woff2", "ttf", "otf", "eot",
    "mp3", "ogg", "oga", "opus", "wav", "flac", "m4a", "mp4", "m4v", "webm", "ogv", "mov", "m3u8", "ts", "mpd", "vtt",
    "srt", "swf", "pdf", "epub", "zip", "gz", "tgz", "bz2", "xz", "zst", "7z", "rar", "deb", "rpm", "iso", "dmg", "exe",
    "msi", "apk", "jar",
})
CALL_SUFFIXES = frozenset({
    "json", "jsonl", "ndjson", "geojson", "xml", "rss", "atom", "ics", "csv", "tsv", "txt", "log", "yaml", "yml", "git",
})
# fmt: on
CALL_NAMES = frozenset({"feed", "rss", "atom", "xmlrpc.php"})
"""Common names of feeds and calls without a suffix, with or without a trailing slash."""

_READING = frozenset({"GET", "HEAD"})
_DOCUMENTS = frozenset({b"document", b"frame", b"iframe", b"embed", b"object", b"fencedframe"})
_CALLS = frozenset(
    {b"empty", b"report", b"webidentity", b"serviceworker", b"sharedworker", b"worker", b"json", b"websocket"}
)


_OTHER_SITES = frozenset({b"cross-site", b"same-site"})
_FILE_TYPES = (b"image/", b"text/css")

# A client chooses the length of a target. Only short ones are cached, so that the cache's memory is bounded.
_MAX_CACHED_LENGTH = 200


def _kind_of_target(target: str) -> Kind:
    path, _, name = target.partition("?")[0].rpartition("/")
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    if suffix in ASSETS:
        return "asset"
    last = name or path.rpartition("/")[2]
    return "call" if suffix in CALL_SUFFIXES or last in CALL_NAMES else "page"


_cached_kind = lru_cache(maxsize=1 << 13)(_kind_of_target)


def kind_of(method: str, target: str) -> Kind:
    """
    Return the kind of a request from its method and target alone.

    >>> kind_of("GET", "/docs/"), kind_of("GET", "/a/logo.PNG?v=3"), kind_of("POST", "/comment")
    ('page', 'asset', 'call')
    """
    if method not in _READING:
        return "call"
    return _cached_kind(target) if len(target) <= _MAX_CACHED_LENGTH else _kind_of_target(target)


def kind_claimed(kind: Kind, headers: Mapping[bytes, bytes], *, prefetch: bool) -> Kind:
    """Return the kind of a live request: *kind* from method and target, corrected by the browser's headers."""
    if kind != "page":
        return kind
    if prefetch:
        # First, because a `<link rel="prefetch">` also has an empty destination.
        return "prefetch"
    if b"range" in headers:
        # Download managers send hundreds. If the response is a page, the gate counts it as one.
        return "asset"
    destination = headers.get(b"sec-fetch-dest")
    if destination is not None and destination not in _DOCUMENTS:
        return "call" if destination in _CALLS else "asset"
    accept = headers.get(b"accept")
    if accept is not None and b"html" not in accept and b"*/*" not in accept:
        return "call"
    if b"x-requested-with" in headers or headers.get(b"upgrade", b"").lower() == b"websocket":
        return "call"
    return "page"


def is_prefetch(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a browser loads this page before a click that may never come."""
    purpose = headers.get(b"sec-purpose") or headers.get(b"purpose") or headers.get(b"x-moz")
    return purpose is not None and b"prefetch" in purpose.lower()


def is_subresource(headers: Mapping[bytes, bytes]) -> bool:
    """
    Return whether a browser says that it fetches this for a page which it shows: for a script, as an image.

    Browsers send all three of these headers. A client that sends only some of them is not a browser, and is not
    believed.
    """
    return (
        headers.get(b"sec-fetch-mode", b"navigate") != b"navigate"
        and b"sec-fetch-site" in headers
        and headers.get(b"sec-fetch-dest", b"document") not in _DOCUMENTS
    )


def is_from_elsewhere(headers: Mapping[bytes, bytes]) -> bool:
    """
    Return whether a browser says that another site made it send this request, and no click of its user.

    Frames, images, scripts, styles, forms that send themselves, redirects by a script. Chromium and Firefox tell a
    click (`Sec-Fetch-User`) from these; of other browsers every page that is loaded into a window counts as a click.
    Browsers send `Sec-Fetch-Site`, `-Mode` and `-Dest` together. A client that sends only some of them is not believed.
    """
    site, mode, destination = (headers.get(name) for name in (b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest"))
    if site not in _OTHER_SITES or mode is None or destination is None:
        return False
    if not is_into_window(headers):
        return True
    tells_clicks = b"sec-ch-ua" in headers or b" Firefox/" in headers.get(b"user-agent", b"")
    return tells_clicks and b"sec-fetch-user" not in headers


def is_into_window(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a browser says that it loads a page into a window or a tab."""
    return headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"


def is_embedded_file(headers: Mapping[bytes, bytes]) -> bool:
    """
    Return whether a browser that says nothing of sites loads an image or a style sheet into a page.

    Browsers do not send `Sec-Fetch-*` over plain HTTP. They ask for images and style sheets by type, and never load a
    page that way.
    """
    return (
        b"sec-fetch-site" not in headers
        and headers.get(b"accept", b"").startswith(_FILE_TYPES)
        and b"html" not in headers[b"accept"]
        and b"accept-language" in headers
    )


def origin_of(headers: Mapping[bytes, bytes], host: str) -> Origin:
    """
    Return where a live request says it came from: Sec-Fetch-Site if present, else the referrer.

    What comes from another site has no consequences. So that is believed only of a client that sends all of
    `Sec-Fetch-*`, as browsers do.
    """
    site = headers.get(b"sec-fetch-site")
    if site == b"same-origin":
        return "same"
    if site == b"none":
        return "none"
    if site is not None and b"sec-fetch-mode" in headers and b"sec-fetch-dest" in headers:
        # Another sub-domain ("same-site") counts as another site: marked links are on this host's pages only.
        return "cross"
    return origin_of_referrer(headers.get(b"referer", b"").decode("latin-1"), host)


def origin_of_referrer(referrer: str, host: str) -> Origin:
    """
    Return where the referrer says the request came from, "unknown" if there is none.

    >>> origin_of_referrer("http://example.org/a", "example.org"), origin_of_referrer("-", "example.org")
    ('same', 'unknown')
    """
    _, separator, rest = referrer.partition("://")
    if not separator or not host:
        return "unknown"
    return "same" if rest.partition("/")[0].lower() == host.lower() else "cross"
