"""Asks an external provider whether an answer is right, by the "siteverify" request that all providers accept."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from urllib.parse import urlsplit

from hedgerow.challenge.external import Provider, is_confirmed, verify_body
from hedgerow.errors import UpstreamError
from hedgerow.web.http_client.pool import parse_origin, request_once
from hedgerow.web.waiter import Waiter

log = logging.getLogger(__name__)

_OK = 200
_MAX_RESPONSE = 100_000
_MAX_REQUESTS = 8
_HEADERS = [(b"content-type", b"application/x-www-form-urlencoded"), (b"accept", b"application/json")]


class SiteVerify:
    """Sends requests to *provider*, at most eight at a time, each for at most twice *timeout* seconds."""

    def __init__(self, provider: Provider, secret: str, timeout: float) -> None:
        self.provider = provider
        parts = urlsplit(provider.verify)
        self._origin = parse_origin(f"{parts.scheme}://{parts.netloc}")
        self._target = ((parts.path or "/") + (f"?{parts.query}" if parts.query else "")).encode()
        self._secret = secret
        self._timeout = timeout
        self._asking = 0

    async def confirms(self, answer: str, client: str, waiter: Waiter) -> bool | None:
        """Return whether the answer is right; None if the provider does not say so in time."""
        if not answer:
            return False
        if self._asking >= _MAX_REQUESTS:
            # A provider that hangs must not take all threads of a server with it.
            return None
        self._asking += 1
        try:
            return await waiter.run_coroutine(partial(self._ask, answer, client))
        except (UpstreamError, OSError, TimeoutError, ValueError) as error:
            log.warning("the provider of challenges at %s does not answer: %s", self._origin, error or "timed out")
            return None
        finally:
            self._asking -= 1

    async def _ask(self, answer: str, client: str) -> bool | None:
        async with asyncio.timeout(2 * self._timeout):
            headers = [(b"host", self._origin.authority), *_HEADERS]
            body = verify_body(self._secret, answer, client)
            response, received = await request_once(
                self._origin, b"POST", self._target, headers, body, seconds=self._timeout, limit=_MAX_RESPONSE
            )
            return is_confirmed(received) if response.status == _OK else None
