"""The lists of a site, for commands: in the running service, or in its database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import chain, islice
from typing import NamedTuple, Protocol

import msgspec

from hedgerow.cli.running_service import RunningService, connect_service
from hedgerow.errors import HedgerowError
from hedgerow.lists.model import Listing, ListName
from hedgerow.lists.sql_store import ListFilter
from hedgerow.lists.times import iso
from hedgerow.settings import Settings
from hedgerow.web.audit import audit_command
from hedgerow.web.dashboard.resource_types import MAX_IMPORT, MAX_IMPORT_BYTES
from hedgerow.web.stores import build_list_store
from hedgerow.web.subscriptions import Reading, read_readings


class ImportSource(NamedTuple):
    """Where entries come from, for the audit log, and the list for those that name none."""

    file: str
    name: ListName


class SiteLists(Protocol):
    """Reads and changes the lists. Each change is in the audit log."""

    def read(self, wanted: ListFilter) -> Iterator[Listing]:
        """Yield entries in the order of list and subject."""

    def add(self, entry: Listing) -> bool:
        """Add an entry. Return false if the subject is on the list."""

    def change(self, entry: Listing) -> None:
        """Replace an entry."""

    def remove(self, name: ListName, subject: str) -> bool:
        """Remove an entry. Return false if there is none."""

    def import_entries(self, entries: Iterable[Listing], source: ImportSource, *, replacing: str) -> int:
        """
        Add or replace all entries, or none if the iterable raises, and remove others of the author *replacing*.

        Return how many there were.
        """

    def readings(self) -> Mapping[str, Reading]:
        """Return what is known of each subscription, by name."""


@contextmanager
def open_lists(settings: Settings, site: str = "") -> Iterator[SiteLists]:
    """Open the lists; *site* is the name of one of several sites. The running service is asked if it can be."""
    connected = connect_service(settings, site) if settings.lists.enabled else None
    if connected is None:
        yield _StoredLists(settings)
        return
    with closing(connected[0]) as service:
        yield _ListsOfService(service, settings)


def until_words(end: float) -> str:
    return f"until {format_moment(end)} UTC" if end else "for good"


def format_moment(at: float) -> str:
    return iso(float(int(at))).replace("T", " ").removesuffix("Z")


class _StoredLists:
    """The lists in their database."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = build_list_store(settings)
        self.read = self._store.read

    def add(self, entry: Listing) -> bool:
        is_new = self._store.add(entry)
        if is_new:
            self._audit("lists.add", entry.subject, f"{entry.list} {until_words(entry.until)}")
        return is_new

    def change(self, entry: Listing) -> None:
        self._store.put([entry])
        self._audit("lists.change", entry.subject, f"{entry.list} {until_words(entry.until)}")

    def remove(self, name: ListName, subject: str) -> bool:
        was_there = self._store.remove(name, subject)
        if was_there:
            self._audit("lists.remove", subject, name)
        return was_there

    def import_entries(self, entries: Iterable[Listing], source: ImportSource, *, replacing: str) -> int:
        count = self._store.put(entries, replacing=replacing)
        self._audit("lists.import", source.file, f"{count:,} entries for the {source.name} list")
        return count

    def readings(self) -> Mapping[str, Reading]:
        return read_readings(self._settings)

    def _audit(self, change: str, subject: str, details: str) -> None:
        audit_command(self._settings, change, subject, details)


class _ListsOfService:
    """The lists as the running service has them. It makes the entries of the audit log."""

    def __init__(self, service: RunningService, settings: Settings) -> None:
        self._service = service
        self._settings = settings
        self.read = service.entries

    def add(self, entry: Listing) -> bool:
        fields = msgspec.to_builtins(entry)
        del fields["since"]
        return self._service.add_entry(fields)

    def change(self, entry: Listing) -> None:
        if not self._service.change("lists/change", entry):
            raise HedgerowError(f"{entry.subject} is not on the {entry.list} list any more")

    def remove(self, name: ListName, subject: str) -> bool:
        return self._service.change("lists/remove", {"list": name, "subject": subject})

    def import_entries(self, entries: Iterable[Listing], source: ImportSource, *, replacing: str) -> int:
        rest = iter(entries)
        first = list(islice(rest, MAX_IMPORT + 1))
        fields = {"entries": first, "replacing": replacing, "source": source.file}
        if len(first) > MAX_IMPORT or len(msgspec.json.encode(fields)) > MAX_IMPORT_BYTES:
            # This takes seconds, which are not to be those of the process that answers visitors.
            return _StoredLists(self._settings).import_entries(chain(first, rest), source, replacing=replacing)
        if not self._service.change("lists/import", fields):
            raise HedgerowError("the service has not imported the entries")
        return len(first)

    def readings(self) -> Mapping[str, Reading]:
        return self._service.read("/api/v1/list-subscriptions", dict[str, dict[str, Reading]])["readings"]
