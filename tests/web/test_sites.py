"""Several sites in one process: which one a host belongs to, what they share, and the middlewares."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from driving import settings
from hedgerow.challenge.clearance import Clearances
from hedgerow.core.decision import Block, Evidence
from hedgerow.core.visit import Visit
from hedgerow.errors import SettingsError
from hedgerow.markers.token import Key, TokenCodecs
from hedgerow.services.decision_service import DecisionService, asked_host
from hedgerow.services.forward_auth import ForwardAuth
from hedgerow.settings import Settings
from hedgerow.web import wsgi
from hedgerow.web.app import Site
from hedgerow.web.asgi import Hedgerow
from hedgerow.web.asgi_types import AsgiApp
from hedgerow.web.sites import HostTable, Sites, settings_of_site

TWO = """
directory = "{folder}"
unknown_hosts = "refuse"
[state]
durable = false
[[site]]
name = "shop"
hosts = ["shop.test", "*.shop.test"]
[site.policy]
suspects = "refuse"
[[site]]
name = "blog"
hosts = ["blog.test"]
observe = true
"""
AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"


@pytest.fixture
def two(tmp_path: Path) -> Settings:
    return settings(TWO.format(folder=tmp_path))


async def page(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
    await send({"type": "http.response.body", "body": b"<p>" + dict(scope["headers"])[b"host"]})


async def ask(
    app: AsgiApp,
    host: str,
    path: str = "/",
    *headers: tuple[bytes, bytes],
    kind: str = "http",
    peer: str = "192.0.2.1",
    headers_too: bool = False,
) -> Any:
    """Status and body of a request for *host*."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": kind, "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "scheme": "http",
        "http_version": "1.1", "client": (peer, 1), "extensions": {},
        "headers": [(b"host", host.encode()), (b"user-agent", AGENT.encode()), (b"accept", b"text/html"), *headers],
    }  # fmt: skip
    await app(scope, receive, send)
    if kind == "websocket":
        return sent[0]["type"], sent[0].get("code")
    if headers_too:
        return sent[0]["status"], dict(sent[0]["headers"])
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (b"a.example", "exact"),
        (b"A.EXAMPLE:8080", "exact"),
        (b"a.example.", "exact"),
        (b"b.a.example", "below"),
        (b"c.b.a.example:1", "below"),
        (b"x.deep.a.example", "deep"),
        (b"deep.a.example", "below"),
        (b"ba.example", "other"),
        (b"[2001:db8::1]:80", "six"),
        (b"[2001:db8::1]", "six"),
        (b"", "other"),
        (b".a.example", "other"),
        (b"x" * 300 + b".a.example", "other"),
        (b"\xff.example", "other"),
    ],
)
def test_the_most_exact_name_has_a_host(host, expected):
    hosts = {"a.example": "exact", "*.a.example": "below", "*.deep.a.example": "deep", "[2001:db8::1]": "six"}
    assert HostTable(hosts, "other").find(host) == expected


def test_a_site_has_its_settings_and_a_directory_of_its_own(two, tmp_path):
    assert settings_of_site(two, "shop").directory == str(tmp_path / "sites" / "shop")
    assert settings_of_site(two, "") is settings_of_site(two, "default") is two
    with pytest.raises(SettingsError) as error:
        settings_of_site(two, "shpo")
    assert error.value.faults == ("there is no site 'shpo'; there are default, shop, blog",)


def test_the_asgi_middleware_decides_for_each_host_apart(two):
    app = Hedgerow(page, settings=two)
    try:
        assert asyncio.run(ask(app, "www.shop.test"))[0] == 200
        assert asyncio.run(ask(app, "other.test")) == (421, b"This host is not served here.\n")
        assert asyncio.run(ask(app, "other.test", kind="websocket")) == ("websocket.close", 1008)
        shop = app.all_sites()["shop"]
        evidence = Evidence("administrator", "administrator", 1.0, "By hand.")
        now = time.time()
        shop.stores.state.commit(Block("192.0.2.1", "192.0.2.1", now, now + 60, "refuse", evidence))
        assert asyncio.run(ask(app, "shop.test"))[0] == 403
        assert asyncio.run(ask(app, "blog.test"))[0] == 200
    finally:
        app.close()
    assert all(site.closed for site in app.all_sites().values())


def test_the_wsgi_middleware_decides_for_each_host_apart(two):
    def application(environ: Any, start: Any) -> list[bytes]:
        start("200 OK", [("content-type", "text/html")])
        return [environ["HTTP_HOST"].encode()]

    app = wsgi.Hedgerow(application, settings=two)

    def get(host: str) -> str:
        said: list[str] = []
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "HTTP_HOST": host, "REMOTE_ADDR": "192.0.2.1",
                   "HTTP_USER_AGENT": AGENT, "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http"}  # fmt: skip
        answer = app(environ, lambda status, *_: said.append(status))
        list(answer)
        answer.close()  # type: ignore[attr-defined]
        return said[0][:3]

    try:
        assert [get(host) for host in ("shop.test", "blog.test", "other.test")] == ["200", "200", "421"]
    finally:
        app.close()


def test_a_clearance_for_one_host_is_worth_nothing_at_another_even_with_the_same_keys():
    clearances = Clearances(TokenCodecs([Key(1, bytes(range(64)), 0.0)]))
    at_shop, at_blog = (
        Visit(
            at=1000.0, address="192.0.2.1", visitor="192.0.2.1", prefix="192.0.2.1", method="GET", target="/", host=host
        )
        for host in ("shop.test", "blog.test")
    )
    value, _ = clearances.issue(at_shop, "work", 1000.0)
    assert clearances.check(value, at_shop, 1001.0).grade == "good"
    assert clearances.check(value, at_blog, 1001.0).grade == "none"


def test_each_site_has_keys_of_its_own(two, tmp_path):
    app = Hedgerow(page, settings=two)
    app.close()
    keys = {(tmp_path / part / "hedgerow.key").read_text() for part in (".", "sites/shop", "sites/blog")}
    assert len(keys) == 3


def test_a_reload_that_fails_at_one_site_changes_none(two, tmp_path):
    default = Site(two)
    sites = Sites(two, default, make_application=lambda _, site, __: Hedgerow(page, site=site))
    try:
        before = {name: site.app for name, site in sites.all().items()}
        more = '[[site]]\nname = "wiki"\nhosts = ["wiki.test"]\n'
        (tmp_path / "sites" / "wiki").write_text("a file in the way of its directory")
        with pytest.raises(Exception, match="wiki"):
            sites.reload(settings(TWO.format(folder=tmp_path) + more))
        assert {name: site.app for name, site in sites.all().items()} == before
        (tmp_path / "sites" / "wiki").unlink()
        sites.reload(settings(TWO.format(folder=tmp_path) + more))
        assert list(sites.all()) == ["default", "shop", "blog", "wiki"]
        assert asyncio.run(ask(sites, "wiki.test"))[0] == 200
    finally:
        sites.close()
        default.close()


def test_forward_auth_decides_by_the_host_that_the_front_server_forwards(tmp_path):
    trusted = '[identity]\ntrusted_proxies = ["192.0.2.1"]\n[state]'
    own = settings(TWO.format(folder=tmp_path).replace("[state]", trusted))
    default = Site(own)
    made: list[Any] = []

    def application(_: Settings, site: Site, sites: Sites) -> AsgiApp:
        made.append(ForwardAuth(site=site) if site.name else DecisionService(site, sites=sites))
        return made[-1]  # type: ignore[no-any-return]

    sites = Sites(own, default, make_application=application, host_of=asked_host)
    evidence = Evidence("administrator", "administrator", 1.0, "By hand.")
    now = time.time()
    shop = sites.all()["shop"]
    shop.stores.state.commit(Block("198.51.100.7", "198.51.100.7", now, now + 60, "refuse", evidence))

    def auth(host: str, path: str, *more: tuple[bytes, bytes]) -> tuple[int, dict[bytes, bytes]]:
        about = [(b"x-forwarded-host", host.encode()), (b"x-forwarded-uri", b"/"), (b"x-forwarded-method", b"GET"),
                 (b"x-forwarded-for", b"198.51.100.7"), (b"x-forwarded-proto", b"http")]  # fmt: skip
        return asyncio.run(ask(sites, "front.test", path, *about, *more, headers_too=True))  # type: ignore[no-any-return]

    try:
        assert auth("shop.test", "/auth")[0] == 403
        assert auth("blog.test", "/auth")[0] == 200
        assert auth("other.test", "/auth")[0] == 421
        # The response is fetched in a request of its own, which may come with another host.
        status, headers = auth("shop.test", "/auth/later")
        assert status == 401
        assert headers[b"hedgerow-ref"].startswith(b"shop.")
        assert (
            b"text/html"
            in auth("blog.test", "/answer", (b"x-hedgerow-ref", headers[b"hedgerow-ref"]))[1][b"content-type"]
        )
        assert auth("blog.test", "/auth/later")[0] == 200
        # HAProxy asks by another protocol.
        request = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b"",
                   "scheme": "http", "client": ("198.51.100.7", 1), "headers": [(b"host", b"shop.test")]}  # fmt: skip
        assert asyncio.run(made[0].question(request)).startswith("shop.")
    finally:
        sites.close()
        default.close()
