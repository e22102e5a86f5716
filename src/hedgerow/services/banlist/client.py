"""
The ban-list client: checks requests against the local lists, and sends visits to the server.

    client = Client("https://hedgerow.example:8090", token)
    asked = client.asked(peer, "GET", "/page", headers)
    if asked.decision.action != "pass": ...              # client.refusal(asked) is a whole response
    client.answered(asked, 200, "text/html")

Nothing here waits for the network. Until the lists have arrived for the first time, every visitor passes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from hedgerow.challenge.clearance import COOKIE as CLEARANCE_COOKIE
from hedgerow.challenge.clearance import own_cookie
from hedgerow.core.address import Proxies, parse_address
from hedgerow.core.decision import Decision
from hedgerow.core.request_kind import is_prefetch, kind_claimed, kind_of
from hedgerow.request.account import AccountOf, Accounts
from hedgerow.request.identify import VISITOR_COOKIE
from hedgerow.services.banlist.local_lists import LocalLists
from hedgerow.services.banlist.messages import VisitMessage
from hedgerow.services.banlist.server_link import ServerLink
from hedgerow.web.asgi import new_reference
from hedgerow.web.response_pages import PageRequest, ResponsePage, refusal

RawHeaders = Sequence[tuple[bytes, bytes]]

_MAX_VALUE_LENGTH = 2_000
_MAX_HEADERS = 60
# Secrets, and headers about the visitor's address, which the client evaluates itself.
_NOT_SENT = frozenset({b"authorization", b"proxy-authorization", b"forwarded", b"x-real-ip"})


class ClientRequest(msgspec.Struct, frozen=True):
    """A request, and the decision of the local lists."""

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
    A client of the `hedgerow serve` at *server*, which knows it by its *token*.

    *trusted_proxies*, *forwarded_header*, *account_cookie*, *account_header* and *account_of* are as in the settings,
    and must equal those of the server. Only Hedgerow's own cookies, the account's and those in *cookies* are sent. With
    *observe* no request is refused. The client connects at the first request, in the process that handles it.
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
        self._new_link = partial(ServerLink, server, token, self.local, queue=queue, ca_file=ca_file)
        self.link = self._new_link()
        self._proxies = Proxies(trusted_proxies, forwarded_header)
        self._accounts = Accounts(cookie=account_cookie, header=account_header, callable_=account_of)
        own = {own_cookie(name, secure=s) for name in (VISITOR_COOKIE, CLEARANCE_COOKIE) for s in (False, True)}
        names = {*own, account_cookie.encode(), *(name.encode() for name in cookies)}
        self._cookies = frozenset(names - {b""})
        self._contact = contact
        self._site = site
        self._clock = clock
        self._process = 0
        self._lock = threading.Lock()

    def start(self) -> None:
        """Connect to the server, once in each process if the application's server forks."""
        with self._lock:
            if self._process != os.getpid():
                if self._process:
                    self.link = self._new_link()
                self._process = os.getpid()
                self.link.start()

    def close(self) -> None:
        self.link.close()

    def trusts(self, peer: str) -> bool:
        """Return whether the peer of a connection is a trusted proxy."""
        return self._proxies.trusts(peer)

    def asked(self, peer: str, method: str, target: str, headers: RawHeaders, scheme: str = "http") -> ClientRequest:
        """Check a request against the local lists."""
        if self._process != os.getpid():
            self.start()
        trusted = self.trusts(peer)
        address = peer
        if trusted:
            name = self._proxies.header.encode()
            forwarded = ",".join(value.decode("latin-1") for key, value in headers if key == name)
            address = self._proxies.client(peer, forwarded)
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
        """Return the response to a refused request. The visit is sent, too, so that its block grows."""
        fields = dict(asked.headers)
        accept = fields.get(b"accept", b"").decode("latin-1")
        kind = kind_claimed(kind_of(asked.method, asked.target), fields, prefetch=is_prefetch(fields))
        request = PageRequest(accept, kind, asked.method, new_reference(), self._contact)
        site = self._site or fields.get(b"host", b"").decode("latin-1")
        page = refusal(asked.decision, request, at=asked.at, site=site)
        self.answered(asked, page.status)
        return page

    def answered(self, asked: ClientRequest, status: int, content: str = "") -> None:
        """Queue the visit of a request for the server. Never waits."""
        headers = []
        for name, value in asked.headers[:_MAX_HEADERS]:
            if name in _NOT_SENT or name.startswith(b"x-forwarded-"):
                continue
            sent = self._own_cookies(value) if name == b"cookie" else value
            if sent:
                headers.append((name.decode("latin-1"), sent[:_MAX_VALUE_LENGTH].decode("latin-1")))
        self.link.add(VisitMessage(
            asked.at, asked.address, asked.method, asked.target, asked.scheme, headers, status, content, asked.account
        ))  # fmt: skip

    def _own_cookies(self, value: bytes) -> bytes:
        pairs = (pair.strip() for pair in value.split(b";"))
        return b"; ".join(pair for pair in pairs if pair.partition(b"=")[0] in self._cookies)
