"""`list-entries` and `list-subscriptions`: entries, one part after another, and when the lists of others were read."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hedgerow.lists.model import ListName, SubjectKind, parse_subject
from hedgerow.lists.sql_store import ListFilter
from hedgerow.web.dashboard.page import Context, Empty, Page
from hedgerow.web.dashboard.pages.lists import store_of
from hedgerow.web.dashboard.resource_types import Entries
from hedgerow.web.subscriptions import Reading, read_readings

_MAX_ENTRIES = 1000
_Text = Annotated[str, Meta(max_length=500)]


class EntriesParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which entries. *address* finds those that contain it, *text* those with this text in their reason."""

    list: ListName | None = None
    kind: SubjectKind | None = None
    subject: _Text = ""
    address: _Text = ""
    author: _Text = ""
    text: _Text = ""
    ended: Annotated[bool, Meta(description="Also those that have ended.")] = False
    after: Annotated[str, Meta(max_length=600, description="The entry after which to continue: that in `next`.")] = ""
    size: Annotated[int, Meta(ge=1, le=_MAX_ENTRIES)] = 100


def query(context: Context, parameters: EntriesParameters) -> Entries:
    name, _, subject = parameters.after.partition("/")
    wanted = ListFilter(
        list=parameters.list, kind=parameters.kind, subject=parameters.subject,
        address=parse_subject(parameters.address).text if parameters.address else "", author=parameters.author,
        text=parameters.text, in_force_at=None if parameters.ended else context.now,
        after=(name, subject) if subject else None, limit=parameters.size + 1,
    )  # fmt: skip
    found = list(store_of(context).read(wanted))
    more, found = len(found) > parameters.size, found[: parameters.size]
    return Entries(found, f"{found[-1].list}/{found[-1].subject}" if more else None)


ENTRIES = Page(
    name="list-entries",
    title="List entries",
    summary="Entries of the lists, in the order of list and subject, one part after another.",
    query=query,
    result=Entries,
    parameters=EntriesParameters,
    in_navigation=False,
)


class Subscriptions(msgspec.Struct, frozen=True):
    """What is known of each subscription, by name."""

    readings: dict[str, Reading]


def query_subscriptions(context: Context, _: Empty) -> Subscriptions:
    return Subscriptions(read_readings(context.settings))


SUBSCRIPTIONS = Page(
    name="list-subscriptions",
    title="List subscriptions",
    summary="When the lists of others were read that the settings subscribe to, and how that ended.",
    query=query_subscriptions,
    result=Subscriptions,
    in_navigation=False,
)
