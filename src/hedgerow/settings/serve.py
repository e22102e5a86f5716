"""The tables [serve] and [admin]: the service for other servers, and the listener for administrators."""

from __future__ import annotations

from hedgerow.core.settings_table import Faults, Table, positive_faults
from hedgerow.settings.checks import listen_faults, token_faults


class AdminSettings(Table, frozen=True):
    """Health, metrics, overview and lists. *token* authorises programs to read or change the lists."""

    listen: str = ""
    token: str = ""

    def faults(self) -> Faults:
        if self.token:
            yield from token_faults(self.token)
        if self.listen:
            yield from listen_faults("listen", self.listen)


class ListClient(Table, frozen=True):
    """A client of the ban-list service."""

    name: str
    token: str

    def faults(self) -> Faults:
        if not self.name:
            yield "name", "must not be empty"
        yield from token_faults(self.token)


class ServeSettings(Table, frozen=True):
    listen: str = "127.0.0.1:8090"
    spoe: str = ""
    clients: tuple[ListClient, ...] = ()
    pending: int = 10_000

    def faults(self) -> Faults:
        yield from positive_faults(self, "pending")
        yield from listen_faults("listen", self.listen)
        yield from listen_faults("spoe", self.spoe or self.listen)
        for number, client in enumerate(self.clients):
            if any(other.token == client.token for other in self.clients[:number]):
                yield f"clients.{number}.token", "is the token of another client: each client needs its own"
