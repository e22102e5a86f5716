"""What the command line asks the ledger of a site, in SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hedgerow.errors import StoreError
from hedgerow.ledger.labels import labels_path
from hedgerow.ledger.reader import LedgerReader, is_url, open_ledger_reader
from hedgerow.settings import Settings
from hedgerow.web.paths import ledger_path


def ledger_of(settings: Settings) -> str:
    """Where the ledger of a site is: an address, or the name of a file."""
    return settings.ledger.url or str(ledger_path(settings))


def open_ledger(settings: Settings) -> LedgerReader:
    """The ledger of a site; StoreError where there is none."""
    if not has_ledger(settings):
        raise StoreError(f"there is no ledger at {ledger_path(settings)}; name the settings of the site with --config")
    return open_ledger_reader(ledger_of(settings))


def has_ledger(settings: Settings) -> bool:
    """Whether there is one already. Where it is in PostgreSQL, that is found out when it is opened."""
    return bool(settings.ledger.url) or ledger_path(settings).is_file()


def find_reference(settings: Settings, reference: str, columns: Sequence[str]) -> Sequence[Any]:
    """These columns of the visit that was given *reference*; StoreError where there is none."""
    with closing(open_ledger(settings)) as ledger:
        row = ledger.find(reference, columns)
        if row is None:
            raise StoreError(f"the ledger {ledger.name} does not know the reference {reference}")
    return row


def count_visits(settings: Settings, visitor: str) -> int:
    """How many pages the visitor was given, as far as the ledger goes back."""
    if not has_ledger(settings):
        return 0
    with closing(open_ledger(settings)) as ledger:
        return ledger.count_pages(visitor)


def labels_of(settings: Settings, ledger: str) -> Path:
    """Where `hedgerow crawl` writes which visits of *ledger* are its own: beside it, or in the site's directory."""
    return labels_path(ledger_path(settings) if is_url(ledger) else Path(ledger))
