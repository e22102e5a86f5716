"""Asks an external provider whether an answer is right, by the form that all of them have."""

from __future__ import annotations

import http.client
import logging
import ssl
from functools import partial
from urllib.parse import urlsplit

from hedgerow.challenge.external import is_confirmed, verify_body
from hedgerow.web.waiter import ON_LOOP, Waiter

log = logging.getLogger(__name__)

_OK = 200
_LARGEST = 100_000
_AT_ONCE = 8


class SiteVerify:
    """Asks at *address*, at most eight at a time, each for at most *timeout* seconds."""

    def __init__(self, address: str, secret: str, timeout: float) -> None:
        self._where = urlsplit(address)
        self._secret = secret
        self._timeout = timeout
        self._waiting = 0

    async def confirms(self, answer: str, client: str, waiting: Waiter = ON_LOOP) -> bool | None:
        """Yes, no, or None where there was no answer in time."""
        if not answer:
            return False
        if self._waiting >= _AT_ONCE:
            # A provider that hangs must not take all our threads with it.
            return None
        self._waiting += 1
        try:
            return await waiting.run(partial(self._ask, answer, client), 2 * self._timeout)
        except (OSError, TimeoutError, http.client.HTTPException, ValueError) as error:
            log.warning("the provider of challenges at %s does not answer: %s", self._where.netloc, error)
            return None
        finally:
            self._waiting -= 1

    def _ask(self, answer: str, client: str) -> bool | None:
        host, port = self._where.hostname or "", self._where.port
        if self._where.scheme == "https":
            context = ssl.create_default_context()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=self._timeout, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=self._timeout)
        try:
            query = f"?{self._where.query}" if self._where.query else ""
            connection.request(
                "POST",
                (self._where.path or "/") + query,
                verify_body(self._secret, answer, client),
                {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"},
            )
            said = connection.getresponse()
            return is_confirmed(said.read(_LARGEST)) if said.status == _OK else None
        finally:
            connection.close()
