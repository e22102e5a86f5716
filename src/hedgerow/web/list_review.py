"""
Entries of the lists are looked at again: what their visitors did on the last day, by the ledger.

Hedgerow makes entries of its own: the black list from `hedgerow report --apply`. They end by themselves, and the
visitor is judged like any other again. An entry that is about to end is renewed if its visitor still requests more
pages a day than people read, although all of them are refused. People give up long before that.

A white entry is the operator's. It is never changed, but a source with more than `white_volume` pages on a day is
treated as unlisted until midnight (see `core.gate`), and `hedgerow lists review` shows it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Literal, NamedTuple

import msgspec

from hedgerow.core.daily_limits import K2
from hedgerow.ledger.reader import LedgerReader, open_ledger_reader
from hedgerow.lists.model import OWN_AUTHOR, Listing, Lists
from hedgerow.lists.sql_store import ListFilter, ListStore
from hedgerow.settings import Settings
from hedgerow.web.paths import ledger_path
from hedgerow.web.stores import build_list_store

log = logging.getLogger(__name__)

DAY = 86_400.0
_LONGEST = 30 * DAY
"""For how long an entry is renewed at most. It can be renewed again."""

Verdict = Literal["renew", "end", "keep", "too much"]
"""What follows for an entry: it is renewed, ends soon, stays as it is, or is above the volume of white entries."""


class ListReview(NamedTuple):
    """An entry, the pages that it decided on during the last day, and what follows."""

    listing: Listing
    pages: int
    verdict: Verdict

    def renewed(self, now: float) -> Listing:
        """Return the entry as it is renewed: for as long as before."""
        until = now + min(self.listing.until - self.listing.since, _LONGEST)
        return msgspec.structs.replace(self.listing, since=now, until=until)


def review(listings: Iterable[Listing], reader: LedgerReader, now: float, *, white_volume: int) -> list[ListReview]:
    """Look at entries that are in force."""
    entries = [listing for listing in listings if listing.in_force(now)]
    lists, pages = Lists(entries), Counter[tuple[str, str]]()
    for address, account, code, count in reader.listed_pages(now - DAY, now):
        match = lists.find(now, address, account)
        if match is not None and code == match[0].code:
            pages[match[0].list, match[1]] += count
    return [ListReview(entry, found := pages[entry.list, entry.subject], _verdict(entry, found, now, white_volume))
            for entry in entries]  # fmt: skip


def _verdict(entry: Listing, pages: int, now: float, white_volume: int) -> Verdict:
    if entry.list == "white":
        # What is above the volume is not decided by the list any more.
        return "too much" if pages >= white_volume else "keep"
    if entry.author != OWN_AUTHOR or not entry.until or entry.until - now > DAY:
        return "keep"
    return "renew" if pages > K2 else "end"


def renew(store: ListStore, reviews: Sequence[ListReview], now: float) -> int:
    """Renew the entries whose visitors still crawl, and return their number."""
    renewed = [one.renewed(now) for one in reviews if one.verdict == "renew"]
    if renewed:
        store.put(renewed)
        log.info("%d entries of the black list are renewed: their visitors still crawl", len(renewed))
    return len(renewed)


def review_own(settings: Settings, now: float) -> int:
    """Look at Hedgerow's own entries, and return how many were renewed."""
    ledger = ledger_path(settings)
    if not settings.lists.enabled or not settings.ledger.enabled or not (settings.ledger.url or ledger.is_file()):
        return 0
    store = build_list_store(settings)
    own = list(store.read(ListFilter(list="black", author=OWN_AUTHOR, in_force_at=now)))
    if not any(entry.until and entry.until - now <= DAY for entry in own):
        return 0
    with closing(open_ledger_reader(settings.ledger.url or str(ledger))) as reader:
        return renew(store, review(own, reader, now, white_volume=settings.containment.white_volume), now)
