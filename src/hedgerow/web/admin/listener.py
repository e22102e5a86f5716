"""
The admin listener of a middleware: a thread with an event loop of its own beside the server of the application.

Several processes of one application share one address. The first of them gets it, and shows what it knows itself.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import uvicorn

from hedgerow.settings.checks import socket_path, split_listen
from hedgerow.settings.sites import DEFAULT
from hedgerow.web.admin.sites import AdminOfSites
from hedgerow.web.app import Site
from hedgerow.web.sites import FixedSites

log = logging.getLogger("hedgerow")

_PATIENCE = 5.0


class AdminThread:
    """Serves the operator of *sites* on the socket *bound*, until it is closed, and then *binding* as well."""

    def __init__(self, sites: Mapping[str, Site], bound: socket.socket, binding: contextlib.ExitStack) -> None:
        self._binding = binding
        config = uvicorn.Config(
            AdminOfSites(FixedSites(sites)), interface="asgi3", lifespan="off", log_config=None, access_log=False,
            proxy_headers=False, server_header=False, timeout_graceful_shutdown=1,
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
        self._binding.close()


@contextlib.contextmanager
def bind_socket_file(path: str) -> Iterator[socket.socket]:
    """Bind a Unix socket that only its owner may use, in place of one that a killed process left; raises OSError."""
    bound = socket.socket(socket.AF_UNIX)
    try:
        if Path(path).is_socket() and not _is_served(path):
            Path(path).unlink()
        earlier = os.umask(0o177)
        try:
            bound.bind(path)
        finally:
            os.umask(earlier)
        bound.listen()
        owner, inode = os.getpid(), Path(path).stat().st_ino
    except OSError:
        bound.close()
        raise
    with bound:
        try:
            yield bound
        finally:
            with contextlib.suppress(OSError):
                # Not in a forked process; and another one may have a socket of this name by now.
                if os.getpid() == owner and Path(path).stat().st_ino == inode:
                    Path(path).unlink()


def _is_served(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def _bind(listen: str) -> contextlib.AbstractContextManager[socket.socket]:
    if path := socket_path(listen):
        return bind_socket_file(path)
    host, port = split_listen(listen)
    family = socket.AF_INET6 if ":" in host or not host else socket.AF_INET
    return socket.create_server((host, port), family=family, dualstack_ipv6=family == socket.AF_INET6 and not host)


def start_admin(sites: Mapping[str, Site]) -> AdminThread | None:
    """Start the admin listener that the settings name, for all *sites* by name. Without one, the log says why."""
    listen = sites[DEFAULT].app.settings.admin.listen
    bound = contextlib.ExitStack()
    try:
        server = bound.enter_context(_bind(listen))
    except OSError as error:
        log.warning(
            "no admin listener in this process: cannot listen on %s: %s", listen,
            str(error.strerror).partition(" (while ")[0],
        )  # fmt: skip
        return None
    log.info("dashboard, health and metrics of this process at %s", listen)
    return AdminThread(sites, server, bound)
