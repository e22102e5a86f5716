"""
Identify: from a raw live request to a `Visit`: address, account, bot, kind, origin, marker, clearance.
"""

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
"""The cookie in which a browser carries, sealed, the visitors that it was."""


_NOWHERE = frozenset({"trap", "maze"})


_LONGEST_FINGERPRINT = 100


_LONGEST_KEPT = 500


class Identifier:
    """Makes a `Visit` of a live request: address, account, bot, kind, origin, marker."""

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
        self._seals = seals
        self._prefix = prefix
        self._clearances = clearances
        self._linked = lru_cache(maxsize=1 << 12)(self._read_linked)

    def trusts(self, peer: str) -> bool:
        """Whether the peer of the connection is a proxy whose word counts."""
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
        Return the visit of a live request, and whether *peer* is a proxy that is trusted.

        *peer* is the address of the connection, *target* path and query as sent. *scheme* and *version* are those of
        the connection; a trusted proxy knows the scheme better. *in_order*: the headers stand as the client has sent
        them, and nobody has sorted them on the way.
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
                fingerprint = fields.get(self._tls_header, b"")[:_LONGEST_FINGERPRINT].decode("latin-1")
        user_agent, host, prefetch, kind, origin, signs = parse_headers(
            fields, scheme, version, direct=in_order and not trusted
        )
        asked = target
        target, marker, tampered = self.unmark(asked, host)
        plain = kind_of(method, target)
        referrer = fields.get(b"referer", b"").decode("latin-1")
        if b"signature-input" in fields:
            request = Request(at, method, scheme, host, asked, headers)
            bot, claim, proof, more = self.bot_verifier.of(request, address, user_agent, target)
        else:
            bot, claim, proof, more = self.bot_verifier.of_address(at, address, user_agent, host, target)
        cookie = fields.get(b"cookie", b"")
        linked: tuple[bytes, ...] = ()
        if VISITOR_COOKIE in cookie:
            # The same comes with every request of a browser.
            linked = (self._linked if len(cookie) + len(host) <= _LONGEST_KEPT else self._read_linked)(cookie, host)
        # In the order of the fields: by their names it takes ten times as long.
        visit = Visit(
            at, address, visitor_of(account, prefix), prefix, method, target,
            kind if plain == "page" else plain, account, host, user_agent,
            self._referrer(referrer, host), origin or origin_of_referrer(referrer, host), prefetch, bot, marker, 0,
            asked if asked != target else "", tampered,
            linked, claim, proof, signs + more if more else signs, fingerprint,
        )  # fmt: skip
        if self._clearances is not None and not account and CLEARANCE_COOKIE in cookie:
            visit = self._cleared(visit, fields, self._clearances)
        return visit, trusted

    @staticmethod
    def _cleared(visit: Visit, fields: Mapping[bytes, bytes], clearances: Clearances) -> Visit:
        """The visit of who has solved a challenge, where its clearance counts; and what speaks against that."""
        value = cookie_value(fields[b"cookie"], CLEARANCE_COOKIE).decode("latin-1")
        language = fields.get(b"accept-language", b"").decode("latin-1")
        worth = clearances.check(value, visit, visit.at, language=language)
        return msgspec.structs.replace(
            visit, visitor=worth.visitor if worth.counts else visit.visitor, signs=visit.signs + worth.signs
        )

    def unmark(self, asked: str, host: str) -> tuple[str, Marker | None, bool]:
        """
        What a request really asks for, the marker it came with, and whether there was one that would not open.

        The query of an opaque address takes the place of its target's, as a form that asks by its address would have
        it.
        """
        if not self._may_be_marked(asked):
            return asked, None, False
        text = asked
        if not text.startswith(self._prefix) and "%" in text[: 3 * len(self._prefix)]:
            # Some clients escape what needs no escape: `/%7Etoken` is `/~token`. The query stays as it is.
            path, question, query = text.partition("?")
            text = unquote(path) + question + query
        if text.startswith(self._prefix):
            token, question, query = text[len(self._prefix) :].partition("?")
            if not may_be_token(token):
                return asked, None, False
            marker = _open(self._seals.of(host), token)
            if marker is None or marker.kind == "visitor":
                return asked, None, True
            if marker.kind in _NOWHERE:
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
        The same where the token is a parameter of the query.

        A token that opens and was made for another address is nobody's fault: people change a number in the address and
        press Enter. Nor is one under a key that was dropped: bookmarks grow old. Then there is no marker.
        """
        path, _, query = asked.partition("?")
        parts = query.split("&")
        tokens = [part.partition("=")[2] for part in parts if part.startswith(("~=", "%7E="))]
        if len(tokens) != 1 or not may_be_token(tokens[0]):
            return asked, None, False
        rest = "&".join(part for part in parts if not part.startswith(("~=", "%7E=")))
        target = path + "?" + rest if rest else path
        seal = self._seals.of(host)
        marker = _open(seal, tokens[0])
        if marker is None or marker.kind == "visitor":
            return target, None, marker is not None or not seal.is_outdated(tokens[0])
        if marker.kind not in _NOWHERE:
            meant = path if marker.kind == "form" else target
            if marker.target.encode("latin-1") != page_digest(meant):
                return target, None, False
        return target, marker, False

    def _may_be_marked(self, text: str) -> bool:
        """Whether there can be a marker in an address: both kinds of it, and what some clients make of them."""
        return "~" in text or "%" in text or self._prefix in text

    def _referrer(self, referrer: str, host: str) -> str:
        """The referrer as the site knows it: without our markers."""
        if not self._may_be_marked(referrer):
            return referrer
        start, separator, rest = referrer.partition("://")
        where, slash, target = rest.partition("/")
        if not separator or where.lower() != host.lower():
            return referrer
        return start + separator + where + self.unmark(slash + target, host)[0]

    def _read_linked(self, cookie: bytes, host: str) -> tuple[bytes, ...]:
        """The digests of the visitors that the cookie of a browser links."""
        token = cookie_value(cookie, VISITOR_COOKIE).decode("latin-1")
        marker = self._seals.of(host).unseal(token) if token else None
        if marker is None or marker.kind != "visitor":
            return ()
        known = marker.target.encode("latin-1")
        return tuple(known[at : at + VISITOR_BYTES] for at in range(0, len(known), VISITOR_BYTES))


def _open(seal: TokenCodec, token: str) -> Marker | None:
    """
    The marker in *token*. It is opened once for all requests that bring it: a page's address is the referrer of all
    that belongs to it.
    """
    return _opened(seal, token) if len(token) <= _LONGEST_KEPT else seal.unseal(token)


@lru_cache(maxsize=1 << 12)
def _opened(seal: TokenCodec, token: str) -> Marker | None:
    return seal.unseal(token)


def _joined(headers: RawHeaders, name: bytes) -> str:
    return ",".join(value.decode("latin-1") for key, value in headers if key == name)
