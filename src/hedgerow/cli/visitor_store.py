"""What is stored about visitors besides the ledger: scores, blocks and campaigns, and how a visitor is named."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec
from typer import Argument

from hedgerow.challenge.prices import gateway_key
from hedgerow.cli.running_service import RunningService, connect_memory, connect_service, known_of
from hedgerow.core.address import parse_address, prefix_of
from hedgerow.core.decision import Block, Campaign, VisitorScore
from hedgerow.core.state import ACCOUNT, prefix_key
from hedgerow.errors import StoreError
from hedgerow.logs.formats import readable
from hedgerow.settings import Settings
from hedgerow.state.sqlite.journal import connect, order, read, read_campaigns
from hedgerow.state.store import StateStore
from hedgerow.watch.session_store import StoredSession, delete_visitor, read_visitor
from hedgerow.web.audit import audit_command
from hedgerow.web.ledger_access import StoredDecision, count_visits, find_reference, find_stopped, keys_stored_as
from hedgerow.web.paths import state_path
from hedgerow.web.stores import import_redis_stores

_REFERENCE = re.compile(r"[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}")
Visitor = Annotated[str, Argument(metavar="VISITOR", help="An address, account:NAME, or a reference like 1A2B-3C4D.")]


Known = tuple[Sequence[Block], Sequence[tuple[str, VisitorScore]]]
"""Blocks in force, and scores by key."""


class VisitorStore(NamedTuple):
    """
    Scores, blocks and campaigns of visitors, in the service or in its files.

    `about` reads what is known of one visitor, of all at its address, and of people who share it. `order` blocks a key,
    or forgives it without a block; false if there was nothing to forgive. `campaigns` returns the campaign that was
    active last at the end. `session` returns what the watch has stored about a visitor, and `delete_session` deletes
    it; false if there was nothing.
    """

    read: Callable[[float], Known]
    about: Callable[[str, float], Known]
    order: Callable[[str, Block | None], bool]
    campaigns: Callable[[], Sequence[Campaign]]
    session: Callable[[str], StoredSession | None]
    delete_session: Callable[[str], bool]


class VisitorStores:
    """
    The store of what is enforced, and that of what was found while the site only observed, if there is one.

    A *service* has one of them open, and is asked about that one.
    """

    def __init__(
        self, settings: Settings, enforced: VisitorStore, observed: VisitorStore | None, service: RunningService | None
    ) -> None:
        self.enforced, self.observed = enforced, observed
        self._settings, self._service = settings, service

    def __iter__(self) -> Iterator[VisitorStore]:
        return filter(None, (self.enforced, self.observed))

    def key_of(self, visitor: str) -> str:
        """Return the key of a visitor: from an address, from a reference in the ledger, or the key itself."""
        if not _REFERENCE.fullmatch(visitor):
            return plain_key(visitor)
        keys = self._keys_of(visitor.upper())
        if len(keys) > 1:
            names = readable(", ".join(keys))
            raise StoreError(
                f"the ledger has truncated addresses, and this visit is of one of {names}; name the address"
            )
        return keys[0]

    def _keys_of(self, reference: str) -> list[str]:
        if self._service is not None and (found := self._service.decision(reference=reference)) is not None:
            return found.keys
        stored = str(find_reference(self._settings, reference, ("visitor",))[0])
        return keys_stored_as(self._settings, stored, self._known_keys)

    def _known_keys(self) -> set[str]:
        keys = set[str]()
        for blocks, scores in (store.read(time.time()) for store in self):
            keys |= {block.key for block in blocks} | {key for key, _ in scores}
        return keys

    def count_pages(self, key: str) -> int:
        """Return the number of pages that a visitor received, as far as the ledger goes back."""
        if self._service is None:
            return count_visits(self._settings, key)
        return next((row.pages or 0 for row in self._service.about(key).rows if row.key == key), 0)

    def audit(self, change: str, subject: str, details: str = "") -> None:
        """Add a change to the audit log, unless the service has done that."""
        if self._service is None or not self._service.changes:
            audit_command(self._settings, change, subject, details)


def is_in_memory(settings: Settings) -> bool:
    """Return whether blocks and scores are only in the memory of the running service."""
    return not settings.state.url and not settings.state.durable


@contextmanager
def open_visitor_stores(settings: Settings, site: str = "", *, by_files: bool = False) -> Iterator[VisitorStores]:
    """
    Open the stores of visitors; *site* is the name of one of several sites.

    The running service is asked if it can be, except *by_files*: for what the service does not do, such as to forget a
    visitor.
    """
    in_memory = is_in_memory(settings)
    with ExitStack() as stack:
        if in_memory:
            connected: tuple[RunningService, bool] | None = connect_memory(settings, site)
        else:
            connected = None if by_files else connect_service(settings, site)
        found: list[VisitorStore | None] = []
        for observes in (False, True):
            own = msgspec.structs.replace(settings, observe=observes)
            if connected is not None and connected[1] == observes:
                stack.callback(connected[0].close)
                found.append(_store_of_service(connected[0]))
            elif in_memory:
                found.append(None if observes else _NOTHING)
            elif observes and not settings.state.url and not state_path(own).is_file():
                found.append(None)
            else:
                found.append(stack.enter_context(_open_store(own)))
        yield VisitorStores(settings, found[0] or _NOTHING, found[1], connected[0] if connected is not None else None)


_NOTHING = VisitorStore(
    lambda _: ((), ()), lambda *_: ((), ()), lambda *_: False, lambda: (), lambda _: None, lambda _: False
)


def _store_of_service(service: RunningService) -> VisitorStore:
    def about(key: str, _: float) -> Known:
        return known_of(service.about(key).rows)

    return _NOTHING._replace(
        read=lambda _: service.state(), about=about, order=service.order, campaigns=service.campaigns
    )


@contextmanager
def _open_store(settings: Settings) -> Iterator[VisitorStore]:
    if settings.state.url:
        # A gate logs a lost connection; a command reports it once, as an error.
        logging.getLogger("hedgerow.state").addHandler(logging.NullHandler())
        with closing(import_redis_stores().build_redis(settings, timeout=5.0)) as state:
            if state.unavailable:
                raise StoreError(f"Redis cannot be reached, see state.url: {state.connect_error}")

            def read_redis(at: float) -> Known:
                return state.blocks(at), state.scores()

            yield VisitorStore(
                read_redis,
                partial(_about, read_redis),
                partial(_order_in_redis, state),
                lambda: sorted(import_redis_stores().read_campaigns(state), key=lambda campaign: campaign.seen),
                partial(import_redis_stores().read_session, state),
                partial(import_redis_stores().delete_session, state),
            )
        return
    path = state_path(settings)
    if not path.parent.is_dir():
        raise StoreError(f"there is no {path}; name the settings of the site with --config")
    with closing(connect(path)) as connection:
        read_file = partial(read, connection)
        functions = (order, read_campaigns, read_visitor, delete_visitor)
        of_file: Any = [partial(function, connection) for function in functions]
        yield VisitorStore(read_file, partial(_about, read_file), *of_file)


def _about(read_all: Callable[[float], Known], key: str, at: float) -> Known:
    keys = {key, prefix_key(key), gateway_key(key)}
    blocks, scores = read_all(at)
    return [block for block in blocks if block.key in keys], [(one, score) for one, score in scores if one in keys]


def _order_in_redis(state: StateStore, key: str, block: Block | None) -> bool:
    if block is not None:
        state.commit(block)
        return True
    forgiven = state.forgive(key)
    if forgiven is None:
        raise StoreError("Redis does not respond, nothing was forgiven; try again")
    return forgiven


def plain_key(visitor: str) -> str:
    """Return the key of a visitor that is not named by a reference."""
    address = parse_address(visitor)
    return prefix_of(address) if address else visitor


def find_decision(settings: Settings, site: str, reference: str) -> StoredDecision:
    """
    Return the decision with *reference*, or the last one against an address or an account.

    Raises StoreError if there is none.
    """
    is_visitor = parse_address(reference) is not None or reference.startswith(ACCOUNT)
    key = plain_key(reference) if is_visitor else reference.upper()
    if (connected := connect_service(settings, site)) is not None:
        with closing(connected[0]) as service:
            found = service.decision(visitor=key) if is_visitor else service.decision(reference=key)
        if found is not None:
            return found.decision
    find = find_stopped if is_visitor else find_reference
    return StoredDecision.of_row(find(settings, key, StoredDecision.__struct_fields__))
