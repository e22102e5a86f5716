"""
Health of a site: whether it lives, and whether all parts that it needs work.

    /live    the process answers
    /ready   the protected site, the state, the ledger, the lists and the watch work; else 503 with what does not
    /health  the same as /ready

Failures that threads notice by themselves are read here. The protected site, Redis and PostgreSQL are asked, because
they may fail while nobody visits. Results are kept for a second, so that frequent probes cost nothing.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable
from contextlib import suppress

from hedgerow.errors import StoreError
from hedgerow.web.app import Site
from hedgerow.web.http_client.pool import Origin, parse_origin
from hedgerow.web.stores import import_postgresql

PATHS = frozenset({"/live", "/ready", "/health"})

_KEEP = 1.0
_TIMEOUT = 2.0
_OK, _UNAVAILABLE = 200, 503


class Health:
    """Finds out what is wrong with a site. *upstream* is the protected site, or "" if others ask it."""

    def __init__(self, site: Site, upstream: str = "") -> None:
        self._site = site
        self._origin = parse_origin(upstream) if upstream else None
        self._found: dict[str, str] = {}
        self._found_at = float("-inf")
        self._lock = asyncio.Lock()

    async def answer(self, path: str) -> tuple[int, bytes]:
        """Return status and text for one of `PATHS`."""
        if path == "/live":
            return _OK, b"alive\n"
        problems = await self.problems()
        if not problems:
            is_attacked = self._site.attack_until(time.time()) > 0
            return _OK, b"well, under attack: visitors without a clearance need one\n" if is_attacked else b"well\n"
        lines = [f"failing: {', '.join(problems)}", *(f"{part}: {problem}" for part, problem in problems.items())]
        return _UNAVAILABLE, "".join(f"{line}\n" for line in lines).encode()

    async def problems(self) -> dict[str, str]:
        """Return what does not work, and why."""
        async with self._lock:
            if time.monotonic() - self._found_at > _KEEP:
                self._found = await self._check()
                self._found_at = time.monotonic()
        return self._found

    async def _check(self) -> dict[str, str]:
        site, settings = self._site, self._site.app.settings
        checks: dict[str, Awaitable[str]] = {"state": asyncio.to_thread(site.stores.state.check)}
        if self._origin is not None:
            checks["upstream"] = _connects(self._origin)
        if settings.ledger.enabled and settings.ledger.url:
            checks["ledger"] = asyncio.to_thread(_answers, settings.ledger.url)
        found = dict(zip(checks, await asyncio.gather(*checks.values()), strict=True))
        for process, problems in site.problems_of_workers().items():
            found |= {name: f"{problem} (process {process})" for name, problem in problems.items()}
        return {name: problem for name, problem in (found | site.problems()).items() if problem}


async def _connects(origin: Origin) -> str:
    """Return why no connection to the protected site can be opened, or ""."""
    try:
        async with asyncio.timeout(_TIMEOUT):
            opening = (
                asyncio.open_unix_connection(origin.path) if origin.path
                else asyncio.open_connection(origin.host, origin.port)
            )  # fmt: skip
            _, writer = await opening
    except TimeoutError:
        return f"{origin} does not answer within {_TIMEOUT:g} s"
    except OSError as error:
        # The text of asyncio repeats the address and not the reason.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        return f"{origin} cannot be reached: {reason}"
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return ""


def _answers(url: str) -> str:
    try:
        import_postgresql().connect(url).close()
    except StoreError:
        return "PostgreSQL does not answer; rows wait on disk"
    return ""
