"""The application of `hedgerow serve`: forward-auth for other servers, and the endpoint for ban-list clients."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from hedgerow.services.banlist.endpoint import PATH, BanlistEndpoint
from hedgerow.services.forward_auth import ForwardAuth
from hedgerow.services.spoe import Spoe
from hedgerow.web.app import Site
from hedgerow.web.asgi_types import Receive, Scope, Send


class DecisionService:
    def __init__(
        self, site: Site, clock: Callable[[], float] = time.time, *, spoe: socket.socket | None = None
    ) -> None:
        self.auth = ForwardAuth(site=site, clock=clock)
        self.banlist = BanlistEndpoint(site, clock)
        self.spoe = Spoe(self.auth.question, lambda peer: site.app.gate.identifier.trusts(peer))  # noqa: PLW0108 - reload
        self._spoe_socket = spoe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PATH):
            await self.banlist(scope, receive, send)
            return
        if scope["type"] != "lifespan":
            await self.auth(scope, receive, send)
            return
        self.banlist.open()
        if self._spoe_socket is not None:
            await self.spoe.start(self._spoe_socket)
        try:
            await self.auth(scope, receive, send)
        finally:
            await self.spoe.close()
            self.banlist.close()
