"""
One verdict whatever the form: the same scripted requests through all five, and the decisions are the same.

What differs is written next to it, and is what docs/deploy.md says: forward-auth and the ban-list client do not see
answers, and the client acts a moment later and can neither challenge nor detain.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from challenge.solver import answers_of
from hedgerow.lists.model import Listing
from hedgerow.services.banlist import change_feed, endpoint, server_link

from .forms import (
    AsgiForm,
    ClientForm,
    DeployedNginx,
    Form,
    ForwardAuthForm,
    Got,
    ProxyForm,
    WsgiForm,
    WsgiServer,
    mint,
    send,
    visitor_cookie,
    wsgi_site,
)
from .servers import free_port, wait_for

ME, OTHER = "127.0.0.20", "127.0.0.30"
FIREFOX = [
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("Accept-Language", "en-US,en;q=0.5"),
    ("Accept-Encoding", "gzip, deflate"),
]
PAGE = ("Sec-Fetch-Mode", "navigate")
"""What it adds for a page, to an address of this machine."""
SMALL = "[policy]\nsuspects = 'refuse'\n[density]\nwindows = [{ count = 3, seconds = 60.0, of = 'pages' }]\n"
UNSEEN = {"forward-auth": {"claimed images", "posts", "forged"}, "client": {"posts", "forged"}}
"""Where a visit turns out to be another kind than it claimed by an answer that this form does not see or read."""
CONTAINED = "[containment]\nenabled = true\nk1 = 2\n"


class Script(NamedTuple):
    """Settings and a play: asks, and so makes the decisions that are compared."""

    name: str
    play: Callable[[Callable[..., Got]], None]
    settings: str = ""
    lists: tuple[Listing, ...] = ()
    observe: bool = False
    identity: str = ""


def person(ask):
    for n in range(4):
        ask(mint("page", ME, f"/item/{n}"), referer="/")


def marked_by_another(ask):
    for n in range(4):
        ask(mint("page", OTHER, f"/item/{n}"))


def trap(ask):
    ask("/")
    ask(mint("trap", ME))
    ask("/item/1")


def trap_of_another(ask):
    ask(mint("trap", OTHER))
    ask("/item/1")


def dense(ask):
    for n in range(6):
        ask(f"/item/{n}", referer="/")


def challenged(ask):
    for n in range(4):
        ask(f"/item/{n}", referer="/")


def cleared(ask):
    for n in range(2):
        ask(f"/item/{n}", referer="/")
    page = ask("/item/3", referer="/")
    if page.status != 403:
        # Nobody is challenged in this form.
        return
    form = [("Content-Type", "application/x-www-form-urlencoded"), ("Origin", "http://shop.example")]
    solved = ask("/.hedgerow/answer", method="POST", more=form, body=urlencode(answers_of(page.body)).encode())
    assert solved.status == 303
    cookie = ("Cookie", solved.headers["set-cookie"].partition(";")[0])
    for n in range(4, 7):
        ask(f"/item/{n}", more=[cookie], referer="/")


def challenged_form(ask):
    """A form by who is to be challenged: the page keeps it where its body came along."""
    for n in range(2):
        ask(f"/item/{n}", referer="/")
    form = [("Content-Type", "application/x-www-form-urlencoded"), ("Origin", "http://shop.example")]
    ask("/comment", method="POST", more=form, body=b"text=hello")


def prefetch(ask):
    for n in range(3):
        ask(f"/item/{n}", more=[("Sec-Purpose", "prefetch")], referer="/")
    ask(mint("trap", ME), more=[("Sec-Purpose", "prefetch")])


def assets(ask):
    for _ in range(8):
        ask("/style.css", referer="/")


def calls(ask):
    for n in range(5):
        ask(f"/api/{n}.json", more=[("X-Requested-With", "XMLHttpRequest")], referer="/")


def heads(ask):
    for n in range(5):
        ask(f"/item/{n}", method="HEAD")


def posts(ask):
    for n in range(5):
        ask(f"/item/{n}", method="POST", body=b"a=1", more=[("Content-Type", "application/x-www-form-urlencoded")])


def good_bot(ask):
    for n in range(6):
        ask(f"/item/{n}", address="127.0.1.7", agent="search/1.0")
    ask(mint("page", ME, "/item/9"), address="127.0.1.7", agent="search/1.0")


def tampered(ask):
    good = mint("page", ME, "/item/1")
    for n in range(3):
        ask(good[:-3] + "AB"[n % 2] + good[-2:])


def enumerated(ask):
    for n in range(12):
        ask(f"/item/{n}")


def accounts(ask):
    for n in range(5):
        ask(f"/item/{n}", more=[("Cookie", "sid=eve")])
    ask("/item/1", more=[("Cookie", "sid=ann")])
    ask("/item/1")


def roaming(ask):
    for n in range(3):
        ask(mint("page", OTHER, f"/item/{n}"), more=[("Cookie", visitor_cookie(OTHER))])


def upgrade(ask):
    ask("/socket", more=[("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
                         ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")])  # fmt: skip


def forged(ask):
    for n in range(3):
        ask(f"/item/{n}", agent="curl/8.0")
        ask(f"/item/{n}", agent="Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0.0.0 Safari/537.36", bare=True)


def one(ask):
    ask("/")


def claimed(ask):
    """Pages, under the claim to be images: only who sees the answer knows better."""
    for n in range(5):
        ask(f"/item/{n}", more=[("Sec-Fetch-Dest", "image"), ("Sec-Fetch-Site", "same-origin")])


SCRIPTS = [
    Script("person", person),
    Script("marked for another", marked_by_another),
    Script("trap", trap),
    Script("trap of another", trap_of_another),
    Script("dense", dense, SMALL),
    Script("challenged", challenged, CONTAINED),
    Script("cleared", cleared, CONTAINED),
    Script("a form challenged", challenged_form, CONTAINED),
    Script("white", dense, SMALL, (Listing("white", "127.0.0.0/24"),)),
    Script("black", one, "", (Listing("black", ME),)),
    Script("black agent", one, "", (Listing("black", "agent:*Firefox*"),)),
    Script("prefetch", prefetch, "[density]\nwindows = [{ count = 2, seconds = 60.0, of = 'prefetches' }]\n"),
    Script("assets", assets, SMALL),
    Script("calls", calls, SMALL),
    Script("heads", heads, SMALL),
    Script("posts", posts, SMALL),
    Script("good bot", good_bot, SMALL,
           identity="[[identity.bots]]\nname = 'search'\nnetworks = ['127.0.1.0/24']\n"),
    Script("tampered", tampered),
    Script("enumerated", enumerated),
    Script("accounts", accounts, SMALL),
    Script("roaming", roaming),
    Script("websocket of who is listed", upgrade, "", (Listing("black", ME),)),
    Script("forged", forged),
    Script("detained", dense, SMALL + "response = 'detain'\n[detain]\nseconds = 0.05\n"),
    Script("observed", dense, SMALL, observe=True),
    Script("claimed images", claimed, SMALL),
]  # fmt: skip


class Play(NamedTuple):
    decisions: list[tuple[str, str]]
    statuses: list[int]
    bodies: list[bytes]


def perform(form: Form, script: Script) -> Play:
    form.use(script.settings, script.lists, observe=script.observe, identity=script.identity)
    got: list[Got] = []

    def ask(target: str, *, address: str = ME, method: str = "GET", more: Any = (), body: bytes = b"",
            referer: str = "", agent: str = "", bare: bool = False) -> Got:  # fmt: skip
        headers = [
            ("User-Agent", agent) if agent and name == "User-Agent" else (name, value) for name, value in FIREFOX
        ]
        headers = headers[:1] if bare else headers
        if not any(name.lower().startswith("sec-fetch-") for name, _ in more):
            headers.append(PAGE)
        if referer:
            headers.append(("Referer", "http://shop.example" + referer))
        answer = form.ask(target, address=address, method=method, headers=[*headers, *more], body=body)
        form.clock.now += 1.0
        got.append(answer)
        return answer

    script.play(ask)
    entries = list(form.entries)
    return Play(
        [(entry.decision.action, entry.decision.code) for entry in entries],
        [answer.status for answer in got],
        [answer.body for answer in got],
    )


@pytest.fixture(scope="module")
def site() -> Iterator[WsgiServer]:
    server = WsgiServer(wsgi_site)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def forms(program, site, tmp_path_factory) -> Iterator[dict[str, Form]]:
    running: list[Form] = []
    patch = pytest.MonkeyPatch()
    # The client and its server look around more often than they would, so that nobody waits for them here.
    patch.setattr(change_feed, "_INTERVAL", 0.02)
    patch.setattr(endpoint, "_INTERVAL", 0.02)
    patch.setattr(server_link, "_BATCH_INTERVAL", 0.02)
    try:
        for make in (
            AsgiForm,
            lambda: ProxyForm(site.port),
            WsgiForm,
            lambda: ForwardAuthForm(program("nginx"), tmp_path_factory.mktemp("nginx"), site.port),
            lambda: ClientForm(tmp_path_factory.mktemp("client")),
        ):
            running.append(make())  # noqa: PERF401 - those that have begun are stopped where the next does not
        yield {form.name: form for form in running}
    finally:
        for form in running:
            form.stop()
        patch.undo()


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.name for script in SCRIPTS])
def test_the_decisions_are_the_same(forms, script):
    plays = {name: perform(form, script) for name, form in forms.items()}
    wanted = plays["asgi"]
    assert len(wanted.decisions) == len(wanted.statuses)
    for name in ("proxy", "wsgi"):
        assert plays[name].decisions == wanted.decisions, name
        assert plays[name].statuses == wanted.statuses, name
    for name in ("forward-auth", "client"):
        decided = plays[name].decisions
        if script.name in UNSEEN[name]:
            # The answer is not seen, or not read: the claim stands.
            assert {action for action, _ in decided} == {"pass"}
        elif script.name == "cleared" and name == "client":
            # There is no challenge to solve.
            assert decided == wanted.decisions[: len(decided)]
            assert len(decided) == 3
        else:
            assert decided == wanted.decisions, name
    auth, client = plays["forward-auth"].statuses, plays["client"].statuses
    if script.name not in UNSEEN["forward-auth"]:
        assert auth == wanted.statuses
    if script.name not in UNSEEN["client"]:
        check_client(script, wanted, client)


class Echo:
    """A site that has nothing but a websocket."""

    def __init__(self) -> None:
        self.server = serve(self._echo, "127.0.0.1", 0)
        self.port = self.server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()

    def _echo(self, connection: ServerConnection) -> None:
        for message in connection:
            connection.send(message)

    def stop(self) -> None:
        self.server.shutdown()
        self._thread.join()


def talk(form: Form, said: str) -> str:
    """One word through a websocket, and what comes back; the status where there is none."""
    known = len(form.entries)
    headers = {name: value for name, value in FIREFOX if name != "User-Agent"}
    url = f"ws://127.0.0.1:{form.port}/socket?a=1"
    try:
        with connect(
            url, source_address=(ME, 0), additional_headers=headers, user_agent_header=FIREFOX[0][1], proxy=None
        ) as socket:
            socket.send(said)
            heard = str(socket.recv(30))
    except InvalidStatus as refused:
        heard = str(refused.response.status_code)
    wait_for("the visit in the ledger", lambda: len(form.entries) > known)
    return heard


def test_a_websocket_passes_and_is_refused_in_every_form_that_has_any(forms, program, tmp_path):
    """Under WSGI there are none. Behind nginx it is the site's own, asked about when it begins."""
    echo = Echo()
    behind: list[Form] = []
    try:
        behind.append(ProxyForm(echo.port))
        behind.append(ForwardAuthForm(program("nginx"), tmp_path, echo.port))
        seen = {}
        for form in (forms["asgi"], *behind, forms["client"]):
            for lists, heard in (((), "hello"), ((Listing("black", ME),), "403")):
                form.use("", lists, observe=False)
                assert talk(form, "hello") == heard, form.name
                entry = form.entries[0]
                told = (entry.decision.action, entry.decision.code, entry.visit.kind, entry.visit.target)
                seen.setdefault(heard, []).append(told)
        assert seen == {
            "hello": [("pass", "", "call", "/socket?a=1")] * 4,
            "403": [("refuse", "list-black", "call", "/socket?a=1")] * 4,
        }
    finally:
        for form in behind:
            form.stop()
        for name in ("asgi", "client"):
            forms[name].rest()
        echo.stop()


def check_client(script: Script, wanted: Play, statuses: list[int]) -> None:
    """
    What the client answers: a refusal from the visit on after the one that led to a block, or at once by the lists.

    What is refused for one visit alone, such as a prefetch, and what is challenged, passes.
    """
    listed = [code.startswith("list-") for _, code in wanted.decisions]
    blocked = False
    for number, ((action, _), status) in enumerate(zip(wanted.decisions, statuses, strict=False)):
        if script.observe or action == "pass":
            assert status == 200, number
        elif listed[number] or blocked:
            assert status in {403, 429}, number
        else:
            assert status == 200, number
            blocked = action in {"refuse", "detain"} and script.name not in {"prefetch", "marked for another", "forged"}


def test_every_kind_of_decision_is_among_them(forms):
    """The scripts are worth something: they are passed, challenged, detained and refused, for many reasons."""
    chosen = ("trap", "cleared", "white", "black", "prefetch", "tampered", "enumerated", "forged", "detained")
    scripts = [script for script in SCRIPTS if script.name in chosen]
    assert len(SCRIPTS) >= 20
    seen = {decision for script in scripts for decision in perform(forms["asgi"], script).decisions}
    assert {action for action, _ in seen} == {"pass", "challenge", "detain", "refuse"}
    assert len({code for _, code in seen}) > 8


def test_a_form_that_was_challenged_is_kept_where_its_body_came_along(forms):
    script = next(script for script in SCRIPTS if script.name == "a form challenged")
    for name in ("asgi", "wsgi", "proxy", "forward-auth"):
        body = perform(forms[name], script).bodies[-1]
        assert b'name="ticket"' in body, name
        assert len(body) > 3000


def test_who_asks_nginx_under_the_names_that_it_sets_gains_nothing(forms):
    """Neither another address, nor another page, nor a refusal of somebody else's."""
    form = forms["forward-auth"]
    form.use(SMALL, (), observe=False)
    for n in range(6):
        lies = [("X-Forwarded-For", f"10.9.8.{n}"), ("X-Forwarded-Uri", "/style.css"), ("X-Hedgerow-Ref", "x"),
                ("X-Forwarded-Method", "POST"), ("X-Forwarded-Host", "other.example")]  # fmt: skip
        got = form.ask(f"/item/{n}", address=ME, headers=[*FIREFOX, PAGE, *lies])
        form.clock.now += 1.0
    assert got.status == 429
    visit = form.entries[0].visit
    assert (visit.address, visit.target, visit.method, visit.host) == (ME, "/item/0", "GET", "shop.example")


def test_nobody_from_outside_reaches_what_is_nginx_s_own(forms):
    form = forms["forward-auth"]
    form.use("", (), observe=False)
    got = send(form.port, "/_hedgerow/auth", address=ME, headers=FIREFOX)
    assert got.status == 404


def test_while_the_service_is_away_nginx_leaves_the_site_open(program, site, tmp_path):
    nginx = DeployedNginx(program("nginx"), tmp_path, "forward-auth.conf", {8090: free_port(), 8000: site.port})
    try:
        assert send(nginx.port, "/item/1", address=ME, headers=FIREFOX).status == 200
    finally:
        nginx.stop()
