"""What other programs say: HAProxy by SPOE, ban-list clients and servers, browsers that answer challenges."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec

from attacks.browsers import CHROME, HOST, page_at
from driving import START, Application, Client, Entries, settings
from hedgerow.challenge.form_data import read_form
from hedgerow.services.banlist.endpoint import BanlistEndpoint
from hedgerow.services.banlist.local_lists import LocalLists
from hedgerow.services.banlist.messages import VISITS_PATH, ListMessage
from hedgerow.services.forward_auth import ForwardAuth
from hedgerow.services.spoe import FrameError, Spoe
from hedgerow.web.app import Site

from .registry import target
from .wire import FAULTS, LOOP

QUIET = "".join(
    f"[{name}]\n{what} = false\n" for name, what in (("state", "durable"), ("ledger", "enabled"), ("watch", "enabled"))
)
TOKEN = "a-token-of-a-client-0123456789"
SERVED = QUIET + f'[[serve.clients]]\nname = "shop"\ntoken = "{TOKEN}"\n'
WEAK = "[challenge]\ndifficulty = 50\nhardest = 400\nstore = 'memory'\nkinds = ['work']\n[containment]\nk1 = 1\n"
RENEWED_AFTER = 500
ANSWERS = ("answer", "choose", "task", "clear", "signs")
FROM_HERE = {
    **CHROME, "sec-fetch-site": "same-origin", "referer": HOST + "/",
    "content-type": "application/x-www-form-urlencoded",
}  # fmt: skip


class _Discarding(Entries):
    def append(self, entry: Any) -> None: ...


class _Renewed:
    """Something that is made anew after some hundred runs, so that its memory does not grow."""

    def __init__(self, make: Any) -> None:
        self._make, self._runs, self._made = make, 0, None

    def get(self) -> Any:
        if self._made is None or self._runs % RENEWED_AFTER == 0:
            self._made = self._make(self._made)
        self._runs += 1
        return self._made


def _service(old: Site | None) -> Site:
    if old is not None:
        old.close()
    return Site(settings(SERVED), ledger=_Discarding())


SERVICE = _Renewed(_service)


@target("spoe")
def spoe(data: bytes) -> None:
    """A frame is answered, or a FrameError, which ends the connection of HAProxy."""
    site = SERVICE.get()
    with suppress(FrameError):
        reply = LOOP.run_until_complete(Spoe(ForwardAuth(site=site, clock=lambda: START).question, bool)._reply(data))
        assert int.from_bytes(reply[:4], "big") == len(reply) - 4


@target("banlist-visits")
def banlist_visits(data: bytes) -> None:
    """A batch of visits gets a status, whatever it contains."""
    endpoint = BanlistEndpoint(SERVICE.get(), lambda: START)
    endpoint._feed = object()
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http", "path": VISITS_PATH, "method": "POST", "query_string": b"",
        "headers": [(b"authorization", b"Bearer " + TOKEN.encode())],
    }  # fmt: skip
    LOOP.run_until_complete(endpoint(scope, receive, send))
    assert sent[0]["status"] in {200, 400, 413}, sent


@target("banlist-lines")
def banlist_lines(data: bytes) -> None:
    """A client applies what a server sends, or refuses it as a whole."""
    local = LocalLists()
    with suppress(msgspec.DecodeError, ValueError):
        local.take([msgspec.json.decode(line, type=ListMessage) for line in data.split(b"\n") if line])
    for address in ("192.0.2.1", "2001:db8::1", "", "x"):
        local.check(START, address, "ann", "curl/8")
    local.everything()


def _site(old: Client | None) -> Client:
    if old is not None:
        old.site.close()
    app = Application(react=lambda scope: {"chunks": (page_at(scope["raw_path"].decode("latin-1")),)})
    client = Client(app, WEAK + "[watch]\nenabled = false\n", ledger=_Discarding(), silent=True)
    for number in range(3):
        LOOP.run_until_complete(client.ask(f"/page-{number}", headers=CHROME))
    return client


SITE = _Renewed(_site)


@target("answer")
def answer(data: bytes) -> None:
    """An answer to a challenge, or a report of a browser, gets a response, and never a clearance for nonsense."""
    if not data:
        return
    client = SITE.get()
    client.app.scopes.clear()
    path = "/.hedgerow/" + ANSWERS[data[0] % len(ANSWERS)]
    FAULTS.found.clear()
    asked = client.ask(path, method="POST", headers=FROM_HERE, body=data[1:])
    response = LOOP.run_until_complete(asyncio.wait_for(asked, 10))
    assert 200 <= response.status < 500, response
    assert not FAULTS.found, FAULTS.found[0].getMessage()
    assert not any(name == b"set-cookie" and b"clearance" in value for name, value in response.headers)


@target("form")
def form(data: bytes) -> None:
    """The form of a stopped request is kept or lost, in every coding."""
    media, _, body = data.partition(b"\n")
    read_form(media.decode("latin-1"), body)
