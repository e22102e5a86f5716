"""
The lists on the admin listener: create, read, update, delete, import and export, as JSON.

    GET    /lists                      entries; ?list= of= subject= author= reason= ended=1 limit= after=
    POST   /lists                      a new one: {"list", "subject", "reason", "author", "until" or "for"}
    GET    /lists/black/192.0.2.0/24   one entry; PUT makes or replaces it, PATCH changes it, DELETE removes it
    POST   /lists/import               a file as the body; ?list= format= author= reason= until= for= skip_bad= replace=
    GET    /lists/export/nginx-deny    a file; ?list=

A form of another site cannot change anything: the content type must be one that forms cannot send, and browsers send
such a request to another site only with its permission, which is never given. SQL runs in threads, so that no other
request waits for it.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from typing import IO, Any
from urllib.parse import parse_qsl

import msgspec

from hedgerow.errors import HedgerowError, StoreError
from hedgerow.lists.exporter import TARGETS, fields_of, write
from hedgerow.lists.importer import FORMATS, Defaults, ListImport
from hedgerow.lists.model import LISTS, SUBJECT_KINDS, Listing, ListName, clean_text, parse_subject
from hedgerow.lists.sql_store import ListFilter, ListStore
from hedgerow.lists.times import parse_duration, parse_time
from hedgerow.web.app import Site
from hedgerow.web.asgi_types import Message, Receive, Scope
from hedgerow.web.response_headers import header

JSON = b"application/json"
Answer = tuple[int, bytes, bytes | IO[bytes]]

# Forms cannot send any of these.
_TYPES = frozenset({b"application/json", b"application/x-ndjson", b"text/csv", b"application/octet-stream"})
_MAX_BODY = 64_000_000
_MAX_CHANGE = 1_000_000
_MAX_ENTRIES = 1000
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_KINDS = {"csv": b"text/csv; charset=utf-8", "json": JSON}


class _EntryChange(msgspec.Struct, forbid_unknown_fields=True):
    """A sent entry, or the changes of one. *until* is a time, or null for good; *for_* a duration such as `7d`."""

    list: ListName | None = None
    subject: str | None = None
    reason: str | None = None
    author: str | None = None
    until: str | float | msgspec.UnsetType | None = msgspec.UNSET
    for_: str | None = msgspec.field(default=None, name="for")

    def end(self, now: float, otherwise: float) -> float:
        if self.for_ is not None:
            return now + parse_duration(self.for_)
        return otherwise if self.until is msgspec.UNSET else parse_time(self.until)


class _Problem(Exception):  # noqa: N818 - the client's mistake, not a fault of ours
    """A response that says what is wrong."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ListsApi:
    """Reads and changes a site's lists."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def answer(self, scope: Scope, receive: Receive) -> Answer:
        """Return the response to a request for /lists or below."""
        try:
            self._check(scope)
            # On disk, because it may be large.
            with tempfile.TemporaryFile() as body:
                if scope["method"] in _WITH_BODY:
                    await _read_body(receive, body)
                return await asyncio.to_thread(self._act, scope, body)
        except (HedgerowError, ValueError, _Problem) as error:
            status = error.status if isinstance(error, _Problem) else 503 if isinstance(error, StoreError) else 400
            return _json(status, {"error": str(error)})

    @staticmethod
    def _check(scope: Scope) -> None:
        if scope["method"] in _WITH_BODY:
            kind = header(scope["headers"], b"content-type").partition(b";")[0].strip().lower()
            if kind not in _TYPES:
                raise _Problem(415, f"Send one of {b', '.join(sorted(_TYPES)).decode()}.")

    def _act(self, scope: Scope, body: IO[bytes]) -> Answer:
        """Carry out a request. Runs in a thread."""
        follower = self._site.follower
        if follower is None:
            raise _Problem(404, "Lists are switched off.")
        store, method = follower.store, scope["method"]
        options = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))
        parts = scope["path"].removeprefix("/lists").removeprefix("/").split("/", 1)
        match parts:
            case [""] if method in {"GET", "HEAD"}:
                return self._show(store, options)
            case [""] if method == "POST":
                answer = self._create(store, _read_change(body))
            case ["import"] if method == "POST":
                return self._import(store, body, options)
            case ["export", target] if method in {"GET", "HEAD"}:
                return self._export(store, target, options)
            case ["white" | "black" as name, subject] if subject:
                answer = self._one(store, method, name, parse_subject(subject).text, body)
            case [""] | ["import"] | ["export", _]:
                raise _Problem(405, "Not in this way.")
            case _:
                raise _Problem(404, "There are /lists, /lists/white/..., /lists/black/..., import and export.")
        # A change must be in force when its response is sent.
        follower.refresh()
        return answer

    def _show(self, store: ListStore, options: dict[str, str]) -> Answer:
        limit = max(1, min(int(options.get("limit", 100)), _MAX_ENTRIES))
        name, _, subject = options.get("after", "").partition("/")
        wanted = ListFilter(
            list=_choice(options, "list", LISTS),
            kind=_choice(options, "of", SUBJECT_KINDS),
            address=parse_subject(options["subject"]).text if options.get("subject") else "",
            author=options.get("author", ""),
            text=options.get("reason", ""),
            in_force_at=None if options.get("ended") else time.time(),
            after=(name, subject) if subject else None,
            limit=limit + 1,
        )
        found = list(store.read(wanted))
        more = f"{found[limit - 1].list}/{found[limit - 1].subject}" if len(found) > limit else None
        return _json(200, {"entries": [fields_of(entry) for entry in found[:limit]], "next": more})

    def _create(self, store: ListStore, change: _EntryChange) -> Answer:
        if change.list is None or change.subject is None:
            raise _Problem(400, "Name the list and the subject.")
        entry = self._entry(change, change.list, parse_subject(change.subject).text)
        if not store.add(entry):
            raise _Problem(409, f"{entry.subject} is on the {entry.list} list already.")
        return _json(201, fields_of(entry))

    def _one(self, store: ListStore, method: str, name: ListName, subject: str, body: IO[bytes]) -> Answer:
        if method == "PUT":
            entry = self._entry(_read_change(body), name, subject)
            store.put([entry])
            return _json(200, fields_of(entry))
        if method == "DELETE":
            if not store.remove(name, subject):
                raise _Problem(404, f"{subject} is not on the {name} list.")
            return 204, JSON, b""
        if method not in {"GET", "HEAD", "PATCH"}:
            raise _Problem(405, "GET, PUT, PATCH or DELETE.")
        found = next(iter(store.read(ListFilter(list=name, subject=subject))), None)
        if found is None:
            raise _Problem(404, f"{subject} is not on the {name} list.")
        if method == "PATCH":
            change = _read_change(body)
            found = msgspec.structs.replace(
                found,
                reason=found.reason if change.reason is None else clean_text(change.reason),
                author=found.author if change.author is None else clean_text(change.author),
                until=change.end(time.time(), found.until),
            )
            store.put([found])
        return _json(200, fields_of(found))

    def _entry(self, change: _EntryChange, name: ListName, subject: str) -> Listing:
        now = time.time()
        return Listing(
            name, subject, clean_text(change.reason or ""), clean_text(change.author or ""), now, change.end(now, 0.0)
        )

    def _import(self, store: ListStore, body: IO[bytes], options: dict[str, str]) -> Answer:
        now, author, reason = time.time(), clean_text(options.get("author", "")), clean_text(options.get("reason", ""))
        until = _EntryChange(until=options.get("until"), for_=options.get("for") or None).end(now, 0.0)
        defaults = Defaults(now, _choice(options, "list", LISTS) or "black", reason, author, until)
        if options.get("replace") and not author:
            raise _Problem(400, "To replace what an author entered, name the author.")
        with open(body.fileno(), "rb", closefd=False) as source:
            reading = ListImport(
                source, "body", defaults,
                format=_choice(options, "format", FORMATS), skip_bad=bool(options.get("skip_bad")),
            )  # fmt: skip
            taken = store.put(reading, replacing=author if options.get("replace") else "")
        faults = msgspec.to_builtins(reading.faults)
        result = {"imported": taken, "format": reading.format, "bad": reading.bad, "faults": faults}
        return _json(200, {**result, "left_out": dict(reading.left_out)})

    def _export(self, store: ListStore, target: str, options: dict[str, str]) -> Answer:
        chosen = next((each for each in TARGETS if each == target), None)
        if chosen is None:
            raise _Problem(404, f"There are {', '.join(TARGETS)}.")
        now = time.time()
        name: ListName | None = _choice(options, "list", LISTS) or ("black" if chosen == "plain" else None)
        out = tempfile.TemporaryFile()  # noqa: SIM115 - closed after it is sent
        for piece in write(chosen, store.read(ListFilter(list=name, in_force_at=now)), at=now):
            out.write(piece.encode())
        out.seek(0)
        return 200, _KINDS.get(target, b"text/plain; charset=utf-8"), out


async def _read_body(receive: Receive, body: IO[bytes]) -> None:
    message: Message = {"more_body": True}
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Problem(400, "The body has no end.")
        piece = message.get("body", b"")
        if body.tell() + len(piece) > _MAX_BODY:
            raise _Problem(413, f"At most {_MAX_BODY:,} bytes; more with hedgerow lists import.")
        body.write(piece)
    body.seek(0)


def _read_change(body: IO[bytes]) -> _EntryChange:
    return msgspec.json.decode(body.read(_MAX_CHANGE), type=_EntryChange)


def _choice(options: dict[str, str], name: str, choices: tuple[Any, ...]) -> Any:
    value = options.get(name)
    if value and value not in choices:
        raise _Problem(400, f"{name} is one of {', '.join(choices)}.")
    return value or None


def _json(status: int, value: object) -> Answer:
    return status, JSON, msgspec.json.encode(value)
