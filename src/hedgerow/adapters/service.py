"""The application of `hedgerow serve`: forward-auth for servers that ask, and the lists for ban-list clients."""

from __future__ import annotations

import time
from collections.abc import Callable

from hedgerow.adapters.asgi_types import Receive, Scope, Send
from hedgerow.adapters.banlist.desk import PATH, Desk
from hedgerow.adapters.forward_auth import ForwardAuth
from hedgerow.adapters.site import Site


class Service:
    """Who asks for a path of the ban-list clients goes to the desk, everybody else to forward-auth."""

    def __init__(self, site: Site, clock: Callable[[], float] = time.time) -> None:
        self.auth = ForwardAuth(site=site, clock=clock)
        self.desk = Desk(site, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PATH):
            await self.desk(scope, receive, send)
            return
        if scope["type"] == "lifespan":
            self.desk.open()
        try:
            await self.auth(scope, receive, send)
        finally:
            if scope["type"] == "lifespan":
                self.desk.close()
