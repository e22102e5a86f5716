"""
The ban-list client: who is asking, what the local lists say of it, and a visit for the server.

    client = Client("https://hedgerow.example:8090", token)
    asked = client.asked(peer, "GET", "/page", headers)
    if asked.decision.action != "pass": ...              # client.refusal(asked) is a whole answer
    client.answered(asked, 200, "text/html")

Nothing here waits for the network. Until the lists have come for the first time everybody passes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from hedgerow.challenge.clearance import COOKIE as CLEARANCE_COOKIE
from hedgerow.core.address import Proxies, parse_address
from hedgerow.core.decision import Decision
from hedgerow.core.request_kind import is_prefetch, kind_claimed, kind_of
from hedgerow.request.account import AccountOf, Accounts
from hedgerow.request.identify import VISITOR_COOKIE
from hedgerow.services.banlist.local_lists import LocalLists
from hedgerow.services.banlist.messages import VisitMessage
from hedgerow.services.banlist.server_link import ServerLink
from hedgerow.web.asgi import new_reference
from hedgerow.web.response_pages import ResponsePage, refusal

RawHeaders = Sequence[tuple[bytes, bytes]]

_LONGEST_VALUE = 2_000
_MOST_HEADERS = 60
# Secrets, and what says who is asking: that is told apart here.
_KEPT_BACK = frozenset({b"authorization", b"proxy-authorization", b"forwarded", b"x-real-ip"})


class ClientRequest(msgspec.Struct, frozen=True):
    """A request, and what the local lists say of it."""

    at: float
    address: str
    account: str
    method: str
    target: str
    scheme: str
    headers: RawHeaders
    decision: Decision


class Client:
    """
    A client of the `hedgerow serve` at *server*, known there by its *token*.

    *trusted_proxies*, *forwarded_header*, *account_cookie*, *account_header* and *account_of* mean what they mean in
    the settings; they must be those of the server. Of cookies only ours, the account's and those in *cookies* are sent.
    With *observe* nobody is refused. It opens its line at the first request, in the process that answers it.
    """

    def __init__(
        self,
        server: str,
        token: str,
        *,
        trusted_proxies: Iterable[str] = (),
        forwarded_header: str = "x-forwarded-for",
        account_cookie: str = "",
        account_header: str = "",
        account_of: AccountOf | None = None,
        cookies: Iterable[str] = (),
        contact: str = "",
        site: str = "",
        queue: int = 10_000,
        ca_file: str = "",
        observe: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.local = LocalLists()
        self.observe = observe
        self._line = partial(ServerLink, server, token, self.local, queue=queue, ca_file=ca_file)
        self.link = self._line()
        self._proxies = Proxies(trusted_proxies, forwarded_header)
        self._accounts = Accounts(cookie=account_cookie, header=account_header, callable_=account_of)
        names = {VISITOR_COOKIE, CLEARANCE_COOKIE, account_cookie.encode(), *(name.encode() for name in cookies)}
        self._cookies = frozenset(names - {b""})
        self._contact = contact
        self._site = site
        self._clock = clock
        self._process = 0
        self._lock = threading.Lock()

    def start(self) -> None:
        """Open the line to the server; again in another process, where a server has divided itself."""
        with self._lock:
            if self._process != os.getpid():
                if self._process:
                    self.link = self._line()
                self._process = os.getpid()
                self.link.start()

    def close(self) -> None:
        self.link.close()

    def trusts(self, peer: str) -> bool:
        """Whether the peer of the connection is a proxy whose word counts."""
        return self._proxies.trusts(peer)

    def asked(self, peer: str, method: str, target: str, headers: RawHeaders, scheme: str = "http") -> ClientRequest:
        """A request, checked against the local lists."""
        if self._process != os.getpid():
            self.start()
        trusted = self._proxies.trusts(peer)
        address = peer
        if trusted:
            name = self._proxies.header.encode()
            told = ",".join(value.decode("latin-1") for key, value in headers if key == name)
            address = self._proxies.client(peer, told)
        elif ":" in peer:
            address = parse_address(peer) or peer
        account = self._accounts.account(headers, trusted=trusted) if self._accounts else ""
        agent = next((value for key, value in headers if key == b"user-agent"), b"").decode("latin-1")
        at = self._clock()
        decision = self.local.check(at, address, account, agent)
        return ClientRequest(at, address, account, method, target, scheme, headers, decision)

    def lets_in(self, asked: ClientRequest) -> bool:
        return asked.decision.action == "pass" or self.observe

    def refusal(self, asked: ClientRequest) -> ResponsePage:
        """The answer to who is not let in. It is written down, too: who goes on asking stays out for longer."""
        fields = dict(asked.headers)
        answer = refusal(
            asked.decision,
            at=asked.at,
            reference=new_reference(),
            contact=self._contact,
            site=self._site or fields.get(b"host", b"").decode("latin-1"),
            accept=fields.get(b"accept", b"").decode("latin-1"),
            kind=kind_claimed(kind_of(asked.method, asked.target), fields, prefetch=is_prefetch(fields)),
            method=asked.method,
        )
        self.answered(asked, answer.status)
        return answer

    def answered(self, asked: ClientRequest, status: int, content: str = "") -> None:
        """Leave a request that was answered to be sent to the server. Never waits."""
        headers = []
        for name, value in asked.headers[:_MOST_HEADERS]:
            if name in _KEPT_BACK or name.startswith(b"x-forwarded-"):
                continue
            kept = self._own_cookies(value) if name == b"cookie" else value
            if kept:
                headers.append((name.decode("latin-1"), kept[:_LONGEST_VALUE].decode("latin-1")))
        seen = VisitMessage(
            asked.at,
            asked.address,
            asked.method,
            asked.target,
            asked.scheme,
            headers,
            status,
            content,
            asked.account,
        )
        self.link.add(seen)

    def _own_cookies(self, value: bytes) -> bytes:
        pairs = (pair.strip() for pair in value.split(b";"))
        return b"; ".join(pair for pair in pairs if pair.partition(b"=")[0] in self._cookies)
