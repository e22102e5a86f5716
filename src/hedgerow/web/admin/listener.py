"""
The admin listener of a middleware: a thread with an event loop of its own beside the server of the application.

Several processes of one application share one address. The first of them gets it, and shows what it knows itself.
"""

from __future__ import annotations

import logging
import socket
import threading

import uvicorn

from hedgerow.settings.checks import split_listen
from hedgerow.web.admin.app import Admin
from hedgerow.web.app import Site

log = logging.getLogger("hedgerow")

_PATIENCE = 5.0


class AdminThread:
    """Serves the operator of *site* on the socket *bound*, until it is closed."""

    def __init__(self, site: Site, bound: socket.socket) -> None:
        config = uvicorn.Config(
            Admin(site), interface="asgi3", lifespan="off", log_config=None, access_log=False, proxy_headers=False,
            server_header=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [bound]}, name="hedgerow-admin", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        if self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)


def start_admin(site: Site) -> AdminThread | None:
    """Start the admin listener that the settings name. Without one, the log says why."""
    listen = site.app.settings.admin.listen
    host, port = split_listen(listen)
    family = socket.AF_INET6 if ":" in host or not host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family, dualstack_ipv6=family == socket.AF_INET6 and not host)
    except OSError as error:
        log.warning(
            "no admin listener in this process: cannot listen on %s: %s", listen,
            str(error.strerror).partition(" (while ")[0],
        )  # fmt: skip
        return None
    log.info("overview, health and metrics of this process at %s", listen)
    return AdminThread(site, bound)
