"""Identification of a live request: builds its `Visit` with address, account, bot, kind, origin, marker, clearance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import msgspec

from hedgerow.challenge.clearance import COOKIE as CLEARANCE_COOKIE
from hedgerow.challenge.clearance import Clearances
from hedgerow.core.address import Proxies, parse_address, prefix_of
from hedgerow.core.request_kind import kind_of, origin_of_referrer
from hedgerow.core.visit import Marker, Visit
from hedgerow.markers.token import VISITOR_BYTES, TokenCodec, TokenCodecs, may_be_token, page_digest
from hedgerow.request.account import Accounts, cookie_value, visitor_of
from hedgerow.request.bot_signature import Request
from hedgerow.request.bot_verifier import BotVerifier
from hedgerow.request.bots import Bots
from hedgerow.request.header_facts import parse_headers

RawHeaders = Sequence[tuple[bytes, bytes]]

VISITOR_COOKIE = b"hedgerow"
"""The cookie that holds, encrypted, the visitors that a browser was before."""

_WITHOUT_TARGET = frozenset({"trap", "maze"})
_MAX_FINGERPRINT_LENGTH = 100
_MAX_CACHED_LENGTH = 500


class Identifier:
    def __init__(
        self,
        *,
        proxies: Proxies | None = None,
        accounts: Accounts | None = None,
        bots: Bots | None = None,
        bot_verifier: BotVerifier | None = None,
        tls_header: str = "",
        seals: TokenCodecs,
        prefix: str,
        clearances: Clearances | None = None,
    ) -> None:
        self._proxies = proxies or Proxies()
        self._accounts = accounts or Accounts()
        self.bot_verifier = bot_verifier or BotVerifier(bots)
        self._tls_header = tls_header.lower().encode()
        self._codecs = seals
        self._prefix = prefix
        self._clearances = clearances
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
        trusted = self._proxies.trusts(peer)
        address = peer
        if trusted:
            address = self._proxies.client(peer, _joined(headers, self._proxies.header.encode()))
        elif ":" in peer:
            address = parse_address(peer) or peer
        prefix = prefix_of(address)
        account = self._accounts.account(headers, trusted=trusted) if self._accounts else ""
        fingerprint = ""
        if trusted:
            scheme = fields.get(b"x-forwarded-proto", scheme.encode()).decode("latin-1").strip().lower()
            if self._tls_header:
                fingerprint = fields.get(self._tls_header, b"")[:_MAX_FINGERPRINT_LENGTH].decode("latin-1")
        user_agent, host, prefetch, kind, origin, anomalies = parse_headers(
            fields, scheme, version, direct=in_order and not trusted
        )
        asked = target
        target, marker, tampered = self.unmark(asked, host)
        target_kind = kind_of(method, target)
        referrer = fields.get(b"referer", b"").decode("latin-1")
        if b"signature-input" in fields:
            request = Request(at, method, scheme, host, asked, headers)
            bot, claim, proof, bot_signs = self.bot_verifier.match(request, address, user_agent, target)
        else:
            bot, claim, proof, bot_signs = self.bot_verifier.match_address(at, address, user_agent, host, target)
        cookie = fields.get(b"cookie", b"")
        linked: tuple[bytes, ...] = ()
        if VISITOR_COOKIE in cookie:
            # A browser sends the same cookie with every request.
            linked = (self._linked if len(cookie) + len(host) <= _MAX_CACHED_LENGTH else self._read_linked)(
                cookie, host
            )
        # Positional arguments: keywords take ten times as long.
        visit = Visit(
            at, address, visitor_of(account, prefix), prefix, method, target,
            kind if target_kind == "page" else target_kind, account, host, user_agent,
            self._referrer(referrer, host), origin or origin_of_referrer(referrer, host), prefetch, bot, marker, 0,
            asked if asked != target else "", tampered,
            linked, claim, proof, anomalies + bot_signs if bot_signs else anomalies, fingerprint,
        )  # fmt: skip
        if self._clearances is not None and not account and CLEARANCE_COOKIE in cookie:
            visit = self._cleared(visit, fields, self._clearances)
        return visit, trusted

    @staticmethod
    def _cleared(visit: Visit, fields: Mapping[bytes, bytes], clearances: Clearances) -> Visit:
        """Return the visit under its clearance if that is valid, with the anomalies of the clearance."""
        value = cookie_value(fields[b"cookie"], CLEARANCE_COOKIE).decode("latin-1")
        language = fields.get(b"accept-language", b"").decode("latin-1")
        status = clearances.check(value, visit, visit.at, language=language)
        return msgspec.structs.replace(
            visit,
            visitor=status.visitor if status.counts else visit.visitor,
            anomalies=visit.anomalies + status.anomalies,
        )

    def unmark(self, asked: str, host: str) -> tuple[str, Marker | None, bool]:
        """
        Split a requested address into target, marker, and whether a marker was present but invalid.

        The query of an opaque address replaces that of its target: a GET form replaces the query of its action.
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
            if marker.kind in _WITHOUT_TARGET:
                return asked, marker, False
            if not marker.target.startswith("/"):
                return asked, None, True
            target = marker.target.partition("?")[0] + question + query if question else marker.target
            return target, marker, False
        if "~=" in asked or "%7E=" in asked:
            return self._unmark_readable(asked, host)
        return asked, None, False

    def _unmark_readable(self, asked: str, host: str) -> tuple[str, Marker | None, bool]:
        """
        Split an address whose token is a query parameter.

        A valid token of another address gives no marker and is not held against anybody: people edit addresses by hand.
        The same holds for a token under a dropped key, such as one in an old bookmark.
        """
        path, _, query = asked.partition("?")
        parts = query.split("&")
        tokens = [part.partition("=")[2] for part in parts if part.startswith(("~=", "%7E="))]
        if len(tokens) != 1 or not may_be_token(tokens[0]):
            return asked, None, False
        rest = "&".join(part for part in parts if not part.startswith(("~=", "%7E=")))
        target = path + "?" + rest if rest else path
        codec = self._codecs.of(host)
        marker = _unseal(codec, tokens[0])
        if marker is None or marker.kind == "visitor":
            return target, None, marker is not None or not codec.is_outdated(tokens[0])
        if marker.kind not in _WITHOUT_TARGET:
            marked = path if marker.kind == "form" else target
            if marker.target.encode("latin-1") != page_digest(marked):
                return target, None, False
        return target, marker, False

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

    def _read_linked(self, cookie: bytes, host: str) -> tuple[bytes, ...]:
        token = cookie_value(cookie, VISITOR_COOKIE).decode("latin-1")
        marker = self._codecs.of(host).unseal(token) if token else None
        if marker is None or marker.kind != "visitor":
            return ()
        digests = marker.target.encode("latin-1")
        return tuple(digests[at : at + VISITOR_BYTES] for at in range(0, len(digests), VISITOR_BYTES))


def _unseal(codec: TokenCodec, token: str) -> Marker | None:
    # Cached, because a page's address is also the referrer of everything that the page loads.
    return _unseal_cached(codec, token) if len(token) <= _MAX_CACHED_LENGTH else codec.unseal(token)


@lru_cache(maxsize=1 << 12)
def _unseal_cached(codec: TokenCodec, token: str) -> Marker | None:
    return codec.unseal(token)


def _joined(headers: RawHeaders, name: bytes) -> str:
    return ",".join(value.decode("latin-1") for key, value in headers if key == name)
