"""
Asks the API of a running service, for what files alone cannot do.

Commands use the files and databases of a service themselves, so they also work while it is down. With `state.durable`
off, blocks and scores are in no file. New keys, models and addresses of bots are files that a service reads again only
when it is told to.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hedgerow.core.attack import ATTACK_KEY
from hedgerow.core.decision import Block, Campaign, VisitorScore
from hedgerow.errors import StoreError, UpstreamError
from hedgerow.settings import Settings
from hedgerow.settings.checks import socket_path, split_listen
from hedgerow.web.paths import state_directory
from hedgerow.web.run_file import find_running

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

_TIMEOUT = 10.0
_MAX_RESPONSE = 1 << 28
_OK, _UNKNOWN, _NOT_NOW = 200, 404, 409
_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - what a listener may be bound to


class State(msgspec.Struct, frozen=True):
    """What the admin listener says about the state of a service."""

    observing: bool
    blocks: list[Block]
    scores: list[tuple[str, VisitorScore]]


class RunningService:
    """The service with these settings; *site* is the name of one of several sites."""

    def __init__(self, settings: Settings, site: str = "") -> None:
        self._admin = settings.admin
        self._root = f"/sites/{site}" if site else ""

    def state(self) -> State:
        return self._get("/state", State)

    def blocks(self) -> Sequence[Any]:
        return self._get("/blocks", list[Any])

    def campaigns(self) -> Sequence[Campaign]:
        return self._get("/campaigns", list[Campaign])

    def order(self, key: str, block: Block | None) -> bool:
        """Block or forgive a key, or set the switch "under attack". Return false if there was nothing to forgive."""
        seconds = f"{block.until - block.since:.0f}s" if block is not None else ""
        if key == ATTACK_KEY:
            return self._change("now/attack" if block else "now/end-attack", {"duration": seconds} if block else {})
        if block is None:
            return self._change("visitor/forgive", {"visitor": key})
        return self._change("visitor/ban", {"visitor": key, "duration": seconds, "reason": block.evidence.text})

    def reload(self) -> bool:
        """Let the service read settings, keys, models and addresses of bots again. False: it needs a restart."""
        return self._change("settings/reload", {})

    def _get(self, path: str, kind: type[T]) -> T:
        status, body = self._ask(b"GET", path)
        if status != _OK:
            raise StoreError(self._fault(f"status {status}"))
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.MsgspecError as error:
            raise StoreError(self._fault(str(error))) from None

    def _change(self, action: str, fields: dict[str, str]) -> bool:
        status, _ = self._ask(b"POST", f"/api/v1/{action}", msgspec.json.encode(fields))
        if status not in {_OK, _UNKNOWN, _NOT_NOW}:
            raise StoreError(self._fault(f"status {status}"))
        return status == _OK

    def _ask(self, method: bytes, path: str, body: bytes = b"") -> tuple[int, bytes]:
        from hedgerow.web.http_client.pool import Origin, request_once

        host, port = ("localhost", 80) if socket_path(self._admin.listen) else split_listen(self._admin.listen)
        host = "127.0.0.1" if host in _ANY_ADDRESS else host
        origin = Origin(secure=False, host=host, port=port, path=socket_path(self._admin.listen))
        headers = [(b"host", origin.authority)]
        if self._admin.token:
            headers.append((b"authorization", b"Bearer " + self._admin.token.encode()))
        if body:
            headers.append((b"content-type", b"application/json"))
        asking = request_once(
            origin, method, (self._root + path).encode(), headers, body, seconds=_TIMEOUT, limit=_MAX_RESPONSE
        )
        try:
            response, received = asyncio.run(asking)
        except (UpstreamError, OSError, ValueError) as error:
            raise StoreError(self._fault(str(error))) from None
        return response.status, received

    def _fault(self, reason: str) -> str:
        more = "; set token in [admin]: commands cannot log in with a password" if "status 401" in reason else ""
        return f"the admin listener at {self._admin.listen} does not respond: {reason}{more}"


def reload_running(settings: Settings) -> str:
    """Let the service that uses the directory of *settings* read its files again, and return what came of it."""
    directory = state_directory(settings).absolute()
    if not any(directory.is_relative_to(Path(one.directory)) for one in find_running()[0]):
        return "Hedgerow uses it when it starts"
    if not settings.admin.listen:
        return "send SIGHUP to the running Hedgerow, which has no admin listener"
    try:
        return "the running Hedgerow uses it" if RunningService(settings).reload() else "restart the application"
    except StoreError as error:
        return f"send SIGHUP to the running Hedgerow: {error}"
