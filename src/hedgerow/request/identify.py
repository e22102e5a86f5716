"""Identification of a live request: builds its `Visit` with address, account, bot, kind, origin, marker, clearance."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

import msgspec

from hedgerow.challenge.clearance import COOKIE as CLEARANCE_COOKIE
from hedgerow.challenge.clearance import Clearances
from hedgerow.core.address import Proxies, parse_address, prefix_of
from hedgerow.core.request_kind import (
    is_embedded_file,
    is_from_elsewhere,
    is_into_window,
    is_prefetch,
    is_subresource,
    kind_claimed,
    kind_of,
    origin_of,
    origin_of_referrer,
)
from hedgerow.core.state import ACCOUNT
from hedgerow.core.visit import (
    ARRIVAL,
    BY_PROGRAM,
    ELSEWHERE,
    FORM,
    HIDDEN_KINDS,
    INTO_WINDOW,
    NO_NAVIGATION,
    READ_BY,
    WRONG_COOKIE,
    Kind,
    Marker,
    Origin,
    Visit,
)
from hedgerow.markers.clean import OpenedView, split_mark
from hedgerow.markers.encoding import VISITOR_BYTES
from hedgerow.markers.token import NO_PAGE, TokenCodec, TokenCodecs, may_be_token, page_digest, visitor_digest
from hedgerow.request.account import Accounts, own_cookie_value
from hedgerow.request.bot_signature import Request
from hedgerow.request.bots import Bots, BotVerifier
from hedgerow.request.client_kind import METHODS_OF_BROWSERS, client_kind
from hedgerow.request.header_anomalies import find_anomalies
from hedgerow.request.path_cookies import restored_cookies

RawHeaders = Sequence[tuple[bytes, bytes]]

VISITOR_COOKIE = b"hedgerow"
"""The cookie that holds, encrypted, the visitors that a browser was before."""

_IN_QUERY = ("~=", "%7E=")
# A token, a clean mark, or most of one: a mail program may have cut it off. A shorter value may be the site's own.
_MARK = re.compile(r"(?:~|%7E)=[A-Za-z0-9_-]{20,}(?:\.[A-Za-z0-9_-]*)?\Z", re.ASCII)
_MAX_FINGERPRINT_LENGTH = 100
_MAX_CACHED_LENGTH = 500
_RELEVANT = (
    b"user-agent", b"host", b"accept", b"accept-language", b"accept-encoding", b"sec-ch-ua", b"sec-fetch-mode",
    b"sec-fetch-dest", b"sec-fetch-site", b"sec-fetch-user", b"sec-purpose", b"purpose", b"x-moz", b"upgrade",
)  # fmt: skip
_MAX_ENTRIES = 1 << 12
# A client chooses the length of its headers. Long ones are not cached, so that the caches' memory is bounded.
_MAX_VALUES_LENGTH = 1500
_MAX_NAMES_LENGTH = 1000

_TELLING = frozenset({b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest", b"x-requested-with"})
"""Headers that browsers do not send over plain HTTP, or not for another site."""

_Fields = Mapping[bytes, bytes]


class Identifier:
    def __init__(
        self,
        *,
        proxies: Proxies | None = None,
        accounts: Accounts | None = None,
        bots: Bots | None = None,
        bot_verifier: BotVerifier | None = None,
        tls_header: str = "",
        tokens: TokenCodecs,
        prefix: str,
        clearances: Clearances | None = None,
        never_opaque: Callable[[str], bool] | None = None,
        sets_cookies: bool = False,
    ) -> None:
        """*sets_cookies*: visitors get a cookie with their first page, and pages of those without one are limited."""
        self._sets_cookies = sets_cookies
        self._proxies = proxies or Proxies()
        self._has_proxies = bool(self._proxies)
        self._accounts = accounts or Accounts()
        self._has_accounts = bool(self._accounts)
        self.bot_verifier = bot_verifier or BotVerifier(bots)
        self._tls_header = tls_header.lower().encode()
        self._codecs = tokens
        self._prefix = prefix
        self._clearances = clearances
        self._never_opaque = never_opaque
        self._linked = lru_cache(maxsize=1 << 12)(self._read_linked)

    def trusts(self, peer: str) -> bool:
        return self._proxies.trusts(peer)

    def visit(self, at: float, peer: str, method: str, target: str, headers: RawHeaders, **options: Any) -> Visit:
        """Return the visit of a live request, as `identify` does."""
        return self.identify(at, peer, method, target, headers, **options)[0]

    def identify(
        self,
        at: float,
        peer: str,
        method: str,
        target: str,
        headers: RawHeaders,
        *,
        scheme: str = "",
        version: str = "",
        in_order: bool = True,
    ) -> tuple[Visit, bool]:
        """
        Return the visit, and whether *peer* is a trusted proxy.

        *peer* is the address of the connection, *target* is path and query as sent. *scheme* and *version* are those of
        the connection; a trusted proxy may correct the scheme. *in_order* is true if the headers are in the order in
        which the client sent them.
        """
        fields = dict(headers)
        trusted = self._has_proxies and self._proxies.trusts(peer)
        address = peer
        if trusted:
            address = self._proxies.client(peer, _joined(headers, self._proxies.header.encode()))
        elif ":" in peer:
            address = parse_address(peer) or peer
        prefix = prefix_of(address) if ":" in address else address
        fingerprint = ""
        if trusted:
            scheme = fields.get(b"x-forwarded-proto", scheme.encode()).decode("latin-1").strip().lower()
            if self._tls_header:
                fingerprint = fields.get(self._tls_header, b"")[:_MAX_FINGERPRINT_LENGTH].decode("latin-1")
        user_agent, host, prefetch, kind, origin, anomalies, is_file = parse_headers(
            fields, scheme, version, direct=in_order and not trusted
        )
        if method not in METHODS_OF_BROWSERS and BY_PROGRAM not in anomalies:
            anomalies += (BY_PROGRAM,) if client_kind(method, fields) == "program" else ()
        asked = target
        target, marker, tampered = self.unmark(asked, host)
        account, is_proven = self._account(headers, asked, target, trusted) if self._has_accounts else ("", True)
        anomalies += () if is_proven else (READ_BY + prefix,)
        target_kind = kind_of(method, target)
        referrer = fields.get(b"referer", b"").decode("latin-1")
        origin = origin or origin_of_referrer(referrer, host)
        anomalies += (FORM,) if method == "POST" and kind == "page" else ()
        anomalies += (ELSEWHERE,) if is_file and origin != "same" else ()
        if b"signature-input" in fields:
            request = Request(at, method, scheme, host, asked, headers)
            bot, claim, proof, bot_signs = self.bot_verifier.match(request, address, user_agent, target)
        else:
            bot, claim, proof, bot_signs = self.bot_verifier.match_address(at, address, user_agent, host, target)
        cookie = fields.get(b"cookie", b"")
        is_told = scheme != "http" or origin == "same" or account or not self._sets_cookies or _is_own(marker, prefix)
        anomalies += () if is_told else _signs_of_other_sites(method, fields, cookie)
        linked: tuple[bytes, ...] = ()
        if VISITOR_COOKIE in cookie:
            # A browser sends the same cookie with every request.
            read = self._linked if len(cookie) + len(host) <= _MAX_CACHED_LENGTH else self._read_linked
            named = read(cookie, host, scheme)
            if named is None:
                anomalies = (*anomalies, WRONG_COOKIE)
            else:
                linked = named
        if marker is not None and marker.kind in HIDDEN_KINDS and is_subresource(fields):
            anomalies = (*anomalies, NO_NAVIGATION)
        # Positional arguments: keywords take ten times as long.
        visit = Visit(
            at, address, ACCOUNT + account if account else prefix, prefix, method, target,
            kind if target_kind == "page" else target_kind, account, host, user_agent,
            self._referrer(referrer, host), origin, prefetch, bot, marker, 0,
            asked if asked != target else "", tampered,
            linked, claim, proof, anomalies + bot_signs if bot_signs else anomalies, fingerprint,
        )  # fmt: skip
        if self._clearances is not None and (not account or not is_proven) and CLEARANCE_COOKIE in cookie:
            visit = self._cleared(visit, fields, self._clearances, scheme)
        return visit, trusted

    def _account(self, headers: RawHeaders, asked: str, target: str, trusted: bool) -> tuple[str, bool]:
        """Return the account, and whether it cannot be invented."""
        path = target.partition("?")[0]
        if asked.partition("?")[0] != path:
            # The site's cookies for this path come as copies.
            headers = [
                (name, restored_cookies(value, path.encode("latin-1"), hidden=True) if name == b"cookie" else value)
                for name, value in headers
            ]
        account = self._accounts.proven(headers, trusted=trusted)
        claimed = "" if account else self._accounts.claimed(headers)
        return account or claimed, not claimed

    @staticmethod
    def _cleared(visit: Visit, fields: Mapping[bytes, bytes], clearances: Clearances, scheme: str) -> Visit:
        """Return the visit under its clearance if that is valid, with the anomalies of the clearance."""
        value = own_cookie_value(fields[b"cookie"], CLEARANCE_COOKIE, scheme).decode("latin-1")
        language = fields.get(b"accept-language", b"").decode("latin-1")
        status = clearances.check(value, visit, visit.at, language=language)
        if visit.account:
            if not status.counts:
                return visit
            others = [code for code in visit.anomalies if not code.startswith(READ_BY)]
            return msgspec.structs.replace(visit, anomalies=(*others, READ_BY + status.visitor))
        return msgspec.structs.replace(
            visit,
            visitor=status.visitor if status.counts else visit.visitor,
            anomalies=visit.anomalies + status.anomalies,
        )

    def unmark(self, asked: str, host: str) -> tuple[str, Marker | None, bool]:
        """
        Split a requested address into target, marker, and whether a marker was present but invalid.

        What follows the "?" of an opaque address is added to the query of its target, such as `utm_source`. A form that
        is sent as a query replaces the query of its action.
        """
        if not self._may_be_marked(asked):
            return asked, None, False
        text = asked
        if not text.startswith(self._prefix) and "%" in text[: 3 * len(self._prefix)]:
            # Some clients escape needlessly: `/%7Etoken` is `/~token`. The query stays unchanged.
            path, question, query = text.partition("?")
            text = unquote(path) + question + query
        if text.startswith(self._prefix):
            token, question, query = text[len(self._prefix) :].partition("?")
            if not may_be_token(token):
                return asked, None, False
            marker = _unseal(self._codecs.of(host), token)
            if marker is None or marker.kind == "visitor":
                return asked, None, True
            if marker.kind in HIDDEN_KINDS:
                return asked, marker, False
            if not marker.target.startswith("/") or (self._never_opaque and self._never_opaque(marker.target)):
                return asked, None, True
            if not question:
                return marker.target, marker, False
            path, _, own = marker.target.partition("?")
            return path + "?" + (f"{own}&{query}" if own and marker.kind != "form" else query), marker, False
        return self._unmark_query(asked, host)

    def _unmark_query(self, asked: str, host: str) -> tuple[str, Marker | None, bool]:
        """
        Split an address whose token or clean mark is a query parameter.

        What was added after the mark, such as `utm_source`, stays in the target. A site may have a parameter `~` of its
        own: one without the form of a mark stays, too.
        """
        path, _, query = asked.partition("?")
        parts = query.split("&") if "~=" in query or "%7E=" in query else []
        marks = [at for at, part in enumerate(parts) if part.startswith(_IN_QUERY) and _MARK.match(part)]
        if not marks:
            return asked, None, False
        # Of several the last is the link's own: the others stood in the address that it leads to.
        last = marks[-1]
        value = parts[last].partition("=")[2]
        before, rest = ([part for at, part in enumerate(some) if at not in marks] for some in (parts[:last], parts))
        target, added_to = _with_query(path, rest), _with_query(path, before)
        codec = self._codecs.of(host)
        if may_be_token(value):
            return target, *self._readable_marker(codec, value, path, target)
        marker = _open_mark(codec, value, path, added_to)
        return target, marker, marker is None and not codec.is_outdated(value)

    def _readable_marker(self, codec: TokenCodec, token: str, path: str, target: str) -> tuple[Marker | None, bool]:
        """
        Return the marker of a token in a query, and whether it is invalid.

        A valid token of another address gives no marker and is not held against anybody: people edit addresses by hand.
        The same holds for a token under a dropped key, such as one in an old bookmark.
        """
        marker = _unseal(codec, token)
        if marker is None or marker.kind == "visitor":
            return None, marker is not None or not codec.is_outdated(token)
        if marker.kind not in HIDDEN_KINDS:
            marked = path if marker.kind == "form" else target
            if marker.target.encode("latin-1") != page_digest(marked):
                return None, False
        return marker, False

    def _may_be_marked(self, text: str) -> bool:
        """Return whether an address can contain a marker, opaque or readable, escaped or not."""
        return "~" in text or "%" in text or self._prefix in text

    def _referrer(self, referrer: str, host: str) -> str:
        """Return the referrer without markers, as the site knows it."""
        if not self._may_be_marked(referrer):
            return referrer
        start, separator, rest = referrer.partition("://")
        site, slash, target = rest.partition("/")
        if not separator or site.lower() != host.lower():
            return referrer
        return start + separator + site + self.unmark(slash + target, host)[0]

    def _read_linked(self, cookie: bytes, host: str, scheme: str) -> tuple[bytes, ...] | None:
        """Return the visitors that the cookie names; None if the cookie is not one of ours. An old key is no fault."""
        token = own_cookie_value(cookie, VISITOR_COOKIE, scheme).decode("latin-1")
        if not token:
            return ()
        codec = self._codecs.of(host)
        marker = codec.unseal(token)
        if marker is None or marker.kind != "visitor":
            return () if codec.is_outdated(token) else None
        digests = marker.target.encode("latin-1")
        return tuple(digests[at : at + VISITOR_BYTES] for at in range(0, len(digests), VISITOR_BYTES))


def _unseal(codec: TokenCodec, token: str) -> Marker | None:
    # Cached, because a page's address is also the referrer of everything that the page loads.
    return _unseal_cached(codec, token) if len(token) <= _MAX_CACHED_LENGTH else codec.unseal(token)


@lru_cache(maxsize=1 << 12)
def _unseal_cached(codec: TokenCodec, token: str) -> Marker | None:
    return codec.unseal(token)


def _with_query(path: str, parts: Sequence[str]) -> str:
    return path + "?" + "&".join(parts) if parts else path


def _open_mark(codec: TokenCodec, mark: str, path: str, target: str) -> Marker | None:
    """Return the marker of a clean mark on a link to *target*, or None if it is damaged or stood on another link."""
    parts = split_mark(mark)
    view = _open_view(codec, parts[0]) if parts is not None else None
    if parts is None or view is None:
        return None
    kind = codec.clean.kind(view, parts[1], target, path)
    if kind is None:
        return None
    return Marker(kind, view.issued_to, view.parent, "" if kind in HIDDEN_KINDS else target, view.generation)


@lru_cache(maxsize=1 << 12)
def _open_view(codec: TokenCodec, text: str) -> OpenedView | None:
    # Cached: all links of a page have the same view.
    return codec.clean.open(text)


def _joined(headers: RawHeaders, name: bytes) -> str:
    return ",".join(value.decode("latin-1") for key, value in headers if key == name)


# ---- What follows from the headers alone
#
# It depends on a few header values, which repeat, and on the order of header names, which repeats as well. So it is
# computed once per combination. The names in order (the shape) determine which values to extract.


class HeaderFacts(NamedTuple):
    """
    What follows from the headers alone.

    *kind* is for a target that looks like a page. *origin* is "" if it depends on the referrer. *is_file*: the headers
    ask for an image or a style sheet, and do not say for which site.
    """

    user_agent: str
    host: str
    prefetch: bool
    kind: Kind
    origin: Origin | Literal[""]
    anomalies: tuple[str, ...]
    is_file: bool


_shapes: dict[tuple[bytes, ...], Callable[[_Fields], Any]] = {}
"""Extractor of the relevant values by the names of all headers. Cleared when full."""
_cache: dict[tuple[Any, ...], HeaderFacts] = {}
"""Results by shape and values. Cleared when full."""


def parse_headers(fields: _Fields, scheme: str, version: str, *, direct: bool) -> HeaderFacts:
    """
    Parse *fields*, the headers of a request in the order received.

    *scheme* is the client's ("" if unknown), *version* that of HTTP. *direct* is true if no proxy of the site stands in
    between.
    """
    names = tuple(fields)
    shape = _shapes.get(names)
    if shape is None:
        if sum(map(len, names)) > _MAX_NAMES_LENGTH:
            return _parse(fields, scheme, version, direct=direct)
        shape = _extractor(fields)
        if len(_shapes) >= _MAX_ENTRIES:
            _shapes.clear()
        _shapes[names] = shape
    combination = (shape, shape(fields), scheme, version, direct)
    facts = _cache.get(combination)
    if facts is None:
        facts = _parse(fields, scheme, version, direct=direct)
        if len(scheme) + sum(len(fields.get(name, b"")) for name in _RELEVANT) <= _MAX_VALUES_LENGTH:
            if len(_cache) >= _MAX_ENTRIES:
                _cache.clear()
            _cache[combination] = facts
    return facts


def _is_own(marker: Marker | None, prefix: str) -> bool:
    """Return whether a visitor without a clearance got this mark with a page of this site."""
    return marker is not None and marker.parent != NO_PAGE and marker.issued_to == visitor_digest(prefix)


def _signs_of_other_sites(method: str, fields: _Fields, cookie: bytes) -> tuple[str, ...]:
    """
    Return the code for what another site may make a browser load that does not tell.

    It sends none of our cookies with such a request, except into a window.
    """
    has_cookie = VISITOR_COOKIE in cookie or CLEARANCE_COOKIE in cookie
    if has_cookie or not _TELLING.isdisjoint(fields):
        return ()
    kind = client_kind(method, fields)
    if kind == "browser":
        return (ARRIVAL,)
    return (ELSEWHERE,) if kind == "script" else ()


def _extractor(fields: _Fields) -> Callable[[_Fields], Any]:
    names = [name for name in _RELEVANT if name in fields]
    return itemgetter(*names) if names else lambda _: ()


def _said_origin(fields: _Fields) -> Origin | Literal[""]:
    origin = origin_of({name: value for name, value in fields.items() if name != b"referer"}, "")
    return origin if origin != "unknown" else ""


def _parse(fields: _Fields, scheme: str, version: str, *, direct: bool) -> HeaderFacts:
    host = fields.get(b"host", b"").decode("latin-1")
    prefetch = is_prefetch(fields)
    anomalies = find_anomalies(fields, scheme=scheme, host=host, version=version, direct=direct)
    if client_kind("GET", fields) == "program":
        anomalies += (BY_PROGRAM,)
    elif is_from_elsewhere(fields):
        anomalies += (ELSEWHERE, INTO_WINDOW) if is_into_window(fields) else (ELSEWHERE,)
    return HeaderFacts(
        fields.get(b"user-agent", b"").decode("latin-1"),
        host,
        prefetch,
        kind_claimed("page", fields, prefetch=prefetch),
        _said_origin(fields),
        anomalies,
        is_embedded_file(fields),
    )
