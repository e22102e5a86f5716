"""
The gate: a request becomes a visit, the visit a decision, and both a line of the ledger.

The one place where the pure engine meets its stores. Every adapter (middleware, proxy, replay) goes through here, so
the verdict is the same whatever the form. Takes the time as an argument; asks no clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from urllib.parse import unquote

import msgspec

from hedgerow.challenge.clearance import COOKIE as CLEARANCE_COOKIE
from hedgerow.challenge.clearance import Clearances
from hedgerow.challenge.hooks import Failure
from hedgerow.challenge.hooks import Kind as ChallengeKind
from hedgerow.engine import Engine
from hedgerow.identity.account import Accounts, cookie_value, visitor_of
from hedgerow.identity.address import Proxies, parse_address, prefix_of
from hedgerow.identity.bots import Bots
from hedgerow.identity.kind import kind_of, origin_of_referrer
from hedgerow.identity.signature import Request
from hedgerow.identity.told import told_by
from hedgerow.identity.welcome import Welcome
from hedgerow.marker.seal import VISITOR_BYTES, Seal, Seals, may_be_token, page_digest
from hedgerow.recall import Afar, Memory, Question, State, StateAway
from hedgerow.stores.ledger import Entry, Ledger
from hedgerow.traps.bait import Pages
from hedgerow.verdict import Decision, Evidence
from hedgerow.visit import BY_SCRIPT, Kind, Marker, Visit

log = logging.getLogger(__name__)

RawHeaders = Sequence[tuple[bytes, bytes]]

Onlooker = Callable[[Visit, Decision], None]

VISITOR_COOKIE = b"hedgerow"
"""The cookie in which a browser carries, sealed, the visitors that it was."""
_NOWHERE = frozenset({"trap", "maze"})
_LONGEST_FINGERPRINT = 100
_LONGEST_KEPT = 500
_CLOSED_FOR = 5.0
_CLOSED = Decision("refuse", (Evidence("store", "store-away", 1.0, "The site cannot tell who is asking just now."),))
_SUSPICIOUS = frozenset({"wrong", "spent", "visitor", "spliced", "tampered"})


class Identifier:
    """Makes a `Visit` of a live request: address, account, bot, kind, origin, marker."""

    def __init__(
        self,
        *,
        proxies: Proxies | None = None,
        accounts: Accounts | None = None,
        bots: Bots | None = None,
        welcome: Welcome | None = None,
        tls_header: str = "",
        seals: Seals,
        prefix: str,
        clearances: Clearances | None = None,
    ) -> None:
        self._proxies = proxies or Proxies()
        self._accounts = accounts or Accounts()
        self.welcome = welcome or Welcome(bots)
        self._tls_header = tls_header.lower().encode()
        self._seals = seals
        self._prefix = prefix
        self._clearances = clearances
        self._linked = lru_cache(maxsize=1 << 12)(self._read_linked)

    def trusts(self, peer: str) -> bool:
        """Whether the peer of the connection is a proxy whose word counts."""
        return self._proxies.trusts(peer)

    def visit(
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
    ) -> Visit:
        """
        The visit of a live request. *peer* is the address of the connection, *target* path and query as sent.

        *scheme* and *version* are those of the connection; a trusted proxy knows the scheme better. *in_order*: the
        headers stand as the client has sent them, and nobody has sorted them on the way.
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
        user_agent, host, prefetch, kind, origin, signs = told_by(
            fields, scheme, version, direct=in_order and not trusted
        )
        asked = target
        target, marker, tampered = self.unmark(asked, host)
        plain = kind_of(method, target)
        referrer = fields.get(b"referer", b"").decode("latin-1")
        if b"signature-input" in fields:
            request = Request(at, method, scheme, host, asked, headers)
            bot, claim, proof, more = self.welcome.of(request, address, user_agent, target)
        else:
            bot, claim, proof, more = self.welcome.of_address(at, address, user_agent, host, target)
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
            return self._cleared(visit, fields, self._clearances)
        return visit

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


def _open(seal: Seal, token: str) -> Marker | None:
    """
    The marker in *token*. It is opened once for all requests that bring it: a page's address is the referrer of all
    that belongs to it.
    """
    return _opened(seal, token) if len(token) <= _LONGEST_KEPT else seal.unseal(token)


@lru_cache(maxsize=1 << 12)
def _opened(seal: Seal, token: str) -> Marker | None:
    return seal.unseal(token)


def _corrected(visit: Visit, kind: Kind) -> Visit:
    signs = (*visit.signs, BY_SCRIPT) if visit.kind == "call" else visit.signs
    return msgspec.structs.replace(visit, kind=kind, signs=signs)


def _away(visit: Visit) -> Decision:
    """What becomes of a visit that the settings let nobody decide on: the site is closed for a moment."""
    return msgspec.structs.replace(_CLOSED, until=visit.at + _CLOSED_FOR)


def _joined(headers: RawHeaders, name: bytes) -> str:
    return ",".join(value.decode("latin-1") for key, value in headers if key == name)


class Gate:
    """Decides on visits and writes them down."""

    def __init__(self, engine: Engine, state: State, ledger: Ledger, identifier: Identifier, pages: Pages) -> None:
        self.engine = engine
        self.state = state
        self.ledger = ledger
        self.identifier = identifier
        self.pages = pages
        self.blocked = 0
        """Visitors blocked since the start."""
        self.afar: Afar | None = state if isinstance(state, Afar) else None
        """The state, where it is on another machine: adapters that can serve others meanwhile then do."""
        self.needs_ledger = False
        """Whether nobody is let in while the ledger loses visits."""
        self.onlooker: Onlooker | None = None
        """Sees every visit that was answered: the watch. It may not wait, nor fail."""

    def decide(self, visit: Visit) -> Decision:
        """
        One look-up in the lists; for who is on none one trip to the state, the judgement, and the block it leads to.
        """
        return self._decide(visit, self.state.recall)

    async def decide_afar(self, visit: Visit, claimed: Kind | None = None) -> Decision:
        """
        The same where the trip to the state takes a while, and others are served meanwhile.

        *claimed* is what the visit was counted as before, where it turned out to be another kind.
        """
        if self.afar is None:
            return self.decide(visit)
        listed = self.engine.listed(visit)
        volume = self.engine.white_volume
        if self.needs_ledger and self.ledger.failing:
            return _away(visit)
        if listed is not None and (listed.action != "pass" or not volume):
            return listed
        question = self.engine.question(visit)
        try:
            if claimed is None:
                memory = await self.afar.recall_afar(question)
            else:
                memory = await self.afar.recount_afar(question, claimed)
        except StateAway:
            return _away(visit)
        return listed if listed is not None and memory.today <= volume else self._judge(visit, memory)

    def correct(self, visit: Visit, kind: Kind) -> tuple[Visit, Decision]:
        """
        The visit as the *kind* that it turned out to be when its answer was seen, and the decision on that.

        Decided anew, because a crawler that claims images alone would never be asked how many pages it had. The ledger
        gets this visit and this decision, and so a replay, which knows the answer from the start, decides the same.
        """
        corrected = _corrected(visit, kind)
        return corrected, self._decide(corrected, lambda question: self.state.recount(question, visit.kind))

    async def correct_afar(self, visit: Visit, kind: Kind) -> tuple[Visit, Decision]:
        """The same where the trip to the state takes a while."""
        if self.afar is None:
            return self.correct(visit, kind)
        corrected = _corrected(visit, kind)
        return corrected, await self.decide_afar(corrected, visit.kind)

    def _decide(self, visit: Visit, recall: Callable[[Question], Memory]) -> Decision:
        """What the lists say, and where they say nothing, or a white source has asked for too much, the engine."""
        if self.needs_ledger and self.ledger.failing:
            return _away(visit)
        listed = self.engine.listed(visit)
        volume = self.engine.white_volume
        if listed is not None and (listed.action != "pass" or not volume):
            return listed
        try:
            memory = recall(self.engine.question(visit))
        except StateAway:
            return _away(visit)
        return listed if listed is not None and memory.today <= volume else self._judge(visit, memory)

    def _judge(self, visit: Visit, memory: Memory) -> Decision:
        decision, block = self.engine.judge(visit, memory)
        if block is not None:
            self.state.commit(block)
            if memory.block is None:
                self.blocked += 1
                log.info("blocked %s: %s", ascii(block.key), ascii(block.evidence.text))
        return decision

    def settle(self, decision: Decision) -> None:
        """Remember what a decision says about its visitor."""
        if decision.change is not None:
            self.state.amend(decision.change)

    # ---- What becomes of challenges: see `challenge.hooks.Hooks`

    def issued(self, visit: Visit, kind: ChallengeKind, at: float, *, again: bool) -> None:
        """A challenge was shown. It was counted when its visitor became a suspect."""

    def solved(self, visit: Visit, key: str, kind: ChallengeKind, at: float) -> None:  # noqa: ARG002 - one shape
        """
        A challenge was solved, and its solver is *key* from now on.

        An account, or who has a clearance, is a person again. Who has neither gets a clearance, and a standing of its
        own with it; those behind the same address have not solved anything.
        """
        change = self.engine.ladder.cleared(key, at)
        self.state.amend(change if key == visit.visitor else msgspec.structs.replace(change, challenged=True))

    def failed(self, visit: Visit, failure: Failure, at: float) -> None:
        """An answer was not right: that is suspicious, if it was not only late."""
        if failure in _SUSPICIOUS:
            change = self.engine.ladder.failed(visit.visitor, at, f"challenge-{failure}")
            self.state.amend(change)

    def record(self, visit: Visit, decision: Decision, status: int, reference: str = "") -> None:
        """
        The visit is answered: write it down, and remember what it says about its visitor. Never waits.

        Not earlier: only the answer tells whether it was a page that somebody asked for, or a file of an API. A replay
        has no answers to wait for; where many slow ones overlap, a suspicion may so begin a visit earlier there.
        """
        self.settle(decision)
        self.ledger.append(Entry(visit, decision, status, reference))
        if self.onlooker is not None:
            self.onlooker(visit, decision)
