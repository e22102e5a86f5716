"""What is stored about visitors besides the ledger: scores, blocks and campaigns, and how a visitor is named."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Annotated, NamedTuple

import msgspec
from typer import Argument

from hedgerow.cli.running_service import RunningService
from hedgerow.core.address import parse_address, prefix_of
from hedgerow.core.decision import Block, Campaign, VisitorScore
from hedgerow.errors import StoreError
from hedgerow.logs.formats import readable
from hedgerow.settings import Settings
from hedgerow.state.sqlite.journal import connect, order, read, read_campaigns
from hedgerow.state.store import StateStore
from hedgerow.watch.session_store import StoredSession, delete_visitor, read_visitor
from hedgerow.web.audit import audit_command
from hedgerow.web.ledger_access import find_reference
from hedgerow.web.paths import state_path
from hedgerow.web.stores import build_hide, import_redis_stores

_REFERENCE = re.compile(r"[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}")
Visitor = Annotated[str, Argument(metavar="VISITOR", help="An address, account:NAME, or a reference like 1A2B-3C4D.")]


class VisitorStore(NamedTuple):
    """
    Scores, blocks and campaigns of visitors.

    `order` blocks a key, or forgives it without a block; false if there was nothing to forgive. `campaigns` returns the
    campaign that was active last at the end. `session` returns what the watch has stored about a visitor, and
    `delete_session` deletes it; false if there was nothing.
    """

    read: Callable[[float], tuple[Sequence[Block], Sequence[tuple[str, VisitorScore]]]]
    order: Callable[[str, Block | None], bool]
    campaigns: Callable[[], Sequence[Campaign]]
    session: Callable[[str], StoredSession | None]
    delete_session: Callable[[str], bool]


def is_in_memory(settings: Settings) -> bool:
    """Return whether blocks and scores are only in the memory of the running service."""
    return not settings.state.url and not settings.state.durable


def audit_visitor_command(settings: Settings, change: str, subject: str, details: str = "") -> None:
    """Add what a command has changed to the audit log, unless the service does that itself."""
    if not is_in_memory(settings):
        audit_command(settings, change, subject, details)


@contextmanager
def open_visitor_stores(settings: Settings, site: str = "") -> Iterator[tuple[VisitorStore, VisitorStore | None]]:
    """
    Open the store of what is enforced, and that of what was found while the site only observed, if there is one.

    *site* is the name of one of several sites.
    """
    if is_in_memory(settings):
        yield _open_running_service(settings, site)
        return
    enforced, observed = (msgspec.structs.replace(settings, observe=observe) for observe in (False, True))
    with ExitStack() as stack:
        store = stack.enter_context(_open_store(enforced))
        has_observed = bool(settings.state.url) or state_path(observed).is_file()
        yield store, stack.enter_context(_open_store(observed)) if has_observed else None


_NOTHING = VisitorStore(lambda _: ((), ()), lambda *_: False, lambda: (), lambda _: None, lambda _: False)


@contextmanager
def _open_store(settings: Settings) -> Iterator[VisitorStore]:
    if settings.state.url:
        # A gate logs a lost connection; a command reports it once, as an error.
        logging.getLogger("hedgerow.state").addHandler(logging.NullHandler())
        with closing(import_redis_stores().build_redis(settings, timeout=5.0)) as state:
            if state.unavailable:
                raise StoreError(f"Redis cannot be reached, see state.url: {state.connect_error}")
            yield VisitorStore(
                lambda at: (state.blocks(at), state.scores()),
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
        functions = (read, order, read_campaigns, read_visitor, delete_visitor)
        yield VisitorStore(*(partial(function, connection) for function in functions))  # type: ignore[arg-type]


def _open_running_service(settings: Settings, site: str) -> tuple[VisitorStore, VisitorStore | None]:
    if not settings.admin.listen:
        raise StoreError(
            "state.durable is off, so blocks and scores are only in the memory of the service; "
            "set listen in [admin], and commands ask it"
        )
    service = RunningService(settings, site)
    known = service.state()
    store = _NOTHING._replace(
        read=lambda _: (known.blocks, known.scores), order=service.order, campaigns=service.campaigns
    )
    return (_NOTHING, store) if known.observing else (store, None)


def _order_in_redis(state: StateStore, key: str, block: Block | None) -> bool:
    if block is not None:
        state.commit(block)
        return True
    forgiven = state.forgive(key)
    if forgiven is None:
        raise StoreError("Redis does not respond, nothing was forgiven; try again")
    return forgiven


def visitor_key(settings: Settings, visitor: str, site: str = "") -> str:
    """Return the key of a visitor: from an address, from a reference in the ledger, or the key itself."""
    if _REFERENCE.fullmatch(visitor):
        return _shown_key(settings, str(find_reference(settings, visitor.upper(), ("visitor",))[0]), site)
    address = parse_address(visitor)
    return prefix_of(address) if address else visitor


def _shown_key(settings: Settings, stored: str, site: str) -> str:
    """Return the key of the visitor that the ledger stores as *stored*: one whose block or score is known."""
    hide = build_hide(settings)
    if hide is None or parse_address(stored.partition("/")[0]) is None:
        return stored
    with open_visitor_stores(settings, site) as stores:
        known = [store.read(time.time()) for store in stores if store is not None]
    keys = {block.key for blocks, _ in known for block in blocks} | {key for _, scores in known for key, _ in scores}
    found = sorted(key for key in keys if hide(key) == stored)
    if len(found) > 1:
        names = readable(", ".join(found))
        raise StoreError(f"the ledger has truncated addresses, and this visit is of one of {names}; name the address")
    return found[0] if found else stored
