"""Limit of failed logins: by address, so that nobody can try passwords, and nobody can lock out others."""

from __future__ import annotations

from collections import OrderedDict

from hedgerow.core.address import parse_address, prefix_of

FAILURES = 5
SECONDS = 900.0
_MAX_ADDRESSES = 10_000


class LoginLimit:
    """Counts failures of the last quarter of an hour by address; an IPv6 network counts as one address."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def wait(self, client: str, now: float) -> float:
        """Return how many seconds a client has to wait, 0 if it may try."""
        recent = [at for at in self._failures.get(_prefix(client), ()) if at > now - SECONDS]
        return recent[-FAILURES] + SECONDS - now if len(recent) >= FAILURES else 0.0

    def fail(self, client: str, now: float) -> None:
        key = _prefix(client)
        recent = [at for at in self._failures.pop(key, ()) if at > now - SECONDS]
        self._failures[key] = [*recent, now]
        while len(self._failures) > _MAX_ADDRESSES:
            self._failures.popitem(last=False)

    def succeed(self, client: str) -> None:
        self._failures.pop(_prefix(client), None)


def _prefix(client: str) -> str:
    address = parse_address(client)
    return prefix_of(address) if address else client
