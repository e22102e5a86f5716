"""Access to the ledger of a site, in SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from hedgerow.core.address import parse_address
from hedgerow.core.decision import Evidence
from hedgerow.core.ledger import POSTGRESQL_SCHEMES
from hedgerow.errors import StoreError
from hedgerow.ledger.labels import labels_path
from hedgerow.ledger.reader import LedgerReader, open_ledger_reader
from hedgerow.logs.formats import readable
from hedgerow.settings import Settings
from hedgerow.web.paths import ledger_path
from hedgerow.web.stores import build_hide


class StoredDecision(msgspec.Struct, frozen=True):
    """A visit in the ledger, and what was decided. The fields are columns of the ledger."""

    at: float
    visitor: str
    address: str
    method: str
    host: str
    target: str
    user_agent: str
    action: str
    observed: bool
    status: int
    evidence: list[Evidence]

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> StoredDecision:
        """Return the decision in a row with these columns."""
        *values, evidence = row
        try:
            found = msgspec.json.decode(evidence, type=list[Evidence])
        except msgspec.MsgspecError as error:
            raise StoreError(f"cannot read the evidence of a visit in the ledger: {error}") from None
        named = dict(zip(cls.__struct_fields__, [*values, found], strict=True))
        return cls(**{**named, "observed": bool(named["observed"])})


def ledger_of(settings: Settings) -> str:
    """Return the ledger of a site: a PostgreSQL URL or the name of a file."""
    return settings.ledger.url or str(ledger_path(settings))


def open_ledger(settings: Settings) -> LedgerReader:
    """Open the ledger of a site. Raises StoreError if there is none."""
    if not has_ledger(settings):
        raise StoreError(f"there is no ledger at {ledger_path(settings)}; name the settings of the site with --config")
    return open_ledger_reader(ledger_of(settings))


def has_ledger(settings: Settings) -> bool:
    """Return whether there is a ledger. A ledger in PostgreSQL is assumed to exist."""
    return bool(settings.ledger.url) or ledger_path(settings).is_file()


def find_reference(settings: Settings, reference: str, columns: Sequence[str]) -> Sequence[Any]:
    """Return *columns* of the visit with *reference*. Raises StoreError if there is none."""
    with closing(open_ledger(settings)) as ledger:
        row = ledger.find(reference, columns)
        if row is None:
            raise StoreError(f"the reference {reference} is not in the ledger {ledger.name}")
    return row


def find_stopped(settings: Settings, visitor: str, columns: Sequence[str]) -> Sequence[Any]:
    """Return *columns* of the last visit of *visitor* that did not pass. Raises StoreError if there is none."""
    with closing(open_ledger(settings)) as ledger:
        row = ledger.find_stopped(stored_key(settings, visitor), columns)
        if row is None:
            raise StoreError(f"all visits of {readable(visitor)} in the ledger {ledger.name} passed")
    return row


def count_visits(settings: Settings, visitor: str) -> int:
    """Return the number of pages that the visitor received, as far as the ledger goes back."""
    if not has_ledger(settings):
        return 0
    with closing(open_ledger(settings)) as ledger:
        return ledger.count_pages(stored_key(settings, visitor))


def stored_key(settings: Settings, key: str) -> str:
    """Return the key of a visitor as the ledger stores it now."""
    hide = build_hide(settings)
    return key if hide is None else hide(key)


def keys_stored_as(settings: Settings, stored: str, known: Callable[[], Iterable[str]]) -> list[str]:
    """
    Return the keys of the visitors that the ledger stores as *stored*: several if it has truncated their addresses.

    *known* returns the keys with a block or a score. If none of them is meant, the name in the ledger is returned.
    """
    hide = build_hide(settings)
    if hide is None or parse_address(stored.partition("/")[0]) is None:
        return [stored]
    return sorted(key for key in known() if hide(key) == stored) or [stored]


def labels_of(settings: Settings, ledger: str) -> Path:
    """Return the file in which `hedgerow crawl` labels its visits in *ledger*."""
    return labels_path(ledger_path(settings) if ledger.startswith(POSTGRESQL_SCHEMES) else Path(ledger))
