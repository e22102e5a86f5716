"""The application of `hedgerow serve`: forward-auth for servers that ask, and the lists for ban-list clients."""

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
    """Who asks for a path of the ban-list clients goes to the desk, everybody else to forward-auth."""

    def __init__(
        self, site: Site, clock: Callable[[], float] = time.time, *, spoe: socket.socket | None = None
    ) -> None:
        self.auth = ForwardAuth(site=site, clock=clock)
        self.desk = BanlistEndpoint(site, clock)
        self._site = site
        self.spoe = Spoe(self.auth.question, self._trusts)
        self._spoe_socket = spoe

    def _trusts(self, peer: str) -> bool:
        """By the settings as they are now: they may be read again."""
        return self._site.app.gate.identifier.trusts(peer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PATH):
            await self.desk(scope, receive, send)
            return
        if scope["type"] != "lifespan":
            await self.auth(scope, receive, send)
            return
        self.desk.open()
        if self._spoe_socket is not None:
            await self.spoe.start(self._spoe_socket)
        try:
            await self.auth(scope, receive, send)
        finally:
            await self.spoe.close()
            self.desk.close()
