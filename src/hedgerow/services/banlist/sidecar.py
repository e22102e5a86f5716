"""
The sidecar: a ban-list client for servers that are not written in Python.

    /auth    200 lets in, anything else is the answer; from the local lists, without a network call

The front asks as it would ask `hedgerow serve` (`forward_auth`), or only mirrors its requests here and looks into a
file (`files`): either way each request is a visit for the server.
"""

from __future__ import annotations

import logging

from hedgerow.services.banlist.client import Client
from hedgerow.services.banlist.middleware import asked_by
from hedgerow.services.forward_auth import asked_in, fault_in, say_plainly
from hedgerow.web.asgi_types import Receive, Scope, Send

log = logging.getLogger(__name__)

_NO_PATH_OF_OURS = "/auth"


class Sidecar:
    """Answers fronts that the *client* trusts."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            self._client.start()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self._client.close()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            await self._http(scope, send)

    async def _http(self, scope: Scope, send: Send) -> None:
        peer = scope.get("client")
        if not self._client.trusts(peer[0] if peer else ""):
            await say_plainly(send, 403, b"Only for servers that --trust names.\n")
            return
        told = asked_in(scope, _NO_PATH_OF_OURS)
        if told is None or scope["path"] != "/auth":
            await say_plainly(send, 404, b"There is /auth.\n")
        elif fault := fault_in(told):
            await say_plainly(send, 400, fault.encode() + b"\n")
        else:
            asked = asked_by(self._client, told)
            if self._client.lets_in(asked):
                self._client.answered(asked, 0)
                await say_plainly(send, 200, b"", [(b"hedgerow-decision", b"pass")])
                return
            answer = self._client.refusal(asked)
            await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
            await send({"type": "http.response.body", "body": answer.body})
