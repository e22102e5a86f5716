"""
The gate: a request becomes a visit, the visit a decision, and both a line of the ledger.

The one place where the pure engine meets its stores. Every adapter (middleware, proxy, replay) goes through here, so
the verdict is the same whatever the form. Takes the time as an argument; asks no clock.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from urllib.parse import unquote

import msgspec

from hedgerow.engine import Engine
from hedgerow.identity.account import Accounts, visitor_of
from hedgerow.identity.address import Proxies, parse_address, prefix_of
from hedgerow.identity.bots import Bots
from hedgerow.identity.kind import is_prefetch, kind_claimed, kind_of, origin_of
from hedgerow.marker.seal import Seal
from hedgerow.recall import Memory, State
from hedgerow.stores.ledger import Entry, Ledger
from hedgerow.traps.bait import Pages
from hedgerow.verdict import Decision
from hedgerow.visit import Kind, Marker, Visit

log = logging.getLogger(__name__)

RawHeaders = Sequence[tuple[bytes, bytes]]


class Identifier:
    """Makes a `Visit` of a live request: address, account, bot, kind, origin, marker."""

    def __init__(
        self,
        *,
        proxies: Proxies | None = None,
        accounts: Accounts | None = None,
        bots: Bots | None = None,
        seal: Seal,
        prefix: str,
    ) -> None:
        self._proxies = proxies or Proxies()
        self._accounts = accounts or Accounts()
        self._bots = bots or Bots()
        self._seal = seal
        self._prefix = prefix

    def trusts(self, peer: str) -> bool:
        """Whether the peer of the connection is a proxy whose word counts."""
        return self._proxies.trusts(peer)

    def visit(self, at: float, peer: str, method: str, target: str, headers: RawHeaders) -> Visit:
        """The visit of a live request. *peer* is the address of the connection, *target* path and query as sent."""
        fields = dict(headers)
        trusted = self._proxies.trusts(peer)
        address = peer
        if trusted:
            address = self._proxies.client(peer, _joined(headers, self._proxies.header.encode()))
        elif ":" in peer:
            address = parse_address(peer) or peer
        prefix = prefix_of(address)
        account = self._accounts.account(headers, trusted=trusted) if self._accounts else ""
        user_agent = fields.get(b"user-agent", b"").decode("latin-1")
        host = fields.get(b"host", b"").decode("latin-1")
        prefetch = is_prefetch(fields)
        return Visit(
            at=at,
            address=address,
            visitor=visitor_of(account, prefix),
            prefix=prefix,
            method=method,
            target=target,
            kind=kind_claimed(kind_of(method, target), fields, prefetch=prefetch),
            account=account,
            host=host,
            user_agent=user_agent,
            referrer=fields.get(b"referer", b"").decode("latin-1"),
            origin=origin_of(fields, host),
            prefetch=prefetch,
            bot=self._bots.verified(address, user_agent) if self._bots else "",
            marker=self.marker(target),
        )

    def marker(self, target: str) -> Marker | None:
        """The marker in *target*, or None where it is not one of our links."""
        if not target.startswith(self._prefix):
            # Some clients escape what needs no escape: `/%7Etoken` is `/~token`.
            if "%" not in target[: 3 * len(self._prefix)]:
                return None
            target = unquote(target)
            if not target.startswith(self._prefix):
                return None
        return self._seal.unseal(target[len(self._prefix) :].partition("?")[0])


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

    def decide(self, visit: Visit) -> Decision:
        """One trip to the state, the judgement, and the block it leads to, if any."""
        return self._judge(visit, self.state.recall(self.engine.question(visit)))

    def correct(self, visit: Visit, kind: Kind) -> tuple[Visit, Decision]:
        """
        The visit as the *kind* that it turned out to be when its answer was seen, and the decision on that.

        Decided anew, because a crawler that claims images alone would never be asked how many pages it had. The ledger
        gets this visit and this decision, and so a replay, which knows the answer from the start, decides the same.
        """
        corrected = msgspec.structs.replace(visit, kind=kind)
        return corrected, self._judge(corrected, self.state.recount(self.engine.question(corrected), visit.kind))

    def _judge(self, visit: Visit, memory: Memory) -> Decision:
        decision, block = self.engine.judge(visit, memory)
        if block is not None:
            self.state.commit(block)
            if memory.block is None:
                self.blocked += 1
                log.info("blocked %s: %s", ascii(block.key), ascii(block.evidence.text))
        return decision

    def record(self, visit: Visit, decision: Decision, status: int, reference: str = "") -> None:
        """Write the visit down. Never waits."""
        self.ledger.append(Entry(visit, decision, status, reference))
