"""*Lists*: the white and the black list, with changes."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
from msgspec import Meta

from hedgerow.lists.exporter import fields_of
from hedgerow.lists.model import Listing, ListName, clean_text, parse_subject
from hedgerow.lists.sql_store import ListStore
from hedgerow.lists.times import parse_duration
from hedgerow.web.dashboard.page import Action, Context, Done, Page, Problem
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


class AddEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new entry. *duration* is like `30m`, `12h` or `7d`; empty: for good."""

    list: ListName
    subject: Annotated[
        str, Meta(min_length=1, max_length=500, description="An address, a network, AS64496, account:NAME, ...")
    ]
    reason: Annotated[str, Meta(max_length=500)] = ""
    duration: Annotated[str, Meta(max_length=20, extra_json_schema={"pattern": "^([1-9][0-9]{0,5}[smhd])?$"})] = ""


class RemoveEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    list: ListName
    subject: Annotated[str, Meta(min_length=1, max_length=500)]


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
    until = now + parse_duration(request.duration) if request.duration else 0.0
    entry = Listing(request.list, subject, clean_text(request.reason), clean_text(context.user.name), now, until)
    if not store_of(context).add(entry):
        raise Problem(409, f"{subject} is on the {request.list} list already.")
    _apply(context)
    return Done(f"{subject} is on the {request.list} list{f' for {request.duration}' if until else ''}.", subject)


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
        Action("remove", "Take a subject off a list.", RemoveEntry, remove),
    ),
)
