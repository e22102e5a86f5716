"""What a page of the dashboard consists of: a query, a template, and changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hedgerow.ledger.reader import LedgerReader
from hedgerow.settings import Settings
from hedgerow.web.admin.access import User
from hedgerow.web.app import Site
from hedgerow.web.audit import AuditLog
from hedgerow.web.dashboard.jobs import Jobs
from hedgerow.web.dashboard.snapshot import Snapshot, Snapshots, StoredState
from hedgerow.web.dashboard.tables import Column
from hedgerow.web.ledger_access import has_ledger, open_ledger
from hedgerow.web.siblings import read_all


class Problem(Exception):  # noqa: N818 - the client's mistake, not a fault of ours
    """A response that says what is wrong."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


Duration = Annotated[
    str,
    Meta(
        max_length=20, description="Such as 30m, 12h or 7d.",
        extra_json_schema={"pattern": "^[1-9][0-9]{0,5}[smhd]$"},
    ),
]  # fmt: skip
"""How long a change lasts. More forms are understood than the pattern names."""


class Empty(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of a page that has none."""


class Done(msgspec.Struct, frozen=True):
    """What a change did, in a sentence; whom it was about; and the page that shows it."""

    message: str
    subject: str = ""
    location: str = ""


@dataclass(frozen=True)
class Context:
    """
    What queries and changes see. *problems* are the parts that do not work: see `Health.problems`.

    If there are several sites, *sites* are their names, *site_name* is this one's, and *root* comes before its paths.
    """

    site: Site
    user: User
    now: float
    audit: AuditLog
    problems: Mapping[str, str] = field(default_factory=dict)
    jobs: Jobs = field(default_factory=Jobs)
    snapshots: Snapshots | None = None
    root: str = ""
    sites: Sequence[str] = ()
    site_name: str = ""

    @property
    def settings(self) -> Settings:
        return self.site.app.settings

    @property
    def snapshot(self) -> Snapshot:
        """What the state knows about all visitors, perhaps some seconds ago."""
        return self._snapshots.get(self.now)

    def stored_state(self, seconds: float) -> StoredState | None:
        """Return the same as it is stored, for programs that read all of it; None if that takes longer."""
        return self._snapshots.stored(self.now, seconds)

    @property
    def _snapshots(self) -> Snapshots:
        return self.snapshots or Snapshots(partial(read_all, self.site))

    @property
    def has_ledger(self) -> bool:
        return self.settings.ledger.enabled and has_ledger(self.settings)

    def ledger(self) -> AbstractContextManager[LedgerReader]:
        """Open the ledger. Raises StoreError if there is none."""
        return closing(open_ledger(self.settings))


@dataclass(frozen=True)
class Action:
    """A change that operators can make. *request* is the type of its fields."""

    name: str
    summary: str
    request: type[msgspec.Struct]
    run: Callable[[Context, Any], Done]
    max_body: int = 100_000
    """Bytes of a request that the API reads."""


@dataclass(frozen=True)
class Page:
    """
    A page, at `/dashboard/NAME` and `/api/v1/NAME`. *name* is also that of its template. One of `resources` has no
    template, and is at `/api/v1/NAME` only.

    *summary* is a sentence for the OpenAPI document. *result* is the type that *query* returns. *columns* are those of
    a table. A page that needs parameters, such as one visitor's, is not *in_navigation*.
    """

    name: str
    title: str
    summary: str
    query: Callable[[Context, Any], Any]
    result: Any
    parameters: type[msgspec.Struct] = Empty
    columns: Sequence[Column] = ()
    actions: Sequence[Action] = ()
    in_navigation: bool = True
    document: Callable[[Context, str], bytes] | None = None
    """
    Returns an HTML document of its own, at `/dashboard/NAME/document/FILE`, and the same of the API. It runs apart from
    the dashboard.
    """
    document_names: str = ""
    """The pattern of the names of documents."""
