"""
The API of the service that runs, for commands.

Commands ask the service that uses their directory, if they can log in at its admin listener: with the token of the
settings, or without any login on this machine. They cannot log in with a password. In all other cases they use the
files and databases of the service themselves, so they also work while it is down: see `connect_service`.

Large answers come in parts, so that the process that serves visitors is never busy for long.
"""

from __future__ import annotations

import http.client
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
import typer

from hedgerow.core.address import is_loopback
from hedgerow.core.attack import ATTACK_KEY
from hedgerow.core.decision import Block, Campaign, VisitorScore
from hedgerow.errors import HedgerowError, StoreError
from hedgerow.lists.model import Listing, clean_text
from hedgerow.lists.sql_store import ListFilter
from hedgerow.logs.formats import readable
from hedgerow.settings import Settings
from hedgerow.settings.checks import socket_path, split_listen
from hedgerow.settings.tables import AdminSettings
from hedgerow.web.audit import command_user
from hedgerow.web.dashboard.resource_types import Entries, FoundDecision, Service, StateRow, StateRows, StoredCampaigns
from hedgerow.web.paths import state_directory
from hedgerow.web.run_file import RunRecord, find_running

T = TypeVar("T")

_API = "/api/v1"
_TIMEOUT = 10.0
_MAX_RESPONSE = 1 << 28
_ROWS_AT_ONCE = 500
_UNITS = (("d", 86_400), ("h", 3600), ("m", 60))
_OK, _UNAUTHORIZED, _UNKNOWN, _NOT_NOW = 200, 401, 404, 409
_REFUSED = frozenset({400, 413, 422})
_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - what a listener may be bound to
_NO_PASSWORD = "; set token in [admin]: commands cannot log in with a password"  # noqa: S105 - a sentence


IN_USE = "the running Hedgerow uses it"


class _Models(msgspec.Struct):
    reloads: bool


class _SocketFile(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: str, *, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def known_of(rows: Sequence[StateRow]) -> tuple[list[Block], list[tuple[str, VisitorScore]]]:
    """Return the blocks and the scores in *rows*."""
    blocks = [row.block for row in rows if row.block is not None]
    return blocks, [(row.key, row.score) for row in rows if row.score is not None]


class RunningService:
    """The service with the admin listener *admin*; *site* is the name of one of several sites."""

    def __init__(self, admin: AdminSettings, site: str = "") -> None:
        self.changes = 0
        """How many changes the service has made and put into its audit log."""
        self._listen = admin.listen
        self._root = f"/sites/{site}" if site else ""
        self._headers: dict[str, str | bytes] = {"X-Hedgerow-User": clean_text(command_user()).encode()}
        if admin.token:
            self._headers["Authorization"] = f"Bearer {admin.token}"
        if path := socket_path(admin.listen):
            self._connection: http.client.HTTPConnection = _SocketFile(path, timeout=_TIMEOUT)
        else:
            host, port = split_listen(admin.listen)
            host = "127.0.0.1" if host in _ANY_ADDRESS else host
            self._connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)

    def close(self) -> None:
        self._connection.close()

    # ---- Reading

    def check(self, directory: Path) -> bool:
        """Return whether the service only observes. Raises StoreError if it is not the one of *directory*."""
        found = self._get(f"{_API}/service", Service)
        if os.path.realpath(found.directory) != os.path.realpath(directory):
            raise StoreError(f"the admin listener at {self._listen} is of the service with {found.directory}")
        return found.observing

    def state(self) -> tuple[list[Block], list[tuple[str, VisitorScore]]]:
        """Return all blocks and scores."""
        rows = list[StateRow]()
        after: str | None = ""
        while after is not None:
            part = self._get(f"{_API}/state", StateRows, after=after, size=_ROWS_AT_ONCE)
            rows += part.rows
            # The same as before while the service is still making its copy.
            after = part.next
        return known_of(rows)

    def about(self, visitor: str) -> StateRows:
        """Return what is stored about one visitor, and about all at its address."""
        return self._get(f"{_API}/state", StateRows, visitor=visitor)

    def decision(self, **wanted: str) -> FoundDecision | None:
        """Return the decision with a reference, or the last one against a visitor."""
        return self._find(f"{_API}/decision", FoundDecision, **wanted)

    def campaigns(self) -> Sequence[Campaign]:
        """Return all campaigns, the one that was active last at the end."""
        found = list[Campaign]()
        after: str | None = ""
        while after is not None:
            part = self._get(f"{_API}/stored-campaigns", StoredCampaigns, after=after)
            found += part.campaigns
            after = part.next
        return sorted(found, key=lambda campaign: campaign.seen)

    def entries(self, wanted: ListFilter) -> Iterator[Listing]:
        """Yield entries of the lists."""
        left = wanted.limit
        after: str | None = "/".join(wanted.after or ())
        while after is not None and left:
            part = self._get(
                f"{_API}/list-entries", Entries, list=wanted.list or "", kind=wanted.kind or "",
                subject=wanted.subject, address=wanted.address, author=wanted.author, text=wanted.text,
                ended="true" if wanted.in_force_at is None else "", after=after,
                size=min(left, _ROWS_AT_ONCE) if left > 0 else _ROWS_AT_ONCE,
            )  # fmt: skip
            yield from part.entries
            left -= len(part.entries) if left > 0 else 0
            after = part.next

    def read(self, path: str, kind: type[T]) -> T:
        """Return the answer for a path of the admin listener."""
        return self._get(path, kind)

    # ---- Changing

    def order(self, key: str, block: Block | None) -> bool:
        """Block or forgive a key, or set the switch "under attack". Return false if there was nothing to forgive."""
        seconds = format_duration(block.until - block.since) if block is not None else ""
        if key == ATTACK_KEY:
            return self.change("now/attack" if block else "now/end-attack", {"duration": seconds} if block else {})
        if block is None:
            return self.change("visitor/forgive", {"visitor": key})
        if not self.change("visitor/ban", {"visitor": key, "duration": seconds, "reason": block.evidence.text}):
            raise StoreError(f"the service knows no visitor {readable(key)}")
        return True

    def reload(self) -> bool:
        """Let the service read settings, keys, models and addresses of bots again. False: it needs a restart."""
        return self.change("settings/reload", {})

    def change_models(self, change: str, kind: str, *, force: bool) -> bool:
        """Change which models are used. Return whether they are used now, and not only after a restart."""
        fields = {"kind": kind, **({"force": True} if force else {})}
        self._make(f"models/{change}", fields, _REFUSED | {_UNKNOWN, _NOT_NOW})
        return self._get(f"{_API}/models", _Models).reloads

    def add_entry(self, fields: Any) -> bool:
        """Add an entry to a list. Return false if the subject is on the list."""
        return self._make("lists/add", fields, _REFUSED | {_UNKNOWN})

    def change(self, action: str, fields: Any) -> bool:
        """Make a change. Return false if what it is about is not known, or if it is not possible now."""
        return self._make(action, fields, _REFUSED)

    def _make(self, action: str, fields: Any, refused: frozenset[int]) -> bool:
        # A connection that the service has closed meanwhile would leave open whether the change was made.
        self._connection.close()
        with _only_text():
            encoded = msgspec.json.encode(fields)
        status, body = self._ask("POST", f"{_API}/{action}", encoded)
        if status in refused:
            raise HedgerowError(_error_of(body) or self._fault(status))
        if status not in {_OK, _UNKNOWN, _NOT_NOW}:
            raise StoreError(self._fault(status, body))
        self.changes += status == _OK
        return status == _OK

    # ---- HTTP

    def _get(self, path: str, kind: type[T], /, **parameters: str | int) -> T:
        found = self._find(path, kind, **parameters)
        if found is None:
            raise StoreError(self._fault(_UNKNOWN))
        return found

    def _find(self, path: str, kind: type[T], /, **parameters: str | int) -> T | None:
        """Return an answer, or None if there is nothing of that name."""
        with _only_text():
            query = urlencode({name: value for name, value in parameters.items() if value != ""})
        status, body = self._ask("GET", f"{path}?{query}" if query else path)
        if status == _UNKNOWN:
            return None
        if status != _OK:
            raise StoreError(self._fault(status, body))
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.MsgspecError as error:
            raise StoreError(f"the admin listener at {self._listen} does not respond: {error}") from None

    def _ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        headers = {**self._headers, **({"Content-Type": "application/json"} if body is not None else {})}
        more = ""
        try:
            self._connection.request(method, self._root + path, body, headers)
            more = "; the change may have been made" if body is not None else ""
            response = self._connection.getresponse()
            return response.status, response.read(_MAX_RESPONSE)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._connection.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise StoreError(f"the admin listener at {self._listen} does not respond: {reason}{more}") from None

    def _fault(self, status: int, body: bytes = b"") -> str:
        more = ""
        if status == _UNAUTHORIZED:
            more = ", it has another token" if "Authorization" in self._headers else _NO_PASSWORD
        elif said := _error_of(body):
            return said
        return f"the admin listener at {self._listen} does not respond: status {status}{more}"


@contextmanager
def _only_text() -> Iterator[None]:
    """A name on the command line may have bytes that are no text. The names of visitors and of subjects never have."""
    try:
        yield
    except UnicodeEncodeError:
        raise HedgerowError("what is named is not valid text in UTF-8") from None


def format_duration(seconds: float) -> str:
    """
    Return a duration in the largest unit that it is whole in.

    >>> format_duration(7200), format_duration(90), format_duration(604_800)
    ('2h', '90s', '7d')
    """
    whole = round(seconds)
    name, unit = next((pair for pair in _UNITS if whole % pair[1] == 0), ("s", 1))
    return f"{whole // unit}{name}"


def _error_of(body: bytes) -> str:
    """Return what an answer of the API says is wrong."""
    try:
        return msgspec.json.decode(body, type=dict[str, str]).get("error", "")
    except msgspec.MsgspecError:
        return ""


def connect_service(settings: Settings, site: str = "") -> tuple[RunningService, bool] | None:
    """
    Return the service that a command is to ask, and whether it only observes; None if it is to use the files.

    Standard error says so if the service should have answered.
    """
    admin = _admin_of_running(settings)
    if admin is None or not _lets_commands_in(admin):
        return None
    try:
        return _connect(admin, settings, site)
    except StoreError as error:
        typer.echo(readable(f"{error}; using the files of the service instead"), err=True)
        return None


def connect_memory(settings: Settings, site: str = "") -> tuple[RunningService, bool]:
    """Return the service in whose memory the state is, and whether it only observes. Raises StoreError."""
    admin = _admin_of_running(settings) or settings.admin
    if not admin.listen:
        raise StoreError(
            "state.durable is off, so blocks and scores are only in the memory of the service; "
            "set listen in [admin], and commands ask it"
        )
    return _connect(admin, settings, site)


def _connect(admin: AdminSettings, settings: Settings, site: str) -> tuple[RunningService, bool]:
    service = RunningService(admin, site)
    try:
        return service, service.check(state_directory(settings))
    except BaseException:
        service.close()
        raise


def _admin_of_running(settings: Settings) -> AdminSettings | None:
    """Return the settings of the admin listener of the service that uses the directory; None if none runs."""
    for record in _running_with(settings):
        own = record.read_settings()
        if (admin := settings.admin if own is None else own.admin).listen:
            return admin
    return None


def _running_with(settings: Settings) -> Iterator[RunRecord]:
    directory = Path(os.path.realpath(state_directory(settings)))
    return (one for one in find_running()[0] if directory.is_relative_to(os.path.realpath(one.directory)))


def _lets_commands_in(admin: AdminSettings) -> bool:
    """Return whether a command can use the admin listener: with a token, or on this machine without a login."""
    if admin.token or admin.needs_login:
        return bool(admin.token)
    host = "" if socket_path(admin.listen) else split_listen(admin.listen)[0]
    return host in _ANY_ADDRESS or is_loopback(host)


def reload_running(settings: Settings) -> str:
    """Let the service that uses the directory of *settings* read its files again, and return what came of it."""
    if not any(_running_with(settings)):
        return "Hedgerow uses it when it starts"
    if not settings.admin.listen:
        return "send SIGHUP to the running Hedgerow, which has no admin listener"
    try:
        with closing(RunningService(settings.admin)) as service:
            return IN_USE if service.reload() else "restart the application"
    except HedgerowError as error:
        return f"send SIGHUP to the running Hedgerow: {error}"
