"""
The lists on the admin listener: create, read, update, delete, import and export, as JSON.

    GET    /lists                      entries; ?list= of= subject= author= reason= ended=1 limit= after=
    POST   /lists                      a new one: {"list", "subject", "reason", "author", "until" or "for"}
    GET    /lists/black/192.0.2.0/24   one entry; PUT makes or replaces it, PATCH changes it, DELETE removes it
    POST   /lists/import               a file as the body; ?list= format= author= reason= until= for= skip_bad= replace=
    GET    /lists/export/nginx-deny    a file; ?list=

No form of another site can send what changes something: it must be a type of content that forms do not have, which a
browser sends elsewhere only after asking, and nobody here says yes. SQL is done in threads: no request waits for it.
"""

from __future__ import annotations

import asyncio
import hmac
import tempfile
import time
from collections.abc import Callable
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

# None of those that a form can send.
_TYPES = frozenset({b"application/json", b"application/x-ndjson", b"text/csv", b"application/octet-stream"})
_LARGEST = 64_000_000
_SMALL = 1_000_000
_MOST_SHOWN = 1000
_KINDS = {"csv": b"text/csv; charset=utf-8", "json": JSON}


class _Said(msgspec.Struct, forbid_unknown_fields=True):
    """An entry, or a change of one, as it is sent to us. *until*: a moment, or null for good; *for_* as in `7d`."""

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


class _Problem(Exception):  # noqa: N818 - an answer, not a fault of ours
    """What is answered instead."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ListsApi:
    """Answers for a site's lists."""

    def __init__(self, site: Site, clock: Callable[[], float] = time.time) -> None:
        self._site = site
        self._clock = clock

    async def answer(self, scope: Scope, receive: Receive) -> Answer:
        """The answer to a request for /lists or what is below it."""
        try:
            self._check(scope)
            body = await _body(receive) if scope["method"] in {"POST", "PUT", "PATCH"} else None
            try:
                return await asyncio.to_thread(self._act, scope, body)
            finally:
                if body is not None:
                    body.close()
        except _Problem as problem:
            return problem.status, JSON, msgspec.json.encode({"error": str(problem)})
        except StoreError as error:
            return 503, JSON, msgspec.json.encode({"error": str(error)})
        except (HedgerowError, ValueError) as error:
            return 400, JSON, msgspec.json.encode({"error": str(error)})

    def _check(self, scope: Scope) -> None:
        token = self._site.app.settings.admin.token.encode()
        if token:
            scheme, _, shown = header(scope["headers"], b"authorization").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(shown.strip(), token):
                raise _Problem(401, "Send the token of the settings: Authorization: Bearer TOKEN.")
        if scope["method"] in {"POST", "PUT", "PATCH"}:
            kind = header(scope["headers"], b"content-type").partition(b";")[0].strip().lower()
            if kind not in _TYPES:
                raise _Problem(415, f"Send one of {b', '.join(sorted(_TYPES)).decode()}.")

    def _act(self, scope: Scope, body: IO[bytes] | None) -> Answer:
        """In a thread: everything that takes its time."""
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
                answer = self._create(store, _said(body))
            case ["import"] if method == "POST" and body is not None:
                return self._import(store, body, options)
            case ["export", target] if method in {"GET", "HEAD"}:
                return self._export(store, target, options)
            case ["white" | "black" as name, subject] if subject:
                answer = self._one(store, method, name, parse_subject(subject).text, body)
            case [""] | ["import"] | ["export", _]:
                raise _Problem(405, "Not in this way.")
            case _:
                raise _Problem(404, "There are /lists, /lists/white/..., /lists/black/..., import and export.")
        # So that a change counts when it is answered.
        follower.refresh()
        return answer

    def _show(self, store: ListStore, options: dict[str, str]) -> Answer:
        limit = max(1, min(int(options.get("limit", 100)), _MOST_SHOWN))
        name, _, subject = options.get("after", "").partition("/")
        wanted = ListFilter(
            list=_choice(options, "list", LISTS),
            kind=_choice(options, "of", SUBJECT_KINDS),
            address=parse_subject(options["subject"]).text if options.get("subject") else "",
            author=options.get("author", ""),
            text=options.get("reason", ""),
            in_force_at=None if options.get("ended") else self._clock(),
            after=(name, subject) if subject else None,
            limit=limit + 1,
        )
        found = list(store.read(wanted))
        more = f"{found[limit - 1].list}/{found[limit - 1].subject}" if len(found) > limit else None
        return _json(200, {"entries": [fields_of(entry) for entry in found[:limit]], "next": more})

    def _create(self, store: ListStore, said: _Said) -> Answer:
        if said.list is None or said.subject is None:
            raise _Problem(400, "Name the list and the subject.")
        entry = self._entry(said, said.list, parse_subject(said.subject).text)
        if not store.add(entry):
            raise _Problem(409, f"{entry.subject} is on the {entry.list} list already.")
        return _json(201, fields_of(entry))

    def _one(self, store: ListStore, method: str, name: ListName, subject: str, body: IO[bytes] | None) -> Answer:
        if method == "PUT":
            entry = self._entry(_said(body), name, subject)
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
            said = _said(body)
            found = msgspec.structs.replace(
                found,
                reason=found.reason if said.reason is None else clean_text(said.reason),
                author=found.author if said.author is None else clean_text(said.author),
                until=said.end(self._clock(), found.until),
            )
            store.put([found])
        return _json(200, fields_of(found))

    def _entry(self, said: _Said, name: ListName, subject: str) -> Listing:
        now = self._clock()
        return Listing(
            name, subject, clean_text(said.reason or ""), clean_text(said.author or ""), now, said.end(now, 0.0)
        )

    def _import(self, store: ListStore, body: IO[bytes], options: dict[str, str]) -> Answer:
        now, author = self._clock(), clean_text(options.get("author", ""))
        length = options.get("for")
        until = now + parse_duration(length) if length else parse_time(options.get("until"))
        defaults = Defaults(
            now, _choice(options, "list", LISTS) or "black", clean_text(options.get("reason", "")), author, until
        )
        replacing = author if options.get("replace") else ""
        if options.get("replace") and not author:
            raise _Problem(400, "To replace what an author entered, name the author.")
        with open(body.fileno(), "rb", closefd=False) as source:
            reading = ListImport(
                source, "body", defaults,
                format=_choice(options, "format", FORMATS), skip_bad=bool(options.get("skip_bad")),
            )  # fmt: skip
            taken = store.put(reading, replacing=replacing)
        faults = msgspec.to_builtins(reading.faults)
        told = {"imported": taken, "format": reading.format, "bad": reading.bad, "faults": faults}
        return _json(200, {**told, "left_out": dict(reading.left_out)})

    def _export(self, store: ListStore, target: str, options: dict[str, str]) -> Answer:
        chosen = next((each for each in TARGETS if each == target), None)
        if chosen is None:
            raise _Problem(404, f"There are {', '.join(TARGETS)}.")
        now = self._clock()
        name: ListName | None = _choice(options, "list", LISTS) or ("black" if chosen == "plain" else None)
        out = _spool()
        for piece in write(chosen, store.read(ListFilter(list=name, in_force_at=now)), at=now):
            out.write(piece.encode())
        out.seek(0)
        return 200, _KINDS.get(target, b"text/plain; charset=utf-8"), out


def _spool() -> IO[bytes]:
    """A place for what may be long: not in memory."""
    return tempfile.TemporaryFile()


async def _body(receive: Receive) -> IO[bytes]:
    body, size = _spool(), 0
    message: Message = {"more_body": True}
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            body.close()
            raise _Problem(400, "The body has no end.")
        piece = message.get("body", b"")
        size += len(piece)
        if size > _LARGEST:
            body.close()
            raise _Problem(413, f"At most {_LARGEST:,} bytes; more with hedgerow lists import.")
        body.write(piece)
    body.seek(0)
    return body


def _said(body: IO[bytes] | None) -> _Said:
    text = body.read(_SMALL) if body is not None else b""
    return msgspec.json.decode(text, type=_Said)


def _choice(options: dict[str, str], name: str, choices: tuple[Any, ...]) -> Any:
    value = options.get(name)
    if value and value not in choices:
        raise _Problem(400, f"{name} is one of {', '.join(choices)}.")
    return value or None


def _json(status: int, value: object) -> Answer:
    return status, JSON, msgspec.json.encode(value)
