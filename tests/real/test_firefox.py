"""What people do with addresses in Firefox, with links marked as by default."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest

from driving import traps_in

from .firefox import Firefox, Tab
from .servers import Nginx, Protect, wait_for
from .test_marked_browsing import HEAD, PAGES

CONTROL = "\ue009"
POLICIES = {
    "none": "",
    "self": "default-src 'self'; style-src 'unsafe-inline'",
    "inline": "script-src 'self' 'unsafe-inline'",
    "nonce": "script-src 'nonce-abc' 'strict-dynamic'",
    "forbidden": "script-src 'none'",
    "sandbox": "sandbox allow-same-origin",
    "meta": "",
}
"""Content security policies, by a name that is also a folder of the site."""
ARTICLE = "".join(f"<p>{'All about hedges and those who live in them. ' * 12}</p>" for _ in range(6))


@pytest.fixture(scope="module")
def start(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Firefox]]:
    """Start a Firefox with these preferences."""
    running: list[Firefox] = []

    def launch(**preferences: bool | int | str) -> Firefox:
        named = {name.replace("__", "."): value for name, value in preferences.items()}
        folder = tmp_path_factory.mktemp("firefox") / "profile"
        running.append(Firefox(program("firefox-esr"), folder, named))
        return running[-1]

    yield launch
    for one in running:
        one.end()


@pytest.fixture(scope="module")
def firefox(start: Callable[..., Firefox]) -> Firefox:
    return start()


@pytest.fixture(scope="module")
def site(nginx: Callable[..., Nginx], tmp_path_factory: pytest.TempPathFactory) -> Nginx:
    root = tmp_path_factory.mktemp("site")
    policies = "".join(
        f'location /{name}/ {{ add_header Content-Security-Policy "{policy}"; }}\n'
        for name, policy in POLICIES.items()
        if policy
    )
    server = nginx(root, more="location = /favicon.ico { return 204; }\n" + policies)
    pages = {name: text for name, text in PAGES.items() if not name.startswith(("app/", "elsewhere"))}
    pages["docs/read.html"] = f"<article><h1>Hedges</h1>{ARTICLE}<p><a href='b.html'>to B</a></p></article>"
    pages["docs/b.html"] = '<p><a href="read.html">to read</a> <a href="a.html?x=1">to A</a></p>'
    for name in POLICIES:
        pages[f"{name}/index.html"] = '<p><a href="next.html">to Next</a></p>'
        pages[f"{name}/next.html"] = "<p>Here.</p>"
    meta = """<meta http-equiv="Content-Security-Policy" content="script-src 'none'">"""
    for name, text in pages.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        title = {"index.html": "Home"}.get(name, path.stem.title())
        head = HEAD.format(title=title).replace("<head>", "<head>" + meta * name.startswith("meta/"))
        path.write_text(head + text + "</body></html>")
    (root / "docs" / "dot.jpeg").write_bytes(b"")
    return server


@pytest.fixture(scope="module")
def hedgerow(protect: Callable[..., Protect], site: Nginx) -> Protect:
    # All browsers of these tests have one address, and together they go through the site as a crawler does.
    alike = '[containment]\nk1 = 250\n[watch]\npaths = "record"\nwindows = "record"\n'
    return protect(site.url, settings=alike)


def enter(tab: Tab, hedgerow: Protect) -> None:
    """Come to the start page, and go to A from there by a click."""
    tab.goto(hedgerow.url + "/")
    assert tab.title == "Home"
    tab.click("to A")
    tab.wait_for_title("A")


def evidence(hedgerow: Protect, since: int) -> list[str]:
    """What weighs something, of the visits after the first *since* that the ledger has now, but for the driver."""
    found = [one for visit in hedgerow.visits()[since:] for one in json.loads(visit["evidence"])]
    return [one["code"] for one in found if one["weight"] and one["code"] not in {"automation", "webdriver"}]


@pytest.fixture
def since(hedgerow: Protect) -> int:
    """How many visits the ledger has before the test; the ledger is written a little later."""
    hedgerow.ask_admin("/metrics")
    return len(hedgerow.visits())


def test_the_address_bar_back_forward_and_reload(firefox: Firefox, hedgerow: Protect, since: int) -> None:
    with firefox.tab() as tab:
        enter(tab, hedgerow)
        assert tab.url == tab.evaluate("location.href") == hedgerow.url + "/docs/a.html?x=1"
        tab.click("to B")
        tab.wait_for_title("B")
        assert tab.url == hedgerow.url + "/docs/b.html"
        tab.go(-1)
        tab.wait_for_title("A")
        assert tab.url == hedgerow.url + "/docs/a.html?x=1"
        tab.go(-1)
        tab.wait_for_title("Home")
        tab.go(2)
        tab.wait_for_title("B")
        tab.reload()
        assert (tab.title, tab.url) == ("B", hedgerow.url + "/docs/b.html")
    assert hedgerow.blocked() == {}
    wait_for("the ledger", lambda: len(hedgerow.visits()) >= since + 4)
    assert evidence(hedgerow, since) == []


def test_back_and_forward_without_the_page_cache(start: Callable[..., Firefox], hedgerow: Protect, since: int) -> None:
    """Then every page is requested again, at the address without the mark."""
    firefox = start(browser__sessionhistory__max_total_viewers=0, fission__bfcacheInParent=False)
    with firefox.tab() as tab:
        enter(tab, hedgerow)
        tab.click("to B")
        tab.wait_for_title("B")
        for step, title in ((-1, "A"), (-1, "Home"), (1, "A"), (1, "B"), (-1, "A")):
            tab.go(step)
            tab.wait_for_title(title)
        assert tab.url == hedgerow.url + "/docs/a.html?x=1"
    wait_for("the ledger", lambda: len(hedgerow.visits()) >= since + 4)
    assert evidence(hedgerow, since) == []


def test_new_tabs(firefox: Firefox, hedgerow: Protect) -> None:
    with firefox.tab() as tab:
        tab.goto(hedgerow.url + "/")
        for name, title, target, how in (
            ("B apart", "B", "/docs/b.html", {}),
            ("to A", "A", "/docs/a.html?x=1", {"button": 1}),
            ("to A", "A", "/docs/a.html?x=1", {"keys": CONTROL}),
        ):
            before = tab.tabs()
            tab.click(name, **how)
            other = tab.opened(before)
            other.wait_for_title(title)
            assert other.url == hedgerow.url + target
            other.close()


def test_bookmarks_and_shared_addresses(firefox: Firefox, hedgerow: Protect, site: Nginx) -> None:
    """The address that the bar shows is the site's own: it opens for everybody, with Hedgerow and without."""
    with firefox.tab() as tab:
        enter(tab, hedgerow)
        address, copied = tab.url, tab.evaluate("document.links[0].href")
    assert re.fullmatch(re.escape(hedgerow.url) + r"/docs/b\.html\?~=[\w-]{23}\.[\w-]{4}", copied)
    with firefox.tab() as tab:
        tab.goto(address)
        assert (tab.title, tab.url) == ("A", address)
        tab.goto(copied)
        assert (tab.title, tab.url) == ("B", hedgerow.url + "/docs/b.html")
        for url, title in ((address, "A"), (copied, "B")):
            tab.goto(url.replace(hedgerow.url, site.url))
            assert tab.title == title


def test_printing(firefox: Firefox, hedgerow: Protect) -> None:
    with firefox.tab() as tab:
        enter(tab, hedgerow)
        pdf = tab.print()
        there = set(tab.evaluate("[...document.links].map(link => link.href)"))
    printed = {address.decode() for address in re.findall(rb"/URI \(([^)]*)\)", unpacked(pdf))}
    assert printed
    assert printed <= there
    assert not [address for address in printed if hedgerow.is_trap(address)], "a hidden link was printed"


def unpacked(pdf: bytes) -> bytes:
    """The packed parts of a PDF."""
    starts = [found.end() for found in re.finditer(rb"FlateDecode[^>]*>>\s*stream\r?\n", pdf)]
    return b"".join(zlib.decompressobj().decompress(pdf[start:]) for start in starts)


def test_reader_view(firefox: Firefox, hedgerow: Protect) -> None:
    """It fetches the page again by the address that the bar shows."""
    with firefox.tab() as tab:
        tab.goto(hedgerow.url + "/docs/b.html")
        tab.click("to read")
        tab.wait_for_title("Read")
        address = tab.url
        assert address == hedgerow.url + "/docs/read.html"
        source = tab.evaluate("document.documentElement.outerHTML").encode()
        assert traps_in(source)
        tab.goto("about:reader?url=" + quote(address, safe=""))
        wait_for("the article", lambda: tab.evaluate("document.querySelectorAll('.moz-reader-content p').length") > 5)
        # It knows no styles, and drops hidden links by what they are.
        words, links = tab.evaluate(
            "[document.body.innerText, [...document.querySelectorAll('.moz-reader-content a')].map(a => a.textContent)]"
        )
        assert words.count("All about hedges") == ARTICLE.count("All about hedges")
        assert links == ["to B"], "a hidden link is there"
    assert hedgerow.blocked() == {}


@pytest.mark.parametrize("name", POLICIES)
def test_policies_of_the_site(name: str, firefox: Firefox, hedgerow: Protect) -> None:
    """The mark disappears wherever scripts may run; in a sandbox without scripts it stays, and does no harm."""
    with firefox.tab() as tab:
        tab.goto(f"{hedgerow.url}/{name}/index.html")
        tab.click("to Next")
        wait_for("the next page", lambda: f"/{name}/next.html" in tab.url)
        plain = f"{hedgerow.url}/{name}/next.html"
        if name == "sandbox":
            assert re.fullmatch(re.escape(plain) + r"\?~=[\w-]{23}\.[\w-]{4}", tab.url)
        else:
            wait_for("the address without its mark", lambda: tab.url == plain)


def test_without_javascript(start: Callable[..., Firefox], hedgerow: Protect) -> None:
    """The mark is shown; the page opens again by it, and by the address without it."""
    firefox = start(javascript__enabled=False)
    with firefox.tab() as tab:
        tab.goto(hedgerow.url + "/")
        tab.click_node("a", "to A")
        wait_for("the next page", lambda: "/docs/a.html?x=1&~=" in tab.url)
        tab.reload()
        assert "/docs/a.html?x=1&~=" in tab.url
        assert tab.nodes("h1", "A")
        tab.goto(tab.url.partition("&~=")[0])
        assert tab.nodes("h1", "A")
    assert hedgerow.blocked() == {}


def test_without_cookies(start: Callable[..., Firefox], hedgerow: Protect, since: int) -> None:
    firefox = start(network__cookie__cookieBehavior=2)
    with firefox.tab() as tab:
        enter(tab, hedgerow)
        tab.click("to B")
        tab.wait_for_title("B")
        assert tab.url == hedgerow.url + "/docs/b.html"
        assert tab.evaluate("document.cookie") == ""
    wait_for("the ledger", lambda: len(hedgerow.visits()) >= since + 3)
    # That it keeps no cookies weighs a little at each visit, and never adds up.
    assert set(evidence(hedgerow, since)) <= {"cookie-refused"}
    assert {visit["action"] for visit in hedgerow.visits()[since:]} == {"pass"}
