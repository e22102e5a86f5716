"""*Lists*: the white and the black list, with changes."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
from msgspec import Meta

from hedgerow.lists.exporter import fields_of
from hedgerow.lists.model import Listing, ListName, clean_text, parse_subject
from hedgerow.lists.sql_store import ListFilter, ListStore
from hedgerow.lists.times import iso, parse_duration
from hedgerow.web.dashboard.page import Action, Context, Done, Page, Problem
from hedgerow.web.dashboard.resource_types import MAX_IMPORT, MAX_IMPORT_BYTES
from hedgerow.web.dashboard.tables import Column, TablePage, TableParameters, check_sort

_COLUMNS = (
    Column("list", "List"),
    Column("subject", "Subject"),
    Column("reason", "Reason"),
    Column("author", "Author"),
    Column("since", "Since"),
    Column("until", "Until"),
)


class ListEntry(msgspec.Struct, frozen=True):
    """An entry of a list, with times in ISO 8601. Without *until* it has no end."""

    list: str
    subject: str
    reason: str
    author: str
    since: str | None
    until: str | None


_Time = Annotated[float, Meta(ge=0, le=253_402_300_799, description="In seconds since 1970.")]
_Subject = Annotated[
    str, Meta(min_length=1, max_length=500, description="An address, a network, AS64496, account:NAME, ...")
]
_Text = Annotated[str, Meta(max_length=500)]


class AddEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    A new entry. *duration* is like `30m`, `12h` or `7d`; empty: for good, or until *until*. Without an *author* it is
    who asks.
    """

    list: ListName
    subject: _Subject
    reason: _Text = ""
    duration: Annotated[str, Meta(max_length=20, extra_json_schema={"pattern": "^([1-9][0-9]{0,5}[smhd])?$"})] = ""
    author: _Text | None = None
    until: _Time = 0.0


class RemoveEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    list: ListName
    subject: _Subject


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry as it is stored. Without an end *until* is 0."""

    list: ListName
    subject: _Subject
    reason: _Text = ""
    author: _Text = ""
    since: _Time = 0.0
    until: _Time = 0.0

    def listing(self, now: float) -> Listing:
        """Return it in the form in which stores have entries. ValueError if the subject is none."""
        subject = parse_subject(self.subject).text
        texts = clean_text(self.reason), clean_text(self.author)
        return Listing(self.list, subject, *texts, self.since or now, self.until)


class ImportEntries(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    Entries to add or to replace, all or none. Others of the author *replacing* are removed. *source* is for the audit
    log.
    """

    entries: Annotated[list[Entry], Meta(max_length=MAX_IMPORT)]
    replacing: _Text = ""
    source: _Text = ""


def store_of(context: Context) -> ListStore:
    """Return the store of the lists. Raises `Problem` if they are switched off."""
    if context.site.follower is None:
        raise Problem(404, "Lists are switched off.")
    return context.site.follower.store


def query(context: Context, parameters: TableParameters) -> TablePage[ListEntry]:
    check_sort(parameters, _COLUMNS)
    rows, total = store_of(context).search(
        parameters.filter, context.now, sort=parameters.column or "list", descending=parameters.descending,
        limit=parameters.limit, offset=parameters.offset,
    )  # fmt: skip
    return TablePage([ListEntry(**fields_of(row)) for row in rows], total, parameters.page, parameters.size)  # type: ignore[arg-type]


def add(context: Context, request: AddEntry) -> Done:
    subject = parse_subject(request.subject).text
    now = time.time()
    until = now + parse_duration(request.duration) if request.duration else request.until
    author = context.user.name if request.author is None else request.author
    entry = Listing(request.list, subject, clean_text(request.reason), clean_text(author), now, until)
    if not store_of(context).add(entry):
        raise Problem(409, f"{subject} is on the {request.list} list already.")
    _apply(context)
    return Done(f"{subject} is on the {request.list} list {_end(until, request.duration)}.", subject)


def _end(until: float, duration: str = "") -> str:
    if duration:
        return f"for {duration}"
    return f"until {iso(float(int(until)))}" if until else "for good"


def change(context: Context, request: Entry) -> Done:
    entry, store = request.listing(time.time()), store_of(context)
    if not any(store.read(ListFilter(list=entry.list, subject=entry.subject, limit=1))):
        raise Problem(404, f"{entry.subject} is not on the {entry.list} list.")
    store.put([entry])
    _apply(context)
    return Done(f"{entry.subject} is on the {entry.list} list {_end(entry.until)}.", entry.subject)


def import_entries(context: Context, request: ImportEntries) -> Done:
    now = time.time()
    count = store_of(context).put([entry.listing(now) for entry in request.entries], replacing=request.replacing)
    _apply(context)
    return Done(f"{count:,} entries are imported.", clean_text(request.source))


def remove(context: Context, request: RemoveEntry) -> Done:
    subject = parse_subject(request.subject).text
    if not store_of(context).remove(request.list, subject):
        raise Problem(404, f"{subject} is not on the {request.list} list.")
    _apply(context)
    return Done(f"{subject} is no longer on the {request.list} list.", subject)


def _apply(context: Context) -> None:
    """A change must be in force when its response is sent."""
    if context.site.follower is not None:
        context.site.follower.refresh()


PAGE = Page(
    name="lists",
    title="Lists",
    summary="Entries of the white and the black list that are in force.",
    query=query,
    result=TablePage[ListEntry],
    parameters=TableParameters,
    columns=_COLUMNS,
    actions=(
        Action("add", "Put a subject on a list.", AddEntry, add),
        Action("change", "Replace an entry of a list.", Entry, change),
        Action(
            "import",
            "Put many entries on the lists, all or none.",
            ImportEntries,
            import_entries,
            max_body=MAX_IMPORT_BYTES,
        ),
        Action("remove", "Take a subject off a list.", RemoveEntry, remove),
    ),
)
