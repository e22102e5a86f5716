"""The application of `hedgerow serve`: forward-auth for other servers, and the endpoint for ban-list clients."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from hedgerow.services.banlist.endpoint import PATH, BanlistEndpoint
from hedgerow.services.forward_auth import ForwardAuth, forwarded_host
from hedgerow.services.spoe import Spoe
from hedgerow.web.app import Site
from hedgerow.web.asgi_types import Receive, Scope, Send
from hedgerow.web.sites import Sites, host_of


def asked_host(scope: Scope) -> bytes | None:
    """Return the host that a visitor asked for; None for requests of ban-list clients."""
    return None if scope["type"] != "http" or scope["path"].startswith(PATH) else forwarded_host(scope)


class DecisionService:
    """*sites* are all sites of the process, if there may be several: HAProxy asks for any of them."""

    def __init__(
        self,
        site: Site,
        clock: Callable[[], float] = time.time,
        *,
        spoe: socket.socket | None = None,
        sites: Sites | None = None,
    ) -> None:
        self._sites = sites
        self.auth = ForwardAuth(site=site, clock=clock)
        self.banlist = BanlistEndpoint(site, clock)
        self.spoe = Spoe(self.question, lambda peer: site.app.gate.identifier.trusts(peer))  # noqa: PLW0108 - reload
        self._spoe_socket = spoe

    async def question(self, request: Scope) -> str:
        """Decide on a request: see `ForwardAuth.question`."""
        found = self._sites.app_for(host_of(request)) if self._sites is not None else self
        return await (found if isinstance(found, ForwardAuth) else self.auth).question(request)

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
